"""The other containers of a manifest that start Ray, with the environment of the workers of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shipped_images import shipped_images
from tables import table

from policy.intake.command_line import Installation, RayNode
from policy.intake.deployment import Deployment, Environment
from policy.intake.deployment_command import command_of, options_of
from policy.intake.edited import with_variables
from policy.intake.manifests import registry
from policy.intake.manifests.ray_nodes import MAX_NODES, TOO_MANY
from policy.intake.ray_workers import MAX_DOUBTS, NODE_VARIABLES, ray_workers

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.33.0"
SETTING = "rayproject/ray-llm:2.58.0"
"""An image that sets the variable to 0."""
V = "VLLM_USE_V2_MODEL_RUNNER"
Parts = dict[str, Any]
ON_RAY = "vllm serve org/m --distributed-executor-backend ray"
LEAD = f"ray start --head --port=6379; {ON_RAY} --pipeline-parallel-size 2"
JOIN = "ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"
ADDRESS = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
OVERWRITES = {"metadata": {"annotations": {"ray.io/overwrite-container-cmd": "true"}}}


def container(script: str = JOIN, name: str = "w", image: str = IMAGE, **env: str) -> Parts:
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return {"name": name, "image": image, "command": ["sh", "-c", script], "env": variables}


def pod(*containers: Parts) -> Parts:
    return {"spec": {"containers": list(containers)}}


def document(version: str, kind: str, spec: Parts, **metadata: Any) -> Parts:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "m", **metadata}, "spec": spec}


def one_pod(head: Parts, worker: Parts) -> Parts:
    return document("v1", "Pod", pod(head, worker)["spec"])


def deployment(head: Parts, worker: Parts) -> Parts:
    return document("apps/v1", "Deployment", {"template": pod(head, worker)})


def leader_worker_set(head: Parts, worker: Parts) -> Parts:
    template = {"size": 2, "leaderTemplate": pod(head), "workerTemplate": pod(worker)}
    return document("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": template})


def job_set(head: Parts, worker: Parts) -> Parts:
    jobs = [{"name": each["name"], "template": {"spec": {"template": pod(each)}}} for each in (head, worker)]
    return document("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def groups(head: Parts, worker: Parts) -> Parts:
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": {**OVERWRITES, **pod(head)}},
        "workerGroupSpecs": [{"groupName": "w", "rayStartParams": {}, "template": {**OVERWRITES, **pod(worker)}}],
    }


def ray_cluster(head: Parts, worker: Parts) -> Parts:
    return document("ray.io/v1", "RayCluster", groups(head, worker))


def ray_job(head: Parts, worker: Parts) -> Parts:
    spec = {"entrypoint": ON_RAY, "submissionMode": "HTTPMode", "rayClusterSpec": groups(head, worker)}
    return document("ray.io/v1", "RayJob", spec)


def fleet(head: Parts, worker: Parts) -> Parts:
    return document("orchestration.aibrix.ai/v1alpha1", "RayClusterFleet", {"template": {"spec": groups(head, worker)}})


def model_serving(head: Parts, worker: Parts) -> Parts:
    role = {"name": "r", "entryTemplate": pod(head), "workerTemplate": pod(worker)}
    return document("workload.serving.volcano.sh/v1alpha1", "ModelServing", {"template": {"roles": [role]}})


def serving_runtime(head: Parts, worker: Parts) -> Parts:
    spec = {**pod({**head, "name": "kserve-container"})["spec"], "workerSpec": pod(worker)["spec"]}
    return document("serving.kserve.io/v1alpha1", "ServingRuntime", {"supportedModelFormats": [{"name": "x"}], **spec})


def inference_service(head: Parts, worker: Parts) -> Parts:
    predictor = {**pod({**head, "name": "kserve-container"})["spec"], "workerSpec": pod(worker)["spec"]}
    return document("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor})


def llm_service(head: Parts, worker: Parts) -> Parts:
    spec = {
        "model": {"uri": "hf://org/m"},
        "template": pod({**head, "name": "main"})["spec"],
        "worker": pod({**worker, "name": "main"})["spec"],
    }
    return document("serving.kserve.io/v1alpha2", "LLMInferenceService", spec)


def compose(head: Parts, worker: Parts) -> Parts:
    services = {
        each["name"]: {
            "image": each["image"],
            "entrypoint": [word.replace("$", "$$") for word in each["command"]],
            "environment": {item["name"]: item["value"] for item in each["env"]},
        }
        for each in (head, worker)
    }
    return {"services": services}


OBJECTS = [
    *(one_pod, deployment, leader_worker_set, job_set, ray_cluster, ray_job, fleet, model_serving, serving_runtime),
    *(inference_service, llm_service, compose),
]


def engines(manifest: Parts, *, is_under_review: bool = True) -> list[Container]:
    faults: list[RequestFault] = []
    found = registry.read_manifest(manifest, "", faults, shipped_images(), is_under_review=is_under_review)
    assert faults == []
    assert [each.problem for each in found] == [""] * len(found)
    return found


def of_ray(engine: Container) -> tuple[list[str], Installation | None]:
    """What the decision of an engine says about the workers."""
    stated = Deployment(engine.words, engine.env, {}, {}, Environment(), engine.places, ray_nodes=engine.ray_nodes)
    faults: list[RequestFault] = []
    command = command_of(stated, faults, "")
    options = options_of(command, stated, "0.33.0", "", faults, is_omni=False)
    assert faults == []
    return ray_workers(options, stated, command, with_variables(stated, command), NODE_VARIABLES)


def doubts(manifest: Parts) -> list[str]:
    (engine, *_) = engines(manifest)
    return of_ray(engine)[0]


@table("make", OBJECTS)
def test_a_worker_with_another_variable_makes_the_engine_doubtful(make: Any) -> None:
    head = container(LEAD, "h")
    if make is ray_job:
        head = container("ray start --head --block", "h")
    for worker in (container(**{V: "0"}), container(f"{V}=0 {JOIN}"), container(f"export {V}=0; {JOIN}")):
        (found,) = doubts(make(head, worker))
        assert found.startswith(f"`{V}` is `0` for `ray start` in `")
        assert "` and not set for the engine: " in found
    same = {**head, "env": [{"name": V, "value": "0"}]}
    assert doubts(make(same, container(**{V: "0"}))) == []
    assert doubts(make(same, container())) == []
    assert doubts(make(head, container())) == []
    (found,) = doubts(make(same, container(**{V: "1"})))
    assert f"`{V}` is `1` for `ray start` in `" in found


@table(
    ("script", "expected"),
    [
        (f"{V}=0 bash /x/multi-node-serving.sh worker --ray_address=$(LWS_LEADER_ADDRESS)", True),
        (f"export {V}=0; chmod u+x multi-node-serving.sh && ./multi-node-serving.sh worker", True),
        (f'{V}=0 exec ray start --address="$LWS_LEADER_ADDRESS:6379" --block', True),
        (f"until {V}=0 ray start --address=a:6379; do sleep 1; done; sleep infinity", True),
        (f"{V}=$(cat /v) {JOIN}", True),
        (f"sudo {JOIN}", True),
        (f". /opt/env.sh; {JOIN}", True),
        (f"pip uninstall -y triton; {JOIN}", True),
        (f"VLLM_PLUGINS=x {JOIN}", True),
        (f"VLLM_MLA_DISABLE=1 {JOIN}", True),
        ('ray start "--block', True),
        (f"{V}=0 nvidia-smi; {JOIN}", False),
        (f"{V}=0; {JOIN}", False),
        (f"{V}=0 sleep infinity", False),
        (f"{V}=0 ray status", False),
        (f"exec sleep 1; {V}=0 {JOIN}", False),
        (f"echo {V}=0 ray start", False),
        (JOIN, False),
        ("bash /x/multi-node-serving.sh worker --ray_address=$(LWS_LEADER_ADDRESS)", False),
        ("ray start --address=$LWS_LEADER_ADDRESS:6379 --node-ip-address=$(POD_IP) --block", False),
        ('eval "ray start --address=$LWS_LEADER_ADDRESS:6379 --block" && tail -f /dev/null', False),
        ("for i in $(seq 30); do ray start --address=a:6379 && break; sleep 5; done; sleep infinity", False),
        (f"pip install -q ray; export NCCL_DEBUG=INFO VLLM_HOST_IP=$(hostname -i); {JOIN}", False),
    ],
)
def test_the_command_of_a_worker_counts_as_one_before_vllm(script: str, expected: bool) -> None:  # noqa: FBT001
    worker = {**container(script, image="team/worker:1"), "env": [ADDRESS]}
    assert bool(doubts(leader_worker_set(container(LEAD, "h"), worker))) is expected


@table(
    ("worker", "expected"),
    [
        (container(PYTHONPATH="/x"), "the variable `PYTHONPATH` may make another vLLM run"),
        (container(f"pip install vllm==0.30.0 && {JOIN}"), "`pip install` installs vLLM 0.30.0 before the start"),
        (container(f"pip uninstall -y vllm; {JOIN}"), "`pip uninstall` may remove vLLM before the start"),
        (container(), ""),
        (container("sleep 1", PYTHONPATH="/x"), ""),
    ],
)
def test_another_vllm_may_run_in_a_worker(worker: Parts, expected: str) -> None:
    (engine,) = engines(leader_worker_set(container(LEAD, "h"), worker))
    place = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0]"
    found = Installation(None, f"in the command that starts Ray in `{place}`: {expected}") if expected else None
    assert of_ray(engine) == ([], found)


@table("source", ["secretKeyRef", "configMapKeyRef", "fieldRef"])
def test_a_variable_of_a_worker_whose_value_is_not_known_is_a_doubt(source: str) -> None:
    reference = {"fieldPath": "metadata.annotations['v']"} if source == "fieldRef" else {"name": "s", "key": "k"}
    unknown = [{"name": V, "valueFrom": {source: reference}}]
    (found,) = doubts(leader_worker_set(container(LEAD, "h"), {**container(), "env": unknown}))
    assert f"`{V}` is not known for `ray start` in `" in found
    other = [{"name": "A", "valueFrom": {source: reference}}]
    assert doubts(leader_worker_set(container(LEAD, "h"), {**container(), "env": other})) == []


def test_an_engine_that_is_not_on_ray_has_no_nodes() -> None:
    head = container("vllm serve org/m --distributed-executor-backend mp", "h")
    (engine,) = engines(one_pod(head, container("ray start --head --block", **{V: "0"})))
    assert engine.ray_nodes == ()
    (engine,) = engines(one_pod(container("vllm serve org/xray", "h"), container("ray start --head", **{V: "0"})))
    assert of_ray(engine) == ([], None)


def test_each_role_is_a_cluster_of_its_own() -> None:
    def template(value: str) -> Parts:
        lead, join = container(LEAD, "h", **{V: value}), container(**{V: value})
        return {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": pod(lead), "workerTemplate": pod(join)}}

    roles = [{"name": each, "spec": template(value)} for each, value in (("prefill", "0"), ("decode", "1"))]
    found = engines(document("disaggregatedset.x-k8s.io/v1", "DisaggregatedSet", {"roles": roles}))
    assert [of_ray(each) for each in found] == [([], None)] * 2
    pairs = {"0": "prefill", "1": "decode"}
    roles = [
        {"name": name, "entryTemplate": pod(container(LEAD, "h", **{V: value})), "workerTemplate": pod(container())}
        for value, name in pairs.items()
    ]
    found = engines(document("workload.serving.volcano.sh/v1alpha1", "ModelServing", {"template": {"roles": roles}}))
    assert [of_ray(each) for each in found] == [([], None)] * 2


def test_ray_gives_the_variables_of_a_job_to_all_nodes() -> None:
    spec = {
        "entrypoint": ON_RAY,
        "submissionMode": "HTTPMode",
        "rayClusterSpec": groups(container("ray start --head --block", "h", **{V: "0"}), container(**{V: "0"})),
        "runtimeEnvYAML": f'env_vars: {{{V}: "1"}}',
    }
    assert doubts(document("ray.io/v1", "RayJob", spec)) == []
    spec |= {"runtimeEnvYAML": "", "entrypoint": f"{V}=1 {ON_RAY}"}
    (found,) = doubts(document("ray.io/v1", "RayJob", spec))
    assert "` is `0` for `ray start` in `spec.rayClusterSpec.headGroupSpec" in found


def test_the_variables_of_a_job_win_over_those_of_its_entrypoint() -> None:
    def spec(entrypoint: str, value: str) -> Parts:
        cluster = groups(container("ray start --head --block", "h"), container())
        more = {"submissionMode": "HTTPMode", "runtimeEnvYAML": f"env_vars: {{{V}: {value}, OTHER: x}}"}
        return document("ray.io/v1", "RayJob", {"entrypoint": entrypoint, "rayClusterSpec": cluster, **more})

    for own, value, shown in (("0", "'1'", "`1`"), ("1", "'0'", "`0`")):
        (found,) = doubts(spec(f"env {V}={own} {ON_RAY}", value))
        assert found.startswith(f"`{V}` is {shown} in `runtimeEnvYAML` and `{own}` for the engine: ")
        assert doubts(spec(f"env {V}={own} {ON_RAY}", f"'{own}'")) == []
    assert doubts(spec(f"env OTHER=y {ON_RAY}", "'1'")) == []


def test_kuberay_starts_ray_after_the_command_of_a_container() -> None:
    def spec(**worker: Any) -> Parts:
        cluster = groups({"name": "h", "image": IMAGE}, {"name": "w", "image": IMAGE, **worker})
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            group["template"].pop("metadata")
        return {"entrypoint": ON_RAY, "submissionMode": "HTTPMode", "rayClusterSpec": cluster}

    stated = {"env": [{"name": V, "value": "0"}]}
    for worker in (stated, {"command": ["export", f"{V}=0"]}, {"command": ["echo", "a"], **stated}):
        (found,) = doubts(document("ray.io/v1", "RayJob", spec(**worker)))
        assert f"`{V}` is `0` for `ray start` in `" in found
    for worker in ({}, {"command": ["echo", "a"]}, {"env": [{"name": "A", "value": "0"}]}):
        assert doubts(document("ray.io/v1", "RayJob", spec(**worker))) == []


@table(
    ("script", "value"),
    [
        ("$KUBERAY_GEN_RAY_START_CMD & sleep 5; {}=0 {}", "1"),
        ('eval "$KUBERAY_GEN_RAY_START_CMD" & sleep 5; {}=0 {}', "1"),
        ("ray start --head & sleep 5; {}=0 {}", "1"),
        ("{0}=2 $KUBERAY_GEN_RAY_START_CMD & sleep 5; {0}=0 {1}", "2"),
        ("$KUBERAY_GEN_RAY_START_CMD & sleep 5; {1}", ""),
        ("$KUBERAY_GEN_RAY_START_CMD & sleep 5; {}=1 {}", ""),
    ],
)
def test_kuberays_command_starts_ray_in_the_engines_container(script: str, value: str) -> None:
    head = container(script.format(V, ON_RAY), "h", **{V: "1"})
    found = [each for each in doubts(ray_cluster(head, container())) if V in each]
    assert [each.partition(":")[0] for each in found] == (
        [f"`{V}` is `{value}` for `ray start` and `0` for the engine"] if value else []
    )


def test_the_variables_of_a_workers_image_count() -> None:
    (found,) = doubts(leader_worker_set(container(LEAD, "h"), container(image=SETTING)))
    assert f"`{V}` is `0` for `ray start` in `" in found
    assert doubts(leader_worker_set(container(LEAD, "h", image=SETTING), container(image=SETTING))) == []
    assert doubts(leader_worker_set(container(LEAD, "h", **{V: "1"}), container(image=SETTING, **{V: "1"}))) == []


def test_an_engine_has_a_limited_number_of_nodes_and_none_goes_unnoticed() -> None:
    workers = [container(name=f"w{n}", VLLM_DP_SIZE=str(n)) for n in range(MAX_NODES + 8)]
    (engine,) = engines(document("v1", "Pod", pod(container(LEAD, "h"), *workers)["spec"]))
    assert len(engine.ray_nodes) == MAX_NODES + 1
    assert engine.ray_nodes[-1] == RayNode(f"spec.containers[{MAX_NODES + 1}]", doubts=(TOO_MANY,))
    assert len(of_ray(engine)[0]) == MAX_DOUBTS
    (engine,) = engines(document("v1", "Pod", pod(container(LEAD, "h"), *[container(VLLM_DP_SIZE="2")] * 99)["spec"]))
    assert engine.ray_nodes == (RayNode("spec.containers[1]", {"VLLM_DP_SIZE": "2"}),)


def test_an_engine_is_no_node_of_itself_but_others_are() -> None:
    """Two engines that start Ray in the same way: each has the other."""
    (first, second) = engines(one_pod(container(LEAD, "a", **{V: "0"}), container(LEAD, "b", **{V: "0"})))
    assert [each.ray_nodes[0].place for each in (first, second)] == ["spec.containers[1]", "spec.containers[0]"]


def test_an_init_container_that_starts_ray_has_ended() -> None:
    spec = {**pod(container(LEAD, "h"))["spec"], "initContainers": [container(f"{V}=0 ray start --head", "i")]}
    assert doubts(document("v1", "Pod", spec)) == []
    spec["initContainers"][0]["restartPolicy"] = "Always"
    assert len(doubts(document("v1", "Pod", spec))) == 1
