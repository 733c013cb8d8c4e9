"""All scripts of a request share one limit on their expansion, in proportion to the size of the request."""

from __future__ import annotations

import cProfile
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest
from representatives import slow_except

from policy.rules.loader import default_folder
from service.admission.engines import AdmissionOptions
from service.jobs.messages import Job, JobKind, JobResult, JobSettings
from service.jobs.worker import JobWorker
from service.reload.reload import RulesFolder, load_at_start
from service.state.answers import today

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE: Final = "vllm/vllm-openai:v0.33.0"
MODEL: Final = "Qwen/Qwen3-8B"
CONFIGS: Final = {MODEL: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
SERVE: Final = f"vllm serve {MODEL}"
DOUBLING: Final = "set -- a b c;" + 'set -- "$@" "$@";' * 15 + '"$@"'
SIZE: Final = 200_000
"""Characters of a review's object."""
CALLS: Final = 25
"""Function calls for each byte of a review: scripts without any expansion take up to 15."""
CALLS_ON_RAY: Final = 32
"""Function calls for each byte of a review of engines on Ray, whose commands are read again; others take up to 22."""
MESSAGES_SIZE: Final = 400_000
CALLS_OF_ARGUMENTS: Final = 12
"""Function calls for each byte of a review whose arguments each have a message; ordinary arguments take up to 3."""
EXHAUSTED: Final = "the scripts of this request expand to more text than its size allows; split the request"

FORMS: Final = {
    "doubled arguments": DOUBLING,
    "arguments as commands": "set -- " + "a " * 300 + ';"$@";' * 20,
    "words of a variable": "A='" + "a " * 300 + "';" + "$A;" * 100,
    "a doubled variable": "A=a;" + "A=$A$A;" * 16 + f"{SERVE} $A",
    "a doubled variable of words": "A='a ';" + 'A="$A$A";' * 14 + "echo $A",
    "a copied environment": "".join(f"export A{n}=1;" for n in range(100)) + "B=1 a;" * 300,
    "subshells": "".join(f"A{n}=1;" for n in range(100)) + "(a);" * 300,
    "nested eval": "eval " * 170 + SERVE,
    "a script evaluated again": "A='" + "a;" * 300 + "';" + 'eval "$A";' * 60,
    "a script in a shell again": "A='" + "a;" * 300 + "';" + 'sh -c "$A";' * 60,
    "nested shells": 'sh -c \'eval "eval \\"eval vllm serve\\""\';' * 16,
    "arrays": "A=(a b c);" + 'A=("${A[@]}" "${A[@]}");' * 15 + '"${A[@]}"',
    "conditions": "if a; then A=$A$B; fi;" * 40 + f"{SERVE} $A",
    "chains": "a && A=1;" * 100 + f"{SERVE} $A",
    "empty backticks": "`" * 2000 + f";{SERVE}",
    "functions": "f(){ a; };" * 80 + "f;" * 50,
}


@cache
def worker() -> JobWorker:
    return JobWorker(dict(load_at_start(RulesFolder(default_folder()))[0].rules), None, None)


def run(kind: JobKind, document: object, *, fail: Any = "open") -> tuple[JobResult, Any]:
    options = AdmissionOptions(deny=True, set_env="always", fail=fail)
    settings = JobSettings(None, 10_000, 10_000, 64 << 20, 5, options, is_logged=False, logs_dry_runs=False)
    body = json.dumps(document).encode()
    found = worker().result(
        Job(kind, "", body, b"", wants_text=False, path="", caller="", began=0, settings=settings), today()
    )
    return found, json.loads(found.body)


def container(script: str, image: str = IMAGE) -> dict[str, Any]:
    return {"name": "a", "image": image, "command": ["sh", "-c", script]}


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    annotations = {"runner-policy/model-configs": json.dumps(CONFIGS)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "annotations": annotations},
        "spec": {"containers": list(containers)},
    }


