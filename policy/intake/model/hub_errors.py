"""The results and errors of a fetch from the hub; imports nothing from huggingface_hub."""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from policy.errors import PolicyError


class ModelFiles(Struct, frozen=True):
    """A model's files on the hub. All callers share the object, so it must not be modified.

    ``files`` has the texts of the requested companions that exist, by name. ``unknown`` names the companions that the
    cache has no record of. ``commit`` is the revision of all files. ``cached``: whether the files are from the cache,
    because the hub was not asked or did not answer. ``size`` is the number of bytes read, and ``values`` that of
    the keys and values in ``config``, or more.
    """

    config: dict[str, Any]
    files: dict[str, str]
    commit: str
    unknown: tuple[str, ...] = ()
    cached: bool = False
    size: int = 0
    values: int = 0


class HubFailed(PolicyError):
    """The hub has no usable `config.json`. The message says why and what to do, and never contains a token."""


class HubNameInvalid(HubFailed):
    """The repository name or the revision is invalid."""


class HubNotFound(HubFailed):
    """The hub has no such repository, revision or file."""


class HubDenied(HubFailed):
    """The hub denies access: it needs a token, or the token's account has no access."""


class HubOffline(HubFailed):
    """The hub must not be asked, and its cache does not have the model."""


class HubUnreachable(HubFailed):
    """The hub cannot be reached or does not work, and its cache does not have the model."""


class HubTimeout(HubFailed):
    """The hub did not answer in time, and its cache does not have the model."""


class HubBusy(HubFailed):
    """Too many models are being fetched, and no fetch finished in time."""


class HubTooLarge(HubFailed):
    """A file of the model is larger than the limit, or has more keys and values."""


class HubUnreadable(HubFailed):
    """The hub's `config.json`, or a file beside it, cannot be read."""


class HubMisconfigured(PolicyError):
    """The hub's address is invalid."""


HubQuery: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A repository's name, a revision, and the names of the requested companions."""
Outcome: TypeAlias = "ModelFiles | HubFailed"


class ModelSource(Struct, frozen=True):
    """The hub from which models are fetched.

    ``endpoint`` has no trailing slash. ``cache`` is the cache folder; ``None`` means huggingface_hub's default.
    """

    endpoint: str
    offline: bool
    cache: str | None = None

    def __str__(self) -> str:
        """The hub's address without user and password, for messages."""
        parts = urlsplit(self.endpoint)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
