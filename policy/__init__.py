"""Decide which vLLM model runner (V1 or V2) a deployment gets, from rules kept as YAML.

Data flows in one direction: document → ``request`` → ``facts``, stated or derived by ``intake`` → rules that match, by
``engine`` → ``decision`` → answer. ``policy.policy`` has the order of these steps. Nothing here knows HTTP; ``service``
is the adapter for that.
"""
