"""A request's parameters and its engine's limits → the facts below ``request`` and ``engine``.

Derives only; which values are refused is in the rules of ``rules/upstream/requests/``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from policy.facts.vocabulary import REQUEST_VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policy.intake.derive.request_limits import EngineLimits
    from policy.sampling.parameters import Parameters

KINDS: Final = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
"""The kinds of constraint of ``structured_outputs``."""
COPIED_PARAMETERS: Final = (
    *("n", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"),
    *("max_tokens", "min_tokens", "thinking_token_budget", "stream_interval", "prompt_logprob_start", "beam_width"),
    "dimensions",
)
LISTS: Final = ("stop_token_ids", "allowed_token_ids", "logprob_token_ids", "trace_decode_token_ids", "logit_bias")
TOKEN_LISTS: Final = (*LISTS, "prompt_logprob_token_ids")
WHOLE_VOCABULARY: Final = "the vocabulary's size"
EPSILON: Final = 1e-5
"""vLLM's ``_SAMPLING_EPS``."""
MAX_SHOWN: Final = 64
"""The most tokens outside the vocabulary that a text names."""
MAX_DEPTH: Final = 200
"""How deep a JSON schema is measured; it is bounded by the reader of documents too."""
MAX_BIAS: Final = 100.0
MAX_SCHEMA: Final = 1 << 20
"""Characters of a JSON schema in a string that is measured."""


def request_row(facts: Mapping[str, Any]) -> list[Any]:
    """The part of a row about a request; facts that are missing have their defaults."""
    return [facts.get(fact.name, fact.default_in((0, 0))) for fact in REQUEST_VOCABULARY]


def request_facts(parameters: Parameters, limits: EngineLimits) -> dict[str, Any]:
    """The facts of a request to an engine with these limits."""
    values = parameters.values
    own: dict[str, Any] = {name: values[name] for name in COPIED_PARAMETERS if name in values}
    own |= {name: len(values[name]) for name in LISTS if name in values}
    own |= _log_probabilities(values, limits)
    own |= _words(values) | _stops(values, limits) | _structured(values.get("structured_outputs"))
    own |= _repetition(values.get("repetition_detection"))
    own |= parameters.body
    own |= {
        "api": parameters.form,
        "pooling_task": values.get("task"),
        "uses_min_p": values.get("min_p", 0) > EPSILON and values.get("temperature") != 0,
        "has_seed": values.get("seed") is not None and values["seed"] != -1,
        "prompt_embeds": "prompt_embeds" in values,
        "trace_has_negative": min(values.get("trace_decode_token_ids") or [0]) < 0,
        "watermarking_requested": values.get("watermarking") is True,
        "unexpected": parameters.unexpected,
        "first_unexpected": parameters.unexpected[0] if parameters.unexpected else None,
        "left_out": parameters.left_out,
    }
    own |= {
        name: values[name] for name in ("detokenize", "ignore_eos", "echo", "stream", "watermarking") if name in values
    }
    if limits.vocab_size is not None:
        own |= {f"{name}_outside": _outside(values[name], limits.vocab_size) for name in TOKEN_LISTS if name in values}
    if parameters.form in {"chat", "completion"}:
        own["logit_bias_clamped"] = any(abs(bias) > MAX_BIAS for bias in values.get("logit_bias", {}).values())
    if own.get("max_tokens") is not None and "min_tokens" in own:
        own["min_tokens_over_max"] = own["min_tokens"] - own["max_tokens"]
    engine = {
        "max_logprobs": _resolved(limits.max_logprobs, limits),
        "vocab_size": limits.vocab_size,
        "max_num_sequences": limits.max_num_sequences,
        "max_num_bad_words": limits.max_num_bad_words,
        "too_many_bad_words": limits.max_num_bad_words + 1,
        "has_tokenizer": limits.has_tokenizer,
    }
    if "distinct_bad_words" in own:
        engine["bad_words_over_max"] = own["distinct_bad_words"] - limits.max_num_bad_words
    wanted = own.get("beam_width", own.get("n"))
    if wanted is not None:
        engine["n_over_max"] = wanted - limits.max_num_sequences
    return {
        **{f"request.{name}": value for name, value in own.items()},
        **{f"engine.{name}": value for name, value in engine.items()},
    }


def _resolved(number: int, limits: EngineLimits) -> int | None:
    """A number of log probabilities, where -1 means the vocabulary; ``None`` if that is not known."""
    return limits.vocab_size if number == -1 else number


