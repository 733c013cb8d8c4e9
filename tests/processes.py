"""Child processes that end when the process of the tests does, also where that is killed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def bound(command: Sequence[str], signal: str = "KILL") -> list[str]:
    """The command, which Linux sends this signal when the thread that starts it ends: start it in the main thread.

    Its process id is that of the command: `setpriv` sets the signal and becomes the command.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", signal, "--", *command] if setpriv else list(command)
