"""Derive facts from deployments and model tables, without running vLLM."""
