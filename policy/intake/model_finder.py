"""Find the models that a deployment does not include, for the command line only.

Looks in the files that flags name, then in a folder of models, then in a local folder, then on the hub.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from policy.errors import RequestFault, RequestInvalid
from policy.intake.model.files import (
    COMPANIONS,
    CONFIG,
    FileInvalid,
    FolderInvalid,
    read_config,
    read_file,
    read_folder,
)
from policy.intake.model.hub_errors import HubFailed
from policy.intake.model_lookup import MODEL_CONFIG_NEEDED
from policy.intake.unused_models import ModelUse
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.model.hub import Hub

HUB_SECONDS: Final = 10.0


class ModelFinder:
    """Finds models and caches them."""

    def __init__(
        self, named: Mapping[str, Path], *, hub: bool, folder: Path | None = None, within: Path | None = None
    ) -> None:
        """``named`` maps a model's name to the file or folder of its configuration.

        ``folder`` has a file ``NAME.json`` or a folder ``NAME`` for each of several models. A model whose name is the
        path of a local folder must be ``within`` a folder, if one is given, and so must its files.

        Raises:
            HubMisconfigured: the hub's address is invalid.
        """
        self.named = named
        self._folder = folder
        self._within = None if within is None else within.resolve()
        self.use = ModelUse()
        """The models that were looked up."""
        self._hub = _hub() if hub else None
        self._found: dict[str, tuple[Mapping[str, Any], Mapping[str, str]] | None] = {}

    def find(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        """A model's ``config.json`` and its other files; ``None`` if it is not found.

        Raises:
            RequestInvalid: it cannot be read or fetched; the kind is ``model-config-needed``.
        """
        self.use.add({name: name})
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def warnings(self) -> list[str]:
        """A warning about files of ``--model-config`` that no lookup used, if there was any lookup."""
        return self.use.warnings(self.named, "--model-config")

    def _find(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        place = self.named.get(name, Path(name))
        try:
            if name not in self.named and (stored := self._stored(name)) is not None:
                place = stored
                _refuse_links(place, None if self._folder is None else self._folder.resolve(), "the folder of models")
                return read_folder(place) if place.is_dir() else (read_config(read_file(place)), {})
            is_named = name in self.named
            if (is_named or self._within is None or _is_within(place, self._within)) and place.is_dir():
                if not is_named:
                    _refuse_links(place, self._within, "the folder in which the command runs")
                return read_folder(place)
            if is_named:
                config = read_config(read_file(place))
                return read_folder(place.parent) if place.name == CONFIG else (config, {})
            if self._hub is not None:
                return self._from_hub(self._hub, name)
        except FolderInvalid as error:
            raise _needed(name, *error.faults) from error
        except FileInvalid as error:
            raise _needed(name, f"`{place}` {error}") from error
        except OSError as error:
            raise _needed(name, f"`{place}` cannot be read: {error.strerror}") from error
        return None

    def _stored(self, name: str) -> Path | None:
        """The file or folder of a model in the folder of models; a name cannot lead out of it."""
        parts = name.split("/")
        if self._folder is None or not {"", ".", ".."}.isdisjoint(parts) or "\0" in name:
            return None
        place = self._folder.joinpath(*parts)
        file = place.with_name(f"{place.name}.json")
        return file if file.is_file() else place if place.is_dir() else None

    def _from_hub(self, hub: Hub, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        try:
            found = hub.config(name, None, COMPANIONS)
        except HubFailed as error:
            raise _needed(name, str(error)) from error
        return found.config, found.files


def _refuse_links(place: Path, root: Path | None, shown_root: str) -> None:
    """Refuse a link that leads out of a folder, because a checkout may have arbitrary links.

    Raises:
        FileInvalid: the file, the folder or one of its files is such a link.
    """
    files = [place / name for name in (CONFIG, *COMPANIONS)] if place.is_dir() else []
    for file in (place, *files):
        if root is not None and not _is_within(file, root):
            shown = "" if file == place else f" (`{file.relative_to(place)}`)"
            raise FileInvalid(
                f"is a link{shown} that leads out of {shown_root}; copy the file, or use `--model-config`"
            )


def _is_within(place: Path, root: Path) -> bool:
    """Whether a file or folder, which may not exist, is in a folder once links are followed."""
    try:
        return place.resolve().is_relative_to(root)
    except (OSError, RuntimeError, ValueError):
        return False


def _hub() -> Hub:
    from policy.intake.model.hub import Hub  # noqa: PLC0415  # its library is imported only if the hub is used

    return Hub(HUB_SECONDS)


def _needed(name: str, *messages: str) -> RequestInvalid:
    return RequestInvalid(
        [RequestFault("", f"the model {quoted(name)}: {message}") for message in messages], MODEL_CONFIG_NEEDED
    )
