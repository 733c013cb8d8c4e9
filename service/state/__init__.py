"""The state of the service: the loaded revision, its answers, and the record of each."""
