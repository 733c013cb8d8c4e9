"""One iteration of a deployment controller's loop: get a decision, then roll out, hold, or keep the running revision.

It needs only the standard library. Copy it, and adapt ``reconcile``.

``python docs/reconcile.py deployment.json`` prints what a controller would do; the file is a body of
``POST /v1/decisions``.
"""
# ruff: noqa: INP001  # an example to read and run, not part of a package

from __future__ import annotations

import argparse
import json
import random
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import count
from pathlib import Path
from socket import SHUT_RDWR, socket
from threading import Timer
from time import monotonic, sleep
from typing import Any, Final
from urllib.parse import urlsplit

ATTEMPT: Final = 2.0
"""Seconds for one attempt."""
DEADLINE: Final = 10.0
"""Seconds for everything, with all attempts."""
MAX_ANSWER: Final = 8 << 20
MAX_MESSAGE: Final = 1000
RETRIED: Final = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
TEXTS: Final = ("warnings", "launch_errors", "startup_errors")


class RequestRefused(Exception):
    """The service refused the request; a retry would not help."""


class NoAnswer(Exception):
    """The service did not answer with a decision in time."""


@dataclass(frozen=True)
class Service:
    """The address of Runner Policy, and the token if it requires one."""

    address: str
    token: str | None = None


@dataclass(frozen=True)
class Plan:
    """What to do: ``roll-out``, ``hold`` the new revision, or ``keep`` the running one.

    ``env`` has all variables as they must be set; one that it does not have must not be set at all.
    """

    action: str
    messages: list[str]
    env: dict[str, str] = field(default_factory=dict)


def reconcile(service: Service, document: dict[str, Any], *, fail_open: bool, deadline: float) -> Plan:
    """Return what to do; ``document`` is made from what the deployment's owner wrote, never from the running pod.

    ``deadline`` is a time of ``monotonic``.
    """
    try:
        written = variables(document)
        decision = decide(service, document, deadline)
        env = {**written, **decision["set_env"]}
        # a variable of the container has no effect if the command itself clears or sets it: `env -i vllm serve …`
        then = decide(service, with_variables(document, env), deadline) if decision["set_env"] else decision
    except RequestRefused as refused:
        return Plan("hold", [f"invalid request: {refused}"])
    except NoAnswer as error:
        if fail_open:
            return Plan("roll-out", [f"no decision: {error}; rolled out as written"], written)
        return Plan("keep", [f"no decision: {error}; will retry in the next iteration"])
    messages = [decision["summary"], *decision["warnings"]]
    if decision["release"]["defaulted"]:
        messages.append(f"no vllm_version was sent; decided as {decision['release']['decided_as']}")
    if decision["runner"] is None and not decision["starts"]:
        messages.append("correct VLLM_USE_V2_MODEL_RUNNER in the manifest")
    if not decision["starts"]:
        return Plan("hold", [*messages, *decision["launch_errors"], *decision["startup_errors"]])
    if then["set_env"]:
        return Plan("hold", [*messages, "vLLM would not follow the decision with `set_env`; change its command"])
    return Plan("roll-out", messages, env)


def decide(service: Service, document: dict[str, Any], deadline: float) -> dict[str, Any]:
    """Return the decision; retry with a growing delay, but only after no answer, 408, 429, 5xx, or no decision."""
    body = json.dumps(document).encode()
    why = "no connection"
    for attempt in count():
        wait = random.uniform(0.1, 0.2) * 2**attempt  # noqa: S311  # spreads callers; no secret
        seconds = min(ATTEMPT, deadline - monotonic())
        if seconds <= 0:
            break
        try:
            status, retry_after, text = post(service, body, seconds)
            if status == HTTPStatus.OK:
                return read_decision(text)
            if status not in RETRIED and HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise RequestRefused(detail(text) or f"status {status}")
            wait, why = max(wait, retry_after), f"status {status}"
        except (OSError, HTTPException) as error:
            why = f"no complete answer ({type(error).__name__})"
        except (ValueError, RecursionError):
            why = "the answer is not a decision"
        if monotonic() + wait >= deadline:
            break
        sleep(wait)
    raise NoAnswer(why)


