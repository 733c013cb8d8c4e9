"""The packed form of JSON values, in which each different one occurs once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from impact_reports import unpacked

from policy.impact.packing import Packer

SCALARS = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def packed(*values: Any) -> tuple[dict[str, Any], list[int]]:
    """The document of a packer with these values, and their places."""
    packer = Packer()
    places = [packer.add(value) for value in values]
    document = packer.document()
    return json.loads(b"".join(document)), places


def text_of(value: Any) -> str:
    """A value as a text that tells `1` from `true`."""
    return json.dumps(value)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_what_is_packed_is_read_as_it_was(values: list[Any]) -> None:
    document, places = packed(*values)
    assert [text_of(unpacked(document, place)) for place in places] == [text_of(value) for value in values]


@given(VALUES, VALUES)
def test_a_value_stands_once(one: Any, other: Any) -> None:
    document, places = packed(one, other, one, [one, other])
    assert places[0] == places[2]
    texts = [text_of(value) for value in document["values"]]
    assert len(set(texts)) == len(texts)


def test_objects_of_the_same_names_share_a_shape() -> None:
    document, _ = packed([{"a": 1, "b": True}, {"a": True, "b": 1}, {"b": 1, "a": True}])
    assert document == {
        "shapes": [["a", "b"], ["b", "a"]],
        "values": [1, True, [1, 0, 1], [1, 1, 0], [2, 0, 1], [0, 2, 3, 4]],
    }
