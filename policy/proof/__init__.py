"""What can be proved of rules: over all facts that any deployment could have, by a solver."""
