"""Fixtures and scheduling for all tests, among them the shipped rules, loaded once per process."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import signal
import sys
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.runner import runtestprotocol
from files import CopiedFolder, use_new_folder
from hypothesis import settings
from processes import WorkerServer, end_fork_server, own_fork_server
from shared_services import shared, shared_services
from shipped_rules import shipped_rules
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # xdist has no type hints

from policy import defects
from policy.checks import cases
from policy.policy import Policy
from policy.rules.catalogue import Catalogue, load
from policy.rules.loader import Sources, read_folder
from service.reload import reload
from service.state import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shipped_rules import ShippedRules

__all__ = ["shared", "shared_services"]  # fixtures
YOUNG_OBJECTS: Final = 1_000_000
"""New objects after which garbage is looked for among them."""
ROOT = Path(__file__).resolve().parent.parent
GROUPS: Final = {
    "cluster": "cluster",
    "deploy/test_supply.py": "supply",
    "operations/test_access.py": "shared services",
    "operations/test_browsers.py": "shared services",
    "operations/test_health.py": "shared services",
    "operations/test_metrics.py": "shared services",
    "operations/test_proxies.py": "shared services",
    "operations/test_tls.py": "shared services",
    "api/test_hub.py": "hub",
    "api/test_openapi_clients.py": "clients",
    "api/test_page.py": "page",
    "api/test_page_edit.py": "edit of the page",
    "api/test_page_fleet.py": "fleet of the page",
    "api/test_page_rules.py": "rules of the page",
    "proof/test_claims.py": "proof",
    "verify/test_drafting.py": "vllm",
    "verify/test_vllm.py": "vllm",
}
"""Files and folders whose tests run in one process, as they share expensive fixtures; one process for each name."""
BY_PARAMETER: Final = ("core/test_recordings.py", "intake/test_deployment_recordings.py")
"""Files whose tests with the same parameter run in one process, as they share fixtures."""
SLOW_FOLDERS: Final = ("hostile", "operations", "log", "verify", "proof")
"""Folders whose tests take seconds each.

They run first, so that the last tests are short and all processes end at about the same time.
"""
TOGETHER: Final = 20
"""Tests of one function that a process gets at once, outside ``SLOW_FOLDERS``: each message takes as long as a test."""
REPETITIVE: Final = (
    "core/test_engine.py::test_decisions_leak_no_memory",
    "core/test_laws.py",
    "core/test_recordings.py",
    "cli/test_cli_rules.py::test_every_mutant_of_a_shipped_rule",
    "api/test_mutated_requests.py",
    "api/test_schemathesis.py",
    "intake/test_deployment_recordings.py",
    "proof/test_claims.py::test_no_shipped_rule",
    "verify/test_vllm.py",
)
"""Tests that run the same code many thousands of times, and cover few lines that no other test covers.

Measuring coverage would more than double their time.
"""
# jsonschema imports it for the IRI formats, which no schema here uses; the import takes more than a second.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # so that importing it fails


settings.register_profile("fast", max_examples=10, deadline=None)
settings.register_profile("full", max_examples=200, deadline=None)  # `--hypothesis-profile full`
settings.load_profile("fast")


class Collection(list[str]):
    """The ids of all tests, which finds the place of one without a search."""

    @cached_property
    def _places(self) -> dict[str, int]:
        return {nodeid: place for place, nodeid in enumerate(self)}

    def index(self, nodeid: str, *_: Any) -> int:
        return self._places[nodeid]


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """Give tests to free processes, those of one function several at a time, and tests that belong together to one.

    xdist 3.8 does not find the group in the ids of pytest 9.2. It also searches all tests for each one, as it expects
    few groups; here both are looked up.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._scopes: dict[str, str] = {}
        self._sizes: Counter[str] = Counter()

    def add_node_collection(self, node: Any, collection: Any) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Collection(collection)

    def _split_scope(self, nodeid: str) -> str:
        if nodeid not in self._scopes:
            self._scopes[nodeid] = self._new_scope(nodeid)
        return self._scopes[nodeid]

    def _new_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0].removeprefix("tests/")
        function, _, parameter = nodeid.partition("[")
        if path in BY_PARAMETER and parameter:
            return f"{path}[{parameter}"
        group = next((name for part, name in GROUPS.items() if path == part or path.startswith(f"{part}/")), None)
        if group or path.startswith(SLOW_FOLDERS):
            return group or nodeid
        self._sizes[function] += 1
        return f"{function} {self._sizes[function] // TOGETHER}"

    def _reschedule(self, node: Any) -> None:
        """As xdist does, which counts the tests that are left in all groups that the process ever had."""
        groups = self.assigned_work[node]
        for name in [name for name, tests in groups.items() if all(tests.values())]:
            del groups[name]
        super()._reschedule(node)


