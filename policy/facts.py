"""The vocabulary: every fact that the rules may read, under vLLM's own name.

Owns the facts' types, legal values, defaults and meanings, and the reading of a request's nested
``facts`` into one flat, typed row of values. Everything else that speaks of facts (validation, the
rules' JSON Schema, ``GET /v1/facts``, the engine's keys, ``docs/facts.md``) is made from ``VOCABULARY``.
Which releases read a fact is no property of it: the rules say so (``published.read_by``).

A row has one value a fact, in the vocabulary's order; a list stands in it as a tuple. Types are one a
fact and checked without coercion: an engine that holds ``1``, ``true`` and ``"1"`` for equal must never
see two of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from policy.errors import MAX_FAULTS, Misfit, listed, nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TEXT: Final = 8192
MAX_ITEMS: Final = 4096
MAX_INTEGER: Final = 2**31 - 1
MAX_IGNORED: Final = 16
MAX_IGNORED_KEY: Final = 64

VARIABLE: Final = "env.VLLM_USE_V2_MODEL_RUNNER"

Row: TypeAlias = list[Any]


class Kind(StrEnum):
    """What a fact's value is; the name is what ``GET /v1/facts`` shows as its type."""

    PRESENCE = "presence"
    VARIABLE = "tri-state"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    CHOICE = "choice"
    TEXT = "text"
    TEXTS = "list of text"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Malformed:
    """An environment variable's text that is no integer, with Python's own words for it."""

    text: str
    error: str


Tristate: TypeAlias = bool | Malformed | None


def parse_variable(text: str) -> Tristate:
    """What vLLM makes of the variable's text: ``bool(int(text))``, or why that fails.

    Source: ``vllm/envs.py``, alike in every release from 0.20.0 on (the releases differ in what an
    unset variable means, see ``Fact.default_in``).
    """
    try:
        return bool(int(text))
    except ValueError as error:
        return Malformed(text, str(error))


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: ``name`` is its path in a request, ``default`` what holds where nobody says more."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    least: int = 0
    nullable: bool = False
    earlier_default: tuple[tuple[int, int], Any] | None = None

    def default_in(self, release: tuple[int, int]) -> Any:
        """What stands in a row by default in a minor series: ``earlier_default`` holds before the series that it names."""
        if self.earlier_default is not None and release < self.earlier_default[0]:
            return self.earlier_default[1]
        return tuple(self.default) if self.default == [] else self.default

    @property
    def legal(self) -> str:
        """The legal values in words, for messages and documentation."""
        match self.kind:
            case Kind.PRESENCE:
                words = "an object, `null` where it is absent"
            case Kind.VARIABLE:
                words = "the variable's text, `true`, `false`, `null` where it is unset"
            case Kind.BOOLEAN:
                words = "`true`, `false`"
            case Kind.INTEGER:
                words = f"a whole number from {self.least} to {MAX_INTEGER}"
            case Kind.CHOICE:
                words = listed(self.choices)
            case Kind.TEXT:
                words = f"a text of at most {MAX_TEXT} characters"
            case Kind.TEXTS:
                words = f"a list of at most {MAX_ITEMS} texts"
            case Kind.LIST:
                words = f"a list of at most {MAX_ITEMS} items"
        return f"{words}, `null`" if self.nullable else words

    def admits(self, value: object) -> bool:
        """Whether a stated value (``null`` aside) is legal; types are compared exactly."""
        return CHECKS[self.kind](self, value)


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT


def _is_list(value: object) -> bool:
    return type(value) is list and len(value) <= MAX_ITEMS


CHECKS: Final[dict[Kind, Callable[[Fact, Any], bool]]] = {
    Kind.PRESENCE: lambda _, value: type(value) is dict,
    Kind.VARIABLE: lambda _, value: type(value) is bool or (_is_text(value) and "\0" not in value),
    Kind.BOOLEAN: lambda _, value: type(value) is bool,
    Kind.INTEGER: lambda fact, value: type(value) is int and fact.least <= value <= MAX_INTEGER,
    Kind.CHOICE: lambda fact, value: type(value) is str and value in fact.choices,
    Kind.TEXT: lambda _, value: _is_text(value),
    Kind.TEXTS: lambda _, value: _is_list(value) and all(map(_is_text, value)),
    Kind.LIST: lambda _, value: _is_list(value),
}


