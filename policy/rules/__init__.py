"""The rule language, the reading of rule files, and the catalogue of all rules."""
