"""Malformed or invalid input.

The answer is a problem that says what is wrong, where, and what is legal; the next request is answered.
"""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from collisions import COLLISIONS
from representatives import slow_except
from tables import table

from policy.engine.compiler import fnv1a
from policy.facts.vocabulary import MAX_INTEGER, VOCABULARY, Fact, FactKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from .conftest import Server

ENDPOINTS = ["/v1/decisions", "/v1/decisions/batch", "/v1/dry-run", "/v1/impact"]
MALFORMED = "malformed"
INVALID = "invalid-request"
YAML = {"content-type": "application/yaml"}
QWEN: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}


@pytest.fixture
def still_serving(server: Server, client: httpx.Client) -> Iterator[None]:
    """Afterwards the next request is answered, on the same connections and on a new one."""
    yield
    with server.client() as other:
        assert [asked.post("/v1/decisions", json={"facts": QWEN}).json()["runner"] for asked in (client, other)] == [
            "v2",
            "v2",
        ]


def problem_of(response: httpx.Response) -> tuple[int, str, list[tuple[str, str]]]:
    """Status, kind and faults of a problem, after its shape is checked."""
    problem = response.json()
    faults = [(fault["pointer"], fault["message"]) for fault in problem["errors"]]
    pointer, message = faults[0]
    assert response.headers["content-type"] == "application/problem+json"
    assert (list(problem), problem["status"]) == (["type", "title", "status", "detail", "errors"], response.status_code)
    assert problem["detail"].startswith(f"{pointer}: {message}" if pointer else message)
    return response.status_code, problem["type"].removeprefix("urn:runner-policy:problem:"), faults


pytestmark = pytest.mark.usefixtures("still_serving")


# invalid JSON

NUMBER = b'{"facts": {"parallel_config": {"tensor_parallel_size": '
TEXT = b'{"facts": {"model_config": {"architectures": ["'
EMPTY = 'the body is empty; send a request such as {"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}'
MARK = "the body begins with a byte order mark; send plain UTF-8"
CUT = "not JSON: Input data was truncated; YAML is read with `content-type: application/yaml`"
UTF8 = "not UTF-8: byte {} is not part of a character"
SURROGATE = "not JSON: half of a surrogate pair (byte {}); YAML is read with `content-type: application/yaml`"
LARGE = "not JSON: a number that is too large (byte {}); YAML is read with `content-type: application/yaml`"


@table(
    ("good", "bad", "expected_message"),
    [
        (b"", b"", EMPTY),
        (b"", b" \r\n\t ", EMPTY),
        (b"", b"\xef\xbb\xbf{}", MARK),
        (b"", b"\xef\xbb\xbf", MARK),
        (b"", b"{", CUT),
        (b'{"facts": {}', b"", CUT),
        (b'{"facts": {"model_con', b"", CUT),
        (b'"unfinished', b"", CUT),
        (TEXT, b'\xff"]}}}', UTF8),
        (TEXT, b'\xe9t\xe9"]}}}', UTF8),
        (TEXT + "ünï".encode(), b'\xe2\x82"]}}}', UTF8),
        (TEXT, b'\xc0\x80"]}}}', UTF8),
        (TEXT, b'\xf4\x90\x80\x80"]}}}', UTF8),
        (TEXT, b'\xed\xa0\x80"]}}}', UTF8),
        (b'{"', b'\xff": 1}', UTF8),
        (TEXT, b'\\ud800"]}}}', SURROGATE),
        (TEXT, b'\\udc00"]}}}', SURROGATE),
        (TEXT + b"\\uD83E\\uDD8A and ", b'\\udbff!"]}}}', SURROGATE),
        (TEXT, b'\\ud800\\ud800"]}}}', SURROGATE),
        (b'{"', b'\\udfff": 1}', SURROGATE),
        (NUMBER, b"1e999}}}", LARGE),
        (NUMBER, b"-1.5e+400}}}", LARGE),
        (NUMBER, b"9" * 5000 + b"}}}", LARGE),
        (b'{"x": [1e5, "1e999 \\" 1e999", ', b"2e999]}", LARGE),
    ],
    ids=lambda value: repr(value[:60]),
)
@table("path", ENDPOINTS)
def test_a_body_that_cannot_be_read_is_a_400_with_reason_and_position(
    client: httpx.Client, path: str, good: bytes, bad: bytes, expected_message: str
) -> None:
    assert problem_of(client.post(path, content=good + bad)) == (
        400,
        MALFORMED,
        [("", expected_message.replace("{}", str(len(good))))],
    )


