"""The name of a model whose path is a folder of the hub's cache, as `huggingface_hub` lays it out.

The folder of the model `Qwen/Qwen3-8B` is `models--Qwen--Qwen3-8B`, with a folder in `snapshots` for each revision.
"""

from __future__ import annotations

import re
from typing import Final

FOLDER: Final = re.compile(r"/models--([^/]++)(?:/snapshots/[^/]++)?/?")
SEPARATOR: Final = "--"


def hub_name(path: str) -> str | None:
    """The model's name on the hub, such as `Qwen/Qwen3-8B`; None if the path is not a folder of the hub's cache."""
    start = path.rfind("/models--")
    found = FOLDER.fullmatch(path, start) if start >= 0 else None
    if found is None:
        return None
    owner, separator, name = found[1].partition(SEPARATOR)
    return f"{owner}/{name}" if separator else owner
