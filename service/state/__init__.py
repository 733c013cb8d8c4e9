"""The state of a serving process: the loaded revision and its answers."""
