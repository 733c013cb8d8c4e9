"""A program that forks a process for each start of ``runner-policy``, because imports take most of a start.

It has also read and compiled the shipped rules, which takes most of the rest: a forked process that reads the same
texts gets the same result at once.

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
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.intake import Find

RULES: Final = Path(__file__).resolve().parent.parent / "rules"
IMPORTED: Final = (
    "fastapi.staticfiles",
    "fastapi_offline",
    "policy.checks.check",
    "policy.cli.decide",
    "policy.cli.dry_run",
    "policy.cli.rules",
    "policy.render",
    "rich.markdown",
    "service.cli.log",
    "service.cli.serve",
    "service.cli.token",
    "service.log.client",
    "service.log.query",
    "service.run",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on",
    "z3",
)
"""The modules that the commands import when they run, and those that a service imports at its start."""
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


def read_shipped_rules() -> None:
    """Let forked processes that read the texts of the shipped rules get the results of this process.

    Reading and compiling them takes two thirds of a service's start. All other texts are read as ever, and so are these
    by the processes that a service starts, and by the tests themselves. To be called before other modules import the
    functions by name.
    """
    from policy.checks import cases  # noqa: PLC0415  # only the fork server needs it
    from policy.intake.intake import no_models  # noqa: PLC0415  # as above
    from policy.policy import Policy  # noqa: PLC0415  # as above
    from policy.rules import catalogue  # noqa: PLC0415  # as above
    from policy.rules.loader import Sources, read_folder  # noqa: PLC0415  # as above

    sources = read_folder(RULES)
    shipped = catalogue.load(sources)
    compiled = Policy(shipped)
    shipped_cases = cases.read_cases(sources.cases, shipped)
    load, read_cases, create = catalogue.load, cases.read_cases, Policy.__init__

    @wraps(load)
    def load_or_shipped(texts: Sources, *pause: Callable[[], object]) -> catalogue.Catalogue:
        return shipped if texts.rules == sources.rules else load(texts, *pause)

    @wraps(read_cases)
    def read_cases_or_shipped(texts: dict[str, str], known: catalogue.Catalogue) -> list[cases.Case]:
        return list(shipped_cases) if known is shipped and texts == sources.cases else read_cases(texts, known)

    @wraps(create)
    def create_with_shipped(
        self: Policy,
        known: catalogue.Catalogue,
        default_release: str | None = None,
        find: Find = no_models,
        before: Policy | None = None,
        **more: Any,
    ) -> None:
        create(self, known, default_release, find, before or compiled, **more)

    catalogue.load, cases.read_cases = load_or_shipped, read_cases_or_shipped
    Policy.__init__ = create_with_shipped  # type: ignore[method-assign]  # as the functions above


if __name__ == "__main__":  # a worker process of the service imports this module too, and needs no command
    read_shipped_rules()
    for name in IMPORTED:
        import_module(name)
    gc.freeze()
    if answer_requests(socket.socket(fileno=int(sys.argv[1]))):
        import_module("service.cli").main()
