"""Where the service looks for the ``config.json`` of a model that a request does not bring: nowhere, or the hub, where that is switched on.

Owns that a decision never waits for the hub: it is made with what the hub said of late, and made again when a model it needs is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from policy.errors import Misfit, RequestInvalid
from policy.intake.intake import MODEL_CONFIG_NEEDED, ModelConfigNeeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from policy.intake.hub import Hub

ROUNDS: Final = 4
"""A speculators repository, its verifier, a draft: no deployment needs more rounds."""

T = TypeVar("T")


class Models:
    """The models that the service can find."""

    def __init__(self, hub: Hub | None) -> None:
        self._hub = hub

    @property
    def fetches(self) -> bool:
        """Whether a model can be had from the hub."""
        return self._hub is not None

    def find(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        """A model's ``config.json`` and files, where the hub gave them of late."""
        found = self._hub.kept(name) if self._hub is not None else None
        return (found.config, found.files) if found is not None else None

    async def ready(self, decide: Callable[[], T]) -> T:
        """What ``decide`` comes to when the models that it needs were fetched.

        Raises:
            RequestInvalid: of the kind ``model-config-needed``, where a model cannot be had.
        """
        for _ in range(ROUNDS if self._hub is not None else 0):
            try:
                return decide()
            except ModelConfigNeeded as error:
                await self._fetched(error)
        return decide()

    async def _fetched(self, needed: ModelConfigNeeded) -> None:
        from policy.intake.hub import HubFailed  # noqa: PLC0415  # only where the hub is switched on
        from policy.intake.local import COMPANIONS  # noqa: PLC0415

        assert self._hub is not None  # INVARIANT: asked only where there is one
        fetch = self._hub.config

        async def refusal(name: str) -> str | None:
            try:
                await asyncio.to_thread(fetch, name, None, COMPANIONS)
            except HubFailed as error:
                return str(error)
            return None

        refusals = await asyncio.gather(*map(refusal, needed.names))
        faults = [Misfit(fault.pointer, told) for fault, told in zip(needed.faults, refusals, strict=True) if told is not None]
        if faults:
            raise RequestInvalid(faults, MODEL_CONFIG_NEEDED)
