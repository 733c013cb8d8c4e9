"""Fields by which a controller, a chart or a tool changes a container and which are not read: a doubt about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from shipped_images import read_manifest
from tables import table

from policy.intake.manifests import tool_fields
from policy.intake.manifests.field_tables import CHANGING_FIELD, FieldTable

if TYPE_CHECKING:
    from policy.errors import RequestFault

IMAGE = "vllm/vllm-openai:v0.24.0"
SERVE = ["vllm", "serve", "dense"]
CONTAINER = {"name": "main", "image": IMAGE, "command": SERVE}
OTHER = {"x": 1}
POD = {"spec": {"containers": [CONTAINER]}}
RAY_CONTAINER = {**CONTAINER, "command": ["sh", "-c", "ray start --head; vllm serve dense"]}
LLM = {"model_loading_config": {"model_id": "m", "model_source": "dense"}, "engine_kwargs": {}}
APPLICATION = {"name": "a", "import_path": "ray.serve.llm:build_openai_app", "args": {"llm_configs": [LLM]}}


def object_of(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def dynamo(graph: dict[str, Any], **service: Any) -> dict[str, Any]:
    services = {"w": {"extraPodSpec": {"mainContainer": CONTAINER}, **service}}
    return object_of("nvidia.com/v1alpha1", "DynamoGraphDeployment", {"services": services, **graph})


def dynamo_component(**component: Any) -> dict[str, Any]:
    item = {"name": "w", "podTemplate": {"spec": {"containers": [CONTAINER]}}, **component}
    return object_of("nvidia.com/v1beta1", "DynamoGraphDeployment", {"components": [item]})


def kubeai(**fields: Any) -> dict[str, Any]:
    return object_of("kubeai.org/v1", "Model", {"engine": "VLLM", "url": "hf://dense", "image": IMAGE, **fields})


def booster(backend: dict[str, Any], **worker: Any) -> dict[str, Any]:
    workers = [{"type": "server", "image": IMAGE, "config": {}, **worker}]
    fields = {"name": "b", "type": "vLLM", "modelURI": "hf://dense", "cacheURI": "hostPath:///c", "workers": workers}
    version = "workload.serving.volcano.sh/v1alpha1"
    return object_of(version, "ModelBooster", {"backend": {**fields, **backend}})


def serving(role: dict[str, Any], **spec: Any) -> dict[str, Any]:
    roles = [{"name": "r", "entryTemplate": {"spec": {"containers": [CONTAINER]}}, **role}]
    return object_of("workload.serving.volcano.sh/v1alpha1", "ModelServing", {"template": {"roles": roles}, **spec})


def playground(spec: dict[str, Any], **chosen: Any) -> dict[str, Any]:
    fields = {"modelClaim": {"modelName": "m"}, "backendRuntimeConfig": {"version": "v0.24.0", **chosen}, **spec}
    return object_of("inference.llmaz.io/v1alpha1", "Playground", fields)


def backend_runtime(spec: dict[str, Any], **config: Any) -> dict[str, Any]:
    configs = [{"name": "default", "args": ["--model", "dense"], **config}]
    fields = {"image": "vllm/vllm-openai", "version": "v0.24.0", "recommendedConfigs": configs, **spec}
    fields["command"] = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    return object_of("inference.llmaz.io/v1alpha1", "BackendRuntime", fields)


def workspace(**preset: Any) -> dict[str, Any]:
    inference = {"preset": {"name": "phi-4", **preset}}
    version = {"apiVersion": "kaito.sh/v1beta1", "kind": "Workspace", "metadata": {"name": "w"}}
    return {**version, "resource": {"instanceType": "Standard_NC24ads_A100_v4"}, "inference": inference}


def roles(**role: Any) -> dict[str, Any]:
    fields = {"type": "decode", "replicas": 1, "instanceType": "Standard_NC24ads_A100_v4", **role}
    return object_of("kaito.sh/v1alpha1", "MultiRoleInference", {"model": {"name": "phi-4"}, "roles": [fields]})


def serve_llm(**fields: Any) -> dict[str, Any]:
    model = {"model_id": "m", "model_source": "dense"}
    return {"llm_configs": [{"model_loading_config": model, "engine_kwargs": {}, **fields}]}


def ome(model: dict[str, Any], **engine: Any) -> dict[str, Any]:
    fields = {"engine": {"runner": CONTAINER, **engine}, "model": {"name": "m", **model}}
    return object_of("ome.io/v1beta1", "InferenceService", fields)


def predictor(model: dict[str, Any], **fields: Any) -> dict[str, Any]:
    inner = {"model": {"modelFormat": {"name": "vLLM"}, "image": IMAGE, "command": SERVE, **model}, **fields}
    return object_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": inner})


def llm_service(model: dict[str, Any], **spec: Any) -> dict[str, Any]:
    fields = {"model": {"uri": "hf://o/m", "name": "m", **model}, "template": {"containers": [CONTAINER]}, **spec}
    return object_of("serving.kserve.io/v1alpha2", "LLMInferenceService", fields)


def vllm_runtime(**fields: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, dict[str, Any]] = {
        "model": {"modelURL": "dense"},
        "vllmConfig": {},
        "lmCacheConfig": {},
        "deploymentConfig": {"image": {"registry": "docker.io", "name": IMAGE}},
    }
    spec = {**spec, **{name: {**spec.get(name, {}), **value} for name, value in fields.items()}}
    return object_of("production-stack.vllm.ai/v1alpha1", "VLLMRuntime", spec)


def stack(serving: dict[str, Any], **fields: Any) -> dict[str, Any]:
    spec = {"name": "m", "repository": "vllm/vllm-openai", "tag": "v0.24.0", "modelURL": "dense", **fields}
    return {"servingEngineSpec": {"modelSpec": [spec], **serving}}


def llm_d(role: dict[str, Any], **container: Any) -> dict[str, Any]:
    fields = {"image": IMAGE, "modelCommand": "custom", "command": SERVE, **container}
    return {"modelArtifacts": {"name": "dense", "uri": "hf://dense"}, "decode": {"containers": [fields], **role}}


def scenario(role: dict[str, Any], **common: Any) -> dict[str, Any]:
    fields = {
        "decode": {"replicas": 1, **role},
        "images": {"vllm": {"repository": "vllm/vllm-openai", "tag": "v0.24.0"}},
    }
    return {"scenario": [{**fields, "vllmCommon": common, "model": {"name": "dense"}}]}


def sky(resources: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"resources": {"image_id": f"docker:{IMAGE}", **(resources or {})}, "run": "vllm serve dense", **fields}


def dstack(**fields: Any) -> dict[str, Any]:
    return {"type": "task", "image": IMAGE, "commands": ["vllm serve dense"], **fields}


def truss(server: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    command = {"start_command": "vllm serve dense", **(server or {})}
    return {"base_image": {"image": IMAGE}, "docker_server": command, **fields}


def nomad(config: dict[str, Any], **task: Any) -> dict[str, Any]:
    fields = {"Name": "t", "Driver": "docker", "Config": {"image": IMAGE, "args": ["dense"], **config}, **task}
    return {"Job": {"TaskGroups": [{"Tasks": [fields]}]}}


def ray(cluster: dict[str, Any], **head: Any) -> dict[str, Any]:
    group = {"template": {"spec": {"containers": [RAY_CONTAINER]}}, **head}
    return object_of("ray.io/v1", "RayCluster", {"headGroupSpec": group, **cluster})


def ray_workers(**group: Any) -> dict[str, Any]:
    workers = {"groupName": "g", "template": {"spec": {"containers": [RAY_CONTAINER]}}, **group}
    return ray({"headGroupSpec": {}, "workerGroupSpecs": [workers]})


def ray_job(**fields: Any) -> dict[str, Any]:
    return object_of("ray.io/v1", "RayJob", {"rayClusterSpec": ray({})["spec"], **fields})


def ray_cluster(cluster: dict[str, Any] = {}, template: dict[str, Any] = {}, **head: Any) -> dict[str, Any]:  # noqa: B006  # never changed
    """A cluster in which no container starts vLLM itself."""
    return {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "main", "image": IMAGE}]}, **template}, **head},
        **cluster,
    }


def ray_entrypoint(cluster: dict[str, Any]) -> dict[str, Any]:
    return ray_job(entrypoint="vllm serve dense", submissionMode="HTTPMode", rayClusterSpec=cluster)


def ray_service(**fields: Any) -> dict[str, Any]:
    config = json.dumps({"applications": fields.pop("applications", [APPLICATION])})
    return object_of("ray.io/v1", "RayService", {"serveConfigV2": config, **fields})


def component(name: str, **fields: Any) -> dict[str, Any]:
    return service_of({name: {"containers": [CONTAINER], **fields}})


def service_of(spec: dict[str, Any]) -> dict[str, Any]:
    return object_of("serving.kserve.io/v1beta1", "InferenceService", spec)


def runtime(**fields: Any) -> dict[str, Any]:
    return object_of("serving.kserve.io/v1alpha1", "ServingRuntime", {"containers": [CONTAINER], **fields})


def ome_runtime(**fields: Any) -> dict[str, Any]:
    return object_of("ome.io/v1beta1", "ServingRuntime", {"engineConfig": {"runner": CONTAINER}, **fields})


def storm(**role: Any) -> dict[str, Any]:
    roles = [{"name": "r", "template": {"spec": {"containers": [CONTAINER]}}, **role}]
    return object_of("orchestration.aibrix.ai/v1alpha1", "StormService", {"template": {"spec": {"roles": roles}}})


def leader_workers(**template: Any) -> dict[str, Any]:
    fields = {"leaderWorkerTemplate": {"workerTemplate": POD, **template}}
    return object_of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", fields)


def job_set(**job: Any) -> dict[str, Any]:
    jobs = [{"name": "j", "template": {"spec": {"template": POD}}, **job}]
    return object_of("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def rollout(**spec: Any) -> dict[str, Any]:
    return object_of("argoproj.io/v1alpha1", "Rollout", {"template": POD, **spec})


def doubts(document: dict[str, Any]) -> list[str]:
    """The doubts about unread fields of the first engine."""
    faults: list[RequestFault] = []
    engine, *_ = read_manifest(document, "", faults)
    assert faults == []
    assert engine.problem == ""
    return [each for each in engine.doubts if each.endswith(("not read", "may change the container"))]


@table(
    ("document", "field", "place"),
    [
        (dynamo({}, checkpoint=OTHER), "checkpoint", "spec.services.w"),
        (dynamo({}, gpuMemoryService=OTHER), "gpuMemoryService", "spec.services.w"),
        (booster({"loraAdapters": [OTHER]}), "loraAdapters", "spec.backend"),
        (serving({}, plugins=[OTHER]), "plugins", "spec"),
        (backend_runtime({"multiHostCommands": OTHER}), "multiHostCommands", "spec"),
        (workspace(presetOptions={"image": "x"}), "image", "inference.preset.presetOptions"),
        (serve_llm(callback_config=OTHER), "callback_config", "llm_configs[0]"),
        (ome({"fineTunedWeights": ["w"]}), "fineTunedWeights", "spec.model"),
        (ome({}, acceleratorOverride=OTHER), "acceleratorOverride", "spec.engine"),
        (llm_d({}, extraConfig=OTHER), "extraConfig", "decode.containers[0]"),
        (scenario({"extraContainerConfig": OTHER}), "extraContainerConfig", "scenario[0].decode"),
        (scenario({}, extraContainerConfig=OTHER), "extraContainerConfig", "scenario[0].vllmCommon"),
        (sky(config={"docker": {"run_options": ["-v", "/a:/b"]}}), "config", ""),
        (sky(experimental={"config_overrides": OTHER}), "experimental", ""),
        (sky({"_cluster_config_overrides": OTHER}), "_cluster_config_overrides", "resources"),
        (sky({"any_of": [{"image_id": "docker:x"}]}), "image_id", "resources.any_of[0]"),
        (sky({"ordered": [{"cpus": 1}, {"image_id": "docker:x"}]}), "image_id", "resources.ordered[1]"),
        (dstack(setup=["pip install x"]), "setup", ""),
        (dstack(groups=[{"commands": ["vllm serve dense"], "image": IMAGE}], setup=["x"]), "setup", ""),
        (dstack(groups=[{"commands": ["vllm serve dense"], "setup": ["x"]}]), "setup", "groups[0]"),
        (truss(external_package_dirs=["x"]), "external_package_dirs", ""),
        (truss({"setup_command": "x"}), "setup_command", "docker_server"),
        (nomad({"load": "x.tar"}), "load", "Job.TaskGroups[0].Tasks[0].Config"),
        (nomad({}, EnvFiles=["x"]), "EnvFiles", "Job.TaskGroups[0].Tasks[0]"),
        (
            dynamo_component(experimental={"failover": {"mode": "IntraPod"}}),
            "failover",
            "spec.components[0].experimental",
        ),
        (
            dynamo_component(roles=[{"name": "leader", "podTemplate": OTHER}]),
            "podTemplate",
            "spec.components[0].roles[0]",
        ),
        (predictor({}, storageContainerName="x"), "storageContainerName", "spec.predictor"),
        (stack({"sidecar": OTHER}), "sidecar", "servingEngineSpec"),
        ({**llm_d({}), "requester": {"enable": True}}, "enable", "requester"),
        (rollout(workloadRef=OTHER), "workloadRef", "spec"),
    ],
)
def test_an_unread_field_that_may_change_the_container_is_a_doubt(
    document: dict[str, Any], field: str, place: str
) -> None:
    where = f" of `{place}`" if place else ""
    assert doubts(document) == [f"`{field}`{where} may change the container, and is not read"]


@table(
    ("document", "field", "place"),
    [
        (dynamo({"extraEnv": OTHER}), "extraEnv", "spec"),
        (kubeai(command=["sh"]), "command", "spec"),
        (booster({}, command=["sh"]), "command", "spec.backend.workers[0]"),
        (serving({"initCommand": "x"}), "initCommand", "spec.template.roles[0]"),
        (playground({}, command=["sh"]), "command", "spec.backendRuntimeConfig"),
        (backend_runtime({}, env=[OTHER]), "env", "spec.recommendedConfigs[0]"),
        (workspace(image="x"), "image", "inference.preset"),
        (roles(image="x"), "image", "spec.roles[0]"),
        (predictor({}, extraEnv=OTHER), "extraEnv", "spec.predictor"),
        (predictor({"extraArgs": ["x"]}), "extraArgs", "spec.predictor.model"),
        (llm_service({}, extraArgs=["x"]), "extraArgs", "spec"),
        (llm_service({"adapters": [OTHER]}), "adapters", "spec.model"),
        (vllm_runtime(model={"adapters": [OTHER]}), "adapters", "spec.model"),
        (vllm_runtime(vllmConfig={"envFrom": [OTHER]}), "envFrom", "spec.vllmConfig"),
        (vllm_runtime(lmCacheConfig={"configFile": "x"}), "configFile", "spec.lmCacheConfig"),
        (vllm_runtime(deploymentConfig={"volumeMounts": [OTHER]}), "volumeMounts", "spec.deploymentConfig"),
        (vllm_runtime(storage=OTHER), "storage", "spec"),
        (ray({"runtimeEnv": OTHER}), "runtimeEnv", "spec"),
        (ray({}, initCommands=["x"]), "initCommands", "spec.headGroupSpec"),
        (dynamo_component(experimental=OTHER), "x", "spec.components[0].experimental"),
        (dynamo({}, sharedMemory=OTHER), "x", "spec.services.w.sharedMemory"),
        (dynamo({}, launcher="x"), "launcher", "spec.services.w"),
        (dynamo({}, frontendSidecar={"image": "x", "command": ["y"]}), "command", "spec.services.w.frontendSidecar"),
        (dynamo({}, multinode={"nodeCount": 2, "launcher": "x"}), "launcher", "spec.services.w.multinode"),
        (dynamo({}, extraPodSpec={"mainContainer": CONTAINER, **OTHER}), "x", "spec.services.w.extraPodSpec"),
        (dynamo({"pvcs": [{"name": "a"}, OTHER]}), "x", "spec.pvcs[1]"),
        (dynamo_component(runtime=OTHER), "runtime", "spec.components[0]"),
        (
            dynamo_component(podTemplate={**OTHER, "spec": {"containers": [CONTAINER]}}),
            "x",
            "spec.components[0].podTemplate",
        ),
        (kubeai(runtime=False), "runtime", "spec"),
        (kubeai(files=[{"path": "/a", "content": "b", "mode": 1}]), "mode", "spec.files[0]"),
        ({**kubeai(), "defaults": {}}, "defaults", ""),
        (booster({}, launcher="x"), "launcher", "spec.backend.workers[0]"),
        (booster({"runtime": {}}), "runtime", "spec.backend"),
        (serving({"launcher": OTHER}), "launcher", "spec.template.roles[0]"),
        (serving({}, launcher=OTHER), "launcher", "spec"),
        (
            serving({"entryTemplate": {**OTHER, "spec": {"containers": [CONTAINER]}}}),
            "x",
            "spec.template.roles[0].entryTemplate",
        ),
        (playground({"launcher": OTHER}), "launcher", "spec"),
        (playground({"modelClaim": {"modelName": "m", "revision": "x"}}), "revision", "spec.modelClaim"),
        (workspace(runtime="x"), "runtime", "inference.preset"),
        ({**workspace(), "serving": OTHER}, "serving", ""),
        (roles(runtime="x"), "runtime", "spec.roles[0]"),
        (serve_llm(launcher=OTHER), "launcher", "llm_configs[0]"),
        (ray_service(applications=[{**OTHER, **APPLICATION}]), "x", "spec.serveConfigV2.applications[0]"),
        (
            ray_service(applications=[{**APPLICATION, "args": {**serve_llm(), **OTHER}}]),
            "x",
            "spec.serveConfigV2.applications[0].args",
        ),
        (ome({"revision": "x"}), "revision", "spec.model"),
        (ome({}, launcher=OTHER), "launcher", "spec.engine"),
        (ome({}, leader={"runner": CONTAINER, "launcher": "x"}, runner=None), "launcher", "spec.engine.leader"),
        (ome_runtime(launcher=OTHER), "launcher", "spec"),
        (predictor({}, launcher=OTHER), "launcher", "spec.predictor"),
        (predictor({"launcher": "x"}), "launcher", "spec.predictor.model"),
        (predictor({"modelFormat": {"name": "vLLM", "runtime": "x"}}), "runtime", "spec.predictor.model.modelFormat"),
        (predictor({}, workerSpec={"launcher": "x"}), "launcher", "spec.predictor.workerSpec"),
        (component("transformer", launcher=OTHER), "launcher", "spec.transformer"),
        (component("explainer", launcher=OTHER), "launcher", "spec.explainer"),
        (service_of({"predictor": predictor({})["spec"]["predictor"], "engine": OTHER}), "engine", "spec"),
        (runtime(launcher="x"), "launcher", "spec"),
        (llm_service({}, launcher=OTHER), "launcher", "spec"),
        (llm_service({"revision": "x"}), "revision", "spec.model"),
        (llm_service({}, router={"scheduler": {"launcher": "x"}}), "launcher", "spec.router.scheduler"),
        (llm_service({}, baseRefs=[{"name": "a", "kind": "x"}]), "kind", "spec.baseRefs[0]"),
        (
            llm_service({}, kvCacheOffloading={"cpu": "1Gi", "secondary": [{"lmcache": {}}]}),
            "lmcache",
            "spec.kvCacheOffloading.secondary[0]",
        ),
        (llm_service({}, parallelism={"tensor": 1, "context": 2}), "context", "spec.parallelism"),
        (vllm_runtime(runtime=OTHER), "runtime", "spec"),
        (vllm_runtime(vllmConfig={"runner": "x"}), "runner", "spec.vllmConfig"),
        (ray({"launcher": OTHER}), "launcher", "spec"),
        (ray({}, launcher="x"), "launcher", "spec.headGroupSpec"),
        (ray({"autoscalerOptions": {"launcher": "x"}}), "launcher", "spec.autoscalerOptions"),
        (ray({}, template={**OTHER, "spec": {"containers": [RAY_CONTAINER]}}), "x", "spec.headGroupSpec.template"),
        (ray_workers(launcher="x"), "launcher", "spec.workerGroupSpecs[0]"),
        (ray_job(launcher="x"), "launcher", "spec"),
        (ray_service(launcher="x"), "launcher", "spec"),
        (ray_entrypoint(ray_cluster({"launcher": OTHER})), "launcher", "spec.rayClusterSpec"),
        (ray_entrypoint(ray_cluster(launcher="x")), "launcher", "spec.rayClusterSpec.headGroupSpec"),
        (ray_entrypoint(ray_cluster(template=OTHER)), "x", "spec.rayClusterSpec.headGroupSpec.template"),
        (
            ray_entrypoint(ray_cluster({"workerGroupSpecs": [{"launcher": "x"}]})),
            "launcher",
            "spec.rayClusterSpec.workerGroupSpecs[0]",
        ),
        (ray_service(rayClusterConfig=ray_cluster({"launcher": OTHER})), "launcher", "spec.rayClusterConfig"),
        (ray_service(rayClusterConfig=ray_cluster(launcher="x")), "launcher", "spec.rayClusterConfig.headGroupSpec"),
        (
            ray_service(rayClusterConfig=ray_cluster(template=OTHER)),
            "x",
            "spec.rayClusterConfig.headGroupSpec.template",
        ),
        (
            ray_service(rayClusterConfig=ray_cluster({"workerGroupSpecs": [{"launcher": "x"}]})),
            "launcher",
            "spec.rayClusterConfig.workerGroupSpecs[0]",
        ),
        (storm(launcher="x"), "launcher", "spec.template.spec.roles[0]"),
        (stack({}, command=["sh"]), "command", "servingEngineSpec.modelSpec[0]"),
        (stack({"extraEnv": OTHER}), "extraEnv", "servingEngineSpec"),
        (llm_d({"env": [OTHER]}), "env", "decode"),
        (stack({"launcher": OTHER}), "launcher", "servingEngineSpec"),
        (stack({}, vllmConfig={"backend": "x"}), "backend", "servingEngineSpec.modelSpec[0].vllmConfig"),
        (stack({}, lmcacheConfig={"backend": "x"}), "backend", "servingEngineSpec.modelSpec[0].lmcacheConfig"),
        (llm_d({"launcher": OTHER}), "launcher", "decode"),
        (llm_d({}, launcher=OTHER), "launcher", "decode.containers[0]"),
        ({**llm_d({}), "launcher": OTHER}, "launcher", ""),
        (leader_workers(launcher="x"), "launcher", "spec.leaderWorkerTemplate"),
        (job_set(launcher="x"), "launcher", "spec.replicatedJobs[0]"),
        (rollout(launcher="x"), "launcher", "spec"),
    ],
)
def test_a_field_that_the_definition_does_not_have_is_a_doubt(document: dict[str, Any], field: str, place: str) -> None:
    where = f" of `{place}`" if place else ""
    assert set(doubts(document)) == {f"`{field}`{where} is not known, and may change the container"}


@table(
    "document",
    [
        dynamo(
            {"pvcs": [{"name": "a"}], "backendFramework": "vllm"},
            extraPodMetadata={"labels": OTHER},
            checkpoint=None,
            failover=False,
        ),
        dynamo_component(experimental={}, checkpoint=[]),
        dynamo({}, frontendSidecar={"image": "x", "args": ["y"]}),
        kubeai(resourceProfile="cpu:1", files=[], loadBalancing=OTHER),
        booster({"loraAdapters": []}, affinity=OTHER),
        serving({"replicas": 1}, plugins=[], recoveryPolicy="x"),
        playground({"elasticConfig": {}}, configName="default"),
        workspace(presetOptions={"modelAccessSecret": "x"}),
        roles(runtimeConfig=""),
        serve_llm(lora_config=OTHER, experimental_configs=OTHER, deployment_config={}),
        ome({"kind": "BaseModel"}, minReplicas=1, volumes=[OTHER]),
        predictor({"protocolVersion": "v2"}, volumes=[], initContainers=[], minReplicas=1),
        llm_service({}, storageInitializer={"enabled": False}, tracing={"exporter": "x"}),
        vllm_runtime(storageConfig={"enabled": True}),
        stack({"runtimeClassName": "nvidia"}, initContainer=OTHER, pvcStorage="1Gi", pvcMatchLabels=OTHER),
        llm_d({"volumes": [OTHER]}, mountModelVolume=True, extraConfig={}),
        sky({"any_of": [{"cpus": 1}, "x"], "ordered": "x"}, config={}, setup="true"),
        dstack(setup=[], privileged=True),
        truss(external_package_dirs=[], description="x"),
        nomad({"load": ""}),
        ray({"autoscalerOptions": {"image": "x"}}, rayStartParams={"a": "b"}),
    ],
)
def test_other_fields_are_no_doubt(document: dict[str, Any]) -> None:
    assert doubts(document) == []


@table(
    ("kind", "env", "expected"),
    [
        ("intel-xe", None, {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}),
        ("intel-xe", {"nvidia": [{"name": "A", "value": "1"}]}, {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}),
        ("intel-xe", {"intel-xe": [{"name": "A", "value": "1"}]}, {"A": "1"}),
        ("nvidia", {"nvidia": [{"name": "A", "value": "1"}]}, {"A": "1"}),
        ("nvidia", {"nvidia": None}, {}),
        ("nvidia", {}, {}),
    ],
)
def test_llm_d_sets_the_variables_of_the_accelerator(kind: str, env: object, expected: dict[str, str]) -> None:
    document = {**llm_d({}), "accelerator": {"type": kind, "env": env}}
    (engine,) = read_manifest(document, "", [])
    assert {name: value for name, value in engine.env.items() if "SIZE" not in name} == expected


def test_many_unread_fields_are_one_doubt() -> None:
    document = kubeai(**{f"extra{number}": number + 1 for number in range(100)})
    assert doubts(document) == [
        "`extra0`, `extra1`, `extra2` and 97 more of `spec` are not known, and may change the container"
    ]


def test_a_known_field_is_one_that_could_be_a_doubt() -> None:
    tables = [value for value in vars(tool_fields).values() if isinstance(value, FieldTable)]
    assert len(tables) == 10
    assert {name for table in tables for name in table.known if CHANGING_FIELD.search(name) is None} == set()
