"""Models from the hub, if it is switched on, for requests without their ``config.json``.

A decision never waits for the hub: it is made with the models that are cached, and again once missing ones have been
fetched. A request waits for the hub within limits, and one caller cannot use all of the slots for fetching; those of a
caller that acts for users, such as the API server, are divided among these.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from service.limits.share import share_of_user
from service.limits.slots import Slots
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from policy.intake.model.hub import Hub

CONCURRENCY: Final = 4
"""Models fetched at once, as many as the hub's own limit; each occupies one of the event loop's few threads."""
MAX_WAITING: Final = 256
"""Models of one caller that may wait for a slot."""
BUSY: Final = "too many models are being fetched; send the request again, or give the model's `config.json`"


class HubModels:
    """The models that the service can look up."""

    def __init__(self, hub: Hub | None) -> None:
        self._hub = hub
        self._slots = Slots(CONCURRENCY, MAX_WAITING, "busy")
        self._fetches: dict[tuple[str, str], asyncio.Task[Exception | None]] = {}
        """The fetches in progress, by the caller or its user, and name."""

    @property
    def fetches(self) -> bool:
        """Whether models can be fetched from the hub."""
        return self._hub is not None

    def find(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        """A model's ``config.json`` and files, if they were fetched recently."""
        found = self._hub.cached_files(name) if self._hub is not None else None
        return (found.config, found.files) if found is not None else None

    async def fetch(self, names: Sequence[str], ends: float | None, caller: str, user: str = "") -> dict[str, str]:
        """Fetch models from the hub until ``ends`` (loop time); return why the missing ones failed.

        ``user`` is the one for whom the caller acts, if any.

        Raises:
            Refused: no fetch could start in time; not raised with ``ends``, as for an admission review.
        """
        if self._hub is None or not names:
            return {}
        timeout_text = "it could not be fetched from the hub in time; give its `config.json`"
        refused: dict[str, str] = {}
        busy: dict[str, str] = {}

        async def fetch_one(hub: Hub, name: str) -> None:
            try:
                async with asyncio.timeout_at(ends):
                    error = await asyncio.shield(self._fetch(hub, name, caller, user))
            except TimeoutError:
                refused[name] = timeout_text
            else:
                if error is not None:
                    (busy if isinstance(error, Refused) else refused)[name] = str(error)

        await asyncio.gather(*(fetch_one(self._hub, name) for name in names))
        if ends is None and len(busy) == len(names):
            raise Refused("busy", busy[names[0]])
        return refused | busy

    def _fetch(self, hub: Hub, name: str, caller: str, user: str) -> asyncio.Task[Exception | None]:
        """The task that fetches a model; it continues when no caller waits, as its thread cannot be stopped."""
        key = share_of_user(caller, user), name
        task = self._fetches.get(key)
        if task is None:
            task = self._fetches[key] = asyncio.create_task(self._run_fetch(hub, name, caller, user))
            task.add_done_callback(lambda _: self._fetches.pop(key))
        return task

    async def _run_fetch(self, hub: Hub, name: str, caller: str, user: str) -> Exception | None:
        """Fetch a model once there is a slot; return why it failed, or that no slot was free in time."""
        from policy.intake.model.files import COMPANIONS  # noqa: PLC0415  # only if the hub is switched on
        from policy.intake.model.hub_errors import HubFailed  # noqa: PLC0415  # as above

        try:
            async with asyncio.timeout(hub.timeout) as waiting, self._slots.slot(caller, user=user):
                waiting.reschedule(None)
                await asyncio.to_thread(hub.config, name, None, COMPANIONS)
        except (HubFailed, Refused) as error:
            return error
        except TimeoutError:
            return Refused("busy", BUSY)
        return None
