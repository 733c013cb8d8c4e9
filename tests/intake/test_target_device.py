"""``VLLM_TARGET_DEVICE``: ``cpu`` selects the platform from 0.28 on; otherwise only vLLM's build reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deployments import TODAY
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

DENSE = ["serve", "dense"]
NAME = "VLLM_TARGET_DEVICE"
TRITON = "platform.has_triton"
ENV = f"env.{NAME}"


def of(value: str) -> str:
    return (
        f"although {NAME} is `{value}`: vLLM chooses no platform by it, except `cpu` from 0.28 on; state the platform "
        "if it is another"
    )


def answer(ask: Asking, args: list[str] | str, release: str, **given: Any) -> tuple[str | None, str, list[str]]:
    """The runner, the origin of the fact about the platform, and the warnings about it."""
    decision = ask(args, release, **given)
    assert decision.facts
    origin = decision.facts["platform.is_unspecified"].from_ if release == "0.33.0" else ""
    return decision.runner, origin, [each for each in decision.warnings if NAME in each]


@table("value", ["cpu", "CPU", "Cpu"])
@table(
    ("release", "runner"), [("0.28.0", "v1"), ("0.29.0", "v1"), ("0.30.0", "v1"), ("0.32.0", "v1"), ("0.33.0", "v1")]
)
def test_cpu_selects_the_platform_from_0_28_on(ask: Asking, value: str, release: str, runner: str) -> None:
    expected: tuple[str, str, list[str]] = runner, ENV if release == "0.33.0" else "", []
    assert answer(ask, DENSE, release, env={NAME: value}) == expected
    assert answer(ask, f"export {NAME}={value}; vllm serve dense", release) == expected
    assert ask.fact(TRITON, DENSE, release, env={NAME: value}) == (False, "assumed")
    stated = ask(DENSE, release, environment={"platform": "cpu", "has_triton": False}).facts
    found = ask(DENSE, release, env={NAME: value}).facts
    assert stated
    assert found
    assert {name: each.value for name, each in found.items()} == {name: each.value for name, each in stated.items()}


@pytest.mark.parametrize("platform", ["cuda", "rocm", "out-of-tree"])
def test_it_precedes_the_stated_platform_with_a_warning(ask: Asking, platform: str) -> None:
    warning = f"{NAME} makes vLLM choose the platform `cpu`, not `{platform}`, which the request states"
    given = {"env": {NAME: "cpu"}, "environment": {"platform": platform}}
    assert answer(ask, DENSE, "0.33.0", **given) == ("v1", ENV, [warning])


def test_a_stated_cpu_needs_no_warning(ask: Asking) -> None:
    given: dict[str, Any] = {"env": {NAME: "cpu"}, "environment": {"platform": "cpu"}}
    assert answer(ask, DENSE, "0.33.0", **given) == ("v2", "environment.platform", [])
    assert answer(ask, DENSE, "0.27.1", **given)[2] == []


@table(
    ("release", "value", "platform", "warned"),
    [
        ("0.27.1", "cpu", None, "cuda"),
        ("0.20.0", "CPU", "rocm", "rocm"),
        ("0.33.0", "rocm", None, "cuda"),
        ("0.33.0", "tpu", "xpu", "xpu"),
        ("0.33.0", "cuda", "cpu", "cpu"),
        ("0.33.0", "tpu", "out-of-tree", None),
        ("0.33.0", "cuda", None, None),
        ("0.23.0", "rocm", "rocm", None),
        ("0.33.0", " cpu", None, None),
        ("0.33.0", "empty", None, None),
        ("0.33.0", "", None, None),
    ],
)
def test_other_values_select_no_platform_and_are_reported_if_they_contradict_it(
    ask: Asking, release: str, value: str, platform: str | None, warned: str | None
) -> None:
    environment = {"platform": platform}
    found = answer(ask, DENSE, release, env={NAME: value}, environment=environment)
    without = answer(ask, DENSE, release, environment=environment)
    warnings = [] if warned is None else [f"decided for the platform `{warned}`, {of(value)}"]
    assert found == (*without[:2], warnings)


def pod(image: str, variable: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "vllm", "image": image, "args": ["dense"], "env": [{"name": NAME, **variable}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def request_for(ask: Asking, manifest: dict[str, Any]) -> Request:
    configs = ask.request(DENSE)["deployment"]["model_configs"]
    document = {"manifest": manifest, "model_configs": configs, "layers": ["upstream"], "explain": True}
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return request


def test_it_precedes_the_platform_of_an_image(ask: Asking) -> None:
    decision = ask.policy.decide(request_for(ask, pod("vllm/vllm-openai-rocm:v0.33.0", {"value": "cpu"})), TODAY)
    warning = f"{NAME} makes vLLM choose the platform `cpu`, not `rocm`, which the image's name shows"
    assert (decision.runner, warning in decision.warnings) == ("v1", True)
    assert decision.assumptions
    assert "environment.platform" not in [each.fact for each in decision.assumptions]


@pytest.mark.parametrize(("release", "is_read"), [("0.27.1", False), ("0.28.0", True), ("0.33.0", True)])
def test_an_unknown_value_is_an_assumption_and_must_be_known_where_vllm_reads_it(
    ask: Asking, release: str, *, is_read: bool
) -> None:
    source = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    request = request_for(ask, pod(f"vllm/vllm-openai:v{release}", source))
    result = ask.policy.evaluate(request, TODAY)
    assumed = {each.fact: each for each in ask.policy.assemble(result).assumptions or []}
    assert list(assumed[ENV].would_change) == (["cpu"] if is_read else [])
    assert result.intake is not None
    if is_read:
        with pytest.raises(RequestInvalid, match=f"the value of the variable `{NAME}` is not known"):
            require_known_values(result.intake, "")
    else:
        require_known_values(result.intake, "")
