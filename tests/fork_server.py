"""A program that forks a process for each start of ``runner-policy``, because imports take most of a start.

It has also read and compiled the shipped rules and decided once, which takes most of the rest: a forked process that
reads the same texts gets the same result at once.

Each message on its sockets is a request in JSON, sent with the files that become the process's standard streams and
further files; the answer is a message too. Programs (``processes.PROGRAM``) send theirs to another socket, in the
format of ``marshal``, whose module takes no time to import. It serves all processes of a run of the tests, and ends
with the one that started it; all processes that it forked end with it. Started by ``processes.ForkServer``.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import json
import marshal
import multiprocessing
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from importlib import import_module
from pathlib import Path
from runpy import run_path
from select import select
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

IMPORTED_MODULES: Final = (
    "encodings.idna",
    "fastapi.staticfiles",
    "fastapi_offline",
    "policy.checks.candidate",
    "policy.checks.check",
    "policy.checks.report",
    "policy.cli.compare",
    "policy.cli.decide",
    "policy.cli.dry_run",
    "policy.cli.impact",
    "policy.cli.observe",
    "policy.cli.pins",
    "policy.cli.proof",
    "policy.cli.rules",
    "policy.cli.verify",
    "policy.proof.edit",
    "policy.render",
    "policy.rules.git",
    "psycopg",
    "rapidfuzz.fuzz",
    "rapidfuzz.process",
    "rich._emoji_codes",
    "rich.markdown",
    "rich.status",
    "service.cli.log",
    "service.cli.replay",
    "service.cli.serve",
    "service.cli.token",
    "service.log.__main__",
    "service.log.client",
    "service.log.query",
    "service.run",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "typer.rich_utils",
    "uvicorn.lifespan.on",
    "z3",
)
"""The modules that the commands import when they run, and those that a service imports at its start."""
MESSAGE: Final = 1 << 20
"""The maximum size of a request in bytes."""
MAX_FILES: Final = 16
"""The maximum number of files that a program passes on."""
PR_SET_PDEATHSIG: Final = 1
"""The option of ``prctl`` in Linux for the signal that a process gets when its parent ends."""
PID_BYTES: Final = 4
"""The size of a process id, with which Linux describes a peer."""


def answer_requests(control: socket.socket, requests: socket.socket, programs: Programs) -> bool:
    """Answer requests until the control socket is closed; return true in a process that was forked for one.

    ``requests`` listens for processes of tests. What was forked for one of them ends with it.
    """
    clients: dict[socket.socket, set[int]] = {}  # with the processes that were forked for each and have not ended
    while True:
        ready = select([control, requests, *programs.files(), *clients], [], [])[0][0]
        if ready is control:
            return False
        if ready is requests:
            clients[requests.accept()[0]] = set()
            continue
        if ready not in clients:
            if programs.answer(ready, control, requests, *clients):
                return True
            continue
        message, streams, _, _ = socket.recv_fds(ready, MESSAGE, MAX_FILES)
        if not message:
            end(clients.pop(ready))
            ready.close()
            continue
        request = json.loads(message)
        answer: int | None
        if "process_of" in request:
            answer = programs.process_of(request["process_of"])
        elif "poll" in request:
            ended, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
            clients[ready].discard(ended)
        elif answer := forked(control, requests, *programs.files(), *clients):
            clients[ready].add(answer)
        else:
            become(dict(enumerate(streams)), **request)
            return True
        for file in streams:
            os.close(file)
        ready.send(json.dumps(answer).encode())


def end(processes: Iterable[int]) -> None:
    """End processes that were forked here."""
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Programs:
    """The programs (``processes.PROGRAM``) that connect to a socket, and a process forked for each.

    A process gets the signals whose numbers its program sends, a byte each. If the program ends first, so does the
    process.
    """

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._processes: dict[socket.socket, int | None] = {}
        """The process of each connected program: ``None`` before its request, 0 once the process has ended."""
        self._running: dict[int, tuple[int, socket.socket]] = {}
        """Each running process and its program, by the file that says when the process ends."""

    def files(self) -> list[socket.socket | int]:
        """The files to wait for."""
        return [self._listening, *self._processes, *self._running]

    def answer(self, ready: socket.socket | int, *closed: socket.socket) -> bool:
        """Answer what one of the files has; return true in a process that was forked, which has ``closed`` these."""
        if isinstance(ready, int):
            self._report_end(ready)
        elif ready is self._listening:
            self._processes[ready.accept()[0]] = None
        elif self._processes[ready] is None:
            return self._start(ready, closed)
        else:
            self._pass_signal_on(ready)
        return False

    def process_of(self, program: int) -> int | None:
        """The running process of the program with this process id."""
        processes = {peer(connection): process for connection, process in self._processes.items()}
        return processes.get(program) or None

    def _start(self, program: socket.socket, closed: Iterable[socket.socket]) -> bool:
        message, received, _, _ = socket.recv_fds(program, MESSAGE, MAX_FILES)
        if not message:  # the program has already ended
            self._close(program)
            return False
        request = marshal.loads(message)
        files = dict.fromkeys(range(3)) | dict(zip(request.pop("files"), received, strict=True))
        if not (child := forked(*closed, *self.files())):
            become(files, **request)
            return True
        for file in received:
            os.close(file)
        self._processes[program] = child
        self._running[os.pidfd_open(child)] = child, program
        return False

    def _pass_signal_on(self, program: socket.socket) -> None:
        number = b""
        with suppress(ConnectionError):
            number = program.recv(1)
        if child := self._processes[program]:  # else the signal came too late
            os.kill(child, *(number or [signal.SIGKILL]))
        if not number:
            self._close(program)

    def _report_end(self, ended: int) -> None:
        """Send the exit code.

        The socket is closed after the program: with an unread signal, closing it would reset the connection before the
        exit code is read.
        """
        child, program = self._running.pop(ended)
        status = os.waitpid(child, 0)[1]
        os.close(ended)
        if program in self._processes:
            self._processes[program] = 0
            with suppress(ConnectionError):  # it has ended too
                program.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _close(self, program: socket.socket) -> None:
        del self._processes[program]
        program.close()


def peer(connection: socket.socket) -> int:
    """The id of the process at the other end."""
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PID_BYTES), sys.byteorder)


def forked(*closed: socket.socket | int) -> int:
    """Fork: 0 in the new process, which ends with this one and has closed these files, and its id in this one."""
    own = os.getpid()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != own:  # it has already ended
            os.kill(os.getpid(), signal.SIGKILL)
        for each in closed:
            os.close(each) if isinstance(each, int) else each.close()
    return child


def become(
    files: dict[int, int | None], *, command: list[str], folder: str, environment: dict[str, str], session: bool
) -> None:
    """Set up this process as a new one that runs the command, as ``Popen`` does with these options.

    Each file gets the number that is its key; one that is ``None`` is closed.
    """
    if session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if not any(name.startswith("COVERAGE") for name in environment):
        stop_measuring()
    moved = {
        number: None if file is None else fcntl(file, F_DUPFD_CLOEXEC, 1 + max(files)) for number, file in files.items()
    }
    for file in files.values():
        if file is not None:
            os.close(file)
    for number, file in moved.items():
        if file is None:
            os.close(number)
        else:
            os.dup2(file, number)
            os.close(file)
    # Python chooses the buffers by what the files are.
    sys.stdin = sys.__stdin__ = opened(0)  # type: ignore[misc]  # as at its start
    sys.stdout = sys.__stdout__ = opened(1, "w")  # type: ignore[misc]  # as above
    sys.stderr = sys.__stderr__ = opened(2, "w", 1, "backslashreplace")  # type: ignore[misc]  # as above
    sys.argv = command


def stop_measuring() -> None:
    """Stop the coverage that began with the fork, although the command has none of the variables that ask for it."""
    if "coverage" in sys.modules and (measuring := sys.modules["coverage"].Coverage.current()):
        measuring.stop()


def opened(file: int, mode: str = "r", buffering: int = -1, errors: str | None = None) -> Any:
    """A standard stream, or ``None`` if it is closed, as at Python's start."""
    try:
        return open(file, mode, buffering, errors=errors, closefd=False)
    except OSError:
        return None


