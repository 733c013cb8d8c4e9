"""How many generated deployments are decided as vLLM itself decides them.

The deployments are new: nobody wrote them down before. Both sides decide each, and the agreements are counted.
"""
