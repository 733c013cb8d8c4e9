"""Checks of the service under stress: load while rules change, killed processes, unavailable stores, hostile input.

Each check is a command that prints its figures.
"""
