"""What every test may ask for: the shipped rules, loaded once a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.catalogue import Catalogue, load
from policy.folder import Sources, read_folder
from policy.policy import Policy

ROOT = Path(__file__).resolve().parent.parent


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
