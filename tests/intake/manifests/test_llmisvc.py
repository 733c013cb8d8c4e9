"""KServe's LLMInferenceServiceConfig: by itself, merged into services, and its templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand
from policy.intake.command.words import Unknown, is_uncertain

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
ALONE = (
    "a configuration by itself: the model, the arguments and the variables of the services that name it are not known, "
    "and count as not set"
)
MISSING = (
    "`baseRefs` merges `c` into this object, which the manifest does not show; send the LLMInferenceServiceConfig as "
    "well"
)
UNCERTAIN = (
    "several LLMInferenceServiceConfigs of the manifest may be `{}`, and one of them is assumed; give each object "
    "once, with its `metadata.namespace`"
)
MERGED = "merged with the LLMInferenceServiceConfig `{}` of the manifest"
OWN_SCRIPT = (
    'KV="{{ kvTransferConfig .Spec.KVCacheOffloading }}"\n'
    'eval "exec vllm serve /mnt/models \\\n  --port 8000 ${KV} ${VLLM_ADDITIONAL_ARGS} $@"'
)


def config(name: str = "c", namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceServiceConfig",
        "metadata": metadata,
        "spec": spec,
    }


def service(*names: str, namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "s"} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": metadata,
        "spec": {
            "model": {"uri": "hf://org/m", "name": "m"},
            **({"baseRefs": [{"name": name} for name in names]} if names else {}),
            **spec,
        },
    }


def main(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", **fields}]}


def engines(*documents: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(list(documents) if len(documents) > 1 else documents[0], "", faults)
    assert faults == []
    return found


def of_service(*documents: dict[str, Any]) -> Container:
    place = len(documents) - 1
    (found,) = [each for each in engines(*documents) if each.path.startswith(f"[{place}]")]
    return found


@table(
    ("text", "rendered"),
    [
        ("{{ .Spec.Model.Name }}", "m"),
        ("a-{{.Spec.Model.Name}}-b", "a-m-b"),
        ("{{ .Spec.Parallelism.Tensor }}", "2"),
        ("{{ .ObjectMeta.Name }}/{{ .Name }}", "s/s"),
        ("x {{- if .Spec.Parallelism }} y{{- end }} z", "x y z"),
        ("x {{ if .Spec.Prefill }}y{{ else }}n{{ end }}", "x n"),
        ("{{ if .Spec.Prefill }}a{{ else if .Spec.Model }}b{{ else }}c{{ end }}", "b"),
        ("{{ if and .Spec.Parallelism .Spec.Parallelism.Data }}a{{ else }}b{{ end }}", "b"),
        ("{{ if not .Spec.Prefill }}{{ if true }}a{{ end }}b{{ end }}", "ab"),
        ("{{ or .Spec.Parallelism.Data 1 }}", "1"),
        ("{{ or .Spec.Parallelism.Tensor 1 }}", "2"),
        ("{{ or (and .Spec.Prefill `x`) `y` }}", "y"),
        ("a{{/* note */}}b", "ab"),
        ("a {{- /* note */ -}} b", "ab"),
        ("a\n{{- if true }}b{{ end }}", "a\nb"),
        ("{{ kvTransferConfig .Spec.KVCacheOffloading }}", ""),
        ("{{ if .GlobalConfig.EnableTLS }}--ssl-certfile /tls.crt{{ end }}", ""),
        ("{{ .Spec.Prefill.Name }}", "${Spec.Prefill.Name!}"),
        ("{{ ChildName .ObjectMeta.Name `-x` }}", "${ChildName_.ObjectMeta.Name_x!}"),
        ("{{ .Spec.Model }}", "${Spec.Model!}"),
        ("{{ .Spec.Model.Name | quote }}", "${Spec.Model.Name_quote!}"),
        ("{{ range .Spec.Items }}a{{ end }}b", "${range_.Spec.Items!}b"),
        ("{{ $x := 1 }}a{{ $x }}", "a${x!}"),
        ("{{ .GlobalConfig.SystemNamespace }}", "${GlobalConfig.SystemNamespace!}"),
        ("{{ unknown }}", "${unknown!}"),
        ("{{ }}", "${template!}"),
        ("{{ 1", None),
        ("{{ if true }}a", None),
        ("{{ end }}", None),
        ("{{ else }}", None),
        ("{{ true }}" * 300, None),
    ],
)
def test_a_template_is_rendered_with_the_service_as_far_as_it_is_known(text: str, rendered: str | None) -> None:
    pod = main(image=IMAGE, command=["vllm", "serve", "m", "--served-model-name", text])
    (found,) = engines(service(parallelism={"tensor": 2}, template=pod))
    assert found.words[4] == (text if rendered is None else rendered)
    assert (type(found.words[4]) is Unknown) is ("!}" in found.words[4] or "{{" in found.words[4])
    assert any("a template is not read" in note for note in found.notes) is (rendered is None)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("{{ if .GlobalConfig.EnableTLS }}--ssl-certfile /x --enable-ssl-refresh{{ end }}", 0),
        ("{{ if .GlobalConfig.EnableTLS }}--enforce-eager{{ end }}", 1),
        ("{{ if .GlobalConfig.EnableTLS }}HTTPS{{ else }}HTTP{{ end }}", 1),
        ("{{ if .Spec.Prefill }}--enforce-eager{{ end }}", 0),
    ],
)
def test_a_condition_that_is_not_known_is_noted_unless_nothing_depends_on_it(text: str, count: int) -> None:
    (found,) = engines(service(template=main(image=IMAGE, command=["vllm", "serve", "m", text])))
    note = "the value of `.GlobalConfig.EnableTLS` in a template is not known; it counts as not set"
    assert found.notes.count(note) == count


@pytest.mark.parametrize("field", ["command", "args"])
def test_a_configuration_by_itself_is_decided_without_the_values_of_a_service(field: str) -> None:
    script = "exec vllm serve /mnt/models --served-model-name {{ .Spec.Model.Name }} {{ or .Spec.Parallelism.Data 1 }}"
    words = ["bash", "-c", script]
    pod = main(image=IMAGE, **({"command": words} if field == "command" else {"command": words[:1], "args": words[1:]}))
    (found,) = engines(config(template=pod))
    assert (found.path, found.vllm_version) == ("spec.template.containers[0]", "0.23.0")
    assert found.words[2] == "exec vllm serve /mnt/models --served-model-name ${Spec.Model.Name!} 1"
    assert ALONE in found.notes


def test_each_role_of_a_configuration_is_an_engine_and_one_without_a_container_is_none() -> None:
    pod = main(image=IMAGE, command=["vllm", "serve", "/mnt/models"])
    found = engines(config(template=pod, worker=pod, prefill={"template": pod, "worker": pod}))
    paths = ["template", "worker", "prefill.template", "prefill.worker"]
    assert [each.path for each in found] == [f"spec.{path}.containers[0]" for path in paths]
    other = {"containers": [{"name": "main", "image": "epp:v1", "args": ["--pool-name", "{{ .Spec.Model.Name }}"]}]}
    assert engines(config(router={"scheduler": {"template": other}}), config(model={"uri": "hf://org/m"})) == []
    assert engines(config(template=main(resources={}))) == []


def test_a_configuration_without_a_command_has_that_of_kserve() -> None:
    (found,) = engines(config(template=main(image=IMAGE, args=["--enforce-eager"]), parallelism={"tensor": 2}))
    assert found.words == ["vllm", "serve", "/mnt/models", "--tensor-parallel-size", "2", "--enforce-eager"]


def test_the_configurations_that_a_service_names_are_merged_in_order() -> None:
    first = config("a", template=main(image="x/vllm-openai:v0.33.0", args=["--a"], env=[{"name": "A", "value": "1"}]))
    second = config("b", template=main(image=IMAGE, args=["--b"]), model={"uri": "hf://org/other"})
    own = main(env=[{"name": "A", "value": "2"}, {"name": "B", "value": "3"}])
    found = of_service(first, second, service("a", "b", template=own))
    assert (found.path, found.image) == ("[2].spec.template.containers[0]", IMAGE)
    assert (found.words, found.places[-1]) == (["vllm", "serve", "/mnt/models", "--b"], "baseRefs.args[0]")
    assert {name: found.env[name] for name in "AB"} == {"A": "2", "B": "3"}
    assert found.models == {"/mnt/models": "org/m"}
    assert [note for note in found.notes if "merged" in note] == [MERGED.format("a"), MERGED.format("b")]


def test_a_command_of_a_configuration_is_rendered_with_the_service() -> None:
    script = "exec vllm serve /mnt/models -tp {{ .Spec.Parallelism.Tensor }} {{ .Spec.Model.Name }}"
    shared = config(template=main(image=IMAGE, command=["sh", "-c", script]))
    found = of_service(shared, service("c", parallelism={"tensor": 4}))
    assert (found.path, found.words[2]) == ("[1].spec", "exec vllm serve /mnt/models -tp 4 m")
    assert found.places == ["baseRefs.command[0]", "baseRefs.command[1]", "baseRefs.command[2]"]


def test_fields_of_a_service_take_precedence_but_empty_ones_do_not() -> None:
    shared = config(template=main(image=IMAGE, args=["--a"]), parallelism={"tensor": 2})
    assert of_service(shared, service("c", template=main(args=["--b"]))).words[3:] == ["--b"]
    assert of_service(shared, service("c", template=main(args=[], image=""))).words[3:] == ["--a"]
    found = of_service(shared, service("c", parallelism={"tensor": 8}))
    assert found.words[3:] == ["--tensor-parallel-size", "8", "--a"]
    note = "KServe's templates read the `parallelism` of the service itself, not that of its configurations"
    assert note in of_service(shared, service("c")).notes


@table(
    ("config_in", "service_in", "image"),
    [
        (None, None, IMAGE),
        (None, "a", IMAGE),
        ("a", None, IMAGE),
        ("a", "a", IMAGE),
        ("kserve", "a", IMAGE),
        ("b", "a", None),
    ],
)
def test_a_configuration_is_that_of_the_namespace_or_of_kserve(
    config_in: str | None, service_in: str | None, image: str | None
) -> None:
    found = of_service(config("c", config_in, template=main(image=IMAGE)), service("c", namespace=service_in))
    doubts = [MISSING] if image is None else []
    assert (found.image, found.doubts, found.has_hidden_variables) == (image, doubts, image is None)
    assert [note for note in found.notes if note in doubts] == doubts


@table(
    ("configs_in", "service_in", "image", "is_certain"),
    [
        (["a", "kserve"], "a", 0, True),
        (["kserve", "a"], "a", 1, True),
        (["b", "kserve"], "a", 1, True),
        ([None, "a"], "a", 1, True),
        ([None, "b"], "a", 0, True),
        ([None, "kserve"], "a", 0, False),
        (["b", "c"], "a", None, True),
        (["a", "kserve"], None, 0, False),
        ([None, "b"], None, 0, False),
        (["b", "c"], None, 0, False),
        (["a", "a"], "a", 1, False),
        (["a", "a", "kserve"], "a", 1, False),
    ],
)
@table("is_preset", [False, True])
def test_of_several_configurations_the_one_that_counts_may_not_be_certain(
    configs_in: list[str | None],
    service_in: str | None,
    image: int | None,
    is_certain: bool,  # noqa: FBT001  # a table's value
    is_preset: bool,  # noqa: FBT001  # as above
) -> None:
    name = "kserve-config-llm-template" if is_preset else "c"
    configs = [config(name, each, template=main(image=f"{IMAGE}-{at}")) for at, each in enumerate(configs_in)]
    found = of_service(*configs, service(*([] if is_preset else ["c"]), namespace=service_in))
    assert found.image == (None if image is None else f"{IMAGE}-{image}")
    missing = [MISSING] if image is None and not is_preset else []
    assert found.doubts == (missing if is_certain else [UNCERTAIN.format(name)])


@table(
    ("fields", "doubt"),
    [
        (
            {"env": [{"name": "VLLM_ADDITIONAL_ARGS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            "the value of `VLLM_ADDITIONAL_ARGS` is not in the manifest; its arguments are not known",
        ),
        (
            {"envFrom": [{"secretRef": {"name": "s"}}]},
            "a source of variables that the manifest does not show may set `VLLM_ADDITIONAL_ARGS`",
        ),
        ({"envFrom": [{"secretRef": {"name": "s"}}], "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--b"}]}, ""),
        ({"envFrom": [{"secretRef": {"name": "s"}}], "command": ["vllm", "serve", "m"]}, ""),
    ],
)
def test_arguments_in_a_variable_that_is_not_known_are_a_doubt(fields: dict[str, Any], doubt: str) -> None:
    assert of_service(config("d"), service(template=main(**fields))).doubts == ([doubt] if doubt else [])


def test_the_same_configuration_given_twice_is_certain() -> None:
    shared = config("c", "a", template=main(image=IMAGE))
    assert of_service(shared, shared, service("c", namespace="a")).doubts == []


def test_a_configuration_that_is_not_shown_may_change_other_containers() -> None:
    pod = {"containers": [{"name": "main"}, {"name": "x", "image": IMAGE, "command": ["vllm", "serve", "m"]}]}
    found = engines(
        service("c", template=pod, router={"scheduler": {"template": {"containers": pod["containers"][1:]}}})
    )
    assert [each.doubts for each in found] == [[MISSING]] * 3
    found = engines(config("c", template=pod), service("c"))
    assert [each.doubts for each in found] == [[]] * 3


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("kserve-config-llm-template", {}),
        ("kserve-config-llm-worker-data-parallel", {"worker": main(), "parallelism": {"data": 2}}),
        ("kserve-config-llm-decode-template", {"prefill": {"replicas": 1}}),
    ],
)
def test_kserves_own_configurations_are_merged_if_the_manifest_shows_them(name: str, spec: dict[str, Any]) -> None:
    pod = main(image="ghcr.io/llm-d/llm-d-cuda:v0.9.0", command=["/bin/bash", "-c", OWN_SCRIPT, "--"])
    documents = [config(name, "kserve", template=pod), service(kvCacheOffloading={"cpu": "1Gi"}, **spec)]
    found = next(each for each in engines(*documents) if each.path == "[1].spec")
    assert (found.image, found.vllm_version) == ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", "0.26.0")
    assert found.words[:3] == ["vllm", "serve", "/mnt/models"]
    assert "--kv-transfer-config" in found.words
    other = of_service(config("kserve-config-llm-other", "kserve", template=pod), service())
    assert other.image is None


def test_a_changed_configuration_of_kserve_runs_its_own_command() -> None:
    pod = main(image=IMAGE, command=["bash", "-c", 'vllm serve /mnt/models --enforce-eager "$@"', "--"], args=["--a"])
    found = of_service(config("kserve-config-llm-template", template=pod), service())
    assert found.words == [*pod["containers"][0]["command"], "--a"]


@table("value", [7, "x", [1], {"containers": 7}, {"containers": [7]}, main(command=7, env=[7, {}])])
@table("field", ["template", "worker", "prefill", "model", "parallelism", "router"])
def test_no_value_of_a_configuration_breaks_a_service(field: str, value: Any) -> None:
    faults: list[RequestFault] = []
    read_manifest([config("c", **{field: value}), service("c"), service()], "", faults)
    faults.clear()
    read_manifest([{**config("c"), "spec": value}, {**service("c"), "spec": {"baseRefs": value}}], "", faults)


IN_SCRIPT = (
    "KServe writes `{}` into a script as it is, and a shell may read its value as other words; use letters, digits and "
    "`._/:@-` only"
)
ADDS = "q --enforce-eager"


@table(
    ("fields", "path"),
    [
        ({"model": {"uri": "hf://org/m", "name": ADDS}}, "spec.model.name"),
        *(
            ({"model": {"uri": "hf://org/m", "name": f"m{mark}"}}, "spec.model.name")
            for mark in "'\"$`;&|<>(){}*?[]~#\\\n"
        ),
        ({"model": {"uri": "hf://org/m", "name": 7}}, "spec.model.name"),
        (
            {"model": {"uri": "hf://org/m", "lora": {"adapters": [{"name": f"a' {ADDS}"}]}}},
            "spec.model.lora.adapters[0].name",
        ),
        ({"kvCacheOffloading": {"evictionPolicy": f"' {ADDS}"}}, "spec.kvCacheOffloading.evictionPolicy"),
        ({"tracing": {"exporterEndpoint": f"http://a {ADDS}"}}, "spec.tracing.exporterEndpoint"),
        (
            {"template": main(env=[{"name": "VLLM_API_SERVER_COUNT", "value": f"1 {ADDS}"}])},
            "env.VLLM_API_SERVER_COUNT",
        ),
        (
            {"template": main(env=[{"name": "DP_ADDRESS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])},
            "env.DP_ADDRESS",
        ),
        ({"model": {"uri": "hf://org/m", "name": "Org/Model-1.0:a@b_c"}}, None),
        ({"model": {"uri": "hf://org/m", "name": ADDS}, "template": main(command=["vllm", "serve", "m"])}, None),
        ({"tracing": {"exporterEndpoint": "http://a:4317"}, "kvCacheOffloading": {"evictionPolicy": "lru"}}, None),
    ],
)
def test_what_kserve_writes_into_its_script_is_a_doubt_unless_it_is_plain(
    fields: dict[str, Any], path: str | None
) -> None:
    (found,) = engines(service(**fields))
    doubts = [] if path is None else [IN_SCRIPT.format(path)]
    assert [doubt for doubt in found.doubts if "into a script" in doubt] == doubts


def test_a_name_of_a_configuration_is_written_into_the_script_too() -> None:
    found = of_service(config(model={"name": ADDS}), service("c", model={"uri": "hf://org/m"}))
    assert found.doubts == [IN_SCRIPT.format("[1].spec.model.name")]


@table("name", ["BASH_ENV", "PS4", "SHELLOPTS", "BASH_FUNC_eval%%"])
def test_a_variable_that_changes_bash_is_a_doubt(name: str) -> None:
    found = of_service(config("d"), service(template=main(env=[{"name": name, "value": "x"}])))
    assert len(found.doubts) == 1


ENDS = "{}: a shell ends the command within `{}`; put quotes around what belongs to it"
KNOWN_BY_SCRIPT = "{}: `{}` has what only the script around it knows; write its value"
OTHER_WORDS = (
    "a shell reads the arguments as one text, of which it makes other words than of each argument; put quotes around "
    "what belongs together"
)


@table(
    ("args", "doubt"),
    [
        (["--seed", "1"], None),
        (["--hf-overrides", "'{\"a\": [1, 2]}'"], None),
        (["--hf-overrides", '"{\\"a\\": 1}"', "--enforce-eager"], None),
        (["--max-model-len", "$LEN", "--enforce-eager"], None),
        (["--max-model-len", "$(LEN)", "--enforce-eager"], None),
        *(
            (["--seed", text, "--enforce-eager"], ENDS.format("args[1]", text))
            for text in ("1; vllm serve x", "1 & vllm serve x", "1 | vllm serve x", "1 > /usr/x", "1 2>/x")
        ),
        (["--seed", "'1", "2'"], "args[1]: a shell refuses `'1`: the quote `'` at character 6 is not closed; close it"),
        *((["--seed", text, "--enforce-eager"], OTHER_WORDS) for text in ("1 #", "1\n", "1;", "1 &")),
        (
            ["--seed", "1 <", "--enforce-eager"],
            "args[1]: the script has a redirection without a file; a shell may interpret it differently",
        ),
        (["--seed", "$$(LEN)"], KNOWN_BY_SCRIPT.format("args[1]", "$(LEN)")),
        (
            ["--seed", "1\\", "--enforce-eager"],
            "args[1]: the script has the character `\\` at character 7; a shell may interpret it differently",
        ),
        *((["--seed", text], KNOWN_BY_SCRIPT.format("args[1]", text)) for text in ("$@", '"$*"', "${@}")),
    ],
)
def test_arguments_that_a_shell_reads_in_another_way_are_a_doubt(args: list[str], doubt: str | None) -> None:
    pod = main(args=args, env=[{"name": "LEN", "value": "8"}])
    found = of_service(config("d"), service(template=pod))
    assert found.doubts[:1] == ([] if doubt is None else [doubt])
    assert not found.doubts or found.doubts[0] in found.notes


@table("text", ["{a,--enforce-eager}", "{1..3}", "*", "a?", "[ab]", "~/x", "$X", "$ACCESS_LOG_ARGS", "$1", "`ls`"])
@table("is_variable", [False, True])
def test_a_word_that_a_shell_may_expand_keeps_its_kind(text: str, is_variable: bool) -> None:  # noqa: FBT001  # a table's value
    words = {"env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": f"--seed {text}"}]}
    pod = main(**words) if is_variable else main(args=["--seed", text], env=[{"name": "ACCESS_LOG_ARGS", "value": "1"}])
    found = of_service(config("d"), service(template=pod))
    assert is_uncertain(found.words[-1])
    server = find_server(found.words, found.env, is_command=True)
    assert isinstance(server, ServerCommand)
    assert is_uncertain(server.words[-1])


@table("text", ["hunter2; echo", "'hunter2", "hunter2 $@", "$(hunter2)"])
def test_a_message_about_the_arguments_hides_a_secret(text: str) -> None:
    found = of_service(config("d"), service(template=main(args=["--api-key", text])))
    assert found.notes
    assert not any("hunter2" in message for message in (*found.notes, *found.doubts))
