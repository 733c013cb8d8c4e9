"""Derive facts from options and models, one module per topic."""
