"""durable_rules: rules compiled to its definitions, facts encoded for it, and the only import of it."""
