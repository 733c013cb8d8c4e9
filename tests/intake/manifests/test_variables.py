"""Variables of Kubernetes' containers: which entry counts, and where its value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from policy.intake.command.launcher import read_command
from policy.intake.command.words import Unknown
from policy.intake.manifests import read_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault

NAME = "VLLM_USE_V2_MODEL_RUNNER"
WRITTEN = {"name": NAME, "value": "1"}


def config_map(data: dict[str, Any], namespace: str | None = None, name: str = "c") -> dict[str, Any]:
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def reference(kind: str = "configMapKeyRef", name: str = "c", **fields: object) -> dict[str, Any]:
    return {"name": NAME, "valueFrom": {kind: {"name": name, "key": "k", **fields}}}


def read(
    env: list[dict[str, Any]], *others: dict[str, Any], namespace: str | None = None, **container: Any
) -> tuple[dict[str, str | None], list[str], list[RequestFault]]:
    faults: list[RequestFault] = []
    spec = {"containers": [{"command": ["vllm", "serve", "a/b"], "env": env, **container}]}
    metadata = {} if namespace is None else {"namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    (engine,) = read_manifest([*others, pod], "", faults)
    return engine.env, engine.notes, faults


OTHER = config_map({"other": "2"})


@pytest.mark.parametrize(
    ("env", "others", "expected"),
    [
        ([reference(optional=True)], [config_map({"k": "2"})], {NAME: "2"}),
        ([WRITTEN, reference(optional=True)], [config_map({"k": "2"})], {NAME: "2"}),
        ([WRITTEN, reference(optional=True)], [OTHER], {NAME: "1"}),
        ([reference(optional=True)], [OTHER], {}),
        ([reference(optional=True), WRITTEN], [OTHER], {NAME: "1"}),
        ([WRITTEN, reference(optional=True), {"name": "B", "value": f"$({NAME})"}], [OTHER], {NAME: "1", "B": "1"}),
        ([WRITTEN, reference(optional=False)], [OTHER], {NAME: None}),
        ([WRITTEN, reference()], [OTHER], {NAME: None}),
        ([WRITTEN, reference(optional="true")], [OTHER], {NAME: None}),
        ([WRITTEN, reference(optional=True)], [], {NAME: None}),
        ([WRITTEN, reference(optional=True)], [OTHER, config_map({})], {NAME: None}),
        ([WRITTEN, reference(optional=True)], [OTHER, OTHER], {NAME: "1"}),
        ([WRITTEN, reference(optional=True)], [config_map({"k": 2})], {NAME: None}),
        ([WRITTEN, reference(optional=True)], [config_map({"k": None})], {NAME: None}),
        ([WRITTEN, reference("secretKeyRef", optional=True)], [OTHER], {NAME: None}),
        ([WRITTEN, reference("secretKeyRef")], [OTHER], {NAME: None}),
        ([WRITTEN, reference("fileKeyRef", optional=True)], [OTHER], {NAME: None}),
        ([WRITTEN, {"name": NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], [], {NAME: None}),
        ([WRITTEN, {"name": NAME, "valueFrom": {}}], [], {NAME: None}),
    ],
)
def test_an_optional_variable_without_a_value_is_left_out(
    env: list[dict[str, Any]], others: list[dict[str, Any]], expected: dict[str, str | None]
) -> None:
    found, _, faults = read(env, *others)
    assert (found, faults) == (expected, [])


@pytest.mark.parametrize(
    ("namespace", "maps", "expected"),
    [
        (None, {None: {}}, "1"),
        ("a", {"a": {}}, "1"),
        ("a", {"a": {}, "b": {"k": "2"}}, "1"),
        ("a", {"a": {"k": "2"}, "b": {}}, "2"),
        ("a", {"b": {"k": "2"}}, None),
        ("a", {"b": {}}, None),
        ("a", {None: {}}, None),
        ("a", {None: {"k": "2"}}, "2"),
        ("a", {None: {"k": "2"}, "a": {}}, None),
        (None, {"a": {}}, None),
        (None, {"a": {"k": "2"}}, "2"),
        (None, {"a": {"k": "2"}, "b": {"k": "2"}}, None),
        (None, {None: {"k": "2"}, "b": {"k": "3"}}, "2"),
    ],
)
def test_a_config_map_is_that_of_the_objects_namespace(
    namespace: str | None, maps: dict[str | None, dict[str, str]], expected: str | None
) -> None:
    others = [config_map(data, each) for each, data in maps.items()]
    found, _, faults = read([WRITTEN, reference(optional=True)], *others, namespace=namespace)
    assert (found, faults) == ({NAME: expected}, [])


@pytest.mark.parametrize("optional", [{}, {"optional": True}, {"optional": False}])
def test_whole_config_maps_are_read_if_the_manifest_has_them(optional: dict[str, bool]) -> None:
    known = {"configMapRef": {"name": "c"}}
    sources = [known, {"configMapRef": {"name": "gone", **optional}}, {"secretRef": {"name": "s", **optional}}]
    found, notes, faults = read([], config_map({NAME: "1", "B": 2}), envFrom=sources)
    assert (found, faults) == ({NAME: "1", "B": None}, [])
    assert notes == [
        f"`envFrom` takes variables from `{name}`, which the manifest does not show" for name in ("gone", "s")
    ]


@pytest.mark.parametrize("value", [1, 1.0, 0, True, False, [], {}])
def test_a_value_that_is_not_a_string_is_refused_as_the_api_server_does_it(value: object) -> None:
    found, _, faults = read([{"name": NAME, "value": value}])
    assert found == {}
    assert [(fault.pointer, fault.message.partition(", got")[0]) for fault in faults] == [
        ("/0/spec/containers/0/env/0/value", "expected a string in quotes")
    ]


@pytest.mark.parametrize("source", [{"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"value": "$(A)"}])
def test_a_variable_of_leaderworkerset_has_no_other_unknown_value(source: dict[str, Any]) -> None:
    """A script's word with such a variable counts as one word."""
    unknown = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    _, _, faults = read([unknown, {"name": "LWS_LEADER_ADDRESS", **source}])
    message = "LeaderWorkerSet sets the variable `LWS_LEADER_ADDRESS`; choose another name, or write its value"
    assert [(fault.pointer, fault.message) for fault in faults] == [("/0/spec/containers/0/env/1", message)]


