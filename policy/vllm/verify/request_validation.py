"""A release's own code that validates a request, run with stand-ins for everything else.

Owns what is taken from the sources: the module ``vllm/sampling_params.py`` as a whole, and of other classes the methods
that validate. Stand-ins take the place of vLLM's other modules, of torch and of numpy.
"""

from __future__ import annotations

import ast
import inspect
import logging
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from policy.rules.request_rule import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.derive.request_limits import EngineLimits
    from policy.vllm.tablegen.wheels import ReleaseSource
    from policy.vllm.verify.request_drawing import DrawnRequest

PARAMS: Final = "vllm/sampling_params.py"
PROCESSOR: Final = "vllm/v1/engine/input_processor.py"
LOGIT_BIAS: Final = "vllm/v1/worker/gpu/sample/logit_bias.py"
BAD_WORDS: Final = "vllm/v1/worker/gpu/sample/bad_words.py"
ASYNC_LLM: Final = "vllm/v1/engine/async_llm.py"
KV_SHARING: Final = "kv_sharing_fast_prefill"
ENVS: Final = {
    "VLLM_MAX_N_SEQUENCES": 16384,
    "VLLM_MAX_NUM_BAD_WORDS": 128,
    "VLLM_MAX_BAD_WORDS_TOTAL_TOKENS": 1024,
    "VLLM_BATCH_INVARIANT": False,
}
BACKENDS: Final = ("guidance", "lm_format_enforcer", "outlines", "xgrammar")
SUPPORTED_TASKS: Final = {"generate": ("generate",), "pooling": ("embed", "classify")}


class _AnyObject:
    """A stand-in for any class, function or object."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyObject()

    def __getitem__(self, _: Any) -> Any:
        return _AnyObject()

    def __setitem__(self, *_: Any) -> None:
        pass

    def __index__(self) -> int:
        return 0

    def __class_getitem__(cls, _: Any) -> Any:
        return cls


class _StandIn(ModuleType):
    """A stand-in for a module, whose other members are stand-ins too."""

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(members)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyObject


class _Array:
    """A stand-in for numpy's array, as far as the validation reads it."""

    def __init__(self, rows: list[list[int]], width: int) -> None:
        if not all(type(item) is int for row in rows for item in row):
            raise TypeError("expected integers")
        self.rows = [row + [-1] * (width - len(row)) for row in rows]

    def min(self) -> int:
        """The least item."""
        return min(map(min, self.rows))

    def max(self) -> int:
        """The greatest item."""
        return max(map(max, self.rows))


class _Tokenizer:
    """A tokenizer for which each word is one token, with and without a space before it."""

    max_token_id = 1 << 30
    is_tekken = False

    def __init__(self, size: int) -> None:
        self._size = size

    def encode(self, text: str, **_: Any) -> list[int]:
        """The single token of a word."""
        return [int(text.strip()[1:])]

    def __len__(self) -> int:
        return self._size


def _modules(source: ReleaseSource) -> dict[str, ModuleType]:
    """The stand-ins for the modules that the validation imports, with vLLM's own exceptions."""
    errors: dict[str, Any] = {"__name__": "vllm.exceptions"}
    exec(compile(source.text("vllm/exceptions.py"), "vllm/exceptions.py", "exec"), errors)  # noqa: S102  # the release's own code
    envs = _StandIn("vllm.envs", ENVS)
    known: dict[str, dict[str, Any]] = {
        "vllm": {"envs": envs},
        "vllm.exceptions": errors,
        "vllm.logger": {"init_logger": lambda _: _AnyObject()},
        "vllm.utils.mistral": {"is_mistral_tokenizer": lambda _: False},
        "vllm.utils.torch_utils": {"make_ndarray_with_pad": lambda rows, *_, max_len: _Array(rows, max_len)},
        "vllm.v1.serial_utils": {"PydanticMsgspecMixin": type("PydanticMsgspecMixin", (), {})},
        "vllm.v1.structured_output.backend_guidance": {"has_guidance_unsupported_json_features": lambda _: False},
        "vllm.v1.structured_output.utils": {"grammar_is_likely_lark": lambda _: False},
        "vllm.v1.sample.logits_processor": {"validate_logits_processors_parameters": lambda *_: None},
        "numpy": {"ndarray": _Array, "ascontiguousarray": lambda ids, **_: ids},
    }
    for name in ("config", "tokenizers", "utils", "v1", "v1.structured_output", "v1.sample"):
        known[f"vllm.{name}"] = {}
    for backend in BACKENDS:
        known.setdefault(f"vllm.v1.structured_output.backend_{backend}", {})
    found: dict[str, ModuleType] = {name: _StandIn(name, members) for name, members in known.items()}
    found["vllm.envs"] = envs
    return found


