"""Compile rules and encode facts for durable_rules, and run it."""
