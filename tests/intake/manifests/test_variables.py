"""Variables of Kubernetes' containers: which entry counts, and where its value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.kubernetes_references import expand_words
from policy.intake.command.launcher import read_command
from policy.intake.command.words import Unknown
from policy.intake.manifests.draft import REPLACED_VARIABLE

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import CommandLine, Container

NAME = "VLLM_USE_V2_MODEL_RUNNER"
WRITTEN = {"name": NAME, "value": "1"}


def config_map(data: dict[str, Any], namespace: str | None = None, name: str = "c") -> dict[str, Any]:
    metadata = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def reference(kind: str = "configMapKeyRef", name: str = "c", **fields: object) -> dict[str, Any]:
    return {"name": NAME, "valueFrom": {kind: {"name": name, "key": "k", **fields}}}


def read_engine(
    env: list[dict[str, Any]], *others: dict[str, Any], namespace: str | None = None, **container: Any
) -> tuple[Container, list[RequestFault]]:
    faults: list[RequestFault] = []
    spec = {"containers": [{"command": ["vllm", "serve", "a/b"], "env": env, **container}]}
    metadata = {} if namespace is None else {"namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    (engine,) = read_manifest([*others, pod], "", faults)
    return engine, [*faults, *engine.faults]


def read(
    env: list[dict[str, Any]], *others: dict[str, Any], namespace: str | None = None, **container: Any
) -> tuple[dict[str, str | None], list[str], list[RequestFault]]:
    engine, faults = read_engine(env, *others, namespace=namespace, **container)
    return engine.env, engine.notes, faults


def line_of(engine: Container, faults: list[RequestFault]) -> CommandLine:
    hidden = engine.has_hidden_variables
    return read_command(engine.words, engine.places, engine.env, faults, "", has_hidden_variables=hidden)


OTHER = config_map({"other": "2"})


@table(
    ("documents", "expected"),
    [
        (
            [{"resources": {}, "envs": {"A": "1"}, "run": "vllm serve a/b --port $(A) $$"}],
            "vllm serve a/b --port $(A) $$",
        ),
        (
            [
                {
                    "llm_configs": [
                        {
                            "model_loading_config": {"model_id": "a/b"},
                            "runtime_env": {"env_vars": {"A": "1"}},
                            "engine_kwargs": {"kv_transfer_config": {"kv_connector": "$(A)$$"}},
                        }
                    ]
                }
            ],
            '{"kv_connector":"$(A)$$"}',
        ),
        (
            [
                config_map({"inference_config.yaml": "vllm: {served-model-name: '$$(A)'}"}),
                {
                    "apiVersion": "kaito.sh/v1beta1",
                    "kind": "Workspace",
                    "inference": {"preset": {"name": "phi-4"}, "config": "c"},
                },
            ],
            "$$(A)",
        ),
    ],
)
def test_words_that_are_not_those_of_a_container_are_not_expanded(
    documents: list[dict[str, Any]], expected: str
) -> None:
    faults: list[RequestFault] = []
    (engine,) = read_manifest(documents, "", faults)
    assert faults == []
    assert expected in expand_words(engine.words, engine.env)


@table(
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


@table(
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
        "`envFrom` takes variables from `gone`, which the manifest does not show",
        "`envFrom` takes variables from the Secret `s`, and values of Secrets are not read",
        REPLACED_VARIABLE.format("the Secret `s`"),
    ]


MAPPED = {"configMapRef": {"name": "c"}}
TOKEN = "kubernetes.io/service-account-token"
SECRETS = {"secretRef": {"name": "s"}}


@table(
    ("sources", "replaced_by"),
    [
        ([MAPPED], ""),
        ([SECRETS, MAPPED], ""),
        ([MAPPED, SECRETS], "the Secret `s`"),
        ([MAPPED, SECRETS, MAPPED], ""),
        ([MAPPED, {"configMapRef": {"name": "gone"}}], "`gone`"),
        ([MAPPED, {"configMapRef": {"name": "gone", "optional": True}}], "`gone`"),
        ([MAPPED, {**SECRETS, "prefix": ""}], "the Secret `s`"),
        ([MAPPED, {**SECRETS, "prefix": "VLLM_"}], "the Secret `s`"),
        ([MAPPED, {**SECRETS, "prefix": NAME}], "the Secret `s`"),
        ([MAPPED, {**SECRETS, "prefix": "HF_"}], ""),
        ([MAPPED, {**SECRETS, "prefix": "vllm_"}], ""),
        ([MAPPED, {**SECRETS, "prefix": f"{NAME}S"}], ""),
        ([{**SECRETS, "prefix": "VLLM_"}, MAPPED, {**SECRETS, "prefix": "HF_"}], ""),
        (
            [MAPPED, *({**SECRETS, "prefix": f"A{n}"} for n in range(64)), {**SECRETS, "prefix": "VLLM_"}],
            "the Secret `s`",
        ),
        ([{**MAPPED, "prefix": "HF_"}, {**SECRETS, "prefix": "VLLM_"}, MAPPED], ""),
    ],
)
def test_a_later_source_that_is_not_read_may_replace_the_variable_of_the_rules(
    sources: list[dict[str, Any]], replaced_by: str
) -> None:
    mapped = config_map({NAME: "1", "B": "2"})
    doubts = [REPLACED_VARIABLE.format(replaced_by)] if replaced_by else []
    engine, faults = read_engine([{"name": "C", "value": "$(B)"}], mapped, envFrom=sources)
    assert (engine.env[NAME], engine.doubts, faults) == ("1", doubts, [])
    assert set(doubts) <= {*engine.notes}
    engine, faults = read_engine([{"name": NAME, "value": "0"}], mapped, envFrom=sources)
    assert (engine.env[NAME], engine.doubts, faults) == ("0", [], [])
    engine, faults = read_engine([], mapped, envFrom=sources, command=["env", f"{NAME}=0", "vllm", "serve", "a/b"])
    assert (engine.doubts, faults) == ([], [])
    engine, faults = read_engine([], config_map({"B": "2"}), envFrom=sources)
    assert (engine.env["B"], engine.doubts, faults) == ("2", [], [])


def test_a_command_has_the_value_of_a_config_map_before_a_secret() -> None:
    sources = [MAPPED, SECRETS]
    command = ["vllm", "serve", "$(MODEL)"]
    engine, faults = read_engine([], config_map({"MODEL": "a/b"}), envFrom=sources, command=command)
    assert (line_of(engine, faults).words, engine.doubts, faults) == (["a/b"], [], [])


@table(
    ("fields", "env", "doubts"),
    [
        ({"data": {"HF_TOKEN": "x"}}, {NAME: "1", "HF_TOKEN": None}, []),
        ({"stringData": {"HF_TOKEN": "x"}, "data": None}, {NAME: "1", "HF_TOKEN": None}, []),
        ({"data": {"A": "x"}, "stringData": {NAME: "0"}}, {NAME: None, "A": None}, []),
        ({}, {NAME: "1"}, [REPLACED_VARIABLE.format("the Secret `s`")]),
        ({"data": {}}, {NAME: "1"}, [REPLACED_VARIABLE.format("the Secret `s`")]),
        ({"type": TOKEN, "data": {"a": "x"}}, {NAME: "1"}, [REPLACED_VARIABLE.format("the Secret `s`")]),
        ({"data": "{{ values }}"}, {NAME: "1"}, [REPLACED_VARIABLE.format("the Secret `s`")]),
        ({"metadata": {"name": "other"}}, {NAME: "1"}, [REPLACED_VARIABLE.format("the Secret `s`")]),
        ({"metadata": []}, {NAME: "1"}, [REPLACED_VARIABLE.format("the Secret `s`")]),
    ],
)
def test_a_secret_of_the_manifest_hides_only_its_keys(
    fields: dict[str, Any], env: dict[str, str | None], doubts: list[str]
) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}
    engine, faults = read_engine([], config_map({NAME: "1"}), secret, envFrom=[MAPPED, SECRETS])
    assert (engine.env, engine.doubts, faults) == (env, doubts, [])
    assert engine.has_hidden_variables is bool(doubts)
    assert "`envFrom` takes variables from the Secret `s`, and values of Secrets are not read" in engine.notes


def test_a_secret_is_that_of_the_objects_namespace() -> None:
    def secret(keys: dict[str, str], namespace: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": namespace},
            "data": keys,
        }

    for own, env in (("a", {"A": None}), ("b", {"B": None}), ("c", {})):
        others = [secret({"A": "1"}, "a"), secret({"B": "1"}, "b")]
        engine, faults = read_engine([], *others, namespace=own, envFrom=[SECRETS])
        assert (engine.env, faults) == (env, [])


@table("value", [1, 1.0, 0, True, False, [], {}])
def test_a_value_that_is_not_a_string_is_refused_as_by_the_api_server(value: object) -> None:
    found, _, faults = read([{"name": NAME, "value": value}])
    assert found == {}
    assert [(fault.pointer, fault.message.partition(", got")[0]) for fault in faults] == [
        ("/0/spec/containers/0/env/0/value", "expected a string in quotes")
    ]


@pytest.mark.parametrize("source", [{"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"value": "$(A)"}])
@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "DisaggregatedSet"])
def test_a_variable_of_leaderworkerset_has_no_other_unknown_value(source: dict[str, Any], kind: str) -> None:
    """A script's word with such a variable counts as one word."""
    unknown = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    env = [unknown, {"name": "LWS_LEADER_ADDRESS", **source}]
    faults: list[RequestFault] = []
    document = _replacing(kind, {"command": ["vllm", "serve", "a/b"], "env": env})
    assert read_manifest(document, "", faults) == []
    message = "LeaderWorkerSet sets the variable `LWS_LEADER_ADDRESS`; choose another name, or write its value"
    group = "/spec/leaderWorkerTemplate" if kind == "LeaderWorkerSet" else "/spec/roles/0/spec/leaderWorkerTemplate"
    pointer = f"{group}/workerTemplate/spec/containers/0/env/1"
    assert [(fault.pointer, fault.message) for fault in faults] == [(pointer, message)]


