"""From options and models to facts, one topic a module."""
