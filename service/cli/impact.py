"""The command ``impact`` with the decision log as its fleet: ``--log``."""

from __future__ import annotations

import service.cli.fleet_log  # noqa: F401  # it adds the reader of the log
from policy.cli import impact

app = impact.app