LWS_SECRET = {"name": "LWS_X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def test_another_container_of_a_group_may_have_such_a_variable() -> None:
    web = {"name": "web", "image": "nginx:1.27", "env": [LWS_SECRET]}
    document = _replacing("LeaderWorkerSet", {"command": ["vllm", "serve", "a/b"]})
    document["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"].append(web)
    faults: list[RequestFault] = []
    (engine,) = read_manifest(document, "", faults)
    assert (faults, engine.faults) == ([], ())


def _lws_env(name: str, **source: Any) -> list[dict[str, Any]]:
    return [{"name": name, "valueFrom": {**source}}]


OF_LWS_SECRET: dict[str, Any] = {"secretKeyRef": {"name": "s", "key": "k"}}


@table(
    ("name", "source", "script", "is_doubted"),
    [
        ("LWS_X", OF_LWS_SECRET, "vllm serve a/b", False),
        ("LWS_X", OF_LWS_SECRET, 'vllm serve a/b --port "$LWS_X"', False),
        ("LWS_X", OF_LWS_SECRET, "vllm serve a/b --port $LWS_X", True),
        ("LWS_LEADER_ADDRESS", OF_LWS_SECRET, "vllm serve a/b", False),
        ("LWS_LEADER_ADDRESS", OF_LWS_SECRET, "vllm serve a/b --host $(LWS_LEADER_ADDRESS)", True),
        ("LWS_LEADER_ADDRESS", OF_LWS_SECRET, "vllm serve a/b --host ${LWS_LEADER_ADDRESS}", True),
        ("LWS_LEADER_ADDRESS", {"fieldRef": {"fieldPath": "metadata.annotations['a']"}},
         "vllm serve a/b --host $LWS_LEADER_ADDRESS", True),
        ("LWS_LEADER_ADDRESS", {"fieldRef": {"fieldPath": "status.podIP"}},
         "vllm serve a/b --host $LWS_LEADER_ADDRESS", False),
    ],
)  # fmt: skip
def test_such_a_variable_elsewhere_is_a_doubt_only_if_a_word_uses_it(
    name: str, source: dict[str, Any], script: str, *, is_doubted: bool
) -> None:
    engine, faults = read_engine(_lws_env(name, **source), command=["sh", "-c", script])
    line = line_of(engine, faults)
    assert faults == []
    several = any(type(word) is Unknown and word.is_several for word in line.words)
    assert (several or any(name in doubt for doubt in (*engine.doubts, *line.doubts))) is is_doubted


SECRET = [{"secretRef": {"name": "s"}}]
SERVICES = ["KUBERNETES_SERVICE_PORT", "KUBERNETES_PORT", "FOO_SERVICE_HOST", "FOO_SERVICE_PORT_HTTP", "FOO_PORT"]


@table(
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
def test_a_reference_to_a_name_that_an_unseen_source_may_set_is_unknown(
    name: str, env_from: list[dict[str, Any]], *, is_known: bool
) -> None:
    args = ["--seed", f"$({name})"]
    engine, faults = read_engine(
        [{"name": NAME, "value": f"$({name})"}], config_map({"B": "1"}), envFrom=env_from, args=args
    )
    assert (engine.env[NAME], faults) == (f"$({name})" if is_known else None, [])
    assert isinstance(line_of(engine, faults).words[2], Unknown) is not is_known


def test_a_reference_to_a_name_that_is_set_has_its_value_whatever_else_sets_variables() -> None:
    env = [{"name": "FOO_SERVICE_PORT", "value": "1"}, {"name": NAME, "value": "$(FOO_SERVICE_PORT)"}]
    assert read(env, envFrom=SECRET)[0] == {"FOO_SERVICE_PORT": "1", NAME: "1"}
    assert read([{"name": NAME, "value": "$$(A)"}], envFrom=SECRET)[0] == {NAME: "$(A)"}


DEFAULTS = ["${TP:-2}", "${TP-2}", "${TP:=2}", "${TP=2}", '"${TP:-2}"', "$A_SERVICE_HOST"]
SHELLS = [["sh", "-c"], ["bash", "-c"], ["env", "-S", "nohup bash -c"], ["bash", "-c", 'bash -c "$0"']]


@table("shell", SHELLS)
@table("default", DEFAULTS)
def test_a_default_of_a_name_that_an_unseen_source_may_set_is_unknown(default: str, shell: list[str]) -> None:
    command = [*shell, f"vllm serve a/b --seed {default}"]
    for env_from in (SECRET, [{"configMapRef": {"name": "gone"}}]):
        engine, faults = read_engine([], envFrom=env_from, command=command)
        word = line_of(engine, faults).words[2]
        is_several = '"' not in default
        assert (type(word), isinstance(word, Unknown) and word.is_several, faults) == (Unknown, is_several, [])


@pytest.mark.parametrize("of_runtime", [False, True])
def test_a_default_is_unknown_if_an_unseen_source_sets_variables_of_a_predictor(*, of_runtime: bool) -> None:
    command = ["bash", "-c", "vllm serve a/b --seed ${TP:-2}"]
    hidden: dict[str, Any] = {"envFrom": SECRET}
    own = {"name": "kserve-container", "image": "x", "command": command} | (hidden if of_runtime else {})
    runtime = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "r"}}
    model = {"modelFormat": {"name": "vllm"}, "runtime": "r"} | ({} if of_runtime else hidden)
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "s"}}
    faults: list[RequestFault] = []
    engines = read_manifest(
        [runtime | {"spec": {"containers": [own]}}, service | {"spec": {"predictor": {"model": model}}}], "", faults
    )
    assert isinstance(line_of(engines[-1], faults).words[2], Unknown)
    assert faults == []


