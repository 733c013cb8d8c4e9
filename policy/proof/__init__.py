"""Proofs about rules with a solver, for all facts that a deployment could have."""
