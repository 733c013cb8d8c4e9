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

    def __init__(self, named: Mapping[str, Path], *, hub: bool, folder: Path | None = None) -> None:
        """``named`` maps a model's name to the file or folder of its configuration.

        ``folder`` has a file ``NAME.json`` or a folder ``NAME`` for each of several models.

        Raises:
            HubMisconfigured: the hub's address is invalid.
        """
        self._named = named
        self._folder = folder
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
        """A warning about files of flags that were not looked up, if anything was."""
        return self.use.warnings(self._named, "--model-config")

    def _find(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        place = self._named.get(name, Path(name))
        try:
            if name not in self._named and (stored := self._stored(name)) is not None:
                place = stored
                self._refuse_links(place)
                return read_folder(place) if place.is_dir() else (read_config(read_file(place)), {})
            if place.is_dir():
                return read_folder(place)
            if name in self._named:
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

    def _refuse_links(self, place: Path) -> None:
        """Refuse a link below the folder of models that leads out of it, as a checkout may have any.

        Raises:
            FileInvalid: the file, the folder or one of its files is such a link.
        """
        if self._folder is None:
            return
        root = self._folder.resolve()
        files = [place / name for name in (CONFIG, *COMPANIONS)] if place.is_dir() else []
        for file in (place, *files):
            try:
                is_within = not file.exists() or file.resolve().is_relative_to(root)
            except (OSError, RuntimeError):
                is_within = False
            if not is_within:
                shown = "" if file == place else f" (`{file.relative_to(place)}`)"
                raise FileInvalid(
                    f"is a link{shown} that leads out of the folder of models; copy the file, or use `--model-config`"
                )

    def _from_hub(self, hub: Hub, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        try:
            found = hub.config(name, None, COMPANIONS)
        except HubFailed as error:
            raise _needed(name, str(error)) from error
        return found.config, found.files


def _hub() -> Hub:
    from policy.intake.model.hub import Hub  # noqa: PLC0415  # its library is imported only if the hub is used

    return Hub(HUB_SECONDS)


def _needed(name: str, *messages: str) -> RequestInvalid:
    return RequestInvalid(
        [RequestFault("", f"the model {quoted(name)}: {message}") for message in messages], MODEL_CONFIG_NEEDED
    )
