"""JSON text, read within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from tables import table

from policy.parser.jsontext import MAX_DEPTH, NotJson, TooManyValues, check_values, read_json


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + ("1" if opening != "[" else "") + closing * depth).encode()


@pytest.mark.parametrize(
    ("body", "document"),
    [
        (b"{}", {}),
        (b' {"a": [1, -2.5, null, true, "\\u00e9"]} \n', {"a": [1, -2.5, None, True, "é"]}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"null", None),
        (b"[" + b"[]," * 100 + b"[]]", [[]] * 101),
    ],
)
def test_json_is_read(body: bytes, document: Any) -> None:
    assert read_json(body) == document


def test_64_levels_are_read() -> None:
    read_json(nested(MAX_DEPTH))
    read_json(nested(MAX_DEPTH, '{"a":', "}"))


@pytest.mark.parametrize(
    "body",
    [
        nested(MAX_DEPTH + 1),
        nested(MAX_DEPTH + 1, '{"a":', "}"),
        nested(100_000),
        nested(100_000, '{"a":', "}"),
        b"[" * 100_000,
    ],
    ids=["one level more", "objects", "far deeper", "far deeper objects", "never closed"],
)
def test_deeper_documents_are_refused(body: bytes) -> None:
    with pytest.raises(NotJson, match=r"^nested too deeply: at most 64 levels are read$"):
        read_json(body)


@table(
    ("body", "message"),
    [
        (
            b"",
            (
                'the body is empty; send a request such as {"facts": {"model_config": {"architectures": '
                '["Qwen3ForCausalLM"]}}}'
            ),
        ),
        (
            b" \n",
            (
                'the body is empty; send a request such as {"facts": {"model_config": {"architectures": '
                '["Qwen3ForCausalLM"]}}}'
            ),
        ),
        (b"\xef\xbb\xbf{}", "the body begins with a byte order mark; send plain UTF-8"),
        (b'{"a": "\xff"}', "not UTF-8: byte 7 is not part of a character"),
        (b"{", "not JSON: Input data was truncated"),
        (b"facts: {}", "not JSON: JSON is malformed: invalid character (byte 5)"),
        (b'{"a": NaN}', "not JSON: JSON is malformed: invalid character (byte 6)"),
        (rb'{"a": "\ud83d"}', "not JSON: half of a surrogate pair (byte 7)"),
        (rb'["\ud83d\ude00", "\ude00"]', "not JSON: half of a surrogate pair (byte 18)"),
        (b'{"a": 1e400}', "not JSON: a number that is too large (byte 6)"),
        (b"[" + b"9" * 5000 + b"]", "not JSON: a number that is too large (byte 1)"),
        (b"{} {}", "not JSON: JSON is malformed: trailing characters (byte 4)"),
    ],
)
def test_invalid_json_is_refused_with_its_fault(body: bytes, message: str) -> None:
    with pytest.raises(NotJson) as raised:
        read_json(body)
    assert str(raised.value) == message


@table("body", [rb'"\ud800"', b"1e400", b"-Infinity", b"01", b"'a'", b"[1,]", b"\x00"])
def test_values_that_json_does_not_have_are_refused(body: bytes) -> None:
    with pytest.raises(NotJson):
        read_json(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (rb'["\"1e400', "not JSON: Input data was truncated"),
        (rb'[1e400, "\"', "not JSON: a number that is too large (byte 1)"),
        (rb'["\"1e400", 1e400, "', "not JSON: a number that is too large (byte 12)"),
        (b'["\\', "not JSON: Input data was truncated"),
    ],
)
def test_a_large_number_is_reported_only_outside_of_strings(body: bytes, message: str) -> None:
    with pytest.raises(NotJson) as raised:
        read_json(body)
    assert str(raised.value) == message


@table(
    "text",
    [
        *(b"[" + b",".join([value] * 50) + b"]" for value in (b"1", b"[]", b"{}", b'""', b'{"a":0}')),
        *(b'{"a":' * 50 + b"1" + b"}" * 50, b"[" * 50 + b"]" * 50, b"[" * 50),
        b"{" + b",".join(b'"%d":1' % key for key in range(50)) + b"}",
        rb'["\\", 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]',
    ],
)
def test_keys_and_values_beyond_a_limit_are_refused(text: bytes) -> None:
    with pytest.raises(TooManyValues, match=r"^more than 40 keys and values in JSON; write it in parts$"):
        check_values(text, 40)


@table(
    "text",
    [
        b"",
        b"1",
        b"[" + b",".join([b"1"] * 30) + b"]",
        b'{"a": "' + b"[{:," * 50 + b'"}',
        rb'{"a": "\"' + b"[{:," * 50 + rb'\\"}',
        b'["' + b"[{:," * 50,
    ],
)
def test_the_text_of_strings_does_not_count_as_values(text: bytes) -> None:
    check_values(text, 40)
