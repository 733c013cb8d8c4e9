"""What bounds one request, and what callers share."""
