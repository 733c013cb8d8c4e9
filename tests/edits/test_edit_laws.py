"""Laws of edits: nothing but the spans of a change is touched, and the new text is the old document with the change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tables import table

from policy.cli.fix_report import diff_of
from policy.edits.decoded import decoded
from policy.edits.json_nodes import json_nodes
from policy.edits.layers import documents_of
from policy.edits.nodes import Node, subtree
from policy.edits.operations import Addition, ChildRemoval, Operation, Splice, apply, edited
from policy.edits.shell_edits import without_words
from policy.edits.shell_words import shell_words
from policy.edits.text_edits import text_edits
from policy.edits.yaml_nodes import yaml_nodes
from policy.errors import RulesInvalid
from policy.parser.yamltree import read_documents

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = st.text(st.sampled_from("ab1é😀 -:#'\"\\{}[],$&*\t\n"), max_size=12)
VALUES = st.recursive(
    WORDS | st.integers(-9, 99) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
ROOTS = st.dictionaries(WORDS, VALUES, min_size=1, max_size=4)


@st.composite
def texts(draw: Callable[..., Any]) -> str:
    """A YAML or JSON text of a document, in some of the ways in which people write it."""
    document = draw(ROOTS)
    if draw(st.booleans()):
        text = json.dumps(document, indent=draw(st.sampled_from([None, 2])), ensure_ascii=draw(st.booleans()))
    else:
        style, flow = draw(st.sampled_from([None, "'", '"', "|", ">"])), draw(st.sampled_from([None, True, False]))
        width, indent = draw(st.integers(10, 80)), draw(st.sampled_from([2, 4]))
        text = yaml.safe_dump(
            document, default_style=style, default_flow_style=flow, width=width, indent=indent, allow_unicode=True
        )
        lines = [
            f"{line}{draw(st.sampled_from(['', '', '  # c']))}"
            if line.endswith((":", "]", "}")) and style is None
            else line
            for line in text.split("\n")
        ]
        text = "\n".join(lines)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text


def documents(text: str) -> list[Any] | None:
    try:
        return read_documents(text, "")
    except RulesInvalid:
        return None


def operation_of(data: st.DataObject, root: Node) -> Operation | None:
    nodes = [node for _, node in subtree(root, 200)]
    node = data.draw(st.sampled_from(nodes))
    if isinstance(node.value, str) and node.value:
        start = data.draw(st.integers(0, len(node.value)))
        end = data.draw(st.integers(start, len(node.value)))
        return Splice(node, start, end, data.draw(st.sampled_from(["", "x", " --flag", "0"])))
    if isinstance(node.value, dict | list) and node.children:
        if data.draw(st.booleans()):
            if isinstance(node.value, list):
                return Addition(node, None, data.draw(st.sampled_from(["--flag", "a=b"])))
            new: str | dict[str, str] = "1" if data.draw(st.booleans()) else {"a": "b"}
            return Addition(node, "new-key", new)
        count = data.draw(st.integers(1, len(node.children)))
        return ChildRemoval(
            node, tuple(node.children[n] for n in sorted(data.draw(st.permutations(range(len(node.children))))[:count]))
        )
    return None


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("k:\n- x\n", "k: []\n"),
        ("k:  # c\n- x\n", "k:  # c\n []\n"),
        ("k:  # c\n# d\n- x\nl: 1\n", "k:  # c\n# d\n []\nl: 1\n"),
        ("k:  # c\n  - x\n", "k:  # c\n   []\n"),
    ],
)
def test_a_list_without_its_only_item_is_an_empty_list(text: str, new: str) -> None:
    [root] = documents_of(text, "a.yaml")
    parent = root.children[0].node
    edits = text_edits(text, ChildRemoval(parent, tuple(parent.children)))
    assert edits is not None
    assert (edited(text, edits), yaml.safe_load(new)["k"]) == (new, [])


@table(
    ("scalar", "start", "end", "text", "is_edited"),
    [
        ("'1\n\n  '", 2, 2, " --flag", False),
        ("'1\n\n  '", 2, 2, "--flag", True),
        ("'\n  1'", 0, 0, "--flag ", False),
        ("'\n  1'", 0, 1, "--flag", True),
        ("'a b\n  c'", 2, 3, "", False),
        ("'a b\n  c'", 1, 3, "", True),
        ("'a\n  b\n  c'", 2, 3, "", False),
        ("'a\n  b c'", 2, 3, "", False),
        ("'a\n  b c'", 2, 4, "", True),
        ("a\n  b c", 2, 3, "", False),
        ('"a\r\n  b"', 2, 3, "b -x", True),
        ('"a\r\n  b"', 2, 3, "\tb", False),
        (">\n  a\n  b", 2, 3, " b", False),
        ("|\n  a\n  b", 2, 3, " b", True),
    ],
)
def test_a_blank_beside_a_line_break_that_is_folded_is_not_written(
    scalar: str, start: int, end: int, text: str, *, is_edited: bool
) -> None:
    document = f"k: {scalar}\n"
    [root] = documents_of(document, "a.yaml")
    node = root.children[0].node
    assert isinstance(node.value, str)
    edits = text_edits(document, Splice(node, start, end, text))
    assert (edits is not None) == is_edited
    if edits is not None:
        assert yaml.safe_load(edited(document, edits))["k"] == node.value[:start] + text + node.value[end:]


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(texts(), st.data())
def test_an_edit_gives_the_document_with_just_the_change(text: str, data: st.DataObject) -> None:
    before = documents(text)
    assume(before)
    try:
        roots = documents_of(text, "a.yaml")
    except RulesInvalid:
        return
    assert [root.plain() for root in roots] == before
    operation = operation_of(data, roots[0])
    assume(operation)
    assert operation is not None
    edits = text_edits(text, operation)
    if edits is None:
        return
    new = edited(text, edits)
    at = 0
    for edit in sorted(edits):  # the text before, between and after the spans is the same
        assert edit.start >= at
        at = edit.end
    kept = "".join(
        text[a:b]
        for a, b in zip(
            [0, *(e.end for e in sorted(edits))], [*(e.start for e in sorted(edits)), len(text)], strict=True
        )
    )
    assert len(new) == len(kept) + sum(len(edit.text) for edit in edits)
    if not apply([operation]):
        return  # a plain scalar that is no YAML any more
    # A key after a question mark is rare, and its edits are refused when the text is read again.
    assert "? " in text or repr(documents(new)) == repr([root.plain() for root in roots])


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(texts())
def test_each_character_of_a_scalar_has_its_place(text: str) -> None:
    try:
        roots = yaml_nodes(text)
    except RulesInvalid:
        return
    for root in roots:
        for _, node in subtree(root, 200):
            if not isinstance(node.value, str):
                continue
            value = decoded(text, node)
            if value is None:
                continue
            assert value.text == node.value
            places = [*zip(value.starts, value.ends, strict=True)]
            assert places == sorted(places)
            assert all(node.start <= start <= end <= len(text) for start, end in places)
            assert all(
                text[start] == each
                for each, (start, end) in zip(value.text, places, strict=True)
                if each in "ab1" and end - start == 1
            )


@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "'b c'", '"d\\"e"', "--f", "\\\n", "x\\ y", "$Z", "`q`", "$(r s)"]), max_size=8),
    st.data(),
)
def test_words_of_a_shell_are_removed_with_what_is_around_them(parts: list[str], data: st.DataObject) -> None:
    text = " ".join(["vllm", *parts])
    words = shell_words(text)
    first = data.draw(st.integers(0, len(words) - 1))
    count = data.draw(st.integers(1, len(words) - first))
    edit = without_words(text, words, first, count)
    left = [word.text for word in shell_words(edited(text, [edit]))]
    assert left == [word.text for n, word in enumerate(words) if not first <= n < first + count]


@table("text", ['{"a": 1, "a": 2}', "[1,]", "{", "", "nan", '"\\ud800"', "[" * 100 + "]" * 100, "{1: 2}"])
def test_what_is_not_certainly_json_has_no_nodes(text: str) -> None:
    assert json_nodes(text) is None


@given(VALUES)
def test_json_nodes_are_the_document_and_its_spans(document: Any) -> None:
    text = json.dumps(document, indent=1)
    root = json_nodes(text)
    assert root is not None
    assert root.plain() == document
    assert text[root.start : root.end] == text
    for _, node in subtree(root, 200):
        assert json.loads(text[node.start : node.end]) == node.plain()


@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "  c", "", "\r"]), max_size=30), st.data())
def test_a_diff_makes_the_new_text_of_the_old_one(lines: list[str], data: st.DataObject) -> None:
    new_lines = list(lines)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(new_lines)))
        new_lines[at : at + data.draw(st.integers(0, 3))] = data.draw(st.lists(st.sampled_from(["a", "x"]), max_size=3))
    old, new = (f"{chr(10).join(each)}\n" for each in (lines, new_lines))
    assert patched(old, diff_of("f", old, new)) == new


@table(
    "lines",
    [
        ["- --api-key", "- SECRET"],
        ["- --api-key=SECRET"],
        ["- name: API_KEY", "  value: SECRET"],
        ["- value: SECRET", "  name: API_KEY"],
        ["password: |", "  first", "  SECRET"],
        ["HF_TOKEN: SECRET"],
        ["- https://user:SECRET@host/x"],
        ["- --api-key", "-", "  SECRET"],
        ["- --api-key", "", "# the key", "", "- SECRET"],
        ["- --api-key", "- |", "  first line", *["  of many"] * 150, "  SECRET"],
        ["- ? API_KEY", "  :", "  # the key", "", "    SECRET"],
        ["- {", "    name: API_KEY,", "    x: 1,", "    y: 2,", "    value:", "      SECRET }"],
        ["- API_KEY: &k SECRET", *["- x"] * 4, "- SECRET"],
        ['- "--api-key"', '- "x\\', "    y", '    SECRET"'],
        ["- env: [{name: API_KEY,", "    value: SECRET}]"],
        ["- export API_KEY=SECRET; echo", "- x", "- y", "- z", "- echo SECRET"],
        ["- |", "  export API_KEY=SECRET", *["  echo"] * 4, "  echo SECRET"],
        ["- API_KEY: SECRET", *["- x"] * 4, '- "\\x53ECRET"'],
        ["# - name: API_KEY", "#   value: SECRET"],
        ["# API_KEY:", "#  SECRET"],
    ],
)
def test_a_line_with_a_secret_is_no_context_of_a_diff(lines: list[str]) -> None:
    for before, after in ((lines, []), ([], lines), (lines, lines)):
        old = "\n".join(["a:", *before, "- b", "- c", *after, "d:", ""])
        for new in (old.replace("- b\n", ""), old.replace("- b\n", "- e\n"), old.replace("- c\n", "- e\n- f\n")):
            diff = diff_of("f", old, new)
            assert "SECRET" not in diff.replace("\\x53", "S")
            assert patched(old, diff) == new


def test_a_line_with_what_a_variable_gives_to_the_name_of_a_secret_is_no_context_of_a_diff() -> None:
    named = [f"      - name: X{at}\n        value: y\n" for at in range(4)]
    env = ["      - name: X\n        value: sixletters\n", *named, "      - name: API_KEY\n        value: $(X)\n"]
    spec = "spec:\n  containers:\n  - name: a\n    image: a\n    env:\n      - name: Y\n        value: z\n"
    old = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n{spec}{''.join(env)}"
    diff = diff_of("f", old, old.replace("value: z", "value: b"))
    assert "sixletters" not in diff
    assert "value: b" in diff


def patched(old: str, diff: str) -> str:
    """The text with a unified diff applied."""
    before, found, at = old.split("\n"), [], 0
    for line in diff.split("\n")[2:-1]:
        if line.startswith("@@"):
            first, count = [*line.split()[1][1:].split(","), "1"][:2]
            start = int(first) - (count != "0")
            found += before[at:start]
            at = start
            continue
        if line[0] in " -":
            assert before[at] == line[1:]
            at += 1
        if line[0] in " +":
            found.append(line[1:])
    return "\n".join(found + before[at:])
