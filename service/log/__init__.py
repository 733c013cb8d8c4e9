"""The decision log: every decision with its request, its answer and its metadata."""
