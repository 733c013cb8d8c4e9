"""Child processes that end with the process of the tests, even if that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from select import select
from subprocess import DEVNULL, Popen, TimeoutExpired
from tempfile import TemporaryDirectory
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MESSAGE = 1 << 10
"""The maximum size of an answer of the fork server in bytes."""
ROOT = Path(__file__).resolve().parent.parent


def bound(command: Sequence[str], signal: str = "KILL") -> list[str]:
    """The command, which gets this signal from Linux when the thread that started it ends: use the main thread.

    The process id is that of the command: `setpriv` sets the signal and becomes the command.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", signal, "--", *command] if setpriv else list(command)


class Process(Protocol):
    """The interface of ``Popen`` that tests use."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


FORK_SERVER = "FORK_SERVER_OF_TESTS"
"""The variable with the folder of the fork server that all processes of a run use."""


class Server:
    """The process of a program of the tests that forks: it ends when this object is closed, or this process ends."""

    def __init__(self, command: Sequence[str], *arguments: str, sockets: Sequence[str], **options: Any) -> None:
        self._control, theirs = socket.socketpair()
        self._folder = TemporaryDirectory(prefix="fork-server-")
        self.folder = Path(self._folder.name)
        self.python = str(self.folder / "python")
        """A program that stands for Python, and asks the process to fork."""
        write_program(Path(self.python), str(self.folder / "programs"), sys.executable)
        with ExitStack() as stack:
            stack.enter_context(theirs)
            listening = [stack.enter_context(listening_socket(self.folder / name)) for name in sockets]
            files = [each.fileno() for each in (theirs, *listening)]
            self._process = Popen([sys.executable, *command, *map(str, files), *arguments], pass_fds=files, **options)

    def close(self) -> None:
        """End the process, and those that it forked."""
        self._control.close()
        self._process.wait()
        self._folder.cleanup()


def listening_socket(path: Path) -> socket.socket:
    """A socket that keeps the bounds of messages, and accepts connections."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.bind(str(path))
    found.listen()
    return found


class ForkServer(Server):
    """The process of ``fork_server``, which has imported the commands and forks for each start."""

    def __init__(self) -> None:
        program = str(ROOT / "tests" / "fork_server.py")
        super().__init__(["-P", program], sockets=["requests", "programs"], cwd=ROOT)


class WorkerServer(Server):
    """The process of ``worker_server``, which forks the processes of xdist; a plugin of the pytest that starts them."""

    def __init__(self, arguments: Sequence[str]) -> None:
        program = str(ROOT / "tests" / "worker_server.py")
        options = {"stdin": DEVNULL, "stdout": DEVNULL, "start_new_session": True}
        super().__init__([program], *arguments, sockets=["programs"], **options)

    def is_ready(self) -> bool:
        """Wait until it has collected the tests; false if it cannot."""
        return bool(self._control.recv(MESSAGE))

    def close(self) -> None:
        """End the process, also while it collects."""
        self._process.send_signal(signal.SIGINT)
        super().close()

    def pytest_xdist_getremotemodule(self) -> str:
        """What xdist runs in a fork, where pytest is already running in another thread."""
        return "import __main__; __main__.lend(channel)"


