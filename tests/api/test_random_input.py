"""Whatever is sent, the answer is one of the documented ones and well-formed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.facts.vocabulary import VOCABULARY, Fact, FactKind
from policy.request.request import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from .conftest import Server

Path = tuple[str | int, ...]
LEGAL = {
    200: "application/json",
    400: "application/problem+json",
    413: "application/problem+json",
    422: "application/problem+json",
}
NAMES = sorted(
    {part for fact in VOCABULARY for part in fact.name.split(".")}
    | set(FIELDS)
    | {"items", "request", "rules", "remove", "id", "sid"}
)
VERSIONS = ["0.20.0", "0.21.0", "0.22.1", "0.23.0", "v0.24.1", "0.29.0", "0.33.0", "0.11.0", "0.6.4", "0.2", "9.9", "x"]

texts = st.one_of(st.sampled_from(NAMES), st.text(max_size=20), st.characters())
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=30,
)


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def checked(response: httpx.Response) -> Any:
    """The answer's document, after its status, type and shape are checked."""
    assert response.headers["content-type"] == LEGAL.get(response.status_code), (response.status_code, response.text)
    document = response.json()
    if response.status_code != 200:
        assert list(document) == ["type", "title", "status", "detail", "errors"]
        assert document["status"] == response.status_code
        assert document["errors"]
        assert all(
            fault["message"] and (fault["pointer"] == "" or fault["pointer"].startswith("/"))
            for fault in document["errors"]
        )
    return document


