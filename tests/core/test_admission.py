"""Answers to Kubernetes admission reviews: messages, warnings, denials and patches.

The reviews were recorded at an API server; some tests change them.
"""

from __future__ import annotations

import base64
import copy
import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from representatives import slow_except

from policy.decision.decision import encode
from policy.errors import EngineFailed, RequestInvalid
from policy.intake.command.vllm_command import REMEDY
from service.admission.annotations import BEYOND_VERIFIED, MODEL_CONFIGS, SET_ENV, VLLM_VERSION
from service.admission.engines import AdmissionOptions
from service.admission.handler import answer_review
from service.admission.messages import MAX_PATH, MAX_WARNING, MAX_WARNINGS
from service.admission.review import read_review

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.decision.decision import Decision
    from policy.errors import RequestFault
    from policy.policy import Policy
    from policy.request.request import Request

Document = dict[str, Any]
Steps = tuple[str | int, ...]

FOLDER = Path(__file__).with_name("admission")
REVIEWS: dict[str, Document] = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
TODAY = date(2026, 1, 1)
VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
TO_V1 = {"name": VARIABLE, "value": "0"}
NIXL = ["--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}']
QWEN = "Qwen/Qwen3-8B"
POD, TEMPLATE = "spec.containers[0]", "spec.template.spec.containers[0]"
LEADER, WORKER = (f"spec.leaderWorkerTemplate.{role}Template.spec.containers[0]" for role in ("leader", "worker"))

WARN = AdmissionOptions(deny=False, set_env="annotated", fail="open")
DENY = AdmissionOptions(deny=True, set_env="annotated", fail="open")
STRICT = AdmissionOptions(deny=True, set_env="always", fail="closed")
ALWAYS = AdmissionOptions(deny=False, set_env="always", fail="open")
OFF = AdmissionOptions(deny=False, set_env="off", fail="open")

ANNOTATED = f"decided for vLLM 0.23.0, by the annotation `{VLLM_VERSION}`; no image shows vLLM's version"
SET = (
    f"vLLM alone would use V2, the policy decided V1; set {VARIABLE}=0"
    "; rule `kv-connector-fallback`: a KV connector (NixlConnector) keeps this deployment on V1"
)
DBO = "vLLM will not start: Model Runner V2 does not yet support: dual batch overlap"
ELSEWHERE = f"the value of `{VARIABLE}` is not known here; it is assumed to be unset"
WITHOUT_EFFECT = (
    f"setting `{VARIABLE}` in the container's `env` has no effect: the command clears it, or may change it (args[0]); "
    f"put `env {VARIABLE}=0` right before vLLM's program"
)
OFFLOADING = "`spec.kvCacheOffloading` takes effect from vLLM 0.22; KServe asks the image for its version"
LLAMA = (
    "not decided: the config.json of `meta-llama/Llama-3.1-8B-Instruct` is needed, under the name that the arguments "
    f"give it; write it into the annotation `{MODEL_CONFIGS}`"
)
EXPLAINED = "correct the arguments or variables that are named; `POST /v1/dry-run` explains"
DENIED_UNDECIDED = "objects that cannot be decided are denied here; add what is missing"


@pytest.fixture
def decide(policy: Policy) -> Callable[..., Any]:
    """The shipped policy's decision on a request."""

    def decided(request: Request, **_: bool) -> Decision:
        return policy.decide(request, TODAY)

    return decided


@pytest.fixture
def ask(policy: Policy, decide: Callable[..., Any]) -> Callable[..., tuple[str, Document]]:
    """Review a document and return the outcome and the response.

    The response has its patch decoded, and lacks the values that vary.
    """

    def answer(
        document: Document,
        options: AdmissionOptions,
        *,
        mutating: bool = False,
        decide_with: Callable[..., Any] = decide,
    ) -> tuple[str, Document]:
        return answer_of(policy, decide_with, document, options, mutating=mutating)

    return answer


def answer_of(
    policy: Policy, decide: Callable[..., Any], document: Document, options: AdmissionOptions, *, mutating: bool
) -> tuple[str, Document]:
    found = answer_review(read_review(document), policy.releases, decide, options, mutating=mutating)
    document_of_answer = json.loads(encode(found.response))
    response: Document = document_of_answer.pop("response")
    assert document_of_answer == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert response.pop("uid") == document["request"]["uid"]
    if "patch" in response:
        response["patch"] = json.loads(base64.b64decode(response["patch"], validate=True))
    annotations = response.get("auditAnnotations", {})
    if "revision" in annotations:
        assert annotations.pop("revision") == policy.revision
        assert len(annotations.pop("decision-id").split()[0].rpartition("=")[2]) == len(
            "01a1fe71-f6be-7355-8c10-1499035d009a"
        )
    return found.result, response


def review_of(name: str) -> Document:
    return copy.deepcopy(REVIEWS[name])


def deployment(**template: Any) -> Document:
    """The review of a new Deployment, with fields of its container changed."""
    document = review_of("deployment-create")
    document["request"]["object"]["spec"]["template"]["spec"]["containers"][0].update(template)
    return document


def pod(*containers: Document, annotations: Document | None = None) -> Document:
    """The review of a new Pod with these containers."""
    document = review_of("pod-of-replicaset")
    made = document["request"]["object"]
    made["metadata"]["annotations"].update(annotations or {})
    made["spec"]["containers"] = [
        {"name": f"c{n}", "image": "vllm/vllm-openai:v0.23.0", **container} for n, container in enumerate(containers)
    ]
    return document


def updated(document: Document, change: Callable[[Document], Any]) -> Document:
    """An update of the object that a review creates, with ``change`` applied."""
    request = copy.deepcopy(document)["request"]
    request["oldObject"] = copy.deepcopy(request["object"])
    change(request["object"])
    return {**document, "request": {**request, "operation": "UPDATE"}}


def warned(*warnings: str, runner: str = f"{TEMPLATE}=v1") -> Document:
    return {"allowed": True, "auditAnnotations": {"runner": runner}, "warnings": list(warnings)}


def denied(message: str, *warnings: str, runner: str) -> Document:
    status = {"message": message, "code": 403, "reason": "Forbidden"}
    return {
        "allowed": False,
        "status": status,
        "auditAnnotations": {"runner": runner},
        **({"warnings": list(warnings)} if warnings else {}),
    }


def patched(*operations: Document, runner: str) -> Document:
    return {
        "allowed": True,
        "patch": list(operations),
        "patchType": "JSONPatch",
        "auditAnnotations": {"runner": runner},
    }


def name_test(pointer: str, name: str = "vllm") -> Document:
    return {"op": "test", "path": f"{pointer}/name", "value": name}


def appended(pointer: str, value: Document) -> Document:
    return {"op": "add", "path": f"{pointer}/env/-", "value": value}


NOTHING: Document = {"allowed": True}
IN_TEMPLATE, IN_POD = "/spec/template/spec/containers/0", "/spec/containers/0"
IN_LEADER, IN_WORKER = (f"/spec/leaderWorkerTemplate/{role}Template/spec/containers/0" for role in ("leader", "worker"))
ROUTED = "spec.template.spec.containers[1]"
GROUP = f"{LEADER}=v1 {WORKER}=v1"


# answers


VALIDATED: list[tuple[str, AdmissionOptions, str, Document]] = [
    ("pod-of-replicaset", WARN, "warned", warned(f"{POD}: {SET}", runner=f"{POD}=v1")),
    ("deployment-create", WARN, "warned", warned(f"{TEMPLATE}: {SET}")),
    ("deployment-create", STRICT, "warned", warned(f"{TEMPLATE}: {SET}")),
    ("deployment-update", WARN, "warned", warned(f"{TEMPLATE}: {DBO}", runner=f"{TEMPLATE}=v2")),
    ("deployment-update", DENY, "denied", denied(f"{TEMPLATE}: {DBO} ({EXPLAINED})", runner=f"{TEMPLATE}=v2")),
    ("deployment-dry-run", DENY, "undecided", warned(f"{TEMPLATE}: {LLAMA}", runner=f"{TEMPLATE}=undecided")),
    (
        "deployment-dry-run",
        STRICT,
        "denied",
        denied(f"{TEMPLATE}: {LLAMA} ({DENIED_UNDECIDED})", runner=f"{TEMPLATE}=undecided"),
    ),
    ("statefulset-with-sidecars", WARN, "warned", warned(f"{ROUTED}: {SET}", runner=f"{ROUTED}=v1")),
    ("leaderworkerset", WARN, "warned", warned(f"{LEADER}: {SET}", f"{WORKER}: {SET}", runner=GROUP)),
    ("pod-with-value-from", WARN, "warned", warned(f"{POD}: {SET}", f"{POD}: {ELSEWHERE}", runner=f"{POD}=v1")),
    (
        "llminferenceservice",
        WARN,
        "warned",
        warned(
            f"spec.template.containers[0]: {SET.replace('NixlConnector', 'OffloadingConnector')}",
            f"spec.template.containers[0]: {OFFLOADING}",
            f"spec.template.containers[0]: {ANNOTATED}",
            runner="spec.template.containers[0]=v1",
        ),
    ),
    ("deployment-delete", STRICT, "ignored", NOTHING),
    ("deployment-scale", STRICT, "ignored", NOTHING),
    ("kafka-topic", STRICT, "ignored", NOTHING),
]


@pytest.mark.parametrize(("name", "options", "result", "response"), VALIDATED)
def test_the_validating_endpoint_warns_denies_or_allows(
    ask: Callable[..., tuple[str, Document]], name: str, options: AdmissionOptions, result: str, response: Document
) -> None:
    assert ask(review_of(name), options) == (result, response)


MUTATED: list[tuple[str, AdmissionOptions, str, Document]] = [
    ("pod-of-replicaset", WARN, "patched", patched(name_test(IN_POD), appended(IN_POD, TO_V1), runner=f"{POD}=v1")),
    ("pod-of-replicaset", OFF, "ignored", NOTHING),
    ("deployment-create", WARN, "ignored", NOTHING),
    (
        "deployment-create",
        ALWAYS,
        "patched",
        patched(name_test(IN_TEMPLATE), appended(IN_TEMPLATE, TO_V1), runner=f"{TEMPLATE}=v1"),
    ),
    ("deployment-update", STRICT, "allowed", NOTHING),
    ("deployment-dry-run", STRICT, "undecided", NOTHING),
    (
        "statefulset-with-sidecars",
        ALWAYS,
        "patched",
        patched(
            name_test("/spec/template/spec/containers/1"),
            appended("/spec/template/spec/containers/1", TO_V1),
            runner=f"{ROUTED}=v1",
        ),
    ),
    (
        "leaderworkerset",
        WARN,
        "patched",
        patched(
            name_test(IN_LEADER),
            appended(IN_LEADER, TO_V1),
            name_test(IN_WORKER),
            appended(IN_WORKER, TO_V1),
            runner=GROUP,
        ),
    ),
    (
        "pod-with-value-from",
        WARN,
        "patched",
        patched(
            name_test(IN_POD),
            name_test(f"{IN_POD}/env/0", VARIABLE),
            {"op": "replace", "path": f"{IN_POD}/env/0", "value": TO_V1},
            runner=f"{POD}=v1",
        ),
    ),
    ("llminferenceservice", ALWAYS, "ignored", NOTHING),
    ("deployment-delete", STRICT, "ignored", NOTHING),
    ("deployment-scale", STRICT, "ignored", NOTHING),
    ("kafka-topic", STRICT, "ignored", NOTHING),
]


@pytest.mark.parametrize(("name", "options", "result", "response"), MUTATED)
def test_the_mutating_endpoint_patches_or_allows(
    ask: Callable[..., tuple[str, Document]], name: str, options: AdmissionOptions, result: str, response: Document
) -> None:
    assert ask(review_of(name), options, mutating=True) == (result, response)


def test_a_deployment_that_follows_the_policy_is_allowed_without_a_warning(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    assert ask(deployment(args=["--model", QWEN]), STRICT) == (
        "allowed",
        {"allowed": True, "auditAnnotations": {"runner": f"{TEMPLATE}=v2"}},
    )


@pytest.mark.parametrize("args", [["--model", QWEN, *NIXL], ["--model", "no/such-model"]])
@pytest.mark.parametrize("mutating", [False, True])
def test_an_engine_with_a_runner_of_its_own_is_allowed_and_not_patched(
    ask: Callable[..., tuple[str, Document]],
    args: list[str],
    mutating: bool,  # noqa: FBT001
) -> None:
    document = deployment(image="vllm/vllm-tpu:v0.23.0", args=args, resources={"limits": {"google.com/tpu": "4"}})
    result, response = ask(document, ALWAYS if mutating else STRICT, mutating=mutating)
    assert (result in {"allowed", "warned"}, response["allowed"], "patch" in response) == (True, True, False)
    if not mutating:
        assert response["auditAnnotations"] == {"runner": f"{TEMPLATE}=not-applicable"}


@pytest.mark.parametrize("mutating", [False, True])
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("subResource", "status"),
        ("subResource", "ephemeralcontainers"),  # which Deployments do not have
        ("requestSubResource", "resize"),
        ("operation", "CONNECT"),
    ],
)
def test_a_review_that_starts_nothing_is_ignored(
    ask: Callable[..., tuple[str, Document]], member: str, value: str, *, mutating: bool
) -> None:
    document = review_of("deployment-update")
    document["request"][member] = value
    assert ask(document, STRICT, mutating=mutating) == ("ignored", NOTHING)


