"""The vocabulary: every fact that the rules may read, under vLLM's own name.

Owns the facts' types, legal values, defaults and meanings. Everything else about facts (validation, the rules' JSON
Schema, ``GET /v1/facts``, the engine's keys, ``docs/facts.md``) is generated from ``VOCABULARY``, and for the facts of
a request to an engine from ``REQUEST_VOCABULARY``. Which releases read a
fact follows from the rules (``documents.read_by``). ``facts`` reads the facts of a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policy.facts.request_vocabulary import ROWS
from policy.messages import listed

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TEXT: Final = 8192
MAX_ITEMS: Final = 4096
MAX_INTEGER: Final = 2**31 - 1
MAX_NUMBER: Final = 2**63
NUMBERS: Final = f"from -{MAX_NUMBER - 1} to {MAX_NUMBER - 1}"
"""The legal numbers, in words."""

VARIABLE: Final = "env.VLLM_USE_V2_MODEL_RUNNER"
ENGINE_VARIABLE: Final = "env.VLLM_USE_V1"

Series: TypeAlias = tuple[int, int]


class FactKind(StrEnum):
    """The kind of a fact's value; ``GET /v1/facts`` shows its name as the type."""

    PRESENCE = "presence"
    VARIABLE = "tri-state"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    SHARE = "share"
    CHOICE = "choice"
    TEXT = "text"
    TEXTS = "list of text"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Malformed:
    """An environment variable's text that is not an integer, with Python's error message."""

    text: str
    error: str


Tristate: TypeAlias = bool | Malformed | None


