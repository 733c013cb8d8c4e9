"""Edit a rule of a running service: each edit changes a text, and some make the file invalid on purpose.

Owns the rule that is edited, and restores it at the end.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

RULE: Final = "house/kv-connector-fallback.yaml"
TEXTS: Final = ("keeps this deployment on V1", "holds this deployment on V1")
BROKEN_FILE: Final = "releases: [}"


async def rewrite_rule(rules: Path, every: float, broken: int, stop: asyncio.Event) -> dict[str, int]:
    """Rewrite the rule until ``stop``; return how often a good and a broken file were written.

    The file is written every ``every`` seconds. Each ``broken``-th one is broken; 0 means none.
    """
    path = rules / RULE
    good = path.read_text()
    written = {"good": 0, "broken": 0}
    for number in count(1):
        try:
            await asyncio.wait_for(stop.wait(), every)
        except TimeoutError:
            pass
        else:
            path.write_text(good)
            return written
        if broken and number % broken == 0:
            path.write_text(BROKEN_FILE)
            written["broken"] += 1
        else:
            path.write_text(good.replace(TEXTS[0], TEXTS[number % 2]))
            written["good"] += 1
    raise AssertionError