@pytest.mark.parametrize(
    ("container", "options", "result"),
    [
        ({"image": "vllm/vllm-openai:v0.23.0", "args": ["--model", QWEN]}, WARN, "undecided"),
        ({"image": "vllm/vllm-openai:v0.23.0", "args": ["--model", QWEN]}, STRICT, "denied"),
        ({"image": "vllm/vllm-openai:v0.23.0", "command": ["bash"]}, STRICT, "ignored"),
        ({"image": "busybox"}, STRICT, "ignored"),
        ({"image": "own:1", "command": ["sh", "-c", f"vllm serve {QWEN}", *["a"] * 5000]}, STRICT, "denied"),
        ({"image": "own:1", "command": ["vllm", "serve", QWEN, *["a"] * 5000]}, WARN, "undecided"),
    ],
)
def test_an_ephemeral_container_that_starts_vllm_is_not_decided(
    ask: Callable[..., tuple[str, Document]], container: Document, options: AdmissionOptions, result: str
) -> None:
    def add(made: Document) -> None:
        made["spec"]["ephemeralContainers"] = [{"name": "e", **container}]

    document = updated(pod({"args": ["--model", QWEN]}), add)
    document["request"]["subResource"] = "ephemeralcontainers"
    assert ask(document, options)[0] == result
    assert ask(document, ALWAYS, mutating=True) == ("ignored", NOTHING)
    message = str(ask(document, options)[1])
    assert ("the ephemeral container starts vLLM's server" in message) is (result != "ignored")


def test_a_pod_without_vllm_is_ignored(ask: Callable[..., tuple[str, Document]]) -> None:
    assert ask(pod({"image": "nginx:1.29", "args": ["-g", "daemon off;"]}), STRICT) == ("ignored", NOTHING)


