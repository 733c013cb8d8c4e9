"""Calculations of a script: what `$((…))` is where its variables are known, and what stays unknown."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from policy.intake.command.arithmetic import calculate
from policy.intake.command.shell import parse_script
from policy.intake.command.words import Unknown

ENV = {"N": "8", "E": "", "T": "4 5", "U": None, "O": "010", "R": "N"}


def word(text: str, before: str = "") -> tuple[str, bool]:
    found = parse_script(f"{before}r {text}", ENV, is_bash=True)[-1].words[-1]
    return found, type(found) is Unknown


@table(
    ("text", "value"),
    [
        ("$((2 * N))", "16"),
        ("$((N*N/3))", "21"),
        ("$(( (N - 10) / 3 ))", "0"),
        ("$((-7 / 2))", "-3"),
        ("$((-7 % 2))", "-1"),
        ("$((7 - 2 - 1))", "4"),
        ("$((2 + 3 * 4))", "14"),
        ("$((-(N + 1)))", "-9"),
        ("$(( $N + ${N} ))", "16"),
        ("$(( ${NONE:-0} * 2 + ${E:-3} ))", "3"),
        ("$(( ${N:-1} ))", "8"),
        ('"x$((N))y"', "x8y"),
        ("$((\nN\n))", "8"),
        ("$((9223372036854775807))", "9223372036854775807"),
        ("$((012))", "10"),
        ("$((1+010))", "9"),
        ("$((00))", "0"),
        ("$((O * 2))", "16"),
        ("$((-O))", "-8"),
        ("$(( ${O} + ${NONE:-011} ))", "17"),
        ("$((0x1F + 0XA))", "41"),
    ],
)
def test_a_calculation_with_known_numbers(text: str, value: str) -> None:
    assert word(text) == (value, False)


@table(
    "text",
    [
        *("$((U + 1))", "$((NONE + 1))", "$((08))", "$((0x))", "$((T))", "$((R))", "$((8#17))", "$((16#ff))"),
        *("$((0x8000000000000000))", "$((0777777777777777777777777))", "$((1_0))"),
        *("$((N << 1))", "$((N ** 2))", "$((N++))", "$((N = 2))", "$((N == 8))", "$((a[0]))", "$((N ? 1 : 2))"),
        *("$((1 / 0))", "$((1 % 0))", "$((9223372036854775807 + 1))", "$(( ))", "$((1 +))", "$((()))", "$((1 2))"),
        *("$(( ${U:-1} ))", "$(( ${HOME:-1} ))", f"$(({'+'.join('1' * 200)}))", f"$(({'(' * 20}1{')' * 20}))"),
    ],
)
def test_any_other_calculation_is_not_known(text: str) -> None:
    assert word(text) == (text, True)


REFUSED = [
    *(
        "08",
        "09",
        "1a",
        "0b1",
        "1 +",
        "3 3",
        "1/0",
        "5 % 0",
        "N % (N - 8)",
        "N + 08",
        "N == 08",
        "-08",
        "1e5",
        "()",
        "*1",
    ),
    *("B", "$B", "F", "H + 1", "(1 2)", "+", "N <<09"),
]
ACCEPTED = [
    *("010", "0x8", "00", "N", "N08", "10#08", "N << 1", "N == 8", "i = 3", "!1", "1 ? 2 : 3", "- - 1", "16#ff", "G"),
    *("0x", "9223372036854775808", "N2", "${N}", "${N:-1}", "i++", "2 ** 3", "1, 2", "a[1]"),
]


@table("expression", [*REFUSED, *ACCEPTED])
def test_a_calculation_that_bash_refuses_is_a_doubt(expression: str) -> None:
    script = f"N=8; B=08; F=1a; H=-09; G=; X=$(({expression})); echo reached"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout == "reached\n") is (expression in ACCEPTED)
    found = parse_script(f"{script}\nvllm serve m", {}, is_bash=True)[-1]
    assert found.doubt.startswith("a shell refuses `$((") is (expression in REFUSED)


@pytest.mark.parametrize("expression", ["U + 1", "$U", "$(nproc) + 1", "${U:-08}", "'08'"])
def test_a_calculation_whose_parts_are_not_known_is_not_refused(expression: str) -> None:
    assert "a shell refuses" not in parse_script(f"X=$(({expression}))\nvllm serve m", ENV, is_bash=True)[-1].doubt


def test_a_refused_calculation_is_named() -> None:
    doubt = parse_script("X=$((08))\nvllm serve m", {}, is_bash=True)[-1].doubt
    assert doubt == "a shell refuses `$((08))`, which may end the script there"


def test_a_calculation_uses_what_the_script_sets() -> None:
    assert word("$((A * B))", "A=3; B=$((A + 1)); ") == ("12", False)
    assert word("$((A * 2))", "A=3; if x; then A=4; fi; ")[1]
    assert word("$((A * 2))", "A=3; : $((A = 4)); ")[1]


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_the_value_is_that_of_whole_numbers(expression: str) -> None:
    assert calculate(expression, lambda _name, _default: None) == str(eval(expression))  # our own digits
