"""What vLLM refuses before it chooses the runner: checks as data, the values that they read, and their messages."""
