"""Arguments that vLLM's own parser refuses, told apart from those that cannot be read here.

The facts of such a deployment are not known, so that it has no decision; but it is known that vLLM would not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.errors import RequestInvalid
from policy.intake.command.unknown_flags import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.errors import RequestFault
    from policy.intake.command_line import Installation, UnknownFlag
    from policy.secret_values import SecretValues

REFUSAL: Final = "vLLM {} refuses its arguments ({}): {}"


class ArgumentsRefused(RequestInvalid):
    """A release's parser refuses at least one of the arguments, and none of them is unknown here.

    ``installation`` is the vLLM that runs instead of the image's, if any; ``unknown_flags`` are those that the release
    does not have.
    """

    def __init__(
        self,
        faults: Iterable[RequestFault],
        release: str,
        installation: Installation | None,
        unknown_flags: Iterable[UnknownFlag],
    ) -> None:
        super().__init__(faults)
        self.release, self.installation, self.unknown_flags = release, installation, tuple(unknown_flags)

    def hide(self, values: SecretValues) -> None:
        """Hide the values in each fault, and drop the flags that contain one."""
        super().hide(values)
        self.unknown_flags = tuple(without_secrets(self.unknown_flags, values))

    @property
    def launch_errors(self) -> list[str]:
        """Why vLLM exits, an error for each argument."""
        return [
            REFUSAL.format(self.release, fault.refused.place, fault.message)
            for fault in self.faults
            if fault.refused is not None
        ]
