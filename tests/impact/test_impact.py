"""What several releases do with a deployment, and the kinds of changes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deployments import TODAY

from policy.impact.impact import Impact
from policy.impact.targets import V1_REMOVED, targets_of
from policy.request.request import read_request

if TYPE_CHECKING:
    from policy.impact.impact import Comparison
    from policy.policy import Policy

QWEN3: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
MIXTRAL: dict[str, Any] = {"model_config": {"architectures": ["MixtralForCausalLM"], "is_moe": True}}
PINNED = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
EXTERNAL = {"parallel_config": {"distributed_executor_backend": "external_launcher", "pipeline_parallel_size": 2}}


def compared(policy: Policy, facts: dict[str, Any], *releases: str) -> Comparison:
    """The comparison of stated facts over releases, by upstream's rules."""
    impact = Impact(policy, targets_of(releases, policy.releases), TODAY)
    return impact.compare(read_request({"facts": facts, "layers": ["upstream"]}, policy.releases))


@pytest.mark.parametrize(
    ("facts", "releases", "changes"),
    [
        (QWEN3, ("0.29.0", "0.33.0"), []),
        (QWEN3 | PINNED, ("0.32.0", "0.33.0", V1_REMOVED), [("0.33.0", V1_REMOVED, "runner-v1-to-v2")]),
        (MIXTRAL, ("0.23.0", "0.33.0"), [("0.23.0", "0.33.0", "runner-v1-to-v2")]),
        (QWEN3 | EXTERNAL, ("0.33.0", V1_REMOVED), [("0.33.0", V1_REMOVED, "no-start")]),
    ],
)
def test_changes_between_releases(
    policy: Policy, facts: dict[str, Any], releases: tuple[str, ...], changes: list[tuple[str, str, str]]
) -> None:
    found = compared(policy, facts, *releases).changes
    assert [(change.from_, change.to, str(change.kind)) for change in found] == changes


DBO: dict[str, Any] = {**MIXTRAL, "parallel_config": {"enable_dbo": True}, "lora_config": {}}
WITHOUT_DBO = [{"fact": "parallel_config.enable_dbo", "from": True, "to": False}]
WITHOUT_LORA = [{"fact": "lora_config", "from": True, "to": None}]


@pytest.mark.parametrize(
    ("facts", "releases", "remedies"),
    [
        pytest.param(QWEN3, ("0.21.0", "0.33.0"), [], id="nothing has to change"),
        pytest.param(
            DBO,
            ("0.22.0", "0.33.0"),
            [("v2", WITHOUT_DBO, "v2", True)],
            id="on V1",
        ),
        pytest.param(
            DBO,
            ("0.33.0", V1_REMOVED),
            [("start", WITHOUT_DBO, "v2", True), ("start", WITHOUT_LORA, "v2", True)],
            id="the operator's variable keeps no V1 that is removed",
        ),
    ],
)
def test_remedies_are_those_of_the_last_target(
    policy: Policy, facts: dict[str, Any], releases: tuple[str, ...], remedies: list[tuple[Any, ...]]
) -> None:
    impact = Impact(policy, targets_of(releases, policy.releases), TODAY, explains=True)
    found = impact.compare(read_request({"facts": facts}, policy.releases)).remedies
    shown = [(each["for"], each["change"], each["runner"], each["starts"]) for each in msgspec.to_builtins(found)]
    assert shown == remedies


def test_remedies_are_not_looked_for_unless_they_are_asked_for(policy: Policy) -> None:
    assert compared(policy, DBO, "0.22.0", "0.33.0").remedies is msgspec.UNSET
