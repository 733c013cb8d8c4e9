"""Variables by which Python, the dynamic loader or vLLM load other code than the image's."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from tables import table

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from deployments import Asking

TODAY = date(2026, 1, 1)
IMAGE = "vllm/vllm-openai:v0.24.0"
OTHER = "decided for vLLM 0.24.0, which may not be the one that runs"
WARNINGS = "PYTHONWARNINGS"


def decided(ask: Asking, document: dict[str, Any]) -> list[str]:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    asked = read_request_or_manifest({"manifest": document, "model_configs": configs}, ask.policy.releases, "")
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return ask.policy.decide(request, TODAY).warnings


def pod(env: list[dict[str, Any]], mount: str = "", **fields: Any) -> dict[str, Any]:
    container = {"name": "a", "image": IMAGE, "args": ["--model", "dense"], "env": env, **fields}
    container["volumeMounts"] = [{"name": "v", "mountPath": mount}] if mount else []
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": volumes}}


def stated(name: str, value: str, mount: str = "") -> dict[str, Any]:
    return pod([{"name": name, "value": value}], mount)


def scripted(script: str) -> Callable[[str, str, str], dict[str, Any]]:
    def document(name: str, value: str, mount: str) -> dict[str, Any]:
        text = script.format(name=name, value=f"'{value}'" if "'" not in value else f'"{value}"')
        return pod([], mount, args=None, command=["bash", "-c", text])

    return document


def composed(name: str, value: str, mount: str) -> dict[str, Any]:
    service = {"image": IMAGE, "command": ["--model", "dense"], "environment": {name: value.replace("$", "$$")}}
    return {"services": {"a": {**service, "volumes": [f"x:{mount}"] if mount else []}}}


def run(name: str, value: str, mount: str) -> dict[str, Any]:
    quoted = f"'{value}'" if "'" not in value else f'"{value}"'
    volume = f"-v x:{mount}" if mount else ""
    return {"script": f"docker run {volume} -e {name}={quoted} {IMAGE} --model dense"}


PROJECTS: list[Callable[[str, str, str], dict[str, Any]]] = [
    stated,
    composed,
    run,
    scripted("export {name}={value}; vllm serve dense"),
    scripted("env {name}={value} vllm serve dense"),
    scripted("{name}={value} exec vllm serve dense"),
]
LOAD: list[tuple[str, str]] = [
    *(
        (name, "/mnt/x")
        for name in (
            *("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX"),
            *("PYTHONEXECUTABLE", "PYTHONSTARTUP", "PYTHONOPTIMIZE", "PYTHON_PRESITE", "PYTHONLATERRELEASE"),
            *("_PYTHON_SYSCONFIGDATA_NAME", "LD_PRELOAD", "LD_AUDIT", "LD_ORIGIN_PATH", "LD_HWCAP_MASK"),
            *("LD_TRACE_LOADED_OBJECTS", "LD_DEBUG", "VLLM_LOGGING_CONFIG_PATH", "RAY_JOB_CONFIG_JSON_ENV_VAR"),
            *("RAY_RUNTIME_ENV_HOOK", "RAY_RUNTIME_ENV_PLUGINS", "RAY_USER_SETUP_FUNCTION"),
        )
    ),
    (WARNINGS, "all:0:antigravity.x:0:0"),
    (WARNINGS, "ignore,error::a.B"),
    (WARNINGS, "ignore::urllib3.exceptions.X,ignore:: a.B:c"),
]
HARMLESS: list[tuple[str, str]] = [
    *(
        (name, "1")
        for name in (
            *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONUTF8"),
            *("PYTHONIOENCODING", "PYTHONNOUSERSITE", "PYTHONASYNCIODEBUG", "PYTHONMALLOC", "PYTHONTRACEMALLOC"),
            *("PYTHON_VERSION", "PYTHON_GIL", "PYTHON_ENV", "LD_BIND_NOW", "LD_SDK_KEY", "GLIBC_TUNABLES"),
            *("MYPYTHONPATH", "WORLD_SIZE", "LDAP_URL", "BROWSER", "VLLM_CONFIGURE_LOGGING", "PATHS", "pythonpath"),
            *("RAY_ADDRESS", "RAY_RUNTIME_ENV_HOOKS", "RAY_DEDUP_LOGS", "RAY_CGRAPH_get_timeout"),
        )
    ),
    *((name, "") for name in ("PYTHONPATH", "LD_PRELOAD", "PYTHONWARNINGS", "VLLM_LOGGING_CONFIG_PATH")),
    *(
        (WARNINGS, value)
        for value in (
            *("ignore", "default", "ignore::DeprecationWarning", "ignore::UserWarning:torch.nn,ignore"),
            *("error:a.b:UserWarning", "ignore::urllib3.exceptions.InsecureRequestWarning", "ignore:::a.b:1"),
        )
    ),
]


@table("project", PROJECTS)
@table(("name", "value"), LOAD)
def test_a_variable_that_loads_code_may_make_another_vllm_run(
    ask: Asking, project: Callable[[str, str, str], dict[str, Any]], name: str, value: str
) -> None:
    found = decided(ask, project(name, value, ""))
    assert f"the variable `{name}` may make another vLLM run; {OTHER}" in found


@table("project", PROJECTS)
@table(("name", "value"), HARMLESS)
def test_another_variable_gives_no_warning(
    ask: Asking, project: Callable[[str, str, str], dict[str, Any]], name: str, value: str
) -> None:
    assert [each for each in decided(ask, project(name, value, "/mnt")) if OTHER in each] == []


def test_a_variable_of_unknown_value_may_load_code(ask: Asking) -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    for name, is_loading in ((WARNINGS, True), ("PYTHONPATH", True), ("PYTHONHASHSEED", False)):
        found = decided(ask, pod([{"name": name, "valueFrom": reference}]))
        assert [each for each in found if OTHER in each] == [
            f"the variable `{name}` may make another vLLM run; {OTHER}"
        ] * is_loading


MODULE = "-m vllm.entrypoints.openai.api_server --model dense"
LOADING_OPTIONS = {
    "-X pycache_prefix=/mnt/x": "-X pycache_prefix",
    "-Xpycache_prefix=/mnt/x": "-X pycache_prefix",
    "-uX dev -EX pycache_prefix=x -u": "-X pycache_prefix",
    "-X presite=a": "-X presite",
    "-W ignore::a.B": "-W",
    "-Wignore::a.B": "-W",
    "-W default -uW error:a,b:c.D:e:1": "-W",
    "-O": "-O",
    "-uOO": "-O",
}
OTHER_OPTIONS = [
    *("-u -B -E -s -I -P -q", "-X dev", "-X pycache_prefix", "-X pycache_prefix=", "-X importtime -X utf8=1"),
    *("-X pycache_prefix= -X pycache_prefix=/mnt/x", "-W ignore", "-W ignore::UserWarning:torch.nn", "-W ignore:::a.b"),
    *("-W ignore::urllib3.exceptions.InsecureRequestWarning", "-W ignore:a.b", "--check-hash-based-pycs never"),
]


@table("start", ["python3", "exec env A=b python3.12", "torchrun --no-python python"])
@table(("options", "named"), list(LOADING_OPTIONS.items()))
def test_an_option_of_python_that_loads_code_may_make_another_vllm_run(
    ask: Asking, start: str, options: str, named: str
) -> None:
    script = f"{start} {options} {MODULE}"
    for command in (["bash", "-c", script], script.removeprefix("exec ").split()):
        found = decided(ask, pod([], args=None, command=command))
        assert [each for each in found if OTHER in each] == [
            f"the option `{named}` of Python may make another vLLM run; {OTHER}"
        ]


@table("options", OTHER_OPTIONS)
def test_another_option_of_python_gives_no_warning(ask: Asking, options: str) -> None:
    found = decided(ask, pod([], args=None, command=["python3", *options.split(), *MODULE.split()]))
    assert [each for each in found if OTHER in each] == []


@table(
    ("options", "is_loading"),
    [
        *(('-X "$A"', True), ('-X"$A"', True), ('-W "$A"', True), ('-W "ignore::$A"', True)),
        *(('-X "pycache_prefix=$A"', True), ('-X "tracemalloc=$A"', False)),
    ],
)
def test_an_option_of_python_of_unknown_value_may_load_code(ask: Asking, options: str, *, is_loading: bool) -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    command = ["sh", "-c", f"python3 {options} {MODULE}"]
    found = decided(ask, pod([{"name": "A", "valueFrom": reference}], args=None, command=command))
    assert any(OTHER in each for each in found) is is_loading


LOCATIONS: list[tuple[str, str, str]] = [
    ("LD_LIBRARY_PATH", "/mnt/x", "/mnt/x"),
    ("LD_LIBRARY_PATH", "/usr/lib:/mnt/x/lib", "/mnt/x"),
    ("LD_LIBRARY_PATH", "/mnt//x/../x/", "/mnt/x"),
    ("LD_LIBRARY_PATH", "/mnt/lib", "/mnt/lib/libc.so.6"),
    ("VLLM_NCCL_SO_PATH", "/mnt/x/nccl.so", "/mnt"),
    ("VLLM_CUDART_SO_PATH", "/mnt/x/a.so", "/mnt/x/a.so"),
    ("VLLM_CUDA_COMPATIBILITY_PATH", "/mnt/x", "/mnt"),
    ("VLLM_RUST_FRONTEND_PATH", "/mnt/x", "/mnt"),
    ("OPENSSL_CONF", "/mnt/o.cnf", "/mnt"),
    ("OPENSSL_MODULES", "/mnt/x", "/mnt"),
    ("OPENSSL_ENGINES", "/mnt/x", "/mnt"),
    ("GCONV_PATH", "/mnt/x", "/mnt/x"),
    ("CUDA_INJECTION64_PATH", "/mnt/x.so", "/mnt"),
    ("CC", "/mnt/cc", "/mnt"),
    ("CXX", "/mnt/c++", "/mnt/c++"),
    ("TRITON_PTXAS_PATH", "/mnt/ptxas", "/mnt"),
    ("NUMBA_CUDA_DRIVER", "/mnt/libcuda.so", "/mnt"),
    ("NCCL_NET_PLUGIN", "/mnt/libnet.so", "/mnt"),
    ("NCCL_TUNER_PLUGIN", "/mnt/libtuner.so", "/mnt"),
    ("NCCL_PROFILER_PLUGIN", "/mnt/libprofiler.so", "/mnt"),
]
OTHER_LOCATIONS: list[tuple[str, str, str]] = [
    ("LD_LIBRARY_PATH", "/mnt/x", ""),
    ("LD_LIBRARY_PATH", "/opt/x", "/mnt/x"),
    ("LD_LIBRARY_PATH", "", "/mnt/x"),
    ("LD_LIBRARY_PATH", "/mnt/xx:", "/mnt/x"),
    ("LD_LIBRARY_PATH", "${LD_LIBRARY_PATH}:/usr/lib", "/mnt/x"),
    ("LD_LIBRARY_PATH", "/usr/lib", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
    *(
        ("LD_LIBRARY_PATH", f"{folder}/lib64:/usr/lib", folder)
        for folder in (
            *("/usr/local/nvidia", "/usr/local/nvidia/lib64", "/usr/local/cuda", "/usr/local/cuda-12.8"),
            *(
                "/usr/local/gib",
                "/usr/local/tcpx",
                "/usr/local/tcpxo",
                "/usr/local/fastrak",
                "/home/kubernetes/bin/nvidia",
            ),
        )
    ),
    ("VLLM_NCCL_SO_PATH", "/usr/local/gib/lib64/libnccl.so", "/usr/local/gib"),
    ("VLLM_NCCL_SO_PATH", "/usr/lib/libnccl.so.2", "/mnt"),
    ("VLLM_RUST_FRONTEND_PATH", "auto", "/mnt"),
    ("OPENSSL_CONF", "/dev/null", "/mnt"),
    ("OPENSSL_CONF", "/etc/ssl/openssl.cnf", "/mnt"),
    ("CC", "/usr/bin/gcc", "/mnt"),
    ("CC", "gcc", "/mnt"),
    ("NCCL_NET_PLUGIN", "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "/opt/amazon"),
    ("NCCL_TUNER_CONFIG_PATH", "/mnt/tuner.textproto", "/mnt"),
]


@table("project", PROJECTS)
@table(("name", "value", "mount"), LOCATIONS)
def test_libraries_on_a_volume_may_make_another_vllm_run(
    ask: Asking, project: Callable[[str, str, str], dict[str, Any]], name: str, value: str, mount: str
) -> None:
    found = decided(ask, project(name, value, mount))
    assert f"the variable `{name}` has a path on a volume, which may make another vLLM run; {OTHER}" in found


@table("project", PROJECTS)
@table(("name", "value", "mount"), OTHER_LOCATIONS)
def test_other_libraries_give_no_warning(
    ask: Asking, project: Callable[[str, str, str], dict[str, Any]], name: str, value: str, mount: str
) -> None:
    assert [each for each in decided(ask, project(name, value, mount)) if OTHER in each] == []


def test_a_folder_before_those_of_an_unknown_variable_counts(ask: Asking) -> None:
    for assignment, is_warned in (
        ("LD_LIBRARY_PATH=/mnt/x:$LD_LIBRARY_PATH", True),
        ("LD_LIBRARY_PATH=/opt/x:$LD_LIBRARY_PATH", False),
        ("CUDA_INJECTION64_PATH=/mnt/x/$LIBRARY", True),
        ("OPENSSL_CONF=/opt/$CONF", False),
        ("CC=/mnt/x/$COMPILER", True),
        ("TRITON_PTXAS_PATH=/mnt/x/$PTXAS", True),
        ("MYCC=/mnt/x/$COMPILER", False),
    ):
        script = f"export {assignment}\nexec vllm serve dense"
        found = decided(ask, pod([], "/mnt/x", args=None, command=["bash", "-c", script]))
        assert any(OTHER in each for each in found) is is_warned
