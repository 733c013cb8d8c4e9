"""The fields by which a controller, a chart or a tool changes a container, and which are not read.

An object of these has fields for the image, the command, the arguments, the variables and the mounts of its containers,
and its next release has further ones. ``KNOWN`` has those that are read or change nothing, by the object in which they
stand. Any other field that is set there, and has the name of one that changes a container (``CHANGING``), makes its
engines doubtful: a chart or a controller may give vLLM something else than what is read.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from policy.messages import enumerated, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.intake.manifests.reading import ManifestNode

MAX_SHOWN: Final = 3
MAX_DOUBTS: Final = 8
CHANGING: Final = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=[a-z0-9])(?=[A-Z]))(?i:command|entry_?point|args|argument|flag|env(?!oy)|image|volume"
    r"|mount|pvc|storage|init(?!ial)|setup|patch|overrid|plugin|extra|config|checkpoint|adapter|lora|weight|package"
    r"|memory_?service|failover|experimental)|^load$"
)
"""Matches the name of a field that may change a container: a word of it is one of these, or begins with it."""
CONTAINER: Final = frozenset(
    {"command", "args", "env", "envFrom", "image", "imagePullPolicy", "volumeMounts", "volumeDevices"}
)
"""The fields of a container of Kubernetes."""
POD: Final = frozenset({"initContainers", "volumes", "imagePullSecrets", "dnsConfig"})
"""The fields of a pod's specification, which `pods` reads."""

DYNAMO_GRAPH: Final = frozenset({"env", "envs", "pvcs"})
DYNAMO_SERVICE: Final = frozenset(
    {"envs", "envFromSecret", "volumeMounts", "pvc", "extraPodSpec", "extraPodMetadata", "eppConfig", "scalingAdapter"}
)
KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "Dynamo graph": DYNAMO_GRAPH,
    "Dynamo service": DYNAMO_SERVICE,
    "Dynamo component by itself": DYNAMO_GRAPH | DYNAMO_SERVICE,
    "KServe component": POD | {"storageUris"},
    "KServe model": CONTAINER | {"storage", "storageUri"},
    "KServe LLM": frozenset({"storageInitializer"}),
    "KServe LLM model": frozenset({"lora"}),
    "KubeAI model": frozenset({"image", "args", "env", "envFrom", "adapters"}),
    "KAITO inference": frozenset({"config", "adapters"}),
    "KAITO preset": frozenset(),
    "KAITO preset options": frozenset({"imagePullSecrets"}),
    "KAITO role": frozenset({"runtimeConfig"}),
    "Kthena backend": frozenset({"env", "envFrom"}),
    "Kthena worker": frozenset({"image", "config"}),
    "Kthena serving": frozenset(),
    "Kthena role": frozenset(),
    "llmaz backend": frozenset({"args", "envs", "configName"}),
    "llmaz runtime": frozenset({"command", "image", "envs", "recommendedConfigs"}),
    "llmaz arguments": frozenset({"args"}),
    "OME part": POD | {"kedaConfig"},
    "OME model": frozenset(),
    "Ray cluster": frozenset(),
    "Ray group": frozenset(),
    "Ray Serve LLM": frozenset(
        {
            *("model_loading_config", "deployment_config", "placement_group_config", "runtime_env", "lora_config"),
            "experimental_configs",
        }
    ),
    "VLLMRuntime": frozenset({"vllmConfig", "lmCacheConfig", "storageConfig", "deploymentConfig"}),
    "VLLMRuntime model": frozenset({"enableLoRA"}),
    "VLLMRuntime engine": frozenset({"extraArgs", "env", "maxLoras"}),
    "VLLMRuntime cache": frozenset(),
    "VLLMRuntime deployment": frozenset({"image", "sidecarConfig"}),
    "production-stack engines": frozenset({"env", "configs", "extraPorts"}),
    "production-stack engine": frozenset(
        {
            *("env", "envFromSecret", "vllmConfig", "lmcacheConfig", "enableLoRA", "extraVolumes", "extraVolumeMounts"),
            *("pvcStorage", "pvcAccessMode", "pvcMatchLabels", "pvcLabels", "pvcAnnotations", "storageClass"),
            *("initContainer", "imagePullPolicy", "imagePullSecret", "chatTemplateConfigMap", "extraPorts"),
        }
    ),
    "llm-d role": POD | {"extraConfig"},
    "llm-d container": CONTAINER | {"modelCommand", "mountModelVolume"},
    "llm-d-benchmark role": CONTAINER | POD | {"extraEnvVars", "ephemeralStorage"},
    "llm-d-benchmark common": frozenset({"flags", "volumes", "volumeMounts", "ephemeralStorage"}),
    "SkyPilot task": frozenset({"envs", "setup", "file_mounts", "volumes"}),
    "SkyPilot resources": frozenset({"image_id", "accelerator_args", "_docker_login_config"}),
    "SkyPilot choice": frozenset({"accelerator_args"}),
    "dstack run": frozenset({"image", "entrypoint", "commands", "env", "volumes"}),
    "Truss": frozenset(
        {
            *("base_image", "build_commands", "environment_variables", "weights", "system_packages"),
            *("bundled_packages_dir", "apply_library_patches"),
        }
    ),
    "Truss server": frozenset({"start_command"}),
    "Nomad task": frozenset({"Config", "Env", "VolumeMounts", "LogConfig", "CSIPluginConfig"}),
    "Nomad driver": frozenset(
        {
            *("image", "entrypoint", "command", "args", "volumes", "mounts", "mount", "volume_driver"),
            *("init", "storage_opt", "extra_hosts", "image_pull_timeout"),
        }
    ),
}
"""The fields that are read or change no container, of those whose names match ``CHANGING``, by the object."""


@contextmanager
def unread_fields(*places: tuple[str, ManifestNode]) -> Iterator[None]:
    """Add a doubt about the unread fields of each node to the engines that are read within.

    A place is the name of an object in ``KNOWN``, and its node. An engine gets each doubt once.
    """
    reader = places[0][1].reader
    count = len(reader.containers)
    yield
    found = reader.containers[count:]
    doubts = list(islice(filter(None, (_doubt(KNOWN[name], node) for name, node in places if found)), MAX_DOUBTS))
    for container in found:
        container.doubts.extend(doubt for doubt in doubts if doubt not in container.doubts)


def _doubt(known: frozenset[str], node: ManifestNode) -> str:
    """The doubt about the fields of a node that are set and not known; empty if there are none."""
    fields = node.value if isinstance(node.value, dict) else {}
    names = [name for name, value in fields.items() if value and name not in known and _is_changing(name)]
    where = f" of {quoted(node.path)}" if names and node.path else ""
    return f"{enumerated(names, MAX_SHOWN)}{where} may change the container, and is not read" if names else ""


def _is_changing(name: object) -> bool:
    return isinstance(name, str) and CHANGING.search(name) is not None
