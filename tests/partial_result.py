"""A function for a worker process that ends before it has written all of its result."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def write_a_part(started: str) -> None:
    """Write the size of a result and its first bytes, and then the file ``started``, and nothing more."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    size = b"\0\0\1\0"
    os.write(frame.f_locals["result_queue"]._writer.fileno(), size + b"part")
    Path(started).touch()
    time.sleep(600)