@pytest.hookimpl(tryfirst=True)  # before pytest reads the folder for temporary files
def pytest_configure(config: pytest.Config) -> None:
    """Make tests and their processes interruptible, also in the background, where a shell ignores SIGINT.

    Files that programs keep for their user, such as logs and downloads, and those of tests go to a folder of this run,
    which is removed at the end: in the folder that runs share by default, one fails while another removes old files.
    Compiled modules are kept, even where PYTHONDONTWRITEBYTECODE is set: compiling them in each of the several hundred
    processes would take a fifth of the total time.
    """
    gc.disable()  # until all tests are collected
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    use_new_folder(config)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Let the processes of xdist be forked from one that has collected the tests, and use one fork server.

    Not where they measure coverage, which starts before tests are imported, and again in each fork server.
    """
    if config.getoption("cov_source", None):
        return
    own_fork_server()
    config.add_cleanup(end_fork_server)
    server = WorkerServer(config.invocation_params.args)
    config.add_cleanup(server.close)
    if server.is_ready():
        config.pluginmanager.register(server)
        for spec in specs:
            spec.python = shlex.quote(server.python)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """The scheduler of ``--dist loadgroup``."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the ``SLOW_FOLDERS`` folders first, and the ``REPETITIVE`` tests without coverage.

    Paths are computed once for each file: for each test that took a twentieth of the time of the collection.
    """
    prefix = f"{(ROOT / 'tests').as_posix()}/"
    paths = {path: path.as_posix().removeprefix(prefix) for path in {item.path for item in items}}
    for item in items:
        if f"{paths[item.path]}::{item.name}".startswith(REPETITIVE):
            item.add_marker("no_cover")
    items.sort(key=lambda item: not paths[item.path].startswith(SLOW_FOLDERS))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load the shipped rules if tests use them, before processes are forked for the tests.

    Modules and tests, which last as long as the process, are kept out of every garbage collection.

    With Python's own threshold of 700 new objects, tests take 4 % more processor time.
    """
    if any("shipped_rules" in getattr(item, "fixturenames", ()) for item in session.items):
        shipped_rules()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    gc.enable()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test as pytest does, but in a process of xdist report it once if it passes.

    The six messages that xdist sends for each test would take longer than most tests.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test in which the program contained a defect, unless it is about that."""
    before = defects.DefectCounter.defects
    yield
    if defects.DefectCounter.defects != before and item.get_closest_marker("defects") is None:
        pytest.fail("the program has contained a defect; the log has its place")


@pytest.fixture(scope="session", autouse=True)
def _fork_server() -> Iterator[None]:
    """End what this process had forked, and a fork server of its own before coverage is combined."""
    yield
    end_fork_server()


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def copied_rules(root: Path, tmp_path_factory: pytest.TempPathFactory) -> CopiedFolder:
    """The folder of the shipped rules, to copy."""
    return CopiedFolder(Path(shutil.copytree(root / "rules", tmp_path_factory.mktemp("copied") / "rules")))


@pytest.fixture
def copy_rules(copied_rules: CopiedFolder) -> Iterator[Callable[[Path], Path]]:
    """Copies the shipped rules to a new folder. To change a file there, replace it (``files.replace_file``)."""
    yield copied_rules.copy_to
    assert copied_rules.is_unchanged(), "the test wrote into a file, which is that of all copies: use `replace_file`"


@pytest.fixture(scope="session")
def all_sources() -> Sources:
    """The texts of all shipped rules."""
    return read_folder(ROOT / "rules")


@pytest.fixture(scope="session")
def sources(all_sources: Sources) -> Sources:
    """The texts of the shipped rules without known problems, which decide nothing and would be in most answers."""
    both = (all_sources.rules, all_sources.cases)
    return Sources(*({path: text for path, text in texts.items() if "/known-problems/" not in path} for texts in both))


@pytest.fixture(scope="session", name="shipped_rules")
def _shipped_rules() -> ShippedRules:
    """The shipped rules for commands that run in this process."""
    return shipped_rules()


@pytest.fixture
def shipped_rules_once(monkeypatch: pytest.MonkeyPatch, shipped_rules: ShippedRules) -> None:
    """Let applications of this process read and compile only what differs from the shipped rules, as forked ones do."""
    monkeypatch.setattr(reload, "read_folder", shipped_rules.read_folder)
    monkeypatch.setattr(reload, "read_cases", shipped_rules.read_cases)
    monkeypatch.setattr(cases, "read_rule_file", shipped_rules.read_rule_file)
    for module in reload, state:
        monkeypatch.setattr(module, "load", shipped_rules.load)
    monkeypatch.setattr(Policy, "__init__", shipped_rules.create_policy)


@pytest.fixture(scope="session")
def catalogue(sources: Sources) -> Catalogue:
    """The shipped catalogue, without known problems."""
    return load(sources)


@pytest.fixture(scope="session")
def policy(catalogue: Catalogue) -> Policy:
    """The shipped policy without known problems, compiled into the engine."""
    return Policy(catalogue)
