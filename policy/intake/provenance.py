"""The derived facts of a deployment: the value of each, and its origin.

The modules of the derivation fill it in, in the order in which vLLM sets the values.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

DEFAULT: Final = "default"
ASSUMED: Final = "assumed"
IMAGE: Final = "image"


class Provenance(Struct):
    """Facts by name, each with its origin.

    An origin is an argument's place, a variable, a config's field, ``default``, ``image`` or ``assumed``.

    ``later`` has the values that vLLM sets after the runner is chosen, with their origins. The engine runs with them,
    and the rules never see them. ``refusal`` says why vLLM's configuration classes end the start.
    """

    facts: dict[str, tuple[Any, str]] = {}
    warnings: list[str] = []
    later: dict[str, tuple[Any, str]] = {}
    refusal: str | None = None
