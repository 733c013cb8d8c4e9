"""Readers of documents, and texts that are built to make them slow."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from hostile.families import numbered, repeated
from hostile.reader import Reader

from policy.checks.cases import read_cases
from policy.facts.facts import read_facts
from policy.fastpath.request_decoder import decode_fast
from policy.impact.request import entries_of, read_impact_request
from policy.parser.jsontext import read_json
from policy.parser.yamltree import read_yaml
from policy.request.request import read_request_or_manifest
from policy.rules.catalogue import Catalogue, load
from policy.rules.loader import Sources
from policy.rules.releases import series
from service.admission.review import read_review
from service.auth.tokens import _tokens
from service.documents.body import decode, read_headers, read_lines
from service.documents.dry_run_request import read_dry_run
from service.documents.form import read_form
from service.documents.query import refuse_query
from service.log.query import read_filter as read_filters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import Message

    Family = Callable[[int], bytes]

BODY: Final = 1 << 20
REVIEW: Final = 8 << 20
HEAD: Final = 64 << 10
YAML: Final = 256 << 10


def _rule(
    name: str = "candidate",
    effect: str = "advise",
    vllm: str = ">=0.22",
    words: str = "w",
    when: Any = "always",
    **members: Any,
) -> bytes:
    """A rule, as JSON, which is YAML without anchors."""
    part = {"vllm": vllm, "message" if effect == "default-v2" else "text": words, "when": when}
    head = {"id": name, "title": "t", "effect": effect, "why": "w", "references": ["https://example.org"]}
    return json.dumps({**head, "releases": [part], **members}).encode()


RULE: Final = "last"
SOURCES: Final = {
    "releases.yaml": 'known: ["0.22.0", "0.23.0"]\ndefault: "0.23.0"\n',
    "upstream/last.yaml": _rule(RULE, "default-v2").decode(),
    "upstream/conditions/named.yaml": json.dumps(
        {
            "id": "named",
            "why": "w",
            "releases": [{"vllm": ">=0.22", "when": {"all": [{"model_config.is_moe": True}] * 32}}],
        }
    ),
}
CATALOGUE: Final = load(Sources(SOURCES))
BOUNDARY: Final = b"b" * 32


def _halves(first: bytes, unit: bytes, between: bytes, other: bytes, after: bytes) -> Family:
    """Two parts of half the size, for readers that scan one part for each item of the other."""
    return lambda size: first + unit * (size // 2 // len(unit)) + between + other * (size // 2 // len(other)) + after


def _nested(opening: bytes, closing: bytes = b"", depth: int | None = None) -> Family:
    """Nesting as deep as the size allows, or many texts that are nested ``depth`` deep."""
    if depth is None:
        return lambda size: opening * (size // len(opening + closing)) + closing * (size // len(opening + closing))
    return lambda size: (
        b"[" + b",".join([opening * depth + b"1" + closing * depth] * (size // depth // len(opening + closing))) + b"]"
    )


JSON: Final[dict[str, Family]] = {
    "quotes": repeated(b'"'),
    "escaped quotes": repeated(b'\\"'),
    "quotes and escaped quotes": repeated(b'"\\"'),
    "an unclosed text": repeated(b"a", b'"'),
    "an unclosed text of escaped quotes": repeated(b'\\"', b'"'),
    "backslashes": repeated(b"\\", b'"'),
    "halves of surrogate pairs": repeated(b"\\ud800", b'"', b'"'),
    "surrogate pairs and a half": repeated(b"\\ud83d\\ude00", b'"', b'\\ud800"'),
    "numbers of an unclosed list": repeated(b"1,", b"["),
    "numbers of a list": repeated(b"1,", b"[", b"1]"),
    "a long number": repeated(b"9"),
    "long numbers": repeated(b"9" * 4000 + b",", b"["),
    "a long fraction": repeated(b"9", b"0."),
    "a long exponent": repeated(b"9", b"1e"),
    "points": repeated(b"1."),
    "exponents": repeated(b"1e+"),
    "signs": repeated(b"-"),
    "opened lists": _nested(b"["),
    "nested lists": _nested(b"[", b"]"),
    "nested objects": _nested(b'{"a":', b"}"),
    **{f"lists nested {depth} deep": _nested(b"[", b"]", depth) for depth in (2, 16, 63, 64)},
    "one key many times": repeated(b'"a":1,', b"{", b'"a":1}'),
    "many keys": numbered(b'"a%d":1,', b"{", b'"a":1}'),
    "blanks": repeated(b" "),
    "lines": repeated(b"\n", b"[", b"1"),
    "bytes that are not UTF-8": repeated(b"\xff"),
    "text and a byte that is not UTF-8": repeated("é".encode(), b'"', b'\xff"'),
    "not JSON": repeated(b"a"),
}

REQUESTS: Final[dict[str, Family]] = {
    "unknown fields": numbered(b'"a%d":1,', b"{", b'"facts":{}}'),
    "unknown fields with long names": numbered(b'"' + b"a" * 200 + b'%d":1,', b"{", b'"facts":{}}'),
    "one long name": repeated(b"a", b'{"', b'":1,"facts":{}}'),
    "unknown facts": numbered(b'"a%d":1,', b'{"facts":{"env":{', b'"a":1}}}'),
    "unknown objects among the facts": numbered(b'"a%d":{},', b'{"facts":{', b'"a":1}}'),
    "unknown fields of an open object": numbered(b'"a%d":1,', b'{"facts":{"model_config":{', b'"a":1}}}'),
    "architectures": numbered(b'"A%d",', b'{"facts":{"model_config":{"architectures":[', b'"A"]}}}'),
    "architectures that are numbers": repeated(b"1,", b'{"facts":{"model_config":{"architectures":[', b"1]}}}"),
    "a long architecture": repeated(b"A", b'{"facts":{"model_config":{"architectures":["', b'"]}}}'),
    "digits of the variable": repeated(b"1", b'{"facts":{"env":{"VLLM_USE_V2_MODEL_RUNNER":"', b'"}}}'),
    "layers": repeated(b'"upstream",', b'{"facts":{},"layers":[', b'"house"]}'),
    "a long version": repeated(b"1.", b'{"facts":{},"vllm_version":"', b'"}'),
    "a version of names of secrets": repeated(b"pw=", b'{"facts":{},"vllm_version":"', b'"}'),
    "a version of names of secrets without values": repeated(b"pw:", b'{"facts":{},"vllm_version":"', b'"}'),
    "a long request id": repeated(b"1", b'{"facts":{},"request_id":"', b'"}'),
    "lists as a request id": _nested(b"[", b"]", 3),
    "nested objects as a fact": lambda size: (
        b'{"facts":{"model_config":' + b'{"a":' * 60 + b"1," * (size // 2) + b"}" * 62
    ),
    "a fact many times": repeated(b'"is_moe":1,', b'{"facts":{"model_config":{', b'"is_moe":1}}}'),
    "deployments' members": numbered(b'"a%d":1,', b'{"deployment":{', b'"a":1}}'),
    "configurations": numbered(b'"a%d":1,', b'{"deployment":{"model_configs":{', b'"a":1}}}'),
    "variables": numbered(b'"a%d":1,', b'{"deployment":{"env":{', b'"a":1}}}'),
    "arguments that are numbers": repeated(b"1,", b'{"deployment":{"args":[', b"1]}}"),
}

ENGINE: Final = b'{"name":"c%d","image":"vllm/vllm-openai:v0.23.0","args":["--model","m"]},'
POD: Final = b'{"kind":"Pod","metadata":{"name":"%b"},"spec":{"containers":[%b]}},'
NO_ENGINE: Final = b'{"kind":"Other","apiVersion":"example.org/v1","metadata":{"name":"a%d"}},'


def _named_engines(size: int) -> bytes:
    """Engines of one object with a long name, which each of them has."""
    engines = numbered(ENGINE)(size // 2).removesuffix(b",")
    return b'{"deployments":[%b]}' % (POD % (b"n" * (size // 2), engines)).removesuffix(b",")


IMPACTS: Final[dict[str, Family]] = {
    "deployments of facts": numbered(b'{"facts":{"a":%d}},', b'{"deployments":[', b"{}]}"),
    "deployments that are numbers": repeated(b"1,", b'{"deployments":[', b"1]}"),
    "manifests": numbered(POD % (b"p", ENGINE.removesuffix(b",")), b'{"deployments":[', b"{}]}"),
    "objects of a manifest": numbered(POD % (b"p", ENGINE.removesuffix(b",")), b'{"deployments":[[', b"{}]]}"),
    "engines of an object with a long name": _named_engines,
    "objects without an engine": numbered(NO_ENGINE, b'{"deployments":[[', b"{}]]}"),
    "releases": repeated(b'"0.23.0",', b'{"deployments":[],"releases":[', b'"0.22.0"]}'),
    "unknown releases": numbered(b'"0.%d",', b'{"deployments":[],"releases":[', b'"0.22.0"]}'),
    "a long release": repeated(b"1.", b'{"deployments":[],"to":"', b'"}'),
    "long releases": repeated(b'"' + b"1." * 100 + b'",', b'{"deployments":[],"releases":[', b'"0.22.0"]}'),
    "unknown fields": numbered(b'"a%d":1,', b"{", b'"deployments":[]}'),
}

STREAM: Final[dict[str, Family]] = {
    "a plain text": repeated(b"a"),
    "a text of digits": repeated(b"1"),
    "a text of digits and colons": repeated(b"1:", b"", b"x"),
    "a text of digits and underscores": repeated(b"1_", b"", b"x"),
    "a date and blanks": repeated(b"\t", b"a: 2001-01-01", b"x"),
    "an unclosed text": repeated(b"a ", b'"'),
    "an unclosed text of lines": repeated(b"\n", b'"'),
    "escapes": repeated(b"\\n", b'"', b'"'),
    "a folded text": repeated(b" a\n\n", b"a: >\n"),
    "a literal text": repeated(b" a\n", b"a: |\n"),
    "opened lists": _nested(b"["),
    "opened maps": _nested(b"{"),
    "nested items": _nested(b"- "),
    "questions": _nested(b"? "),
    "opened lists on lines": _nested(b"[\n"),
    "numbers of a list": repeated(b"1,", b"["),
    "maps of a list": repeated(b"{a: 1},", b"["),
    "colons": repeated(b":"),
    "keys": repeated(b"a: "),
    "tabs": repeated(b"\t", b"a:", b"1"),
    "blank lines": repeated(b"\n", b"", b"a"),
    "comments": repeated(b"# a\n", b"", b"a"),
    "one comment": repeated(b"a", b"#"),
    "documents": repeated(b"---\n", b"", b"a"),
    "ended documents": repeated(b"a\n...\n"),
    "documents with a value": repeated(b"--- 1\n"),
    "directives": numbered(b"%%TAG !a%d! b\n", b"", b"--- a"),
    "unknown directives": numbered(b"%%A%d b\n", b"", b"--- a"),
    "keys of a map": numbered(b"a%d: 1\n"),
    "one key many times": repeated(b"a: 1\n"),
    "long keys": numbered(b"a" * 900 + b"%d: 1\n"),
    "a long key": repeated(b"a", b"? ", b"\n: 1"),
    "a list as a key": repeated(b"1,", b"{[", b"1]: 1}"),
    "anchors": numbered(b"- &a%d 1\n"),
    "one anchor many times": repeated(b"- &a 1\n"),
    "aliases": repeated(b"- *a\n", b"- &a 1\n"),
    "aliases of a list": _halves(b"- &a [", b"1,", b"1]\n", b"- *a\n", b""),
    "aliases of aliases": numbered(b"- &a%d [*a, *a]\n", b"- &a [1]\n"),
    "merged maps": numbered(b"- &a%d\n  <<: *a\n  b: 1\n", b"- &a {a: 1}\n"),
    "one map merged many times": repeated(b"*a,", b"- &a {b: 1}\n- <<: [", b"*a]"),
    "a large map merged many times": lambda size: (
        b"- &a {" + b"".join(b"a%d: 1," % n for n in range(size // 20)) + b"}\n- <<: [" + b"*a," * (size // 6) + b"*a]"
    ),
    "maps each merged with the one before": lambda size: (
        b"- &a0 {b: 1}\n" + b"".join(b"- &a%d {<<: *a%d, b%d: 1}\n" % (n + 1, n, n) for n in range(size // 30))
    ),
    "tags": repeated(b"- !!str a\n"),
    "a long tag": repeated(b"a", b"!"),
    "percents of a tag": repeated(b"%41", b"!"),
    "a control character at the end": repeated("é\n".encode(), b"", b"\x00"),
}


def _filled(text: bytes, unit: Callable[[int], bytes], step: int) -> Family:
    """A text in which the text ``FILL`` is replaced by items up to the size."""
    return lambda size: text.replace(
        b'"FILL"', b", ".join(unit(number) for number in range(max(1, (size - len(text)) // step)))
    )


RULES: Final[dict[str, Family]] = {
    "unknown fields": lambda size: _rule()[:-1] + b"".join(b', "a%d": 1' % n for n in range(size // 12)) + b"}",
    "invalid links": _filled(_rule(references=["FILL"]), lambda n: b"a%d" % n, 8),
    "ranges": _filled(
        _rule(releases=["FILL"]), lambda n: b'{vllm: ">=0.%d,<0.%d", text: t, when: always}' % (n, n + 1), 52
    ),
    "ranges that are not maps": _filled(_rule(releases=["FILL"]), lambda n: b"%d" % n, 7),
    "ranges with a shared condition": lambda size: _rule(
        when={"any": [{"model_config.architectures": {"has_any_of": [f"A{n}"]}} for n in range(size // 200)]},
        releases=[{"vllm": f">=0.{n}"} for n in range(size // 60)],
    ),
    "gaps": _filled(_rule(gaps=["FILL"]), lambda n: b'{vllm: ">=0.%d,<0.%d", why: w}' % (n, n + 1), 34),
    "bounds of a range": lambda size: _rule(vllm=",".join(f">=0.{n}" for n in range(size // 8))),
    "digits of a release": lambda size: _rule(vllm=">=" + "9" * size),
    "points of a release": lambda size: _rule(vllm=">=" + "1." * (size // 2)),
    "values of a fact": lambda size: _rule(
        when={"model_config.architectures": {"has_any_of": [f"A{n}" for n in range(size // 12)]}}
    ),
    "one value many times": lambda size: _rule(
        when={"model_config.architectures": {"has_any_of": ["A"] * (size // 8)}}
    ),
    "unknown facts": lambda size: _rule(when={f"a{n}": 1 for n in range(size // 10)}),
    "unknown operators": lambda size: _rule(
        when={"model_config.architectures": {f"a{n}": 1 for n in range(size // 12)}}
    ),
    "comparisons": lambda size: _rule(when={"all": [{"model_config.is_moe": True}] * (size // 40)}),
    "alternatives": lambda size: _rule(
        when={"all": [{"any": [{"model_config.is_moe": True}, {"uses": "named"}]}] * (size // 100)}
    ),
    "named conditions": lambda size: _rule(when={"all": [{"uses": "named"}] * (size // 30)}),
    "unknown named conditions": lambda size: _rule(when={"all": [{"uses": f"a{n}"} for n in range(size // 25)]}),
    "nested conditions": lambda size: _rule(when={"any": [_deep(n) for n in range(size // 600)]}),
    "unknown names in words": lambda size: _rule(words="".join(f"{{a{n}}}" for n in range(size // 8))),
    "names in words": lambda size: _rule(words="{model_config.is_moe}" * (size // 22)),
    "braces": lambda size: _rule(words="{" * size),
    "pairs of braces": lambda size: _rule(words="{{" * (size // 2)),
    "nested braces": lambda size: _rule(words="{a:" + "{" * (size // 2) + "}" * (size // 2) + "}"),
    "unknown effects": lambda size: _rule(needs=[f"a{n}" for n in range(size // 10)]),
    "effects": lambda size: _rule(unless=["exclude-v1"] * (size // 14)),
    "a long id": lambda size: _rule(id="a-" * (size // 2) + "!"),
}


def _deep(number: int) -> dict[str, Any]:
    found: dict[str, Any] = {"model_config.architectures": {"has_any_of": [f"A{number}"]}}
    for _ in range(8):
        found = {"not": {"any": [found]}}
    return found


def _cases(**members: Any) -> bytes:
    return json.dumps(
        {"rule": RULE, "cases": [{"name": "n", "vllm": ["0.22.0"], "given": {}, "fires": False, **members}]}
    ).encode()


CASES: Final[dict[str, Family]] = {
    "cases": lambda size: json.dumps(
        {
            "rule": RULE,
            "cases": [{"name": f"n{n}", "vllm": ["0.22.0"], "given": {}, "fires": False} for n in range(size // 60)],
        }
    ).encode(),
    "cases that are not maps": lambda size: json.dumps({"rule": RULE, "cases": [1] * (size // 4)}).encode(),
    "releases": lambda size: _cases(vllm=["0.22.0"] * (size // 10)),
    "releases and facts": lambda size: _cases(
        vllm=["0.22.0"] * (size // 20),
        given={"model_config": {"architectures": ["A"] * (size // 30), **{f"a{n}": 1 for n in range(size // 40)}}},
    ),
    "unknown releases": lambda size: _cases(vllm=[f"0.{n}" for n in range(size // 10)]),
    "unknown facts": lambda size: _cases(given={f"a/{n}": 1 for n in range(size // 10)}),
    "nested facts": lambda size: _cases(given={"model_config": [[[f"a{n}"] for n in range(size // 20)]]}),
    "unknown fields": lambda size: _cases(**{f"a{n}": 1 for n in range(size // 10)}),
    "accepted_mutants": lambda size: json.dumps(
        {"rule": RULE, "cases": [], "accepted_mutants": [{"vllm": "v", "change": "c", "why": "w"}] * (size // 40)}
    ).encode(),
}


def _release(number: int) -> str:
    return f"{number // 1000}.{number // 10 % 100}.{number % 10}"


FOLDERS: Final[dict[str, Family]] = {
    "releases": lambda size: json.dumps(
        {"known": [_release(n) for n in range(size // 12)], "default": "0.0.0"}
    ).encode(),
    "one release many times": lambda size: json.dumps({"known": ["0.0.0"] * (size // 12), "default": "0.0.0"}).encode(),
    "releases that are numbers": lambda size: json.dumps({"known": [0.1] * (size // 6), "default": "0.0.0"}).encode(),
    "digits of a release": lambda size: json.dumps({"known": ["9" * size], "default": "0.0.0"}).encode(),
}

TOKENS: Final[dict[str, Family]] = {
    "entries": numbered(b"  - {name: a%d, sha256: " + b"a" * 64 + b", scopes: [read]}\n", b"tokens:\n"),
    "tokens": lambda size: (
        b"tokens:\n"
        + b"".join(b"  - {name: a%d, sha256: %064x, scopes: [read]}\n" % (n, n) for n in range(size // 105))
    ),
    "entries that are not maps": repeated(b"  - 1\n", b"tokens:\n"),
    "unknown fields": numbered(b"    a%d: 1\n", b"tokens:\n  - name: a\n"),
    "unknown scopes": numbered(b"a%d,", b"tokens:\n  - name: a\n    scopes: [", b"a]"),
    "scopes": repeated(b"read,", b"tokens:\n  - name: a\n    scopes: [", b"read]"),
    "a long name": repeated(b"a", b"tokens:\n  - name: ", b"!"),
    "a name of dashes": repeated(b"a-", b"tokens:\n  - name: "),
    "tokens instead of digests": numbered(b"  - {name: rp_%d, sha256: rp_a-, scopes: rp_rp_}\n", b"tokens:\n"),
    "a long day": repeated(b"1-", b"tokens:\n  - name: a\n    until: "),
}

QUERIES: Final[dict[str, Family]] = {
    "names": numbered(b"a%d=1&"),
    "one name many times": repeated(b"a=1&"),
    "separators": repeated(b"&"),
    "equals": repeated(b"="),
    "percents": repeated(b"%"),
    "escapes": repeated(b"%41"),
    "escapes that are not UTF-8": repeated(b"%ff"),
    "blanks": repeated(b"+"),
    "one filter with many values": numbered(b"limit=a%d&"),
    "a filter many times": repeated(b"limit=1&"),
    "a long rule": repeated(b"a-", b"rule=", b"!"),
    "a long rule without dashes": repeated(b"a", b"rule=", b"!"),
    "a long time": repeated(b"1", b"since="),
    "a long timestamp": repeated(b"0", b"since=2026-01-01T00:00:00.", b"x"),
    "a long limit": repeated(b"9", b"limit="),
}

HEADERS: Final[dict[str, Family]] = {
    "a length of digits": repeated(b"9", b"content-length: "),
    "a length of letters": repeated(b"a", b"content-length: "),
    "media types": repeated(b"text/plain,", b"accept: "),
    "commas": repeated(b",", b"accept: "),
    "semicolons": repeated(b";", b"accept: "),
    "weights": repeated(b";q=1", b"accept: text/plain"),
    "a long weight": repeated(b"9", b"accept: text/plain;q="),
    "a long fraction": repeated(b"9", b"accept: text/plain;q=0."),
    "weighted types": repeated(b"text/plain;q=0.1 , application/json;q=.2,", b"accept: "),
    "blanks": repeated(b" ", b"accept: ", b"a"),
    "a long type": repeated(b";", b"content-type: "),
    "a long encoding": repeated(b"a", b"content-encoding: "),
}

CHUNKS: Final[dict[str, Family]] = {
    "one line": repeated(b"a"),
    "lines": repeated(b"a\n"),
    "empty lines": repeated(b"\n"),
    "a line beyond the limit": repeated(b"a"),
}


def _part(name: bytes, content: bytes, headers: bytes = b"") -> bytes:
    return (
        b"--"
        + BOUNDARY
        + b'\r\nContent-Disposition: form-data; name="'
        + name
        + b'"'
        + headers
        + b"\r\n\r\n"
        + content
        + b"\r\n"
    )


END: Final = b"--" + BOUNDARY + b"--\r\n"
FORMS: Final[dict[str, Family]] = {
    "parts": lambda size: _part(b"rules", b"a") * (size // len(_part(b"rules", b"a"))) + END,
    "unknown parts": lambda size: b"".join(_part(b"a%d" % n, b"a") for n in range(size // 100)) + END,
    "files": lambda size: _part(b"rules", b"a", b'; filename="a"') * (size // 110) + END,
    "a long part": lambda size: _part(b"deployment", b"a" * size) + END,
    "a part of lines": lambda size: _part(b"deployment", b"\r\n" * (size // 2)) + END,
    "a part of dashes": lambda size: _part(b"deployment", b"\r\n--" * (size // 4)) + END,
    "a part of incomplete boundaries": lambda size: (
        _part(b"deployment", (b"\r\n--" + BOUNDARY[:-1]) * (size // 35)) + END
    ),
    "a long name": lambda size: _part(b"a" * size, b"a") + END,
    "a name of semicolons": lambda size: _part(b";" * size, b"a") + END,
    "a name of quotes and semicolons": lambda size: _part(b'";' * (size // 2), b"a") + END,
    "a name of escaped quotes": lambda size: _part(b'\\"' * (size // 2), b"a") + END,
    "parameters": lambda size: _part(b"a", b"a", b"; a=b" * (size // 5)) + END,
    "continued parameters": lambda size: _part(b"a", b"a", b"".join(b"; a*%d=b" % n for n in range(size // 10))) + END,
    "headers": lambda size: _part(b"a", b"a", b"\r\na: b" * (size // 6)) + END,
    "a long header": lambda size: _part(b"a", b"a", b"\r\na: " + b"b" * size) + END,
    "before the first boundary": lambda size: b"\r\n" * (size // 2) + _part(b"deployment", b"a") + END,
    "after the last boundary": lambda size: _part(b"deployment", b"a") + END + b"\r\n" * (size // 2) + END,
    "a body of the last boundary": lambda size: END * (size // len(END)),
    "not a form": lambda size: b"a" * size + END,
}
FORM_TYPES: Final[dict[str, Family]] = {
    "semicolons": repeated(b";"),
    "semicolons in a quote": repeated(b";", b'; a="'),
    "quotes and semicolons": repeated(b'";'),
    "escaped quotes": repeated(b'\\"', b'; a="'),
    "parameters": repeated(b"; a=b"),
    "numbered parameters": numbered(b"; a*%d=b"),
    "a long boundary": repeated(b"b", b"; boundary="),
    "comments": repeated(b"(", b"; boundary="),
}

REVIEWS: Final[dict[str, Family]] = {
    "members": numbered(b'"a%d":1,', b'{"request":{', b'"a":1}}'),
    "groups that are numbers": repeated(b"1,", b'{"request":{"userInfo":{"groups":[', b"1]}}}"),
    "groups": repeated(b'"a",', b'{"request":{"userInfo":{"groups":[', b'"a"]}}}'),
    "a long group name": repeated(b"a", b'{"request":{"userInfo":{"groups":["', b'"]}}}'),
    "extras": numbered(b'"a%d":["b"],', b'{"request":{"userInfo":{"extra":{', b'"a":["b"]}}}}'),
    "extras that are numbers": numbered(b'"a%d":1,', b'{"request":{"userInfo":{"extra":{', b'"a":1}}}}'),
    "an extra with a long name and many values": _halves(
        b'{"request":{"userInfo":{"extra":{"', b"a", b'":[', b'"a",', b'"a"]}}}}'
    ),
    "an extra with a long name and many numbers": _halves(
        b'{"request":{"userInfo":{"extra":{"', b"a", b'":[', b"1,", b"1]}}}}"
    ),
    "members of the object": numbered(b'"a%d":1,', b'{"request":{"object":{', b'"a":1}}}'),
    "a long uid": repeated(b"a", b'{"request":{"uid":"', b'"}}'),
}

CANDIDATES: Final[dict[str, Family]] = {
    "unknown fields": numbered(b'"a%d":1,', b"{", b'"request":{}}'),
    "rules": numbered(b'"a%d",', b'{"request":{},"rules":[', b'"a"]}'),
    "rules that are numbers": repeated(b"1,", b'{"request":{},"rules":[', b"1]}"),
    "removals": numbered(b'"a%d",', b'{"request":{},"remove":[', b'"a"]}'),
}


def _read_rule(text: bytes) -> Catalogue:
    return load(Sources({**SOURCES, "upstream/candidate.yaml": text.decode()}))


def _read_releases(text: bytes) -> Catalogue:
    return load(Sources({"releases.yaml": text.decode()}))


def _read_cases(text: bytes) -> Any:
    return read_cases({f"upstream/{RULE}_test.yaml": text.decode()}, CATALOGUE)


def _read_impact(body: bytes) -> Any:
    request = read_impact_request(decode(body), CATALOGUE.releases, 10_000)
    return [*entries_of(request, CATALOGUE.releases, [])]


def _read_headers(head: bytes) -> Any:
    return read_headers(dict([head.split(b": ", 1)]), BODY)


def _read_form(body: bytes, content_type: bytes = b"multipart/form-data; boundary=" + BOUNDARY) -> Any:
    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", content_type)]}
    return asyncio.run(read_form(scope, body))


def _read_form_type(parameters: bytes) -> Any:
    return _read_form(b"a", b"multipart/form-data" + parameters)


def _read_chunks(body: bytes, chunk: int, limit: int) -> list[Any]:
    parts: Iterator[bytes] = (body[start : start + chunk] for start in range(0, len(body), chunk))

    async def receive() -> Message:
        part = next(parts, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def read() -> list[Any]:
        return [line async for lines in read_lines(receive, limit) for line in lines]

    return asyncio.run(read())


READERS: Final[dict[str, Reader]] = {
    "JSON": Reader(read_json, BODY, JSON, counted=16_384),
    "request on the fast path": Reader(lambda body: decode_fast(body, CATALOGUE.releases), BODY, JSON | REQUESTS),
    "request": Reader(
        lambda body: read_request_or_manifest(decode(body), CATALOGUE.releases), BODY, REQUESTS, counted=16_384
    ),
    "impact": Reader(_read_impact, BODY, IMPACTS),
    "facts": Reader(lambda body: read_facts(read_json(body), series("0.23.0"), "", []), BODY, REQUESTS),
    "candidate": Reader(lambda body: read_dry_run(read_json(body)), BODY, CANDIDATES),
    "review": Reader(lambda body: read_review(read_json(body)), REVIEW, REVIEWS),
    "YAML body": Reader(lambda body: decode(body, b"application/yaml"), YAML, STREAM, counted=8192),
    "YAML file": Reader(lambda body: read_yaml(body.decode(), "a"), YAML, STREAM, counted=8192),
    "rule": Reader(_read_rule, YAML, RULES, counted=8192),
    "releases": Reader(_read_releases, YAML, FOLDERS, counted=8192),
    "cases": Reader(_read_cases, YAML, CASES, counted=8192),
    "token file": Reader(lambda text: _tokens(text.decode(), Path("tokens")), YAML, TOKENS, counted=8192),
    "query": Reader(refuse_query, HEAD, QUERIES),
    "query of the log": Reader(lambda query: read_filters(parse_qsl(query.decode())), HEAD, QUERIES),
    "headers": Reader(_read_headers, HEAD, HEADERS),
    "form": Reader(_read_form, BODY, FORMS),
    "type of a form": Reader(_read_form_type, HEAD, FORM_TYPES),
    "lines in small chunks": Reader(lambda body: _read_chunks(body, 64, BODY), BODY, CHUNKS, counted=1 << 17),
    "lines beyond the limit in small chunks": Reader(lambda body: _read_chunks(body, 64, 1024), BODY, CHUNKS),
}
