"""The documents that the project publishes: facts, rules, releases, and the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from known_releases import KNOWN_RELEASES
from tables import table

from policy.cache import SecondHitCache, memoize
from policy.facts.vocabulary import FACTS
from policy.rules.documents import (
    facts_document,
    policy_document,
    read_by,
    releases_document,
    rule_document,
    rules_document,
)

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue


def test_every_fact_is_published_in_the_order_of_the_vocabulary(catalogue: Catalogue) -> None:
    assert [fact["name"] for fact in facts_document(catalogue)["facts"]] == list(FACTS)


@pytest.mark.parametrize(
    "fact",
    [
        {
            "name": "model_config.runner_type",
            "type": "choice",
            "legal": "`generate`, `pooling`, `draft`",
            "choices": ["generate", "pooling", "draft"],
            "nullable": False,
            "default": "generate",
            "meaning": "what the engine is for (`--runner`); not the model runner V1 or V2",
            "read_by": KNOWN_RELEASES[KNOWN_RELEASES.index("0.18.0") :],
        },
        {
            "name": "env.VLLM_USE_V2_MODEL_RUNNER",
            "type": "tri-state",
            "legal": "the variable's text, `true`, `false`, `null` if it is unset",
            "choices": [],
            "nullable": True,
            "default": None,
            "meaning": (
                "the operator's environment variable: unset, false or true, parsed as vLLM parses its text; from 0.12 "
                "to 0.21 unset means false, and older releases do not read it"
            ),
            "read_by": KNOWN_RELEASES,
        },
        {
            "name": "kv_transfer_config",
            "type": "presence",
            "legal": "an object, `null` if it is absent",
            "choices": [],
            "nullable": True,
            "default": False,
            "meaning": "a KV connector is configured (`--kv-transfer-config`, or implied by `--kv-offloading-size`)",
            "read_by": ["0.22.0", "0.22.1", "0.23.0", "0.24.0"],
        },
    ],
    ids=lambda fact: str(fact["name"]),
)
def test_a_fact_is_published_with_these_fields(catalogue: Catalogue, fact: dict[str, Any]) -> None:
    assert {item["name"]: item for item in facts_document(catalogue)["facts"]}[fact["name"]] == fact


@table(
    ("name", "first", "last"),
    [
        ("platform.has_triton", "0.22.0", "0.33.0"),
        ("platform.is_rocm", "0.27.0", "0.31.0"),
        ("platform.is_unspecified", "0.33.0", "0.33.0"),
        ("model_config.has_inner_state", "0.20.0", "0.24.0"),
        ("model_config.is_attention_free", "0.25.0", "0.28.0"),
        ("model_config.convert_type", "0.20.0", "0.26.0"),
        ("model_config.attn_type", "0.20.0", "0.27.1"),
        ("model_config.use_mla", "0.26.0", "0.28.0"),
        ("model_config.enable_return_routed_experts", "0.20.0", "0.27.1"),
        ("model_config.return_sampling_mask", "0.28.0", "0.33.0"),
        ("parallel_config.ubatch_size", "0.30.0", "0.33.0"),
        ("scheduler_config.async_scheduling", "0.31.0", "0.33.0"),
        ("speculative_config.draft_model_config", "0.26.0", "0.33.0"),
        ("speculative_config.draft_model_config.hf_config.layer_types", "0.26.0", "0.33.0"),
        ("speculative_config.use_heterogeneous_vocab", "0.32.0", "0.33.0"),
        ("cache_config.kv_sharing_fast_prefill", "0.20.0", "0.29.0"),
        ("compilation_config.pass_config.enable_sp", "0.22.0", "0.31.0"),
        ("ec_transfer_config", "0.20.0", "0.27.1"),
        ("attention_config.hisparse_config", "0.30.0", "0.33.0"),
    ],
)
def test_a_fact_is_read_by_these_releases(catalogue: Catalogue, name: str, first: str, last: str) -> None:
    assert read_by(catalogue)[name] == KNOWN_RELEASES[KNOWN_RELEASES.index(first) : KNOWN_RELEASES.index(last) + 1]


def test_a_rule_is_published_with_the_fields_of_its_file(catalogue: Catalogue) -> None:
    rule = catalogue.rule("quantized")
    assert rule
    assert rule_document(rule) == {
        "id": "quantized",
        "layer": "upstream",
        "file": "upstream/default/quantized.yaml",
        "title": "Quantised checkpoints",
        "effect": "not-default",
        "why": "Upstream tested V2 with unquantised checkpoints first.",
        "remedy": "upgrade to 0.24, or set `VLLM_USE_V2_MODEL_RUNNER` to 1 to use V2 anyway, unless the decision with "
        "it says `starts: false`",
        "references": ["https://github.com/vllm-project/vllm/pull/39337"],
        "releases": [
            {
                "vllm": ">=0.22,<0.24",
                "message": "quantised checkpoints are not in the default set",
                "when": {"model_config.is_quantized": True},
            }
        ],
    }


@pytest.mark.parametrize(
    ("release", "span"), [("0.22.1", ">=0.22,<0.24"), ("0.24.0", ">=0.24,<0.25"), ("0.33.0", ">=0.25")]
)
def test_for_one_release_a_rule_has_only_the_range_that_holds(catalogue: Catalogue, release: str, span: str) -> None:
    rule = catalogue.rule("parallel-drafting")
    assert rule
    assert [part["vllm"] for part in rule_document(rule, release)["releases"]] == [span]


def test_an_unknown_id_has_no_rule(catalogue: Catalogue) -> None:
    assert catalogue.rule("parallel-drafts") is None


def test_the_rules_are_published_in_order_of_precedence(catalogue: Catalogue) -> None:
    document = rules_document(catalogue)
    effects = list(dict.fromkeys((rule["layer"], rule["effect"]) for rule in document["rules"]))
    assert (document["revision"], len(document["rules"]), effects) == (
        catalogue.revision,
        len(catalogue.rules),
        [
            ("upstream", "invalid"),
            ("upstream", "not-applicable"),
            ("upstream", "reject"),
            ("upstream", "require-v2"),
            ("upstream", "override-v2"),
            ("upstream", "override-v1"),
            ("house", "fallback-v1"),
            ("upstream", "force-v2"),
            ("upstream", "not-default"),
            ("upstream", "default-v1"),
            ("upstream", "fallback-v1"),
            ("upstream", "exclude-v2"),
            ("upstream", "default-v2"),
            ("upstream", "exclude-v1"),
            ("upstream", "refuse-v1"),
            ("upstream", "refuse-v2"),
            ("upstream", "advise"),
        ],
    )


def test_the_conditions_are_published_beside_the_rules(catalogue: Catalogue) -> None:
    conditions = {condition["id"]: condition["file"] for condition in rules_document(catalogue)["conditions"]}
    assert conditions == {
        name: f"upstream/conditions/{name}.yaml"
        for name in ("microbatching", "mixed-dflash-draft", "off-the-moe-list", "rocm-v1-architecture")
    }


def test_the_rules_of_one_release_are_those_that_its_decisions_use(catalogue: Catalogue) -> None:
    assert [rule["id"] for rule in rules_document(catalogue, "0.20.0")["rules"]] == [
        "variable-malformed",
        "own-runner-ascend",
        "own-runner-omni",
        "own-runner-plugin",
        "own-runner-tpu",
        "variable-true",
        "opt-in",
        "mamba-align",
        "prefill-context-parallel",
        "spec-method",
        "dual-batch-overlap",
        "routed-experts",
        "logits-processors",
        "kv-sharing-fast-prefill",
        "ec-transfer",
        "refuse-v2-unsupported",
        "refuse-v2-no-kv-cache",
        "refuse-v2-pooling-task",
        "advise-own-runner-variable",
    ]


def test_the_releases_are_published_with_the_default_one(catalogue: Catalogue) -> None:
    known = [{"version": version, "verified": True, "default": version == "0.23.0"} for version in KNOWN_RELEASES]
    document = releases_document(catalogue, "0.23.0")
    (removal,) = document.pop("removals")
    assert document == {"releases": known, "default": "0.23.0"}
    assert (removal.runner, removal.deprecated_in, removal.announced_for) == ("v1", "0.29.0", "0.32.0")


def test_the_policy_document_describes_what_is_loaded(catalogue: Catalogue) -> None:
    document = policy_document(catalogue, "rules", "2026-01-01T00:00:00Z")
    upstream, house = document["layers"]["upstream"], document["layers"]["house"]
    assert house == {"rules": 1, "effects": {"fallback-v1": 1}}
    assert sum(upstream["effects"].values()) == upstream["rules"] == len(catalogue.rules) - 1
    del document["layers"]
    assert document == {
        "revision": catalogue.revision,
        "counts": {
            "rules": len(catalogue.rules),
            "request_rules": len(catalogue.request_rules),
            "conditions": 4,
            "releases": 83,
            "images": len(catalogue.releases.images.rows),
        },
        "source": "rules",
        "loaded_at": "2026-01-01T00:00:00Z",
        "last_reload_error": None,
    }


# The caches of values and of answers.


class Unprintable:
    """A value whose text must not be made."""

    def __repr__(self) -> str:
        raise AssertionError


@pytest.mark.parametrize(
    ("key", "is_cached"),
    [
        ("x" * 510, True),
        ("x" * 511, False),
        ((1, "x" * 500), True),
        ((1, "x" * 520), False),
        ((None,) * 80, True),
        ((Unprintable(),) * 600, False),
        ((1, (Unprintable(),) * 600), False),
        ((Unprintable(), "x" * 600), False),
    ],
)
def test_a_long_key_is_not_cached_and_no_text_of_it_is_made(key: Any, is_cached: bool) -> None:  # noqa: FBT001  # a parameter
    cache: dict[Any, int] = {}
    assert memoize(cache, key, 1) == 1
    assert cache == ({key: 1} if is_cached else {})


def test_a_key_is_worth_caching_when_it_is_seen_again() -> None:
    cache: SecondHitCache[str, int] = SecondHitCache(2)
    found = [cache.seen_before("a") for _ in range(2)]
    cache.put("a", 1)
    assert (found, cache.get("a")) == ([False, True], 1)


def test_the_oldest_entry_is_evicted_for_the_newest() -> None:
    cache: SecondHitCache[int, int] = SecondHitCache(2)
    for key in (1, 2, 3):
        cache.put(key, key)
    assert [cache.get(key) for key in (1, 2, 3)] == [None, 2, 3]


def test_a_cache_of_size_0_keeps_nothing() -> None:
    cache: SecondHitCache[str, int] = SecondHitCache(0)
    assert [cache.seen_before("a") for _ in range(3)] == [False] * 3


def test_a_cache_can_be_cleared() -> None:
    cache: SecondHitCache[str, int] = SecondHitCache(2)
    cache.put("a", 1)
    cache.clear()
    assert cache.get("a") is None
