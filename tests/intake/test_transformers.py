"""Claims about the release of Transformers: which one reads a model, and what is said if another changes the answer."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.errors import RequestInvalid
from policy.intake.model.tables import provenance, releases, tables
from policy.intake.model.transformers_releases import required_releases
from policy.request.request import read_request

if TYPE_CHECKING:
    from policy.decision.decision import Decision
    from policy.policy import Policy

TODAY = date(2026, 11, 1)
GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "layer_types": ["attention"] * 4,
    "num_hidden_layers": 4,
    "num_local_experts": 0,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "hidden_size": 512,
    "max_position_embeddings": 4096,
    "vocab_size": 1000,
}
"""Like Granite 4.0 micro: a hybrid class whose layers all have attention."""
DENSE = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
HYBRID = "model_config.is_hybrid"
ASSUMED = "environment.transformers"


def decided(
    policy: Policy, release: str, stated: str | None = None, config: dict[str, Any] = GRANITE, **more: Any
) -> Decision:
    environment = {} if stated is None else {"transformers": stated}
    deployment = {"args": ["serve", "x"], "model_configs": {"x": config}, "environment": environment}
    return policy.decide(
        read_request({"vllm_version": release, "deployment": deployment, **more}, policy.releases), TODAY
    )


@table(
    ("release", "stated", "expected"),
    [
        ("0.24.0", None, (False, "v1")),
        ("0.26.0", None, (True, "v1")),
        ("0.26.0", "5.8.0", (False, "v2")),
        ("0.26.0", "5.12.1", (False, "v2")),
        ("0.26.0", "5.13.1", (True, "v1")),
        ("0.26.0", "5.14.1", (True, "v1")),
        ("0.26.0", "5.19.0", (True, "v1")),
        ("0.26.0", "99.0.0", (True, "v1")),
        ("0.31.0", None, (False, "v2")),
    ],
)
def test_a_release_of_transformers_reads_the_model(
    policy: Policy, release: str, stated: str | None, expected: tuple[bool, str]
) -> None:
    """From 5.13 on it renames `attention` to `full_attention`, which vLLM counts as hybrid until 0.30."""
    answer = decided(policy, release, stated)
    assert answer.facts
    assert (HYBRID in answer.facts and answer.facts[HYBRID].value, answer.runner) == expected


@table(
    ("release", "stated", "config", "expected"),
    [
        ("0.25.0", None, GRANITE, [("5.13.1", {"5.12.1": ("v2", True)})]),
        ("0.25.1", None, GRANITE, [("5.14.0", {"5.12.1": ("v2", True)})]),
        ("0.26.0", None, GRANITE, [("5.14.1", {"5.12.1": ("v2", True)})]),
        ("0.26.0", "5.14.1", GRANITE, []),
        ("0.26.0", None, DENSE, []),
        ("0.31.0", None, GRANITE, []),
        ("0.19.1", None, GRANITE, []),
    ],
)
def test_another_release_is_named_if_it_would_change_the_answer(
    policy: Policy, release: str, stated: str | None, config: dict[str, Any], expected: list[Any]
) -> None:
    answer = decided(policy, release, stated, config, explain=True)
    assert answer.assumptions
    assert [
        (each.assumed, {version: (other.runner, other.starts) for version, other in each.would_change.items()})
        for each in answer.assumptions
        if each.fact == ASSUMED
    ] == expected


@pytest.mark.parametrize(
    ("release", "stated", "expected"),
    [
        ("0.26.0", "5.14.1", []),
        ("0.19.1", "5.8.0", []),
        (
            "0.26.0",
            "5.11.0",
            ["Transformers 5.11.0 is not known here; the model is read as by Transformers 5.10.2"],
        ),
        ("0.33.0", "5.14.1", ["vLLM 0.33.0 is not installed with Transformers 5.14.1; it requires <5.21.0,>=5.16.1"]),
        (
            "0.26.0",
            "4.57.6",
            [
                "vLLM 0.26.0 is not installed with Transformers 4.57.6; it requires >=5.5.3",
                "Transformers 4.57.6 is not known here; the model is read as by Transformers 5.6.2",
            ],
        ),
    ],
)
def test_a_release_that_does_not_fit_is_a_warning(
    policy: Policy, release: str, stated: str, expected: list[str]
) -> None:
    assert [text for text in decided(policy, release, stated, DENSE).warnings if "Transformers" in text] == expected


@table("stated", ["", "5", "v5.14.1", "5.14.1rc1", ">=5.14", "5.14.1 ", 5.14, True, ["5.14.1"], "5." * 99])
def test_anything_but_a_release_is_refused(policy: Policy, stated: Any) -> None:
    with pytest.raises(RequestInvalid, match="expected a release of Transformers such as"):
        decided(policy, "0.26.0", stated)


def test_each_release_reads_with_one_that_it_allows() -> None:
    assert [release for release in releases() if tables(release).transformers not in required_releases(release)] == []


def test_the_tables_of_two_releases_share_what_is_the_same() -> None:
    one, other = tables("0.26.0"), tables("0.26.0", transformers="5.12.1")
    assert (one.models is other.models, one.transformers, other.transformers) == (True, "5.14.1", "5.12.1")
    assert tables("0.26.0", transformers="5.14.1") is one
    assert set(provenance()["transformers"]) >= {one.transformers, other.transformers}
