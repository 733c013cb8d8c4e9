"""Decide which vLLM model runner (V1 or V2) a deployment gets, from rules kept as YAML.

The data flow: document → ``request`` → ``facts`` → ``engine`` (the fired rules) → ``decision`` (ruling, evaluation,
decision) → answer. Nothing here depends on HTTP; ``service`` adapts it.
"""
