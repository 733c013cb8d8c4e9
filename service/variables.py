"""Environment variables that have the settings' prefix but are not settings.

Owns the names that ``serve`` ignores, and the former names of settings. Not here: the settings (``service.settings``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.messages import closest, quoted
from service.settings import PREFIX, SERVICE_PORT, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIABLES_OF_OTHER_COMMANDS: Final = frozenset({"CACHE"})
"""Variables that only other commands read: `runner-policy verify` has ``CACHE``."""
NEW_NAMES: Final[Mapping[str, str]] = {
    "ADMISSION_FAIL": "ADMISSION_FAILURE_POLICY",
    "ADMISSION_OPEN": "ADMISSION_ALLOW_ANONYMOUS",
    "ADMISSION_TIME": "ADMISSION_TIMEOUT",
    "BODY_TIME": "BODY_TIMEOUT",
    "CANDIDATE_SLOTS": "CANDIDATE_CONCURRENCY",
    "CANDIDATE_TIME": "CANDIDATE_TIMEOUT",
    "HUB_TIME": "HUB_TIMEOUT",
    "JOB_SLOTS": "JOB_CONCURRENCY",
    "KEPT_ANSWERS": "CACHE_SIZE",
    "LOG_KEEP_DAYS": "LOG_RETENTION_DAYS",
    "LOG_KEEP_SIZE": "LOG_RETENTION_BYTES",
    "LOG_QUEUE": "LOG_QUEUE_SIZE",
    "LOG_TIME": "LOG_TIMEOUT",
    "OPEN": "ALLOW_ANONYMOUS",
    "RATE": "RATE_LIMIT",
    "RULES_GIT_EVERY": "RULES_GIT_POLL_INTERVAL",
    "RULES_GIT_SIGNERS": "RULES_GIT_ALLOWED_SIGNERS",
    "STOP_TIME": "SHUTDOWN_TIMEOUT",
}
"""The new name for each former name of a setting, to be suggested.

A former name can be spelt more like another setting: ``ADMISSION_OPEN`` is closest to ``ADMISSION_DENY``.
"""
SERVICE_LINK: Final = re.compile(
    r"([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
"""Variables that Kubernetes sets for a Service whose name is or begins with ``runner-policy``.

``SERVICE_PORT`` matches one more, which only its value distinguishes from a misspelt setting.
"""


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """A message for each variable with the prefix that is not known, in the order of their names.

    As for settings, the case of a name does not matter, and a variable with an empty value counts as not set.
    """
    settings = {name.upper() for name in Settings.model_fields}
    for variable, value in sorted(environment.items()):
        name = variable.upper().removeprefix(PREFIX)
        if not variable.upper().startswith(PREFIX) or not value or name in settings | VARIABLES_OF_OTHER_COMMANDS:
            continue
        if SERVICE_LINK.fullmatch(name) or SERVICE_PORT.fullmatch(f"{name}={value}"):
            continue
        suggestion = NEW_NAMES.get(name) or closest(name, settings)
        advice = (
            "`runner-policy serve --help` lists the variables"
            if suggestion is None
            else f"did you mean `{PREFIX}{suggestion}`?"
        )
        yield f"unknown variable {quoted(variable)}; {advice}"