def _presence(name: str, meaning: str) -> Fact:
    return Fact(name, Kind.PRESENCE, default=False, meaning=meaning)


def _boolean(name: str, meaning: str, *, default: bool = False) -> Fact:
    return Fact(name, Kind.BOOLEAN, default, meaning)


def _size(name: str, meaning: str, *, least: int = 1) -> Fact:
    return Fact(name, Kind.INTEGER, least, meaning, least=least)


def _choice(name: str, meaning: str, choices: tuple[str, ...], default: str | None = None) -> Fact:
    return Fact(name, Kind.CHOICE, default, meaning, choices=choices, nullable=default is None)


def _texts(name: str, meaning: str) -> Fact:
    return Fact(name, Kind.TEXTS, [], meaning)


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

VOCABULARY: Final[tuple[Fact, ...]] = (
    Fact(
        VARIABLE,
        Kind.VARIABLE,
        None,
        "the operator's environment variable: unset, false or true, parsed as vLLM parses its text; up to 0.21 unset means false",
        earlier_default=((0, 22), False),
    ),
    _boolean("platform.has_triton", "Triton can be imported and has exactly one active driver; a property of the host", default=True),
    _boolean("platform.is_rocm", "the platform is AMD ROCm"),
    _boolean("platform.is_unspecified", "vLLM detected no platform, as on a machine without a device"),
    _boolean("platform.is_tpu", "the platform is a TPU"),
    _boolean("platform.is_out_of_tree", "the platform comes from a plugin (entry points `vllm.platform_plugins`)"),
    _texts("plugins.logits_processors", "entry points of the group `vllm.logits_processors` that any package in the serving image declares, requested or not"),
    _presence("model_config", "a model is configured, as in every real deployment"),
    _choice("model_config.runner_type", "what the engine is for (`--runner`); not the model runner V1 or V2", ("generate", "pooling", "draft"), "generate"),
    _texts("model_config.architectures", "`architectures` of the model's config.json after `--hf-overrides`"),
    _boolean("model_config.is_moe", "the model has experts"),
    _boolean("model_config.is_quantized", "the checkpoint is quantised (`quantization_config` in config.json; `--quantization` does not set it)"),
    _boolean("model_config.is_hybrid", "the model mixes attention with state-space or linear-attention layers"),
    _boolean("model_config.has_inner_state", "the model keeps a state of its own between steps (Mamba, hybrid, linear attention)"),
    _boolean("model_config.is_attention_free", "the model has no attention at all (pure Mamba)"),
    _boolean("model_config.is_diffusion", "the model is a diffusion language model (`canvas_length` in config.json)"),
    _boolean("model_config.use_mla", "the model uses multi-head latent attention"),
    _boolean("model_config.is_multimodal_model", "the model takes images, audio or video"),
    _boolean("model_config.is_encoder_decoder", "the model has an encoder and a decoder"),
    _boolean("model_config.multimodal_config.mm_encoder_only", "only the multimodal encoder is run (`--mm-encoder-only`)"),
    _boolean("model_config.enable_return_routed_experts", "routed experts are returned (`--enable-return-routed-experts`)"),
    Fact("model_config.logits_processors", Kind.LIST, None, "custom logits processors (`--logits-processors`)", nullable=True),
    _boolean("model_config.enable_prompt_embeds", "prompts may be embeddings (`--enable-prompt-embeds`)"),
    _choice(
        "model_config.logprobs_mode",
        "what the returned log probabilities are (`--logprobs-mode`)",
        ("raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs"),
        "raw_logprobs",
    ),
    _boolean("model_config.return_sampling_mask", "the sampling distribution is returned for replay (`--return-sampling-mask`)"),
    _boolean("model_config.enable_trace_replay", "traces are recorded for replay (`--enable-trace-replay`)"),
    _size("parallel_config.tensor_parallel_size", "tensor-parallel ranks (`--tensor-parallel-size`)"),
    _size("parallel_config.pipeline_parallel_size", "pipeline stages (`--pipeline-parallel-size`)"),
    _size("parallel_config.prefill_context_parallel_size", "ranks sharing the context of a prefill (`--prefill-context-parallel-size`)"),
    _size("parallel_config.decode_context_parallel_size", "ranks sharing the context of a decode (`--decode-context-parallel-size`)"),
    Fact(
        "parallel_config.distributed_executor_backend",
        Kind.TEXT,
        None,
        "`ray`, `mp`, `uni`, `external_launcher` or an executor class (`--distributed-executor-backend`)",
        nullable=True,
    ),
    _boolean("parallel_config.enable_dbo", "dual batch overlap (`--enable-dbo`)"),
    _size("parallel_config.ubatch_size", "microbatches of a step (`--ubatch-size`)", least=0),
    _boolean("parallel_config.enable_elastic_ep", "elastic expert parallelism (`--enable-elastic-ep`)"),
    _boolean("parallel_config.enable_batch_sharded_sampling", "sampling sharded over the batch (`--enable-batch-sharded-sampling`)"),
    _boolean("scheduler_config.async_scheduling", "the next step is scheduled while the current one runs (`--async-scheduling`)"),
    _presence("speculative_config", "speculative decoding is configured (`--speculative-config`)"),
    _choice("speculative_config.method", "the speculative method, given or detected", METHODS),
    _boolean("speculative_config.parallel_drafting", "all drafts of a step come at once"),
    Fact(
        "speculative_config.num_speculative_tokens_per_batch_size",
        Kind.LIST,
        None,
        "numbers of drafts by batch size, `[[from, to, tokens], …]` (dynamic speculative decoding)",
        nullable=True,
    ),
    _boolean("speculative_config.enable_adaptive_verification", "drafts are verified adaptively"),
    _boolean("speculative_config.use_heterogeneous_vocab", "the draft model has a vocabulary of its own"),
    _choice("speculative_config.draft_lm_head_quantization", "quantisation of the draft's output layer", ("fp8", "nvfp4")),
    _presence("speculative_config.draft_model_config", "the speculative method has a draft model"),
    _texts("speculative_config.draft_model_config.architectures", "`architectures` of the draft's config.json, as vLLM rewrites them"),
    Fact(
        "speculative_config.draft_model_config.hf_config.layer_types",
        Kind.TEXTS,
        None,
        "kinds of the draft's attention layers (`layer_types` of its config.json)",
        nullable=True,
    ),
    _boolean("speculative_config.is_xpress", "the draft is an XPress head"),
    _choice("cache_config.mamba_cache_mode", "how Mamba states are cached (`--mamba-cache-mode`)", ("none", "align", "all"), "none"),
    _boolean("cache_config.kv_sharing_fast_prefill", "layers that share a KV cache skip prefill (`--kv-sharing-fast-prefill`)"),
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
    _boolean("compilation_config.pass_config.enable_sp", "the sequence-parallelism pass is on (`-cc.pass_config.enable_sp`)"),
    _presence("kv_transfer_config", "a KV connector is configured (`--kv-transfer-config`, or implied by `--kv-offloading-size`)"),
    Fact("kv_transfer_config.kv_connector", Kind.TEXT, None, "the KV connector's name", nullable=True),
    _choice("kv_transfer_config.kv_role", "the KV connector's role", ("kv_producer", "kv_consumer", "kv_both")),
    _presence("ec_transfer_config", "an encoder-cache connector is configured (`--ec-transfer-config`)"),
    _presence("reasoning_config", "reasoning is configured (`--reasoning-config`, or implied by `--reasoning-parser`)"),
    _presence("lora_config", "LoRA adapters are enabled (`--enable-lora`)"),
    _presence("watermark_config", "watermarking is configured (`--watermark-config`)"),
    _presence("attention_config.hisparse_config", "HiSparse attention is configured (`--attention-config`)"),
    _boolean("aux_output_config.enabled", "the auxiliary-output connector is on (`--enable-return-routed-experts` from 0.31)"),
)

