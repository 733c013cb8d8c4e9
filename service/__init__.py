"""The HTTP adapter of ``policy``: documents in, answers out. Decides nothing by itself."""