@pytest.mark.parametrize("default", DEFAULTS[:-1])
def test_a_default_of_a_name_that_is_set_or_that_no_unseen_source_sets_is_known(default: str) -> None:
    command = ["bash", "-c", f"vllm serve a/b --seed {default}"]
    known, set_here = {"configMapRef": {"name": "c"}}, {"name": "TP", "value": "4"}
    found = [
        read_engine([], config_map({"B": "1"}), envFrom=[known], command=command),
        read_engine([set_here], envFrom=SECRET, command=command),
        read_engine([], envFrom=SECRET, command=["bash", "-c", f"TP=3; {command[2]}"]),
    ]
    words = [line_of(engine, faults).words[2] for engine, faults in found]
    assert [(type(word), word) for word in words] == [(str, "2"), (str, "4"), (str, "3")]


@pytest.mark.parametrize(
    ("document", "is_known"),
    [
        ({"services": {"a": {}}}, True),
        ({"services": {"a": {"env_file": ".env"}}}, False),
        ({"services": {"a": {"extends": {"service": "b"}}}}, False),
    ],
)
def test_a_default_of_a_name_that_a_file_of_compose_may_set_is_unknown(
    document: dict[str, Any], *, is_known: bool
) -> None:
    faults: list[RequestFault] = []
    service = {"image": "x", "entrypoint": ["sh", "-c", "vllm serve a/b --seed $${TP:-2}"]}
    document["services"]["a"].update(service)
    (engine,) = read_manifest(document, "", faults)
    word = line_of(engine, faults).words[2]
    assert (type(word) is str, faults) == (is_known, [])