INDEX: Final[dict[str, int]] = {fact.name: i for i, fact in enumerate(VOCABULARY)}
VARIABLE_INDEX: Final = INDEX[VARIABLE]
FACTS: Final[dict[str, Fact]] = {fact.name: fact for fact in VOCABULARY}


def ancestors(name: str) -> tuple[str, ...]:
    """The presence facts above a fact, outermost first: where one is absent, no condition on the fact holds."""
    parts = name.split(".")
    above = (".".join(parts[:n]) for n in range(1, len(parts)))
    return tuple(path for path in above if path in FACTS)


@dataclass(slots=True)
class Member:
    """A place in the nested request: an object with members, a fact, or (a presence) both.

    ``type`` and ``fits`` are the fact's check in the form that costs least: the exact type of a legal
    value and, where that is not all, a question about it. ``take`` makes of it what stands in a row, where
    that is something else. ``pointer`` is the place below ``facts``.
    """

    path: str
    fact: Fact | None = None
    index: int = -1
    is_open: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    type: Any = dict
    fits: Callable[[Any], bool] | None = None
    take: Callable[[Any], Any] | None = None
    pointer: str = field(init=False)

    def __post_init__(self) -> None:
        self.pointer = f"/{self.path.replace('.', '/')}"


TYPES: Final[dict[Kind, type]] = {
    Kind.PRESENCE: dict,
    Kind.VARIABLE: str,
    Kind.BOOLEAN: bool,
    Kind.INTEGER: int,
    Kind.CHOICE: str,
    Kind.TEXT: str,
    Kind.TEXTS: list,
    Kind.LIST: list,
}


