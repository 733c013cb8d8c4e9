"""Arguments that vLLM's own parser refuses, told apart from those that cannot be read here.

The facts of such a deployment are not known, so that it has no decision; but it is known that vLLM would not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.errors import RequestInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.errors import RequestFault
    from policy.intake.command_line import Installation

REFUSED: Final = "vLLM {} refuses its arguments ({}): {}"


class ArgumentsRefused(RequestInvalid):
    """Arguments of which a release's parser refuses at least one, and of which none is unknown here.

    ``installation`` is the vLLM that runs instead of the image's, if any.
    """

    def __init__(self, faults: Iterable[RequestFault], release: str, installation: Installation | None) -> None:
        super().__init__(faults)
        self.release, self.installation = release, installation

    @property
    def launch_errors(self) -> list[str]:
        """Why vLLM exits, an error for each argument."""
        return [REFUSED.format(self.release, fault.refused_at, fault.message) for fault in self.faults]