SECRET = [{"secretRef": {"name": "s"}}]
SERVICES = ["KUBERNETES_SERVICE_PORT", "KUBERNETES_PORT", "FOO_SERVICE_HOST", "FOO_SERVICE_PORT_HTTP", "FOO_PORT"]


@pytest.mark.parametrize(
    ("name", "env_from", "is_known"),
    [
        ("RUNNER", [], True),
        ("RUNNER", [{"configMapRef": {"name": "c"}}], True),
        ("RUNNER", SECRET, False),
        ("RUNNER", [{"secretRef": {"name": "s", "optional": True}, "prefix": "X_"}], False),
        ("RUNNER", [{"configMapRef": {"name": "gone"}}], False),
        *((name, [], False) for name in SERVICES),
        ("FOO_PORT_80_TCP_ADDR", [], False),
        ("PORT", [], True),
    ],
)
def test_a_reference_to_a_name_that_something_invisible_may_set_is_unknown(
    name: str, env_from: list[dict[str, Any]], *, is_known: bool
) -> None:
    args = ["--seed", f"$({name})"]
    found, _, faults = read(
        [{"name": NAME, "value": f"$({name})"}], config_map({"B": "1"}), envFrom=env_from, args=args
    )
    assert (found[NAME], faults) == (f"$({name})" if is_known else None, [])
    line = read_command(["vllm", "serve", *args], [""] * 4, found, faults, "")
    assert isinstance(line.words[1], Unknown) is not is_known


def test_a_reference_to_a_name_that_is_set_has_its_value_whatever_else_sets_variables() -> None:
    env = [{"name": "FOO_SERVICE_PORT", "value": "1"}, {"name": NAME, "value": "$(FOO_SERVICE_PORT)"}]
    assert read(env, envFrom=SECRET)[0] == {"FOO_SERVICE_PORT": "1", NAME: "1"}
    assert read([{"name": NAME, "value": "$$(A)"}], envFrom=SECRET)[0] == {NAME: "$(A)"}


VOLUMES = [{"name": "c", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {}}, {"name": "s", "secret": {}}]
FILES = {"s.yaml": "model: a/b", "t.yaml": "model: a/c"}


@pytest.mark.parametrize(
    ("others", "hidden"),
    [
        ([], set()),
        ([("e", "/other", None), ("e", "/", None), ("e", "/cfg/s.yaml.d", None)], set()),
        ([("e", "/cfg/s.yaml", "q")], {"s.yaml"}),
        ([("s", "/cfg/s.yaml", "q")], {"s.yaml"}),
        ([("gone", "/cfg//s.yaml", "q")], {"s.yaml"}),
        ([("e", "/cfg/s.yaml/", None), ("e", "/cfg/t.yaml", None)], {"s.yaml", "t.yaml"}),
    ],
)
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("path", ["/cfg", "/cfg/"])
def test_a_mount_below_another_hides_its_files(
    others: list[tuple[str, str, str | None]], hidden: set[str], path: str, *, is_last: bool
) -> None:
    mounts = [{"name": name, "mountPath": at, "subPath": sub} for name, at, sub in others]
    mounts.insert(len(mounts) if is_last else 0, {"name": "c", "mountPath": path, "subPath": None})
    container = {"image": "vllm/vllm-openai", "command": ["vllm", "serve"], "volumeMounts": mounts}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": VOLUMES}}
    (engine,) = read_manifest([config_map(FILES), pod], "", [])
    assert engine.files == {f"/cfg/{name}": text for name, text in FILES.items() if name not in hidden}


def test_a_mount_of_a_folder_below_hides_what_a_config_map_puts_there() -> None:
    items = [{"key": "s.yaml", "path": "sub/s.yaml"}, {"key": "t.yaml", "path": "t.yaml"}]
    volumes = [{"name": "c", "configMap": {"name": "c", "items": items}}, VOLUMES[1]]
    mounts = [{"name": "c", "mountPath": "/cfg"}, {"name": "e", "mountPath": "/cfg/sub"}]
    container = {"image": "vllm/vllm-openai", "command": ["vllm", "serve"], "volumeMounts": mounts}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": volumes}}
    (engine,) = read_manifest([config_map(FILES), pod], "", [])
    assert engine.files == {"/cfg/t.yaml": "model: a/c"}
