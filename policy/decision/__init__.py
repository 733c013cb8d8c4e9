"""Fired rules to a decision: the ruling, the evaluation, the decision, and its explanation."""
