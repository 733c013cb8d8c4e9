"""Python's representations are read without evaluating them."""

from __future__ import annotations

from typing import Any

import pytest
from tables import table

from policy.observation.python_value import MAX_DEPTH, MAX_TEXT, MAX_VALUES, UNREADABLE, NotAValue, read_value


@table(
    ("text", "expected"),
    [
        ("{}", {}),
        (
            "{'a': 1, 'b': [True, False, None], 'c': (1, 2.5, -3e5)}",
            {"a": 1, "b": [True, False, None], "c": [1, 2.5, -3e5]},
        ),
        ("""{'a': "it's", 'b': 'x\\n\\'y\\'', "c": u'z'}""", {"a": "it's", "b": "x\n'y'", "c": "z"}),
        ("'a\\ud800b'", "a?b"),
        ("{'a', 'b'}", ["a", "b"]),
        ("[1,]  and what follows", [1]),
        ("<Mode.FULL: 2>", "FULL"),
        ("<Mode.FULL_AND_PIECEWISE: (2, 1)>", "FULL_AND_PIECEWISE"),
        ("<Backend.NAME: 'name'>", "name"),
        ("torch.bfloat16", "bfloat16"),
        ("PosixPath('/models')", "/models"),
        ("Config(kind='x', inner=Inner(), sizes=[1, 2])", {"kind": "x", "inner": {}, "sizes": [1, 2]}),
        ("<function f at 0x7f>", UNREADABLE),
        ("<class 'a.B'>", UNREADABLE),
        ("b'x'", UNREADABLE),
        ("Pair(1, 2)", UNREADABLE),
        ("__import__('os').system('true')", "os"),
    ],
)
def test_a_representation_is_read(text: str, expected: Any) -> None:
    assert read_value(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a value at character 1, got the end of the line"),
        ("{'a': 1", "expected `,` or `}` at character 8, got the end of the line"),
        ("{'a': }", "expected a value at character 7, got `}`"),
        ("[1 2]", "expected `,` or `]` at character 4, got `2`"),
        ("'abc", "expected a value at character 1, got `'`"),
        ("<x", "expected `>` at character 1, got `<`"),
        ("'\\x'", "a literal of 4 characters that Python does not read"),
        ("[" * (MAX_DEPTH + 2), f"nested too deeply: at most {MAX_DEPTH} levels are read"),
        ("[" + "1," * MAX_VALUES + "]", f"more than {MAX_VALUES:,} values, which is the limit"),
        ("'" + "x" * MAX_TEXT + "'", f"more than {MAX_TEXT:,} characters, which is the limit"),
    ],
)
def test_another_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(NotAValue) as raised:
        read_value(text)
    assert str(raised.value) == message