class Opaque:
    """An item of a list that no rule looks into: an object, or a list of other than numbers and texts."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


def as_sent(value: Any) -> Any:
    """What stands in a row for a list as the list that it was, any other value as it is."""
    if isinstance(value, tuple):
        return list(map(as_sent, value))
    return value.value if isinstance(value, Opaque) else value


def _frozen(value: list[Any]) -> tuple[Any, ...]:
    return tuple(map(_frozen_item, value))


def _frozen_item(item: Any) -> Any:
    if type(item) is list and all(type(each) in {int, str} for each in item):
        return tuple(item)
    return Opaque(item) if type(item) in {list, dict} else item


TAKES: Final[dict[Kind, Callable[[Any], Any]]] = {Kind.VARIABLE: parse_variable, Kind.TEXTS: tuple, Kind.LIST: _frozen}


def _fits(fact: Fact) -> Callable[[Any], bool] | None:
    """What is left to ask of a value once its type is known to be right."""
    match fact.kind:
        case Kind.PRESENCE | Kind.BOOLEAN:
            return None
        case Kind.CHOICE:
            return frozenset(fact.choices).__contains__
        case Kind.INTEGER:
            return range(fact.least, MAX_INTEGER + 1).__contains__
        case _:
            return fact.admits


def _tree() -> Member:
    root = Member("")
    for index, fact in enumerate(VOCABULARY):
        member = root
        for part in fact.name.split("."):
            path = f"{member.path}.{part}" if member.path else part
            member = member.members.setdefault(part, Member(path, is_open=member.is_open))
        member.fact, member.index = fact, index
        member.type = TYPES[fact.kind]
        member.fits = _fits(fact)
        member.take = TAKES.get(fact.kind)
        member.is_open = member.is_open or fact.kind is Kind.PRESENCE
    return root


TREE: Final[Member] = _tree()


@lru_cache(maxsize=64)
def defaults(series: tuple[int, int]) -> tuple[Any, ...]:
    """The row of a minor series where nothing is stated."""
    return tuple(fact.default_in(series) for fact in VOCABULARY)


def place_of(fact: Fact) -> str:
    """The attribute of what ``usual`` has read that has a fact's value; of the variable it has the text."""
    return f"{fact.name}.present" if fact.kind is Kind.PRESENCE else fact.name


_row: Final = attrgetter(*map(place_of, VOCABULARY))