def values(fact: Fact) -> st.SearchStrategy[Any]:
    """Values that a fact can have."""
    match fact.kind:
        case FactKind.PRESENCE:
            return st.sampled_from([{}, None])
        case FactKind.VARIABLE:
            return st.sampled_from(["0", "1", " 7 ", "", "yes", True, False, None])
        case FactKind.BOOLEAN:
            return st.booleans()
        case FactKind.INTEGER:
            return st.integers(fact.least, 16)
        case FactKind.CHOICE:
            return st.sampled_from([*fact.choices, *([None] if fact.nullable else [])])
        case FactKind.TEXT:
            return st.one_of(st.none(), st.sampled_from(["ray", "mp", "NixlConnector"]), st.text(max_size=10))
        case FactKind.TEXTS:
            return st.lists(
                st.sampled_from(["Qwen3ForCausalLM", "LlamaForCausalLM", "sliding_attention", "x"]), max_size=3
            )
        case FactKind.LIST:
            return st.lists(st.integers(0, 9), max_size=3)
        case FactKind.NUMBER:
            return st.integers(-3, 3) | st.floats(-3, 3)
        case FactKind.SHARE:
            return st.none() | st.just(1) | st.floats(0.01, 1)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Valid requests."""
    facts: dict[str, Any] = {}
    for fact in draw(st.lists(st.sampled_from(VOCABULARY), max_size=8, unique_by=lambda fact: fact.name)):
        *path, name = fact.name.split(".")
        place = facts
        for part in path:
            below = place.get(part)
            if not isinstance(below, dict):
                below = place[part] = {}
            place = below
        place.setdefault(name, draw(values(fact)))
    extra = {
        "vllm_version": st.sampled_from(VERSIONS),
        "layers": st.sampled_from([["upstream"], ["upstream", "house"]]),
        "request_id": st.text(max_size=9),
    }
    return {
        "facts": facts,
        **draw(
            st.fixed_dictionaries(
                {}, optional={**extra, "explain": st.booleans(), "beyond_verified": st.just("nearest")}
            )
        ),
    }


def paths_in(document: Any, path: Path = ()) -> list[Path]:
    """Every path in a document."""
    found = [path]
    if isinstance(document, dict):
        found += [place for key, value in document.items() for place in paths_in(value, (*path, key))]
    elif isinstance(document, list):
        found += [place for number, value in enumerate(document) for place in paths_in(value, (*path, number))]
    return found


def changed(document: Any, path: Path, value: Any) -> Any:
    """The document with another value at a path."""
    if not path:
        return value
    key, *rest = path
    copy: Any = dict(document) if isinstance(document, dict) else list(document)
    copy[key] = changed(copy[key], tuple(rest), value)
    return copy


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """Valid requests with one or two values changed."""
    document = draw(requests())
    for _ in range(draw(st.integers(1, 2))):
        document = changed(document, draw(st.sampled_from(paths_in(document))), draw(documents))
    return document


@settings(derandomize=True)
@given(
    document=documents,
    path=st.sampled_from(["/v1/decisions", "/v1/decisions/batch", "/v1/dry-run"]),
    accept=st.sampled_from(["*/*", "application/json"]),
)
def test_any_json_gets_a_documented_answer(http: httpx.Client, document: Any, path: str, accept: str) -> None:
    checked(http.post(path, content=json.dumps(document), headers={"accept": accept}))


@settings(derandomize=True)
@given(request=requests())
def test_any_valid_request_is_decided_unless_its_release_is_unknown(
    http: httpx.Client, request: dict[str, Any]
) -> None:
    response = http.post("/v1/decisions", json=request)
    answer = checked(response)
    if request.get("vllm_version") == "x" or (
        request.get("vllm_version") in {"0.2", "9.9"} and "beyond_verified" not in request
    ):
        assert [fault["pointer"] for fault in answer["errors"]] == ["/vllm_version"]
    else:
        assert (response.status_code, sum(reason["decisive"] for reason in answer["reasons"]) > 0) == (200, True)
        outcome, starts = answer["outcome"], answer["starts"]
        assert (answer["runner"] is None) == (outcome in {None, "not-applicable"})
        assert starts == {None: False, "not-applicable": True}.get(outcome, starts)


@settings(derandomize=True)
@given(document=mutated())
def test_any_changed_request_gets_a_documented_answer_and_the_same_one_in_a_batch(
    http: httpx.Client, document: Any
) -> None:
    alone = checked(http.post("/v1/decisions", content=json.dumps(document)))
    response = http.post("/v1/decisions/batch", content=json.dumps({"items": [document, {"facts": {}}]}))
    if response.status_code == 200:
        first, second = checked(response)["items"]
        assert (first.get("runner"), first.get("type"), second["runner"]) == (
            alone.get("runner"),
            alone.get("type"),
            "v1",
        )
        assert [fault["pointer"] for fault in first.get("errors", [])] == [
            "/items/0" + fault["pointer"] for fault in alone.get("errors", [])
        ]
    else:
        assert (response.status_code, alone["type"].rpartition(":")[2]) == (400, "malformed")


@settings(derandomize=True)
@given(
    body=st.binary(max_size=200),
    kind=st.sampled_from(["application/json", "application/yaml", "multipart/form-data; boundary=X"]),
)
def test_any_bytes_get_a_documented_answer(http: httpx.Client, body: bytes, kind: str) -> None:
    checked(http.post("/v1/dry-run", content=body, headers={"content-type": kind}))


@settings(derandomize=True)
@given(request=requests(), data=st.data())
def test_any_request_truncated_or_changed_at_one_byte_gets_a_documented_answer(
    http: httpx.Client, request: dict[str, Any], data: st.DataObject
) -> None:
    body = json.dumps(request).encode()
    place = data.draw(st.integers(0, len(body) - 1))
    checked(http.post("/v1/decisions", content=body[:place] + data.draw(st.binary(max_size=3)) + body[place + 1 :]))


@settings(derandomize=True)
@given(
    text=st.one_of(
        st.text(max_size=200),
        st.lists(
            st.sampled_from(
                [
                    *NAMES,
                    ": ",
                    "\n",
                    "  ",
                    "- ",
                    "[",
                    "]",
                    "{",
                    "}",
                    "&a ",
                    "*a",
                    "!!x ",
                    "? ",
                    "'",
                    '"',
                    "|",
                    ">",
                    "1",
                    ".inf",
                    "#",
                ]
            ),
            max_size=30,
        ).map("".join),
    )
)
def test_any_text_as_yaml_gets_a_documented_answer(http: httpx.Client, text: str) -> None:
    checked(
        http.post(
            "/v1/decisions", content=text.encode("utf-8", "surrogatepass"), headers={"content-type": "application/yaml"}
        )
    )


@settings(derandomize=True)
@given(
    lines=st.lists(
        st.one_of(requests().map(json.dumps), mutated().map(json.dumps), st.text('{}[]",:0xn ', max_size=10)),
        max_size=6,
    )
)
def test_each_line_of_any_text_gets_an_answer(http: httpx.Client, lines: list[str]) -> None:
    response = http.post(
        "/v1/decisions/batch", content="\n".join(lines), headers={"content-type": "application/x-ndjson"}
    )
    answers = response.content.split(b"\n")
    assert (response.status_code, answers.pop(), len(answers)) == (
        200,
        b"",
        sum(1 for line in lines if line.strip(" ")),
    )
    assert all({"decision_id", "errors"} & json.loads(line).keys() for line in answers)
