"""Connectors: stated, or implied by what is offloaded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from deployments import Asking
from tables import table

if TYPE_CHECKING:
    from shipped_rules import ShippedRules

DENSE = ["--model", "dense"]
SIZE = ["--kv-offloading-size", "4"]
LMCACHE = ["--kv-offloading-backend", "lmcache"]
STATED = ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}']
SIMPLE = "VLLM_USE_SIMPLE_KV_OFFLOAD"

CONNECTORS: list[tuple[str, list[str], dict[str, str], tuple[bool, str], dict[str, tuple[Any, str]]]] = [
    ("0.33.0", [], {}, (False, "default"), {}),
    (
        "0.33.0",
        STATED,
        {},
        (True, "args[2]"),
        {"kv_connector": ("NixlConnector", "args[2]"), "kv_role": ("kv_producer", "args[2]")},
    ),
    (
        "0.33.0",
        ["--kv-transfer-config", "{}"],
        {},
        (True, "args[2]"),
        {"kv_connector": (None, "args[2]"), "kv_role": (None, "args[2]")},
    ),
    (
        "0.33.0",
        SIZE,
        {},
        (True, "args[2]"),
        {"kv_connector": ("OffloadingConnector", "args[2]"), "kv_role": ("kv_both", "args[2]")},
    ),
    (
        "0.33.0",
        SIZE,
        {SIMPLE: "0"},
        (True, "args[2]"),
        {"kv_connector": ("OffloadingConnector", "args[2]"), "kv_role": ("kv_both", "args[2]")},
    ),
    (
        "0.33.0",
        SIZE,
        {SIMPLE: "1"},
        (True, "args[2]"),
        {"kv_connector": ("SimpleCPUOffloadConnector", "args[2]"), "kv_role": ("kv_both", "args[2]")},
    ),
    (
        "0.22.0",
        [*SIZE, *LMCACHE],
        {},
        (True, "args[2]"),
        {"kv_connector": ("LMCacheConnectorV1", "args[2]"), "kv_role": ("kv_both", "args[2]")},
    ),
    (
        "0.23.0",
        [*SIZE, *LMCACHE],
        {},
        (True, "args[2]"),
        {"kv_connector": ("LMCacheMPConnector", "args[2]"), "kv_role": ("kv_both", "args[2]")},
    ),
    ("0.33.0", LMCACHE, {}, (False, "default"), {}),
    (
        "0.33.0",
        [*STATED, *SIZE],
        {},
        (True, "args[2]"),
        {"kv_connector": ("OffloadingConnector", "args[4]"), "kv_role": ("kv_both", "args[4]")},
    ),
]


@table(("release", "args", "env", "presence", "expected"), CONNECTORS)
def test_a_connector_is_stated_or_implied(
    ask: Asking,
    release: str,
    args: list[str],
    env: dict[str, str],
    presence: tuple[bool, str],
    expected: dict[str, tuple[Any, str]],
) -> None:
    asked = [*DENSE, *args]
    assert ask.fact("kv_transfer_config", asked, release, env=env) == presence
    none_combined: dict[str, tuple[Any, str]] = {"connectors": ([], "default")} if presence[0] else {}
    assert ask.facts("kv_transfer_config", asked, release, env=env) == expected | none_combined


@pytest.mark.parametrize("config", ['{"ec_connector": "x", "ec_role": "ec_producer"}', "{}"])
def test_the_presence_of_an_encoder_cache_connector_is_a_fact(ask: Asking, config: str) -> None:
    found = [ask.fact("ec_transfer_config", [*DENSE, *args]) for args in ([], ["--ec-transfer-config", config])]
    assert found == [(False, "default"), (True, "args[2]")]


def test_a_secret_in_the_name_of_a_connector_is_not_in_the_texts(ask: Asking) -> None:
    config = '{"kv_connector": "x password=hunter2", "kv_role": "kv_both"}'
    found = ask([*DENSE, "--kv-transfer-config", config], "0.23.0", upstream=False)
    assert found.summary.startswith("V1: a KV connector (x password=…) keeps this deployment on V1")
    assert "hunter2" not in "".join(
        [found.summary, *found.launch_errors, *(reason.message for reason in found.reasons)]
    )


NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def multiple(*connectors: Any) -> dict[str, Any]:
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": connectors},
    }


@table(
    ("config", "expected"),
    [
        (multiple(NIXL, {"kv_connector": "OffloadingConnector"}), ["NixlConnector", "OffloadingConnector"]),
        (multiple(multiple(NIXL), NIXL), ["MultiConnector", "NixlConnector"]),
        (multiple(7, {}, {"kv_connector": 7}), []),
        ({"kv_connector": "MultiConnector"}, []),
        ({"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": 7}}, []),
        ({**multiple(NIXL), "kv_connector": "OtherConnector"}, []),
    ],
)
def test_the_connectors_that_one_combines_are_a_fact(ask: Asking, config: dict[str, Any], expected: list[str]) -> None:
    args = [*DENSE, "--kv-transfer-config", json.dumps(config)]
    found = ask.fact("kv_transfer_config.connectors", args, "0.24.0")
    assert found
    assert found[0] == expected


def test_connectors_are_followed_to_a_bound(ask: Asking) -> None:
    config = multiple(NIXL)
    for _ in range(8):
        config = multiple(config)
    args = [*DENSE, "--kv-transfer-config", json.dumps(config)]
    assert ask.fact("kv_transfer_config.connectors", args, "0.24.0") == (["MultiConnector"], "args[2]")


def test_a_known_problem_of_one_of_several_connectors_is_listed(shipped_rules: ShippedRules) -> None:
    config = multiple(NIXL, {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"})
    args = [*DENSE, "--block-size", "128", "--kv-transfer-config", json.dumps(config)]
    found = Asking(shipped_rules.policy)(args, "0.24.0").known_problems
    assert "v2-nixl-block-size" in [problem.rule for problem in found]
