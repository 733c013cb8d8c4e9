"""Look up the models that a deployment names: the given configurations, those that are found, and the missing ones."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policy.errors import RemedyKind, RequestFault, RequestInvalid
from policy.intake.model.hub_folder import hub_name
from policy.intake.model.pooling import is_named_like_embedding
from policy.intake.model.quantization import is_named_like_quantized
from policy.masking import masked
from policy.messages import quoted
from policy.pointer import at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.deployment import Deployment
    from policy.secret_values import SecretValues

MODEL_CONFIG_NEEDED: Final = "model-config-needed"
MAX_NAME: Final = 1024
MAX_SHOWN: Final = 8
"""The most given models that a message lists."""
Find: TypeAlias = "Callable[[str], tuple[Mapping[str, Any], Mapping[str, str]] | None]"
"""Returns a model's ``config.json`` and its other files by name, or ``None`` if it is not found."""


def no_models(_: str) -> None:
    """Find no models."""


class ModelConfigNeeded(RequestInvalid):
    """The ``config.json`` of some models is missing; ``names`` are the models."""

    def __init__(self, names: list[str], faults: list[RequestFault]) -> None:
        self.names = names
        super().__init__(faults, MODEL_CONFIG_NEEDED)

    def hide(self, values: SecretValues) -> None:
        """Hide the values even where a message lists the names."""
        super().hide(values)
        if values:
            self.names = list(map(values.named, self.names))


class ModelLookup:
    """The given and found configurations of models, and the names of missing ones."""

    def __init__(self, deployment: Deployment, find: Find, pointer: str) -> None:
        self.files: Mapping[str, str] = deployment.files
        self._deployment, self._pointer = deployment, pointer
        self._configs = deployment.model_configs
        self._names = deployment.names
        self._find = find
        self._found: dict[str, Mapping[str, Any]] = {}
        self.found: dict[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {}
        self.own_names: dict[str, str] = {}
        """The own names of the models that were looked up, by their names in the arguments."""
        self.configs: dict[str, Mapping[str, Any]] = {}
        """The configurations that were read, by the models' names in the arguments."""
        self._missing: list[str] = []

    def config(self, name: str) -> Mapping[str, Any]:
        """Return a model's configuration; if it is missing, record its name and return an empty one.

        Raises:
            RequestInvalid: the name is too long. The origin of every fact repeats it.
        """
        if len(name) > MAX_NAME:
            raise RequestInvalid(
                [
                    RequestFault(
                        self._pointer,
                        f"the model {quoted(name)} has a name of {len(name)} characters; at most {MAX_NAME} are legal",
                    )
                ]
            )
        found = self.find_config(name)
        if found is None:
            name = self._own_name(name)
            if name not in self._missing:
                self._missing.append(name)
            return {}
        return found

    def find_config(self, name: str) -> Mapping[str, Any] | None:
        """Record that the model is used, and return its configuration, or ``None`` if it is missing."""
        name = name.rstrip("/")
        found = self._known(name, self.record(name))
        if found is not None:
            self.configs[name] = found
        return found

    def _known(self, name: str, own: str) -> Mapping[str, Any] | None:
        if name in self._configs:
            return self._configs[name]
        for known in (self._configs, self._found):
            for each in (name, own):
                if each in known:
                    return known[each]
        found = self._find(own)
        if found is None and own != name and name not in self._names:
            found = self._find(name)
        if found is None:
            return None
        self.found[own] = found
        self._found[own], files = found
        self.files = {**self.files, **{f"{name}/{file}": text for file, text in files.items()}}
        return self._found[own]

    def record(self, name: str) -> str:
        """Record that the model is used, and return its own name."""
        own = self.own_names[name] = self._own_name(name)
        return own

    def _own_name(self, name: str) -> str:
        """The name of a model that is mounted at a path, or is in the hub's cache there; otherwise the given one."""
        return self.own_names.get(name) or self._names.get(name) or hub_name(name) or name

    def has_known(self, file: str, name: str) -> bool:
        """Whether it is known if a model has a file."""
        return self._own_name(name) in self.found or f"{name}/{file}" in self.files

    def is_named_like_embedding(self, name: str) -> bool:
        """Whether a model is named like an embedding model."""
        return is_named_like_embedding(self._own_name(name))

    def is_named_like_quantized(self, name: str) -> bool:
        """Whether a model is named like a quantized checkpoint."""
        return is_named_like_quantized(self._own_name(name))

    def check(self) -> None:
        """Check that no configuration is missing.

        Raises:
            ModelConfigNeeded: configurations are missing.
        """
        if self._missing:
            raise ModelConfigNeeded(self._missing, [self._needed(name) for name in self._missing])

    def _needed(self, name: str) -> RequestFault:
        message = f"the config.json of {quoted(name, MAX_NAME)} is needed, under the name that the arguments give it"
        remedy = RemedyKind.MODEL_CONFIG
        if self._deployment.models_at is None:
            remedy = RemedyKind.MODEL_CONFIG_OF_MANIFEST
        elif self._configs:
            more = f" and {len(self._configs) - MAX_SHOWN} more" if len(self._configs) > MAX_SHOWN else ""
            message += f"; given: {', '.join(map(quoted, islice(self._configs, MAX_SHOWN)))}{more}"
        return RequestFault(pointer_of_model(name, self._deployment, self._pointer), message, remedy)


def pointer_of_model(name: str, deployment: Deployment, pointer: str) -> str:
    """The JSON pointer of a model's configuration, or of the deployment if it cannot have any.

    A name that contains a password is left out.
    """
    if deployment.models_at is None:
        return pointer
    return at(deployment.models_at, name) if masked(name) == name else deployment.models_at