VOLUMES = [{"name": "c", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {}}, {"name": "s", "secret": {}}]
FILES = {"s.yaml": "model: a/b", "t.yaml": "model: a/c"}


@table(
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
@table("is_last", [False, True])
@table("path", ["/cfg", "/cfg/"])
def test_a_mount_below_another_hides_its_files(
    others: list[tuple[str, str, str | None]], hidden: set[str], path: str, *, is_last: bool
) -> None:
    mounts = [{"name": name, "mountPath": at, "subPath": sub} for name, at, sub in others]
    mounts.insert(len(mounts) if is_last else 0, {"name": "c", "mountPath": path, "subPath": None})
    container = {"image": "vllm/vllm-openai", "command": ["vllm", "serve"], "volumeMounts": mounts}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": VOLUMES}}
    (engine,) = read_manifest([config_map(FILES), pod], "", [])
    assert engine.files == {f"/cfg/{name}": text for name, text in FILES.items() if name not in hidden}


def test_a_mount_of_a_folder_below_hides_the_files_of_a_config_map() -> None:
    items = [{"key": "s.yaml", "path": "sub/s.yaml"}, {"key": "t.yaml", "path": "t.yaml"}]
    volumes = [{"name": "c", "configMap": {"name": "c", "items": items}}, VOLUMES[1]]
    mounts = [{"name": "c", "mountPath": "/cfg"}, {"name": "e", "mountPath": "/cfg/sub"}]
    container = {"image": "vllm/vllm-openai", "command": ["vllm", "serve"], "volumeMounts": mounts}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": volumes}}
    (engine,) = read_manifest([config_map(FILES), pod], "", [])
    assert engine.files == {"/cfg/t.yaml": "model: a/c"}


@table(
    ("mount", "files"),
    [
        ({}, {"/cfg/s.yaml": "s", "/cfg/d/t.yaml": "t"}),
        ({"subPath": ""}, {"/cfg/s.yaml": "s", "/cfg/d/t.yaml": "t"}),
        ({"subPath": None, "subPathExpr": ""}, {"/cfg/s.yaml": "s", "/cfg/d/t.yaml": "t"}),
        ({"subPath": "s.yaml"}, {"/cfg": "s"}),
        ({"subPath": "./s.yaml"}, {"/cfg": "s"}),
        ({"subPath": "d"}, {"/cfg/t.yaml": "t"}),
        ({"subPath": "d/"}, {"/cfg/t.yaml": "t"}),
        ({"subPath": "d/t.yaml"}, {"/cfg": "t"}),
        ({"subPath": "s"}, {}),
        ({"subPathExpr": "$(F).yaml"}, {"/cfg": "s"}),
        ({"subPathExpr": "d/$(G)"}, {}),
        ({"subPathExpr": "$(U)"}, {}),
    ],
)
def test_a_path_in_a_volume_is_what_is_mounted_of_it(mount: dict[str, Any], files: dict[str, str]) -> None:
    items = [{"key": "s.yaml", "path": "s.yaml"}, {"key": "t.yaml", "path": "d/t.yaml"}]
    env = [{"name": "F", "value": "s"}, {"name": "U", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    container = {
        "command": ["vllm", "serve"],
        "env": env,
        "volumeMounts": [{"name": "c", "mountPath": "/cfg", **mount}],
    }
    volumes = [{"name": "c", "configMap": {"name": "c", "items": items}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": volumes}}
    faults: list[RequestFault] = []
    (engine,) = read_manifest([config_map({"s.yaml": "s", "t.yaml": "t"}), pod], "", faults)
    assert faults == []
    assert engine.files == files


CONTAINER: dict[str, Any] = {
    "name": "v",
    "image": "vllm/vllm-openai:v0.23.0",
    "args": ["--model", "a/b"],
    "resources": {"limits": {"cpu": "2500m", "memory": "3Gi", "nvidia.com/gpu": 4}, "requests": {"cpu": 1}},
}
OVERWRITTEN = [
    *("pod-template-hash", "controller-revision-hash", "pod-template-generation", "job-name", "controller-uid"),
    *("rollouts-pod-template-hash", "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name"),
    *("batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"),
    *("leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/group-index"),
    *("jobset.sigs.k8s.io/job-index", "topology.kubernetes.io/zone", "ray.io/node-type", "volcano.sh/task-index"),
]
"""Labels and annotations that controllers set in the pods that they make."""
TEMPLATE_METADATA = {
    "labels": {"tp": "4", "n": 1, "app.kubernetes.io/name": "n", **dict.fromkeys(OVERWRITTEN, "0")},
    "annotations": {"a/b": "x", **dict.fromkeys(OVERWRITTEN, "0")},
}


@table(
    ("source", "value"),
    [
        ({"fieldRef": {"fieldPath": "metadata.labels['tp']"}}, "4"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['a/b']"}}, "x"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "team"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "3"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "2500"),
        *(({"resourceFieldRef": {"resource": "limits.cpu", "divisor": zero}}, "3") for zero in ("0", 0, "0m", None)),
        ({"resourceFieldRef": {"resource": "requests.cpu"}}, "1"),
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}, "3072"),
        ({"resourceFieldRef": {"resource": "limits.nvidia.com/gpu", "containerName": "v"}}, "4"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app.kubernetes.io/name']"}}, "n"),
        *(
            ({"fieldRef": {"fieldPath": f"metadata.{part}['{name}']"}}, None)
            for part in ("labels", "annotations")
            for name in OVERWRITTEN
        ),
        ({"fieldRef": {"fieldPath": "metadata.labels['none']"}}, None),
        ({"fieldRef": {"fieldPath": "metadata.labels['n']"}}, None),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, None),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, None),
        ({"fieldRef": {"fieldPath": 1}}, None),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "other"}}, None),
        ({"resourceFieldRef": {"resource": "limits.ephemeral-storage"}}, None),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": {}}}, None),
        ({"resourceFieldRef": {"resource": "cpu"}}, None),
    ],
)
def test_values_from_the_pod_itself(source: dict[str, Any], value: str | None) -> None:
    container = {**CONTAINER, "env": [{"name": "A", "valueFrom": source}]}
    template = {"metadata": TEMPLATE_METADATA, "spec": {"containers": [container]}}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "team"},
        "spec": {"template": template},
    }
    (found,) = read_manifest(document, "", [])
    assert found.env == {"A": value}


