"""JSON pointers: which of them are below another one."""

from __future__ import annotations

from tables import table

from policy.pointer import existing, is_within


@table(
    ("pointer", "base", "within"),
    [
        ("/containers/1", "/containers/1", True),
        ("/containers/1/args", "/containers/1", True),
        ("/containers/10", "/containers/1", False),
        ("/containers/10/args", "/containers/1", False),
        ("/containers", "/containers/1", False),
        ("/containers/1", "", True),
        ("", "", True),
    ],
)
def test_a_pointer_is_within_another_by_whole_steps(pointer: str, base: str, *, within: bool) -> None:
    assert is_within(pointer, base) is within
    assert existing(pointer, base, {}) == (base if within else pointer)
