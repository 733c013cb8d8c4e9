"""Kubernetes admission: a review of the API server → what it is to do with the object."""
