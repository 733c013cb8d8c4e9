"""Docker Compose files (the Compose Specification).

Reads a service's ``entrypoint`` and ``command`` as words (``go_shellwords`` splits a text; no shell runs), and
``environment`` as a map or a list. Compose first substitutes variables in every text (``interpolation``). A variable of
the service is unknown if a part of its value is; a word with an unknown part is an ``Unknown``. A service that
``extends`` others has their fields too (``compose_services``). A service with an unknown image is an engine with a
problem if anything shows vLLM, or if its fields are in another file.
"""

from __future__ import annotations

import posixpath
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from policy.intake.command.expansion import ExpansionExhausted
from policy.intake.command.image_words import has_vllm
from policy.intake.command.parse_result import COMPOSE_MARK
from policy.intake.command.programs import VLLM
from policy.intake.command.words import Unknown
from policy.intake.command_line import Container, Installation
from policy.intake.manifests import images
from policy.intake.manifests.compose_hooks import read_service_hooks
from policy.intake.manifests.compose_services import read_service
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.go_shellwords import MAX_COMMAND, split
from policy.intake.manifests.hardware import device_signs, reserved_signs, runtime_signs
from policy.intake.manifests.image_labels import labelled_version
from policy.intake.manifests.interpolation import Interpolation, InterpolationError, interpolate
from policy.intake.manifests.mounts import Mounts, mount_paths
from policy.messages import quoted
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.command_line import HardwareSign
    from policy.intake.manifests.compose_services import ComposeService
    from policy.intake.manifests.reading import ManifestNode

BUILT_IMAGE: Final = Installation(None, "`build` makes its own image, which may have another vLLM")
REMEDY: Final = (
    "write `$NAME`, `${NAME}`, or `${NAME:-default}` and the like with `-`, `?`, `+`, and `$$` for a dollar sign"
)
SEND_CONFIG: Final = "send what Compose makes of all files: `docker compose config | runner-policy decide -`"
LABELS: Final = ("labels", "annotations")
WRITE_ENTRY_POINT: Final = "write `entrypoint: [vllm, serve]` if it does, or another program if it does not"
EXTENDS_PROBLEM: Final = (
    f"`extends` adds fields of a service that is not in this document, which may start vLLM; {SEND_CONFIG}"
)
INCLUDE_PROBLEM: Final = f"`include` adds services of other files, which may start vLLM; {SEND_CONFIG}"
VOLUMES: Final = ("volumes",)
MOUNT_FIELDS: Final = (*VOLUMES, "tmpfs", "configs", "secrets")
"""The fields of a service that mount something in its container; other services can take its volumes."""
MOUNT_FOLDERS: Final = {"configs": "/", "secrets": "/run/secrets/"}
"""The folder of a config or secret without an absolute mount point."""
CONTAINER: Final = "container"
"""The beginning of an item of `volumes_from` that names a container instead of a service."""
FIELDS_WITHOUT_SERVICES: Final = frozenset(
    {"include", "name", "version", "networks", "volumes", "secrets", "configs", "models"}
)
"""The fields of a Compose file without services."""
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**64 - 1
GO_EXPONENTS: Final = (-4, 5)
"""The least and greatest exponent of floats that Go writes without an exponent."""