def _log_probabilities(values: Mapping[str, Any], limits: EngineLimits) -> dict[str, Any]:
    found: dict[str, Any] = {}
    most = _resolved(limits.max_logprobs, limits)
    numbers = {
        name: int(values[name]) for name in ("logprobs", "prompt_logprobs") if values.get(name, False) is not False
    }
    if "beam_width" in values and not values.get("allowed_token_ids"):
        numbers["logprobs"] = 2 * values["beam_width"]  # the candidates of each step
    for name, number in numbers.items():
        found[name] = number
        resolved = _resolved(number, limits)
        found[f"num_{name}"] = WHOLE_VOCABULARY if resolved is None else str(resolved)
        if resolved is not None and most is not None:
            found[f"{name}_over_max"] = resolved - most
        elif resolved is None and limits.max_logprobs != -1:
            found[f"{name}_over_max"] = 1  # every vocabulary is larger than a maximum that somebody states
    if "logprobs" in found and "logprob_token_ids" in values:
        found["logprobs_over_token_ids"] = found["logprobs"] - len(values["logprob_token_ids"])
    ids = values.get("prompt_logprob_token_ids")
    if ids is not None:
        is_nested = bool(ids) and type(ids[0]) is list
        found["prompt_logprob_token_ids"] = max(map(len, ids)) if is_nested else len(ids)
        found["prompt_logprob_rows"] = len(ids) if is_nested else None
        if most is not None:
            found["prompt_logprob_token_ids_over_max"] = found["prompt_logprob_token_ids"] - most
        found["prompt_logprob_token_ids_repeat"] = not is_nested and len(set(ids)) < len(ids)
    return found


def _words(values: Mapping[str, Any]) -> dict[str, Any]:
    words = values.get("bad_words")
    if words is None:
        return {}
    different = dict.fromkeys(words)
    return {
        "bad_words": len(words),
        "distinct_bad_words": len(different),
        "bad_words_bytes": sum(len(word.encode("utf-8", "surrogatepass")) for word in different),
        "bad_words_have_empty": "" in different,
    }


def _stops(values: Mapping[str, Any], limits: EngineLimits) -> dict[str, Any]:
    found: dict[str, Any] = {}
    stop = values.get("stop")
    if stop is not None:
        strings = [stop] if type(stop) is str else stop
        found |= {"stop": len(strings), "stop_has_empty": "" in strings}
    ids = set(values.get("stop_token_ids", ()))
    # Every known model has an end token; which one matters only if it is among the stop tokens.
    found["all_stop_token_ids"] = len(ids) + 1 if limits.end_tokens is None else len(ids | limits.end_tokens)
    return found


def _structured(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {}

    def is_blank(name: str) -> bool:
        return type(value.get(name)) is str and not value[name].strip()

    regex = value.get("regex")
    return {
        "structured_outputs": sum(value.get(kind) is not None for kind in KINDS),
        "structured_outputs_depth": _depth(value.get("json")),
        "structured_choice_empty": value.get("choice") == [],
        "structured_grammar_empty": is_blank("grammar"),
        "structured_json_empty": is_blank("json"),
        "structured_json_object_false": value.get("json_object") is False,
        "structured_tag_empty": is_blank("structural_tag"),
        "structured_regex_has_nul": type(regex) is str and "\0" in regex,
    }


def _depth(schema: Any) -> int:
    """How deep objects and lists nest, up to ``MAX_DEPTH``; a text that is not JSON has none."""
    if type(schema) is str:
        if len(schema) > MAX_SCHEMA:
            return 0
        try:
            schema = json.loads(schema)
        except ValueError:
            return 0
        except RecursionError:
            return MAX_DEPTH
    depth, level = 0, [schema] if type(schema) in {dict, list} else []
    while level and depth < MAX_DEPTH:
        depth += 1
        children = (child for node in level for child in (node.values() if type(node) is dict else node))
        level = [child for child in children if type(child) in {dict, list}]
    return depth


def _repetition(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {}
    most, least, count = (
        value[name] if type(value.get(name)) is int else 0
        for name in ("max_pattern_size", "min_pattern_size", "min_count")
    )
    return {
        "repetition_detection": True,
        "repetition_pattern_invalid": most < 0 or least < 0 or least > most,
        "repetition_count_invalid": most > 0 and count < 2,  # noqa: PLR2004  # a repetition is two
    }


def _outside(ids: Iterable[Any], size: int) -> tuple[str, ...]:
    """The tokens outside a vocabulary of this size, at most ``MAX_SHOWN``; -1 pads nested rows."""
    found: list[str] = []
    for each in ids:
        row, least = (each, -1) if type(each) is list else ([int(each)], 0)
        found += [str(token) for token in row if not least <= token < size][: MAX_SHOWN - len(found)]
        if len(found) >= MAX_SHOWN:
            break
    return tuple(found)