def parse_variable(text: str) -> Tristate:
    """The variable's value as vLLM parses it, ``bool(int(text))``, or ``Malformed`` if that fails.

    Source: ``vllm/envs.py``, the same in every release that has the variable (the meaning of an unset variable differs;
    see ``Fact.default_in``).
    """
    try:
        return bool(int(text))
    except ValueError as error:
        return Malformed(text, str(error))


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: ``name`` is its path in a request, ``default`` its value if it is not stated.

    ``other_defaults`` has the defaults of older series: the first series and the end of each range, and its default.
    ``since`` is the first series that has the fact, ``until`` the first that no longer has it.
    """

    name: str
    kind: FactKind
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    least: int = 0
    nullable: bool = False
    other_defaults: tuple[tuple[Series, Series, Any], ...] = ()
    since: Series | None = None
    until: Series | None = None

    def is_in(self, release: Series) -> bool:
        """Whether a minor series has the fact."""
        return (self.since is None or self.since <= release) and (self.until is None or release < self.until)

    def default_in(self, release: Series) -> Any:
        """The default in a minor series."""
        for first, end, value in self.other_defaults:
            if first <= release < end:
                return value
        return tuple(self.default) if self.default == [] else self.default

    @property
    def legal(self) -> str:
        """A description of the legal values, for messages and documentation."""
        match self.kind:
            case FactKind.PRESENCE:
                words = "an object, `null` if it is absent"
            case FactKind.VARIABLE:
                words = "the variable's text, `true`, `false`, `null` if it is unset"
            case FactKind.BOOLEAN:
                words = "`true`, `false`"
            case FactKind.INTEGER:
                words = f"a whole number from {self.least} to {MAX_INTEGER}"
            case FactKind.NUMBER:
                words = f"a number {NUMBERS}"
            case FactKind.SHARE:
                words = "a number greater than 0 and at most 1"
            case FactKind.CHOICE:
                words = listed(self.choices)
            case FactKind.TEXT:
                words = f"a string of at most {MAX_TEXT} characters"
            case FactKind.TEXTS:
                words = f"a list of at most {MAX_ITEMS} strings"
            case FactKind.LIST:
                words = f"a list of at most {MAX_ITEMS} items"
        return f"{words}, `null`" if self.nullable else words

    def admits(self, value: object) -> bool:
        """Whether a stated value (other than ``null``) is legal; types are compared exactly."""
        return CHECKS[self.kind](self, value)


def _is_text(_: Fact, value: object) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT


def _is_number(_: Fact, value: object) -> bool:
    return type(value) in {int, float} and -MAX_NUMBER < value < MAX_NUMBER  # type: ignore[operator]  # its type is checked


def _is_share(_: Fact, value: object) -> bool:
    return type(value) in {int, float} and 0 < value <= 1  # type: ignore[operator]  # its type is checked


def _is_list(_: Fact, value: object) -> bool:
    return type(value) is list and len(value) <= MAX_ITEMS


_TEXT: Final = frozenset({str})


def _is_list_of_texts(_: Fact, value: object) -> bool:
    if type(value) is not list or len(value) > MAX_ITEMS:
        return False
    return not value or (_TEXT.issuperset(map(type, value)) and max(map(len, value)) <= MAX_TEXT)


CHECKS: Final[dict[FactKind, Callable[[Fact, Any], bool]]] = {
    FactKind.PRESENCE: lambda _, value: type(value) is dict,
    FactKind.VARIABLE: lambda fact, value: type(value) is bool or (_is_text(fact, value) and "\0" not in value),
    FactKind.BOOLEAN: lambda _, value: type(value) is bool,
    FactKind.INTEGER: lambda fact, value: type(value) is int and fact.least <= value <= MAX_INTEGER,
    FactKind.NUMBER: _is_number,
    FactKind.SHARE: _is_share,
    FactKind.CHOICE: lambda fact, value: type(value) is str and value in fact.choices,
    FactKind.TEXT: _is_text,
    FactKind.TEXTS: _is_list_of_texts,
    FactKind.LIST: _is_list,
}


def _presence(name: str, meaning: str) -> Fact:
    return Fact(name, FactKind.PRESENCE, default=False, meaning=meaning)


def _boolean(name: str, meaning: str, *, default: bool = False) -> Fact:
    return Fact(name, FactKind.BOOLEAN, default, meaning)


def _size(name: str, meaning: str, *, least: int = 1) -> Fact:
    return Fact(name, FactKind.INTEGER, least, meaning, least=least)


def _choice(name: str, meaning: str, choices: tuple[str, ...], default: str | None = None) -> Fact:
    return Fact(name, FactKind.CHOICE, default, meaning, choices=choices, nullable=default is None)


def _texts(name: str, meaning: str) -> Fact:
    return Fact(name, FactKind.TEXTS, [], meaning)


METHODS: Final = (
    "ngram",
    "ngram_gpu",
    "medusa",
    "mlp_speculator",
    "draft_model",
    "suffix",
    "custom_class",
    "eagle",
    "eagle3",
    "mtp",
    "dflash",
    "dspark",
    "extract_hidden_states",
)

PLATFORM_PLUGINS: Final = (
    "vllm-ascend",
    "vllm-gaudi",
    "vllm-metal",
    "vllm-neuron",
    "vllm-openvino",
    "vllm-rbln",
    "vllm-spyre",
    "vllm-tt-plugin",
)
"""The platform plugins that are known to have their own model runners; for the TPU there is a fact of vLLM itself."""

VOCABULARY: Final[tuple[Fact, ...]] = (
    Fact(
        VARIABLE,
        FactKind.VARIABLE,
        None,
        "the operator's environment variable: unset, false or true, parsed as vLLM parses its text; from 0.12 to 0.21 "
        "unset means false, and older releases do not read it",
        other_defaults=(((0, 12), (0, 22), False),),
    ),
    Fact(
        ENGINE_VARIABLE,
        FactKind.VARIABLE,
        None,
        "the operator's environment variable for the engine, from 0.6.4 to 0.11.0: false for the V0 engine, true for "
        "the V1 engine, unset if vLLM chooses, which up to 0.7 is the V0 engine; not the model runner V1",
        since=(0, 6),
        until=(0, 12),
    ),
    _boolean(
        "platform.has_triton",
        "Triton can be imported and has exactly one active driver; a property of the host",
        default=True,
    ),
    _boolean("platform.is_rocm", "the platform is AMD ROCm"),
    _boolean("platform.is_unspecified", "vLLM detected no platform, as on a machine without a device"),
    _boolean("platform.is_tpu", "the platform is a TPU"),
    _boolean("platform.is_out_of_tree", "the platform comes from a plugin (entry points `vllm.platform_plugins`)"),
    _choice(
        "platform.plugin",
        "the plugin that the platform comes from, if it has model runners of its own; not a fact of vLLM's core",
        PLATFORM_PLUGINS,
    ),
    _boolean(
        "platform.is_pin_memory_available",
        "memory of the host can be pinned, as everywhere but on WSL; a property of the host",
        default=True,
    ),
    _boolean("omni", "vLLM-Omni serves the model instead of vLLM (`vllm serve --omni`); not a fact of vLLM's core"),
    _texts(
        "plugins.logits_processors",
        "entry points of the group `vllm.logits_processors` that any package in the serving image declares, "
        "requested or not",
    ),
    _presence("model_config", "a model is configured, as in every real deployment"),
    _choice(
        "model_config.runner_type",
        "what the engine is for (`--runner`); not the model runner V1 or V2",
        ("generate", "pooling", "draft"),
        "generate",
    ),
    _choice(
        "model_config.convert_type",
        "how vLLM makes a model pool that was not made for it (`--convert`)",
        ("none", "embed", "classify"),
        "none",
    ),
    _texts("model_config.architectures", "`architectures` of the model's config.json after `--hf-overrides`"),
    _choice(
        "model_config.attn_type",
        "which tokens the model attends to: `encoder_only` for pooling models like BERT, which see all tokens at once",
        ("decoder", "encoder", "encoder_only", "encoder_decoder", "attention_free", "hybrid"),
        "decoder",
    ),
    _presence(
        "model_config.hf_overrides.rope_parameters",
        "`--hf-overrides` changes the rotary embedding (`rope_scaling` or `rope_parameters`), as for YaRN",
    ),
    _boolean("model_config.is_moe", "the model has experts"),
    _boolean(
        "model_config.is_quantized",
        "the checkpoint is quantised (`quantization_config` in config.json, or `hf_quant_config.json`; "
        "`--quantization` does not set it, but a method of ModelOpt needs that file)",
    ),
    _boolean("model_config.is_hybrid", "the model mixes attention with state-space or linear-attention layers"),
    _boolean(
        "model_config.has_inner_state",
        "the model keeps an inner state between steps (Mamba, hybrid, linear attention)",
    ),
    _boolean("model_config.is_attention_free", "the model has no attention at all (pure Mamba)"),
    _boolean("model_config.is_diffusion", "the model is a diffusion language model (`canvas_length` in config.json)"),
    _boolean("model_config.use_mla", "the model uses multi-head latent attention"),
    _boolean("model_config.is_multimodal_model", "the model accepts images, audio or video"),
    _boolean("model_config.is_encoder_decoder", "the model has an encoder and a decoder"),
    _boolean(
        "model_config.multimodal_config.mm_encoder_only", "only the multimodal encoder is run (`--mm-encoder-only`)"
    ),
    _boolean(
        "model_config.enable_return_routed_experts", "routed experts are returned (`--enable-return-routed-experts`)"
    ),
    Fact(
        "model_config.logits_processors",
        FactKind.LIST,
        None,
        "custom logits processors (`--logits-processors`)",
        nullable=True,
    ),
    _boolean("model_config.enable_prompt_embeds", "prompts may be embeddings (`--enable-prompt-embeds`)"),
    _choice(
        "model_config.logprobs_mode",
        "what the returned log probabilities are (`--logprobs-mode`)",
        ("raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs"),
        "raw_logprobs",
    ),
    _boolean(
        "model_config.return_sampling_mask",
        "the sampling distribution is returned for replay (`--return-sampling-mask`)",
    ),
    _boolean("model_config.enable_trace_replay", "traces are recorded for replay (`--enable-trace-replay`)"),
    _size("parallel_config.tensor_parallel_size", "tensor-parallel ranks (`--tensor-parallel-size`)"),
    _size("parallel_config.pipeline_parallel_size", "pipeline stages (`--pipeline-parallel-size`)"),
    _size("parallel_config.data_parallel_size", "data-parallel ranks (`--data-parallel-size`)"),
    _size(
        "parallel_config.prefill_context_parallel_size",
        "ranks sharing the context of a prefill (`--prefill-context-parallel-size`)",
    ),
    _size(
        "parallel_config.decode_context_parallel_size",
        "ranks sharing the context of a decode (`--decode-context-parallel-size`)",
    ),
    Fact(
        "parallel_config.distributed_executor_backend",
        FactKind.TEXT,
        None,
        "`ray`, `mp`, `uni`, `external_launcher` or an executor class (`--distributed-executor-backend`)",
        nullable=True,
    ),
    _boolean("parallel_config.enable_dbo", "dual batch overlap (`--enable-dbo`)"),
    _size("parallel_config.ubatch_size", "microbatches of a step (`--ubatch-size`)", least=0),
    _boolean("parallel_config.enable_elastic_ep", "elastic expert parallelism (`--enable-elastic-ep`)"),
    _boolean(
        "parallel_config.enable_batch_sharded_sampling",
        "sampling sharded over the batch (`--enable-batch-sharded-sampling`)",
    ),
    _boolean(
        "scheduler_config.async_scheduling",
        "the next step is scheduled while the current one runs (`--async-scheduling`)",
    ),
    _choice(
        "scheduler_config.policy",
        "the order in which requests are scheduled (`--scheduling-policy`)",
        ("fcfs", "priority"),
        "fcfs",
    ),
    _presence("speculative_config", "speculative decoding is configured (`--speculative-config`)"),
    _choice("speculative_config.method", "the speculative method, given or detected", METHODS),
    _size(
        "speculative_config.num_speculative_tokens",
        "draft tokens of a step (`num_speculative_tokens`); 0 if the draft's config.json decides",
        least=0,
    ),
    _boolean("speculative_config.parallel_drafting", "all drafts of a step are made at once"),
    Fact(
        "speculative_config.num_speculative_tokens_per_batch_size",
        FactKind.LIST,
        None,
        "numbers of drafts by batch size, `[[from, to, tokens], …]` (dynamic speculative decoding)",
        nullable=True,
    ),
    _boolean("speculative_config.enable_adaptive_verification", "drafts are verified adaptively"),
    _boolean("speculative_config.use_heterogeneous_vocab", "the draft model has its own vocabulary"),
    _choice(
        "speculative_config.draft_lm_head_quantization", "quantisation of the draft's output layer", ("fp8", "nvfp4")
    ),
    _presence("speculative_config.draft_model_config", "the speculative method has a draft model"),
    _texts(
        "speculative_config.draft_model_config.architectures",
        "`architectures` of the draft's config.json, as vLLM rewrites them",
    ),
    Fact(
        "speculative_config.draft_model_config.hf_config.layer_types",
        FactKind.TEXTS,
        None,
        "kinds of the draft's attention layers (`layer_types` of its config.json)",
        nullable=True,
    ),
    _boolean("speculative_config.is_xpress", "the draft is an XPress head"),
    _choice(
        "cache_config.mamba_cache_mode",
        "how Mamba states are cached (`--mamba-cache-mode`)",
        ("none", "align", "all"),
        "none",
    ),
    _boolean(
        "cache_config.kv_sharing_fast_prefill",
        "layers that share a KV cache skip prefill (`--kv-sharing-fast-prefill`)",
    ),
    Fact(
        "cache_config.gpu_memory_utilization",
        FactKind.SHARE,
        0.92,
        "the share of the device's memory that vLLM takes (`--gpu-memory-utilization`); `null` if "
        "`--kv-cache-memory-bytes` says how much the KV cache gets",
        nullable=True,
        other_defaults=(((0, 3), (0, 20), 0.9),),
    ),
    _choice(
        "compilation_config.mode",
        "how the model is compiled (`-cc.mode`, `-O`)",
        ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"),
        "VLLM_COMPILE",
    ),
    _choice(
        "compilation_config.cudagraph_mode",
        "which steps run as CUDA graphs (`-cc.cudagraph_mode`)",
        ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"),
        "FULL_AND_PIECEWISE",
    ),
    _boolean(
        "compilation_config.pass_config.enable_sp", "the sequence-parallelism pass is on (`-cc.pass_config.enable_sp`)"
    ),
    _presence(
        "kv_transfer_config",
        "a KV connector is configured (`--kv-transfer-config`, or implied by `--kv-offloading-size`)",
    ),
    Fact("kv_transfer_config.kv_connector", FactKind.TEXT, None, "the KV connector's name", nullable=True),
    _texts(
        "kv_transfer_config.connectors",
        "the names of the connectors that `MultiConnector` combines (`connectors` of `kv_connector_extra_config`)",
    ),
    _choice("kv_transfer_config.kv_role", "the KV connector's role", ("kv_producer", "kv_consumer", "kv_both")),
    _presence("ec_transfer_config", "an encoder-cache connector is configured (`--ec-transfer-config`)"),
    _presence("reasoning_config", "reasoning is configured (`--reasoning-config`, or implied by `--reasoning-parser`)"),
    _presence("lora_config", "LoRA adapters are enabled (`--enable-lora`)"),
    _presence("watermark_config", "watermarking is configured (`--watermark-config`)"),
    _presence("attention_config.hisparse_config", "HiSparse attention is configured (`--attention-config`)"),
    _boolean(
        "aux_output_config.enabled", "the auxiliary-output connector is on (`--enable-return-routed-experts` from 0.31)"
    ),
)

REQUEST_VOCABULARY: Final[tuple[Fact, ...]] = tuple(
    Fact(
        name,
        FactKind(kind),
        default,
        meaning,
        choices,
        nullable=kind == FactKind.NUMBER or (kind in {FactKind.CHOICE, FactKind.TEXT} and default is None),
    )
    for name, kind, default, meaning, choices in ROWS
)
"""The facts of a request to an engine, which follow those of its deployment in a row."""
ALL_FACTS: Final = (*VOCABULARY, *REQUEST_VOCABULARY)
INDEX: Final[dict[str, int]] = {fact.name: i for i, fact in enumerate(ALL_FACTS)}
VARIABLE_INDEX: Final = INDEX[VARIABLE]
ENGINE_INDEX: Final = INDEX[ENGINE_VARIABLE]
FACTS: Final[dict[str, Fact]] = {fact.name: fact for fact in VOCABULARY}
FACTS_WITH_REQUEST: Final[dict[str, Fact]] = {fact.name: fact for fact in ALL_FACTS}


def ancestors(name: str) -> tuple[str, ...]:
    """The objects that contain a fact, outermost first: if one is absent, no condition on the fact holds."""
    parts = name.split(".")
    above = (".".join(parts[:n]) for n in range(1, len(parts)))
    return tuple(path for path in above if path in FACTS)
