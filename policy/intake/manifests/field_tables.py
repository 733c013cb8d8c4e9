"""The fields of an object of a controller, a chart or a tool: which are known, and which change a container.

The tables of controllers list all fields that the definitions of their objects have, and those of charts all values
that the templates read: any other field is of an unknown release. A tool's file may have the user's own fields, so only
those count whose names suggest that they change a container (``CHANGING_FIELD``).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

CHANGING_FIELD: Final = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=[a-z0-9])(?=[A-Z]))(?i:command|entry_?point|args|argument|flag|env(?!oy)|image|volume"
    r"|mount|pvc|storage|init(?!ial)|setup|patch|overrid|plugin|extra|config|checkpoint|adapter|lora|weight|package"
    r"|memory_?service|failover|experimental)|^load$"
)
"""Matches the name of a field that may change a container: one of its words is, or begins with, one of these."""


class FieldTable(NamedTuple):
    """The fields of an object.

    ``known`` fields are read, or change no container. ``parts`` has the tables of those that are an object, or a list
    of objects, with listed fields. ``changing`` fields are known to change a container, and not read. With ``is_open``
    any other field is harmless, unless its name matches ``CHANGING_FIELD``.
    """

    known: frozenset[str]
    parts: dict[str, FieldTable]
    changing: frozenset[str] = frozenset()
    is_open: bool = False

    def __or__(self, other: object) -> FieldTable:
        """The table of an object that has the fields of two."""
        if not isinstance(other, FieldTable):
            return NotImplemented
        return FieldTable(
            self.known | other.known, {**self.parts, **other.parts}, self.changing | other.changing, self.is_open
        )


def fields(known: str = "", *, changing: str = "", **parts: FieldTable) -> FieldTable:
    """The table of an object whose fields are all listed; blanks separate the names in ``known`` and ``changing``."""
    return FieldTable(frozenset(known.split()) | parts.keys(), parts, frozenset(changing.split()))


def open_fields(known: str = "") -> FieldTable:
    """The table of an object that may have the user's own fields; ``known`` are those that match ``CHANGING_FIELD``."""
    return FieldTable(frozenset(known.split()), {}, is_open=True)


CONTAINER: Final = fields(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy "
    "resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath "
    "terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
"""A container of Kubernetes 1.36."""
POD: Final = fields(
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks "
    "ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets "
    "initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates "
    "resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup "
    "securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain "
    "terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef"
)
"""The specification of a pod of Kubernetes 1.36, which ``pods`` reads."""
OBJECT: Final = fields("apiVersion kind metadata spec status")
"""An object of Kubernetes, with its specification."""


def in_spec(spec: FieldTable) -> FieldTable:
    """The table of an object with a specification whose fields are listed."""
    return OBJECT | fields(spec=spec)
