"""Where the service looks for the ``config.json`` of a model that a request does not bring: nowhere, or the hub, where that is switched on.

Owns that a decision never waits for the hub: it is made with the models that are there, and made again when those that it needs have been fetched.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from policy.intake.hub import Hub


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

    async def fetch(self, names: Sequence[str], ends: float | None) -> dict[str, str]:
        """Fetch models from the hub, until ``ends`` (by the loop's clock); why those that cannot be had cannot."""
        if self._hub is None or not names:
            return {}
        from policy.intake.hub import HubFailed  # noqa: PLC0415  # only where the hub is switched on
        from policy.intake.local import COMPANIONS  # noqa: PLC0415

        fetch = self._hub.config
        late = "the hub did not give it in time; give its `config.json`"
        refused: dict[str, str] = {}

        async def ask(name: str) -> None:
            try:
                async with asyncio.timeout_at(ends):
                    await asyncio.to_thread(fetch, name, None, COMPANIONS)
            except HubFailed as error:
                refused[name] = str(error)
            except TimeoutError:
                refused[name] = late

        await asyncio.gather(*map(ask, names))
        return refused
