"""Compare the rules with vLLM itself: the decision is extracted from a release's source and run next to the rules."""
