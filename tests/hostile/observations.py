"""Readers of logs, and texts that are built to make them slow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hostile.families import numbered, repeated
from hostile.reader import Reader

from policy.observation.arguments import read_arguments
from policy.observation.reader import read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Family = Callable[[int], bytes]

LOG: Final = 32 << 20
ARGUMENTS: Final = 256 << 10
RECORD: Final = b"INFO 11-22 01:02:03 [core.py:1] "
BEGIN: Final = b"Traceback (most recent call last):\n"


LOGS: Final[Mapping[str, Family]] = {
    "records": repeated(RECORD + b"Using V2 Model Runner\n"),
    "begins of records": repeated(b"INFO 11-22 01:02:03 [a"),
    "warnings about the choice": numbered(
        RECORD + b"Model Runner V2 does not yet support x%d; using the V1 model runner instead.\n"
    ),
    "servers": repeated(RECORD + b"vLLM server version 0.26.0, serving model m\n"),
    "logos": repeated("█  version ".encode()),
    "values without an end": repeated(RECORD + b"Initializing a V1 LLM engine (v" + b"(v" * 50 + b"\n"),
    "configurations": repeated(b"device_config=", RECORD + b"Initializing a V1 LLM engine (v1) with config: model='"),
    "pods": numbered(b"[pod/a%d/c] " + RECORD + b"x\n"),
    "services": numbered(b"a%d | " + RECORD + b"x\n"),
    "prefixes": repeated(b"2026-11-22T01:02:03Z "),
    "colours": repeated(b"\x1b[1;"),
    "tracebacks": repeated(BEGIN + b'  File "/a/vllm/b.py", line 1, in c\n    d\nValueError: e\n'),
    "tracebacks of processes": numbered(b"(P%d pid=1) " + BEGIN + RECORD + b"Resolved architecture: X\n"),
    "a chain": repeated(
        BEGIN + b"ValueError: e\n\nThe above exception was the direct cause of the following exception:\n\n"
    ),
    "details": repeated(b"  detail\n", BEGIN + b"ValueError: e\n"),
    "steps": repeated(b'  File "/a/vllm/engine/arg_utils.py", line 1, in create_engine_config\n    config\n', BEGIN),
    "names of exceptions": repeated(b"a.", BEGIN),
    "exceptions that announce others": repeated(BEGIN + b"Exception: Call to x method failed: \n"),
    "secrets": repeated(b"token=", BEGIN + b"ValueError: "),
    "JSON": repeated(json.dumps({"log": "x\n"}).encode() + b"\n"),
    "brackets": repeated(b"["),
    "lines of a message": lambda size: json.dumps({"log": "x\n" * (size // 3)}).encode(),
    "usages": repeated(b"a a: error: "),
}
VALUES: Final[Mapping[str, Family]] = {
    "maps": repeated(b"'a': 1, ", b"{"),
    "members": repeated(b"<A.B: 1>, ", b"["),
    "unclosed members": repeated(b"<A.B: "),
    "other brackets": repeated(b"<a "),
    "instances": repeated(b"A(b="),
    "brackets": repeated(b"["),
    "quotes": repeated(b"'\\"),
    "texts": repeated(b"'a' ", b"["),
    "digits": repeated(b"9"),
    "blanks": repeated(b" "),
    "a map of an argument": repeated(b"'a': {'b': [1]}, ", b"{'kv_transfer_config': {", b"}}"),
}


def _read_log(text: bytes) -> object:
    return read_log(text.decode(errors="replace"))


def _read_arguments(text: bytes) -> object:
    return read_arguments(text.decode(), "0.26.0")


READERS: Final[dict[str, Reader]] = {
    "log": Reader(_read_log, LOG, LOGS),
    "arguments of a log": Reader(_read_arguments, ARGUMENTS, VALUES),
}