@table(
    ("good", "bad"),
    [
        (b"", '{"facts": {}}'.encode("utf-16")),
        (b"{", b'\x00"\x00f\x00'),
        (b"", "{}".encode("utf-32")),
        (b'{"facts": {}}', b"}"),
        (b'{"facts": {}} ', b"x"),
        (b'{"facts": {}}', b'{"facts": {}}'),
        (b'{"facts": {},', b"}"),
        (b'{"facts": [1,', b"]}"),
        (b'{"facts" ', b"{}}"),
        (b'{"facts": ', b"}"),
        (b"{", b"'facts': {}}"),
        (b"{", b"facts: {}}"),
        (b"{", b'1: "x"}'),
        (b'{"facts": {}} ', b"// why"),
        (b"", b'/* why */ {"facts": {}}'),
        (b'{"facts": {}, "explain": ', b"True}"),
        (b'{"facts": {}, "explain": ', b"tru}"),
        (b'{"facts": ', b"undefined}"),
        (b"facts", b": {}"),
        (b"", b"architectures=Qwen"),
        (b"", b"\x00"),
        (b'{"facts": {}}', b"\x00"),
        (b"", b"hello"),
        (b'"', b'\\x41"'),
        (b'"\\u12', b'zz"'),
        (b'"line', b'\nbreak"'),
        (TEXT, b'\x01"]}}}'),
        (NUMBER, b"NaN}}}"),
        (NUMBER, b"nan}}}"),
        (NUMBER, b"Infinity}}}"),
        (NUMBER + b"-", b"Infinity}}}"),
        (NUMBER, b"01}}}"),
        (NUMBER, b"+1}}}"),
        (NUMBER, b".5}}}"),
        (NUMBER + b"5.", b"}}}"),
        (NUMBER + b"1e", b"}}}"),
        (NUMBER + b"0", b"x10}}}"),
        (NUMBER + b"1", b"_000}}}"),
        (NUMBER + b"-", b"-1}}}"),
        (b"", gzip.compress(b'{"facts": {}}', mtime=0)),
    ],
    ids=lambda value: repr(value[:60]),
)
@table("path", ENDPOINTS)
def test_invalid_json_is_a_400_that_names_the_byte(client: httpx.Client, path: str, good: bytes, bad: bytes) -> None:
    status, kind, ((pointer, message),) = problem_of(client.post(path, content=good + bad))
    place = re.search(r"^not JSON: .+ \(byte (\d+)\).*; YAML is read with `content-type: application/yaml`$", message)
    assert (status, kind, pointer) == (400, MALFORMED, "")
    assert place, message
    assert abs(int(place[1]) - len(good)) <= 4, message


# deep nesting


def nested(depth: int, opened: str, closed: str, core: str = "") -> bytes:
    return (opened * depth + core + closed * depth).encode()


@table("path", ENDPOINTS)
@table(
    "body",
    [
        nested(100_000, "[", ""),
        nested(100_000, "[", "]"),
        nested(100_000, '{"a":', ""),
        nested(100_000, '{"a":', "}", "1"),
        nested(100_000, '{"facts":', "}", "{}"),
        nested(50_000, '{"items":[', "]}"),
        nested(50_000, '[{"a":', "}]", "[]"),
        b'{"facts": {"model_config": {"logits_processors": ' + nested(100_000, "[", "]") + b"}}}",
        b'{"facts": {"model_config": {"anything": ' + nested(100_000, '{"a":', "}", "1") + b"}}}",
    ],
    ids=["[", "[]", "{", "{}", "facts", "items", "mixed", "in a fact", "in an ignored field"],
)
def test_100_000_levels_are_a_400(client: httpx.Client, path: str, body: bytes) -> None:
    status, kind, ((pointer, message),) = problem_of(client.post(path, content=body))
    assert (status, kind, pointer, "nested too deeply" in message) == (400, MALFORMED, "", True), message


@table("accept", ["application/json", "text/plain"])
@table("path", ENDPOINTS)
@table(
    "around",
    [
        "%b",
        '{"facts": %b}',
        '{"facts": {"model_config": {"is_moe": %b}}}',
        '{"facts": {"model_config": {"logits_processors": %b}}}',
    ],
)
def test_no_depth_of_nesting_causes_an_internal_error(
    client: httpx.Client, path: str, around: str, accept: str
) -> None:
    depths = (
        1,
        10,
        63,
        64,
        65,
        100,
        200,
        330,
        340,
        400,
        500,
        700,
        900,
        950,
        *range(960, 1010, 3),
        1100,
        2000,
        5000,
        10_000,
    )
    before, after = {
        "/v1/decisions": ("", ""),
        "/v1/decisions/batch": ('{"items": [', "]}"),
        "/v1/dry-run": ('{"rules": [], "request": ', "}"),
        "/v1/impact": ('{"deployments": [', "]}"),
    }[path]
    document = f"{before}{around}{after}".encode()
    found = {
        depth: client.post(path, content=document % nested(depth, "[", "]"), headers={"accept": accept}).status_code
        for depth in depths
    }
    assert set(found.values()) <= {200, 400, 422}, found


# valid JSON, invalid requests

TWO_31: Final = MAX_INTEGER + 1
VALUES: list[tuple[str, Any]] = [
    ("null", None),
    ("true", True),
    ("0", 0),
    ("1", 1),
    ("-1", -1),
    ("1.0", 1.0),
    ("1.5", 1.5),
    ("1e+20", 1e20),
    (str(MAX_INTEGER), MAX_INTEGER),
    (str(TWO_31), TWO_31),
    (str(10**30), 10**30),
    ("", ""),
    ("x", "x"),
    ("1", "1"),
    ("x" * 80 + "…", "x" * 8193),
    (r"\x00", "\x00"),
    ("[]", []),
    ("[null]", [None]),
    ('["x"]', ["x"]),
    ('["x", 1]', ["x", 1]),
    ("[[]]", [[]]),
    ("{}", {}),
    ("{…}", {"x": 1}),
]


def legal(fact: Fact, value: Any) -> bool:
    """Whether the kind of the fact allows the value, whatever the length of a text or list."""
    if value is None:
        return fact.nullable or fact.kind in {FactKind.PRESENCE, FactKind.VARIABLE}
    match fact.kind:
        case FactKind.BOOLEAN:
            return isinstance(value, bool)
        case FactKind.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool) and fact.least <= value <= MAX_INTEGER
        case FactKind.SHARE:
            return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
        case FactKind.CHOICE:
            return value in fact.choices
        case FactKind.TEXT:
            return isinstance(value, str) and len(value) <= 8192
        case FactKind.VARIABLE:
            return isinstance(value, bool) or (isinstance(value, str) and len(value) <= 8192 and "\0" not in value)
        case FactKind.TEXTS:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case FactKind.LIST:
            return isinstance(value, list)
        case FactKind.NUMBER:
            return type(value) in {int, float}
        case FactKind.PRESENCE:
            return value == {} or (isinstance(value, dict) and fact.name != "env")


