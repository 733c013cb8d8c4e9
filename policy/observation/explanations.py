"""What may explain that a log differs from a decision.

Owns the causes, and which of them a log rules out. Not here: what differs (``comparison``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, UnsetType

from policy.decision.decision import NO_RUNNER, OWN_RUNNER, Decision
from policy.messages import quoted
from policy.observation.formats import is_server, logs_fallbacks
from policy.rules.effects import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.decision.decision import Alternative
    from policy.observation.observed import Failure, ObservedEngine

RUNNER, STARTS, RELEASE, ERRORS = "runner", "starts", "vllm_version", "startup_errors"
NO_EXPLANATION: Final = "no assumption of the decision explains it"
NOT_DECIDED: Final = (
    "the exception names no model runner; `starts` says whether the runner or an argument stops vLLM, and nothing "
    "about memory, drivers, packages and files"
)
WORDS: Final = {"platform.has_triton": "Triton", "plugins.logits_processors": "logits processors"}
"""Facts that are assumed, with the words of vLLM when it falls back or refuses because of them."""
REFUSAL_EXCEPTIONS: Final = frozenset(
    {"error", "ArgumentError", "AssertionError", "KeyError", "NotImplementedError", "TypeError"}
    | {"ValidationError", "ValueError"}
)
"""The exceptions with which vLLM's parser and its configuration classes refuse values; `error` is the parser's own."""
MEMORY_TEXTS: Final = (
    "No available memory for the cache blocks",
    "Free memory on device",
    "KV cache is needed, which is larger than the available KV cache memory",
    "larger than the maximum number of tokens that can be stored in KV cache",
)
"""What a `ValueError` says if the device's memory is too small, which only the device shows."""
STARTUP_SYMPTOMS: Final = frozenset({"no-start", "crash"})
"""The symptoms of known problems with which an engine may end at its start."""
OUT_OF_MEMORY, MEMORY = "out-of-memory", "memory"
DEVICES: Final = {"rocm": "cuda"}
"""The names that vLLM gives to the devices of platforms, where they differ from the platform's."""
PLATFORM, RUNNER_VARIABLE = "environment.platform", "env.VLLM_USE_V2_MODEL_RUNNER"
EARLIER_EXCEPTION: Final = "another exception stopped vLLM before it refused the runner"


class Cause(StrEnum):
    """What makes a difference.

    ``LOG`` is what vLLM itself says; ``RELEASE`` and ``ARGUMENTS`` are those of the log, ``SET_ENV`` is the variable of
    the decision that was not set, ``MODEL`` another architecture; ``NOT_DECIDED`` is what no decision is about.
    """

    ASSUMPTION = "assumption"
    SET_ENV = "set_env"
    RELEASE = "release"
    ARGUMENTS = "arguments"
    MODEL = "model"
    KNOWN_PROBLEM = "known-problem"
    LOG = "log"
    NOT_DECIDED = "not-decided"
    UNKNOWN = "unknown"


def is_unrelated(causes: set[Cause], failure: Failure | None) -> bool:
    """Whether differences with these causes are only an exception that is not about the runner or the configuration.

    Memory, drivers, packages, files and networks have exceptions of their own. One with which the parser or the
    configuration refuses values may be a refusal that the decision missed. A known problem explains the exception,
    unless that is about too little memory, which may have other causes.
    """
    if failure is None or failure.runner is not None or Cause.NOT_DECIDED not in causes:
        return False
    is_memory = MEMORY in failure.text.lower()
    name = failure.text.partition(":")[0]
    if name in REFUSAL_EXCEPTIONS and not (name == "ValueError" and any(text in failure.text for text in MEMORY_TEXTS)):
        return False
    return causes <= {Cause.NOT_DECIDED, *([Cause.KNOWN_PROBLEM] if is_memory else [])}


class Explanation(Struct, frozen=True):
    """What may explain a difference; an assumption with its ``fact`` and the values ``assumed`` and needed."""

    cause: Cause
    message: str
    fact: str | UnsetType = UNSET
    assumed: Any | UnsetType = UNSET
    value: str | UnsetType = UNSET


class Alternatives(Struct, frozen=True):
    """The decisions for the same engine under what the log shows, as far as they were made.

    ``at_release`` is the one for the log's release, ``with_arguments`` the one with the log's arguments.
    """

    at_release: Decision | None = None
    with_arguments: Decision | None = None


def explanations(
    member: str, observed: ObservedEngine, decision: Decision, alternatives: Alternatives
) -> Iterator[Explanation]:
    """What may explain that a field of the decision differs from the log; ``unknown`` if nothing does."""
    if member == RELEASE:
        other = alternatives.at_release
        if other is not None:
            yield Explanation(Cause.RELEASE, f"for vLLM {other.vllm_version} the decision is {_answer(other)}")
        return
    found = list(_of_member(member, observed, decision, alternatives))
    yield from found or [Explanation(Cause.UNKNOWN, NO_EXPLANATION)]


