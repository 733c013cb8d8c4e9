"""The rule language and its files: what a rule is, how it is read, and the catalogue of all of them."""
