"""A request, and a manifest as a request for each engine in it."""
