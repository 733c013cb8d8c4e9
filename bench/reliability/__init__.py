"""What the service stands: load while rules change, killed processes, stores that go, hostile input. Each is a command that prints its figures."""