def use_shipped_rules() -> None:
    """Let forked processes that read the texts of the shipped rules get the results of this process.

    It takes two thirds of a service's start. The tests themselves, and the few services that they start in a new
    interpreter, read the rules as ever. To be called before other modules import the functions by name.
    """
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)  # no process that is forked here has the folder of the tests in its path
    from shipped_rules import shipped_rules  # noqa: PLC0415  # only the fork server needs it

    sys.path.remove(folder)
    from policy.checks import cases  # noqa: PLC0415  # the processes that a service starts import this module too
    from policy.policy import Policy  # noqa: PLC0415  # as above
    from policy.rules import catalogue, loader  # noqa: PLC0415  # as above

    shipped = shipped_rules()
    loader.read_folder = shipped.read_folder
    catalogue.load, cases.read_cases = shipped.load, shipped.read_cases
    cases.read_rule_file = shipped.read_rule_file  # type: ignore[attr-defined]  # it is imported there
    Policy.__init__ = shipped.create_policy  # type: ignore[method-assign]  # as the functions above


def use_programs(folder: Path) -> None:
    """Let all processes that commands and services start be forked too, by the program that stands for Python.

    They are those that check and try rules, the one that writes the log, and those of `multiprocessing`.
    """
    from policy.checks import candidate, check  # noqa: PLC0415  # as in `use_shipped_rules`
    from service.log import client  # noqa: PLC0415  # as above

    python = str(folder / "python")
    multiprocessing.set_executable(python)
    client.COMMAND = (python, *client.COMMAND[1:])  # type: ignore[misc]  # final, for all but tests
    candidate.COMMAND = (python, *candidate.COMMAND[1:])  # type: ignore[misc]  # as above
    check.COMMAND = (python, *check.COMMAND[1:])  # type: ignore[misc]  # as above