def _of_member(
    member: str, observed: ObservedEngine, decision: Decision, alternatives: Alternatives
) -> Iterator[Explanation]:
    """What makes the decision the same as the log, the most certain first."""
    failure = observed.failure
    if member in {STARTS, ERRORS} and failure is not None and failure.runner is None:
        found = decision.known_problems if decision.starts else []
        yield from (
            Explanation(Cause.KNOWN_PROBLEM, f"{each.rule}: {each.message}")
            for each in found
            if each.symptom in STARTUP_SYMPTOMS or (each.symptom == OUT_OF_MEMORY and MEMORY in failure.text.lower())
        )
        yield Explanation(Cause.NOT_DECIDED, NOT_DECIDED if decision.starts else EARLIER_EXCEPTION)
        return
    if member == RUNNER:
        yield from (Explanation(Cause.LOG, f"vLLM logs: {text}") for text in observed.fallbacks)
    for cause, other, words in (
        (Cause.RELEASE, alternatives.at_release, "for the release of the log"),
        (Cause.ARGUMENTS, alternatives.with_arguments, "with the arguments that the log shows"),
    ):
        if other is not None and _is_as_observed(member, observed, other):
            yield Explanation(cause, f"{words} the decision is {_answer(other)}")
            return
    if decision.set_env and _is_as_observed(member, observed, decision.upstream):
        assignments = " ".join(f"{name}={value}" for name, value in decision.set_env.items())
        yield Explanation(
            Cause.SET_ENV,
            f"vLLM alone does this; it follows the decision only if {assignments} is set",
            value=assignments,
        )
        return
    yield from _of_assumptions(member, observed, decision)
    yield from _of_model(observed, decision)


def _of_assumptions(member: str, observed: ObservedEngine, decision: Decision) -> Iterator[Explanation]:
    """The assumptions for which another value gives the decision that the log shows."""
    for assumption in decision.assumptions or []:
        fact, assumed = assumption.fact, assumption.assumed
        state = "is" if assumed is None else f"was taken as {quoted(assumed)}, being"
        for value, other in assumption.would_change.items():
            if _is_as_observed(member, observed, other) and _may_explain(fact, value, member, observed, decision):
                message = f"{fact} {state} {assumption.why}; with {value} the decision is {_answer(other)}"
                yield Explanation(Cause.ASSUMPTION, message, fact, assumed, value)


def _may_explain(fact: str, value: str, member: str, observed: ObservedEngine, decision: Decision) -> bool:
    """Whether another value of an assumed fact may explain a difference, by what vLLM says.

    A platform has its device. The variable takes precedence, so it does not explain a runner if the log has a
    fallback. A release that logs why it falls back to V1 would have named the fact, if its log is there from its first
    record.
    """
    if fact == PLATFORM and observed.device is not None and observed.device != DEVICES.get(value, value):
        return False
    if fact == RUNNER_VARIABLE and member == RUNNER and observed.fallbacks:
        return False
    word = WORDS.get(fact)
    if word is None:
        return True
    if member != RUNNER:
        return observed.failure is None or word in observed.failure.text
    is_whole = any(is_server(each.id) for each in observed.signals)
    says_why = bool(observed.fallbacks) or (is_whole and logs_fallbacks(decision.release.decided_as))
    return observed.runner != Runner.V1 or not says_why or any(word in text for text in observed.fallbacks)


def _of_model(observed: ObservedEngine, decision: Decision) -> Iterator[Explanation]:
    """That the engine resolved an architecture which the decision's model does not have."""
    fact = decision.facts.get("model_config.architectures") if decision.facts else None
    decided = fact.value if fact is not None else None
    if isinstance(decided, list) and observed.architectures and observed.architectures[0] not in decided:
        shown = observed.architectures[0]
        yield Explanation(Cause.MODEL, f"the log resolved the architecture {shown}, and the decision has {decided}")


def _is_as_observed(member: str, observed: ObservedEngine, other: Decision | Alternative | Any) -> bool:
    """Whether another decision is what the log shows, in this field and, as far as it is shown, in the runner."""
    if member == RUNNER:
        return bool(other.runner == observed.runner)
    is_runner = observed.runner is None or other.runner == observed.runner
    return bool(is_runner and other.starts == observed.starts)


def _answer(decision: Decision | Alternative) -> str:
    runner = decision.runner.upper() if decision.runner else OWN_RUNNER if decision.starts else NO_RUNNER
    return f"{runner}, {'starts' if decision.starts else 'does not start'}"
