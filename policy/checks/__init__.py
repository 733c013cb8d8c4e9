"""Whether rules may be used: their cases, their mutants, and candidates tried in a process of their own."""
