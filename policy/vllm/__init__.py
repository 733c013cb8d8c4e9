"""Read vLLM's own releases: to make the model tables, and to verify the rules. No request uses this package."""
