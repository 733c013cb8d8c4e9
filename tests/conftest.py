"""What every test may ask for: the shipped rules, loaded once a process."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings
from standing import shared, standing
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it says no types

from policy.policy import Policy
from policy.rules.catalogue import Catalogue, load
from policy.rules.loader import Sources, read_folder

__all__ = ["shared", "standing"]  # fixtures
ROOT = Path(__file__).resolve().parent.parent
TOGETHER: Final = {
    "cluster": "cluster",
    "deploy/test_supply.py": "supply",
    "api/test_hub.py": "hub",
    "proof/test_claims.py": "proof",
    "verify/test_drafting.py": "vllm",
    "verify/test_vllm.py": "vllm",
}
"""Files and folders whose tests one process is to run, since they share what is dear; those of a name are one."""
BY_PARAMETER: Final = ("core/test_recordings.py", "intake/test_deployment_recordings.py")
"""Files of which one process is to run all tests with the same parameter, since they share what is made of it."""
LONG: Final = ("hostile", "operations", "log", "verify", "proof")
"""Folders whose tests take seconds each.

They come first, so that the last ones are short and no process waits for another at the end.
"""
REPEATING: Final = (
    "core/test_engine.py::test_decisions_keep_no_memory",
    "core/test_laws.py",
    "core/test_recordings.py",
    "cli/test_cli_rules.py::test_every_change_of_a_shipped_rule",
    "api/test_mutated_requests.py",
    "api/test_schemathesis.py",
    "intake/test_deployment_recordings.py",
    "proof/test_claims.py::test_the_shipped_rules",
    "verify/test_vllm.py",
)
"""Tests that run the same code many thousand times, and reach few lines that no others reach.

Measuring coverage would more than double their time.
"""


settings.register_profile("fast", max_examples=25, deadline=None)
settings.register_profile("full", max_examples=200, deadline=None)  # `--hypothesis-profile full`
settings.load_profile("fast")


class Together(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """Give each test to a free process, and tests that belong together to one.

    xdist 3.8 does not find the group in the ids of pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0].removeprefix("tests/")
        if path in BY_PARAMETER and "[" in nodeid:
            return f"{path}[{nodeid.partition('[')[2]}"
        return next((name for place, name in TOGETHER.items() if path == place or path.startswith(f"{place}/")), nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """What the tests start can be interrupted, even where a shell runs them in the background, which has it ignored.

    What programs keep for their user, logs of decisions and downloads, goes to a folder that is removed in the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="runner-policy-tests-"))
    folder.chmod(0o755)
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
    os.environ |= {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("STATE", "CACHE", "DATA")}
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """That one, where groups are asked for."""
    return Together(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first; the repeating ones uncovered."""
    places = {item: item.path.relative_to(ROOT / "tests") for item in items}
    for item, place in places.items():
        if f"{place.as_posix()}::{item.name}".startswith(REPEATING):
            item.add_marker("no_cover")
    items.sort(key=lambda item: places[item].parts[0] not in LONG)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> Sources:
    """The texts of the shipped rules."""
    return read_folder(ROOT / "rules")


@pytest.fixture(scope="session")
def catalogue(sources: Sources) -> Catalogue:
    """The shipped catalogue."""
    return load(sources)


@pytest.fixture(scope="session")
def policy(catalogue: Catalogue) -> Policy:
    """The shipped policy, compiled into the engine."""
    return Policy(catalogue)
