"""Commands of Compose given as one text: split as by go-shellwords 1.0.12, which differs from every shell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_images import read_manifest
from tables import table

from policy.intake.command.words import Unknown
from policy.intake.manifests.go_shellwords import split


def go_words(text: str) -> list[str] | None:
    """The words according to go-shellwords' own loop over characters; None if it returns an error."""
    words: list[str] = []
    word = ""
    has_word = escaped = double = single = backtick = dollar = False
    for character in text:
        if escaped:
            word, escaped, has_word = word + character, False, True
        elif character == "\\":
            word, escaped = (word + character, False) if single else (word, True)
        elif character in " \t\r\n":
            if single or double or backtick or dollar:
                word += character
            elif has_word:
                words.append(word)
                word, has_word = "", False
        elif character == '"' and not single and not dollar:
            has_word, double = has_word or double, not double
        elif character == "'" and not double and not dollar:
            has_word, single = has_word or single, not single
        elif character == "(" and not (single or double or backtick):
            if dollar or not word.endswith("$"):
                return None
            word, dollar = word + "(", True
        elif character in ";&|<>" and not (single or double or backtick or dollar):
            if character == ">" and word and word[0] in "0123456789":
                has_word = False
            break
        else:
            if character == "`" and not (single or double or dollar):
                backtick = not backtick
            if character == ")" and not (single or double or backtick):
                if not dollar:
                    return None  # 1.0.12 keeps the blanks up to the next one instead; later releases refuse it
                dollar = False
            word, has_word = word + character, True
    if has_word:
        words.append(word)
    return None if escaped or single or double or backtick or dollar else words


def words_or_none(text: str) -> list[str] | None:
    try:
        return split(text).words
    except ValueError:
        return None


@given(st.text(alphabet="ab1 '\"\\\n\t$();&|<>`#é\x0b", max_size=14))
def test_a_command_is_split_as_by_go_shellwords(text: str) -> None:
    assert words_or_none(text) == go_words(text)


@table(
    ("text", "words"),
    [
        ("", []),
        ("a b\tc\r\nd", ["a", "b", "c", "d"]),
        ("a # b", ["a", "#", "b"]),
        ("a ''", ["a", ""]),
        ("a\"b\"'c'd", ["abcd"]),
        ("a ; b", ["a"]),
        ("a;b", ["a"]),
        ("a && b", ["a"]),
        ("a | b", ["a"]),
        ("a > log --enable-dbo", ["a"]),
        ("a < x 'b", ["a"]),
        ("a 2> log", ["a"]),
        ("a 2&1", ["a", "2"]),
        ("a b2> log", ["a", "b2"]),
        ("a '2'x> log", ["a"]),
        ('a ";" b', ["a", ";", "b"]),
        (r"a \; b", ["a", ";", "b"]),
        (r"a \> b", ["a", ">", "b"]),
        ("a '&' b", ["a", "&", "b"]),
        (r'a "\--enable-dbo"', ["a", "--enable-dbo"]),
        (r'"\$\a\"\\"', ['$a"\\']),
        (r"'\--enable-dbo'", ["\\--enable-dbo"]),
        ("a \\\nb", ["a", "\nb"]),
        ("a `b ; c` d", ["a", "`b ; c`", "d"]),
        ("a `'b'` d", ["a", "`b`", "d"]),
        ("a $(b ; 'c') d", ["a", "$(b ; 'c')", "d"]),
        ('a "$(b)" "(" d', ["a", "$(b)", "(", "d"]),
        ("$HOME *", ["$HOME", "*"]),
        ("a (b)", None),
        ("a)", None),
        ("$(a (b))", None),
        ("$(a", None),
        ("`a", None),
        ("'a", None),
        ('"a', None),
        ("a\\", None),
    ],
)
def test_the_words_of_a_command(text: str, words: list[str] | None) -> None:
    assert words_or_none(text) == words == go_words(text)


def test_a_word_is_unknown_if_releases_of_go_shellwords_differ_in_it() -> None:
    words = split(r"""--\no-async "a\tb" '\t' c\td $(\n) e""").words
    assert [type(word) is Unknown for word in words] == [True, True, False, True, True, False]


@given(st.lists(st.text(alphabet="ab'\" \\;`", max_size=4), min_size=1, max_size=5))
def test_only_the_words_with_an_unknown_part_are_unknown(pieces: list[str]) -> None:
    marked = "".join(f"{piece}?" for piece in pieces)
    positions = [index for index, character in enumerate(marked) if character == "?"]
    try:
        words = split(marked, positions).words
    except ValueError:
        return
    assert [type(word) is Unknown for word in words] == ["?" in word for word in words]


def read(**service: Any) -> tuple[list[str], list[str], list[str]]:
    """The words and notes of the service's engine, and the messages of faults."""
    faults: list[Any] = []
    found = read_manifest({"services": {"a": {"image": "vllm/vllm-openai:v0.23.0", **service}}}, "", faults)
    words, notes = (found[0].words, found[0].notes) if found else ([], [])
    return words, notes, [fault.message for fault in faults]


def test_a_warning_shows_where_compose_ends_the_command() -> None:
    for name, service in (
        ("command", {"entrypoint": ["vllm", "serve"], "command": "m -tp 2 > log --enable-dbo"}),
        ("entrypoint", {"entrypoint": "vllm serve m -tp 2 > log --enable-dbo"}),
    ):
        words, (note,), faults = read(**service)
        assert (words, faults) == (["vllm", "serve", "m", "-tp", "2"], [])
        assert note.startswith(f"Compose ends `{name}` at character ")
        assert "`>`, and drops the rest" in note


def test_a_backslash_in_double_quotes_hides_no_flag() -> None:
    assert read(command=r'--model m "\--enable-dbo"') == (["--model", "m", "--enable-dbo"], [], [])


@pytest.mark.parametrize("text", ["--model m (x)", "--model m $(x", "--model 'm"])
def test_a_command_that_compose_refuses_is_a_fault(text: str) -> None:
    (message,) = read(command=text)[2]
    assert message.startswith(f"Compose refuses `{text}`: ")