@pytest.mark.parametrize("args", [["serve", "m"], ["/bin/serve", "m"], ["-g", "vllm"], ["bash", "run.sh"]])
def test_arguments_of_another_image_are_not_those_of_vllm(
    ask: Callable[..., tuple[str, Document]], args: list[str]
) -> None:
    assert ask(pod({"args": args, "image": "registry/other:1"}), STRICT) == ("ignored", NOTHING)


def test_an_unreadable_command_is_undecided_only_if_it_may_start_vllm(ask: Callable[..., tuple[str, Document]]) -> None:
    words = ["x"] * 5000
    assert ask(pod({"image": "nginx:1.29", "args": words}), STRICT) == ("ignored", NOTHING)
    message = "expected a command of at most 4096 words and 1000000 characters; write a shorter one"
    assert ask(pod({"args": words}), STRICT) == (
        "denied",
        denied(f"not decided: {message} ({DENIED_UNDECIDED})", runner="object=undecided"),
    )
    assert ask(pod({"args": words}), WARN) == (
        "undecided",
        warned(f"not decided: {message}", runner="object=undecided"),
    )
    assert ask(pod({"args": words}), WARN, mutating=True) == ("undecided", NOTHING)


LWS_LABELS = {f"leaderworkerset.sigs.k8s.io/{name}": "0" for name in ("name", "group-index", "worker-index")}
LWS_OWNER = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "g", "uid": "u"}


