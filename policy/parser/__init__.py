"""Text to trees and documents, with the place of each thing: YAML, JSON, and the fields of a file."""
