"""One iteration of a deployment controller's loop: get a decision, then roll out, hold, or keep the running revision.

It needs only the standard library.

``python docs/reconcile.py deployment.json`` prints what a controller would do; the file is a body of
``POST /v1/decisions``. docs/controllers.md shows ``decide`` and ``reconcile``.
"""
# ruff: noqa: INP001  # an example to read and run, not part of a package

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


class RequestRefused(Exception):
    """The service refused the request; a retry would not help."""


class NoAnswer(Exception):
    """The service did not answer."""


@dataclass(frozen=True)
class Plan:
    """What to do: ``roll-out``, ``hold`` the new revision, or ``keep`` the running one.

    ``env`` has the variable as it must be set; where it is empty, the variable is not set at all.
    """

    action: str
    messages: list[str]
    env: dict[str, str] = field(default_factory=dict)


def decide(service: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the decision; retry with a growing delay, but only after no answer, 429 or 5xx."""
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
                raise RequestRefused(error.read().decode(errors="replace")) from error
        except (OSError, HTTPException, ValueError):
            continue  # no connection, a timeout, or an incomplete answer
    raise NoAnswer


def reconcile(service: str, document: dict[str, Any], *, fail_open: bool) -> Plan:
    """Return what to do; ``document`` is made from what the deployment's owner wrote, never from the running pod."""
    written = (document.get("deployment") or document["facts"]).get("env") or {}
    try:
        decision = decide(service, document)
    except RequestRefused as refused:
        return Plan("hold", [f"invalid request: {refused}"])
    except NoAnswer:
        if fail_open:
            return Plan("roll-out", ["no decision: rolled out as written"], written)
        return Plan("keep", ["no decision: will retry in the next iteration"])
    messages = [decision["summary"], *decision["warnings"]]
    if decision["release"]["defaulted"]:
        messages.append(f"no vllm_version was sent; decided as {decision['release']['decided_as']}")
    if decision["runner"] is None:
        return Plan("hold", [*messages, "correct VLLM_USE_V2_MODEL_RUNNER in the manifest"])
    if not decision["starts"]:
        return Plan("hold", [*messages, *decision["launch_errors"], *decision["startup_errors"]])
    return Plan("roll-out", messages, {**written, **decision["set_env"]})


def main() -> None:
    """Plan for the deployment in a file, ``-`` for standard input."""
    parser = argparse.ArgumentParser(description="One iteration of a reconcile loop.")
    parser.add_argument("file", help="the request; - reads standard input")
    parser.add_argument("--service", default="http://localhost:8080", help="the address of Runner Policy")
    parser.add_argument("--fail-open", action="store_true", help="roll out as written if the service does not answer")
    chosen = parser.parse_args()
    text = sys.stdin.read() if chosen.file == "-" else Path(chosen.file).read_text("utf-8")
    document = json.loads(text)
    if not {"deployment", "facts"} & document.keys():
        parser.error("expected a request with `deployment` or `facts`; plan for the engines of a manifest one by one")
    plan = reconcile(chosen.service, document, fail_open=chosen.fail_open)
    sys.stdout.write(json.dumps(asdict(plan), indent=2) + "\n")


if __name__ == "__main__":
    main()
