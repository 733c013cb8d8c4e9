"""Requests for a decision, and the conversion of a manifest to a request for each of its engines."""
