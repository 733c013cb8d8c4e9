"""Fired rules → what follows from them: the runner, the lists, the refusals. Pure, and without facts.

Owns the step from "these conditions hold" to "this is the decision", by the table of ``precedence``
and by what rules say of each other (``needs``, ``yields_to``, ``runner``, ``decided_by``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from policy.precedence import Effect, Layer, Runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.catalogue import ReleaseRule


class Aside(Struct, frozen=True):
    """Why a rule whose condition holds does not stand: what it asks of the decision, and what was found."""

    asks: str
    expected: Any
    actual: Any


class Ruling(Struct, frozen=True, gc=False):
    """What follows; every number is a rule's place in the release's list.

    ``holding`` are all rules whose conditions hold, in order, ``lifted`` those whose reason is gone at
    start; ``standing`` decide or list, ``decisive`` made the decision, ``refusals`` stop vLLM at start,
    ``advice`` is only said. ``v2_list`` and ``v1_list`` are the reasons in vLLM's order, ``at_start`` is
    the chosen runner's list as it is when vLLM would refuse.
    """

    effect: Effect
    holding: list[int]
    lifted: list[int]
    decisive: list[int]
    standing: list[int]
    refusals: list[int]
    advice: list[int]
    v2_list: list[int]
    v1_list: list[int]
    at_start: list[int]

    @property
    def runner(self) -> Runner | None:
        """The chosen runner; ``None`` where the configuration cannot be read."""
        return self.effect.runner

    @property
    def starts(self) -> bool:
        """Whether vLLM starts, as far as the model runner is concerned."""
        return self.effect.runner is not None and not self.refusals


class _Seat:
    """What a ruling needs of a rule, looked up once."""

    __slots__ = ("decided_by", "effect", "is_upstream", "names", "needs", "refuses", "runner", "yields_to")

    def __init__(self, item: ReleaseRule) -> None:
        rule, part = item.rule, item.range
        self.effect = rule.effect
        self.is_upstream = rule.layer is Layer.UPSTREAM
        self.names = {rule.id, rule.effect.name} if self.is_upstream else {rule.id}
        self.refuses = rule.effect.name.startswith("refuse")
        self.runner = part.runner
        self.needs, self.yields_to, self.decided_by = frozenset(part.needs), frozenset(part.yields_to), frozenset(part.decided_by)


class Rulings:
    """The rules of a release, ready to be ruled on."""

    def __init__(self, rules: Sequence[ReleaseRule], always: Iterable[int]) -> None:
        """``rules`` stand in the release's order; ``always`` are the places of those without a condition."""
        self._seats = tuple(_Seat(item) for item in rules)
        self._always = tuple(always)
        self._house = frozenset(n for n, seat in enumerate(self._seats) if not seat.is_upstream)

    def both(self, fired: Iterable[int]) -> tuple[Ruling, Ruling]:
        """The rulings by upstream's layer alone and by both, one and the same where no house rule fired."""
        upstream = self.on(fired, upstream_only=True)
        return upstream, upstream if self._house.isdisjoint((*fired, *self._always)) else self.on(fired, upstream_only=False)

    def on(self, fired: Iterable[int], *, upstream_only: bool) -> Ruling:
        """The ruling on the rules that fired (``~place``: what lifts the rule at start holds).

        INVARIANT: at least one of them decides; the catalogue refuses releases in which none might.
        """
        seats = self._seats
        holding = sorted(n for n in (*fired, *self._always) if n >= 0)
        if upstream_only and self._house:
            holding = [n for n in holding if seats[n].is_upstream]
        lifted = [~n for n in fired if n < 0]
        effect = seats[holding[0]].effect
        if effect.alone:
            alone = [n for n in holding if seats[n].effect is effect]
            return Ruling(effect, holding, lifted, alone, alone, [], [], [], [], [])
        names = self._names(holding)
        decided = False
        decisive, standing, v2_list, v1_list, later = [], [], [], [], []
        for n in holding:
            seat = seats[n]
            kind = seat.effect
            if kind.decides:
                if seat.yields_to and not names.isdisjoint(seat.yields_to):
                    continue
                if not decided:
                    effect, decided = kind, True
                if kind is effect:
                    decisive.append(n)
                elif kind.last_word:
                    continue
                standing.append(n)
                if kind.lists is Runner.V2:
                    v2_list.append(n)
            elif kind.lists is Runner.V1:
                standing.append(n)
                v1_list.append(n)
            else:
                later.append(n)
        own = v2_list if effect.runner is Runner.V2 else v1_list
        ruling = Ruling(effect, holding, lifted, decisive, standing, [], [], v2_list, v1_list, [n for n in own if n not in lifted] if lifted else own)
        for n in later:
            if not self._obstacle(ruling, seats[n], names):
                (ruling.refusals if seats[n].refuses else ruling.advice).append(n)
        return ruling

    def _obstacle(self, ruling: Ruling, seat: _Seat, names: set[str]) -> str:
        """What keeps a rule that refuses or advises from standing: the name of what it asks, or nothing."""
        runner = ruling.effect.runner
        if runner is None or (seat.runner is not None and seat.runner is not runner):
            return "runner"
        if seat.decided_by and self._names(ruling.decisive).isdisjoint(seat.decided_by):
            return "decided_by"
        if seat.yields_to and not names.isdisjoint(seat.yields_to):
            return "yields_to"
        if seat.needs and (self._left(ruling) if seat.refuses and ruling.lifted else names).isdisjoint(seat.needs):
            return "needs"
        return ""

    def _left(self, ruling: Ruling) -> set[str]:
        """The names of the rules that hold when vLLM would refuse: those of the runner's list that are lifted by then are gone."""
        return self._names(n for n in ruling.holding if n in ruling.at_start or self._seats[n].effect.lists is not ruling.runner)

    def aside(self, ruling: Ruling, n: int) -> Aside:
        """Why the rule at ``n``, whose condition holds, does not stand."""
        seat, names = self._seats[n], self._names(ruling.holding)
        match self._asks(ruling, seat, names):
            case "runner" as asks:
                return Aside(asks, seat.runner or list(Runner), ruling.runner)
            case "yields_to" as asks:
                return Aside(asks, sorted(seat.yields_to), sorted(names & seat.yields_to))
            case "needs" as asks:
                return Aside(asks, sorted(seat.needs), [])
            case asks:
                return Aside(asks, sorted(seat.decided_by) or seat.effect.name, ruling.effect.name)

    def _asks(self, ruling: Ruling, seat: _Seat, names: set[str]) -> str:
        if ruling.effect.alone or seat.effect.last_word:
            return "decided_by"
        return "yields_to" if seat.effect.decides else self._obstacle(ruling, seat, names)

    def _names(self, places: Iterable[int]) -> set[str]:
        """What ``needs`` and the like can call these rules: their ids, and the upstream ones' effects."""
        names: set[str] = set()
        for n in places:
            names |= self._seats[n].names
        return names
