"""Defects of this program, each contained to the item of a request that shows it.

An unexpected exception becomes the fault of the item that was read or decided, so that the others are answered. The log
has its type and its place in the code, under the id that the fault names; not its message, which may quote a user's
values.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Final, NoReturn

from uuid_utils import uuid7

from policy.errors import PolicyError, RequestFault, RequestInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

log: Final = logging.getLogger("runner_policy")
ROOT: Final = Path(__file__).parent.parent
MAX_FRAMES: Final = 30
"""The most frames of a defect that are logged: the innermost ones."""


class DefectCounter:
    """How many defects this process has met."""

    defects = 0


def defect_fault(error: Exception, pointer: str = "") -> RequestFault:
    """Log and count a defect; return the fault of the item at ``pointer``, which names its id in the log."""
    found = str(uuid7())
    DefectCounter.defects += 1
    log.error("internal error %s: %s at %s", found, type(error).__name__, _frames(error))
    return RequestFault(
        pointer,
        "a defect of Runner Policy prevents an answer; it is not a fault of the request; report it with what the log "
        f"has under the id `{found}`",
        is_defect=True,
    )


def is_defect(error: Exception) -> bool:
    """Whether an exception is none that this project raises on purpose, nor a lack of memory, which is a limit."""
    return not isinstance(error, PolicyError | MemoryError)


def contain(error: Exception, pointer: str = "") -> NoReturn:
    """Raise an exception again, a defect as the problem of the item at ``pointer``."""
    if not is_defect(error):
        raise error
    raise RequestInvalid([defect_fault(error, pointer)]) from None


@contextmanager
def contained(pointer: str = "") -> Iterator[None]:
    """Contain the defects of the block to the item at ``pointer``.

    Raises:
        RequestInvalid: the block raised an exception that is not expected.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001  # a defect may raise anything
        contain(error, pointer)


def _frames(error: Exception) -> str:
    """Where an error was raised, the innermost frame first; no file is read, as a request waits for it."""
    frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)][-MAX_FRAMES:]
    return ", ".join(f"{_shown(code.co_filename)}:{line} ({code.co_name})" for code, line in reversed(frames))


def _shown(file: str) -> str:
    """The path of a file, in this program relative to its folder."""
    path = Path(file)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else file
