"""The table of effects, in the order in which they decide.

Owns the precedence, which is total: the first row with a fired rule decides, and every release has ``default-v2`` (or,
up to 0.21, ``not-default``). Conditions on facts are in the rules, not here.

=============  ==============  ======  ============  =============================================
layer          effect          runner  outcome       the step of a vLLM release
=============  ==============  ======  ============  =============================================
upstream       invalid         none    none          the variable's text is not an integer
upstream       not-applicable  none    (its name)    a platform or program with runners of its own
upstream       reject          none    none          HiSparse with a false variable
upstream       require-v2      V2      required      HiSparse, watermark: before the variable
upstream       override-v2     V2      override      the variable is true
upstream       override-v1     V1      override      the variable is false
house          fallback-v1     V1      fallback      the organisation's own rules
house          force-v2        V2      required      the organisation's own rules
upstream       force-v2        V2      required      forces: context parallelism, DSpark, diffusion
upstream       not-default     V1      not-default   the default set; up to 0.21, no opt-in
upstream       default-v1      V1      fallback      platform defaults
upstream       fallback-v1     V1      fallback      no Triton
upstream       exclude-v2      V1      fallback      the V2 list
upstream       default-v2      V2      default       none of the above
=============  ==============  ======  ============  =============================================

The other effects do not decide: ``exclude-v1`` (the V1 list), ``refuse-v1`` and ``refuse-v2`` (vLLM stops at startup
with that runner), ``advise`` and ``known-problem``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Layer(StrEnum):
    """The layer of a rule: vLLM's own behaviour, or this organisation's additions."""

    UPSTREAM = "upstream"
    HOUSE = "house"


class Runner(StrEnum):
    """vLLM's model runners."""

    V1 = "v1"
    V2 = "v2"

    @property
    def other(self) -> Runner:
        """The runner that is not this one."""
        return Runner.V1 if self is Runner.V2 else Runner.V2


class Outcome(StrEnum):
    """The kind of step that chose the runner, or why there is none of vLLM's to choose."""

    NOT_APPLICABLE = "not-applicable"
    OVERRIDE = "override"
    REQUIRED = "required"
    DEFAULT = "default"
    NOT_DEFAULT = "not-default"
    FALLBACK = "fallback"


class Stage(StrEnum):
    """When vLLM refuses to start: while it checks its configuration, or later, in the worker that runs the model."""

    CONFIGURATION = "configuration"
    WORKER = "worker"


