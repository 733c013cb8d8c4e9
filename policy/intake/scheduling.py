"""Asynchronous scheduling: the fact ``scheduler_config.async_scheduling``.

Owns what the tables' formula of ``VllmConfig.__post_init__`` asks for, and when the rules are asked which runner it will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.derived import DEFAULT
from policy.intake.formula import Incomputable, compute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.commandline import Options
    from policy.intake.derived import Derived
    from policy.intake.speculation import Speculation
    from policy.intake.tables import Tables

FACT: Final = "scheduler_config.async_scheduling"
EXECUTORS: Final = frozenset({"uni", "mp", "external_launcher"})
BACKEND: Final = "parallel_config.distributed_executor_backend"
RAY_V2: Final = "VLLM_USE_RAY_V2_EXECUTOR_BACKEND"
"""Ray's executor is another one unless this is 0, from 0.21 on; 0.33 has no other."""


def derive_scheduling(
    derived: Derived,
    speculation: Speculation | None,
    options: Options,
    env: Mapping[str, str],
    platform: str,
    tables: Tables,
    runs_on_v2: Callable[[], bool],
) -> None:
    """The fact, stated or as vLLM chooses; ``runs_on_v2`` asks the rules with the facts so far, as vLLM does at this place from 0.31 on."""
    asked = options.get("async_scheduling")
    if platform == "cpu":
        derived.put(FACT, False, "environment.platform")
    elif asked is not None:
        derived.put(FACT, asked, options.place("async_scheduling"))
    else:
        question = _Question(derived, speculation, options, env, platform)
        formula = tables.constants["async_scheduling"]
        on_v1, on_v2 = question.answer(formula, v2=False), question.answer(formula, v2=True)
        chosen = on_v1 if on_v1 == on_v2 or not runs_on_v2() else on_v2
        derived.put(FACT, *chosen)


class _Question:
    """The names that the formula asks for, and the last of them that somebody stated: what kept scheduling synchronous."""

    def __init__(self, derived: Derived, speculation: Speculation | None, options: Options, env: Mapping[str, str], platform: str) -> None:
        self.derived = derived
        self.origin = DEFAULT
        backend = derived.values[BACKEND]
        self.known = {
            FACT: None,
            "executor_class.supports_async_scheduling": backend in EXECUTORS or (backend == "ray" and env.get(RAY_V2) != "0"),
            "parallel_config.all2all_backend": options.get("all2all_backend"),
            "platform.is_rocm": platform == "rocm",
            "speculative_config": None if speculation is None else True,
            "speculative_config.disable_padded_drafter_batch": speculation is not None and speculation.keys.get("disable_padded_drafter_batch"),
        }

    def answer(self, formula: Any, *, v2: bool) -> tuple[bool, str]:
        """What vLLM chooses on a runner, and by what."""
        self.known["use_v2_model_runner"] = v2
        self.origin = DEFAULT
        try:
            chosen = bool(compute(formula, self.key))
        except Incomputable:
            chosen = True
        return chosen, DEFAULT if chosen else self.origin

    def key(self, name: str) -> Any:
        """The value of a name."""
        self.origin = self.derived.origins.get(BACKEND if name.startswith("executor_class") else name, self.origin)
        return self.known[name] if name in self.known else self.derived.values.get(name)
