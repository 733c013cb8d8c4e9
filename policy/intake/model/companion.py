"""Read a JSON file beside a model's ``config.json`` from the files of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.errors import PolicyError
from policy.parser.jsontext import NotJson, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping


class CompanionInvalid(PolicyError):
    """A file beside a model's configuration is not as vLLM needs it; ``path`` is its key in the files."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def read_companion(path: str, files: Mapping[str, str]) -> Any:
    """The content of a file; None if it is not given.

    Raises:
        CompanionInvalid: it is not valid JSON.
    """
    if path not in files:
        return None
    try:
        return read_json(files[path].encode())
    except NotJson as error:
        raise CompanionInvalid(path, str(error)) from error
