"""Objects that install a Helm chart or a kustomization: of Flux, Argo CD, the Helm controller of K3s, and Kustomize.

The values of the chart are read where they are, with what certainly replaces them. Every other field that may
override them is in a table (``OVERRIDES``): an engine gets a doubt for each such field that is set. An object without
an engine is a problem if such a field shows vLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import RulesInvalid
from policy.intake.command_line import Container
from policy.intake.manifests import images, values
from policy.intake.manifests.helm_set import CONSTANTS, Assignment, apply_assignments
from policy.intake.manifests.reading import ManifestNode
from policy.messages import enumerated
from policy.parser.yamltree import read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

RELEASE: Final = ("helm.toolkit.fluxcd.io", "HelmRelease")
APPLICATION: Final = ("argoproj.io", "Application")
APPLICATION_SET: Final = ("argoproj.io", "ApplicationSet")
CHART: Final = ("helm.cattle.io", "HelmChart")
CHART_CONFIG: Final = ("helm.cattle.io", "HelmChartConfig")
KUSTOMIZATIONS: Final = {
    ("kustomize.config.k8s.io", "Kustomization"): "kustomize build FOLDER",
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): "flux build kustomization NAME --path FOLDER",
}
"""The kustomizations, with the command that shows the objects of each."""
RENDER_COMMANDS: Final = {
    RELEASE: "helm get manifest RELEASE",
    APPLICATION: "argocd app manifests NAME",
    APPLICATION_SET: "argocd app manifests NAME",
    CHART: "helm get manifest RELEASE",
    CHART_CONFIG: "helm get manifest RELEASE",
}
"""The objects that install a Helm chart, with the command that shows what the chart renders."""
OVERRIDES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    RELEASE: ("spec.valuesFrom", "spec.postRenderers", "spec.chart.spec.valuesFiles", "spec.chart.spec.valuesFile"),
    APPLICATION: ("spec.sourceHydrator", "operation.sync.source", "operation.sync.sources"),
    APPLICATION_SET: ("spec.templatePatch", "spec.generators.*.*.template.spec", "spec.template.spec.sourceHydrator"),
    CHART: ("spec.valuesSecrets",),
    CHART_CONFIG: ("spec.valuesSecrets",),
}
"""The fields that may change the values of a chart, or the objects that it renders, and are not read."""
SOURCE_OVERRIDES: Final = ("helm.valueFiles", "helm.fileParameters", "kustomize", "plugin")
"""The same fields of one source of Argo CD."""
CONTENTS: Final = ("spec.postRenderers", "spec.templatePatch", "spec.generators.*.*.template.spec", "kustomize")
"""The override fields that may hold an image or a command of vLLM, and not only names of other objects and files."""
KUSTOMIZE_FIELDS: Final = (
    *("images", "patches", "patchesStrategicMerge", "patchesJson6902", "helmCharts"),
    *("spec.images", "spec.patches", "spec.patchesStrategicMerge", "spec.patchesJson6902", "spec.postBuild.substitute"),
)
"""The fields of a kustomization, Kustomize's or Flux's, that change objects of other files, or make them."""
PIPE: Final = "`{} | runner-policy decide -`"
KUSTOMIZE_PROBLEM: Final = (
    "a kustomization changes objects of other files, and these show vLLM; build it and send what it prints: " + PIPE
)
SEND_INSTALLED: Final = "send what is installed: " + PIPE
OVERRIDE_DOUBT: Final = "{} may override what is read here, and is not read"
UNSEEN_VALUES: Final = "`{}` shows vLLM, and the values that it changes are not in the manifest"
MISSING_CHART: Final = "the `HelmChart` whose values this `HelmChartConfig` overrides is not in the manifest"
SEVERAL_CONFIGS: Final = (
    "several `HelmChartConfig` objects of the manifest may override what is read here; state the `metadata.namespace` "
    "of each"
)


def read_kustomization(node: ManifestNode, identity: tuple[str, str]) -> None:
    """Add a problem for a kustomization whose changes show vLLM; the objects that it changes are in other files."""
    for field, found in _overrides(node, KUSTOMIZE_FIELDS).items():
        if _shows_vllm(found):
            place = node.get(*field.split("."))
            place.reader.add(Container(place.path, problem=KUSTOMIZE_PROBLEM.format(KUSTOMIZATIONS[identity])), place)
            return


def read_helm_object(node: ManifestNode, identity: tuple[str, str], read: Callable[[ManifestNode], object]) -> None:
    """Read the values of the charts that an object installs; ``read`` reads values that show vLLM."""
    release = _Release(node, identity, read)
    spec = node.get("spec")
    if identity == RELEASE:
        release.read_values(spec.get("values"))
    elif identity == CHART:
        release.read_chart(spec)
    elif identity == CHART_CONFIG:
        name = node.get("metadata", "name").text()
        if name is None or node.reader.referenced_object(CHART, name) is None:
            release.doubts.append(MISSING_CHART)
            release.read_values(spec.get("valuesContent"))
    else:
        spec = spec if identity == APPLICATION else spec.get("template", "spec")
        sources = spec.get("sources")
        several = sources.items() if isinstance(sources.value, list) else [sources]
        for source in several if sources.value else [spec.get("source")]:
            if isinstance(source.value, dict):
                release.read_source(source)


class _Release:
    """What is read of an object: its values, and the fields that may override them."""

    def __init__(self, node: ManifestNode, identity: tuple[str, str], read: Callable[[ManifestNode], object]) -> None:
        self.node = node
        self.reader = node.reader
        self.doubts: list[str] = []
        self._overrides = _overrides(node, OVERRIDES[identity])
        self._remedy = SEND_INSTALLED.format(RENDER_COMMANDS[identity])
        self._read = read

    def read_values(self, node: ManifestNode) -> None:
        """Read the values at a node, an object or a YAML text."""
        self._read_over(_values(node), {}, [], "", node)

    def read_chart(self, spec: ManifestNode) -> None:
        """Read a HelmChart of K3s: its `set` over the values of its HelmChartConfig over its own."""
        name = self.node.get("metadata", "name").text()
        config = None if name is None else self.reader.referenced_object(CHART_CONFIG, name)
        own = _values(spec.get("valuesContent"))
        if config is None and name is not None and self.reader.may_refer(CHART_CONFIG, name):
            self.doubts.append(SEVERAL_CONFIGS)
        if config is not None:
            if not self.reader.may_copy_values(self.node, config.value):
                return
            parsed = self.reader.chart_values
            if config.pointer not in parsed:
                parsed[config.pointer] = _values(config.get("spec", "valuesContent"))
            above = parsed[config.pointer]
            if above is not None:
                below = {} if own is None else own.value
                own = _within(spec.get("valuesContent"), _merged(below, above.value))
            for field in _overrides(config, OVERRIDES[CHART_CONFIG]):
                self.doubts.append(OVERRIDE_DOUBT.format(f"`{field}` of its `{CHART_CONFIG[1]}`"))
        given = spec.get("set")
        self._read_over(own, {}, _set(given.value), "spec.set", given)

    def read_source(self, source: ManifestNode) -> None:
        """Read a source of Argo CD: its parameters over `valuesObject`, which replaces `values`."""
        helm = source.get("helm") if isinstance(source.value.get("helm"), dict) else source.with_value({})
        content = _values(helm.get("values" if helm.get("valuesObject").value is None else "valuesObject"))
        given = helm.get("parameters")
        self._read_over(
            content, _overrides(source, SOURCE_OVERRIDES), _parameters(given.value), "helm.parameters", given
        )

    def _read_over(
        self,
        below: ManifestNode | None,
        overrides: dict[str, list[Any]],
        assignments: list[Assignment | str],
        field: str,
        place: ManifestNode,
    ) -> None:
        """Read values with the assignments of a ``field`` at ``place``; those given by name alone are not applied."""
        count = len(self.reader.containers)
        overrides = self._overrides | overrides
        legible = [each for each in assignments if isinstance(each, Assignment)]
        content, skipped = apply_assignments({} if below is None else below.value, legible)
        if below is not None:
            self._read(_within(below, content) if len(skipped) < len(legible) else below)
        found = self.reader.containers[count:]
        names = [*(each.path for each in skipped), *(each for each in assignments if isinstance(each, str))]
        fields = [f"`{each}`" for each in overrides]
        if names:
            fields.append(f"`{field}`, which sets {enumerated(names, 3)},")
        self._doubt(found, fields)
        if found:
            return
        is_shown = below is None and values.has_engines(content, self.reader.images, commands=False)
        if is_shown or any(images.names_vllm(each.value) for each in skipped):
            self._add_problem(field, place)
            return
        shown = next((name for name, value in overrides.items() if name in CONTENTS and _shows_vllm(value)), None)
        if shown is not None:
            self._add_problem(shown, self.node)

    def _doubt(self, found: list[Container], fields: list[str]) -> None:
        doubts = [*self.doubts, *(OVERRIDE_DOUBT.format(each) for each in fields)]
        for container in found:
            container.notes.extend(f"{doubt}; {self._remedy}" for doubt in doubts)
            container.doubts.extend(doubts)

    def _add_problem(self, field: str, place: ManifestNode) -> None:
        self.reader.add(Container(place.path, problem=f"{UNSEEN_VALUES.format(field)}; {self._remedy}"), place)


def _overrides(node: ManifestNode, fields: tuple[str, ...]) -> dict[str, list[Any]]:
    """The fields that are set, with their values."""
    return {field: found for field in fields if (found := _found(node.value, field))}


def _within(node: ManifestNode, content: object) -> ManifestNode:
    """A node with derived values, all of which have the pointer of ``node``."""
    return ManifestNode(node.reader, content, node.path, node.pointer, shares_pointer=True)


def _values(node: ManifestNode) -> ManifestNode | None:
    """Values, an object or a YAML text; None if there are none. A text that names vLLM and is not YAML is a fault."""
    if isinstance(node.value, str):
        try:
            content = read_yaml(node.value, node.path).plain()
        except RulesInvalid as error:
            if "vllm" in node.value:
                node.fault(
                    "; ".join(f"line {each.line}, column {each.column}: {each.message}" for each in error.faults)
                )
            return None
        node = _within(node, content)
    return node if isinstance(node.value, dict) and node.value else None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Values over others as Helm merges files of values: mappings by their names, anything else as a whole."""
    found = dict(below)
    for name, value in above.items():
        own = found.get(name)
        found[name] = _merged(own, value) if isinstance(own, dict) and isinstance(value, dict) else value
    return found


