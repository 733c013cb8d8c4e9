"""Code from outside vLLM that a flag or a variable loads: a warning, and a doubt about the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deployments import TODAY
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking

NOT_RUN = "that code is not run here, and may choose another runner or change the configuration"
WORKER = "the worker, which creates the model runner"
EXTENSION = "part of the worker, which creates the model runner"
EXECUTOR = "the executor, which creates the workers and their model runners"


def loads(flag: str, name: str, role: str, place: str = "args[2]") -> str:
    return f"`{flag}` ({place}) loads `{name}` from outside vLLM as {role}; {NOT_RUN}"


def check(ask: Asking, args: list[str] | str, release: str, expected: list[str], **fields: Any) -> None:
    """The warnings about code are ``expected``, and each of them is what makes an engine undecided."""
    request = read_request(ask.request(args, release, **fields), ask.policy.releases)
    result = ask.policy.evaluate(request, TODAY)
    assert [each for each in ask.policy.assemble(result).warnings if NOT_RUN in each] == expected
    assert result.intake is not None
    if not expected:
        require_known_values(result.intake, "/deployment")
        return
    with pytest.raises(RequestInvalid) as caught:
        require_known_values(result.intake, "/deployment")
    assert [fault.message for fault in caught.value.faults if NOT_RUN in fault.message] == expected


@table("release", ["0.20.2", "0.22.0", "0.25.1", "0.33.0"])
@table(
    ("flag", "value", "role"),
    [
        ("--worker-cls", "my.Worker", WORKER),
        ("--worker-cls", "vllm_ascend.worker.NPUWorker", WORKER),
        ("--worker-extension-cls", "my.Extension", EXTENSION),
        ("--scheduler-cls", "my.Scheduler", "the scheduler of the model runner"),
        ("--distributed-executor-backend", "a.b.C", EXECUTOR),
        ("--config-format", "mine", "what reads the model's configuration"),
    ],
)
def test_code_from_outside_vllm_is_reported_and_leaves_the_runner_undecided(
    ask: Asking, release: str, flag: str, value: str, role: str
) -> None:
    args = ["serve", "dense", f"{flag}={value}"]
    check(ask, args, release, [loads(flag, value, role)])


@table("release", ["0.20.2", "0.33.0"])
@table(
    ("flag", "value"),
    [
        ("--worker-cls", "auto"),
        ("--worker-cls", "vllm.v1.worker.gpu_worker.Worker"),
        ("--worker-extension-cls", ""),
        ("--worker-extension-cls", "vllm.model_executor.model_loader.Extension"),
        ("--scheduler-cls", "vllm.v1.core.sched.scheduler.Scheduler"),
        ("--distributed-executor-backend", "mp"),
        ("--distributed-executor-backend", "ray"),
        ("--distributed-executor-backend", "uni"),
        ("--distributed-executor-backend", "external_launcher"),
        ("--distributed-executor-backend", "vllm.v1.executor.multiproc_executor.MultiprocExecutor"),
        ("--config-format", "hf"),
        ("--logits-processors", "my.Processor"),
        ("--load-format", "runai_streamer"),
        ("--middleware", "my.Middleware"),
    ],
)
def test_code_of_vllm_or_of_its_server_is_not_reported(ask: Asking, release: str, flag: str, value: str) -> None:
    check(ask, ["serve", "dense", f"{flag}={value}"], release, [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"Qwen3ForCausalLM": "my.models:Qwen3"}', "my.models:Qwen3"),
        ('{"A": "vllm.model_executor.models.qwen3:Qwen3ForCausalLM", "B": "x:Y"}', "x:Y"),
        ('{"A": "vllm.model_executor.models.qwen3:Qwen3ForCausalLM"}', ""),
        ("{}", ""),
    ],
)
def test_classes_of_models_are_reported(ask: Asking, value: str, expected: str) -> None:
    flag = "--model-class-overrides"
    found = [loads(flag, expected, "the model's class")] if expected else []
    check(ask, ["serve", "dense", f"{flag}={value}"], "0.33.0", found)


@table("release", ["0.20.2", "0.33.0"])
@table(
    ("value", "expected"),
    [("x", "x"), ("lora_filesystem_resolver,mine", "mine"), ("", ""), ("lora_hf_hub_resolver", "")],
)
def test_a_named_plug_in_is_reported(ask: Asking, release: str, value: str, expected: str) -> None:
    found = [f"`VLLM_PLUGINS` loads the plug-in `{expected}` from outside vLLM; {NOT_RUN}"] if expected else []
    check(ask, ["serve", "dense"], release, found, env={"VLLM_PLUGINS": value})
    check(ask, f"export VLLM_PLUGINS={value}; vllm serve dense", release, found)
    check(ask, "env -u VLLM_PLUGINS vllm serve dense", release, [], env={"VLLM_PLUGINS": value})


def test_a_value_that_is_not_known_may_name_code(ask: Asking) -> None:
    flag = "--worker-cls"
    unknown = f"`{flag}` is set to `$W` (args), whose value is not known; it may load code from outside vLLM as "
    check(ask, f'vllm serve dense {flag}="$W"', "0.33.0", [f"{unknown}{WORKER}; {NOT_RUN}"])
    plugins = f"the value of `VLLM_PLUGINS` is not known; it may load a plug-in from outside vLLM; {NOT_RUN}"
    check(ask, ["serve", "dense"], "0.33.0", [plugins], env={"VLLM_PLUGINS": "${P}"})


def test_the_last_value_counts(ask: Asking) -> None:
    check(ask, 'vllm serve dense --worker-cls="$W" --worker-cls=my.Worker --worker-cls=auto', "0.33.0", [])


@pytest.mark.parametrize("platform", ["tpu", "ascend"])
def test_a_platform_with_a_runner_of_its_own_has_classes_of_its_own(ask: Asking, platform: str) -> None:
    given = {"env": {"VLLM_PLUGINS": "ascend"}, "environment": {"platform": platform}}
    check(ask, ["serve", "dense", "--worker-cls=vllm_ascend.worker.NPUWorker"], "0.33.0", [], **given)
