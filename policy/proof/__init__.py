"""Proofs about rules by a solver, over all facts that any deployment could have."""
