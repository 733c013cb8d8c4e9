"""What the service withstands: load while rules change, killed processes, lost stores, hostile input.

Each is a command that prints its figures.
"""
