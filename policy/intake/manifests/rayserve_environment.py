"""Ray's runtime environment of an engine: its variables, its image, and the vLLM installed in it.

Read at Ray's main branch, 2026. The command of a job has one. For Ray Serve, Ray merges three environments field by
field, and a later one replaces the whole field: the application's, that of ``deployment_config.ray_actor_options``, and
the LLM config's. An entry of the application's ``deployments`` for the engine replaces the last two. The application's
variables are merged with those of the others, which take precedence. A field may make another vLLM run unless it is
known not to affect packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.installation import installed_vllm
from policy.intake.command.programs import LLM_BUILDERS
from policy.intake.command.replaced_triton import replaced_triton
from policy.intake.command.requirement import requirement_words
from policy.intake.command_line import Installation
from policy.intake.manifests import images
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.intake.manifests.reading import ManifestNode
    from policy.rules.images import ImageTable

VARIABLES: Final = "env_vars"
INSTALLERS: Final = {
    "pip": (["pip", "install"], "pip_install_options"),
    "uv": (["uv", "pip", "install", "--system"], "uv_pip_install_options"),
}
"""The fields that install packages, each with what installs them, and its nested field for further options."""
HARMLESS_FIELDS: Final = frozenset({VARIABLES, *INSTALLERS, "image_uri", "container", "config", "excludes", "nsight"})
"""The fields that are handled here, or that do not affect which packages an engine imports."""


class RuntimeEnvironment(Struct, frozen=True):
    """The environment that Ray sets up for an engine before it starts.

    A variable with an unknown value is None. ``image`` is None if the engine runs in the cluster's containers.
    ``installed`` has the installations that may replace the image's vLLM, uncertain ones last.
    ``doubts`` says why its packages may change vLLM's decision.
    """

    variables: dict[str, str | None]
    image: str | None
    installed: list[Installation]
    doubts: list[str]


NO_ENVIRONMENT: Final = RuntimeEnvironment({}, None, [], [])


def read_runtime_environment(application: ManifestNode, config: ManifestNode) -> RuntimeEnvironment:
    """The environment of the engine of an LLM config in a Serve application."""
    outer = _fields(application.get("runtime_env"))
    inner = _fields(config.get("deployment_config", "ray_actor_options", "runtime_env"))
    inner |= _fields(config.get("runtime_env"))
    for deployment in application.get("deployments").items():
        if _is_of(deployment, config) and deployment.get("ray_actor_options").is_object():
            inner = _fields(deployment.get("ray_actor_options", "runtime_env"))
    import_path = application.get("import_path").text()
    return _merged(outer, inner, _uncertain_application(import_path), config.reader.images)


def read_job_environment(environment: ManifestNode) -> RuntimeEnvironment:
    """The environment of the command of a job."""
    return _merged({}, _fields(environment), (), environment.reader.images)


def _merged(
    outer: dict[str, ManifestNode],
    inner: dict[str, ManifestNode],
    uncertain: Iterable[Installation],
    table: ImageTable,
) -> RuntimeEnvironment:
    variables = {
        name: _value(value)
        for fields in (outer, inner)
        if VARIABLES in fields
        for name, value in fields[VARIABLES].fields()
    }
    merged = {name: field for name, field in {**outer, **inner}.items() if field.value is not None}
    image = _image(merged)
    commands = [*_installing(merged)]
    found = [installed for words in commands if (installed := installed_vllm(words)) is not None]
    found += [*uncertain, *_uncertain(merged, image, table)]
    doubts = [doubt for words in commands for doubt in replaced_triton(words)]
    return RuntimeEnvironment(variables, image, sorted(found, key=lambda each: each.version is None), doubts)


def _fields(environment: ManifestNode) -> dict[str, ManifestNode]:
    return dict(environment.fields())


def _is_of(deployment: ManifestNode, config: ManifestNode) -> bool:
    """Whether an entry of ``deployments`` has Ray's name for the deployment of an LLM config."""
    name = deployment.get("name").text()
    own = config.get("deployment_config", "name").text()
    if own is None:
        own = (config.get("model_loading_config", "model_id").text() or "").replace("/", "--").replace(".", "_")
    return name is not None and name.rpartition(":")[2] == own


def _value(variable: ManifestNode) -> str | None:
    """The value of a variable; None if it refers to variables of the node."""
    value = variable.text()
    return None if value is None or "$" in value else value


def _image(fields: dict[str, ManifestNode]) -> str | None:
    if "image_uri" in fields:
        return fields["image_uri"].text()
    return fields["container"].get("image").text() if "container" in fields else None


def _installing(fields: dict[str, ManifestNode]) -> Iterator[list[str]]:
    """The commands that install the packages of an environment."""
    for name, (installer, options) in INSTALLERS.items():
        if name not in fields:
            continue
        packages = fields[name]
        words = installer.copy()
        if isinstance(packages.value, dict):
            words += [item.text() or "" for item in packages.get(options).items()]
            packages = packages.get("packages")
        if isinstance(packages.value, str):  # the path of a requirements file
            words += ["-r", packages.value]
        else:
            words += [word for item in packages.items() for word in requirement_words(item.text() or "")]
        yield words


def _uncertain_application(import_path: str | None) -> Iterator[Installation]:
    if import_path is not None and LLM_BUILDERS.fullmatch(import_path) is None:
        cause = f"the application {quoted(import_path)} is not one of Ray Serve LLM and may run another vLLM"
        yield Installation(None, cause)


def _uncertain(fields: dict[str, ManifestNode], image: str | None, table: ImageTable) -> Iterator[Installation]:
    for name in fields:
        if name not in HARMLESS_FIELDS:
            yield Installation(None, f"{quoted(f'runtime_env.{name}')} may make another vLLM run")
    if image is not None and images.version_of(image, table).version is None:
        yield Installation(None, f"`runtime_env` starts the image {quoted(image)}, whose vLLM is not known")
