"""The command line that needs no server."""
