"""The derived facts of a deployment, each with its value and its origin.

The modules in `derive` fill it in the order in which vLLM sets the values.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

DEFAULT: Final = "default"
ASSUMED: Final = "assumed"
IMAGE: Final = "image"


class Provenance(Struct):
    """Facts by name, each with its origin.

    An origin is an argument's place, a variable, a field of a configuration, ``default``, ``image`` or ``assumed``.

    ``later`` has the values that vLLM sets after it has chosen the runner, with their origins. The engine runs with
    them; the rules never see them. ``refusal`` says why vLLM's configuration classes abort the start.
    """

    facts: dict[str, tuple[Any, str]] = {}
    warnings: list[str] = []
    later: dict[str, tuple[Any, str]] = {}
    refusal: str | None = None
