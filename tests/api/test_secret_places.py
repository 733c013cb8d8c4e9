"""A random secret under the name of one, in a random structure at a random place, is in no answer and no log."""

from __future__ import annotations

import json
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from representatives import slow_except

from policy.rules.loader import default_folder
from service.admission.engines import AdmissionOptions
from service.jobs.messages import Job, JobKind, JobSettings
from service.jobs.worker import JobWorker
from service.reload.reload import RulesFolder, load_at_start
from service.state.answers import today

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE: Final = "vllm/vllm-openai:v0.33.0"
MODEL: Final = "Qwen/Qwen3-8B"
CONFIG: Final = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_attention_heads": 32}
LETTERS: Final = "bcdfghjkmnpqrtvwxzBCDFGHJKMNPQRTVWXZ23456789"
"""What a secret consists of; no word of a message has six of these in a row."""
MARKS: Final = (
    "",
    "",
    "-",
    "/",
    "+",
    "=",
    ":",
    "@",
    "#",
    "!",
    ",",
    ";",
    "'",
    '"',
    "\\",
    " ",
    "&",
    "|",
    "%",
    "$",
    "*",
    "`",
)
"""What stands in the middle of a secret."""
NAMES: Final = ("HF_TOKEN", "API_KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "client_secret", "my-password")

Text = tuple[str, str]


def spellings(name: str, value: str) -> list[str]:
    """Texts that give a value to a name, or to the user of an address."""
    plain = value.replace("\n", " ")
    document = json.dumps({name: value})
    return [
        *(f"{name}={shlex.quote(plain)}", f"{name}={quote(plain, safe='')}", f"https://h/x?a=1&{name}={quote(plain)}"),
        *(f"{name}: {plain}", f"--{name}={plain}", f"--{name} {plain}", f"{name}: |\n  {plain}", f"{name}:\n- {plain}"),
        *(document, json.dumps({name: [value]}), json.dumps({"a": [{name: {"x": [value]}}]}), json.dumps(document)),
        *(json.dumps({"name": name, "value": value}), json.dumps({"value": value, "name": name})),
        *(json.dumps([{"key": name, "value": value}]), json.dumps([f"--{name}", value]), repr({name: value})),
        *(document.replace(name[1], f"\\u00{ord(name[1]):02x}", 1), f"%{ord(name[0]):02x}{name[1:]}={plain}"),
        *(f"Authorization: Negotiate {plain}", f"https://user:{plain}@h/x", f"https://user:{plain}\uff20h/x"),
        *(quote(f"https://user:{plain}@h/x", safe=""), f"'{name}' {shlex.quote(plain)}"),
    ]


def deployment(words: object, **members: Any) -> dict[str, Any]:
    return {"vllm_version": "0.33.0", "deployment": {"args": words, "model_configs": {MODEL: CONFIG}, **members}}


def pod(**container: Any) -> dict[str, Any]:
    annotations = {"runner-policy/model-configs": json.dumps({MODEL: CONFIG})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "annotations": annotations},
        "spec": {"containers": [{"name": "vllm", "image": IMAGE, **container}]},
    }


def annotated(key: str, value: str, **container: Any) -> dict[str, Any]:
    found = pod(**container)
    found["metadata"]["annotations"][key] = value
    return found


FLAGS: Final = (
    *(
        "--quantization",
        "--dtype",
        "--chat-template",
        "--worker-cls",
        "--max-model-len",
        "--hf-overrides",
        "--nonsense",
    ),
    *("--speculative-config", "--compilation-config", "--attention-backend", "--distributed-executor-backend"),
    *("--tool-call-parser", "--kv-cache-dtype", "--runner", "--served-model-name", "--config"),
)
SERVE: Final = ("serve", MODEL)


