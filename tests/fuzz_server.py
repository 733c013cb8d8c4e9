"""Check the answers to fuzzed requests.

`python tests/fuzz_server.py PORT --count 1000000 --seed 7` sends them to a server on this machine. The last
line of the output has the result.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from request_fuzzer import NDJSON, YAML, RequestMutator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from request_fuzzer import SentRequest

TIMEOUT: Final = 60.0
IDLE: Final = 60.0
"""Seconds after which an idle connection is replaced; the server closes it after 75."""
DEFECT: Final = b"a defect of Runner Policy"
"""The beginning of the message of a contained defect."""
PROBLEM: Final = ["type", "title", "status", "detail", "errors"]
TYPES: Final = {"application/json", "application/problem+json", "text/plain", "application/x-ndjson", "text/html"}


@dataclass(slots=True)
class Answer:
    """An answer; status 0 means that there was none."""

    status: int
    kind: str
    body: bytes
    closes: bool


@dataclass(slots=True)
class Connection:
    """A persistent connection, opened again if the server has closed it."""

    port: int
    sock: socket.socket | None = field(default=None)
    used: float = 0.0

    def asked(self, sent: SentRequest) -> Answer:
        """Send a request, and return the answer."""
        if self.sock is not None and time.monotonic() - self.used > IDLE:
            self.close()
        if self.sock is None:
            self.sock = socket.create_connection(("127.0.0.1", self.port), TIMEOUT)
        try:
            self.sock.sendall(sent.wire())
            response = HTTPResponse(self.sock, method=sent.method)
            response.begin()
            answer = Answer(response.status, response.headers.get_content_type(), response.read(), response.will_close)
        except (OSError, HTTPException):
            self.close()
            return Answer(0, "", b"", closes=True)
        self.used = time.monotonic()
        if answer.closes:
            self.close()
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None


def faults(sent: SentRequest, answer: Answer) -> list[str]:
    """The faults of an answer."""
    if answer.status == 0:
        return ["no answer"]
    if answer.status >= 500:
        return [f"status {answer.status}"]
    if DEFECT in answer.body:  # also of one item, or an engine under review
        return ["a defect of the program"]
    if answer.status == 400 and answer.kind == "text/plain" and answer.closes:
        return []  # uvicorn could not parse the headers; no code of this project ran
    if sent.method == "HEAD" or answer.status == 304:
        return [] if not answer.body else ["an unexpected body"]
    if answer.status >= 400 and answer.kind == "text/plain":
        return _faults_of_text(answer, sent)
    if answer.kind not in TYPES:
        return [f"an answer of type {answer.kind!r}"]
    try:
        documents = _documents(answer)
    except ValueError as error:
        return [f"invalid {answer.kind}: {error}"]
    found = (
        []
        if (answer.kind == "application/problem+json") == (answer.status >= 400)
        else [f"{answer.kind} with status {answer.status}"]
    )
    for document in documents:
        if answer.status >= 400 and document.get("status") != answer.status:
            found.append(f"a problem of status {document.get('status')} with status {answer.status}")
        for problem in _problems(document):
            found += _faults_of_problem(problem, sent)
    return found


def _faults_of_text(answer: Answer, sent: SentRequest) -> list[str]:
    """The faults of a problem as text; only a request that accepts text may get one."""
    title, *lines = answer.body.decode(errors="surrogateescape").split("\n")
    accepted = b",".join(value for name, value in sent.headers if name.lower() == b"accept")  # several are one list
    is_wanted = b"text/plain" in accepted.lower()
    is_whole = re.fullmatch(rf".+ \({answer.status} [a-z-]+\)", title) is not None and len(lines) > 1 and not lines[-1]
    is_printable = all(line.isprintable() for line in (title, *lines))
    return [] if is_wanted and is_whole and is_printable else [f"invalid problem as text: {answer.body[:200]!r}"]


def _documents(answer: Answer) -> list[Any]:
    if answer.kind == "application/x-ndjson":
        return [json.loads(line) for line in answer.body.splitlines()]
    if "json" in answer.kind:
        return [json.loads(answer.body)]
    answer.body.decode()
    return []


def _problems(document: Any) -> Iterator[dict[str, Any]]:
    """The problems in an answer: itself, or those of its items."""
    if isinstance(document, dict):
        if str(document.get("type")).startswith("urn:runner-policy:problem:") or (
            "errors" in document and "detail" in document
        ):
            yield document
        for item in document.get("items") or ():
            yield from _problems(item)
            if isinstance(item, dict) and "path" in item:
                yield from _problems(item.get("problem"))


def _faults_of_problem(problem: dict[str, Any], sent: SentRequest) -> list[str]:
    if (
        list(problem) != PROBLEM
        or not problem["errors"]
        or not all(isinstance(problem[name], str) for name in ("type", "title", "detail"))
    ):
        return [f"invalid problem: {json.dumps(problem)[:200]}"]
    kind = sent.header(b"content-type").partition(b";")[0].strip().lower()
    try:
        document = json.loads(sent.body) if kind not in {YAML, NDJSON, b"multipart/form-data"} else None
    except (ValueError, RecursionError):
        document = None
    return [
        f"the pointer {fault['pointer']!r} cannot be resolved"
        for fault in problem["errors"]
        if not resolves(fault["pointer"], document)
    ]


def resolves(pointer: str, document: Any) -> bool:
    """Whether a JSON pointer points to a value in the document, or to one that could be added.

    A pointer through a text or beyond the end of a list does not.
    """
    if pointer and not pointer.startswith("/"):
        return False
    here = document
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901  # the unescaped step
        if here is None:
            return True
        if isinstance(here, dict):
            here = here.get(step)
        elif isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        else:
            return False
    return True


@dataclass(slots=True)
class Report:
    """The result of a run: the number of answers of each status, and the faults with their requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[tuple[list[str], bytes, bytes]] = field(default_factory=list)

    def note(self, sent: SentRequest, answer: Answer) -> None:
        """Count one answer, and keep its faults."""
        self.statuses[answer.status] += 1
        if found := faults(sent, answer):
            self.wrong.append((found, sent.wire()[:4000], answer.body[:1000]))


def run(port: int, count: int, seed: int) -> Report:
    """Send ``count`` requests, one after the other."""
    report, connection = Report(), Connection(port)
    for sent in islice(RequestMutator(seed).requests(), count):
        report.note(sent, connection.asked(sent))
    connection.close()
    return report


def main() -> int:
    """The exit code: 1 if any answer had a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    report = run(given.port, given.count, given.seed)
    by_kind: dict[str, list[tuple[bytes, bytes]]] = {}
    for found, request, answer in report.wrong:
        by_kind.setdefault(re.sub(r"\d+", "N", "; ".join(found)), []).append((request, answer))
    for kind, cases in by_kind.items():
        sys.stdout.write(
            f"{len(cases)} times: {kind}\n" + "".join(f"  {request!r}\n  {answer!r}\n" for request, answer in cases[:2])
        )
    statuses = dict(sorted(report.statuses.items()))
    sys.stdout.write(f"{json.dumps({'sent': given.count, 'wrong': len(report.wrong), 'statuses': statuses})}\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
