"""Edits of a manifest's text: only the spans that change, each verified by reading and deciding again."""
