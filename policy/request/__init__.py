"""A request, and a manifest as one request for each engine in it."""
