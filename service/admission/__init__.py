"""Kubernetes admission: answers the reviews that the API server sends before it creates or changes an object."""
