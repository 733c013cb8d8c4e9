"""The intake of a deployment as a whole: which models it needs, and what holds for all deployments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE, HEADS, LLAMA, MODELS, NEWEST, TODAY, Asking
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from tables import table

from policy.errors import RequestInvalid
from policy.facts.vocabulary import FACTS, FactKind
from policy.intake.derive.derivation import VARIABLES
from policy.intake.model_lookup import ModelConfigNeeded
from policy.policy import Policy
from policy.request.request import read_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.decision.decision import Decision
    from policy.rules.catalogue import Catalogue

NEEDED = "the config.json of `{}` is needed, under the name that the arguments give it{}"
SPECULATORS = {
    "speculators_model_type": "eagle3",
    "speculators_config": {"verifier": {"name_or_path": "x/verifier"}, "proposal_methods": [{"speculative_tokens": 3}]},
    "transformer_layer_config": {"model_type": "llama", **HEADS},
}
CACHE = "/root/.cache/huggingface/hub"
DRAFT = ["--speculative-config", '{"model": "x/draft", "num_speculative_tokens": 3}']
MISSING: list[tuple[list[str] | str, dict[str, Any], list[str]]] = [
    ([], {}, ["Qwen/Qwen3-0.6B"]),
    ("", {}, ["Qwen/Qwen3-0.6B"]),
    (["--model", "x/model"], {}, ["x/model"]),
    ("vllm serve x/model/ -tp 2", {}, ["x/model"]),
    (["--model", f"{CACHE}/models--x--model/snapshots/0a1b"], {}, ["x/model"]),
    (["--model", "models--x--model"], {}, ["models--x--model"]),
    (["--model", f"{CACHE}/models--gpt2/"], {}, ["gpt2"]),
    (["--model", f"{CACHE}/models--x--model--fp8/snapshots/main/", *DRAFT], {"x/model--fp8": DENSE}, ["x/draft"]),
    (["--model", f"{CACHE}/models--x--model/blobs/0a1b"], {}, [f"{CACHE}/models--x--model/blobs/0a1b"]),
    (["--model", "x/model", *DRAFT], {}, ["x/model", "x/draft"]),
    (["--model", "x/model", *DRAFT], {"x/model": DENSE}, ["x/draft"]),
    (["--model", "x/model", *DRAFT], {"x/draft/": DENSE}, ["x/model"]),
    (["--model", "x/model", "--hf-config-path", "x/other", *DRAFT], {}, ["x/model", "x/other", "x/draft"]),
    (["--model", "x/model"], {"x/model": SPECULATORS}, ["x/verifier"]),
    (
        ["--model", "x/model", "--speculative-config", '{"model": "x/model", "num_speculative_tokens": 3}'],
        {},
        ["x/model"],
    ),
    (["--model", "x/model", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}'], {}, ["x/model"]),
    (
        [
            "--model",
            "x/model",
            "--speculative-config",
            '{"method": "ngram", "model": "x/draft", "num_speculative_tokens": 3}',
        ],
        {},
        ["x/model"],
    ),
    (["--model", "/mnt/models"], {}, ["/mnt/models"]),
]


@table(("args", "models", "expected"), MISSING, ids=[str(args) for args, _, _ in MISSING])
def test_all_models_without_a_configuration_are_named_at_once(
    ask: Asking, args: list[str] | str, models: dict[str, Any], expected: list[str]
) -> None:
    told = ", ".join(f"`{name.rstrip('/')}`" for name in models)
    given_ones = f"; given: {told}" if told else ""
    places = [
        (f"/deployment/model_configs/{name.replace('/', '~1')}", NEEDED.format(name, given_ones)) for name in expected
    ]
    assert ask.refusal(args, models=models) == ("model-config-needed", places)


def test_the_problem_has_the_names_of_the_models(ask: Asking) -> None:
    with pytest.raises(ModelConfigNeeded) as raised:
        ask(["--model", "x/model", *DRAFT])
    assert raised.value.names == ["x/model", "x/draft"]


UNSUPPORTED: list[tuple[list[str], str, str]] = [
    (["--model", "x"], "x", "Model architectures ['NoSuchThing'] are not supported for now."),
    (
        ["--model", "dense", "--hf-config-path", "x"],
        "x",
        "Model architectures ['NoSuchThing'] are not supported for now.",
    ),
    (
        ["--model", "dense", "--hf-overrides", '{"architectures": ["Phi3SmallForCausalLM"]}'],
        "dense",
        "Model architecture Phi3SmallForCausalLM was supported in vLLM until v0.9.2, and is not supported anymore.",
    ),
    (["--model", "empty"], "empty", "No model architectures are specified"),
]


@pytest.mark.parametrize(("args", "name", "why"), UNSUPPORTED)
def test_a_model_that_the_release_refuses_has_its_own_problem(
    ask: Asking, args: list[str], name: str, why: str
) -> None:
    models = {"x": {"architectures": ["NoSuchThing"]}, "empty": {}}
    message = f"vLLM {NEWEST} refuses this model: {why}"
    assert ask.refusal(args, models=models) == ("unsupported-model", [(f"/deployment/model_configs/{name}", message)])


SAME: list[list[str] | str] = [
    ["--model", "dense"],
    ["--model=dense"],
    ["--model", "dense/"],
    ["vllm", "serve", "dense"],
    ["serve", "dense"],
    ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "dense"],
    "--model dense",
    "vllm serve dense",
    "exec vllm serve 'dense'",
]


def answered(decision: Decision) -> dict[str, Any]:
    """A decision without its id, which is different each time."""
    return {name: getattr(decision, name) for name in decision.__struct_fields__ if name != "decision_id"}


@table("args", SAME)
def test_the_spelling_of_a_command_does_not_change_its_deployment(ask: Asking, args: list[str] | str) -> None:
    found, expected = (answered(ask(asked, models={"dense": DENSE})) for asked in (args, SAME[0]))
    for each in (found, expected):
        each["facts"] = {name: (fact.value, fact.from_.partition("[")[0]) for name, fact in each["facts"].items()}
    assert found == expected


def test_ignored_arguments_are_listed(ask: Asking) -> None:
    decision = ask("vllm serve dense --port 8000 --max-num-seqs=16 --api-key secret -tp 2")
    assert (decision.ignored_args, decision.warnings) == (["--port 8000", "--max-num-seqs=16", "--api-key"], [])


def test_arguments_may_come_from_a_file(ask: Asking) -> None:
    args = ["--model", "dense", "--config", "serve.yaml"]
    found = ask.fact("parallel_config.tensor_parallel_size", args, files={"serve.yaml": "tensor-parallel-size: 2\n"})
    assert found == (2, "files/serve.yaml/tensor-parallel-size")


def test_a_model_that_the_request_lacks_is_looked_up(catalogue: Catalogue) -> None:
    looked: list[str] = []

    def find(name: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        looked.append(name)
        modules = {"modules.json": '[{"type": "sentence_transformers.models.Pooling"}]'}
        return (LLAMA, modules) if name == "x/model" else None

    policy = Policy(catalogue, find=find)
    ask = Asking(policy)
    assert ask.fact("model_config.runner_type", ["--model", "x/model"]) == (
        "pooling",
        "model_configs/x/model/architectures",
    )
    assert ask.fact("model_config.runner_type", ["--model", "x/model"], models={"x/model": LLAMA}) == (
        "generate",
        "model_configs/x/model/architectures",
    )
    problem, faults = ask.refusal(["--model", "x/model", *DRAFT])
    assert (problem, [pointer for pointer, _ in faults]) == (
        "model-config-needed",
        ["/deployment/model_configs/x~1draft"],
    )
    ask(["--model", "x/model"])
    assert looked == ["x/model", "x/model", "x/draft", "x/model"]


def test_another_revision_than_the_one_that_was_looked_up_gets_a_warning(catalogue: Catalogue) -> None:
    ask = Asking(Policy(catalogue, find=lambda _: (LLAMA, {})))
    warning = "`--revision` is `refs/pr/1`, and the `config.json` of `x/model` was looked up without it"
    pull_request = ["--model", "x/model", "--revision", "refs/pr/1"]
    assert warning in ask(pull_request).warnings
    assert warning not in ask(pull_request, models={"x/model": LLAMA}).warnings
    assert not any("--revision" in text for text in ask(["--model", "x/model", "--revision", "main"]).warnings)
    unknown = ask("vllm serve x/model --revision $REVISION").warnings
    assert "`--revision` is not known, and the `config.json` of `x/model` was looked up without it" in unknown


# properties

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["dense", "draft", "dspark", "mtp", "0", "1", "cpu", "auto"])
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = ("args", "env", "model_configs", "files", "environment")
KEYS = (
    *(
        "architectures",
        "model_type",
        "num_attention_heads",
        "num_key_value_heads",
        "hidden_size",
        "layer_types",
        "text_config",
        "speculators_config",
    ),
    *(
        "kv_lora_rank",
        "num_experts",
        "quantization_config",
        "is_encoder_decoder",
        "auto_map",
        "block_configs",
        "canvas_length",
        "compress_ratios",
    ),
    *(
        "transformer_layer_config",
        "speculators_model_type",
        "head_dim",
        "is_causal",
        "num_hidden_layers",
        "n_predict",
        "num_nextn_predict_layers",
    ),
)
TYPES = (
    "llama",
    "qwen3",
    "jamba",
    "deepseek_v3",
    "deepseek_v4",
    "whisper",
    "nemotron_h",
    "medusa",
    "eagle",
    "speculators",
    "qwen3_next",
    "bert",
)
CONFIGS = st.builds(
    lambda base, members, kind: {**MODELS[base], **members, **({"model_type": kind} if kind else {})},
    st.sampled_from(sorted(MODELS)),
    st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=3),
    st.none() | st.sampled_from(TYPES),
)
METHODS = (
    "ngram",
    "eagle",
    "eagle3",
    "mtp",
    "dflash",
    "dspark",
    "draft_model",
    "suffix",
    "medusa",
    "extract_hidden_states",
    "custom_class",
)


def objects(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """JSON objects with some of these fields."""
    return st.fixed_dictionaries({}, optional=members).map(json.dumps)


SPECULATIVE = objects(
    method=st.sampled_from(METHODS) | ANYTHING,
    model=st.sampled_from(["draft", "eagle3-draft", "medusa", "a.b", "[ngram]"]) | ANYTHING,
    num_speculative_tokens=st.just(3) | ANYTHING,
    num_speculative_tokens_per_batch_size=ANYTHING,
    parallel_drafting=st.booleans(),
    enable_adaptive_verification=st.booleans(),
    disable_padded_drafter_batch=st.booleans(),
    draft_lm_head_quantization=st.just("fp8") | ANYTHING,
)
COMPILATION = objects(
    mode=st.integers(-1, 5) | ANYTHING,
    cudagraph_mode=st.integers(-1, 6) | ANYTHING,
    pass_config=st.fixed_dictionaries({}, optional={"enable_sp": st.booleans(), "sp_min_token_num": ANYTHING})
    | ANYTHING,
    splitting_ops=st.just([]) | ANYTHING,
)
TRANSFER = objects(
    kv_connector=st.sampled_from(["MultiConnector", "LMCacheConnectorV1", "HiSparseConnector"]) | ANYTHING,
    kv_role=st.just("kv_both") | ANYTHING,
    ec_role=st.just("ec_producer") | ANYTHING,
    kv_connector_extra_config=st.fixed_dictionaries({}, optional={"use_layerwise": ANYTHING, "connectors": ANYTHING})
    | ANYTHING,
)
SWITCHES = st.sampled_from(
    [
        *(
            "-O0",
            "-O1",
            "-O3",
            "--enforce-eager",
            "--enable-dbo",
            "--async-scheduling",
            "--no-async-scheduling",
            "--enable-prefix-caching",
        ),
        *(
            "--mm-encoder-only",
            "--enable-return-routed-experts",
            "--return-sampling-mask",
            "--enable-expert-parallel",
            "-cc.splitting_ops=[]",
        ),
        *("--enable-lora", "-cc.pass_config.enable_sp=true"),
    ]
).map(lambda switch: [switch])
VALUED = st.tuples(
    st.sampled_from(
        [
            *(
                "-tp",
                "-pp",
                "-dp",
                "-dcp",
                "-pcp",
                "--ubatch-size",
                "--runner",
                "--convert",
                "--model-impl",
                "--hf-overrides",
                "--hf-config-path",
            ),
            *(
                "--optimization-level",
                "--distributed-executor-backend",
                "--kv-offloading-size",
                "--kv-offloading-backend",
                "--mamba-cache-mode",
            ),
            *(
                "--attention-config",
                "--aux-output-config",
                "--logprobs-mode",
                "--all2all-backend",
                "--reasoning-parser",
                "--watermark-config",
                "--config",
            ),
        ]
    ),
    st.sampled_from(
        [
            "0",
            "1",
            "2",
            "16",
            "-1",
            "draft",
            "pooling",
            "transformers",
            "ray",
            "mp",
            "align",
            "lmcache",
            "processed_logprobs",
            "classify",
        ]
    )
    | st.text(max_size=6)
    | ANYTHING.map(json.dumps),
).map(list)
JSON_VALUED = (
    st.tuples(st.just("--speculative-config"), SPECULATIVE).map(list)
    | st.tuples(st.just("--compilation-config"), COMPILATION).map(list)
    | st.tuples(st.sampled_from(["--kv-transfer-config", "--ec-transfer-config"]), TRANSFER).map(list)
)
WORDS = st.lists(SWITCHES | VALUED | JSON_VALUED, max_size=4).map(
    lambda parts: [word for part in parts for word in part]
)
ENV = st.dictionaries(
    st.sampled_from(VARIABLES), st.sampled_from(["0", "1", "", " 1", "x"]) | st.text(max_size=4), max_size=3
)
ENVIRONMENT = st.fixed_dictionaries(
    {},
    optional={
        "platform": st.sampled_from(["cuda", "rocm", "xpu", "cpu", "tpu", "out-of-tree", "unspecified"]),
        "has_triton": st.booleans(),
    },
)
RELEASES = st.sampled_from(["0.20.0", "0.22.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"])
DEPLOYMENTS = st.builds(
    lambda name, words, config, draft, env, environment: {
        "args": ["--model", name, *words],
        "env": env,
        "model_configs": {**MODELS, "a/b": config, "draft": draft, "eagle3-draft": draft},
        "environment": environment,
    },
    st.sampled_from(["a/b", "dense"]),
    WORDS,
    CONFIGS,
    CONFIGS,
    ENV,
    ENVIRONMENT,
)
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])

Answer = tuple[str, Any]


def answer(ask: Asking, document: Any) -> Answer:
    """The decision, or every fault; any other exception fails the test."""
    try:
        return "decision", answered(ask.document(document))
    except RequestInvalid as error:
        return error.problem, error.faults


@PROPERTY
@given(release=RELEASES, member=st.sampled_from(MEMBERS), value=ANYTHING)
def test_any_value_of_a_field_gives_an_answer_or_a_fault_in_it(
    ask: Asking, release: str, member: str, value: Any
) -> None:
    deployment = {"args": ["--model", "dense"], "model_configs": {"dense": DENSE}, member: value}
    kind, found = answer(ask, {"deployment": deployment, "vllm_version": release})
    assert kind == "decision" or all(fault.pointer.startswith("/deployment/") for fault in found)


@PROPERTY
@given(release=RELEASES, deployment=DEPLOYMENTS)
def test_any_deployment_gives_legal_facts_or_a_fault_in_it(
    ask: Asking, release: str, deployment: dict[str, Any]
) -> None:
    kind, found = answer(ask, {"deployment": deployment, "vllm_version": release})
    if kind != "decision":
        assert all(fault.pointer.startswith("/deployment/") for fault in found)
        return
    assert [name for name, sourced in found["facts"].items() if not is_legal(name, sourced.value)] == []


def is_legal(name: str, value: Any) -> bool:
    fact = FACTS[name]
    if fact.kind in {FactKind.PRESENCE, FactKind.BOOLEAN}:
        return type(value) is bool
    if value is None:
        return fact.nullable or fact.kind is FactKind.VARIABLE
    return fact.admits(list(value) if isinstance(value, tuple) else value)


@pytest.fixture(scope="session")
def ask_new_policy(catalogue: Catalogue) -> Asking:
    """Asks a policy that has decided nothing before."""
    return Asking(Policy(catalogue))


@PROPERTY
@given(release=RELEASES, deployment=DEPLOYMENTS)
def test_earlier_requests_do_not_change_a_decision(
    ask: Asking, ask_new_policy: Asking, release: str, deployment: dict[str, Any]
) -> None:
    document = {"deployment": deployment, "vllm_version": release}
    first = answer(ask, document)
    ask_new_policy.policy._intakes.clear()
    assert [answer(ask, document), answer(ask_new_policy, document)] == [first, first]


@PROPERTY
@given(release=RELEASES, deployment=DEPLOYMENTS)
def test_explain_changes_nothing_else(ask: Asking, release: str, deployment: dict[str, Any]) -> None:
    document = {"deployment": deployment, "vllm_version": release}
    kind, plain = answer(ask, document)
    explained_kind, explained = answer(ask, {**document, "explain": True})
    if kind == "decision":
        names = ("trace", "assumptions", "remedies", "alternative", "v2_from", "v2_path")
        added = {name: explained.pop(name) for name in names}
        plain = {name: value for name, value in plain.items() if name not in added}
        assert all(isinstance(added[name], list) for name in names[:3])
        explained["reasons"] = [replace(reason, lifted_in=UNSET) for reason in explained["reasons"]]
    assert (explained_kind, explained) == (kind, plain)


def test_more_deployments_than_are_cached_are_all_decided(ask: Asking) -> None:
    found = [
        ask.fact("parallel_config.ubatch_size", ["--model", "dense", "--ubatch-size", str(n)]) for n in (*range(200), 0)
    ]
    assert [fact and fact[0] for fact in found] == [*range(200), 0]


def test_the_bytes_of_an_answer_are_the_decision(ask: Asking) -> None:
    request = read_request(ask.request(["--model", "dense"]), ask.policy.releases)
    shown = json.loads(ask.policy.answer(request, TODAY).json)
    assert shown["facts"]["model_config.is_moe"] == {"value": False, "from": "default"}
    assert (shown["runner"], shown["ignored_args"]) == ("v2", [])
