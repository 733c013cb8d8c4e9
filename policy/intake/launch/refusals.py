"""Which checks a deployment fails, and the messages about them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.launch.checks import Check, CompiledCheck, Message, checks_of, message_of
from policy.intake.launch.models import UnknownArgument, has_known_type
from policy.intake.launch.values import UnknownVariable
from policy.intake.model.formula import EMPTY, OPERATION_ERRORS, Incomputable, Scope, compute
from policy.masking import masked
from policy.messages import MAX_QUOTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policy.intake.launch.values import LaunchValues

UNKNOWN_VALUE_ERRORS: Final = (Incomputable, *OPERATION_ERRORS)
"""What a condition raises if a value that it needs is not known."""
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


NO_FINDINGS: Final = Findings()


def refusals(values: LaunchValues) -> Findings:
    """What the release refuses about a deployment or warns of, with vLLM's words and what to do instead.

    A check that needs a value that is not known here finds nothing. If the value is an option's, the option is listed
    as unread. If it is a variable's, and the deployment fails the check with the variable unset, the release may refuse
    the deployment.
    """
    checks = checks_of(values.release, values.platform)
    by_option = checks.by_option
    of_options = [by_option[option] for option in values.given if option in by_option]
    unread: set[str] = set()
    always = checks.of_known_type if has_known_type(values.configuration) else checks.always
    found, undecided = _holding(chain(always, *of_options), values.key, unread)
    out_of_bounds = values.out_of_bounds(unread)
    if not (found or undecided or unread or out_of_bounds):
        return NO_FINDINGS
    refusing = [each for each in undecided if not each[0].is_warning]
    unsure, _ = _holding(refusing, values.key_if_unset, unread)
    failed = [check for check in found if not check.is_warning][:MAX_REFUSALS]
    warned = [check for check in found if check.is_warning][:MAX_REFUSALS]
    refused = [_text(check, values) for check in failed if check.is_certain]
    return Findings(
        [*refused, *(message for _, message in out_of_bounds)][:MAX_REFUSALS],
        [_text(check, values) for check in (*(each for each in failed if not each.is_certain), *unsure)][:MAX_REFUSALS],
        [_text(check, values) for check in warned],
        frozenset(unread),
        frozenset(check.at.partition(".")[0] for check in failed) | {option for option, _ in out_of_bounds},
    )


def _holding(
    checks: Iterable[CompiledCheck], key: Callable[[str], Any], unread: set[str]
) -> tuple[list[Check], list[CompiledCheck]]:
    """The checks whose condition holds, and those that need a variable that is not known.

    A condition does not hold if another value that it needs is not known; an option is added to ``unread``.
    """
    scope = Scope(EMPTY, key, EMPTY)
    found: list[Check] = []
    undecided: list[CompiledCheck] = []
    for each in checks:
        check, parts = each
        scope.iterations = 0
        try:
            for part in parts:
                if not part(scope, None):
                    break
            else:
                found.append(check)
        except UnknownVariable:
            undecided.append(each)
        except UnknownArgument as error:
            if not check.is_warning:
                unread.update(error.args)
        except UNKNOWN_VALUE_ERRORS:
            continue
    return found, undecided


def _text(check: Check, values: LaunchValues) -> str:
    place = values.place(check.at) if check.at else ""
    says, do = fill(check.says, values.key), fill(check.do, values.key)
    return f'"{says}"{f" ({place})" if place else ""}; {do}'


def fill(text: str, key: Callable[[str], Any]) -> str:
    """A message with its values filled in."""
    message: Message = message_of(text)
    shown = [_shown(formula, key) for formula in message.formulas]
    return message.parts[0] + "".join(value + part for value, part in zip(shown, message.parts[1:], strict=True))


def _shown(formula: Any, key: Callable[[str], Any]) -> str:
    try:
        found = compute(formula, key)
        text = ", ".join(masked(str(item)) for item in found) if isinstance(found, list | tuple) else masked(str(found))
    except (Incomputable, ValueError):  # not known, or a number that is too long to show
        return "…"
    most = MAX_LIST if isinstance(found, list | tuple) else MAX_QUOTED
    return text if len(text) <= most else f"{text[:most]}…"
