"""More than a hundred faults: a problem that says that there may be more, and no answer made from a part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from .conftest import Done

Document = dict[str, Any]

QWEN: Final = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
REFUSED: Final = "--max-num-seqs=abc"
MORE: Final = " (and at least 99 more)"
LINE: Final = "there may be more: at most 100 faults are reported"


def container(name: str, *args: object) -> Document:
    return {"name": name, "image": "vllm/vllm-openai:v0.23.0", "args": ["--model=a/b", *args]}


def pod(*containers: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [*containers]}}


def service(*args: object) -> Document:
    return {"image": "vllm/vllm-openai:v0.23.0", "command": [*args]}


def deployment(*args: str) -> Document:
    return {
        "vllm_version": "0.23.0",
        "deployment": {"args": ["vllm", "serve", "a/b", *args], "model_configs": {"a/b": QWEN}},
    }


FAULTY: Final = container("bad", *range(200))
FINE: Final = container("fine")
MANIFESTS: Final[dict[str, tuple[Document | list[Document], dict[str, bool]]]] = {
    "the first container": (
        pod(FAULTY, FINE),
        {"spec.containers[0]": False, "spec.containers[1]": True},
    ),
    "the last container": (
        pod(FINE, FAULTY),
        {"spec.containers[0]": True, "spec.containers[1]": False},
    ),
    "a container without vLLM": (
        pod({"name": "other", "image": "nginx", "command": [*range(200)]}, FINE),
        {"spec.containers[0]": False, "spec.containers[1]": True},
    ),
    "the first of several objects": (
        [pod(FAULTY), pod(FINE)],
        {"[0]": False, "[1].spec.containers[0]": True},
    ),
    "a service of a Compose file among others": (
        [{"services": {"a": service(*range(200)), "b": service("--model=a/b")}}, pod(FINE)],
        {"[0]": False, "[1].spec.containers[0]": True},
    ),
}


@table("name", list(MANIFESTS))
def test_each_engine_beside_a_hundred_faults_is_decided_or_has_a_problem(client: httpx.Client, name: str) -> None:
    manifest, expected = MANIFESTS[name]
    document = {"manifest": manifest, "model_configs": {"a/b": QWEN}}
    items = client.post("/v1/decisions", json=document).json()["items"]
    assert {item["path"]: "decision" in item for item in items} == expected
    problems = [item["problem"] for item in items if "problem" in item]
    assert [(problem["detail"][-len(MORE) :], len(problem["errors"])) for problem in problems] == [(MORE, 100)]


WHOLE: Final[dict[str, Document]] = {
    "arguments": deployment(*[REFUSED] * 200),
    "words that are no texts": {"deployment": {"args": [*range(200)]}},
    "fields of a deployment": {"deployment": {"args": [], **{f"x{n}": 1 for n in range(200)}}},
    "fields of a platform": {"deployment": {"args": [], "environment": {f"x{n}": 1 for n in range(200)}}},
    "variables": {"deployment": {"args": [], "env": {f"x{n}": 1 for n in range(200)}}},
    "facts": {"facts": {f"x{n}": 1 for n in range(200)}},
    "fields of a request": {"facts": {}, **{f"x{n}": 1 for n in range(200)}},
    "a Compose file alone": {
        "manifest": {"services": {"a": service(*range(200)), "b": service("--model=a/b")}},
        "model_configs": {"a/b": QWEN},
    },
}


@table("name", list(WHOLE))
def test_a_document_with_more_than_a_hundred_faults_is_a_problem_that_says_so(
    client: httpx.Client, call: Callable[..., Done], name: str
) -> None:
    document = WHOLE[name]
    problem = client.post("/v1/decisions", json=document).json()
    assert (problem["status"], problem["detail"][-len(MORE) :], len(problem["errors"])) == (422, MORE, 100)
    (item,) = client.post("/v1/decisions/batch", json={"items": [document]}).json()["items"]
    assert (item["detail"], len(item["errors"])) == (f"/items/0{problem['detail']}", 100)
    done = call("decide", "-", stdin=json.dumps(document))
    assert (done.code, done.out, len(done.err.splitlines()), done.err.splitlines()[-1]) == (2, "", 101, LINE)


def test_a_review_says_that_there_may_be_more_faults(client: httpx.Client) -> None:
    request = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "object": pod(container("bad", *[REFUSED] * 200)),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    (warning,) = client.post("/v1/admission", json=review).json()["response"]["warnings"]
    assert warning.endswith(MORE)


BEYOND: Final = {
    "an unknown value": "--pooler-config=${X}",
    "a value that is refused": "--pipeline-parallel-size=x",
}


@table("name", list(BEYOND))
def test_no_answer_is_made_without_the_faults_beyond_the_hundredth(
    client: httpx.Client, call: Callable[..., Done], name: str
) -> None:
    document = deployment(*[REFUSED] * 100, BEYOND[name])
    asked = {"releases": ["0.23.0"], "deployments": [document], "explain": True}
    (found,) = client.post("/v1/impact", json=asked).json()["items"]
    answer = found["releases"]["0.23.0"]
    assert (answer["problem"]["detail"][-len(MORE) :], found["remedies"]) == (MORE, {})
    done = call("lint", "-", stdin=json.dumps(document))
    assert (done.code, done.out, done.err.count("not decided"), MORE in done.err) == (0, "", 1, True)
