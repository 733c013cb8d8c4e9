"""Limits of one request, and of what callers share."""