@table("zero", [0, "0", "0Gi", "0m", "0.0", 0.0])
@table(
    ("resource", "value"),
    [
        ("limits.cpu", None),
        ("limits.memory", None),
        ("limits.ephemeral-storage", None),
        ("requests.cpu", "0"),
        ("requests.memory", "0"),
        ("limits.nvidia.com/gpu", "0"),
    ],
)
def test_instead_of_a_limit_of_zero_a_pod_is_told_what_its_node_has(
    resource: str, zero: object, value: str | None
) -> None:
    names = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu")
    source = {"resourceFieldRef": {"resource": resource}}
    container = {
        **CONTAINER,
        "resources": {"limits": dict.fromkeys(names, zero)},
        "env": [{"name": "A", "valueFrom": source}],
    }
    (found,) = read_manifest({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}, "", [])
    assert found.env == {"A": value}


def test_the_name_of_a_pod_is_known() -> None:
    container = {**CONTAINER, "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
    (found,) = read_manifest(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}, "", []
    )
    assert found.env == {"A": "p"}


def _pods(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Objects of controllers that set variables in the containers of a pod."""
    aibrix, template = "orchestration.aibrix.ai/v1alpha1", {"spec": spec}
    roles = {"spec": {"roles": [{"name": "p", "replicas": 2, "podGroupSize": 4, "template": template}]}}
    (container,) = spec["containers"]
    dynamo = {"services": {"w": {"extraPodSpec": {"mainContainer": container}}}}
    keeps = {"annotations": {"ray.io/overwrite-container-cmd": "true"}}
    head = {"headGroupSpec": {"rayStartParams": {}, "template": {"metadata": keeps, **template}}}
    worker = {"workerGroupSpecs": [{"groupName": "w", "template": {"metadata": keeps, **template}}]}
    return {
        "StormService": {"apiVersion": aibrix, "spec": {"template": roles}},
        "RoleSet": {"apiVersion": aibrix, **roles},
        "PodSet": {"apiVersion": aibrix, "spec": {"podGroupSize": 4, "template": template}},
        "RayCluster": {"apiVersion": "ray.io/v1", "spec": head},
        "RayCluster of workers": {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": worker},
        "RayClusterFleet": {"apiVersion": aibrix, "spec": {"template": {"spec": head}}},
        "DynamoGraphDeployment": {"apiVersion": "nvidia.com/v1alpha1", "spec": dynamo},
        "DynamoGraphDeployment v1beta1": {
            "apiVersion": "nvidia.com/v1beta1",
            "kind": "DynamoGraphDeployment",
            "spec": {"components": [{"name": "w", "podTemplate": template}]},
        },
        "ModelServing": {
            "apiVersion": "workload.serving.volcano.sh/v1alpha1",
            "spec": {"template": {"roles": [{"name": "p", "entryTemplate": template}]}},
        },
        "Pod": {"apiVersion": "v1", "spec": spec},
    }


def _read_of(kind: str, container: dict[str, Any]) -> tuple[Container, CommandLine]:
    document = {"kind": kind, "metadata": {"name": "x"}, **_pods({"containers": [container]})[kind]}
    faults: list[RequestFault] = []
    (engine,) = read_manifest([document], "", faults)
    return engine, line_of(engine, faults)


SET_BY: dict[str, str] = {
    "StormService": "STORM_SERVICE_NAME ROLESET_NAME ROLESET_INDEX ROLE_NAME ROLE_TEMPLATE_HASH ROLE_REPLICA_INDEX "
    "PODSET_NAME POD_GROUP_INDEX POD_GROUP_SIZE",
    "RoleSet": "ROLE_REPLICA_INDEX POD_GROUP_SIZE",
    "PodSet": "ROLE_REPLICA_INDEX POD_GROUP_INDEX POD_GROUP_SIZE",
    "RayCluster": "RAY_PORT RAY_ADDRESS RAY_CLUSTER_NAME RAY_NODE_TYPE_NAME RAY_CLOUD_INSTANCE_ID REDIS_PASSWORD",
    "RayCluster of workers": "FQ_RAY_IP RAY_IP RAY_PORT RAY_USAGE_STATS_KUBERAY_IN_USE",
    "RayClusterFleet": "RAY_PORT FQ_RAY_IP",
    "DynamoGraphDeployment": "DYN_NAMESPACE DYN_COMPONENT DYN_SYSTEM_PORT DYNAMO_PORT DYN_PARENT_DGD_K8S_NAME POD_NAME "
    "POD_UID NATS_SERVER GROVE_PCLQ_POD_INDEX GROVE_PCSG_INDEX LWS_WORKER_INDEX",
    "DynamoGraphDeployment v1beta1": "DYN_NAMESPACE GROVE_PCLQ_POD_INDEX",
    "ModelServing": "GROUP_SIZE ENTRY_ADDRESS WORKER_INDEX",
    "Pod": "AZURE_CLIENT_ID AZURE_TENANT_ID AZURE_FEDERATED_TOKEN_FILE CUDA_VERSION",
}
"""The variables that a controller or the cluster may set, by kind."""


@table(("kind", "name"), [(kind, name) for kind, names in SET_BY.items() for name in names.split()])
def test_the_default_of_a_variable_that_a_controller_sets_is_not_known(kind: str, name: str) -> None:
    script = f"export {NAME}=${{{name}:-1}}; exec vllm serve a/b"
    container = {"name": "main", "image": "vllm/vllm-openai:v0.24.0", "command": ["bash", "-c", script]}
    _, line = _read_of(kind, container)
    assert line.env[NAME] is None
    if kind != "Pod":
        env = [{"name": NAME, "value": f"$({name})"}]
        engine, _ = _read_of(kind, {**container, "command": ["vllm", "serve", "a/b"], "env": env})
        assert engine.env[NAME] is None
    script = script.replace(name, f"MY_{name}")
    _, line = _read_of(kind, {**container, "command": ["bash", "-c", script]})
    assert line.env[NAME] == "1"


@table(
    ("kind", "name", "expected"),
    [
        ("RayCluster", "RAY_PORT", "7"),
        ("RayCluster of workers", "FQ_RAY_IP", None),
        ("DynamoGraphDeployment", "POD_NAME", "7"),
        ("DynamoGraphDeployment v1beta1", "POD_NAME", "7"),
        ("RoleSet", "ROLE_REPLICA_INDEX", None),
    ],
)
def test_a_controller_may_replace_a_variable_of_the_container(kind: str, name: str, expected: str | None) -> None:
    command = ["bash", "-c", f"export {NAME}=${{{name}:-1}}; exec vllm serve a/b"]
    container = {"name": "main", "image": "vllm/vllm-openai:v0.24.0", "command": command}
    _, line = _read_of(kind, {**container, "env": [{"name": name, "value": "7"}]})
    assert line.env[NAME] == expected


def test_a_service_of_dynamo_may_set_a_variable_of_the_operator() -> None:
    command = ["bash", "-c", f"export {NAME}=${{POD_NAME:-1}}; exec vllm serve a/b"]
    main = {"name": "main", "image": "vllm/vllm-openai:v0.24.0", "command": command}
    service = {"envs": [{"name": "POD_NAME", "value": "7"}], "extraPodSpec": {"mainContainer": main}}
    graph = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "spec": {"services": {"w": service}}}
    faults: list[RequestFault] = []
    (engine,) = read_manifest([graph], "", faults)
    assert line_of(engine, faults).env[NAME] == "7"


@table(
    ("env", "value", "is_doubted"),
    [({}, "1", True), ({"env": [{"name": NAME, "value": "0"}]}, "0", False)],
)
def test_the_secret_of_a_service_of_dynamo_is_the_last_source_of_variables(
    env: dict[str, Any], value: str, *, is_doubted: bool
) -> None:
    main = {"image": "vllm/vllm-openai:v0.24.0", "command": ["vllm", "serve", "$(M)"], "envFrom": [MAPPED], **env}
    for main_secret, sidecar_secret in (("s", None), (None, "s"), (None, None)):
        sidecar = {**main, "args": main["command"], "envFromSecret": sidecar_secret}
        service = {"envFromSecret": main_secret, "extraPodSpec": {"mainContainer": main}, "frontendSidecar": sidecar}
        kind = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment"}
        faults: list[RequestFault] = []
        engines = read_manifest(
            [config_map({NAME: "1", "M": "a/b"}), {**kind, "spec": {"services": {"w": service}}}], "", faults
        )
        engine = next(each for each in engines if each.path.endswith("mainContainer"))
        assert (engine.env[NAME], engine.env["M"], faults) == (value, "a/b", [])
        doubts = [REPLACED_VARIABLE.format("the Secret `s`")] if is_doubted and main_secret else []
        assert [each for each in engine.doubts if NAME in each] == doubts
        assert engine.has_hidden_variables is (main_secret is not None)


REPLACED_BY = {
    "LeaderWorkerSet": "LWS_LEADER_ADDRESS LWS_GROUP_SIZE LWS_WORKER_INDEX",
    "DisaggregatedSet": "LWS_LEADER_ADDRESS LWS_GROUP_SIZE LWS_WORKER_INDEX",
    "StormService": "STORM_SERVICE_NAME ROLESET_NAME ROLE_NAME ROLE_REPLICA_INDEX",
    "PodSet": "ROLE_NAME PODSET_NAME POD_GROUP_INDEX POD_GROUP_SIZE",
    "ModelServing": "GROUP_SIZE ENTRY_ADDRESS WORKER_INDEX",
    "InferenceService": "INFERENCE_SERVICE_NAME",
    "InferenceService with a container": "INFERENCE_SERVICE_NAME",
    "ServingRuntime of OME": "PARALLELISM_SIZE",
    "InferenceService of OME": "PARALLELISM_SIZE",
}
"""Variables that a controller sets in place of a container's own."""


def _replacing(kind: str, container: dict[str, Any]) -> dict[str, Any]:
    pod = {"spec": {"containers": [container]}}
    group = {"leaderWorkerTemplate": {"size": 1, "workerTemplate": pod}}
    role = {"name": "1", "template": pod}
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    model = {"modelFormat": {"name": "vLLM"}, "runtime": "kserve-vllmserver", "storageUri": "hf://a/b", **container}
    aibrix, kserve = "orchestration.aibrix.ai/v1alpha1", "serving.kserve.io/v1beta1"
    objects: dict[str, tuple[str, dict[str, Any]]] = {
        "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", group),
        "DisaggregatedSet": ("disaggregatedset.x-k8s.io/v1", {"roles": [{"name": "p", "spec": group}]}),
        "StormService": (aibrix, {"template": {"spec": {"roles": [role]}}}),
        "PodSet": (aibrix, {"podGroupSize": 1, "template": pod}),
        "ModelServing": (
            "workload.serving.volcano.sh/v1alpha1",
            {"template": {"roles": [{"name": "r", "entryTemplate": pod}]}},
        ),
        "InferenceService": (kserve, {"predictor": {"model": {**model, **limits}}}),
        "InferenceService with a container": (kserve, {"predictor": pod["spec"]}),
        "ServingRuntime of OME": ("ome.io/v1beta1", {"engineConfig": {"runner": {**container, **limits}}}),
        "InferenceService of OME": ("ome.io/v1beta1", {"engine": {"runner": {**container, **limits}}}),
    }
    version, spec = objects[kind]
    return {"apiVersion": version, "kind": kind.partition(" ")[0], "metadata": {"name": "x"}, "spec": spec}


