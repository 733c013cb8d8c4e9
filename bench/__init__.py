"""The benchmark: how fast the service is beside what it could be replaced by, measured in one go on one machine."""
