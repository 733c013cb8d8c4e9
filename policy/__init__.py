"""Decide which vLLM model runner (V1 or V2) a deployment gets, from rules kept as YAML.

The way of the data: document → ``request`` → ``facts`` → ``ruleset`` (``compile``, ``engine``) →
``ruling`` → ``decision`` → answer. Nothing here knows HTTP; ``service`` is the adapter for that.
"""
