"""Plain scalars of YAML: numbers, booleans and null as kubectl reads them, and the numbers of JSON as JSON does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from policy.errors import RulesInvalid
from policy.parser.yamltree import read_yaml

# What `kubectl label --local -f FILE a=b -o json` prints for `x: SCALAR` of a ConfigMap (kubectl 1.32.4).
NUMBERS: dict[str, float] = {
    "0": 0,
    "00": 0,
    "010": 8,
    "0123456789": 123456789,
    "000123": 83,
    "018": 18,
    "08": 8,
    "09": 9,
    "+08": 8,
    "-08": -8,
    "-01": -1,
    "+1": 1,
    "-0": 0,
    "+0": 0,
    "0_1": 1,
    "1_000": 1000,
    "1__0": 10,
    "1_": 1,
    "07_1": 57,
    "0o17": 15,
    "0O17": 15,
    "0o1_7": 15,
    "-0o7": -7,
    "+0o7": 7,
    "0x1F": 31,
    "0X1F": 31,
    "-0x1F": -31,
    "+0x1": 1,
    "0x_1": 1,
    "0x1_0": 16,
    "0b101": 5,
    "0B1": 1,
    "0b1_0": 2,
    "+0b1": 1,
    "-0b1": -1,
    "1e3": 1000,
    "1E3": 1000,
    "12e5": 1200000,
    "1.e3": 1000,
    "1e+3": 1000,
    "-1e3": -1000,
    "1.5e3": 1500,
    "01e2": 100,
    "1.5E+3": 1500,
    "1e-06": 1e-06,
    "1e0_3": 1000,
    "1_0e3": 10000,
    "1e1_0": 10000000000,
    "1234e10": 12340000000000,
    "1.0": 1,
    "1.00": 1,
    "5.": 5,
    "0.": 0,
    "0.0": 0,
    ".0": 0,
    "-.0": 0,
    ".5": 0.5,
    "+.5": 0.5,
    "-.5": -0.5,
    "+1.5": 1.5,
    "08.5": 8.5,
    "00.5": 0.5,
    "1._5": 1.5,
    "1.5_0": 1.5,
    "1_0.5": 10.5,
}
STRINGS = [
    *["_1", "tRUE", "nULL", "12:30", "12:30:45", "1:30.5", "1_2:3", "0xG", "inf", "nan", "Infinity", "1e400"],
    *["-1e400", "2001-01-01", "2001-01-01T00:00:00Z", "=", "<<", "1.2.3", "1,000", "e3", "1e", "1e+", ".e3", "."],
    *["+", "0x", "0b", "0o", "0o8", "0b2", "0x1p3", "0x1.8p1", "1p3", "1d", "1f", "1L", "123e456", "--1", "++1"],
    *["+-1", "1e5.5"],
]
CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(["yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"], True),
    **dict.fromkeys(["no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"], False),
    **dict.fromkeys(["null", "Null", "NULL", "~"]),
}


def read(scalar: str) -> Any:
    return read_yaml(f"x: {scalar}\n", "file").plain()["x"]


@table(("scalar", "value"), [*NUMBERS.items(), *zip(STRINGS, STRINGS, strict=True), *CONSTANTS.items()])
def test_a_plain_scalar_has_the_value_that_kubectl_reads(scalar: str, value: Any) -> None:
    found = read(scalar)
    assert found == value
    assert isinstance(found, bool) == isinstance(value, bool)


@pytest.mark.parametrize("letter", "yYnN")
def test_single_letters_are_strings_unlike_for_kubectl(letter: str) -> None:
    assert read_yaml(f"{letter}: {letter}\n", "file").plain() == {letter: letter}


JSON_NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.from_regex(r"-?(0|[1-9][0-9]{0,9})(\.[0-9]{1,9})?([eE][-+]?[0-9]{1,2})?", fullmatch=True),
).filter(lambda text: len(text) <= 64)


@given(JSON_NUMBERS)
def test_a_number_of_json_is_the_same_number_in_yaml(text: str) -> None:
    found, meant = read(text), json.loads(text)
    assert (found, type(found)) == (meant, type(meant))


@pytest.mark.parametrize("number", ["1" * 65, "0x" + "f" * 63, "0." + "1" * 63, "0" * 65, "1" + "_" * 64])
def test_a_number_of_more_than_64_characters_is_refused(number: str) -> None:
    with pytest.raises(RulesInvalid, match="invalid number"):
        read(number)


@pytest.mark.parametrize("number", [".inf", "-.Inf", "+.INF", ".nan", ".NaN", "1.5e999", "-.1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    with pytest.raises(RulesInvalid, match="expected a finite number"):
        read(number)


@pytest.mark.parametrize("text", ["1" + "_1" * 100_000 + "x", "-" * 200_000, "1:2" * 60_000, "." + "1" * 200_000 + "."])
def test_a_long_text_that_begins_like_a_number_is_a_string(text: str) -> None:
    assert read(text) == text
