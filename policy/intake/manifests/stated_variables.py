"""The variables of an engine under construction, with the secrets that any of them had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from policy.secret_names import is_secret
from policy.stated_secrets import stated_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping


class StatedVariables(dict[str, str | None]):
    """The variables by their names; None if a value is not known.

    ``secrets`` has every value that a variable with a secret's name had, even if it was replaced or removed since: a
    command may have used it, and messages repeat what commands use. ``assumed`` has the values of unknown variables as
    the pod's template states them; only secrets are searched for in them.
    """

    __slots__ = ("assumed", "secrets")

    def __init__(self) -> None:
        self.assumed: dict[str, str | None] = {}
        self.secrets: set[str] = set()

    def __setitem__(self, name: str, value: str | None) -> None:
        if value and is_secret(name):
            self.secrets.add(value)
        super().__setitem__(name, value)

    def update(self, variables: Mapping[str, str | None]) -> None:  # type: ignore[override]  # the one form that is used
        """Set several variables; with those of another engine, add the secrets that they had."""
        if type(variables) is StatedVariables:
            self.secrets |= variables.secrets
        elif variables:
            self.secrets.update(stated_secrets(variables))
        super().update(variables)

    def replace(self, variables: Mapping[str, str | None]) -> None:
        """Set these variables, which are not this object, and remove all others."""
        self.clear()
        self.update(variables)

    def __ior__(self, variables: Mapping[str, str | None]) -> Self:  # type: ignore[override,misc]  # as above
        self.update(variables)
        return self
