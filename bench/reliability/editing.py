"""Edit rules while they are served: each edit changes texts, and some files are broken on purpose.

Owns which rule that is, and that it is as before in the end.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

RULE: Final = "house/kv-connector-fallback.yaml"
WORDS: Final = ("keeps this deployment on V1", "holds this deployment on V1")
BROKEN: Final = "releases: [}"


async def rewriting(rules: Path, every: float, broken: int, stop: asyncio.Event) -> dict[str, int]:
    """Rewrite the rules until ``stop``; return how often a good and a broken file was written.

    One file is written every ``every`` seconds until ``stop``. Each ``broken``-th one is broken; 0 means none.
    """
    path = rules / RULE
    good = path.read_text()
    done = {"good": 0, "broken": 0}
    for number in count(1):
        try:
            await asyncio.wait_for(stop.wait(), every)
        except TimeoutError:
            pass
        else:
            path.write_text(good)
            return done
        if broken and number % broken == 0:
            path.write_text(BROKEN)
            done["broken"] += 1
        else:
            path.write_text(good.replace(WORDS[0], WORDS[number % 2]))
            done["good"] += 1
    raise AssertionError
