"""OpenShift's Template (``template.openshift.io/v1``): its objects, with the values of its parameters.

``${NAME}`` in a string is a parameter's value, and ``${{NAME}}`` as a whole string is the value as JSON. A parameter
without a value is empty. If it is required or generated, only ``oc process`` knows its value, and references to it stay
as written.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

IDENTITIES: Final = (("template.openshift.io", "Template"), ("", "Template"))
REFERENCE: Final = re.compile(r"\$\{([a-zA-Z0-9_]+)\}")
WHOLE_REFERENCE: Final = re.compile(r"\$\{\{([a-zA-Z0-9_]+)\}\}")
MAX_SCALAR: Final = 64
"""The maximum length of a number."""


def template_objects(document: ManifestNode) -> ManifestNode:
    """The list of a Template's objects, with the parameters substituted; invalid parameters are skipped.

    An object that exceeds the limit of what is copied stays as written, and is noted as not read.
    """
    values = dict(_values(document.value.get("parameters")))
    objects = document.get("objects")
    if not values or not isinstance(objects.value, list):
        return objects
    found = []
    for item in objects.items():
        with item.reader.collect_exceeded() as exceeded:
            value = _substituted(item.value, values, item)
        if exceeded:
            item.reader.refused_objects[item.pointer] = exceeded
        found.append(item.value if exceeded else value)
    return objects.with_value(found)


def _values(parameters: Any) -> Iterator[tuple[str, str]]:
    """The known values of parameters by name."""
    for parameter in parameters if isinstance(parameters, list) else ():
        if not isinstance(parameter, dict):
            continue
        name, value = parameter.get("name"), parameter.get("value", "")
        is_open = parameter.get("required") is True or parameter.get("generate")
        if isinstance(name, str) and isinstance(value, str) and (value or not is_open):
            yield name, value


def _substituted(value: Any, values: dict[str, str], node: ManifestNode) -> Any:
    if isinstance(value, dict):
        return {key: _substituted(item, values, node) for key, item in value.items()}
    if isinstance(value, list):
        return [_substituted(item, values, node) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = WHOLE_REFERENCE.fullmatch(value)
    if whole is not None and whole[1] in values:
        return _scalar(values[whole[1]])
    size = sum(len(values.get(name, "")) for name in REFERENCE.findall(value))
    if not node.reader.may_copy(size, node):
        return value
    return REFERENCE.sub(lambda match: values.get(match[1], match[0]), value)


def _scalar(text: str) -> Any:
    """The scalar that a text is as JSON; the text itself if it is none, as in OpenShift."""
    try:
        value = json.loads(text) if len(text) <= MAX_SCALAR else text
    except ValueError:
        return text
    is_usable = not isinstance(value, dict | list) and (not isinstance(value, float) or math.isfinite(value))
    return value if is_usable else text