def measure_imported_files() -> None:
    """Let coverage in forked processes measure what they import, and not look for all files that they do not import.

    That takes a third of what a short command takes with coverage. The process of the tests looks for those files.
    """
    if "coverage" in sys.modules and (measuring := sys.modules["coverage"].Coverage.current()):
        packages = measuring.get_option("run:source")
        measuring.set_option("run:source", [])
        measuring.set_option("run:include", [f"{package}/*" for package in packages])


def run_command() -> None:
    """Run the command, and end this process.

    At its end nothing is left to do but to write what is buffered. Python would also free every object that this
    process shares with the fork server, which takes longer than most commands.
    """
    code = 0
    try:
        match sys.argv:
            case [program, "-P", "-m", module, *arguments]:
                sys.argv = [program, *arguments]
                found = import_module(module)
                (found if hasattr(found, "main") else import_module(f"{module}.__main__")).main()
            case [_, script, *arguments] if script.endswith(".py"):
                sys.argv = [script, *arguments]
                run_path(script, run_name="__main__")
            case [program, *words] if Path(program).name.startswith("python") and "-c" in words:
                place = words.index("-c")
                sys.argv = ["-c", *words[place + 2 :]]
                exec(words[place + 1], {"__name__": "__main__"})
            case _:
                import_module("service.cli").main()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    end_process(code)


def end_process(code: int) -> None:
    """End this process as Python does, but do not free its objects."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for other threads, as Python does at its end
    atexit._run_exitfuncs()
    for stream in sys.stdout, sys.stderr:
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":  # a worker process of the service imports this module too, and needs no command
    gc.disable()
    faulthandler.register(signal.SIGUSR2, file=2)  # prints what each thread is doing, also in forked processes
    measure_imported_files()
    use_shipped_rules()
    for name in IMPORTED_MODULES:
        import_module(name)
    import_module("service.api.page").Page()  # compresses its files, which are kept
    control, requests, programs = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    use_programs(Path(programs.getsockname()).parent)
    gc.freeze()
    gc.enable()
    if answer_requests(control, requests, Programs(programs)):
        run_command()
