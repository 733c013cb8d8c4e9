"""A program that forks a process for each start of ``runner-policy``, because imports take most of a start.

Each message on its socket is a request in JSON, sent with the files that become the process's standard streams; the
answer is a message too. It ends when the socket is closed, that is with the process of the tests, and all processes
that it forked end with it. Started by ``processes.ForkServer``.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import sys
from importlib import import_module
from typing import Final

from service.cli import main

IMPORTED: Final = (
    "policy.checks.check",
    "policy.cli.decide",
    "policy.cli.dry_run",
    "policy.cli.rules",
    "policy.render",
    "service.cli.log",
    "service.cli.serve",
    "service.cli.token",
    "service.run",
)
"""The modules that the commands import when they run."""
MESSAGE: Final = 1 << 20
"""The maximum size of a request in bytes."""
PR_SET_PDEATHSIG: Final = 1
"""The option of ``prctl`` in Linux for the signal that a process gets when its parent ends."""


def answer_requests(requests: socket.socket) -> bool:
    """Answer requests until the socket is closed; return true in a process that was forked for one."""
    libc = ctypes.CDLL(None)
    own = os.getpid()
    while True:
        message, streams, _, _ = socket.recv_fds(requests, MESSAGE, 3)
        if not message:
            return False
        request = json.loads(message)
        if "poll" in request:
            ended, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        else:
            answer = os.fork()
        if answer == 0 and "command" in request:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != own:  # the fork server has already ended
                os.kill(os.getpid(), signal.SIGKILL)
            requests.close()
            become(streams, **request)
            return True
        for file in streams:
            os.close(file)
        requests.send(json.dumps(answer).encode())


def become(streams: list[int], *, command: list[str], folder: str, environment: dict[str, str], session: bool) -> None:
    """Set up this process as a new one that runs the command, as ``Popen`` does with these options."""
    if session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for file, standard in zip(streams, range(3), strict=True):
        os.dup2(file, standard)
    for file in streams:
        os.close(file)
    # Python chooses the buffers by what the files are.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115  # as at its start
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc]  # noqa: SIM115  # as above
    sys.stderr = sys.__stderr__ = open(2, "w", 1, errors="backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115  # as above
    sys.argv = command


if __name__ == "__main__":  # a worker process of the service imports this module, as it would import `runner-policy`
    for name in IMPORTED:
        import_module(name)
    gc.freeze()
    if answer_requests(socket.socket(fileno=int(sys.argv[1]))):
        main()
