"""Count how many random deployments are decided as vLLM itself decides them.

The deployments are newly generated: no test or recording contains them.
"""
