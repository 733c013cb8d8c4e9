"""What an explanation says would help: the smallest changes, the first release with V2, and the path to it."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tables import table

from policy.decision.remedies import Change
from policy.decision.remedy_text import change_text
from policy.intake.command.flags import flags
from policy.intake.model.tables import releases_with_flags
from policy.remedies.changes import Candidate, candidates
from policy.remedies.search import MAX_DECISIONS, RemedySearch
from policy.request.request import read_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.policy import Policy

TODAY = date(2026, 1, 1)
QWEN = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_hidden_layers": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
SPECULATION = '{"method": "ngram", "num_speculative_tokens": 3}'
DROPPED_LORA = {"fact": "lora_config", "from": True, "to": None}
REMOVAL = {
    "runner": "v1",
    "deprecated_in": "0.29.0",
    "announced_for": "0.32.0",
    "why": "The notes of 0.29 deprecate V1 and name 0.32 as the release without it. 0.32 and 0.33 still have it, and "
    "no later date is stated; maintainers fix bugs in V2 only.",
    "references": (
        "https://github.com/vllm-project/vllm/releases/tag/v0.29.0",
        "https://github.com/vllm-project/vllm/issues/57684",
        "https://github.com/vllm-project/vllm/issues/52487",
        "https://github.com/vllm-project/vllm/issues/50591",
    ),
}
UNSET_VARIABLE = {"fact": "env.VLLM_USE_V2_MODEL_RUNNER", "from": True, "to": None}


def explained(policy: Policy, version: str, **members: Any) -> dict[str, Any]:
    request = read_request({"vllm_version": version, "explain": True, **members}, policy.releases)
    found: dict[str, Any] = msgspec.to_builtins(policy.decide(request, TODAY))
    return found


def of_args(policy: Policy, version: str, *args: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    deployment = {"args": ["serve", "Qwen/Qwen3-8B", *args], "env": env or {}, "model_configs": {"Qwen/Qwen3-8B": QWEN}}
    return explained(policy, version, deployment=deployment)


def remedies(answer: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]], str | None, bool]]:
    return [(each["for"], each["change"], each["runner"], each["starts"]) for each in answer["remedies"]]


@pytest.mark.parametrize(
    ("version", "facts", "expected"),
    [
        pytest.param("0.33.0", {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}, [], id="nothing is wrong"),
        pytest.param(
            "0.33.0",
            {
                "model_config": {"architectures": ["Qwen3ForCausalLM"]},
                "parallel_config": {"enable_dbo": True},
                "lora_config": {},
                "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"},
            },
            [
                ("start", [UNSET_VARIABLE], "v1", True),
                ("start", [{"fact": "parallel_config.enable_dbo", "from": True, "to": False}], "v2", True),
                ("start", [DROPPED_LORA], "v2", True),
            ],
            id="a refusal has three smallest remedies",
        ),
        pytest.param(
            "0.33.0",
            {
                "model_config": {"architectures": ["Qwen3ForCausalLM"]},
                "parallel_config": {"enable_dbo": True},
                "lora_config": {},
                "speculative_config": {"method": "suffix"},
            },
            [
                (
                    "v2",
                    [
                        {"fact": "parallel_config.enable_dbo", "from": True, "to": False},
                        {"fact": "speculative_config", "from": True, "to": None},
                    ],
                    "v2",
                    True,
                ),
            ],
            id="two changes where no single one helps",
        ),
        pytest.param(
            "0.33.0",
            {"platform": {"has_triton": False}},
            [],
            id="the platform is not changed",
        ),
        pytest.param(
            "0.23.0",
            {
                "model_config": {"architectures": ["Qwen3ForCausalLM"]},
                "kv_transfer_config": {"kv_connector": "NixlConnector"},
            },
            [
                ("v2", [{"field": "vllm_version", "from": "0.23.0", "to": "0.25.0"}], "v2", True),
                ("v2", [{"fact": "kv_transfer_config", "from": True, "to": None}], "v2", True),
            ],
            id="a house rule is not bypassed by the variable",
        ),
    ],
)
def test_the_smallest_changes_of_facts_are_named(
    policy: Policy, version: str, facts: dict[str, Any], expected: list[Any]
) -> None:
    found = [each for each in remedies(explained(policy, version, facts=facts)) if each[0] in {"start", "v2"}]
    assert found == expected


@pytest.mark.parametrize("version", ["0.21.0", "0.33.0"])
def test_a_variable_that_is_null_is_explained_as_one_that_is_not_stated(policy: Policy, version: str) -> None:
    facts = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "parallel_config": {"enable_dbo": True}}
    unset = facts | {"env": {"VLLM_USE_V2_MODEL_RUNNER": None}}
    found, expected = (explained(policy, version, facts=each) for each in (unset, facts))
    assert found | {"decision_id": ""} == expected | {"decision_id": ""}


def test_the_changes_of_a_deployment_name_its_flags_with_their_places(policy: Policy) -> None:
    answer = of_args(policy, "0.26.0", "--logits-processors", "a.b:C", "--speculative-config", SPECULATION)
    assert [each for each in remedies(answer) if each[0] == "v2"] == [
        ("v2", [{"field": "vllm_version", "from": "0.26.0", "to": "0.32.0"}], "v2", True),
        (
            "v2",
            [
                {"argument": "--logits-processors", "at": "args[2]", "from": '["a.b:C"]', "to": None},
                {"argument": "--speculative-config", "at": "args[4]", "from": SPECULATION, "to": None},
            ],
            "v2",
            True,
        ),
    ]
    assert (answer["v2_from"], answer["v2_path"]) == (
        "0.32.0",
        {"release": "0.33.0", "by": "upgrade", "upgrade_to": "0.32.0", "change": [], "removal": REMOVAL},
    )


SWAP = {"argument": "--swap-space", "at": "args[2]", "from": "4", "to": None}
NO_SUCH = {"argument": "--no-such-flag", "at": "args[4]", "from": True, "to": None}


@table(
    ("args", "expected"),
    [
        pytest.param(("--swap-space", "4"), [[SWAP]], id="a flag of earlier releases, with its value"),
        pytest.param(("--swap-space", "4", "--no-such-flag"), [[SWAP, NO_SUCH]], id="all flags that there are not"),
        pytest.param(
            ("--swap_space=4", "--swap-space", "5"),
            [[{**SWAP, "at": "args[3]", "from": "5"}]],
            id="a flag that is twice",
        ),
        pytest.param(
            ("--swap-space", "4", "--no-such-flag", "--enable-dbo", "--enable-lora"),
            [
                [SWAP, NO_SUCH, {"argument": "--enable-dbo", "at": "args[5]", "from": True, "to": None}],
            ],
            id="what the release refuses besides",
        ),
        pytest.param(
            ("--some-api-key", "hunter2"),
            [[{"argument": "--some-api-key", "at": "args[2]", "from": "…", "to": None}]],
            id="without a secret",
        ),
        pytest.param(
            ("--no-such-flag", "hunter2"),
            [[{**NO_SUCH, "at": "args[2]", "from": "…"}]],
            id="without a value that may be a secret",
        ),
        pytest.param(
            ("--no-such-flag.a", "hunter2"), [[{**NO_SUCH, "at": "args[2]", "from": "…"}]], id="a key of an option"
        ),
        pytest.param(
            ("--no-such-flag.a", "1", "--swap-space", "4", "--no_such_flag.b.c=2"),
            [[{**SWAP, "at": "args[4]"}, {**NO_SUCH, "at": "args[2]", "from": "…"}]],
            id="all keys of an option together",
        ),
        pytest.param(
            ("--no-such-flag", "--no-such-flag.a", "1"),
            [[{**NO_SUCH, "at": "args[3]", "from": "…"}]],
            id="an option and a key of it",
        ),
        pytest.param(
            ("--no-such-flag.sk-abcdefghijklmnop1234567890AB", "1"),
            [],
            id="no key that is a secret",
        ),
        pytest.param(tuple(f"--x{n}" for n in range(17)), [], id="too many to be dropped"),
        pytest.param(
            ("--kv-cache-dtype", "foo", "--enable-lora"),
            [[{"argument": "--kv-cache-dtype", "at": "args[2]", "from": "foo", "to": None}]],
            id="an option that a check refuses, though no fact depends on it",
        ),
        pytest.param(
            ("--max-logprobs=-7",),
            [[{"argument": "--max-logprobs", "at": "args[2]", "from": -7, "to": None}]],
            id="an option outside the bounds of its class",
        ),
        pytest.param(
            ("--kv-cache-dtype", "foo", "--max-logprobs=-7", "--swap-space", "4"),
            [
                [
                    {**SWAP, "at": "args[5]"},
                    {"argument": "--kv-cache-dtype", "at": "args[2]", "from": "foo", "to": None},
                    {"argument": "--max-logprobs", "at": "args[4]", "from": -7, "to": None},
                ]
            ],
            id="several such options, and a flag that there is not",
        ),
    ],
)
def test_what_the_release_refuses_is_dropped(policy: Policy, args: tuple[str, ...], expected: list[Any]) -> None:
    answer = of_args(policy, "0.33.0", *args)
    assert not answer["starts"]
    assert [change for purpose, change, *_ in remedies(answer) if purpose == "start"] == expected


def test_a_key_that_is_the_value_of_a_secret_variable_is_in_no_remedy(policy: Policy) -> None:
    deployment = {
        "args": ["serve", "Qwen/Qwen3-8B", "--no-such-flag.hunter22", "1", "--no-such-flag.b", "2"],
        "env": {"SOME_API_KEY": "hunter22"},
        "model_configs": {"Qwen/Qwen3-8B": QWEN},
    }
    answer = explained(policy, "0.33.0", deployment=deployment)
    assert [each for each in remedies(answer) if each[0] == "start"] == []
    assert "hunter22" not in msgspec.json.encode(answer).decode()


def test_the_deployment_without_what_a_remedy_drops_is_decided_as_it_says(policy: Policy) -> None:
    answer = of_args(policy, "0.26.0", "--logits-processors", "a.b:C", "--enable-lora")
    changes = [change for purpose, change, *_ in remedies(answer) if purpose == "v2" and "argument" in change[0]]
    assert [[each["argument"] for each in change] for change in changes] == [["--logits-processors"]]
    assert of_args(policy, "0.26.0", "--enable-lora")["runner"] == "v2"


def test_a_variable_that_a_script_sets_can_be_unset(policy: Policy) -> None:
    text = "VLLM_USE_V2_MODEL_RUNNER=0 vllm serve Qwen/Qwen3-8B"
    deployment = {"args": text, "model_configs": {"Qwen/Qwen3-8B": QWEN}}
    answer = explained(policy, "0.33.0", deployment=deployment)
    assert (answer["runner"], remedies(answer)[0]) == (
        "v1",
        ("v2", [{"variable": "VLLM_USE_V2_MODEL_RUNNER", "from": "0", "to": None}], "v2", True),
    )


def test_a_member_of_a_json_flag_is_dropped_alone_if_that_is_enough(policy: Policy) -> None:
    extra = (
        '{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"password": "hunter2"}}'
    )
    answer = of_args(policy, "0.23.0", "--kv-transfer-config", extra)
    assert "hunter2" not in msgspec.json.encode(answer["remedies"]).decode()
    assert "--kv-transfer-config" in {
        change["argument"] for _, changes, *_ in remedies(answer) for change in changes if "argument" in change
    }


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            {"speculative_config": {"method": "suffix"}},
            ("change", None, [{"fact": "speculative_config", "from": True, "to": None}]),
        ),
        ({"platform": {"has_triton": False}}, ("none", None, [])),
    ],
)
def test_the_path_to_v2_at_the_newest_release_is_a_change_or_none(
    policy: Policy, facts: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    path = explained(policy, "0.33.0", facts={"model_config": {}, **facts})["v2_path"]
    assert (path["by"], path["upgrade_to"], path["change"]) == expected


@pytest.mark.parametrize(
    ("args", "by", "change"),
    [
        pytest.param(("--swap-space", "4"), "change", [SWAP], id="a flag that is gone"),
        pytest.param(
            ("--mamba-cache-mode", "all"),
            "change",
            [{"argument": "--mamba-cache-mode", "from": "all", "to": None}],
            id="a value that is refused there",
        ),
        pytest.param(
            ("--swap-space", "4", "--enable-dbo", "--enable-lora", "--all2all-backend", "deepep_low_latency"),
            "change",
            [SWAP, {"argument": "--enable-dbo", "at": "args[4]", "from": True, "to": None}],
            id="a flag that is gone, and a feature that V2 does not have",
        ),
    ],
)
def test_the_path_to_v2_drops_what_the_newest_release_refuses(
    policy: Policy, args: tuple[str, ...], by: str, change: list[Any]
) -> None:
    answer = of_args(policy, "0.17.1", *args)
    assert (answer["runner"], answer["starts"]) == ("v1", True)
    path = answer["v2_path"]
    assert (path["release"], path["by"], path["change"]) == ("0.33.0", by, change)


def test_a_stated_model_is_never_dropped(policy: Policy) -> None:
    facts = {"model_config": {"enable_prompt_embeds": True}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}
    answer = explained(policy, "0.23.0", facts=facts)
    assert {change["fact"] for _, changes, *_ in remedies(answer) for change in changes if "fact" in change} == {
        "env.VLLM_USE_V2_MODEL_RUNNER",
        "model_config.enable_prompt_embeds",
    }


def test_only_a_deployment_on_v1_has_a_path_to_v2(policy: Policy) -> None:
    answer = explained(policy, "0.33.0", facts={"model_config": {}})
    assert (answer["runner"], answer["v2_from"], answer["v2_path"]) == ("v2", None, None)


def test_an_engine_with_its_own_runner_has_no_remedy(policy: Policy) -> None:
    answer = explained(policy, "0.33.0", facts={"platform": {"is_tpu": True}})
    assert (answer["outcome"], answer["remedies"], answer["v2_path"]) == ("not-applicable", [], None)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Change(argument="--enforce-eager", to=True), "add --enforce-eager"),
        (Change(argument="--async-scheduling", from_=True, to=False), "pass --no-async-scheduling"),
        (Change(argument="--mamba-cache-mode", to="align"), "set --mamba-cache-mode to align"),
        (Change(argument="--gpu-memory-utilization", to=0.9), "set --gpu-memory-utilization to 0.9"),
        (Change(argument="--enable-dbo", at="args[2]", from_=True), "drop --enable-dbo (args[2])"),
        (Change(fact="parallel_config.enable_dbo", from_=True, to=False), "set parallel_config.enable_dbo to false"),
        (Change(variable="VLLM_USE_V2_MODEL_RUNNER", to="1"), "set VLLM_USE_V2_MODEL_RUNNER to 1"),
        (Change(variable="VLLM_USE_V2_MODEL_RUNNER", from_="1"), "unset VLLM_USE_V2_MODEL_RUNNER"),
    ],
)
def test_a_change_is_worded_as_vllm_takes_it(change: Change, text: str) -> None:
    assert change_text(change) == text


def test_a_switch_is_only_turned_to_what_the_release_has_a_flag_for(policy: Policy) -> None:
    for release in releases_with_flags():
        deployment = {"args": ["serve", "q"], "model_configs": {"q": QWEN}}
        request = read_request({"vllm_version": release, "deployment": deployment}, policy.releases)
        words = [
            change_text(each.change).split()[1]
            for each in candidates(request, policy.intake(request), [])
            if each.change.argument is not msgspec.UNSET and isinstance(each.change.to, bool)
        ]
        assert "--enforce-eager" in words
        assert all(word in flags(release).exact for word in words), (release, words)


class CountedKey(str):
    """A key of changes that counts how often it is looked up."""

    __slots__ = ()
    lookups = 0

    def __hash__(self) -> int:
        CountedKey.lookups += 1
        return super().__hash__()


def test_the_work_of_a_search_does_not_grow_with_the_changes_of_one_option() -> None:
    lookups = []
    for number in (100, 200, 800):
        CountedKey.lookups = 0
        key = CountedKey("pooler_config")
        members = [Candidate(Change(argument=f"--pooler-config.k{n}"), key, 2) for n in range(number)]
        decided: list[object] = []
        search = RemedySearch(lambda changes, decided=decided: decided.append(changes))  # type: ignore[misc]
        for purpose in ("first", "second"):
            assert search.smallest(members, lambda state: state.starts) == [], purpose
        assert len(decided) == MAX_DECISIONS
        lookups.append(CountedKey.lookups)
    assert len(set(lookups)) == 1
    assert lookups[0] <= 4 * MAX_DECISIONS**2


def test_sets_of_changes_with_different_keys_are_tried_smallest_first() -> None:
    tried: list[list[str]] = []
    members = [Candidate(Change(argument=name), name[:1], 2) for name in ("a1", "a2", "b1", "c1")]

    def decide(changes: Sequence[Candidate]) -> None:
        tried.append([str(each.change.argument) for each in changes])

    assert RemedySearch(decide).smallest(members, lambda state: state.starts) == []
    assert [" ".join(each) for each in tried] == [
        *("a1", "a2", "b1", "c1"),
        *("a1 b1", "a1 c1", "a2 b1", "a2 c1", "b1 c1"),
        *("a1 b1 c1", "a2 b1 c1"),
    ]


# The remedies of the rules themselves.

ONLY_IF_IT_STARTS = "unless the decision with it says `starts: false`"


MAMBA = {"architectures": ["MambaForCausalLM"], "is_attention_free": True, "has_inner_state": True}
BAMBA = {"architectures": ["BambaForCausalLM"], "is_hybrid": True, "has_inner_state": True}


@table(
    ("model", "version"),
    [
        pytest.param(MAMBA, "0.25.1", id="without attention"),
        pytest.param(MAMBA, "0.22.1", id="before V2 had recurrent state"),
        pytest.param(MAMBA, "0.21.0", id="where V2 is opt-in"),
        pytest.param({**BAMBA, "is_moe": True}, "0.23.0", id="hybrid with experts"),
        pytest.param({**BAMBA, "is_quantized": True}, "0.23.0", id="hybrid and quantised"),
        pytest.param(
            {"architectures": ["BertForSequenceClassification"], "runner_type": "pooling"}, "0.25.1", id="pooling"
        ),
    ],
)
def test_no_rule_promises_v2_where_v2_refuses(policy: Policy, model: dict[str, Any], version: str) -> None:
    facts = {"model_config": model}
    found = explained(policy, version, facts=facts)
    forced = explained(policy, version, facts={**facts, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}})
    promises = [r["remedy"] for r in found["reasons"] if "VLLM_USE_V2_MODEL_RUNNER` to 1" in (r["remedy"] or "")]
    assert (found["runner"], found["starts"], forced["starts"]) == ("v1", True, False)
    assert promises
    assert [text for text in promises if ONLY_IF_IT_STARTS not in text] == []


def test_prefix_caching_is_no_remedy_before_0_23(policy: Policy) -> None:
    facts = {
        "model_config": BAMBA,
        "cache_config": {"mamba_cache_mode": "none"},
        "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"},
    }
    found = explained(policy, "0.22.0", facts=facts)
    remedies = {reason["rule"]: reason["remedy"] for reason in found["reasons"]}
    assert remedies["mamba-align"] == (
        "stay on V1, or from 0.23 on switch prefix caching off, which sets the cache mode to none"
    )
