"""Text to trees and documents with positions: YAML, JSON, and the fields of a file."""
