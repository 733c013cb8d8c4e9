"""Values that Kubernetes takes from the pod itself (the downward API): ``fieldRef`` and ``resourceFieldRef``.

https://kubernetes.io/docs/concepts/workloads/pods/downward-api/. The known values are the labels and annotations that
the pod's template states, the namespace, a Pod's own name, and the resources that the container states. Under review,
labels, annotations and resources are not known: anyone who may patch a pod, an autoscaler, a LimitRange or a later
webhook may change them without another review.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Final

from policy.intake.manifests.quantities import BINARY_UNITS, DECIMAL_UNITS, QUANTITY

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^'\]]{1,512})'\]")
CONTROLLER_LABELS: Final = frozenset(
    {
        *("controller-revision-hash", "controller-uid", "job-name", "pod-template-generation", "pod-template-hash"),
        "rollouts-pod-template-hash",
    }
)
"""Labels without a domain that controllers set in each pod, whatever its template states."""
RECOMMENDED_PREFIX: Final = "app.kubernetes.io/"
"""The prefix of the labels that Kubernetes recommends to users and does not set itself."""
NODE_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""The resources for which a container without a limit, or with a limit of zero, gets the amount of its node."""
RESOURCE: Final = re.compile(r"(limits|requests)\.([a-z0-9./-]{1,128})")


def downward_value(value_from: ManifestNode, container: ManifestNode) -> str | None:
    """The value that a container's variable takes from its pod; None if it is not known, or from another source."""
    path = value_from.get("fieldRef", "fieldPath").value
    if isinstance(path, str):
        return _field(path, pod_template(container))
    reference = value_from.get("resourceFieldRef")
    resource = reference.get("resource").value
    if not isinstance(resource, str) or container.reader.is_under_review:
        return None
    return _resource(resource, reference, container)


def pod_template(container: ManifestNode) -> ManifestNode | None:
    """The object with the ``spec`` that has a container: a Pod, or a pod's template."""
    node: ManifestNode | None = container
    for _ in range(3):
        node = None if node is None else node.parent
    return node if node is not None and isinstance(node.value, dict) else None


def stated_field(value_from: ManifestNode, container: ManifestNode) -> str | None:
    """What a pod's template states for the label or annotation of a variable, even if the pod may get another value."""
    path, template = value_from.get("fieldRef", "fieldPath").value, pod_template(container)
    found = SUBSCRIPT.fullmatch(path) if isinstance(path, str) else None
    return None if found is None or template is None else _entry(template, *found.groups())


def _entry(template: ManifestNode, field: str, key: str) -> str | None:
    """The text of a label or an annotation, by the ``field`` that has it."""
    value = template.get("metadata").get(field).value
    text = value.get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def _field(path: str, template: ManifestNode | None) -> str | None:
    if template is None:
        return None
    metadata = template.get("metadata")
    if (found := SUBSCRIPT.fullmatch(path)) is not None:
        is_known = not template.reader.is_under_review and not _may_be_set(found[2])
        return _entry(template, *found.groups()) if is_known else None
    if path == "metadata.namespace":
        namespace = metadata.get("namespace").value
        return namespace if isinstance(namespace, str) else template.reader.namespace
    if path == "metadata.name" and template.value.get("kind") == "Pod":
        name = metadata.get("name").value
        return name if isinstance(name, str) else None
    return None


def _may_be_set(key: str) -> bool:
    """Whether a controller may set a label or an annotation in each pod: one with a domain, and some others."""
    domain, slash, _ = key.partition("/")
    return key in CONTROLLER_LABELS or (slash != "" and "." in domain and not key.startswith(RECOMMENDED_PREFIX))


def _resource(resource: str, reference: ManifestNode, container: ManifestNode) -> str | None:
    """The request or limit that the container sets, in units of the divisor, rounded up; None if it is not known."""
    found, other = RESOURCE.fullmatch(resource), reference.get("containerName").value
    if found is None or (other is not None and other != container.get("name").value):
        return None
    resources = container.get("resources")
    stated = resources.get(found[1]).value
    if found[1] == "requests" and not (isinstance(stated, dict) and found[2] in stated):
        stated = resources.get("limits").value  # which Kubernetes then requests
    quantity = _number(stated.get(found[2])) if isinstance(stated, dict) else None
    unit = reference.get("divisor").value
    divisor = _number(0 if unit is None else unit)
    if quantity is None or divisor is None or (not quantity and found[1] == "limits" and found[2] in NODE_RESOURCES):
        return None
    return str(
        int((quantity / (divisor or 1)).to_integral_value(ROUND_CEILING))
    )  # the API server writes 0 for no divisor


def _number(quantity: object) -> Decimal | None:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        return None
    found = QUANTITY.fullmatch(str(quantity))
    if found is None:
        return None
    unit = Decimal("0.001") if found[2] == "m" else Decimal({**DECIMAL_UNITS, **BINARY_UNITS}[found[2] or ""])
    return Decimal(found[1]) * unit
