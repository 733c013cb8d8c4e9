"""What is derived of a deployment: each fact's value, and where it came from.

Owns nothing else; the modules of the derivation fill it in, in the order in which vLLM comes to the values.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

DEFAULT: Final = "default"
ASSUMED: Final = "assumed"


class Provenance(Struct):
    """Facts by their names, each with its origin: an argument's place, a variable, a config's member, ``default``, ``assumed``.

    ``later`` has what vLLM sets a fact to once the runner is chosen, with its origin: the engine runs with it, the rules never see it.
    """

    facts: dict[str, tuple[Any, str]] = {}
    warnings: list[str] = []
    later: dict[str, tuple[Any, str]] = {}
