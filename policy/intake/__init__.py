"""Derive facts from deployments as users write them, and from tables of models, without running vLLM."""