class TextField(StrEnum):
    """The field of a rule file that has the rule's text."""

    MESSAGE = "message"
    FEATURE = "feature"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a rule of this layer and effect does when it fires.

    ``rank`` is the place in the table, ``says`` the field with the rule's text. ``decides`` is false for rules that
    only list, refuse, advise or tell of a problem. ``ordered`` means that the rule's ``order`` is its position in
    vLLM's own list, ``last_resort`` that the rule applies only if no other rule decides, and ``exclusive`` that all
    other rules are ignored, except advice that names it in ``decided_by``. ``lists`` is the runner whose list of
    unsupported features the rule is on.
    """

    name: str
    layer: Layer
    rank: int
    says: TextField
    meaning: str
    runner: Runner | None = None
    outcome: Outcome | None = None
    decides: bool = True
    ordered: bool = False
    last_resort: bool = False
    exclusive: bool = False
    lists: Runner | None = None

    @property
    def refuses(self) -> bool:
        """Whether vLLM stops at startup when the rule fires."""
        return self.name.startswith("refuse")

    @property
    def is_problem(self) -> bool:
        """Whether the rule is about something that is known to go wrong with a runner."""
        return self.name == "known-problem"

    @property
    def is_readable(self) -> bool:
        """Whether vLLM can read the configuration when the rule decides; otherwise it does not start."""
        return self.outcome is not None


_UP, _HOUSE = Layer.UPSTREAM, Layer.HOUSE
_V1, _V2 = Runner.V1, Runner.V2

TABLE: Final = (
    Effect(
        "invalid",
        _UP,
        0,
        TextField.TEXT,
        "the variable cannot be read: no runner, and nothing else is checked",
        exclusive=True,
    ),
    Effect(
        "not-applicable",
        _UP,
        1,
        TextField.MESSAGE,
        "neither of vLLM's runners: the platform or the program has runners of its own, by its own rules",
        outcome=Outcome.NOT_APPLICABLE,
        exclusive=True,
    ),
    Effect("reject", _UP, 2, TextField.TEXT, "the configuration contradicts itself: no runner"),
    Effect("require-v2", _UP, 3, TextField.MESSAGE, "V2, regardless of the variable", _V2, Outcome.REQUIRED),
    Effect(
        "override-v2", _UP, 4, TextField.MESSAGE, "V2, because the operator's variable is true", _V2, Outcome.OVERRIDE
    ),
    Effect(
        "override-v1", _UP, 5, TextField.MESSAGE, "V1, because the operator's variable is false", _V1, Outcome.OVERRIDE
    ),
    Effect("fallback-v1", _HOUSE, 6, TextField.MESSAGE, "V1, by this organisation's policy", _V1, Outcome.FALLBACK),
    Effect(
        "force-v2",
        _HOUSE,
        7,
        TextField.MESSAGE,
        "V2, by this organisation's policy, if no house rule selects V1",
        _V2,
        Outcome.REQUIRED,
    ),
    Effect("force-v2", _UP, 8, TextField.MESSAGE, "V2, because only V2 can run it", _V2, Outcome.REQUIRED),
    Effect(
        "not-default",
        _UP,
        9,
        TextField.MESSAGE,
        "V1, because the model is not in the release's default set",
        _V1,
        Outcome.NOT_DEFAULT,
    ),
    Effect("default-v1", _UP, 10, TextField.MESSAGE, "V1, because the platform defaults to it", _V1, Outcome.FALLBACK),
    Effect("fallback-v1", _UP, 11, TextField.MESSAGE, "V1, because V2 cannot run here", _V1, Outcome.FALLBACK),
    Effect(
        "exclude-v2",
        _UP,
        12,
        TextField.FEATURE,
        "V1, because V2 does not support the feature",
        _V1,
        Outcome.FALLBACK,
        ordered=True,
        lists=_V2,
    ),
    Effect(
        "default-v2",
        _UP,
        13,
        TextField.MESSAGE,
        "V2, because nothing else decided",
        _V2,
        Outcome.DEFAULT,
        last_resort=True,
    ),
    Effect(
        "exclude-v1",
        _UP,
        14,
        TextField.FEATURE,
        "a feature that V1 does not support",
        decides=False,
        ordered=True,
        lists=_V1,
    ),
    Effect(
        "refuse-v1",
        _UP,
        15,
        TextField.TEXT,
        "if V1 is chosen, vLLM stops at startup with this text",
        _V1,
        decides=False,
        ordered=True,
    ),
    Effect(
        "refuse-v2",
        _UP,
        16,
        TextField.TEXT,
        "if V2 is chosen, vLLM stops at startup with this text",
        _V2,
        decides=False,
        ordered=True,
    ),
    Effect("advise", _HOUSE, 17, TextField.TEXT, "a warning; decides nothing", decides=False),
    Effect("advise", _UP, 18, TextField.TEXT, "a warning; decides nothing", decides=False),
    *(
        # Both layers have the same rank, so that an answer lists the problems of both together, the worst first.
        Effect(
            "known-problem",
            layer,
            19,
            TextField.TEXT,
            "listed in `known_problems` if the runner is chosen that it affects; decides nothing",
            decides=False,
        )
        for layer in (_HOUSE, _UP)
    ),
)
EFFECTS: Final[dict[tuple[Layer, str], Effect]] = {(effect.layer, effect.name): effect for effect in TABLE}


def effects_of(layer: Layer) -> list[str]:
    """The effects that a rule of this layer may have, in order of precedence."""
    return [effect.name for effect in TABLE if effect.layer is layer]
