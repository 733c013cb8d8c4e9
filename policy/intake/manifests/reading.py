"""The nodes of a manifest, each with its value, its path and its JSON pointer.

Accepts any document. An absent value is null, and a value of a type that the manifest's project does not accept is a
fault, reported once. The adapters define what the values mean.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from policy.defects import defect_fault, is_defect
from policy.errors import FURTHER_FAULTS, MAX_FAULTS, RequestFault, RequestInvalid, RulesInvalid
from policy.intake.manifests.ray_nodes import ClusterContainers
from policy.messages import quoted
from policy.parser.yamltree import read_yaml
from policy.pointer import at
from policy.rules.images import NO_IMAGES
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from policy.intake.command_line import Container, HardwareSign
    from policy.intake.manifests.empty_volumes import EmptyVolumes
    from policy.intake.manifests.placed_programs import PlacedPrograms
    from policy.rules.images import ImageTable

MAX_CONTAINERS: Final = 1024
MAX_DOCUMENTS: Final = 10_000
MAX_COPIED: Final = 1_000_000
MAX_REFUSED: Final = 8 * MAX_COPIED
"""The most characters that objects over a limit may copy in all; beyond it, their copies count for the manifest."""
ENTRY_SIZE: Final = 64
LLM_CONFIG_NAMESPACE: Final = "kserve"
"""The namespace in which KServe keeps configurations for the services of all namespaces."""
MAX_SEPARATE_FAULTS: Final = 1000
"""The maximum number of faults in a manifest of several objects; beyond it each object has only its first one."""


class TooManyFaults(RequestInvalid):
    """The manifest has the maximum number of faults; the rest of it is not read."""


class ConfigMap(Struct, frozen=True):
    """The data of a ConfigMap in the manifest; a value that is not a string, which Kubernetes rejects, is None.

    ``is_exact``: whether its namespace is the referring object's, so that no other ConfigMap can be meant.
    """

    data: dict[str, str | None]
    is_exact: bool


class ServingRuntime(Struct, frozen=True):
    """A KServe runtime: the container into which a predictor's model is merged, its ``workerSpec`` and its server.

    ``server`` is the annotation by which KServe chooses the build of the image, empty if there is none.
    ``is_disabled``: whether KServe refuses a service that names it. ``is_certain``: whether no other runtime of the
    manifest can be meant. ``spec`` has the model formats for which KServe may select it. ``doubt`` says what in it may
    change the model; it is empty if nothing does.
    """

    name: str
    spec: ManifestNode
    container: ManifestNode
    workers: ManifestNode
    server: str = ""
    is_disabled: bool = False
    is_certain: bool = True
    doubt: str = ""

    def is_like(self, other: ServingRuntime) -> bool:
        """Whether another runtime is the same except for its place in the manifest."""
        formats = self.spec.value.get("supportedModelFormats"), other.spec.value.get("supportedModelFormats")
        return formats[0] == formats[1] and (
            (self.container.value, self.workers.value, self.server, self.is_disabled, self.doubt)
            == (other.container.value, other.workers.value, other.server, other.is_disabled, other.doubt)
        )


class LLMConfig(Struct, frozen=True):
    """The spec of an LLMInferenceServiceConfig; ``is_certain``: whether no other one of the manifest can be meant."""

    spec: ManifestNode
    is_certain: bool = True


class KnownVolumes(Struct):
    """What was read about volumes, by the identity of each, with the volume itself."""

    caches: dict[int, tuple[Any, bool]] = {}
    """Whether a volume has files as in a cache."""
    sources: dict[int, tuple[Any, tuple[str, str] | None]] = {}
    """What identifies a volume, and the folder that it has; None if no container may write it."""


class ManifestReader:
    """The state of reading a manifest: the engines, faults, ConfigMaps and ServingRuntimes so far."""

    runs_vllm = False
    """Whether the current object runs vLLM, whatever else is in it."""

    def __init__(
        self, faults: list[RequestFault], images: ImageTable = NO_IMAGES, *, is_under_review: bool = False
    ) -> None:
        self.faults = faults
        self.images = images
        self.is_under_review = is_under_review
        """Whether an object may be changed after it was read, without another review of what it starts."""
        self.exceeded_limits: list[RequestFault] = []
        """The limits that the manifest as a whole, or the current one of several objects, exceeds."""
        self.refused_objects: dict[str, list[RequestFault]] = {}
        """The faults of objects that were refused before they were read, by their pointers."""
        self.containers: list[Container] = []
        self.read_paths: set[str] = set()
        """The paths of the containers and other values that were read as an engine's, under review."""
        self.ignored_nodes: list[ManifestNode] = []
        """The objects of unknown kinds without a container, and Ray clusters in which nothing starts vLLM."""
        self.secrets: set[str] = set()
        """The secrets that containers of pods get from elsewhere in the manifest, engines or not."""
        self.documents = self.copied_characters = 0
        self._refused = 0
        self.namespace: str | None = None
        """The namespace of the current object; None if it does not state one."""
        self.compose_engines: set[str] = set()
        """The names of the Compose services that are engines."""
        self.volumes: dict[str, dict[str, ManifestNode]] = {}
        self.empty_volumes: dict[str, tuple[Any, EmptyVolumes]] = {}
        self.placed_programs: dict[str, tuple[Any, PlacedPrograms]] = {}
        """What the containers of each pod may put into volumes, by its pointer, with its spec."""
        self.claimed_volumes: dict[int, tuple[Any, frozenset[str]]] = {}
        """The volumes that each controller claims, by its identity, with the controller itself."""
        self.known_volumes = KnownVolumes()
        self.hardware: dict[str, list[HardwareSign]] = {}
        """The signs of hardware in each pod, by its pointer."""
        self.runtime_doubts: dict[str, list[str]] = {}
        """The doubts about the fields of each runtime to which services refer, by its pointer."""
        self.parsed_texts: dict[str, Any] = {}
        """The YAML values of texts that several objects share, or the error of each."""
        self.chart_values: dict[str, ManifestNode | None] = {}
        """The values of each HelmChartConfig of K3s, by its pointer, as several charts may have its name."""
        self.ray = ClusterContainers()
        """The containers of the current Ray cluster."""
        self._data: dict[tuple[str, str], dict[str | None, dict[str, str | None] | None]] = {}
        self._llm_configs: dict[str, dict[str | None, LLMConfig]] = {}
        self._referenced: dict[tuple[str, str, str], dict[str | None, ManifestNode]] = {}
        self._runtimes: dict[str, dict[str | None, ServingRuntime]] = {}
        self._cluster_runtimes: dict[str, ServingRuntime] = {}
        self.selectable_runtimes: dict[Any, Any] | None = None
        """The best runtime of the manifest for each model format, once a service names none."""
        self._hooks: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self._bounds: set[str] = set()
        self._separate_faults = 0

    @contextmanager
    def separate(self, *, are_reported: bool = True) -> Iterator[list[RequestFault]]:
        """Collect the faults of one object or container apart from the others'; with any fault it adds no engines.

        Those that are not reported do not count towards the maximum of a manifest.
        """
        outer, self.faults = self.faults, []
        seen, self._seen = self._seen, set()
        count = len(self.containers)
        try:
            with suppress(TooManyFaults):
                yield self.faults
        finally:
            if self.faults:
                del self.containers[count:]
            self._separate_faults += len(self.faults) if are_reported else 0
            self.faults, self._seen = outer, seen

    @contextmanager
    def ray_cluster(self) -> Iterator[None]:
        """Read the containers of one Ray cluster, and give its engines the containers that start Ray."""
        outer, self.ray = self.ray, ClusterContainers()
        count = len(self.containers)
        try:
            yield
            if self.ray.engines:
                self.containers[count:] = self.ray.with_nodes(self.containers[count:])
        finally:
            self.ray = outer

    @contextmanager
    def collect_exceeded(self) -> Iterator[list[RequestFault]]:
        """Collect the limits that one of several objects exceeds; if it exceeds any, it adds no engines.

        What such an object copied does not count for the others, up to ``MAX_REFUSED`` characters in all.
        """
        outer, self.exceeded_limits = self.exceeded_limits, []
        bounds, self._bounds = self._bounds, set()
        count, copied = len(self.containers), self.copied_characters
        try:
            yield self.exceeded_limits
        finally:
            if self.exceeded_limits:
                del self.containers[count:]
                self._refused += min(self.copied_characters - copied, MAX_COPIED)
                if self._refused <= MAX_REFUSED:
                    self.copied_characters = copied
            self.exceeded_limits, self._bounds = outer, bounds

    def fault(self, pointer: str, message: str) -> None:
        """Add a fault, unless it was already added.

        Raises:
            TooManyFaults: it is the last one that is reported.
        """
        if (pointer, message) not in self._seen:
            self._seen.add((pointer, message))
            self.faults.append(RequestFault(pointer, message, hides_engines=self.runs_vllm))
            if len(self._seen) == MAX_FAULTS:
                raise TooManyFaults(self.faults)
            if self._separate_faults > MAX_SEPARATE_FAULTS:
                self.faults.append(RequestFault(pointer, FURTHER_FAULTS.format("this manifest")))
                raise TooManyFaults(self.faults)

    def add_again(self, faults: list[RequestFault]) -> None:
        """Add faults that were collected apart to those of the current object.

        Raises:
            TooManyFaults: its last fault is added.
        """
        self._separate_faults -= len(faults)
        for fault in faults:
            self.fault(fault.pointer, fault.message)

    def fault_once(self, node: ManifestNode, message: str) -> None:
        """Add a fault about an exceeded limit of the manifest, or of the current object, but only the first time."""
        if message not in self._bounds:
            self._bounds.add(message)
            self.exceeded_limits.append(RequestFault(node.pointer, message, hides_engines=True))

    def add_config_map(self, namespace: str | None, name: str, data: dict[str, str | None]) -> None:
        """Add a ConfigMap of the manifest; its data are unknown if there is a different one with the same name."""
        same_name = self._data.setdefault(("ConfigMap", name), {})
        same_name[namespace] = data if same_name.get(namespace, data) == data else None

    def config_map(self, name: str | None) -> ConfigMap | None:
        """The ConfigMap to which the current object refers; None if its data are unknown.

        An object without a namespace may be applied to any namespace.
        """
        return self._data_of(self._data.get(("ConfigMap", name or ""), {}))

    def add_secret(self, namespace: str | None, name: str, keys: set[str]) -> None:
        """Add the keys of a Secret of the manifest, as ``add_config_map`` does; no value is kept."""
        same_name = self._data.setdefault(("Secret", name), {})
        data: dict[str, str | None] = dict.fromkeys(keys)
        same_name[namespace] = data if same_name.get(namespace, data) == data else None

    def secret(self, name: str) -> ConfigMap | None:
        """The keys of the Secret to which the current object refers, as ``config_map`` finds them, without values."""
        return self._data_of(self._data.get(("Secret", name), {}))

    def _data_of(self, same_name: Mapping[str | None, dict[str, str | None] | None]) -> ConfigMap | None:
        """The data of the object to which the current one refers, of those with its name."""
        namespace = self.namespace
        if namespace is None and len(same_name) == 1:
            (namespace,) = same_name
        elif namespace not in same_name:
            namespace = None
        data = same_name.get(namespace)
        is_exact = namespace == self.namespace and (None not in same_name or len(same_name) == 1)
        return None if data is None else ConfigMap(data, is_exact)

    @property
    def has_llm_configs(self) -> bool:
        """Whether the manifest has an LLMInferenceServiceConfig."""
        return bool(self._llm_configs)

    def add_llm_config(self, namespace: str | None, name: str, spec: ManifestNode) -> None:
        """Add the spec of an LLMInferenceServiceConfig; the last one of a name and namespace counts."""
        same_name = self._llm_configs.setdefault(name, {})
        before = same_name.get(namespace)
        is_certain = before is None or (before.is_certain and before.spec.value == spec.value)
        same_name[namespace] = LLMConfig(spec, is_certain)

    def llm_config(self, name: str) -> LLMConfig | None:
        """The LLMInferenceServiceConfig to which the current object refers.

        The one in the object's namespace comes first, then the one in KServe's. An object without a namespace may be
        applied to any; if several configurations can be meant then, the one that is found is not certain.
        """
        same_name = self._llm_configs.get(name, {})
        if self.namespace is not None and self.namespace in same_name:
            return same_name[self.namespace]
        if self.namespace is None:
            possible = [*same_name]
        else:
            possible = [namespace for namespace in (None, LLM_CONFIG_NAMESPACE) if namespace in same_name]
        if not possible:
            return None
        found = same_name[None if None in possible else possible[0]]
        return found if len(possible) == 1 else structs.replace(found, is_certain=False)

    def add_referenced_object(
        self, identity: tuple[str, str], namespace: str | None, name: str, node: ManifestNode
    ) -> None:
        """Add an object of the manifest to which others refer by group, kind and name; no namespace: the cluster's."""
        self._referenced.setdefault((*identity, name), {})[namespace] = node

    def referenced_object(self, identity: tuple[str, str], name: str) -> ManifestNode | None:
        """The object of a group and kind to which the current object refers; None if it is not certain."""
        same_name = self._referenced.get((*identity, name), {})
        for namespace in (self.namespace, None):
            if namespace in same_name:
                return same_name[namespace]
        return next(iter(same_name.values())) if self.namespace is None and len(same_name) == 1 else None

    def has_beside(self, identity: tuple[str, str], name: str) -> bool:
        """Whether an object that others refer to is in the namespace of the current object, or both state none."""
        return self.namespace in self._referenced.get((*identity, name), ())

    def may_refer(self, identity: tuple[str, str], name: str) -> bool:
        """Whether the current object, which states no namespace, may refer to one of several objects of this name."""
        return self.namespace is None and len(self._referenced.get((*identity, name), {})) > 1

    def add_runtime(self, namespace: str | None, name: str, runtime: ServingRuntime) -> None:
        """Add a ServingRuntime of the manifest; the last one of a name and namespace counts, as it is applied last."""
        same_name = self._runtimes.setdefault(name, {})
        same_name[namespace] = _latest(same_name.get(namespace), runtime)

    def add_cluster_runtime(self, name: str, runtime: ServingRuntime) -> None:
        """Add a ClusterServingRuntime of the manifest; the last one of a name counts."""
        self._cluster_runtimes[name] = _latest(self._cluster_runtimes.get(name), runtime)

    def runtime(self, name: str | None) -> ServingRuntime | None:
        """The runtime that the current object names: one of its namespace, else one of the cluster.

        An object without a namespace may be applied to any namespace; if several runtimes can be meant then, the one
        that is found is not certain.
        """
        same_name, of_cluster = self._runtimes.get(name or "", {}), self._cluster_runtimes.get(name or "")
        if self.namespace in same_name:
            return same_name[self.namespace]
        if None in same_name:
            found, count = same_name[None], 1
        elif self.namespace is None and same_name:
            found, count = next(reversed(same_name.values())), len(same_name)
        else:
            return of_cluster
        return found if of_cluster is None and count == 1 else structs.replace(found, is_certain=False)

    def runtimes(self) -> Iterator[tuple[str | None, ServingRuntime, bool]]:
        """The runtimes of the manifest, each with its namespace and whether it is one of the cluster."""
        for same_name in self._runtimes.values():
            yield from ((namespace, runtime, False) for namespace, runtime in same_name.items())
        yield from ((None, runtime, True) for runtime in self._cluster_runtimes.values())

    def may_copy(self, size: int, node: ManifestNode) -> bool:
        """Whether ``size`` more characters may be copied; the limit keeps a small manifest from expanding endlessly."""
        self.copied_characters += size
        if self.copied_characters > MAX_COPIED:
            self.fault_once(
                node,
                f"variables and files that are copied or expanded exceed {MAX_COPIED} characters; send fewer at a time",
            )
        return self.copied_characters <= MAX_COPIED

    def may_copy_values(self, node: ManifestNode, *values: object) -> bool:
        """Whether values that several engines share may be copied, since each engine reads them again."""
        return self.may_copy(0, node) and self.may_copy(sum(map(_size, values)), node)

    def add(self, container: Container, node: ManifestNode) -> None:
        """Add an engine, or a fault if there are too many."""
        if len(self.containers) < MAX_CONTAINERS:
            self.containers.append(container)
        else:
            self.add_excess(node)

    def add_excess(self, node: ManifestNode) -> None:
        """Add the fault that there are too many engines."""
        self.fault_once(node, f"more than {MAX_CONTAINERS} vLLM containers; give fewer at a time")

    def add_hook(self, hook: Callable[[str], Container], node: ManifestNode) -> None:
        """Add the item that ``hook`` makes from the node's path, only once even if several objects have the node."""
        if len(self.containers) >= MAX_CONTAINERS:
            self.add_excess(node)
        elif (pointer := node.pointer) not in self._hooks:
            self._hooks.add(pointer)
            self.containers.append(hook(node.path))