@table(("kind", "name"), [(kind, name) for kind, names in REPLACED_BY.items() for name in names.split()])
def test_a_later_variable_and_an_argument_do_not_have_the_value_that_a_controller_replaces(
    kind: str, name: str
) -> None:
    env = [{"name": name, "value": "0"}, {"name": NAME, "value": f"$({name})"}]
    command = ["vllm", "serve", "a/b"]
    container = {"name": "main", "image": "vllm/vllm-openai:v0.24.0", "command": command, "env": env}
    faults: list[RequestFault] = []
    engines = read_manifest([_replacing(kind, container)], "", faults)
    known = {"LWS_GROUP_SIZE": "1"}  # LeaderWorkerSet sets it before the container's own variables
    assert [engine.env[NAME] for engine in engines] == [known.get(name)]
    assert not faults


@table(
    ("value", "expected"),
    [
        ("$(LWS_GROUP_SIZE)", "1"),
        ("$(LWS_LEADER_ADDRESS)", None),
        ("$(LWS_WORKER_INDEX)", None),
        ("$(LWS_X)", "$(LWS_X)"),
    ],
)
@table("kind", ["LeaderWorkerSet", "DisaggregatedSet"])
def test_a_variable_may_have_the_value_of_one_that_leaderworkerset_sets_before_it(
    value: str, expected: str | None, kind: str
) -> None:
    container: dict[str, Any] = {"command": ["vllm", "serve", "a/b"], "env": [{"name": "A", "value": value}]}
    sources = {"envFrom": [{"configMapRef": {"name": "c"}}]}
    own = {**container, "env": [{"name": "LWS_GROUP_SIZE", "value": "9"}, *container["env"]]}
    for written in (container, {**container, **sources}, own):
        faults: list[RequestFault] = []
        (engine,) = read_manifest([config_map({"LWS_GROUP_SIZE": "7"}), _replacing(kind, written)], "", faults)
        assert (engine.env["A"], engine.env["LWS_GROUP_SIZE"], faults) == (expected, "1", [])


