"""The rules against vLLM itself: a release's own decision, taken out of its source and run beside the catalogue."""
