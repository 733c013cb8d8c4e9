"""Parse YAML and JSON into trees and documents with positions, and read the fields of a file."""
