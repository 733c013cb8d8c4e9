"""A model: its configuration, its class in a release's registry, and the sources of its files."""