def placed(name: str, value: Any) -> dict[str, Any]:
    """The nested facts with one value at a flat name."""
    document = value
    for part in reversed(name.split(".")):
        document = {part: document}
    return {"facts": document}


def answers(client: httpx.Client, documents: list[Any], way: str) -> list[Any]:
    """The answers to several requests, sent in one of the possible ways."""
    if way == "batch":
        items: list[Any] = client.post("/v1/decisions/batch", json={"items": documents}).json()["items"]
        return items
    lines = "\n".join(map(json.dumps, documents))
    found = client.post("/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"})
    return [json.loads(line) for line in found.text.splitlines()]


@table("way", ["batch", "stream"])
@table("fact", VOCABULARY, ids=lambda fact: fact.name)
def test_a_fact_accepts_values_of_its_own_kind_and_refuses_all_others(
    client: httpx.Client, fact: Fact, way: str
) -> None:
    items = answers(client, [placed(fact.name, value) for _, value in VALUES], way)
    found = [[(fault["pointer"], fault["message"]) for fault in item.get("errors", [])] for item in items]
    message = {
        True: f"`null` is not legal here; legal: {fact.legal}; leave it out for the default",
        False: f"`{{}}` is not legal for `{fact.name}`; legal: {fact.legal}",
    }
    places = [
        f"{f'/items/{number}' if way == 'batch' else ''}/facts/{fact.name.replace('.', '/')}"
        for number in range(len(VALUES))
    ]
    expected = [
        [] if legal(fact, value) else [(place, message[value is None].replace("`{}`", f"`{shown}`", 1))]
        for place, (shown, value) in zip(places, VALUES, strict=True)
    ]
    if fact.kind is FactKind.INTEGER:
        number = VALUES.index(("1", "1"))
        text = f'the text `"1"` is not legal for `{fact.name}`; legal: {fact.legal}; write it without quotes'
        expected[number] = [(places[number], text)]
    assert found == expected


@pytest.mark.parametrize(
    ("name", "value", "expected_message"),
    [
        ("kv_transfer_config.kv_connector", "x" * 8192, None),
        ("kv_transfer_config.kv_connector", "x" * 8193, "a string of at most 8192 characters, `null`"),
        ("model_config.architectures", ["x"] * 4096, None),
        ("model_config.architectures", ["x"] * 4097, "a list of at most 4096 strings"),
        ("model_config.architectures", ["x" * 8193], "a list of at most 4096 strings"),
        ("model_config.logits_processors", [None] * 4096, None),
        ("model_config.logits_processors", [None] * 4097, "a list of at most 4096 items, `null`"),
        ("env.VLLM_USE_V2_MODEL_RUNNER", "0" * 8192, None),
        ("env.VLLM_USE_V2_MODEL_RUNNER", "0" * 8193, "the variable's text, `true`, `false`, `null` if it is unset"),
        ("env.VLLM_USE_V2_MODEL_RUNNER", "9" * 5000, None),
    ],
    ids=lambda value: str(value)[:50],
)
def test_the_lengths_of_texts_and_lists_are_limited(
    client: httpx.Client, name: str, value: Any, expected_message: str | None
) -> None:
    response = client.post("/v1/decisions", json=placed(name, value))
    if expected_message is None:
        assert response.status_code == 200
    else:
        status, kind, ((pointer, message),) = problem_of(response)
        assert (status, kind, pointer, message.endswith(f"legal: {expected_message}")) == (
            422,
            INVALID,
            f"/facts/{name.replace('.', '/')}",
            True,
        )


OBJECTS = (
    "`env`, `platform`, `omni`, `plugins`, `model_config`, `parallel_config`, `scheduler_config`, "
    "`speculative_config`, `cache_config`"
)
PARTS = "legal: `deployment`, `rules`, `remove`, `cases`, `changes`"
MEMBERS = (
    "legal: `facts`, `deployment`, `manifest`, `model_configs`, `environment`, `vllm_version`, `override_images`, "
    "`layers`, `request_id`, `explain`, `beyond_verified`"
)