class Facts(Struct, frozen=True):
    """A deployment's facts, the places in the row that were ``stated``, and what was ``ignored``.

    They are a row of ``values``, or what ``usual`` has ``read`` and nobody made a row of yet. ``ignored``
    holds the first members, as (path of the object, key), that an open object had beside its facts.
    """

    values: Row = []
    stated: list[int] = []
    ignored: list[tuple[str, str]] = []
    read: Any = None

    @property
    def row(self) -> Row:
        """The values, one a fact."""
        if self.read is None:
            return self.values
        row = list(_row(self.read))
        if type(row[VARIABLE_INDEX]) is str:
            row[VARIABLE_INDEX] = parse_variable(row[VARIABLE_INDEX])
        return row

    def changed(self, index: int, value: Any) -> Facts:
        """The same facts with one changed."""
        row = self.row.copy()
        row[index] = value
        return Facts(row)

    def hints(self) -> list[str]:
        """A sentence on each ignored member that looks like a fact misspelt."""
        return [hint for path, key in self.ignored if (hint := _misspelt(path, key))]


@dataclass(slots=True)
class _Reading:
    """What was read of the facts so far."""

    row: Row
    stated: list[int] = field(default_factory=list)
    ignored: list[tuple[str, str]] = field(default_factory=list)

    def state(self, index: int, value: Any) -> None:
        self.stated.append(index)
        self.row[index] = value


def read_facts(document: Any, series: tuple[int, int], pointer: str, faults: list[Misfit]) -> Facts:
    """The facts of a nested document, defaults of ``series`` filled in; each fault is appended to ``faults``."""
    facts = _Reading(list(defaults(series)))
    if type(document) is dict:
        _read_object(TREE, document, pointer, facts, faults)
    else:
        faults.append(Misfit(pointer, f'{quoted(document)} is no object; write the facts as `{{"model_config": {{…}}}}`'))
    return Facts(facts.row, facts.stated, facts.ignored)


def _read_object(parent: Member, document: dict[str, Any], pointer: str, facts: _Reading, faults: list[Misfit]) -> None:
    members = parent.members
    for key, value in document.items():
        member = members.get(key)
        if member is None:
            if len(faults) >= MAX_FAULTS:
                return
            if not parent.is_open:
                faults.append(Misfit(at(f"{pointer}{parent.pointer}".rstrip("/"), key), _unknown(parent, key)))
            elif len(facts.ignored) < MAX_IGNORED and len(key) <= MAX_IGNORED_KEY:
                facts.ignored.append((parent.path, key))
        elif type(value) is member.type and ((fits := member.fits) is None or fits(value)):
            index = member.index
            if member.type is dict:
                if index >= 0:
                    facts.state(index, value=True)
                _read_object(member, value, pointer, facts, faults)
            else:
                facts.state(index, value if member.take is None else member.take(value))
        else:
            _read_other(member, value, pointer, facts, faults)


def _read_other(member: Member, value: Any, pointer: str, facts: _Reading, faults: list[Misfit]) -> None:
    """What is not of the usual type: ``null``, a variable's ``true`` or ``false``, or a fault."""
    fact = member.fact
    if fact is None:
        if value is not None:
            faults.append(Misfit(f"{pointer}{member.pointer}", f"{quoted(value)} is no object; its members are {listed(member.members)}"))
    elif value is None and (fact.nullable or fact.kind in {Kind.VARIABLE, Kind.PRESENCE}):
        facts.stated.append(member.index)
    elif value is None:
        faults.append(Misfit(f"{pointer}{member.pointer}", f"`null` is not legal here; legal: {fact.legal}; leave it out for the default"))
    elif fact.kind is Kind.VARIABLE and fact.admits(value):
        facts.state(member.index, value)
    else:
        faults.append(Misfit(f"{pointer}{member.pointer}", f"{quoted(value)} is not legal for `{fact.name}`; legal: {fact.legal}"))


def at(pointer: str, key: str | int) -> str:
    """The JSON pointer of a member or item (RFC 6901)."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _unknown(parent: Member, key: str) -> str:
    return f"unknown member {quoted(key)}; legal: {listed(parent.members)}{nearest(key, parent.members)}"


@lru_cache(maxsize=1024)
def _misspelt(path: str, key: str) -> str:
    member = TREE
    for part in path.split("."):
        member = member.members[part]
    close = nearest(key, member.members, cutoff=0.85)
    return f"`{path}.{key}` is no fact and was ignored{close}" if close else ""
