"""Limits per request, and on resources that callers share."""
