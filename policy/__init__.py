"""Decide which vLLM model runner (V1 or V2) a deployment gets, from rules written in YAML.

Data flows in one direction: document → ``request`` → ``facts``, stated or derived by ``intake`` → rules that fire, by
``engine`` → ``decision`` → answer. ``policy.policy`` runs these steps. Nothing here depends on HTTP; ``service`` is the
adapter for it.
"""
