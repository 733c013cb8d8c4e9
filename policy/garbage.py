"""Python's search for garbage, in processes that soon end."""

import atexit
import gc

YOUNG_OBJECTS = 500_000
"""New objects after which garbage is looked for among them. A short process makes fewer, and keeps most."""


def collect_rarely() -> None:
    """Look for garbage among many new objects only, and not at the end of the process.

    With Python's 700 new objects and its last search, `decide` takes 100 ms more of processor time, a quarter, and a
    dry run with `changes: all` a tenth more.
    """
    gc.set_threshold(YOUNG_OBJECTS)
    atexit.register(gc.freeze)
