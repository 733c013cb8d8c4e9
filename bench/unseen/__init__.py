"""How many deployments that nobody wrote down before are decided as vLLM itself decides them: drawn, asked of both, counted."""