def post(service: Service, body: bytes, seconds: float) -> tuple[int, float, bytes]:
    """Return the status, the seconds of ``Retry-After``, and the body; follow no redirect, which would get the token.

    The timeout of a socket is for one packet, so a timer limits the whole answer.
    """
    url = urlsplit(service.address)
    connection = (HTTPSConnection if url.scheme == "https" else HTTPConnection)(url.netloc, timeout=seconds)
    headers = {"content-type": "application/json"}
    if service.token is not None:
        headers["authorization"] = f"Bearer {service.token}"
    ends = monotonic() + seconds
    try:
        connection.connect()
        timer = Timer(ends - monotonic(), interrupt, [connection.sock])
        timer.start()
        try:
            connection.request("POST", f"{url.path.rstrip('/')}/v1/decisions", body, headers)
            answer = connection.getresponse()
            text = answer.read(MAX_ANSWER)
        finally:
            timer.cancel()
    finally:
        connection.close()
    retry_after = answer.headers.get("retry-after", "")
    return answer.status, float(retry_after) if retry_after.isdecimal() else 0.0, text


def interrupt(connection: socket) -> None:
    """Shut a connection down; a read that waits for it returns."""
    with suppress(OSError):
        connection.shutdown(SHUT_RDWR)


def read_decision(text: bytes) -> dict[str, Any]:
    """Return the decision in an answer.

    Raises:
        ValueError, RecursionError: it is not a complete decision, such as a page of a proxy.
    """
    found = json.loads(text)
    match found:
        case {
            "summary": str(),
            "runner": "v1" | "v2" | None,
            "starts": bool(),
            "set_env": dict(),
            "release": {"defaulted": bool(), "decided_as": str()},
            "warnings": list(),
            "launch_errors": list(),
            "startup_errors": list(),
        }:
            texts = [*found["set_env"].values(), *(each for name in TEXTS for each in found[name])]
            if all(isinstance(each, str) for each in texts):
                return dict(found)
    raise ValueError


def detail(text: bytes) -> str:
    """Return what a problem says (RFC 9457), or nothing."""
    with suppress(ValueError, RecursionError):
        match json.loads(text):
            case {"detail": str(found)}:
                return found[:MAX_MESSAGE]
    return ""


def variables(document: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a request as texts; ``null`` is one that is not set, and facts may have ``true``.

    Raises:
        RequestRefused: they are not variables.
    """
    env = engine(document)[1].get("env") or {}
    if not isinstance(env, dict):
        raise RequestRefused("expected an object as `env`")
    texts = {name: str(int(value)) if isinstance(value, bool) else value for name, value in env.items()}
    for name, value in texts.items():
        if not isinstance(value, str | None):
            raise RequestRefused(f"expected a string as the variable {name}")
    return {name: value for name, value in texts.items() if value is not None}


def with_variables(document: dict[str, Any], env: dict[str, str]) -> dict[str, Any]:
    """Return the same request with other variables."""
    name, members = engine(document)
    return {**document, name: {**members, "env": env}}


def engine(document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the field of a request that describes the engine, and its value.

    Raises:
        RequestRefused: there is none.
    """
    for name in ("deployment", "facts"):
        if isinstance(members := document.get(name), dict):
            return name, members
    raise RequestRefused("expected `deployment` or `facts`; plan for the engines of a manifest one by one")


def main() -> None:
    """Plan for the deployment in a file, ``-`` for standard input."""
    parser = argparse.ArgumentParser(description="One iteration of a reconcile loop.")
    parser.add_argument("file", help="the request; - reads standard input")
    parser.add_argument("--service", default="http://localhost:8080", help="the address of Runner Policy")
    parser.add_argument("--token-file", type=Path, help="the file with the token, if the service requires one")
    parser.add_argument("--deadline", type=float, default=DEADLINE, help="seconds for everything")
    parser.add_argument("--fail-open", action="store_true", help="roll out as written if there is no decision")
    chosen = parser.parse_args()
    if urlsplit(chosen.service).scheme not in {"http", "https"}:
        parser.error("expected an address such as http://localhost:8080 as --service")
    try:
        document = json.loads(sys.stdin.read() if chosen.file == "-" else Path(chosen.file).read_text("utf-8"))
        token = chosen.token_file and chosen.token_file.read_text("utf-8").strip()
    except (OSError, ValueError, RecursionError) as error:
        parser.error(f"cannot read the input: {error}")
    if not isinstance(document, dict):
        parser.error("expected a JSON object as the request")
    service, deadline = Service(chosen.service, token), monotonic() + chosen.deadline
    plan = reconcile(service, document, fail_open=chosen.fail_open, deadline=deadline)
    sys.stdout.write(json.dumps(asdict(plan), indent=2) + "\n")


if __name__ == "__main__":
    main()
