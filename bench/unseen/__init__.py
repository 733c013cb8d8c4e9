"""Count how many random deployments are decided as vLLM itself decides them.

The deployments were not used to build the derivation of facts.
"""