def of_text(flag: str, text: str) -> list[dict[str, Any]]:
    """Requests that have a text at each place."""
    words = [*SERVE, flag, text]
    script = f"vllm serve {MODEL} {flag} {shlex.quote(text)}"
    service = {"image": IMAGE, "command": [text.replace("$", "$$") for text in words[1:]]}
    return [
        *(deployment(words), deployment([*SERVE, f"{flag}={text}"]), deployment([*SERVE, text]), deployment(script)),
        *(deployment(["bash", "-c", script]), deployment(["serve", text]), deployment(["env", text, "vllm", *SERVE])),
        *(deployment(SERVE, env={"VLLM_USE_V2_MODEL_RUNNER": text}), deployment(SERVE, env={"VLLM_PLUGINS": text})),
        deployment([*SERVE, "--config", "c.yaml"], files={"c.yaml": f"{flag[2:]}: {json.dumps(text)}\n"}),
        deployment([*SERVE, "--kv-transfer-config", json.dumps({"kv_connector": text, "kv_role": "kv_both"})]),
        deployment(SERVE, model_configs={MODEL: {**CONFIG, "architectures": [text]}}),
        deployment(SERVE, model_configs={MODEL: {**CONFIG, "quantization_config": {"quant_method": text}}}),
        deployment(SERVE, model_configs={text: 1}),
        deployment(SERVE, env={"A": [text]}),
        *({"manifest": each} for each in (pod(args=words[1:]), pod(command=["bash", "-c", script]))),
        {"manifest": pod(args=["--model", MODEL, flag, "$(X)"], env=[{"name": "X", "value": text.replace("$", "$$")}])},
        {"manifest": pod(image=f"h/{text}/vllm", args=words[1:])},
        {"manifest": {"services": {"vllm": service}}},
        {"manifest": {"script": f"docker run {IMAGE} --model {MODEL} {flag} {shlex.quote(text)}"}},
    ]


def of_value(flag: str, name: str, value: str) -> list[dict[str, Any]]:
    """Requests that state the value of a name, which a command uses, at each place."""
    words = ["--model", MODEL, flag, "$(X)"]
    reference = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": name}}}]
    field = [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{name}']"}}}]
    variable = name.replace("-", "_")
    env = [{"name": variable, "value": value}]
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {name: value}}
    template = {"apiVersion": "template.openshift.io/v1", "kind": "Template"}
    used = pod(args=["--model", MODEL, flag, f"${{{variable}}}"])
    service = {"image": IMAGE, "command": ["--model", MODEL, flag, "x"]}
    return [
        deployment(f'vllm serve {MODEL} {flag} "${variable}"', env={variable: value}),
        *({"manifest": [data, each]} for each in (pod(args=words, env=reference), pod(args=words, env=field))),
        {"manifest": annotated(name, value, args=words, env=field)},
        {"manifest": pod(args=["--model", MODEL, flag, f"$({variable})"], env=env)},
        {"manifest": pod(command=["sh", "-c", f'vllm serve {MODEL} {flag} "${variable}"'], env=env)},
        {"manifest": {**template, "parameters": [{"name": variable, "value": value}], "objects": [used]}},
        {"manifest": {**template, "parameters": [{"value": value, "name": variable}], "objects": [used]}},
        {"manifest": {"services": {"vllm": {**service, "environment": {variable: value}}}}},
        {"manifest": {"services": {"vllm": {**service, "environment": [f"{variable}={value}"]}}}},
        {"manifest": annotated("runner-policy/model-configs", json.dumps({name: value}), args=words)},
        {"manifest": pod(args={name: [value]})},
        {"manifest": pod(args=words, env={name: [value]})},
        deployment(SERVE, env={name: [value]}),
        deployment([*SERVE, f"--{name}", value, flag, value]),
    ]


@cache
def worker() -> JobWorker:
    return JobWorker(dict(load_at_start(RulesFolder(default_folder()))[0].rules), None, None)


