"""The values that the kubelet puts in place of `$(NAME)` in the command of a probe: those that its container states.

It uses them as they are written, without expanding references in them, and an empty value for a variable with
``valueFrom``. Variables of other sources do not count: `envFrom`, the image, and Kubernetes' own for Services.
`ExpandContainerCommandOnlyStatic` of
https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/kubelet/container/helpers.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.intake.command.expansion import ExpansionBudget
from policy.intake.command.kubernetes_references import expand_references

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def static_values(
    lists: Iterable[object], added_variables: Iterable[str], replaced_variables: Iterable[str]
) -> dict[str, str | None]:
    """The value of each variable in ``lists``, in which the last one with a name counts; None if it is not known.

    It is not known if the controller sets it: in ``added_variables`` and no list, or in ``replaced_variables``.
    """
    values: dict[str, str | None] = dict.fromkeys(added_variables)
    for items in lists:
        values |= {item["name"]: _value(item) for item in items if _is_named(item)} if isinstance(items, list) else {}
    return {**values, **dict.fromkeys(replaced_variables)}


def expand_static(words: Sequence[str], values: Mapping[str, str | None]) -> list[str]:
    """The words of a probe's command as its container gets them.

    Raises:
        ShellSyntaxError: the values have too many characters.
    """
    budget = ExpansionBudget()
    return [expand_references(word, values, budget, is_complete=True) for word in words]


def _is_named(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _value(item: dict[str, object]) -> str | None:
    value = item.get("value")
    if value is None:
        return ""
    return value if isinstance(value, str) else None
