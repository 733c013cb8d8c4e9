"""The benchmark: the speed of the service compared with its alternatives, measured in one run on one machine."""
