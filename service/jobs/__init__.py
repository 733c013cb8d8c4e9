"""Requests that may take long, in worker processes that can be ended."""