def review(document: dict[str, Any]) -> dict[str, Any]:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "object": document}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def filled_review(script: str) -> dict[str, Any]:
    """A review with as many containers with a script as fit the size."""
    return review(pod(*[container(script)] * (SIZE // len(json.dumps(container(script))))))


def calls(work: Callable[[], object]) -> int:
    """The number of function calls."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_review_takes_work_in_proportion_to_its_size(form: str) -> None:
    run(JobKind.VALIDATE, review(pod(container(SERVE))))  # loads the release's tables
    document = filled_review(FORMS[form])
    size = len(json.dumps(document))
    assert calls(lambda: run(JobKind.VALIDATE, document)) <= CALLS * size


@pytest.mark.slow
def test_the_workers_of_many_engines_take_work_in_proportion_to_the_size() -> None:
    """Each container starts Ray in another way, and an engine on it."""
    run(JobKind.VALIDATE, review(pod(container(SERVE))))
    scripts = (f"VLLM_DP_SIZE={n} ray start --head; {SERVE} --data-parallel-backend ray" for n in range(1000))
    document = review(pod(*map(container, scripts)))
    assert calls(lambda: run(JobKind.VALIDATE, document)) <= CALLS_ON_RAY * len(json.dumps(document))


@pytest.mark.parametrize(
    "argument",
    slow_except(["--e"], ["--e", "--no-", "x", "{{", "-O9", "--port=x", "--zz", "$(X)", "--hf-token"]),
)
def test_messages_about_a_review_take_work_in_proportion_to_its_size(argument: str) -> None:
    run(JobKind.VALIDATE, review(pod(container(SERVE))))
    part = {"name": "a", "image": IMAGE, "args": [argument] * 100}
    document = review(pod(*[part] * (MESSAGES_SIZE // len(json.dumps(part)))))
    assert calls(lambda: run(JobKind.VALIDATE, document)) <= CALLS_OF_ARGUMENTS * len(json.dumps(document))


def test_a_request_has_a_limited_number_of_messages_and_none_goes_unnoticed() -> None:
    items = [{"deployment": {"args": ["vllm", "serve", MODEL, *["--e"] * 100], "model_configs": CONFIGS}}] * 30
    faults = [item["errors"] for item in run(JobKind.BATCH, {"items": items})[1]["items"]]
    assert [len(found) for found in faults[:20]] == [100] * 20
    assert [len(found) for found in faults[21:]] == [2] * 9
    assert faults[-1][-1]["message"] == "further faults are left out: this request has too many; split it"


def test_all_containers_of_a_review_share_the_limit_and_none_goes_unnoticed() -> None:
    hidden = container(f"X=vllm; $X serve {MODEL}", "example.org/other:1")
    single = run(JobKind.VALIDATE, review(pod(hidden)))[1]["response"]
    assert single["auditAnnotations"]["runner"] == "spec.containers[0]=v2"
    attacked = review(pod(*[container(DOUBLING, "example.org/other:1")] * 100, hidden))
    assert run(JobKind.VALIDATE, attacked)[0].review == "undecided"
    found, answer = run(JobKind.VALIDATE, attacked, fail="closed")
    assert (found.review, answer["response"]["allowed"]) == ("denied", False)
    assert EXHAUSTED in answer["response"]["status"]["message"]


@pytest.mark.parametrize("kind", slow_except(["RayJob"], ["RayJob", "RayService"]))
def test_the_commands_that_start_ray_share_the_limit_and_none_goes_unnoticed(kind: str) -> None:
    groups = [
        {"template": {"spec": {"containers": [{"name": "a", "image": IMAGE, "command": [script]}]}}}
        for script in [f"export A=1; {DOUBLING}"] * 100
    ]
    cluster = {"headGroupSpec": groups[0], "workerGroupSpecs": groups[1:]}
    config = {"llm_configs": [{"model_loading_config": {"model_id": MODEL}}]}
    spec: dict[str, Any] = {"serveConfigV2": json.dumps(config), "rayClusterConfig": cluster}
    if kind == "RayJob":
        spec = {"entrypoint": SERVE, "rayClusterSpec": cluster}
    metadata = {"name": "x", "annotations": {"runner-policy/model-configs": json.dumps(CONFIGS)}}
    document = review({"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    document["request"]["kind"] = {"group": "ray.io", "version": "v1", "kind": kind}
    found, answer = run(JobKind.VALIDATE, document, fail="closed")
    assert (found.review, answer["response"]["allowed"]) == ("denied", False)
    shown = answer["response"]["status"]["message"]
    assert "in the command that starts Ray: " in shown or EXHAUSTED in shown
    plain = json.loads(json.dumps(document).replace("vllm/vllm-openai:v0.33.0", "vllm/vllm-openai:v0.24.0"))
    assert run(JobKind.VALIDATE, plain)[0].review == "undecided"


def test_all_items_of_a_batch_and_engines_of_a_manifest_share_the_limit() -> None:
    items = [{"deployment": {"args": ["sh", "-c", DOUBLING], "model_configs": {}}}] * 100
    details = [item["errors"][0]["message"] for item in run(JobKind.BATCH, {"items": items})[1]["items"]]
    assert details[0] == "the script cannot be read: more than 4096 words, which is the limit"
    assert details[-1] == f"the script cannot be read: {EXHAUSTED}"
    manifest = {"manifest": pod(*[container(DOUBLING)] * 100), "model_configs": CONFIGS}
    engines = run(JobKind.DECISION, manifest)[1]["items"]
    assert len(engines) == 100
    assert engines[-1]["problem"]["errors"][0]["message"] == f"the script cannot be read: {EXHAUSTED}"


def test_each_request_has_its_own_limit() -> None:
    run(JobKind.VALIDATE, filled_review(DOUBLING))
    found, answer = run(JobKind.VALIDATE, review(pod(container(f"A=1; {SERVE} --port $A"))))
    assert (found.review, answer["response"]["allowed"]) == ("allowed", True)


def test_an_explanation_that_reaches_the_limit_is_a_problem() -> None:
    """An assumption that could not be evaluated must not count as one that vLLM refuses."""
    script = "set -- a b c;" + 'set -- "$@" "$@";' * 8 + f'"$@"; {SERVE}'
    item = {"explain": True, "deployment": {"args": ["sh", "-c", script], "model_configs": CONFIGS}}
    items = run(JobKind.BATCH, {"items": [item] * 150})[1]["items"]
    (explained,) = run(JobKind.BATCH, {"items": [item]})[1]["items"]
    decided = [each for each in items if "runner" in each]
    assert 0 < len(decided) < len(items)
    assert all(each["assumptions"] == explained["assumptions"] for each in decided)
    assert all(EXHAUSTED in each["errors"][0]["message"] for each in items if "runner" not in each)


@pytest.mark.slow
def test_a_large_request_of_ordinary_scripts_is_decided() -> None:
    script = (
        'set -e; export HF_HOME=/models; PORT=${PORT:-8000}; ARGS="--max-model-len 4096 --port $PORT"; '
        f"exec {SERVE} $ARGS"
    )
    assert run(JobKind.VALIDATE, review(pod(*[container(script)] * 300)))[0].review == "allowed"
    items = [
        {"explain": True, "deployment": {"args": ["sh", "-c", script], "env": {"N": str(n)}, "model_configs": CONFIGS}}
        for n in range(100)
    ]
    assert all("assumptions" in each for each in run(JobKind.BATCH, {"items": items})[1]["items"])


@pytest.mark.slow
def test_a_large_manifest_whose_commands_are_read_again_is_decided() -> None:
    """A house rule's variable is set for each: what vLLM then does is derived from its command again."""
    pairs = "".join(f"export VAR_{n}=/mnt/models/{n}\necho starting $VAR_{n}\n" for n in range(100))
    connector = """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""
    image = IMAGE.replace("0.33.0", "0.23.0")
    pods = [pod(container(f"{pairs}N={n}; exec {SERVE} {connector}", image)) for n in range(200)]
    manifest = {"kind": "List", "apiVersion": "v1", "items": pods}
    engines = run(JobKind.DECISION, {"manifest": manifest, "model_configs": CONFIGS})[1]["items"]
    assert len(engines) == 200
    assert [each["problem"] for each in engines if "problem" in each] == []
    assert engines[-1]["decision"]["set_env"] == {"VLLM_USE_V2_MODEL_RUNNER": "0"}
