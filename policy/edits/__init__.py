"""Changes of a manifest's text: only the spans of what changes, each verified by reading and deciding again."""