@table(
    ("document", "pointer", "starts", "ends"),
    [
        ({"fact": {}}, "/fact", "unknown field `fact`; legal: `facts`", "; did you mean `facts`?"),
        (
            {"facts": {}, "vllm_verison": "0.23.0"},
            "/vllm_verison",
            f"unknown field `vllm_verison`; {MEMBERS}",
            "; did you mean `vllm_version`?",
        ),
        ({"facts": {}, "requestId": "x"}, "/requestId", "unknown field `requestId`", "; did you mean `request_id`?"),
        (
            {"facts": {}, "deployment": {}},
            "/deployment",
            "a request has one of `facts`, `deployment`, `manifest`",
            "and this one has `facts` already",
        ),
        ({"facts": {}, "": 1}, "/", f"unknown field ``; {MEMBERS}", MEMBERS),
        ({"facts": {}, "a/b~c": 1}, "/a~1b~0c", "unknown field `a/b~c`", MEMBERS),
        ({"facts": {}, "🦊": 1}, "/🦊", "unknown field `🦊`", MEMBERS),
        ({"facts": {}, "x" * 300: 1}, f"/{'x' * 300}", f"unknown field `{'x' * 80}…`", MEMBERS),
        ({"facts": {}, "__proto__": 1}, "/__proto__", "unknown field `__proto__`", MEMBERS),
        (
            {"facts": {"model_confg": {}}},
            "/facts/model_confg",
            f"unknown field `model_confg`; legal: {OBJECTS}",
            "; did you mean `model_config`?",
        ),
        ({"facts": {"model": {}}}, "/facts/model", "unknown field `model`", "`"),
        (
            {"facts": {"parallel_config": {"tensor_paralel_size": 2}}},
            "/facts/parallel_config/tensor_paralel_size",
            "unknown field `tensor_paralel_size`; legal: `tensor_parallel_size`, ",
            "; did you mean `tensor_parallel_size`?",
        ),
        (
            {"facts": {"env": {"VLLM_USE_V2_RUNNER": "1"}}},
            "/facts/env/VLLM_USE_V2_RUNNER",
            "unknown field `VLLM_USE_V2_RUNNER`",
            "MODEL_RUNNER`?",
        ),
        (
            {"facts": {"platform": {"is_rocm ": True}}},
            "/facts/platform/is_rocm ",
            "unknown field `is_rocm `",
            "; did you mean `is_rocm`?",
        ),
        (
            {"facts": {"compilation_config": {"pass_config": {"sp": 1}}}},
            "/facts/compilation_config/pass_config/sp",
            "unknown field `sp`",
            "`enable_sp`",
        ),
        (
            {"facts": {"platform": []}},
            "/facts/platform",
            "expected an object, got `[]`; its fields are `has_triton`, `is_rocm`",
            "`",
        ),
        (
            {"facts": {"parallel_config": "tp=2"}},
            "/facts/parallel_config",
            "expected an object, got `tp=2`; its fields are `",
            "`",
        ),
        ({"facts": []}, "/facts", "expected an object, got `[]`; write the facts as", "`"),
        ({"facts": None}, "/facts", "expected an object, got `null`; write the facts as", "`"),
        ({"facts": "x"}, "/facts", "expected an object, got `x`; write the facts as", "`"),
        ({"facts": {}, "explain": 1}, "/explain", "expected `true` or `false`, got `1`", "`1`"),
        ({"facts": {}, "explain": None}, "/explain", "expected `true` or `false`, got `null`", "`null`"),
        (
            {"facts": {}, "request_id": 7},
            "/request_id",
            "expected a string of at most 256 characters, got `7`",
            "`7`",
        ),
        (
            {"facts": {}, "request_id": ["x"]},
            "/request_id",
            'expected a string of at most 256 characters, got `["x"]`',
            "`",
        ),
        (
            {"facts": {}, "request_id": "x" * 257},
            "/request_id",
            f"expected a string of at most 256 characters, got `{'x' * 80}…`",
            "…`",
        ),
        (
            {"facts": {}, "layers": ["house"]},
            "/layers",
            '`["house"]` is not legal; legal: `["upstream"]`, `["upstream", "house"]`',
            "`",
        ),
        ({"facts": {}, "layers": "upstream"}, "/layers", "`upstream` is not legal", '`["upstream", "house"]`'),
        ({"facts": {}, "layers": []}, "/layers", "`[]` is not legal", '`["upstream", "house"]`'),
        (
            {"facts": {}, "layers": ["upstream"] * 2},
            "/layers",
            '`["upstream", "upstream"]` is not legal',
            '`["upstream", "house"]`',
        ),
        (
            {"facts": {}, "layers": [["upstream"]]},
            "/layers",
            '`[["upstream"]]` is not legal',
            '`["upstream", "house"]`',
        ),
        ({"facts": {}, "layers": {"upstream": True}}, "/layers", "`{…}` is not legal", '`["upstream", "house"]`'),
        (
            {"facts": {}, "beyond_verified": "newest"},
            "/beyond_verified",
            "`newest` is not legal; legal: `nearest`",
            "leave it out",
        ),
        (
            {"facts": {}, "beyond_verified": True},
            "/beyond_verified",
            "`true` is not legal; legal: `nearest`",
            "leave it out",
        ),
        (
            {"facts": {}, "vllm_version": 0.23},
            "/vllm_version",
            "expected a string, got `0.23`; write the version in quotes",
            '`"0.23.0"`',
        ),
        ({"facts": {}, "vllm_version": [0, 23]}, "/vllm_version", "expected a string, got `[0, 23]`", '`"0.23.0"`'),
        ({"facts": {}, "vllm_version": ""}, "/vllm_version", "invalid version ``; write it as", "`v0.23.0`"),
        (
            {"facts": {}, "vllm_version": "latest"},
            "/vllm_version",
            "invalid version `latest`; write it as",
            "`v0.23.0`",
        ),
        (
            {"facts": {}, "vllm_version": "0.23.x"},
            "/vllm_version",
            "invalid version `0.23.x`; write it as",
            "`v0.23.0`",
        ),
        (
            {"facts": {}, "vllm_version": ">=0.23"},
            "/vllm_version",
            "invalid version `>=0.23`; write it as",
            "`v0.23.0`",
        ),
        (
            {"facts": {}, "vllm_version": "0." * 5000 + "1"},
            "/vllm_version",
            f"invalid version `{'0.' * 40}…`",
            "`v0.23.0`",
        ),
        (None, "", "expected an object, got `null`; write a request such as", "`"),
        (True, "", "expected an object, got `true`; write a request such as", "`"),
        (7, "", "expected an object, got `7`; write a request such as", "`"),
        (1.5, "", "expected an object, got `1.5`; write a request such as", "`"),
        ("x", "", "expected an object, got `x`; write a request such as", "`"),
        ([], "", "expected an object, got `[]`; write a request such as", "`"),
        ([{"facts": {}}], "", "expected an object, got `[{…}]`; write a request such as", "`"),
        (
            {},
            "",
            'expected one of `facts`, `deployment`, `manifest`; add one, or write `"facts": {}` for the defaults',
            "defaults",
        ),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
@table("path", ["/v1/decisions", "/v1/dry-run"])
def test_an_invalid_request_is_a_422_with_pointer_message_and_legal_values(
    client: httpx.Client, path: str, document: Any, pointer: str, starts: str, ends: str
) -> None:
    status, kind, faults = problem_of(client.post(path, content=json.dumps(document)))
    assert (status, kind, faults[0][0]) == (422, INVALID, pointer)
    assert (faults[0][1].startswith(starts), faults[0][1].endswith(ends)) == (True, True), faults[0][1]


KNOWN = 'known releases: 0.3.0 to 0.33.0; name one of them, or set `"beyond_verified": "nearest"` to use the closest'


@pytest.mark.parametrize(
    "version", ["0.2.7", "0.1", "0.34.0", "1.0", "0.99.0rc1", "1!0.23.0", "999999999999999999999999999999.0"]
)
def test_an_unknown_release_has_its_own_problem_which_names_the_known_ones(client: httpx.Client, version: str) -> None:
    assert problem_of(client.post("/v1/decisions", json={"facts": {}, "vllm_version": version})) == (
        422,
        "unknown-release",
        [("/vllm_version", f"unknown release `{version}`; {KNOWN}")],
    )


def test_a_version_with_an_epoch_is_not_close_to_any_release(client: httpx.Client) -> None:
    response = client.post(
        "/v1/decisions", json={"facts": {}, "vllm_version": "1!0.23.0", "beyond_verified": "nearest"}
    )
    assert problem_of(response)[:2] == (422, "unknown-release")


def test_all_faults_are_reported_at_once_in_document_order(client: httpx.Client) -> None:
    document = {
        "fact": 1,
        "facts": {
            "model_config": {"is_moe": 1, "runner_type": "pool"},
            "lora": {},
            "parallel_config": {"tensor_parallel_size": 0},
        },
        "vllm_version": 23,
        "layers": [],
        "explain": "yes",
        "request_id": 1,
        "beyond_verified": 1,
    }
    status, kind, faults = problem_of(client.post("/v1/decisions", json=document))
    assert (status, kind, sorted(pointer for pointer, _ in faults)) == (
        422,
        INVALID,
        [
            "/beyond_verified",
            "/explain",
            "/fact",
            "/facts/lora",
            "/facts/model_config/is_moe",
            "/facts/model_config/runner_type",
            "/facts/parallel_config/tensor_parallel_size",
            "/layers",
            "/request_id",
            "/vllm_version",
        ],
    )


@table("path", ENDPOINTS)
@table(
    "around",
    [
        "%s",
        '{"facts": %s}',
        '{"facts": {"parallel_config": %s}}',
        '{"facts": {"model_config": %s}}',
        '{"rules": [], "x": %s}',
    ],
)
def test_the_answer_to_many_unknown_fields_is_not_larger_than_the_body(
    client: httpx.Client, path: str, around: str
) -> None:
    body = around % json.dumps({f"modelconfig{number}": number for number in range(30_000)})
    response = client.post(path, content=body)
    assert (response.status_code in {200, 422}, len(response.content) < len(body)) == (True, True)


# names that collide in the engine


@pytest.mark.parametrize(
    "target",
    ["id", "sid", "$s", "a", "_0", "g0", "c0", "is_moe", "model_config.is_moe", "env.VLLM_USE_V2_MODEL_RUNNER"],
)
def test_a_name_with_the_hash_of_a_known_one_changes_nothing(client: httpx.Client, target: str) -> None:
    names = COLLISIONS[target]
    assert {fnv1a(name) for name in names} == {fnv1a(target)}
    values: list[Any] = [1, "1", [], {"a": 1}, None, 0]
    unknown = [name for name in (target, *names) if name != "is_moe"]
    forged = [{"model_config": {**QWEN["model_config"], **dict.fromkeys(unknown, value)}} for value in values]
    found = answers(client, [{"facts": facts} for facts in [QWEN, *forged]], "stream")
    assert [(answer["runner"], answer["reasons"]) for answer in found] == [("v2", found[0]["reasons"])] * 7


@pytest.mark.parametrize("target", ["id", "facts", "vllm_version"])
def test_a_name_that_collides_with_a_field_of_a_request_is_unknown(client: httpx.Client, target: str) -> None:
    name = COLLISIONS[target][0]
    assert fnv1a(name) == fnv1a(target)
    assert problem_of(client.post("/v1/decisions", json={"facts": {}, name: 1}))[2][0][0] == f"/{name}"


# sizes and encodings

FIFTY = 50 << 20


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("filling", slow_except([b"["], [b"[", b"\xff"]))
def test_an_announced_body_of_50_mb_is_a_413(client: httpx.Client, path: str, filling: bytes) -> None:
    status, kind, ((pointer, message),) = problem_of(client.post(path, content=filling * FIFTY))
    limit = 16 << 20 if path.endswith(("batch", "impact")) else 1 << 20
    assert (status, kind, pointer, message.startswith(f"{FIFTY} bytes are more than the {limit} that are read")) == (
        413,
        "too-large",
        "",
        True,
    )


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_chunked_body_of_50_mb_is_a_413(client: httpx.Client, path: str) -> None:
    response = client.post(path, content=(b" " * (1 << 16) for _ in range(FIFTY >> 16)))
    limit = 16 << 20 if path.endswith(("batch", "impact")) else 1 << 20
    assert problem_of(response) == (413, "too-large", [("", f"more than the {limit} bytes that are read")])


def test_a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not(client: httpx.Client) -> None:
    body = json.dumps({"facts": QWEN}).encode()
    sizes = {
        size: client.post("/v1/decisions", content=body.ljust(size)).status_code
        for size in ((1 << 20) - 1, 1 << 20, (1 << 20) + 1)
    }
    assert sizes == {(1 << 20) - 1: 200, 1 << 20: 200, (1 << 20) + 1: 413}


@table("path", ENDPOINTS)
@table("encoding", ["gzip", "GZIP", "deflate", "br", "zstd", "gzip, identity", "x-nonsense"])
def test_a_compressed_body_is_a_415_with_a_remedy(client: httpx.Client, path: str, encoding: str) -> None:
    response = client.post(
        path, content=gzip.compress(b'{"facts": {}}', mtime=0), headers={"content-encoding": encoding}
    )
    assert problem_of(response) == (
        415,
        "unsupported-encoding",
        [("", f"the body is `{encoding}`-encoded; send it without an encoding")],
    )


def test_a_secret_in_the_name_of_an_encoding_is_not_shown(client: httpx.Client) -> None:
    response = client.post("/v1/decisions", content=b"{}", headers={"content-encoding": "https://user:abc123@host"})
    assert problem_of(response)[2] == [("", "the body is `https://…@host`-encoded; send it without an encoding")]


def test_a_compressed_stream_is_a_415(client: httpx.Client) -> None:
    headers = {"content-type": "application/x-ndjson", "content-encoding": "gzip"}
    assert problem_of(
        client.post("/v1/decisions/batch", content=gzip.compress(b'{"facts": {}}\n', mtime=0), headers=headers)
    )[:2] == (415, "unsupported-encoding")


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_the_identity_encoding_is_accepted(client: httpx.Client, encoding: str) -> None:
    assert client.post("/v1/decisions", json={"facts": {}}, headers={"content-encoding": encoding}).status_code == 200


# YAML

BLOCK = "".join("  " * depth + "a:\n" for depth in range(300))
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{here}: &{here} [{', '.join([f'*{above}'] * 9)}]\n" for above, here in zip("abcdefgh", "bcdefghi", strict=True)
)
LADDER = f"a: &a {'[' * 40}{']' * 40}\nb: {'[' * 40}*a{']' * 40}\n"


@table(
    ("body", "expected_message"),
    [
        ("", "line 1, column 1: empty; expected a document"),
        ("# nothing\n", "line 1, column 1: empty; expected a document"),
        ("facts: {\n", "line 1, column 8: not YAML"),
        ("facts:\n\t- x\n", "line 2, column 1: not YAML"),
        ("facts: {}\n explain: true\n", "line 2, column 2: not YAML"),
        ("a: b: c\n", "line 1, column 5: not YAML"),
        ("@facts\n", "line 1, column 1: not YAML"),
        ("%YAML 9.9\n---\nfacts: {}\n", "line 1, column 1: not YAML"),
        ("facts: {}\nfacts: {}\n", "line 2, column 1: duplicate key `facts`; keep one"),
        (
            "facts:\n  model_config: {is_moe: true, is_moe: false}\n",
            "line 2, column 32: duplicate key `is_moe`; keep one",
        ),
        ("a: &x [*x]\n", "line 1, column 8: the alias `*x` refers to a value that contains it"),
        (BOMB, "line 5, column 12: more than 20000 values"),
        (LADDER, "line 2, column 44: nested more than 64 deep"),
        ("facts: *x\n", "line 1, column 8: the alias `*x` has no anchor before it"),
        ("token: *Zq8JbhpkJG4r\n", "line 1, column 8: the alias `*…` has no anchor before it"),
        ("token: !Zq8JbhpkJG4r x\n", "line 1, column 8: the tag `!…` is not supported; remove it"),
        ("token: !!Zq8JbhpkJG4r x\n", "line 1, column 8: the tag `t…` is not supported; remove it"),
        ("facts: {<<: 1}\n", "line 1, column 14: expected a map or a list of maps under `<<`, got `1`"),
        (
            "facts: !!python/object/apply:os.system [ls]\n",
            "line 1, column 8: the tag `tag:yaml.org,2002:python/object/apply:os.system` is not supported",
        ),
        ("facts: !mine {}\n", "line 1, column 8: the tag `!mine` is not supported; remove it"),
        (
            "facts: {}\nrequest_id: !!str 7\n",
            "line 2, column 13: the tag `tag:yaml.org,2002:str` is not supported; remove it",
        ),
        ("facts: !!set {a}\n", "line 1, column 8: the tag `tag:yaml.org,2002:set` is not supported; remove it"),
        ("1: x\n", "line 1, column 1: expected a string as key, got `1`; put it in quotes"),
        ("null: x\n", "line 1, column 1: expected a string as key, got `null`; put it in quotes"),
        ("? [a]\n: x\n", "line 1, column 3: expected a string as key, got `[]`; put it in quotes"),
        (
            "facts: {parallel_config: {tensor_parallel_size: .nan}}",
            "line 1, column 49: expected a finite number, got `.nan`; put it in quotes",
        ),
        (
            "facts: {parallel_config: {tensor_parallel_size: -.inf}}",
            "line 1, column 49: expected a finite number, got `-.inf`; put it in quotes",
        ),
        (
            "facts: {parallel_config: {tensor_parallel_size: 1.0e+999}}",
            "line 1, column 49: expected a finite number, got `1.0e+999`; put it in quotes",
        ),
        (
            f"facts: {{parallel_config: {{tensor_parallel_size: {'9' * 5000}}}}}",
            "line 1, column 49: invalid number `9999",
        ),
        (
            "a: 1\nb: {{ .Values.b | quote }}\n",
            "line 2, column 4: `{{ .Values.b | quote }}` is an action of a template",
        ),
        ("a: 1\n{%- for b in c %}\n", "line 2, column 1: `{%- for b in c %}` is an action of a template"),
        ('a: "{{ b }}"\n# {{ b }}\nc: [\n', "line 3, column 4: not YAML: the bracket `[` is not closed"),
        ("request_id: \x01\n", "line 1, column 13: not YAML"),
        ("facts: {}\nrequest_id: \x00\n", "line 2, column 13: not YAML"),
        ('request_id: "\\ud800"\n', "line 1, column 16: not YAML"),
        ('request_id: "\\U00110000"\n', "line 1, column 16: not YAML"),
        ("[" * 100_000, "line 1, column 65: nested more than 64 deep"),
        ("[" * 100_000 + "]" * 100_000, "line 1, column 65: nested more than 64 deep"),
        ("{a: " * 60_000, "line 1, column 257: nested more than 64 deep"),
        ("- " * 100_000, "line 1, column 129: nested more than 64 deep"),
        ("? " * 100_000, "line 1, column 3: expected a string as key"),
        (BLOCK, "line 65, column 129: nested more than 64 deep"),
        ("[" + "1," * 30_000 + "]", "line 1, column 40000: more than 20000 values"),
        ("x" * 2000 + ": 1\n", "line 1, column 2001: not YAML"),
    ],
    ids=lambda value: repr(value[:60]),
)
@table("path", ENDPOINTS)
def test_unsupported_yaml_is_a_400_with_its_position(
    client: httpx.Client, path: str, body: str, expected_message: str
) -> None:
    status, kind, ((pointer, message),) = problem_of(client.post(path, content=body.encode(), headers=YAML))
    assert (status, kind, pointer, message.startswith(expected_message)) == (400, MALFORMED, "", True), message


@pytest.mark.parametrize(
    ("body", "expected_message"),
    [
        (b"facts: \xff", "not UTF-8: byte 7 is not part of a character"),
        (b"facts: {}\nrequest_id: \xed\xa0\x80\n", "not UTF-8: byte 22 is not part of a character"),
        ("facts: {}".encode("utf-16"), "not UTF-8: byte 0 is not part of a character"),
    ],
)
def test_yaml_that_is_not_utf_8_is_a_400_with_its_position(
    client: httpx.Client, body: bytes, expected_message: str
) -> None:
    assert problem_of(client.post("/v1/decisions", content=body, headers=YAML)) == (
        400,
        MALFORMED,
        [("", expected_message)],
    )


@pytest.mark.parametrize(
    ("size", "expected_message"),
    [(300 << 10, "a YAML body may have at most 262144 bytes; send JSON"), (10 << 20, None)],
)
@pytest.mark.parametrize("filling", ["#", "- x\n", "a"])
def test_megabytes_of_yaml_are_a_413(
    client: httpx.Client, filling: str, size: int, expected_message: str | None
) -> None:
    body = (filling * (size // len(filling) + 1))[:size].encode()
    expected = expected_message or (
        f"{len(body)} bytes are more than the {1 << 20} that are read; send less, or a stream of lines to "
        "/v1/decisions/batch"
    )
    assert problem_of(client.post("/v1/decisions", content=body, headers=YAML)) == (413, "too-large", [("", expected)])


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (
            "facts: {}\nvllm_version: 0.23\n",
            [("/vllm_version", 'expected a string, got `0.23`; write the version in quotes, such as `"0.23.0"`')],
        ),
        ("facts:\n", [("/facts", 'expected an object, got `null`; write the facts as `{"model_config": {…}}`')]),
        (
            "- facts: {}\n",
            [
                (
                    "",
                    (
                        'expected an object, got `[{…}]`; write a request such as `{"facts": {"model_config": {}}}`, '
                        "or the "
                        "objects of a manifest, beside which one of several YAML documents may have fields such as "
                        "`model_configs`"
                    ),
                )
            ],
        ),
        (
            "just words\n",
            [("", 'expected an object, got `just words`; write a request such as `{"facts": {"model_config": {}}}`')],
        ),
    ],
)
def test_an_invalid_request_in_yaml_is_a_422_as_in_json(
    client: httpx.Client, body: str, faults: list[tuple[str, str]]
) -> None:
    assert problem_of(client.post("/v1/decisions", content=body, headers=YAML)) == (422, INVALID, faults)


# forms

FORM = {"content-type": "multipart/form-data; boundary=XX"}


def part(name: str, body: bytes, *more: str) -> bytes:
    return (
        b'--XX\r\nContent-Disposition: form-data; name="'
        + "".join((name, '"', *more)).encode()
        + b"\r\n\r\n"
        + body
        + b"\r\n"
    )


END = b"--XX--\r\n"
DEPLOYMENT = part("deployment", b'{"facts": {}}')
FILE = '; filename="x.yaml"'
CHARSETS = {
    "undefined": DEPLOYMENT,
    "punycode": part("deployment", b"deployment-99999999999"),
    "idna": part("deployment", b"xn--a"),
    "utf-7": part("deployment", b"+2AA-"),
    "unicode_escape": part("deployment", b"\\ud800") + part("\\ud800", b"x"),
    "utf-16": DEPLOYMENT,
    "latin-1": DEPLOYMENT,
    "no-such": DEPLOYMENT,
    '""': DEPLOYMENT,
}
"""Character sets that are not UTF-8, with forms that cannot be decoded by them, or have no characters of Unicode."""
MISSING = ("/deployment", "a form has one part `deployment`; add `-F deployment=@deployment.json`")


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (b"", [MISSING]),
        (END, [MISSING]),
        (part("rules", b"x", FILE) + END, [MISSING]),
        (DEPLOYMENT * 2 + END, [MISSING]),
        (
            DEPLOYMENT + part("rule", b"x") + part("x", b"", FILE) + END,
            [
                (
                    "/rule",
                    f"unknown part `rule`; {PARTS}; did you mean `rules`?",
                ),
                ("/x", f"unknown part `x`; {PARTS}"),
            ],
        ),
        (DEPLOYMENT + part("rules", b"\xff", FILE) + END, [("/rules", "`x.yaml` is not UTF-8")]),
        (
            DEPLOYMENT + part("rules", b"\xff", '; filename="é.yaml"') + part("cases", b"\xe9") + END,
            [("/rules", "`é.yaml` is not UTF-8"), ("/cases", "`cases` is not UTF-8")],
        ),
        (DEPLOYMENT + part("remove", b"\xe9") + END, [("/remove", "`remove` is not UTF-8")]),
        (
            DEPLOYMENT + part("é", b"x") + part("@", b"x").replace(b"@", b"\xe9") + END,
            [("/é", f"unknown part `é`; {PARTS}"), ("/\ufffd", f"unknown part `\ufffd`; {PARTS}")],
        ),
        (DEPLOYMENT + part("remove", "é".encode()) + END, [("/remove/0", "unknown rule `é`")]),
        (DEPLOYMENT + part("remove", b"no-such") + END, [("/remove/0", "unknown rule `no-such`")]),
        (
            part("deployment", b'{"fact": 1, "facts": {}}') + END,
            [("/fact", f"unknown field `fact`; {MEMBERS}; did you mean `facts`?")],
        ),
    ],
    ids=[
        "empty",
        "no part",
        "no deployment",
        "two deployments",
        "unknown parts",
        "no text",
        "no text in a field",
        "no text to remove",
        "other names",
        "an accent",
        "no such rule",
        "unknown field",
    ],
)
def test_an_invalid_form_is_a_422_that_names_the_part(
    client: httpx.Client, body: bytes, faults: list[tuple[str, str]]
) -> None:
    assert problem_of(client.post("/v1/dry-run", content=body, headers=FORM)) == (422, INVALID, faults)


