"""Fixtures for all tests of the intake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deployments import Asking

if TYPE_CHECKING:
    from policy.policy import Policy


@pytest.fixture(scope="session")
def ask(policy: Policy) -> Asking:
    """Asks the shipped policy about a deployment."""
    return Asking(policy)
