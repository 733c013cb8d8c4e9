"""A program that forks a process for each start of ``runner-policy``, because imports take most of a start.

Each line of its input is a request in JSON, and the answer is a line of its output. It ends with its input, that is
with the process of the tests, and all processes that it forked end with it. Started by ``processes.ForkServer``.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from importlib import import_module
from typing import Final

from service.cli import main

IMPORTED: Final = ("service.cli.serve", "service.run")
"""The modules that ``runner-policy serve`` imports when it starts."""
PR_SET_PDEATHSIG: Final = 1
"""The option of ``prctl`` in Linux for the signal that a process gets when its parent ends."""


def answer_requests() -> bool:
    """Answer requests until the input ends; return true in a process that was forked for one."""
    libc = ctypes.CDLL(None)
    own = os.getpid()
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            ended, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        else:
            answer = os.fork()
        if answer == 0 and "command" in request:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != own:  # the fork server has already ended
                os.kill(os.getpid(), signal.SIGKILL)
            become(**request)
            return True
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    return False


def become(*, command: list[str], folder: str, environment: dict[str, str], output: str, session: bool) -> None:
    """Set up this process as a new one that runs the command, as ``Popen`` does with these options."""
    if session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    opened = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for file, standard in zip((*opened, opened[1]), range(3), strict=True):
        os.dup2(file, standard)
    for file in opened:
        os.close(file)
    sys.argv = command


if __name__ == "__main__":  # a worker process of the service imports this module, as it would import `runner-policy`
    for name in IMPORTED:
        import_module(name)
    gc.freeze()
    if answer_requests():
        main()
