"""Random mutations of real requests, the same ones for the same seed."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from service.openapi.examples import EXAMPLES, REVIEW_EXAMPLE, as_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent
JSON, YAML, NDJSON = b"application/json", b"application/yaml", b"application/x-ndjson"
DECIDE, BATCH, DRY_RUN, IMPACT, VALIDATE, MUTATE = (
    "/v1/decisions",
    "/v1/decisions/batch",
    "/v1/dry-run",
    "/v1/impact",
    "/v1/admission",
    "/v1/admission/mutate",
)
BATCH_EXAMPLE: Final = {"items": [EXAMPLES["default"]["value"], EXAMPLES["kv-connector"]["value"]]}
CANDIDATE_EXAMPLE: Final = {"request": EXAMPLES["kv-connector"]["value"], "remove": ["kv-connector-fallback"]}
BOUNDARY: Final = b"----of-a-form"
READ_PATHS: Final = (
    "/v1/policy",
    "/v1/rules",
    "/v1/rules/kv-connector-fallback",
    "/v1/releases",
    "/v1/images",
    "/v1/arguments",
    "/v1/facts",
    "/v1/log",
    "/livez",
    "/readyz",
    "/metrics",
)
QUERIES: Final = (
    "?vllm_version=0.24.0",
    "?limit=3",
    "?since=1h&until=now",
    "?runner=v1&starts=true",
    "?verbose",
    "?rule=kv-connector-fallback",
    "?outcome=%00",
)
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "post", "BREW")
LINES: Final = 40
LARGEST: Final = 2 << 20
"""The approximate maximum size of a body in bytes after its items were repeated."""
CANDIDATES: Final = 0.004
"""The share of dry runs with candidate rules: each takes a process."""
NUMBERS: Final = (0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40, 0.1, -0.0, 1e-320, 1e308)
TEXTS: Final = (
    "",
    " ",
    "\x00",
    "\ufeff",
    "é",
    "e\u0301",
    "\u202e",
    "\u2028",
    "😀",
    "\uffff",
    "null",
    "true",
    "1",
    "-tp",
    "$(X)",
    "${X}",
    "../..",
    "~0~1/",
    "{}",
    "a" * 9000,
)
RAW: Final = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"01",
    b'"\\ud800"',
    b'"\\u0000"',
    b"'",
    b"[" * 2000,
    b'{"a":' * 2000,
    b"/**/",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x00",
    b"1" * 5000,
    b'"\\"' * 3000,
    b'"' * 6001,
    b"\\" * 6001,
    b"${a:-" * 2000,
    b"$(" * 3000,
    b"1," * 5000,
)
VALUES: Final[tuple[Any, ...]] = (None, True, False, [], {}, [[]], [None], {"": None}, *NUMBERS, *TEXTS)
HEADERS: Final = (
    *(
        (b"content-type", value)
        for value in (
            JSON,
            YAML,
            NDJSON,
            b"text/plain",
            b"",
            b"application/json; charset=utf-16",
            b"multipart/form-data",
            *(b"multipart/form-data; boundary=%b; charset=%b" % (BOUNDARY, name) for name in (b"undefined", b"utf-7")),
            b"\xff",
            b";;;",
        )
    ),
    *(
        (b"accept", value)
        for value in (
            b"text/plain",
            b"*/*;q=0",
            b"text/plain;q=nan",
            b",,;q",
            b"\x80",
            b"application/json;q=1e9, text/plain",
        )
    ),
    *((b"content-encoding", value) for value in (b"gzip", b"identity", b"", b"\xe9")),
    *((b"if-match", value) for value in (b"*", b'"x"', b"", b"\xff, *")),
    *((b"authorization", value) for value in (b"Bearer x", b"Bearer", b"Basic eDp4", b"\xfe")),
    *(
        (b"traceparent", value)
        for value in (b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"00-0-0-0", b"\xff")
    ),
    *(
        (name, b"x" * 500)
        for name in (
            b"x-request-id",
            b"cookie",
            b"user-agent",
            b"if-none-match",
            b"x-forwarded-for",
            b"x-http-method-override",
        )
    ),
    (b"connection", b"close"),
)


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request; its content length is always correct, so that the server finds where it ends."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""

    def wire(self) -> bytes:
        """The bytes to send."""
        lines = [
            b"%b: %b" % header
            for header in ((b"host", b"localhost"), *self.headers, (b"content-length", b"%d" % len(self.body)))
        ]
        return b"\r\n".join([f"{self.method} {self.path} HTTP/1.1".encode("latin-1"), *lines, b"", self.body])

    def header(self, name: bytes) -> bytes:
        """The value of a header; of several, the last."""
        return next((value for key, value in reversed(self.headers) if key == name), b"")


def posted(path: str, document: Any, kind: bytes = JSON) -> SentRequest:
    body = yaml.safe_dump(document, allow_unicode=True).encode() if kind == YAML else json.dumps(document).encode()
    return SentRequest("POST", path, ((b"content-type", kind),), body)


def form(**parts: str) -> bytes:
    """A multipart form."""
    lines = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode() for name, text in parts.items()
    ]
    return b"".join(b"--%b\r\n%b" % (BOUNDARY, line) for line in lines) + b"--%b--\r\n" % BOUNDARY


def originals() -> list[SentRequest]:
    """The requests to mutate: documented examples, recorded ones, reviews, manifests, reads."""
    requests: list[Any] = [example["value"] for example in EXAMPLES.values()]
    for path in sorted((ROOT / "recordings").glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            requests += [json.loads(line)["request"] for line in islice(lines, LINES)]
    manifests = [
        each
        for path in sorted((ROOT / "intake/manifests/fixtures").glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
        if each
    ]
    reviews = [
        REVIEW_EXAMPLE,
        *(json.loads(path.read_text()) for path in sorted((ROOT / "core/admission").glob("*.json"))),
    ]
    found = [posted(path, document) for document in requests for path in (DECIDE, DRY_RUN)]
    found += [posted(DECIDE, document, YAML) for document in requests[::7]]
    found += [
        posted(BATCH, BATCH_EXAMPLE),
        *(posted(BATCH, {"items": requests[start : start + 3]}) for start in range(0, len(requests), 29)),
    ]
    found += [
        posted(IMPACT, {"deployments": requests[start : start + 3], **compared}, kind)
        for start in range(0, len(requests), 29)
        for compared, kind in (({"releases": ["0.23.0", "0.33.0", "v1-removed"]}, JSON), ({"to": "0.33.0"}, YAML))
    ]
    found += [SentRequest("POST", BATCH, ((b"content-type", NDJSON),), as_lines(BATCH_EXAMPLE["items"]).encode())] * 8
    found += [
        posted(path, document, kind) for document in manifests for path in (DECIDE, DRY_RUN) for kind in (JSON, YAML)
    ]
    found += [posted(DECIDE, {"manifest": manifest}) for manifest in manifests] * 3
    found += [posted(path, review) for review in reviews for path in (VALIDATE, MUTATE)] * 6
    found += [
        SentRequest(
            "POST",
            DRY_RUN,
            ((b"content-type", b"multipart/form-data; boundary=" + BOUNDARY),),
            form(deployment=json.dumps(requests[0])),
        )
    ] * 8
    return found + [SentRequest("GET", path + query) for path in READ_PATHS for query in ("", *QUERIES)]


def candidates() -> list[SentRequest]:
    """Dry runs with candidate rules."""
    return [posted(DRY_RUN, CANDIDATE_EXAMPLE), posted(DRY_RUN, {**CANDIDATE_EXAMPLE, "rules": ["id: x\n"]})]


class RequestMutator:
    """Mutates requests at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # not for security
        self.originals, self.candidates = originals(), candidates()

    def requests(self) -> Iterator[SentRequest]:
        """An endless sequence of requests."""
        mutations = (self.document, self.document, self.document, self.bytes, self.headers, self.address, self.product)
        while True:
            sent = self.rng.choice(self.candidates if self.rng.random() < CANDIDATES else self.originals)
            for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
                sent = self.rng.choice(mutations)(sent)
            yield sent

    def document(self, sent: SentRequest) -> SentRequest:
        """Another value, key, order, number or nesting somewhere in the document."""
        kind = sent.header(b"content-type")
        try:
            document = json.loads(sent.body) if kind == JSON else yaml.safe_load(sent.body) if kind == YAML else None
        except (ValueError, yaml.YAMLError, RecursionError):
            return self.bytes(sent)
        if not isinstance(document, dict | list):
            return self.bytes(sent)
        holders = [holder for holder in _holders(document) if holder]
        if not holders:
            return self.bytes(sent)
        holder: Any = self.rng.choice(holders)
        key: Any = self.rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        other = self.rng.choice(holders)
        match self.rng.randrange(8):
            case 0:
                del holder[key]
            case 1:
                holder[key] = [holder[key]]
            case 2 if isinstance(holder, dict):
                holder[self.rng.choice((*TEXTS, f"{key}s", str(key).upper(), f" {key}"))] = holder.pop(key)
            case 3 if isinstance(holder, list):
                holder.extend([holder[key]] * self.rng.choice((1, 10, 1000)))
            case 4:
                holder[key] = json.loads(
                    json.dumps(self.rng.choice(list(other.values()) if isinstance(other, dict) else other))
                )
            case 5:
                depth = self.rng.choice((3, 40, 150))
                holder[key] = json.loads('{"a":[' * depth + "1" + "]}" * depth)
            case 6 if isinstance(holder[key], str) and holder[key]:
                position = self.rng.randrange(len(holder[key]))
                holder[key] = (
                    holder[key][:position] + self.rng.choice(TEXTS) + holder[key][position + self.rng.randrange(2) :]
                )
            case _:
                holder[key] = self.rng.choice(VALUES)
        if kind == YAML:
            with suppress(RecursionError):  # too deep for PyYAML to write; JSON is YAML as well
                return replace(
                    sent,
                    body=yaml.safe_dump(document, allow_unicode=self.rng.random() < 0.5).encode(
                        "utf-8", "surrogatepass"
                    ),
                )
        return replace(
            sent, body=json.dumps(document, ensure_ascii=self.rng.random() < 0.5).encode("utf-8", "surrogatepass")
        )

    def product(self, sent: SentRequest) -> SentRequest:
        """One request repeated: items of a batch, engines of a manifest, long names, explained or as a table."""
        try:
            document = json.loads(sent.body)
        except (ValueError, RecursionError):
            return self.bytes(sent)
        if not isinstance(document, dict):
            return self.bytes(sent)
        named = [each for each in _holders(document) if isinstance(each, dict) and isinstance(each.get("name"), str)]
        for each in named[:40]:
            each["name"] = (each["name"] * self.rng.choice((1, 500)))[:8000]
        room = LARGEST // len(json.dumps(document))  # a larger body would only load the client
        for items in [each for each in _holders(document) if isinstance(each, list) and each][:2]:
            more = min(room, self.rng.choice((0, 10, 200)))
            items.extend(items[:1] * more)
            room //= more + 1
        if self.rng.random() < 0.5 and "apiVersion" not in document:
            document["explain"] = True
        if self.rng.random() < 0.3 and "items" not in document:
            return posted(BATCH, {"items": [document] * min(room, self.rng.choice((3, 60)))})
        accept = ((b"accept", self.rng.choice((b"text/plain", b"*/*"))),)
        return replace(sent, headers=(*sent.headers, *accept), body=json.dumps(document).encode())

    def bytes(self, sent: SentRequest) -> SentRequest:
        """Bytes changed, inserted, removed, doubled or cut off."""
        body, rng = sent.body, self.rng
        position, end = sorted((rng.randint(0, len(body)), rng.randint(0, len(body))))
        end = min(end, position + 40)
        made = rng.choice(
            (
                body[:position],
                body[:position] + rng.randbytes(rng.randint(1, 4)) + body[position + 1 :],
                body[:position] + rng.choice(RAW) + body[position:],
                body[:position] + body[end:],
                body[:end] + body[position:end] + body[end:],
                body[:position] + b'"' + body[position:],
                body.replace(b"{", b'{"a":1,"a":2,', 1),
                body.decode("utf-8", "replace").encode("utf-16"),
                b"",
            )
        )
        return replace(sent, body=made)

    def headers(self, sent: SentRequest) -> SentRequest:
        """A header added or replaced."""
        name, value = self.rng.choice(HEADERS)
        headers = (
            sent.headers if self.rng.random() < 0.2 else tuple(header for header in sent.headers if header[0] != name)
        )
        return replace(sent, headers=(*headers, (name, value)))

    def address(self, sent: SentRequest) -> SentRequest:
        """Another method or path."""
        rng, path = self.rng, sent.path
        if rng.random() < 0.4:
            return replace(sent, method=rng.choice(METHODS))
        position = rng.randint(1, len(path))
        made = rng.choice(
            (
                path + "/",
                path + rng.choice(QUERIES),
                path.upper(),
                path[:position],
                path[:position]
                + rng.choice(("%00", "%ff", "%2f", "..", "//", "%", "é", "'", "%F0%9F%98%80", "x" * 3000))
                + path[position:],
                f"/v1/decisions/{rng.randbytes(16).hex()}",
                "/v1/decisions/01a1fead-3b52-7415-a7da-62eefab0cd39",
                rng.choice(READ_PATHS),
                rng.choice((DECIDE, BATCH, DRY_RUN, IMPACT, VALIDATE, MUTATE)),
            )
        )
        return replace(sent, path=made)


def _holders(document: Any) -> Iterator[dict[str, Any] | list[Any]]:
    if isinstance(document, dict | list):
        yield document
        for value in document.values() if isinstance(document, dict) else document:
            yield from _holders(value)