def answers(document: dict[str, Any]) -> str:
    """All that the service says about a request, and a review of its manifest: the answers and the log's lines."""
    asked: list[tuple[JobKind, Any]] = [(JobKind.DECISION, document), (JobKind.DECISION, {**document, "explain": True})]
    reviewed = document.get("manifest")
    if isinstance(reviewed, dict) and reviewed.get("kind") == "Pod":
        kind = {"group": "", "version": "v1", "kind": "Pod"}
        request = {"uid": "u", "kind": kind, "operation": "CREATE", "object": reviewed}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        asked.append((JobKind.VALIDATE, review))
    return said(asked)


def said(asked: list[tuple[JobKind, Any]]) -> str:
    """The answers of jobs and the log's lines about them."""
    options = AdmissionOptions(deny=True, set_env="always", fail="closed")
    settings = JobSettings(None, 10_000, 10_000, 64 << 20, 5, options, is_logged=True, logs_dry_runs=True)
    said: list[bytes] = []
    for job, body in asked:
        text = json.dumps(body).encode()
        found = worker().result(
            Job(job, "", text, b"", wants_text=False, path="", caller="", began=0, settings=settings), today()
        )
        said += [found.body, *found.lines]
    return b"\n".join(said).decode()


def update(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The review of a change of an object."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": "u", "kind": kind, "operation": "UPDATE", "object": after, "oldObject": before}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


TOKENS: Final = st.text(LETTERS, min_size=8, max_size=10)
VALUES: Final = st.tuples(TOKENS, st.sampled_from(MARKS), TOKENS)


@st.composite
def requests(draw: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """The parts of a secret, and a request that has it."""
    first, mark, second = draw(VALUES)
    name, flag, value = draw(st.sampled_from(NAMES)), draw(st.sampled_from(FLAGS)), f"{first}{mark}{second}"
    text = draw(st.sampled_from(spellings(name, value)))
    document = draw(st.sampled_from([*of_text(flag, text), *of_value(flag, name, value)]))
    return [first[:6], second[:6]], document


@given(requests())
def test_no_answer_and_no_log_has_a_secret(asked: tuple[list[str], dict[str, Any]]) -> None:
    parts, document = asked
    said = answers(document)
    assert [part for part in parts if part in said] == []


SHORT: Final = "Zq7"


@pytest.mark.parametrize("value", slow_except([SHORT], [SHORT, f'"{SHORT}"']))
def test_a_short_secret_is_not_shown_where_it_is_stated(value: str) -> None:
    texts = spellings("HF_TOKEN", value)
    asked = [document for text in texts for document in of_text("--max-num-seqs", text)]
    assert [document for document in asked if SHORT in answers(document)] == []


@pytest.mark.parametrize(
    ("value", "is_shown"),
    [("Zq7", True), ("Zq7Zq", True), ('"Zq7"', True), ("Zq7Zq7", False), ('"Zq7Z"', False), ("Zq7, Z", False)],
)
def test_a_secret_of_less_than_six_characters_is_shown_where_it_is_repeated(value: str, *, is_shown: bool) -> None:
    document = deployment([*SERVE, "--api-key", value, "--max-num-seqs", value])
    assert (SHORT in answers(document)) == is_shown


SECRET: Final = "Zq8JbhpkJG4r"
ENV: Final = [{"name": "API_KEY", "value": SECRET}]


@pytest.mark.parametrize(
    "after",
    [
        pod(args=["--model", MODEL, "--worker-cls", SECRET]),
        pod(args=["--model", SECRET]),
        pod(args=["--model", MODEL, f"--{SECRET}"]),
        pod(args={"a": SECRET}),
        pod(command=["sh", "-c", f"x {SECRET} | vllm serve {MODEL} --{SECRET}"]),
        annotated("runner-policy/vllm-version", SECRET, args=["--model", MODEL]),
        annotated("runner-policy/model-configs", f"{SECRET}: 1", args=["--model", MODEL]),
    ],
)
def test_a_secret_of_the_object_before_a_change_is_not_shown(after: dict[str, Any]) -> None:
    shown = said(
        [(job, update(pod(args=["--model", MODEL], env=ENV), after)) for job in (JobKind.VALIDATE, JobKind.MUTATE)]
    )
    assert "--worker-cls" not in str(after) or "worker" in shown
    assert SECRET not in shown


OPTIONS: Final = (
    *(f"api-key: [aaa, {SECRET}]\n", f"api-key:\n- aaaaaa\n- {SECRET}\n", f"additional-config:\n  a: {SECRET}\n"),
    *(f"additional-config: {{a: {SECRET}}}\n", f"x: &a {SECRET}\napi-key: *a\n"),
)
"""Files of `--config` whose options have a secret that their text does not show to be one."""
FAULTS: Final[tuple[dict[str, Any], ...]] = (
    *({SECRET: 1}, {"vllm_version": SECRET}, {"beyond_verified": SECRET}, {"layers": [SECRET]}, {"explain": SECRET}),
    *({"environment": {SECRET: SECRET}}, {"model_configs": {SECRET: 1}}, {"request_id": [SECRET]}),
    *({"facts": {SECRET: 1}}, {"override_images": SECRET}),
)
"""Fields of a request that have faults which quote a secret."""


@pytest.mark.parametrize("text", OPTIONS)
def test_a_fault_anywhere_in_a_request_shows_no_secret_of_a_file_of_options(text: str) -> None:
    words = [*SERVE, "--config", "c.yaml"]
    of_deployment: list[dict[str, Any]] = [
        *({"env": {"A": [SECRET]}}, {"files": {"c.yaml": text, "d": [SECRET]}}, {"model_configs": {SECRET: 1}}),
        *({SECRET: 1}, {"environment": {SECRET: 1, "platform": SECRET}}, {"args": [*words, {SECRET: 1}]}),
    ]
    documents = [deployment(words, **{"files": {"c.yaml": text}, **fault}) for fault in of_deployment]
    documents += [{**deployment(words, files={"c.yaml": text}), **fault} for fault in FAULTS]
    mounted = pod(
        args=["--model", MODEL, "--config", "/c/c.yaml"],
        env=[{"name": "A", "value": [SECRET]}],
        volumeMounts=[{"name": "c", "mountPath": "/c"}],
    )
    mounted["spec"]["volumes"] = [{"name": "c", "configMap": {"name": "m"}}]
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"c.yaml": text}}
    documents += [{"manifest": [config_map, mounted], **fault} for fault in (*FAULTS, {})]
    assert [document for document in documents if SECRET in asked_with_faults(document)] == []


