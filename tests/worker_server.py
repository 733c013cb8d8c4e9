"""A program that collects the tests, and forks the processes in which xdist runs them.

Each process of xdist would collect the tests, which takes 11 s of processor time. This program is pytest up to the
first test. Where xdist starts an interpreter it forks instead (``processes.PROGRAM``), and the new process runs tests
as xdist's own ones do. It ends with the process that started it, and all processes that it forked end with it.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from queue import SimpleQueue
from select import select
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.config import _prepareconfig
from _pytest.tmpdir import TempPathFactory
from files import use_new_folder
from fork_server import Programs, end_process

if TYPE_CHECKING:
    from _pytest.capture import CaptureManager

READY: Final = b"ready"
"""What is sent once the tests are collected. If they cannot be, xdist's own processes report why."""
VARIABLES: Final = {
    "PYTEST_XDIST_TESTRUNUID": "testrunuid",
    "PYTEST_XDIST_WORKER": "workerid",
    "PYTEST_XDIST_WORKER_COUNT": "workercount",
}
"""The variables that xdist sets, and the input that they have."""
channels: Final[SimpleQueue[Any]] = SimpleQueue()
"""The channel to xdist, for the main thread."""
ended: Final = threading.Event()
"""Set once the main thread no longer needs the channel."""


def lend(channel: Any) -> None:
    """Let the main thread use a channel that xdist closes when this function returns.

    xdist calls it in place of its own module (``processes.WorkerServer``).
    """
    channels.put(channel)
    ended.wait()


class ForksForTests:
    """A plugin of pytest that forks in place of running tests, and in a fork runs those that xdist names."""

    def __init__(self, control: socket.socket, programs: socket.socket) -> None:
        self._control = control
        self._programs = Programs(programs)
        self._reports: list[pytest.CollectReport] = []
        self.thread: threading.Thread | None = None
        """In a fork, the thread in which xdist receives."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what each process of xdist reports."""
        if not report.passed:
            self._reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork until the control socket is closed."""
        if session.testsfailed:
            return True
        capture: CaptureManager = session.config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        self._control.send(READY)
        while (ready := select([self._control, *self._programs.files()], [], [])[0][0]) is not self._control:
            if self._programs.answer(ready, self._control):
                return self._run_tests(session, capture)
        return True

    def _run_tests(self, session: pytest.Session, capture: CaptureManager) -> bool:
        """Run tests in this fork as ``xdist.remote`` does, but with those that are collected."""
        code = sys.argv[sys.argv.index("-c") + 1]
        sys.argv = ["-c"]
        self.thread = threading.Thread(target=exec, args=(code, {"__name__": "__main__"}))
        self.thread.start()
        channel = channels.get()
        config: Any = session.config
        config.workerinput, _, options, _ = channel.receive()
        config.workeroutput = {}
        for variable, name in VARIABLES.items():
            os.environ[variable] = str(config.workerinput[name])
        config.option.basetemp = options.get("basetemp")
        config._tmp_path_factory = TempPathFactory.from_config(config, _ispytest=True)
        use_new_folder(config)
        from xdist import remote  # type: ignore[import-untyped]  # noqa: PLC0415  # as in `main`; no type hints

        capture.start_global_capturing()
        capture.suspend_global_capture()
        remote.interactor = worker = remote.WorkerInteractor(config, channel)
        worker.pytest_sessionstart(session)
        worker.pytest_collection()
        for report in self._reports:
            worker.pytest_collectreport(report)
        worker.pytest_collection_finish(session)
        return bool(worker.pytest_runtestloop(session))


def main() -> None:
    """Collect the tests with pytest's arguments, which are behind the two sockets."""
    plugin = ForksForTests(*(socket.socket(fileno=int(each)) for each in sys.argv[1:3]))
    config: Any = _prepareconfig(sys.argv[3:], [plugin])
    from xdist import remote  # noqa: PLC0415  # pytest has imported it as a plugin

    remote.setup_config(config, None)
    config.workerinput = {}
    code = config.hook.pytest_cmdline_main(config=config)
    if plugin.thread is not None:
        ended.set()
        plugin.thread.join()
    end_process(int(code))


if __name__ == "__main__":
    main()