def test_an_argument_does_not_have_the_value_that_kserve_replaces() -> None:
    name = "INFERENCE_SERVICE_NAME"
    container = {
        "image": "vllm/vllm-openai:v0.24.0",
        "env": [{"name": name, "value": "generate"}],
        "args": [f"--runner=$({name})"],
    }
    faults: list[RequestFault] = []
    (engine,) = read_manifest([_replacing("InferenceService", container)], "", faults)
    assert engine.env[name] is None
    words = read_command(engine.words, engine.places, engine.env, faults, "").words
    assert any(type(word) is Unknown for word in words)


@table(("kind", "names"), REPLACED_BY.items())
def test_nor_do_they_have_that_of_a_config_map(kind: str, names: str) -> None:
    name = names.rsplit(maxsplit=1)[-1]
    container: dict[str, Any] = {
        "name": "main",
        "image": "vllm/vllm-openai:v0.24.0",
        "command": ["vllm", "serve", "a/b"],
    }
    container |= {"envFrom": [{"configMapRef": {"name": "c"}}], "env": [{"name": NAME, "value": f"$({name})"}]}
    faults: list[RequestFault] = []
    engines = read_manifest([config_map({name: "0"}), _replacing(kind, container)], "", faults)
    assert [engine.env[NAME] for engine in engines] == [None]
    assert not faults


