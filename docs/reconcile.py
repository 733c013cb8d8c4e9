"""One turn of a deployment controller's loop: ask, then roll out, hold, or keep what runs. Standard library only.

``python docs/reconcile.py deployment.json`` prints what a controller would do; the file is a body of
``POST /v1/decisions``. README.md shows ``ask`` and ``reconcile`` as they stand here.
"""
# ruff: noqa: INP001  # an example to read and run, no part of a package

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ATTEMPTS: Final = 4
SECONDS: Final = 2.0


class Refused(Exception):
    """The service does not take the request; asking again would not help."""


class Away(Exception):
    """The service gave no answer."""


@dataclass(frozen=True)
class Plan:
    """What to do: ``roll-out``, ``hold`` the new revision, or ``keep`` the running one.

    ``env`` has the variable as it must be set; where it is empty, the variable is not set at all.
    """

    action: str
    says: list[str]
    env: dict[str, str] = field(default_factory=dict)


def ask(service: str, document: dict[str, Any]) -> dict[str, Any]:
    """The decision. Asks again, later each time, only where that can help: no answer, 429, 5xx."""
    body = json.dumps(document).encode()
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0.1, 0.2) * 2**attempt)  # noqa: S311  # spreads callers; no secret
        request = Request(f"{service}/v1/decisions", body)  # noqa: S310  # the operator's own address
        try:
            with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310  # the operator's own address
                decision: dict[str, Any] = json.load(answer)
                return decision
        except HTTPError as error:
            if error.code != HTTPStatus.TOO_MANY_REQUESTS and error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise Refused(error.read().decode(errors="replace")) from error
        except (OSError, HTTPException, ValueError):
            continue  # no connection, no answer in time, or half of one
    raise Away


def reconcile(service: str, document: dict[str, Any], *, fail_open: bool) -> Plan:
    """What to do with a deployment; ``document`` is made from what its owner wrote, never from what runs."""
    written = (document.get("deployment") or document["facts"]).get("env") or {}
    try:
        decision = ask(service, document)
    except Refused as refused:
        return Plan("hold", [f"the request is wrong: {refused}"])
    except Away:
        if fail_open:
            return Plan("roll-out", ["nobody decided: rolled out as written"], written)
        return Plan("keep", ["nobody decided: asked again at the next turn"])
    says = [decision["summary"], *decision["warnings"]]
    if decision["release"]["defaulted"]:
        says.append(f"no vllm_version was sent; decided as {decision['release']['decided_as']}")
    if decision["runner"] is None:
        return Plan("hold", [*says, "correct VLLM_USE_V2_MODEL_RUNNER in the manifest"])
    if not decision["starts"]:
        return Plan("hold", [*says, *decision["startup_errors"]])
    return Plan("roll-out", says, {**written, **decision["set_env"]})


def main() -> None:
    """Plan for the deployment in a file, ``-`` for standard input."""
    parser = argparse.ArgumentParser(description="One turn of a reconcile loop.")
    parser.add_argument("file", help="the request; - reads standard input")
    parser.add_argument("--service", default="http://localhost:8080", help="where the runner policy answers")
    parser.add_argument("--fail-open", action="store_true", help="roll out as written while the service is away")
    chosen = parser.parse_args()
    text = sys.stdin.read() if chosen.file == "-" else Path(chosen.file).read_text("utf-8")
    plan = reconcile(chosen.service, json.loads(text), fail_open=chosen.fail_open)
    sys.stdout.write(json.dumps(asdict(plan), indent=2) + "\n")


if __name__ == "__main__":
    main()