def test_a_variable_named_like_those_of_leaderworkerset_is_decided_like_others(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    env = [{"name": "LWS_X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    engine = {"args": ["--model", QWEN]}
    other = {"image": "ghcr.io/berriai/litellm:main", "env": env}
    assert ask(deployment(**other, args=[], command=[]), STRICT) == ("ignored", NOTHING)
    assert ask(pod(engine, {"image": "nginx:1.29", "env": env}), STRICT)[0] == "allowed"
    leader = pod(
        {**engine, "env": [{"name": "LWS_LEADER_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}
    )
    metadata = leader["request"]["object"]["metadata"]
    metadata |= {"labels": LWS_LABELS, "ownerReferences": [{**LWS_OWNER, "controller": True}]}
    assert ask(leader, STRICT)[0] == "allowed"
    script = f"vllm serve {QWEN} --host $LWS_LEADER_ADDRESS"
    container = leader["request"]["object"]["spec"]["containers"][0]
    container |= {"command": ["sh", "-c", script], "args": []}
    assert ask(leader, STRICT)[0] == "allowed"
    container["env"] = [{**env[0], "name": "LWS_LEADER_ADDRESS"}]
    result, response = ask(leader, STRICT)
    assert (result, len(response["warnings"])) == ("warned", 1)
    assert "the value of `LWS_LEADER_ADDRESS` is not known, and it may be several" in response["warnings"][0]


LONG_VARIABLES = [
    {"name": "A0", "value": "a" * 100_000},
    *({"name": f"A{number}", "value": "$(A0)"} for number in range(1, 12)),
]
SCRIPTS = [f"A=vl; exec ${{A}}lm serve {QWEN} --nope", f"v''l''lm serve {QWEN}"]


@pytest.mark.parametrize("script", slow_except(SCRIPTS[:1], SCRIPTS))
def test_an_object_that_exceeds_a_limit_is_undecided_whatever_it_names(
    ask: Callable[..., tuple[str, Document]], script: str
) -> None:
    engine = {"image": "own:1", "command": ["sh", "-c", script]}
    padded = pod({**engine, "env": LONG_VARIABLES})
    many = pod(*[engine] * 1100)
    for document, message in ((padded, "exceed 1000000 characters"), (many, "more than 1024 vLLM containers")):
        result, response = ask(document, STRICT)
        assert (result, response["auditAnnotations"]) == ("denied", {"runner": "object=undecided"})
        assert message in response["status"]["message"]
        assert ask(document, WARN)[0] == "undecided"
        assert ask(document, ALWAYS, mutating=True) == ("undecided", NOTHING)


def test_a_fault_beside_an_engine_leaves_the_object_undecided(ask: Callable[..., tuple[str, Document]]) -> None:
    engine = {"image": "own:1", "command": ["sh", "-c", SCRIPTS[0]]}
    document = pod(engine)
    document["request"]["object"]["spec"]["initContainers"] = {"image": "own:1"}
    assert ask(document, STRICT)[0] == "denied"
    document["request"]["object"]["spec"]["containers"][0]["command"] = ["sleep", "9"]
    assert ask(document, STRICT) == ("ignored", NOTHING)


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("Workspace", {"resource": {"instanceType": 1}, "inference": {"preset": {"name": "phi-4"}}}),
        ("InferenceSet", {"spec": {"template": {"inference": {"preset": {"name": ["phi-4"]}}}}}),
        ("MultiRoleInference", {"spec": {"model": {"name": "phi-4"}, "roles": [{"type": 1}]}}),
    ],
)
def test_a_fault_in_an_object_that_always_runs_vllm_leaves_it_undecided(
    ask: Callable[..., tuple[str, Document]], kind: str, made: Document
) -> None:
    document = review_of("pod-of-replicaset")
    document["request"]["kind"] = {"group": "kaito.sh", "version": "v1beta1", "kind": kind}
    document["request"]["object"] = {"metadata": {"name": "a"}, **made}
    assert ask(document, STRICT)[0] == "denied"
    document["request"]["object"]["metadata"]["annotations"] = {"kaito.sh/runtime": "transformers"}
    assert ask(document, STRICT)[0] == ("ignored" if kind == "Workspace" else "denied")


UNREADABLE_COMMANDS: list[tuple[Document, str]] = [
    ({"command": ["$(A)", "serve", QWEN]}, "the value of `$(A)`, which names the program, is not known"),
    ({"command": ["sh", "-c", "exec $A"]}, "the value of `$A`, which may name a program, is not known"),
    ({"command": ["bash", "/app/start.sh"]}, "the file `/app/start.sh` is a script that is not read"),
    *(
        ({"command": [name, *more]}, f"the file `{name}` is a script that is not read")
        for name, *more in (
            *(["/start.bash"], ["/start.sh.tpl"], ["/entrypoint"], ["/app/run"], ["./launch"], ["/opt/Start"]),
            *(["/entrypoint", "--enable-dbo", "--model", QWEN], ["/y", "serve", QWEN], ["/usr/bin/vllm-serve"]),
        )
    ),
    ({"command": ["/entrypoint"], "args": ["--enable-dbo"]}, "the file `/entrypoint` is a script that is not read"),
    ({"command": ["bash", "-c", "source /start"]}, "the file `/start` is a script that is not read"),
    ({"command": ["python3", "/app/server.py"]}, "the file `/app/server.py` is a Python program that is not read"),
    ({"command": ["sh", "-c", "echo serve m | xargs vllm"]}, "`xargs` starts `vllm` with arguments that are not known"),
]
HIDDEN_ENGINES: list[list[str]] = [
    ["env", "-S", "vllm serve $X"],
    ["bash", "-c", f"env $(cat f) vllm serve {QWEN} --enable-dbo"],
    ["bash", "-c", f'start() {{ vllm "$@"; }}; start serve {QWEN}'],
    ["bash", "-c", f"alias v=vllm; v serve {QWEN}"],
    ["bash", "-c", f"v{{l,}}lm serve {QWEN}"],
    ["bash", "-c", f"/usr/bin/vll? serve {QWEN}"],
    ["bash", "-c", f"bash <<<'vllm serve {QWEN}'"],
    ["bash", "-c", f"source <(echo 'vllm serve {QWEN}')"],
    ["bash", "-c", f"echo vllm serve {QWEN} | xargs -I{{}} sh -c '{{}}'"],
    ["bash", "-c", f"sh -c$FOO 'vllm serve {QWEN} --enable-dbo'"],
    ["bash", "-c", f"exec sh -${{FOO}}c 'vllm serve {QWEN}'"],
    ["bash", "-c", f"python3 -${{A}}m vllm.entrypoints.openai.api_server --model {QWEN}"],
    ["bash", "-c", f"env -$A vllm serve {QWEN}"],
    ["vllm", "chat", "vllm", "serve", QWEN],
    ["bash", "-c", f"touch serve; vllm ser?e {QWEN}"],
    ["sh", "-c", f"vllm {{serve,{QWEN}}}"],
    ["sh", "-c", f"A='ser*'; vllm $A {QWEN}"],
    ["-c", f"vllm serve {QWEN}"],
]


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.23.0", "registry/other:1"])
@pytest.mark.parametrize("command", HIDDEN_ENGINES)
def test_a_hidden_engine_is_undecided_in_any_image(
    ask: Callable[..., tuple[str, Document]], command: list[str], image: str
) -> None:
    for container in ({"command": command}, {"args": command}):
        result, response = ask(pod({**container, "image": image}), STRICT)
        assert (result, response["auditAnnotations"]) == ("denied", {"runner": f"{POD}=undecided"})


UNREACHED: list[tuple[str, str]] = [
    ("false && SERVE b; SERVE", "warned"),
    ("if false; then V=0 SERVE; fi; SERVE", "warned"),
    ("if true; then SERVE; else SERVE b; fi", "warned"),
    ("exec SERVE; exec SERVE b", "warned"),
    ("bash -c 'false && SERVE b; exec SERVE'", "warned"),
    ("false && SERVE; SERVE", "allowed"),
    ("exec SERVE; exit 1", "allowed"),
]
"""Scripts with a server that never runs; one with different arguments or variables is in doubt in a review."""


@pytest.mark.parametrize(("script", "result"), UNREACHED)
def test_a_review_does_not_rely_on_a_server_that_should_not_run(
    ask: Callable[..., tuple[str, Document]], script: str, result: str
) -> None:
    text = script.replace("SERVE b", f"vllm serve {QWEN} --seed 1").replace("SERVE", f"vllm serve {QWEN}")
    container = {"command": ["bash", "-c", text], "image": "vllm/vllm-openai:v0.23.0"}
    assert ask(pod(container), STRICT)[0] == result


VARIABLE_COMMANDS: list[Document] = [
    {"command": ["flock", "/tmp/l", "-c", "$X"]},
    {"command": ["python3", "-m", "timeit", "import os; os.system(os.environ['X'])"]},
    {"command": ["sh", "-c", 'echo "$X" | sh']},
    {"command": ["bash", "-c", f"export Y='vllm serve {QWEN}'; flock /tmp/l -c '$Y'"], "env": []},
]


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.23.0", "registry/other:1"])
@pytest.mark.parametrize("container", VARIABLE_COMMANDS)
def test_an_engine_that_a_variable_may_start_is_undecided_in_any_image(
    ask: Callable[..., tuple[str, Document]], container: Document, image: str
) -> None:
    env = [{"name": "X", "value": f"vllm serve {QWEN} --enable-dbo"}]
    result, response = ask(pod({"env": env, **container, "image": image}), STRICT)
    assert (result, response["auditAnnotations"]) == ("denied", {"runner": f"{POD}=undecided"})


@pytest.mark.parametrize("members", [{}, {"args": ["--verbose"]}, {"args": ["start"]}])
def test_an_entry_point_may_run_a_variable(ask: Callable[..., tuple[str, Document]], members: Document) -> None:
    env = [{"name": "X", "value": f"vllm serve {QWEN}"}]
    result, response = ask(pod({**members, "env": env, "image": "registry/other:1"}), STRICT)
    assert (result, response["auditAnnotations"]) == ("denied", {"runner": f"{POD}=undecided"})
    assert ask(pod({**members, "env": [], "image": "registry/other:1"}), STRICT) == ("ignored", NOTHING)


BEFORE = [
    *("gosu vllm", "nsys profile -o vllm", "uv run --with vllm", "env -a echo"),
    *(f"sudo -u vllm env {VARIABLE}=1", f"conda run -n vllm env {VARIABLE}=1"),
]


@pytest.mark.parametrize("before", BEFORE)
def test_an_engine_behind_a_value_named_vllm_is_decided(ask: Callable[..., tuple[str, Document]], before: str) -> None:
    command = [*before.split(), "vllm", "serve", QWEN, "--enable-dbo"]
    environment = [{"name": VARIABLE, "value": "1"}]
    for words in (command, ["env", "-S", " ".join(command)], ["sh", "-c", " ".join(command)]):
        result, response = ask(pod({"command": words, "image": "registry/other:1", "env": environment}), STRICT)
        assert result == "denied"
        assert response["status"]["message"].startswith(f"{POD}: {DBO}")


@pytest.mark.parametrize("before", ["sudo -u vllm", "conda run -n vllm"])
def test_an_engine_behind_a_program_that_may_change_its_variables_is_decided_without_them(
    ask: Callable[..., tuple[str, Document]], before: str
) -> None:
    command = [*before.split(), "vllm", "serve", QWEN, "--enable-dbo"]
    environment = [{"name": VARIABLE, "value": "1"}]
    changes = f"`{command[0]}` may change the variables of what it starts; variables are not certain"
    for words in (command, ["env", "-S", " ".join(command)], ["sh", "-c", " ".join(command)]):
        result, response = ask(pod({"command": words, "image": "registry/other:1", "env": environment}), STRICT)
        assert (result, response["auditAnnotations"]) == ("warned", {"runner": f"{POD}=v1"})
        assert {f"{POD}: {changes}", f"{POD}: {ELSEWHERE}"} <= set(response["warnings"])


@pytest.mark.parametrize("name", ["$(A)=0", f"$(A){VARIABLE}=0", f"{VARIABLE}$(A)=0", "-u$(A)", "--unset=$(A)"])
def test_an_engine_with_a_variable_of_an_unknown_name_is_decided_with_a_warning(
    ask: Callable[..., tuple[str, Document]], name: str
) -> None:
    of_secret = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    environment = [of_secret, {"name": VARIABLE, "value": "1"}]
    result, response = ask(pod({"command": ["env", name, "vllm", "serve", QWEN], "env": environment}), STRICT)
    changes = f"`{name}` is not known, so `env` may set or remove any variable; variables are not certain"
    assert (result, response["auditAnnotations"]) == ("warned", {"runner": f"{POD}=v2"})
    assert {f"{POD}: {changes}", f"{POD}: {ELSEWHERE}"} <= set(response["warnings"])


@pytest.mark.parametrize("default", ["-0", ":-0"])
def test_a_default_of_the_variable_is_not_certain_if_a_secret_may_set_it(
    ask: Callable[..., tuple[str, Document]], default: str
) -> None:
    start = f"exec vllm serve {QWEN} --enable-dbo --all2all-backend=deepep_low_latency"
    script = f"export {VARIABLE}=${{{VARIABLE}{default}}}; {start}"
    known = {"command": ["bash", "-c", script]}
    assert ask(pod(known), STRICT)[0] == "allowed"
    result, response = ask(pod({**known, "envFrom": [{"secretRef": {"name": "s"}}]}), STRICT)
    assert result == "warned"
    assert f"{POD}: {ELSEWHERE}" in response["warnings"]


@pytest.mark.parametrize(("container", "why"), UNREADABLE_COMMANDS)
def test_an_engine_whose_command_cannot_be_read_is_undecided(
    ask: Callable[..., tuple[str, Document]], container: Document, why: str
) -> None:
    message = f"{POD}: not decided: {why}, {REMEDY}"
    assert ask(pod(container), STRICT) == (
        "denied",
        denied(f"{message} ({DENIED_UNDECIDED})", runner=f"{POD}=undecided"),
    )
    assert ask(pod(container), WARN) == ("undecided", warned(message, runner=f"{POD}=undecided"))
    assert ask(pod(container), ALWAYS, mutating=True) == ("undecided", NOTHING)
    assert ask(updated(pod(container), lambda document: document["metadata"].update(finalizers=[])), STRICT) == (
        "ignored",
        NOTHING,
    )


def test_a_variable_that_a_script_may_not_set_is_unknown(ask: Callable[..., tuple[str, Document]]) -> None:
    script = f"false && export {VARIABLE}=0; vllm serve {QWEN} --enable-dbo"
    document = pod({"command": ["sh", "-c", script], "env": [{"name": VARIABLE, "value": "1"}]})
    result, response = ask(document, WARN)
    assert result == "warned"
    assert f"{POD}: {ELSEWHERE}" in response["warnings"]


def test_a_failure_of_the_rule_engine_leaves_the_object_undecided(ask: Callable[..., tuple[str, Document]]) -> None:
    def failing(_: Request, **__: bool) -> Decision:
        raise EngineFailed("the rule engine did not finish")

    expected = warned(f"{TEMPLATE}: not decided: the rule engine did not finish", runner=f"{TEMPLATE}=undecided")
    assert ask(deployment(), WARN, decide_with=failing) == ("undecided", expected)


def test_every_engine_is_named_in_a_denial(ask: Callable[..., tuple[str, Document]]) -> None:
    document = pod(
        {
            "args": ["--model", QWEN, "--enable-dbo", "--all2all-backend=deepep_low_latency"],
            "env": [{"name": VARIABLE, "value": "1"}],
        },
        {"args": ["--model", QWEN], "env": [{"name": VARIABLE, "value": "yes"}]},
        {"args": ["--model", QWEN, "-tp", "x"]},
        {"args": ["--model", QWEN, *NIXL]},
    )
    illegal = "not decided: `--tensor-parallel-size`: expected a whole number such as `2`, got `x`"
    runner = "spec.containers[0]=v2 spec.containers[1]=none spec.containers[2]=undecided spec.containers[3]=v1"
    errors = (
        f"spec.containers[0]: {DBO} | spec.containers[1]: vLLM will not start: invalid literal for int() with base 10: "
        "'yes'"
    )
    warning = f"spec.containers[3]: {SET}"
    assert ask(document, DENY) == (
        "denied",
        denied(f"{errors} ({EXPLAINED})", f"spec.containers[2]: {illegal}", warning, runner=runner),
    )
    message = f"{errors} | spec.containers[2]: {illegal} ({EXPLAINED}; {DENIED_UNDECIDED})"
    assert ask(document, STRICT) == ("denied", denied(message, warning, runner=runner))


def test_many_engines_are_all_decided_and_some_are_named(ask: Callable[..., tuple[str, Document]]) -> None:
    document = pod(*[{"args": ["--model", QWEN, *NIXL]} for _ in range(70)])
    response = ask(document, ALWAYS, mutating=True)[1]
    assert len(response["patch"]) == 140
    assert response["auditAnnotations"]["runner"].endswith("…")
    assert len(ask(document, WARN)[1]["warnings"]) == MAX_WARNINGS


# updates


def test_an_update_that_changes_no_engine_is_never_denied(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    broken = deployment(
        args=["--model", QWEN, "--enable-dbo", "--all2all-backend=deepep_low_latency"],
        env=[{"name": VARIABLE, "value": "1"}],
    )
    unknown = deployment(args=["--model", "a/b"])
    unreadable = deployment(args=["--model"] * 5000)

    def edit(document: Document) -> None:
        document["metadata"]["finalizers"] = []
        document["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "4"
        document["status"] = {"replicas": 3}
        document["spec"]["replicas"] = 3

    def inject(document: Document) -> None:
        document["spec"]["template"]["spec"]["containers"].insert(
            0, {"name": "proxy", "image": "envoyproxy/envoy:v1.35.0"}
        )

    for before in (broken, unknown, unreadable):
        assert ask(before, STRICT)[0] == "denied"
        assert ask(updated(before, edit), STRICT) == ("ignored", NOTHING)
    assert ask(updated(broken, inject), STRICT) == ("ignored", NOTHING)
    assert ask(updated(deployment(), edit), ALWAYS, mutating=True) == ("ignored", NOTHING)


def test_only_the_engines_that_an_update_changes_are_decided(ask: Callable[..., tuple[str, Document]]) -> None:
    broken = {
        "args": ["--model", QWEN, "--enable-dbo", "--all2all-backend=deepep_low_latency"],
        "env": [{"name": VARIABLE, "value": "1"}],
    }
    before = pod(broken, {"args": ["--model", QWEN]})
    after = updated(before, lambda document: document["spec"]["containers"][1].update(image="vllm/vllm-openai:v0.24.0"))
    assert ask(after, STRICT) == ("allowed", {"allowed": True, "auditAnnotations": {"runner": "spec.containers[1]=v2"}})


BROKEN = {
    "args": ["--model", QWEN, "--enable-dbo", "--all2all-backend=deepep_low_latency"],
    "env": [{"name": VARIABLE, "value": "1"}],
}
FINE = {"args": ["--model", QWEN]}


@pytest.mark.parametrize(
    ("before", "after", "decided"),
    [
        ([("a", BROKEN), ("b", FINE)], [("a", BROKEN), ("c", BROKEN)], [1]),
        ([("a", BROKEN), ("b", FINE)], [("a", BROKEN), ("b", BROKEN)], [1]),
        ([("a", BROKEN)], [("a", BROKEN), ("c", BROKEN), ("d", BROKEN)], [1, 2]),
        ([("a", BROKEN)], [("c", BROKEN), ("a", BROKEN)], [0]),
        ([("a", BROKEN)], [("a", BROKEN), ("a", BROKEN)], [1]),
        ([("a", BROKEN)], [("b", BROKEN)], [0]),
        ([("a", BROKEN), ("b", FINE)], [("a", FINE), ("b", BROKEN)], [0, 1]),
        ([("a", BROKEN), ("b", FINE)], [("b", FINE), ("a", BROKEN)], []),
        ([("a", BROKEN), ("b", FINE)], [("a", BROKEN)], []),
    ],
)
def test_an_engine_is_unchanged_if_the_old_engine_of_its_name_is_equal(
    ask: Callable[..., tuple[str, Document]],
    before: list[tuple[str, Document]],
    after: list[tuple[str, Document]],
    decided: list[int],
) -> None:
    """A new container that copies an existing one is a new engine."""
    old = pod(*[{"name": name, **engine} for name, engine in before])
    new = pod(*[{"name": name, **engine} for name, engine in after])["request"]["object"]["spec"]
    _, response = ask(updated(old, lambda document: document.update(spec=new)), STRICT)
    found = response.get("auditAnnotations", {}).get("runner", "").split()
    assert [text.partition("=")[0] for text in found] == [f"spec.containers[{index}]" for index in decided]
    assert response["allowed"] is all(after[index][1] is FINE for index in decided)


@pytest.mark.parametrize(
    "engine",
    [
        {"image": "vllm/vllm-openai:v0.99.0", "args": ["--model", QWEN]},
        {"image": "vllm/vllm-openai:v0.23.0", "args": ["--model", "a/b"]},
    ],
)
def test_an_undecided_engine_is_recognised_by_its_content_and_not_by_its_position(
    ask: Callable[..., tuple[str, Document]], engine: Document
) -> None:
    proxy = {"name": "proxy", "image": "envoyproxy/envoy:v1.35.0"}
    moved = updated(pod(engine), lambda document: document["spec"]["containers"].insert(0, proxy))
    assert ask(moved, STRICT) == ("ignored", NOTHING)
    edited = updated(
        pod(engine), lambda document: document["spec"]["containers"][0].update(args=[*engine["args"], "--enable-dbo"])
    )
    assert ask(edited, STRICT)[1]["auditAnnotations"] == {"runner": f"{POD}=undecided"}
    another = updated(
        pod(engine),
        lambda document: document["spec"]["containers"].append(
            {"name": "b", **engine, "args": [*engine["args"], "-tp", "2"]}
        ),
    )
    assert ask(another, STRICT)[1]["auditAnnotations"] == {"runner": "spec.containers[1]=undecided"}


@pytest.mark.parametrize("which", ["object", "oldObject"])
def test_an_update_of_an_object_that_is_being_deleted_is_ignored(
    ask: Callable[..., tuple[str, Document]], which: str
) -> None:
    document = review_of("deployment-update")
    document["request"][which]["metadata"]["deletionTimestamp"] = "2026-08-03T09:15:00Z"
    assert ask(document, STRICT) == ("ignored", NOTHING)


def test_a_new_object_with_a_deletion_timestamp_is_decided(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    document = review_of("pod-of-replicaset")
    expected = ask(document, STRICT)
    document["request"]["object"]["metadata"]["deletionTimestamp"] = "2026-08-03T09:15:00Z"
    assert ask(document, STRICT) == expected
    assert expected[0] != "ignored"


def test_an_update_without_the_old_object_is_decided(ask: Callable[..., tuple[str, Document]]) -> None:
    document = review_of("deployment-update")
    document["request"]["oldObject"] = None
    assert ask(document, DENY)[0] == "denied"


def test_a_pod_is_patched_only_when_it_is_created(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    def edit(document: Document) -> None:
        document["spec"]["containers"][0]["image"] = "vllm/vllm-openai:v0.24.0"

    document = updated(review_of("pod-of-replicaset"), edit)
    assert ask(document, ALWAYS)[0] == "warned"
    assert ask(document, ALWAYS, mutating=True) == ("ignored", NOTHING)


def test_a_deployment_is_patched_when_it_changes_or_is_newly_annotated(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    expected = patched(name_test(IN_TEMPLATE), appended(IN_TEMPLATE, TO_V1), runner=f"{TEMPLATE}=v1")
    changed = updated(
        deployment(),
        lambda document: document["spec"]["template"]["spec"]["containers"][0].update(image="vllm/vllm-openai:v0.24.0"),
    )
    assert ask(changed, ALWAYS, mutating=True) == ("patched", expected)
    annotated = updated(deployment(), lambda document: document["metadata"]["annotations"].update({SET_ENV: "true"}))
    assert ask(annotated, WARN, mutating=True) == ("patched", expected)
    assert ask(annotated, WARN) == ("ignored", NOTHING)


# annotations


@pytest.mark.parametrize(
    ("on_object", "on_template", "annotated", "always"),
    [
        (None, None, "ignored", "patched"),
        ("true", None, "patched", "patched"),
        (None, "true", "patched", "patched"),
        ("false", None, "ignored", "ignored"),
        ("true", "false", "ignored", "ignored"),
        ("false", "true", "patched", "patched"),
        ("yes", None, "ignored", "patched"),
    ],
)
def test_the_innermost_annotation_decides_whether_the_variable_is_set(
    ask: Callable[..., tuple[str, Document]],
    on_object: str | None,
    on_template: str | None,
    annotated: str,
    always: str,
) -> None:
    document = deployment()
    made = document["request"]["object"]
    for holder, value in ((made, on_object), (made["spec"]["template"], on_template)):
        if value is not None:
            holder["metadata"]["annotations"][SET_ENV] = value
    assert [ask(document, options, mutating=True)[0] for options in (WARN, ALWAYS, OFF)] == [
        annotated,
        always,
        "ignored",
    ]


def test_an_annotation_that_is_not_a_boolean_has_a_warning(ask: Callable[..., tuple[str, Document]]) -> None:
    document = pod({"args": ["--model", QWEN]}, annotations={SET_ENV: "Yes"})
    message = f'{POD}: the annotation `{SET_ENV}` is `Yes`; write "true" or "false"'
    assert ask(document, WARN) == ("warned", warned(message, runner=f"{POD}=v2"))
    assert ask(document, OFF) == ("allowed", {"allowed": True, "auditAnnotations": {"runner": f"{POD}=v2"}})


MODELS: list[tuple[Any, str]] = [
    ("{", f"not decided: the annotation `{MODEL_CONFIGS}`: not JSON: Input data was truncated"),
    (5, f"not decided: the annotation `{MODEL_CONFIGS}`: not JSON: JSON is malformed: invalid character (byte 0)"),
    (
        "[]",
        (
            f"not decided: the annotation `{MODEL_CONFIGS}`: expected an object with each model's config.json "
            f'by its name, such as `{{"{QWEN}": {{…}}}}`, got `[]`'
        ),
    ),
    (
        f'{{"{QWEN}": 5}}',
        f"not decided: the annotation `{MODEL_CONFIGS}`: expected the object of a config.json, got `5`",
    ),
    (
        "{}" + " " * 262_144,
        f"not decided: the annotation `{MODEL_CONFIGS}` is longer than the 262144 characters that are read",
    ),
]


@pytest.mark.parametrize(("annotation", "why"), MODELS)
def test_an_invalid_annotation_of_models_leaves_the_object_undecided(
    ask: Callable[..., tuple[str, Document]], annotation: Any, why: str
) -> None:
    document = pod({"args": ["--model", QWEN]}, annotations={MODEL_CONFIGS: annotation})
    assert ask(document, WARN) == ("undecided", warned(f"{POD}: {why}", runner=f"{POD}=undecided"))


def test_an_annotation_names_the_version_if_the_image_does_not(ask: Callable[..., tuple[str, Document]]) -> None:
    container = {"args": ["--model", QWEN, *NIXL], "image": "vllm/vllm-openai:latest"}
    default = (
        "the tag of the image `vllm/vllm-openai:latest` names no release of vLLM; decided for 0.23.0, the default "
        f"release; annotate `{VLLM_VERSION}`; `kubectl exec … -- vllm --version` shows it"
    )
    assert ask(pod(container), WARN)[1]["warnings"] == [f"{POD}: {SET}", f"{POD}: {default}"]
    stated = (
        f"decided for vLLM 0.33.0, by the annotation `{VLLM_VERSION}`; the tag of the image "
        "`vllm/vllm-openai:latest` names no release of vLLM"
    )
    outcome, response = ask(pod(container, annotations={VLLM_VERSION: "0.33.0"}), WARN)
    assert (outcome, response["warnings"]) == ("warned", [f"{POD}: {stated}"])
    why = f"the annotation `{VLLM_VERSION}`: invalid version `x`; write it as `0.23.0` or `v0.23.0`"
    assert ask(pod(container, annotations={VLLM_VERSION: "x"}), WARN)[1]["warnings"] == [f"{POD}: not decided: {why}"]


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (f"vllm/vllm-openai@sha256:{'b' * 64}", "is named by its digest, which does not show vLLM's version"),
        ("vllm/vllm-openai:nightly", "names no release of vLLM"),
        ("evil/vllm:prod", "names no release of vLLM"),
        ("evil/server:prod", "does not name vLLM's version"),
    ],
)
@pytest.mark.parametrize("options", [WARN, STRICT])
def test_a_version_that_only_an_annotation_states_is_allowed_with_a_warning(
    ask: Callable[..., tuple[str, Document]], options: AdmissionOptions, image: str, why: str
) -> None:
    container = {"command": ["vllm", "serve"], "args": [QWEN], "image": image}
    outcome, response = ask(pod(container, annotations={VLLM_VERSION: "0.33.0"}), options)
    (warning,) = response["warnings"]
    assert (outcome, response["allowed"]) == ("warned", True)
    assert warning.startswith(f"{POD}: decided for vLLM 0.33.0, by the annotation `{VLLM_VERSION}`; ")
    assert image in warning
    assert warning.endswith(why)


def test_a_version_of_the_image_counts_before_that_of_the_annotation(ask: Callable[..., tuple[str, Document]]) -> None:
    container = {"command": ["vllm", "serve"], "args": [QWEN], "image": "vllm/vllm-openai:v0.33.0"}
    assert ask(pod(container, annotations={VLLM_VERSION: "0.33.0"}), WARN)[0] == "allowed"
    differs = "decided for vLLM 0.33.0, which the image has; the request states 0.23.0"
    assert ask(pod(container, annotations={VLLM_VERSION: "0.23.0"}), WARN)[1]["warnings"] == [f"{POD}: {differs}"]


def test_an_annotation_selects_the_closest_release_for_an_unknown_one(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    container = {"args": ["--model", QWEN, *NIXL], "image": "vllm/vllm-openai:v0.99.0"}
    known = "known releases: 0.3.0 to 0.33.0; name one of them, or annotate `runner-policy/beyond-verified: nearest`"
    unknown = f"{POD}: not decided: the image `vllm/vllm-openai:v0.99.0`: unknown release `0.99.0`; {known}"
    assert ask(pod(container), WARN) == ("undecided", warned(unknown, runner=f"{POD}=undecided"))
    closest = f"{POD}: vLLM 0.99.0 was not checked against these rules; decided as 0.33.0"
    assert ask(pod(container, annotations={BEYOND_VERIFIED: "nearest"}), WARN) == (
        "warned",
        warned(closest, runner=f"{POD}=v2"),
    )
    stated = f"{POD}: not decided: the annotation `{VLLM_VERSION}`: unknown release `9.9`; {known}"
    latest = {**container, "image": "vllm/vllm-openai:latest"}
    assert ask(pod(latest, annotations={VLLM_VERSION: "9.9"}), WARN)[1]["warnings"] == [stated]
    assert ask(pod(latest, annotations={VLLM_VERSION: "9.9", BEYOND_VERIFIED: "nearest"}), WARN)[1][
        "auditAnnotations"
    ] == {"runner": f"{POD}=v2"}
    illegal = (
        f"not decided: the annotation `{BEYOND_VERIFIED}`: `newest` is not legal; legal: `nearest`, or leave it out"
    )
    assert ask(pod(container, annotations={BEYOND_VERIFIED: "newest"}), WARN)[1]["warnings"] == [f"{POD}: {illegal}"]
    assert max(map(len, (unknown, stated))) <= MAX_WARNING


def test_the_decision_that_checks_a_patch_is_a_trial(ask: Callable[..., tuple[str, Document]], policy: Policy) -> None:
    trials = []

    def recording(request: Request, *, is_trial: bool = False) -> Decision:
        trials.append(is_trial)
        return policy.decide(request, TODAY)

    assert ask(deployment(), ALWAYS, mutating=True, decide_with=recording)[0] == "patched"
    assert ask(deployment(), ALWAYS, decide_with=recording)[0] == "warned"
    assert trials == [False, True, False]


def test_each_template_has_its_own_annotations(policy: Policy, ask: Callable[..., tuple[str, Document]]) -> None:
    document = review_of("leaderworkerset")
    made = document["request"]["object"]
    for role, version in (("leader", "0.33.0"), ("worker", "0.23.0")):
        template = made["spec"]["leaderWorkerTemplate"][f"{role}Template"]
        template["metadata"]["annotations"] = {VLLM_VERSION: version}
        template["spec"]["containers"][0]["image"] = "vllm/vllm-openai:nightly"
    assert ask(document, WARN)[1]["auditAnnotations"] == {"runner": f"{LEADER}=v2 {WORKER}=v1"}
    role = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    roles = []
    for number, version in enumerate(policy.releases.known):
        annotations = {VLLM_VERSION: version, MODEL_CONFIGS: made["metadata"]["annotations"][MODEL_CONFIGS]}
        roles.append(
            {"name": f"r{number}", "template": {"metadata": {"annotations": annotations}, "spec": role["spec"]}}
        )
    document["request"]["kind"] = {"group": "orchestration.aibrix.ai", "version": "v1alpha1", "kind": "RoleSet"}
    made["spec"] = {"roles": roles}
    decided: list[str] = []

    def recording(request: Request, **_: bool) -> Decision:
        decided.append(request.vllm_version)
        return policy.decide(request, TODAY)

    ask(document, WARN, decide_with=recording)
    assert decided == list(policy.releases.known)


# messages


def test_warnings_are_few_short_printable_lines(
    ask: Callable[..., tuple[str, Document]], decide: Callable[..., Any]
) -> None:
    def with_warnings(request: Request, **_: bool) -> Decision:
        decision: Decision = decide(request)
        return replace(
            decision,
            set_env={},
            warnings=["é“x”\n\t\x1b[31m\u202e" + "y" * 400, *(f"note {number}" for number in range(20))],
        )

    warnings = ask(deployment(), WARN, decide_with=with_warnings)[1]["warnings"]
    assert warnings[0] == (f"{TEMPLATE}: é“x” \\x1b[31m\\u202e" + "y" * 400)[: MAX_WARNING - 1] + "…"
    assert warnings[1:-1] == [f"{TEMPLATE}: note {number}" for number in range(8)]
    assert warnings[-1] == "12 more warnings are not shown; `POST /v1/decisions` with the object returns all"
    assert len(warnings) == MAX_WARNINGS


def test_a_long_path_is_shortened_in_the_middle(ask: Callable[..., tuple[str, Document]]) -> None:
    document = review_of("deployment-create")
    document["request"]["kind"] = {"group": "nvidia.com", "version": "v1alpha1", "kind": "DynamoGraphDeployment"}
    container = {"image": "vllm/vllm-openai:v0.23.0", "args": ["--model", "a/b"]}
    document["request"]["object"] = {
        "spec": {"services": {"decode" * 60: {"extraPodSpec": {"mainContainer": container}}}}
    }
    (warning,) = ask(document, WARN)[1]["warnings"]
    path, _, message = warning.partition(": ")
    assert (
        len(path),
        path[:20],
        "…" in path,
        message.startswith("not decided: the config.json of `a/b` is needed"),
    ) == (
        MAX_PATH,
        "spec.services.decode",
        True,
        True,
    )


def test_an_engine_that_would_not_start_on_the_decided_runner_is_denied_and_not_patched(
    ask: Callable[..., tuple[str, Document]], decide: Callable[..., Any]
) -> None:
    def refusing(request: Request, **_: bool) -> Decision:
        decision: Decision = decide(request)
        return replace(decision, starts=False, startup_errors=["Model Runner V1 does not support: x", "second"])

    on_v1 = f"{TEMPLATE}: vLLM will not start on V1, which the policy decided: Model Runner V1 does not support: x"
    assert ask(deployment(), WARN, decide_with=refusing) == ("warned", warned(f"{on_v1} (and 1 more)"))
    assert ask(deployment(), DENY, decide_with=refusing) == (
        "denied",
        denied(f"{on_v1}; second ({EXPLAINED})", runner=f"{TEMPLATE}=v1"),
    )
    assert ask(deployment(), ALWAYS, mutating=True, decide_with=refusing) == ("allowed", NOTHING)


# the patch


SECRET = {"name": VARIABLE, "valueFrom": {"secretKeyRef": {"name": "vllm", "key": "v2"}}}
OTHER = {"name": "HF_HOME", "value": "/models"}
REFERRING = {"name": "X", "value": f"a$({VARIABLE})"}
ENVIRONMENTS: list[tuple[list[Document] | None, list[Document]]] = [
    (None, [TO_V1]),
    ([], [TO_V1]),
    ([OTHER], [OTHER, TO_V1]),
    ([SECRET, OTHER], [TO_V1, OTHER]),
    ([{"name": VARIABLE, "value": "1"}, OTHER, SECRET], [OTHER, TO_V1]),
    (
        [SECRET, {"name": VARIABLE, "value": "$(HF_TOKEN)"}, OTHER, SECRET, {"name": "Z", "value": "1"}],
        [OTHER, TO_V1, {"name": "Z", "value": "1"}],
    ),
    (
        [{"name": VARIABLE, "value": "1"}, REFERRING, SECRET],
        [{"name": VARIABLE, "value": "1"}, REFERRING, TO_V1],
    ),
    ([SECRET, REFERRING, SECRET, OTHER], [SECRET, REFERRING, TO_V1, OTHER]),
]


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize(("before", "after"), ENVIRONMENTS)
def test_a_patch_sets_the_variable_once_to_the_decided_value(
    ask: Callable[..., tuple[str, Document]], before: list[Document] | None, after: list[Document], *, absent: bool
) -> None:
    document = deployment(env=before)
    container = document["request"]["object"]["spec"]["template"]["spec"]["containers"][0]
    if absent and before is None:
        del container["env"]
    result, response = ask(document, ALWAYS, mutating=True)
    assert result == "patched"
    document["request"]["object"] = applied(document["request"]["object"], response["patch"])
    assert document["request"]["object"]["spec"]["template"]["spec"]["containers"][0] == {**container, "env": after}
    assert ask(document, ALWAYS, mutating=True) == ("allowed", NOTHING)
    assert ask(document, ALWAYS) == ("allowed", {"allowed": True, "auditAnnotations": {"runner": f"{TEMPLATE}=v1"}})


def test_a_variable_that_a_script_sets_has_a_warning_and_no_patch(
    ask: Callable[..., tuple[str, Document]],
) -> None:
    script = f"export {VARIABLE}=$(cat /etc/runner); vllm serve {QWEN} --kv-transfer-config '{NIXL[1]}'"
    document = deployment(command=["sh", "-c"], args=[script])
    assert ask(document, ALWAYS, mutating=True) == ("allowed", NOTHING)
    warnings = [f"{TEMPLATE}: {SET}", f"{TEMPLATE}: {WITHOUT_EFFECT}", f"{TEMPLATE}: {ELSEWHERE}"]
    assert ask(document, ALWAYS)[1]["warnings"] == warnings
    also_in_env = deployment(command=["sh", "-c"], args=[script], env=[TO_V1])
    assert ask(also_in_env, ALWAYS, mutating=True) == ("allowed", NOTHING)


def test_an_object_is_not_patched_if_the_patched_object_cannot_be_decided(
    ask: Callable[..., tuple[str, Document]], decide: Callable[..., Any]
) -> None:
    requests = []

    def once(request: Request, **_: bool) -> Decision:
        requests.append(request)
        if len(requests) > 1:
            raise EngineFailed("the rule engine did not finish")
        decision: Decision = decide(request)
        return decision

    assert ask(deployment(), ALWAYS, mutating=True, decide_with=once) == ("allowed", NOTHING)


def test_an_engine_in_an_embedded_text_has_a_warning_and_no_patch(ask: Callable[..., tuple[str, Document]]) -> None:
    serve = f"""
llm_configs:
  - model_loading_config: {{model_id: qwen3, model_source: {QWEN}}}
    engine_kwargs: {{kv_transfer_config: {{kv_connector: NixlConnector, kv_role: kv_both}}}}
"""
    document = review_of("leaderworkerset")
    document["request"]["kind"] = {"group": "ray.io", "version": "v1", "kind": "RayService"}
    document["request"]["object"]["spec"] = {"serveConfigV2": serve}
    result, response = ask(document, ALWAYS)
    assert (result, response["warnings"][0]) == ("warned", f"spec.serveConfigV2.llm_configs[0]: {SET}")
    assert ask(document, ALWAYS, mutating=True) == ("ignored", NOTHING)


def applied(document: Any, operations: list[Document]) -> Any:
    """The document with a patch applied (the operations of RFC 6902 that are used here)."""
    document = copy.deepcopy(document)
    for operation in operations:
        *parents, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        parent = document
        for step in parents:
            parent = parent[int(step)] if isinstance(parent, list) else parent[step]
        key = int(last) if isinstance(parent, list) and last != "-" else last
        match operation["op"]:
            case "test":
                assert parent[key] == operation["value"]
            case "remove":
                del parent[key]
            case "replace":
                assert parent[key] is not None
                parent[key] = operation["value"]
            case "add" if isinstance(parent, list):
                parent.insert(len(parent) if key == "-" else key, operation["value"])
            case "add":
                parent[key] = operation["value"]
    return document


# arbitrary reviews


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(["", "x", "UPDATE", "DELETE", "Always", "true", "{", QWEN, VARIABLE]),
    st.text(max_size=9),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def steps_of(document: Any, path: Steps = ()) -> list[Steps]:
    """The steps to every value in a document."""
    below = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(steps for key, value in below for steps in steps_of(value, (*path, key)))]


def faults_of(document: Any) -> tuple[RequestFault, ...]:
    """The faults of a document as a review; none if it is one."""
    try:
        read_review(document)
    except RequestInvalid as error:
        return error.faults
    return ()


STEPS = {
    name: [steps for steps in steps_of(document) if "managedFields" not in steps] for name, document in REVIEWS.items()
}


@st.composite
def mutations(draw: st.DrawFn) -> Any:
    """Reviews with one or two values replaced or removed."""
    name = draw(st.sampled_from(sorted(REVIEWS)))
    document: Any = review_of(name)
    for steps in draw(st.lists(st.sampled_from(STEPS[name]), min_size=1, max_size=2)):
        document = changed(document, steps, draw(values), removed=draw(st.booleans()))
    return document


def changed(document: Any, path: Steps, value: Any, *, removed: bool) -> Any:
    if not path:
        return value
    key, *rest = path
    is_present = (
        key in document
        if isinstance(document, dict)
        else isinstance(document, list) and isinstance(key, int) and key < len(document)
    )
    if not is_present:  # an earlier change removed it
        return document
    if removed and not rest:
        del document[key]
    else:
        document[key] = changed(document[key], tuple(rest), value, removed=removed)
    return document


@settings(derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    document=mutations(),
    options=st.builds(
        AdmissionOptions,
        deny=st.booleans(),
        set_env=st.sampled_from(["off", "annotated", "always"]),
        fail=st.sampled_from(["open", "closed"]),
    ),
)
def test_any_review_gets_a_well_formed_answer_or_its_faults(
    ask: Callable[..., tuple[str, Document]], document: Any, options: AdmissionOptions
) -> None:
    faults = faults_of(document)
    assert all(fault.pointer == "" or fault.pointer.startswith("/") for fault in faults)
    if faults:
        return
    result, response = ask(document, options)
    assert response.keys() <= {"allowed", "status", "auditAnnotations", "warnings"}
    assert (result == "denied", "status" in response) == (not response["allowed"], not response["allowed"])
    assert result in {"allowed", "warned", "denied", "undecided", "ignored"}
    assert result != "ignored" or response == NOTHING
    warnings = response.get("warnings", [])
    assert len(warnings) <= MAX_WARNINGS
    assert all(0 < len(warning) <= MAX_WARNING and warning.isprintable() for warning in warnings)
    result, response = ask(document, options, mutating=True)
    assert response.keys() <= {"allowed", "patch", "patchType", "auditAnnotations"}
    assert (response["allowed"], result in {"allowed", "patched", "undecided", "ignored"}) == (True, True)
    assert (result == "patched") == ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        document["request"]["object"] = applied(document["request"]["object"], response["patch"])
        assert ask(document, options, mutating=True) == ("allowed", NOTHING)
