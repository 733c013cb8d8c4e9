"""The HTTP adapter of ``policy``: documents in, answers out. It decides nothing itself."""
