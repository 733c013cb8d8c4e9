"""The pins of one deployment, each decided with and without it in every release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.impact.impact import Impact
from policy.masking import HIDDEN, MIN_VALUE
from policy.pins.pins import Pin, VariableSource, pins_of
from policy.pins.verdicts import PinAnswer, PinVerdict, undecided, verdict_of, worst
from policy.problems import REMEDIES
from policy.rules.effects import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from policy.errors import Remedies
    from policy.impact.changes import Answer
    from policy.impact.targets import TargetRelease
    from policy.policy import Policy
    from policy.request.request import Request

UNKNOWN_VALUE: Final = "the value is not known here: it is a template, or comes from another object"


class PinVerdicts(Struct, frozen=True, gc=False):
    """A pin: what sets it, its value, and what it does in each release.

    ``now`` is the verdict of the first release: the deployment's own, or the one it is to come from.
    """

    source: VariableSource
    value: str | bool | None
    at: str
    releases: dict[str, PinAnswer]

    @property
    def now(self) -> PinVerdict:
        """The verdict of the first release."""
        return next(iter(self.releases.values())).verdict

    @property
    def worst(self) -> PinVerdict:
        """The worst verdict of all releases."""
        return worst(each.verdict for each in self.releases.values()) or PinVerdict.UNDECIDED


class PinDecider:
    """Decides the pins of deployments: in the ``targets``, and first in each one's own release if ``from_own``."""

    def __init__(
        self,
        policy: Policy,
        targets: Sequence[TargetRelease],
        today: date,
        *,
        from_own: bool = False,
        remedies: Remedies = REMEDIES,
    ) -> None:
        self.impact = Impact(policy, targets, today, from_own=from_own, remedies=remedies)
        self._without_v1 = frozenset(target.name for target in targets if target.without_v1)
        self._house = frozenset(rule.id for rule in policy.catalogue.rules if rule.effect.layer is Layer.HOUSE)

    def decide(self, request: Request) -> tuple[str | None, list[tuple[Pin, PinVerdicts]]]:
        """The release that a deployment runs, if that is compared, and the verdicts of its pins."""
        pins = pins_of(request)
        if not pins:
            return None, []
        pinned = self.impact.compare(request)
        return pinned.from_, [(pin, self._verdicts(pin, pinned.releases)) for pin in pins]

    def _verdicts(self, pin: Pin, pinned: Mapping[str, Answer]) -> PinVerdicts:
        if pin.value is None:
            return PinVerdicts(pin.source, None, pin.at, {release: undecided(UNKNOWN_VALUE) for release in pinned})
        free = self.impact.compare(pin.without).releases
        found = {
            release: verdict_of(answer, free[release], without_v1=release in self._without_v1, house=self._house)
            for release, answer in pinned.items()
        }
        return PinVerdicts(pin.source, _shown(pin.value), pin.at, found)


def _shown(value: str | bool) -> str | bool:  # noqa: FBT001  # the value of a fact
    """The value of a pin, unless it may be a secret: vLLM takes only short ones."""
    return HIDDEN if isinstance(value, str) and len(value) >= MIN_VALUE else value
