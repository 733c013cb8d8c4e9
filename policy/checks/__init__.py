"""Check rules: their validity, cases and mutants, and candidate rules in a separate process."""