def _latest(before: ServingRuntime | None, runtime: ServingRuntime) -> ServingRuntime:
    """The later of two runtimes with the same name; not certain if they differ."""
    if before is None or (before.is_certain and before.is_like(runtime)):
        return runtime
    return structs.replace(runtime, is_certain=False)


def _size(value: object) -> int:
    """The approximate size of a value in characters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(ENTRY_SIZE + len(key) + _size(item) for key, item in value.items())
    return sum(ENTRY_SIZE + _size(item) for item in value) if isinstance(value, list) else 0


class ManifestNode:
    """A value in the manifest: at ``key`` of ``parent``, or the root, with its path and JSON pointer.

    ``shares_pointer``: whether the value does not occur in the manifest as it is, but was merged or parsed from a
    string, so that all its nodes have one pointer. Paths and pointers are built on demand, because they repeat the keys
    above, which can be long.
    """

    __slots__ = ("key", "parent", "reader", "root", "shares_pointer", "value")

    def __init__(
        self, reader: ManifestReader, value: Any, path: str = "", pointer: str = "", *, shares_pointer: bool = False
    ) -> None:
        self.reader = reader
        self.value = value
        self.root = path, pointer
        self.shares_pointer = shares_pointer
        self.parent: ManifestNode | None = None
        self.key: str | int = ""

    @property
    def path(self) -> str:
        """The path in readable form, such as ``items[3].spec``."""
        found = ""
        for node in self._ancestry():
            if node.parent is None:
                found = node.root[0]
            elif isinstance(node.key, int):
                found += f"[{node.key}]"
            else:
                found = f"{found}.{node.key}" if found else node.key
        return found

    @property
    def pointer(self) -> str:
        """The JSON pointer."""
        found = ""
        for node in self._ancestry():
            if node.parent is None:
                found = node.root[1]
            elif not self.shares_pointer:
                found = at(found, node.key)
        return found

    def _ancestry(self) -> list[ManifestNode]:
        """The nodes from the root to this one."""
        nodes = []
        node: ManifestNode | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def note_read(self) -> None:
        """Note under review, which needs its path, that this container was read, or what a controller makes one of."""
        if self.reader.is_under_review:
            self.reader.read_paths.add(self.path)

    def shown_value(self) -> str:
        """The value as a message shows it, unless it may be a secret."""
        return "a value that is not shown" if self._is_secret() else quoted(self.value)

    def _is_secret(self) -> bool:
        above = None if self.parent is None else self.parent.value
        if isinstance(self.key, int):
            named = above[self.key - 1] if self.key and isinstance(above, list) else ""
        else:
            named = above.get("name") if self.key == "value" and isinstance(above, dict) else self.key
        return isinstance(named, str) and is_secret(named)

    def fault(self, message: str) -> None:
        """Add a fault at this node."""
        self.reader.fault(self.pointer, message)

    def get(self, *keys: str) -> ManifestNode:
        """The node at nested keys; null if it is absent. A parent that is not an object is a fault."""
        node = self
        for key in keys:
            value = node.value.get(key) if node.is_object() else None
            node = node._below(key, value)
        return node

    def has(self, key: str) -> bool:
        """Whether the value is a mapping with this key, whatever its value."""
        return isinstance(self.value, dict) and key in self.value

    def fields(self) -> list[tuple[str, ManifestNode]]:
        """The fields of an object by name; empty if it is null. Anything else is a fault."""
        return (
            [(key, self._below(key, value)) for key, value in self.value.items() if isinstance(key, str)]
            if self.is_object()
            else []
        )

    def items(self) -> list[ManifestNode]:
        """The items of a list; empty if it is null. Anything else is a fault."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fault(f"expected a list, got {self.shown_value()}")
            return []
        return [self._below(place, value) for place, value in enumerate(self.value)]

    def below(self, keys: Iterable[str | int]) -> ManifestNode:
        """The node at existing keys and indexes."""
        node = self
        for key in keys:
            node = node._below(key, node.value[key])
        return node

    def with_value(self, value: Any) -> ManifestNode:
        """The node at the same place with another value."""
        found = ManifestNode(self.reader, value, *self.root, shares_pointer=self.shares_pointer)
        found.parent, found.key = self.parent, self.key
        return found

    def is_object(self) -> bool:
        """Whether the value is an object; anything else except null is a fault."""
        if isinstance(self.value, dict):
            return True
        if self.value is not None:
            self.fault(f"expected an object, got {self.shown_value()}")
        return False

    def text(self) -> str | None:
        """A string, or None if it is null.

        A number or boolean is a fault: Kubernetes rejects it, or converts it to a different string than was written.
        """
        if isinstance(self.value, str) or self.value is None:
            return self.value
        self.fault(f"expected a string in quotes, got {self.shown_value()}")
        return None

    def yaml(self) -> ManifestNode | None:
        """The content of a string of YAML, at the place of the string; None if the string is empty or has faults."""
        text = self.text()
        if not text:
            return None
        try:
            content = read_yaml(text, self.path).plain()
        except RulesInvalid as error:
            for fault in error.faults:
                self.fault(f"line {fault.line}, column {fault.column}: {fault.message}")
            return None
        return ManifestNode(self.reader, content, self.path, self.pointer, shares_pointer=True)

    def scalar(self) -> str | None:
        """A string, number or boolean as a Helm chart renders it; None if it is null.

        A list or object is a fault.
        """
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, dict | list):
            self.fault(f"expected a string, a number, `true` or `false`, got {self.shown_value()}")
            return None
        return None if self.value is None else str(self.value)

    def flag(self, *, default: bool = False) -> bool:
        """A boolean, or ``default`` if it is null. Anything else is a fault."""
        if self.value is None or isinstance(self.value, bool):
            return default if self.value is None else self.value
        self.fault(f"expected `true` or `false`, got {self.shown_value()}")
        return default

    def count(self) -> int | None:
        """A whole number, or None if it is null. Anything else is a fault."""
        if self.value is None or (isinstance(self.value, int) and not isinstance(self.value, bool)):
            return self.value
        self.fault(f"expected a whole number, got {self.shown_value()}")
        return None

    def _below(self, key: str | int, value: Any) -> ManifestNode:
        node = ManifestNode(self.reader, value, shares_pointer=self.shares_pointer)
        node.parent, node.key = self, key
        return node


def read_separately(node: ManifestNode, read: Callable[[ManifestNode], None]) -> list[RequestFault]:
    """Read one of several objects; returns its faults and the limits that it exceeds: with any, it adds no engines."""
    with node.reader.collect_exceeded() as exceeded, node.reader.separate() as faults:
        try:
            read(node)
        except Exception as error:
            if not is_defect(error):
                raise
            faults.append(defect_fault(error, node.pointer))
    return [*faults, *exceeded]
