"""Metrics, traces, and the service's own log."""
