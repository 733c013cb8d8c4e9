"""Pins: where deployments set the variable that selects the runner, and what each setting does in a release."""