A0, A1 = ({"name": "A", "value": value} for value in "01")
OF_A = {"name": NAME, "value": "$(A)"}


@table(
    ("own", "envs", "of_graph", "expected"),
    [
        ([A0, OF_A], [], [], "0"),
        ([A0, OF_A], [A1], [], None),
        ([A0, OF_A], [], [A1], None),
        ([A0, OF_A], [A0], [], "0"),
        ([OF_A], [A0], [], "0"),
        ([OF_A, A0], [], [], "0"),
        ([OF_A], [A0], [A1], "0"),
        ([A0], [], [OF_A], "0"),
        ([A0, OF_A, A1], [], [], None),
        ([{"name": "ZZ", "value": "0"}, {"name": NAME, "value": "$(ZZ)"}], [], [], None),
        ([{"name": NAME, "value": "1"}], [{"name": NAME, "value": "0"}], [], None),
        ([{"name": "DYNAMO_PORT", "value": "0"}, {"name": NAME, "value": "$(DYNAMO_PORT)"}], [], [], None),
        ([{"name": NAME, "value": "$(NATS_SERVER)"}], [{"name": "NATS_SERVER", "value": "0"}], [], None),
        ([{"name": NAME, "value": "$(ETCD_ENDPOINTS)"}], [], [{"name": "ETCD_ENDPOINTS", "value": "0"}], None),
    ],
)
@pytest.mark.parametrize("kind", ["DynamoGraphDeployment", "DynamoComponentDeployment"])
def test_dynamo_merges_variables_by_name_and_sorts_them(
    own: list[dict[str, str]],
    envs: list[dict[str, str]],
    of_graph: list[dict[str, str]],
    expected: str | None,
    kind: str,
) -> None:
    main = {"image": "vllm/vllm-openai:v0.24.0", "command": ["vllm", "serve", "a/b"], "env": own}
    service = {"envs": envs, "extraPodSpec": {"mainContainer": main}}
    spec: dict[str, Any] = {"services": {"w": service}, "envs": of_graph}
    if kind == "DynamoComponentDeployment":
        spec = service if not of_graph else {**service, "envs": envs or of_graph}
    faults: list[RequestFault] = []
    document = {"apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    (engine,) = read_manifest([document], "", faults)
    assert engine.env[NAME] == expected
    assert not faults


@table(
    ("own", "expected"),
    [
        ([A0, OF_A], "0"),
        ([OF_A], "1"),
        ([{"name": "ZZ", "value": "0"}, {"name": NAME, "value": "$(ZZ)"}], None),
        ([{"name": "NATS_SERVER", "value": "0"}, {"name": NAME, "value": "$(NATS_SERVER)"}], None),
    ],
)
def test_dynamo_merges_the_variables_of_a_component(own: list[dict[str, str]], expected: str | None) -> None:
    main = {"name": "main", "image": "vllm/vllm-openai:v0.24.0", "command": ["vllm", "serve", "a/b"], "env": own}
    component = {"name": "w", "podTemplate": {"spec": {"containers": [main]}}}
    document = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "x"},
        "spec": {"components": [component], "env": [A1]},
    }
    faults: list[RequestFault] = []
    (engine,) = read_manifest([document], "", faults)
    assert engine.env[NAME] == expected
    assert not faults
