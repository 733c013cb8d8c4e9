"""Parse YAML and JSON within bounds, and read the fields of rule files."""
