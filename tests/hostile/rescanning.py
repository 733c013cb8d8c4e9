"""Two former patterns of this project, for which a few KiB blocked a worker for seconds, and others to compare."""

from __future__ import annotations

import re
from typing import Final

from hostile.searching import reader

NUMBERS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)', re.DOTALL)
SUFFIXED_NUMBER: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\b\d+(?:\.\d+)?[kKmMgGtT]\b', re.ASCII)
BLANKS: Final = re.compile(r"\s+$")
WORDS: Final = re.compile(r"\s++\w++")
AMBIGUOUS: Final = re.compile(r"(?:\w+-?)+;")

READERS: Final = {
    "numbers of JSON": reader(NUMBERS, "finditer"),
    "numbers with a suffix": reader(SUFFIXED_NUMBER, "sub"),
    "blanks at the end": reader(BLANKS, "search"),
    "words": reader(WORDS, "match"),
    "ambiguous words": reader(AMBIGUOUS, "match"),
}