@table(
    ("content_type", "body"),
    [
        ("multipart/form-data", DEPLOYMENT + END),
        ("multipart/form-data; boundary=", DEPLOYMENT + END),
        ("multipart/form-data; boundary=YY", DEPLOYMENT + END),
        ("multipart/form-data; boundary=" + "X" * 5000, DEPLOYMENT + END),
        ("multipart/form-data; boundary=é", DEPLOYMENT + END),
        *((f"{FORM['content-type']}; charset={name}", CHARSETS[name] + END) for name in CHARSETS),
        (FORM["content-type"], b"garbage"),
        (FORM["content-type"], b'{"facts": {}}'),
        (FORM["content-type"], b"--XX\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + END),
        (FORM["content-type"], b"--XX\r\nX-Y: z\r\n\r\nx\r\n" + END),
        (FORM["content-type"], b"--XX\r\n\x00\x01\r\n\r\nx\r\n" + END),
        (FORM["content-type"], part("a" * 200_000, b"x") + END),
        (FORM["content-type"], DEPLOYMENT + part("rules", b"x", FILE) * 200 + END),
        (FORM["content-type"], DEPLOYMENT + part("remove", b"x") * 200 + END),
        (FORM["content-type"], DEPLOYMENT + b'--XX\r\nContent-Disposition: form-data; name="rules"\r\n\r\nid: x'),
        (FORM["content-type"], DEPLOYMENT),
    ],
    ids=[
        "no boundary",
        "empty boundary",
        "other boundary",
        "long boundary",
        "odd boundary",
        *CHARSETS,
        "garbage",
        "JSON",
        "no name",
        "no disposition",
        "no header",
        "long name",
        "200 files",
        "200 fields",
        "cut in a part",
        "cut after a part",
    ],
)
def test_a_broken_form_is_a_400(client: httpx.Client, content_type: str, body: bytes) -> None:
    headers = [(b"content-type", content_type.encode())]
    response = client.post("/v1/dry-run", content=body, headers=headers)
    status, kind, ((pointer, message),) = problem_of(response)
    assert (status, kind, pointer, message.startswith("not a form: ")) == (400, MALFORMED, "", True)


@pytest.mark.parametrize("charset", ["UTF-8", '"utf-8"', "utf8"])
def test_a_form_may_state_its_character_set(client: httpx.Client, charset: str) -> None:
    headers = {"content-type": f"{FORM['content-type']}; charset={charset}"}
    assert client.post("/v1/dry-run", content=DEPLOYMENT + END, headers=headers).json()["starts"] is True


@pytest.mark.parametrize(
    ("name", "expected_message"), [("x.json", "not JSON"), ("x.yaml", "line 1, column 1: not YAML"), ("", "not JSON")]
)
def test_a_deployment_in_a_form_that_cannot_be_read_is_a_400(
    client: httpx.Client, name: str, expected_message: str
) -> None:
    body = part("deployment", b"{", f'; filename="{name}"' if name else "") + END
    status, kind, ((_, message),) = problem_of(client.post("/v1/dry-run", content=body, headers=FORM))
    assert (status, kind, expected_message in message) == (400, MALFORMED, True), message