class RequestValidation:
    """The validation of requests by one release."""

    def __init__(self, source: ReleaseSource) -> None:
        self._source = source
        self._modules = _modules(source)
        self._params = ModuleType("vllm.sampling_params")
        with self._stand_ins():
            sys.modules["vllm.sampling_params"] = self._params
            exec(compile(source.text(PARAMS), PARAMS, "exec"), self._params.__dict__)  # noqa: S102  # the release's own code
        self._validate_params = self._method(PROCESSOR, "InputProcessor", "_validate_params")
        self._add_bias = self._method(LOGIT_BIAS, "LogitBiasState", "add_request")
        names = inspect.signature(self._add_bias).parameters
        self._place = {name: value for name, value in {"req_idx": 0, "prompt_len": 10}.items() if name in names}
        self._add_words = self._method(BAD_WORDS, "BadWordsState", "add_request")
        self._has_kv_sharing = KV_SHARING in source.text(ASYNC_LLM)

    @contextmanager
    def _stand_ins(self) -> Iterator[None]:
        """Stand-ins in the place of vLLM's modules."""
        before = dict(sys.modules)
        logging.disable(logging.CRITICAL)
        sys.modules.update(self._modules)
        try:
            yield
        finally:
            for name in [*self._modules, "vllm.sampling_params"]:
                if name in before:
                    sys.modules[name] = before[name]
                else:
                    sys.modules.pop(name, None)
            logging.disable(logging.NOTSET)

    def _method(self, path: str, owner: str, name: str) -> Any:
        """A method of a class as a function, with the constants and the imported names of its module."""
        tree = ast.parse(self._source.text(path))
        holder = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner)
        method = next(node for node in holder.body if isinstance(node, ast.FunctionDef) and node.name == name)
        for argument in method.args.args:
            argument.annotation = None
        method.returns = None
        constants = [
            node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        ]
        members: dict[str, Any] = {
            **self._params.__dict__,
            "PoolingParams": type("PoolingParams", (), {}),
            "GENERATION_TASKS": SUPPORTED_TASKS["generate"],
            "POOLING_TASKS": SUPPORTED_TASKS["pooling"],
            "validate_diffusion_sampling_params": lambda *_, **__: None,
        }
        module = ast.Module([*constants, method], [])
        exec(compile(ast.fix_missing_locations(module), path, "exec"), members)  # noqa: S102  # the release's own code
        return members[name]

    def verdict(self, drawn: DrawnRequest, runner: str) -> tuple[Verdict, str]:
        """What the release does with a request to an engine with this runner, and its text."""
        with self._stand_ins():
            sys.modules["vllm.sampling_params"] = self._params
            try:
                params = self._read(drawn)
            except Exception as error:  # noqa: BLE001  # any error of vLLM's is a refusal
                return Verdict.REFUSED, str(error)
            try:
                self._check(params, drawn, runner)
            except Exception as error:  # noqa: BLE001  # as above
                return Verdict.REFUSED, str(error)
            if runner == "v1":
                return Verdict.FINE, ""
            try:
                state = _AnyObject()
                self._add_bias(state, sampling_params=params, **self._place)
                self._add_words(state, 0, params)
            except ValueError as error:
                return Verdict.KILLS_ENGINE, str(error)
        return Verdict.FINE, ""

    def _read(self, drawn: DrawnRequest) -> Any:
        sampling = dict(drawn.sampling)
        if "logit_bias" in sampling:
            sampling["logit_bias"] = {int(token): bias for token, bias in sampling["logit_bias"].items()}
        for name, made in (
            ("structured_outputs", self._params.StructuredOutputsParams),
            ("repetition_detection", self._params.RepetitionDetectionParams),
        ):
            if name in sampling:
                sampling[name] = made(**sampling[name])
        return self._params.SamplingParams(**sampling)

    def _check(self, params: Any, drawn: DrawnRequest, runner: str) -> None:
        """The checks of the engine's front end, in its order."""
        facts, limits = drawn.facts, drawn.limits
        model = SimpleNamespace(
            max_logprobs=limits.max_logprobs,
            get_vocab_size=lambda: limits.vocab_size,
            max_model_len=4096,
            logits_processors=None,
            **facts["model_config"],
        )
        speculation = facts.get("speculative_config")
        reasoning = SimpleNamespace(enabled=True) if "reasoning_config" in facts else None
        cache = SimpleNamespace(**facts["cache_config"])
        tokenizer = _Tokenizer(limits.vocab_size or 0) if limits.has_tokenizer else None
        if self._has_kv_sharing and cache.kv_sharing_fast_prefill and params.prompt_logprobs:
            raise ValueError(
                "--kv-sharing-fast-prefill produces incorrect logprobs for prompt tokens, please disable it when the "
                "requests need prompt logprobs"
            )
        engine = SimpleNamespace(
            model_config=model,
            speculative_config=SimpleNamespace(**speculation) if speculation is not None else None,
            structured_outputs_config=SimpleNamespace(backend="auto"),
            tokenizer=tokenizer,
            use_v2_model_runner=runner == "v2",
            diffusion_config=None,
            vllm_config=SimpleNamespace(
                reasoning_config=reasoning,
                cache_config=cache,
                scheduler_config=SimpleNamespace(async_scheduling=False),
                use_v2_model_runner=runner == "v2",
            ),
            validate_logits_processors_params=lambda _: None,
            resolve_watermarking=lambda _: False,
        )
        self._validate_params(engine, params, SUPPORTED_TASKS[facts["model_config"]["runner_type"]])
        _with_engine(params, limits, tokenizer)


def _with_engine(params: Any, limits: EngineLimits, tokenizer: _Tokenizer | None) -> None:
    """What the front end adds to the parameters: the end tokens and the tokens of bad words."""
    end = next(iter(limits.end_tokens or ()), None)
    params.update_from_generation_config({"eos_token_id": end}, end)
    if tokenizer is not None:
        params.update_from_tokenizer(tokenizer)
