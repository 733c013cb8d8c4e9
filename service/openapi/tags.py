"""The groups of endpoints in the document; a generated client has a module for each."""

from __future__ import annotations

from typing import Final

DECISIONS: Final = "decisions"
DRY_RUNS: Final = "dry-runs"
ADMISSION: Final = "admission"
IMPACT: Final = "impact"
REQUESTS: Final = "requests"
RULES: Final = "rules"
LOG: Final = "log"
OPERATIONS: Final = "operations"
TAGS: Final = [
    {"name": DECISIONS, "description": "Which model runner a deployment gets, and why."},
    {"name": DRY_RUNS, "description": "Explained decisions, and what candidate rules would change."},
    {"name": IMPACT, "description": "What another vLLM release changes for many deployments."},
    {"name": REQUESTS, "description": "Whether a deployment's runner takes a request."},
    {"name": RULES, "description": "What is loaded: the rules, the releases and the facts that they know."},
    {"name": LOG, "description": "Logged decisions."},
    {"name": ADMISSION, "description": "Kubernetes admission reviews."},
    {"name": OPERATIONS, "description": "Health and metrics."},
]
