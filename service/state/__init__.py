"""What is served: the loaded revision, its answers, what is recorded of each."""
