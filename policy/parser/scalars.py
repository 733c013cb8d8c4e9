"""Plain scalars of YAML → values, as the YAML library of Kubernetes and Helm reads them.

Follows sigs.k8s.io/yaml (as of kubectl 1.32). It reads the numbers of JSON as JSON does, unlike PyYAML: ``1e3``,
``0o17`` and ``-.5`` are numbers, and ``12:30`` is a string. There are three differences: an integer of more than 64
bits stays one, ``1.5e999`` is not a string, and ``y`` and ``n`` are strings, as in YAML 1.2, because requests to an
engine have a field ``n``.
"""

from __future__ import annotations

import math
import re
from typing import Final

CONSTANTS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>[0-9]+))"
)
BASES: Final = {"hexadecimal": 16, "binary": 2, "octal": 8, "decimal": 10}
FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
NUMBER_STARTS: Final = frozenset("+-0123456789.")
MAX_NUMBER: Final = 64
"""The most characters of a number."""


class NumberTooLong(ValueError):
    """A number has more than ``MAX_NUMBER`` characters."""


def scalar_value(text: str) -> str | float | bool | None:
    """The value of a plain scalar: a number, a boolean, null, or the text itself; linear in its length.

    A number that is too large for a float is the text if it has no point, as a commit may be (``1234e567``), and
    infinite otherwise.

    Raises:
        NumberTooLong: a number is longer than ``MAX_NUMBER``.
    """
    if text in CONSTANTS:
        return CONSTANTS[text]
    if text[0] not in NUMBER_STARTS:
        return text
    plain = text if text.startswith(".") else text.replace("_", "")
    integer = INTEGER.fullmatch(plain)
    if integer is None and FLOAT.fullmatch(plain) is None:
        return text
    if len(text) > MAX_NUMBER:
        raise NumberTooLong
    if integer is not None:
        assert integer.lastgroup is not None  # INVARIANT: one of the groups with digits matched
        return int(f"{integer['sign']}{integer[integer.lastgroup]}", BASES[integer.lastgroup])
    number = float(plain)
    return number if math.isfinite(number) or "." in plain else text