def _parameters(parameters: object) -> list[Assignment | str]:
    """The parameters of a source of Argo CD; one without a name and a value as strings is given by its name alone."""
    found: list[Assignment | str] = []
    for each in parameters if isinstance(parameters, list) else []:
        name = each.get("name") if isinstance(each, dict) else None
        value = each.get("value", "") if isinstance(each, dict) else None
        if isinstance(name, str) and isinstance(value, str):
            found.append(Assignment(name, value, each.get("forceString") is True))
        else:
            found.append(str(name))
    return found


def _set(given: object) -> list[Assignment | str]:
    """The entries of `set`: a string stays a string, unless it is `true`, `false` or `null`.

    An entry that is neither a string nor a whole number is given by its name alone.
    """
    found: list[Assignment | str] = []
    for name, value in given.items() if isinstance(given, dict) else []:
        is_text = isinstance(value, str) and value.lower() not in CONSTANTS
        found.append(Assignment(name, str(value), is_text) if type(value) in {int, str} else str(name))
    return found


def _found(value: object, path: str) -> list[Any]:
    """The non-empty values at a path; `*` is any item."""
    found: list[Any] = [value]
    for step in path.split("."):
        if step == "*":
            found = [
                item
                for each in found
                if isinstance(each, dict | list)
                for item in (each.values() if isinstance(each, dict) else each)
            ]
        else:
            found = [each[step] for each in found if isinstance(each, dict) and step in each]
    return [each for each in found if each]


def _shows_vllm(value: object) -> bool:
    """Whether a text in a value names vLLM."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
        elif isinstance(value, str) and "vllm" in value:
            return True
    return False