class ForkClient:
    """A connection to a fork server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(str(folder / "requests"))

    def ask(self, streams: Sequence[int] = (), **request: Any) -> Any:
        """The answer to a request; ``streams`` are the files that become the standard streams of a new process."""
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], streams)
            return json.loads(self._socket.recv(MESSAGE))

    def close(self) -> None:
        """End the processes that were forked for this one."""
        self._socket.close()


@cache
def own_fork_server() -> ForkServer:
    """A fork server of this process, and of those that it starts from now on."""
    server = ForkServer()
    os.environ[FORK_SERVER] = str(server.folder)
    return server


@cache
def fork_server() -> ForkClient:
    """The fork server, started if this process has none when it is first used."""
    return ForkClient(Path(os.environ[FORK_SERVER]) if FORK_SERVER in os.environ else own_fork_server().folder)


def end_fork_server() -> None:
    """End what was forked for this process, and the fork server if it is of this process, which writes its coverage."""
    for each in fork_server, own_fork_server:
        if each.cache_info().currsize:
            each().close()
            each.cache_clear()


class ForkedProcess:
    """A process that the fork server forked; several threads may use it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = RLock()
        """Held from a poll to what needs the process: another thread's poll would free the id of one that ended."""

    def poll(self) -> int | None:
        """The exit code, the negated number of the signal that ended it, or ``None`` while it runs."""
        with self._lock:
            if self.returncode is None:
                self.returncode = fork_server().ask(poll=self.pid)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            TimeoutExpired: it is still running after ``timeout`` seconds.
        """
        with self._lock:
            ended = os.pidfd_open(self.pid) if self.poll() is None else None
        if ended is not None:
            try:
                select([ended], [], [], timeout)
            finally:
                os.close(ended)
        if (code := self.poll()) is None:
            raise TimeoutExpired("a forked process", timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        with self._lock:
            if self.poll() is None:
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forked(
    command: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    folder: Path = ROOT,
    session: bool = False,
) -> Process:
    """``runner-policy``, or a module after ``-P -m``, with these arguments and standard streams.

    Further ``streams`` are its files 3, 4 and so on. It may have a new session.

    It starts in a fraction of the time of a new interpreter. Use ``Popen`` if a test's claim is about the start, or if
    a variable is read when modules are imported.
    """
    request = {
        "command": list(command),
        "folder": str(folder),
        "environment": dict(environment),
        "session": session,
    }
    return ForkedProcess(fork_server().ask(streams, **request))


def command_of(program: int) -> int | None:
    """The process that runs the command of a program that the fork server runs, by the program's process id."""
    process: int | None = fork_server().ask(process_of=program)
    return process


PROGRAM = """#!{python} -IS
import _signal, _socket, marshal, os, sys  # the modules that take no time
open_files = []
for stream in range(3):
    try:
        os.fstat(stream)
        open_files.append(stream)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # so that the socket is no standard stream
for name in os.listdir("/proc/self/fd"):
    try:
        if int(name) > 2 and os.get_inheritable(int(name)):
            open_files.append(int(name))
    except OSError:
        pass  # that of the listing
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
connection.connect({address!r})
passed = [each for each in (_signal.SIGINT, _signal.SIGTERM) if _signal.getsignal(each) != _signal.SIG_IGN]
unblocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, passed)  # until the request is sent
command, environment = [{program!r}, *sys.argv[1:]], dict(os.environ)
request = dict(files=open_files, command=command, folder=os.getcwd(), environment=environment, session=False)
numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in open_files)
connection.sendmsg([marshal.dumps(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
connection.settimeout(1e9)  # makes it non-blocking, as a file of `set_wakeup_fd` must be
# a signal's number is sent when the signal comes: a handler in Python waits for `recv` if it comes just before that
_signal.set_wakeup_fd(connection.fileno(), warn_on_full_buffer=False)
for number in passed:
    _signal.signal(number, lambda number, frame: None)
_signal.pthread_sigmask(_signal.SIG_SETMASK, unblocked)
for number in open_files:
    if number > 2:
        os.close(number)  # such as a listening socket, which is closed when the command closes it
code = int(connection.recv(100) or -_signal.SIGKILL)  # nothing: the fork server has ended, and the command with it
if -code in passed:
    _signal.signal(-code, _signal.SIG_DFL)
if code < 0:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""A program that asks the fork server to run a command, passes signals on to it, and ends as it does.

The command ends with it.
"""


def write_program(path: Path, address: str, program: str) -> None:
    """Write a program that stands for ``program``, and that the fork server at ``address`` runs."""
    path.write_text(PROGRAM.format(python=sys.executable, address=address, program=program))
    path.chmod(0o755)


def forked_python() -> str:
    """A program that stands for Python with ``-c`` or ``-P -m``, and has its command run by a forked process.

    The process has imported what commands need. Use Python itself if a variable is read at its start.
    """
    return str(fork_server().folder / "python")


def forked_program(folder: Path) -> Path:
    """A program in this folder that stands for ``runner-policy`` in a shell, and has it run by a forked process."""
    path = folder / "runner-policy"
    installed = str(Path(sys.executable).parent / "runner-policy")
    write_program(path, str(fork_server().folder / "programs"), installed)
    return path