STATED: Final[dict[str, Any]] = {
    "a reference": {"env": [{"name": "X", "value": SECRET}, {"name": "API_KEY", "value": "$(X)"}]},
    "an argument": {"env": [{"name": "X", "value": SECRET}], "args": ["--token", "$(X)"]},
    "a ConfigMap": {"env": [{"name": "API_KEY", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "x"}}}]},
    "an annotation": {
        "env": [{"name": "API_KEY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}}}]
    },
    "a variable": {"env": [{"name": "API_KEY", "value": SECRET}]},
}


@pytest.mark.parametrize("fields", STATED.values(), ids=STATED)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_beside_a_manifest_shows_no_secret_of_its_containers(
    fields: dict[str, Any], fault: dict[str, Any]
) -> None:
    found = annotated("x", SECRET, args=["--model", MODEL])
    found["spec"]["containers"].append({"name": "b", "image": "b", **fields})
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": SECRET}}
    assert SECRET not in asked_with_faults({"manifest": [config_map, found], **fault})


def asked_with_faults(document: dict[str, Any]) -> str:
    """The answers to a request that has faults, and to a check of a request to its deployment."""
    shown = said(
        [
            *((job, document) for job in (JobKind.DECISION, JobKind.DRY_RUN)),
            (JobKind.CHECK, {**document, "request": {"n": SECRET}}),
            (JobKind.IMPACT, {"deployments": [document], "to": "0.30.0"}),
        ]
    )
    assert "invalid-request" in shown or "unknown-release" in shown
    return shown