def is_compose(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of a Compose file: it has services, or only includes them."""
    value = document.value
    if not isinstance(value, dict):
        return False
    include = value.get("include")
    if value.get("services") is None and isinstance(include, list) and include:
        return all(
            isinstance(key, str) and (key in FIELDS_WITHOUT_SERVICES or key.startswith("x-"))
            for key in value.keys() - {"services"}
        )
    return isinstance(value.get("services"), dict)


def read_compose(document: ManifestNode) -> None:
    """Read every service that starts vLLM, or may start it; `include` is an item with a problem if no service does."""
    reader, services = document.reader, document.get("services")
    count = len(reader.containers)
    for name, _ in services.fields():
        service = read_service(services, name)
        if service is None:
            continue
        draft = _draft(service)
        draft.is_named_vllm = _is_named_vllm(service, name, draft.image or "") or name in reader.compose_engines
        if document.get("include").value:
            draft.note("`include` adds services and variables of other files, which are not read here")
        is_engine = draft.starts_vllm()
        if not service.is_complete and _depends_on_extended(service, draft, is_engine=is_engine):
            draft.problem, is_engine = EXTENDS_PROBLEM, True
        if is_engine:
            reader.compose_engines.add(name)
            draft.finish([BUILT_IMAGE] if draft.is_built else [])
    include = document.get("include")
    if include.value and len(reader.containers) == count:
        reader.add(Container(include.path, problem=INCLUDE_PROBLEM), include)


def _draft(service: ComposeService) -> EngineDraft:
    own = service.layers[0]
    draft = EngineDraft(own)
    image = _interpolate(service.nearest("image"), draft)
    draft.image = None if image is None else image.text
    draft.is_built = service.has("build")
    draft.remedy = WRITE_ENTRY_POINT if draft.is_built else SEND_CONFIG
    for name in ("entrypoint", "command"):
        words = service.nearest(name)
        _add_words(draft, words, name if words.parent is own or words.value is None else f"extends.{name}")
    # An empty entry point removes the image's; an absent or null one keeps it.
    draft.has_command = service.nearest("entrypoint").value is not None
    for environment in service.each("environment"):
        _read_environment(environment, draft)
    draft.hardware += _hardware_signs(service)
    draft.label_version = labelled_version(each.value for name in LABELS for each in service.each(name))
    draft.mounts = Mounts.from_paths(path for layer in service.layers for path in _mount_paths(layer, draft))
    _add_mounts_from(service, draft)
    folder = service.nearest("working_dir").value
    draft.folder = _substitute(folder, draft) if isinstance(folder, str) else ""
    draft.has_hidden_variables = service.has("env_file") or not service.is_complete
    if service.has("env_file"):
        draft.note("`env_file` sets variables that the manifest does not show")
    if not service.is_complete:
        draft.note("`extends` adds fields of another service, which is not read here")
    read_service_hooks(service, draft)
    return draft


def _hardware_signs(service: ComposeService) -> Iterator[HardwareSign]:
    """The signs of the hardware that a service asks for, in each of its layers."""
    for layer in service.layers:
        value = layer.value if isinstance(layer.value, dict) else {}
        yield from runtime_signs(value.get("runtime"), "runtime")
        yield from reserved_signs(value.get("gpus"), "gpus")
        reservations: object = value
        for name in ("deploy", "resources", "reservations", "devices"):
            reservations = reservations.get(name) if isinstance(reservations, dict) else None
        yield from reserved_signs(reservations, "deploy.resources.reservations.devices")
        devices = value.get("devices")
        if isinstance(devices, list):
            yield from device_signs(
                (each.get("source") if isinstance(each, dict) else each for each in devices), "devices"
            )


def _is_named_vllm(service: ComposeService, name: str, image: str) -> bool:
    """Whether a service's name, its image's name or its inline Dockerfile names vLLM."""
    builds = (build.value for build in service.each("build"))
    texts = (build.get("dockerfile_inline") for build in builds if isinstance(build, dict))
    return has_vllm(image) or any(isinstance(text, str) and VLLM.search(text) is not None for text in (name, *texts))


def _depends_on_extended(service: ComposeService, draft: EngineDraft, *, is_engine: bool) -> bool:
    """Whether fields of another file decide if a service starts vLLM, or hold the whole command."""
    if is_engine:
        return not any(service.nearest(name).value for name in ("entrypoint", "command"))
    if not (draft.has_unknown_image() or images.names_vllm(draft.image)):
        return False
    try:
        return not draft.starts_other_program()
    except ExpansionExhausted:
        return True


def _add_words(draft: EngineDraft, node: ManifestNode, name: str) -> None:
    if isinstance(node.value, list):
        before = draft.words[-1] if draft.words else ""
        for place, item in enumerate(node.items()):
            word = _interpolate(item, draft, 0 if is_secret(before) else None)
            before = item.value if isinstance(item.value, str) else ""
            if word is not None:
                draft.add_final(f"{name}[{place}]", Unknown(word.text) if word.unknown else word.text)
        return
    if isinstance(node.value, str) and len(node.value) > MAX_COMMAND:
        node.fault(f"expected a command of at most {MAX_COMMAND} characters, got {len(node.value)}")
        return
    text = _interpolate(node, draft)
    if text is None:
        return
    try:
        found = split(text.text, text.unknown)
    except ValueError as error:
        node.fault(f"Compose refuses {quoted(node.value)}: {error}")  # a default may be a secret
        return
    draft.add_final(name, *found.words)
    if found.end is not None:
        ending = quoted(text.text[found.end])
        draft.note(
            f"Compose ends `{name}` at character {found.end + 1}, {ending}, and drops the rest; "
            "put quotes around it if it belongs to a word"
        )


def _read_environment(node: ManifestNode, draft: EngineDraft) -> None:
    """Add a service's variables. One without a value is unknown, because Compose takes it from its own shell."""
    if isinstance(node.value, list):
        for item in node.items():
            _read_assignment(item, draft)
        return
    for name, item in node.fields():
        if isinstance(item.value, str):
            value = _interpolate(item, draft, 0 if is_secret(name) else None)
            draft.env[name] = None if value is None or value.unknown else value.text
        else:
            draft.env[name] = _go_text(item)


def _read_assignment(item: ManifestNode, draft: EngineDraft) -> None:
    """Add the variable of an item ``NAME=value`` or ``NAME``; the name may also contain references."""
    name, equals, _ = item.value.partition("=") if isinstance(item.value, str) else ("", "", "")
    found = _interpolate(item, draft, len(name) + 1 if equals and is_secret(name) else None)
    if found is None:
        return
    name, equals, value = found.text.partition("=")
    if found.unknown and found.unknown[0] < len(name):
        draft.note(f"{quoted(found.text)} sets a variable whose name is not known")
    elif name:
        draft.env[name] = value if equals and not found.unknown else None


def _go_text(node: ManifestNode) -> str | None:
    """The text of a number or boolean in Compose, a Go program; None if the value is null.

    An integer that does not fit 64 bits, signed or unsigned, is a float in Go, unless it is too large for that too.
    """
    value = node.value
    if type(value) is int and not MIN_INTEGER <= value <= MAX_INTEGER and abs(value) <= sys.float_info.max:
        value = float(value)
    return _go_float(value) if isinstance(value, float) else node.scalar()


def _go_float(value: float) -> str:
    """A float as Go's ``%v`` formats it: with an exponent if that is outside ``GO_EXPONENTS``, and without ``.0``."""
    decimal = Decimal(repr(value))
    exponent = decimal.adjusted()
    if GO_EXPONENTS[0] <= exponent <= GO_EXPONENTS[1]:
        return repr(value).removesuffix(".0")
    digits = f"{decimal.normalize():e}".partition("e")[0]
    return f"{digits}e{exponent:+03d}"


def _mount_paths(service: ManifestNode, draft: EngineDraft, fields: tuple[str, ...] = MOUNT_FIELDS) -> list[str]:
    """The mount points of volumes, configs, secrets and `tmpfs` in the container, and the targets of `watch`."""
    paths: list[str] = []
    for name in fields:
        value = service.get(name).value
        mounts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        short = [_substitute(mount, draft) for mount in mounts if isinstance(mount, str)]
        folder = MOUNT_FOLDERS.get(name, "")
        paths += [folder + mount if folder else _target(mount) for mount in short]
        targets = [_substitute(path, draft) for path in mount_paths(mounts, "target")]
        paths += [path if _is_unknown(path) else _with_type(path, posixpath.join(folder, path)) for path in targets]
    if fields == MOUNT_FIELDS:
        paths += [_substitute(path, draft) for path in mount_paths(_watched(service), "target")]
    return [path for path in paths if path.startswith("/") or _is_unknown(path)]


def _is_unknown(path: str) -> bool:
    """Whether the beginning of a path is not known, so that it may be absolute."""
    return type(path) is Unknown and path.startswith("$")


def _with_type(text: str, made: str) -> str:
    """What was ``made`` from a text, as an `Unknown` if the text is one."""
    return Unknown(made) if type(text) is Unknown else made


def _watched(service: ManifestNode) -> object:
    """The files that `docker compose watch` copies into the container, or whose changes rebuild the image."""
    develop = service.get("develop").value
    return develop.get("watch") if isinstance(develop, dict) else None


def _add_mounts_from(service: ComposeService, draft: EngineDraft) -> None:
    """Add the mounts of the services in `volumes_from`, and of the services in theirs.

    An item whose mounts this document does not show, such as a container, is noted as hidden.
    """
    services, parts = draft.node.parent, [draft.mounts]
    pending, seen = [service], {draft.node.key}
    while pending:
        for item in [item for node in pending.pop().each("volumes_from") for item in _items(node)]:
            source = _substitute(item, draft)
            kind, separator, _ = source.partition(":")
            name = kind if kind != CONTAINER or not separator else ""
            if name in seen:
                continue
            other = None if services is None or not name else read_service(services, name)
            if other is None or not draft.node.reader.may_copy_values(
                draft.node, *(layer.value for layer in other.layers)
            ):
                parts[-1].hidden_source = parts[-1].hidden_source or item
                continue
            seen.add(name)
            paths = [path for layer in other.layers for path in _mount_paths(layer, draft, VOLUMES)]
            parts.append(Mounts.from_paths(paths))
            if not other.is_complete:
                parts[-1].hidden_source = parts[-1].hidden_source or item
            pending.append(other)
    draft.mounts = Mounts.union(parts)


def _items(node: ManifestNode) -> list[str]:
    """The strings of a list."""
    value = node.value
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _target(mount: str) -> str:
    """The mount point of a mount in the short form: `SOURCE:TARGET:MODE`, or `TARGET` alone."""
    source, *others = (_with_type(mount, part) for part in mount.split(":"))
    return next((part for part in others if part.startswith("/") or _is_unknown(part)), source)


def _substitute(text: str, draft: EngineDraft) -> str:
    """A text with its variables substituted, without notes; as written if Compose rejects it.

    It is an `Unknown` with its references if a value is not known.
    """
    try:
        found = interpolate(text)
    except InterpolationError:
        return text
    draft.secrets |= found.secrets
    return Unknown(found.text.replace(COMPOSE_MARK, "}")) if found.unknown else found.text


def _interpolate(node: ManifestNode, draft: EngineDraft, secret_from: int | None = None) -> Interpolation | None:
    """A text with its variables substituted; None if it is null. An invalid reference is a fault.

    The text is a secret from the position ``secret_from`` on, unless that is None.
    """
    text = node.text()
    if text is None:
        return None
    try:
        found = interpolate(text, secret_from)
    except InterpolationError as error:
        node.fault(f"{error}; {REMEDY}")
        return None
    draft.secrets |= found.secrets
    for name, assumption in found.assumptions:
        draft.note(f"{quoted(f'${{{name}}}')} {assumption}")
        if not draft.accepts_notes():
            break
    return found
