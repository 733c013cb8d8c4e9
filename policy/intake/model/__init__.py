"""What is known of a model: its configuration, its class in a release's registry, and where its files come from."""
