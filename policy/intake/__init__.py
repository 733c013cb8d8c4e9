"""Deployments as people write them, and what is known of models without asking vLLM."""
