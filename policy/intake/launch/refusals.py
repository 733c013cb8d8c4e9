"""Which checks a deployment fails, and the messages about them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.launch.checks import Check, CompiledCheck, Message, checks_of, message_of
from policy.intake.launch.models import UnknownArgument
from policy.intake.launch.values import UnknownVariable
from policy.intake.model.formula import EMPTY, UNSUPPORTED, CompiledFormula, Incomputable, Scope, compute
from policy.messages import QUOTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.launch.values import LaunchValues

MAX_LIST: Final = 1000
"""The most characters of a list in a message."""
MAX_REFUSALS: Final = 8
"""The most refusals that an answer lists; vLLM itself stops at the first."""


class Findings(Struct, frozen=True):
    """What a release refuses about a deployment, what it may refuse, and what it only warns of.

    ``unread`` has the options that a check reads and whose values are not known, ``options`` those that refusals are
    about.
    """

    refused: list[str] = []
    uncertain: list[str] = []
    warned: list[str] = []
    unread: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()


def refusals(values: LaunchValues) -> Findings:
    """What the release refuses about a deployment or warns of, with vLLM's words and what to do instead.

    A check that needs a value which is not known here says nothing. If that is an option, it is listed as not read; if
    it is a variable, and the check fails without it, the release may refuse the deployment.
    """
    checks = checks_of(values.release)
    scope = Scope(EMPTY, values.key, EMPTY)
    of_options = [checks.by_option[option] for option in values.given if option in checks.by_option]
    found: list[Check] = []
    undecided: list[CompiledCheck] = []
    unread: set[str] = set()
    for each in chain(checks.always, *of_options):
        check, condition = each
        if check.counts_on(values.platform):
            try:
                if _holds(condition, scope, set() if check.is_warning else unread):
                    found.append(check)
            except UnknownVariable:
                undecided.append(each)
    if_unset = Scope(EMPTY, values.key_if_unset, EMPTY)
    unsure = [check for check, condition in undecided if not check.is_warning and _holds(condition, if_unset, unread)]
    failed = [check for check in found if not check.is_warning][:MAX_REFUSALS]
    warned = [check for check in found if check.is_warning][:MAX_REFUSALS]
    refused = [_text(check, values) for check in failed if check.is_certain]
    out_of_bounds = values.out_of_bounds(unread)
    return Findings(
        [*refused, *(message for _, message in out_of_bounds)][:MAX_REFUSALS],
        [_text(check, values) for check in (*(each for each in failed if not each.is_certain), *unsure)][:MAX_REFUSALS],
        [_text(check, values) for check in warned],
        frozenset(unread),
        frozenset(check.at.partition(".")[0] for check in failed) | {option for option, _ in out_of_bounds},
    )


def _holds(condition: CompiledFormula, scope: Scope, unread: set[str]) -> bool:
    """Whether a condition holds; it does not if a value that it needs is not known. An option is added to ``unread``.

    Raises:
        UnknownVariable: that value is a variable's.
    """
    scope.iterations = 0
    try:
        return bool(condition(scope, None))
    except UnknownVariable:
        raise
    except UnknownArgument as error:
        unread.update(error.args)
        return False
    except (Incomputable, *UNSUPPORTED):
        return False


def _text(check: Check, values: LaunchValues) -> str:
    place = values.place(check.at) if check.at else ""
    return f'"{fill(check.says, values.key)}"{f" ({place})" if place else ""}; {fill(check.do, values.key)}'


def fill(text: str, key: Callable[[str], Any]) -> str:
    """A message with its values."""
    message: Message = message_of(text)
    shown = [_shown(formula, key) for formula in message.formulas]
    return message.parts[0] + "".join(value + part for value, part in zip(shown, message.parts[1:], strict=True))


def _shown(formula: Any, key: Callable[[str], Any]) -> str:
    try:
        found = compute(formula, key)
        text = ", ".join(map(str, found)) if isinstance(found, list | tuple) else str(found)
    except (Incomputable, ValueError):  # not known, or a number that is too long to show
        return "…"
    most = MAX_LIST if isinstance(found, list | tuple) else QUOTED
    return text if len(text) <= most else f"{text[:most]}…"
