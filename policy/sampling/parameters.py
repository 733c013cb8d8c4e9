"""A request's document → its parameters, by vLLM's names, checked and bounded.

Owns the forms of a request (``SamplingParams`` and its like, or the body of an OpenAI-style call), the types of their
fields, and what OpenAI's fields mean in vLLM's words. ``request_facts`` makes facts of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.facts.request_vocabulary import TASKS
from policy.facts.vocabulary import MAX_NUMBER, NUMBERS
from policy.messages import listed, nearest, quoted
from policy.pointer import at
from policy.sampling.fields import fields_in, known_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_DIGITS: Final = len(str(MAX_NUMBER))
"""The most digits of a token id that is a key."""
MAX_IDS: Final = 1 << 20
"""The most items of a list in a request."""
CLASSES: Final = ("sampling_params", "beam_search_params", "pooling_params")
"""The forms that are classes of vLLM, which refuse what they do not have; servers leave it out."""
FORMER_PARAMETERS: Final = frozenset(
    {"best_of", "early_stopping", "guided_decoding", "logits_processors", "truncate_prompt_tokens", "use_beam_search"}
)
"""The parameters of releases that are older than those in the table."""
NOT_FOR_BEAM_SEARCH: Final = known_fields("sampling_params") - {"n", "output_kind"}
"""Parameters of sampling, which a beam search may not have."""
POOLING_MARKS: Final = ("input", "queries", "query", "text_1", "data_1", "data")
EXAMPLE: Final = '`{"allowed_token_ids": [1, 2], "temperature": 0.7}`'


class Parameters(Struct, frozen=True):
    """A request's parameters by the names of ``SamplingParams``; OpenAI's own fields are mapped.

    ``form`` is one of ``request_vocabulary.APIS``. ``body`` has facts about a body that vLLM's server checks before it
    converts the body to parameters.
    """

    form: str
    values: dict[str, Any]
    unexpected: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    body: dict[str, Any] = {}


def read_parameters(document: object, release: str, pointer: str) -> Parameters:
    """The parameters of a request's document; fields that are ``null`` count as not given.

    Raises:
        RequestInvalid: with every fault.
    """
    if type(document) is not dict:
        message = f"expected an object such as {EXAMPLE}, or the body of a request, got {quoted(document)}"
        raise RequestInvalid([RequestFault(pointer, message)])
    form, document = _form_of(document), dict(document)
    extra = document.pop("extra_body", None) if form not in CLASSES else None
    faults: list[RequestFault] = []
    if extra is not None:
        if type(extra) is dict:
            document = {**document, **extra}  # as OpenAI's client merges it
        else:
            faults.append(RequestFault(at(pointer, "extra_body"), f"expected an object, got {quoted(extra)}"))
    known, has = known_fields(form), fields_in(form, release)
    others = FORMER_PARAMETERS | frozenset(
        name for each in (*CLASSES, "chat", "completion") for name in known_fields(each)
    )
    absent = [name for name in document if name not in has]
    unexpected: list[str] = []
    for name in absent:
        if form not in CLASSES or name in known or name in others:
            unexpected.append(name)
        elif len(faults) < MAX_FAULTS:
            legal = sorted(known)
            message = f"unknown parameter {quoted(name)}{nearest(name, legal)}; legal: {listed(legal)}"
            faults.append(RequestFault(at(pointer, name), message))
    values = {}
    for name, value in document.items():
        check = CHECKS.get(name)
        if value is None or name not in has or check is None:
            continue
        problem = check(value)
        if problem:
            faults.append(RequestFault(at(pointer, name), f"expected {problem}, got {quoted(value)}"))
        else:
            values[name] = value
    if faults:
        raise RequestInvalid(faults)
    if form in CLASSES:
        if form == "sampling_params" and "max_tokens" not in document:
            values["max_tokens"] = 16
        return Parameters(form, values, tuple(unexpected))
    body = _body_facts(form, values, document)
    values = _from_openai(form, values, document)
    if "beam_width" in values:
        # The server makes BeamSearchParams of the body, and leaves out what those do not have.
        taken = fields_in("beam_search_params", release)
        unexpected += [
            name for name in values if name not in taken and name in NOT_FOR_BEAM_SEARCH and name in document
        ]
        values = {name: value for name, value in values.items() if name in taken}
    return Parameters(form, values, (), tuple(sorted(unexpected)), body)


def _form_of(document: Mapping[str, Any]) -> str:
    """The form of a request, by the fields that only one form has."""
    if "beam_width" in document:
        return "beam_search_params"
    if any(name in document for name in POOLING_MARKS):
        return "pooling"
    if "messages" in document:
        return "chat"
    if "prompt" in document or "prompt_embeds" in document:
        return "completion"
    if not known_fields("pooling_params").isdisjoint(document) and known_fields("sampling_params").isdisjoint(document):
        return "pooling_params"
    if "model" in document:
        return "chat"
    return "sampling_params"


def _body_facts(form: str, values: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The facts about the body of a chat or a completion that vLLM's server checks."""
    logprobs = values.get("logprobs")
    found = {
        "top_logprobs": values.get("top_logprobs"),
        "body_logprobs": int(logprobs) if form == "completion" and logprobs is not None else None,
        "body_prompt_logprobs": int(values["prompt_logprobs"]) if "prompt_logprobs" in values else None,
        "logprob_token_ids": len(values["logprob_token_ids"]) if "logprob_token_ids" in values else None,
        "echo": values.get("echo") is True,
        "stream": values.get("stream") is True,
        "has_logprobs": logprobs is True or (form == "completion" and logprobs is not None),
        "use_beam_search": values.get("use_beam_search") is True,
        "echo_without_generation": values.get("echo") is True and values.get("max_tokens") == 0,
        "stream_options_without_stream": bool(document.get("stream_options")) and values.get("stream") is not True,
    }
    return {name: value for name, value in found.items() if value is not None}


def _from_openai(form: str, values: dict[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that vLLM's server derives from a body."""
    for name in FLOATS:
        if name in values:
            values[name] = float(values[name])
    if form == "chat":
        top = values.pop("top_logprobs", None)
        wanted = values.pop("logprobs", None)
        values |= {"logprobs": top if top is not None else 0} if wanted is True else {}
        values.pop("max_tokens", None) if document.get("max_completion_tokens") is not None else None
        if "max_completion_tokens" in values:
            values["max_tokens"] = values.pop("max_completion_tokens")
        if values.get("echo") is True and "prompt_logprobs" not in values and top is not None:
            values["prompt_logprobs"] = top
    elif form == "completion":
        values.setdefault("max_tokens", 16)
        if values.get("echo") is True:
            if "prompt_logprobs" not in values and "logprobs" in values:
                values["prompt_logprobs"] = values["logprobs"]
            if values["max_tokens"] == 0:
                values["max_tokens"] = 1
    if values.get("logprob_token_ids"):
        values.pop("logprobs", None)  # the server asks for these tokens instead
    if values.pop("use_beam_search", None) is True:
        values["beam_width"] = values.get("n", 1)
    constraint = _response_format(document.get("response_format"))
    if constraint:
        values["structured_outputs"] = {**values.get("structured_outputs", {}), **constraint}
    return values


def _response_format(value: Any) -> dict[str, Any]:
    """The constraint that a ``response_format`` asks for."""
    kind = value.get("type") if type(value) is dict else None
    if kind == "json_object":
        return {"json_object": True}
    if kind == "json_schema":
        schema = value.get("json_schema")
        return {"json": schema.get("schema") if type(schema) is dict else schema}
    return {"structural_tag": value} if kind == "structural_tag" else {}


def _is_legal(value: float) -> bool:
    return -MAX_NUMBER < value < MAX_NUMBER


def _whole(value: object) -> str:
    if type(value) is not int:
        return "a whole number"
    return "" if _is_legal(value) else f"a whole number {NUMBERS}"


def _number(value: object) -> str:
    if type(value) is not int and type(value) is not float:
        return "a number"
    return "" if _is_legal(value) else f"a number {NUMBERS}"


def _flag(value: object) -> str:
    return "" if type(value) is bool else "`true` or `false`"


def _log_probabilities(value: object) -> str:
    return "" if type(value) is bool else _whole(value)


def _ids(value: object) -> str:
    if type(value) is not list or any(type(each) is not int for each in value):
        return "a list of whole numbers"
    if len(value) > MAX_IDS:
        return f"a list of at most {MAX_IDS} whole numbers"
    return "" if all(map(_is_legal, value)) else f"a list of whole numbers {NUMBERS}"


def _rows(value: object) -> str:
    if type(value) is not list or not value or any(type(row) is not list for row in value):
        return _ids(value)
    if len(value) > MAX_IDS or sum(map(len, value)) > MAX_IDS:
        return f"at most {MAX_IDS} lists of whole numbers, with at most {MAX_IDS} of these"
    fault = next(filter(None, map(_ids, value)), "")
    return fault and fault.replace("a list", "lists")


def _words(value: object) -> str:
    if type(value) is not list or any(type(word) is not str for word in value):
        return "a list of strings"
    return "" if len(value) <= MAX_IDS else f"a list of at most {MAX_IDS} strings"


def _stop(value: object) -> str:
    if type(value) is str:
        return ""
    return _words(value).replace("a list", "a string or a list")


def _biases(value: object) -> str:
    if type(value) is not dict or not all(map(_is_id, value)) or any(map(_is_no_number, value.values())):
        return "an object of numbers by token id"
    if len(value) > MAX_IDS:
        return f"an object of numbers by at most {MAX_IDS} token ids"
    is_legal = all(map(_is_legal, value.values())) and all(len(str(token).strip("- ")) <= MAX_DIGITS for token in value)
    return "" if is_legal else f"an object of numbers {NUMBERS} by token id, which has at most {MAX_DIGITS} digits"


def _is_no_number(value: object) -> bool:
    return type(value) is not int and type(value) is not float


def _is_id(token: object) -> bool:
    text = str(token).strip().removeprefix("-")
    return text.isdecimal() and text.isascii()


def _object(value: object) -> str:
    return "" if type(value) is dict else "an object"


def _task(value: object) -> str:
    return "" if type(value) is str and value in TASKS else f"one of {listed(TASKS)}"


def _any(_: object) -> str:
    return ""


FLOATS: Final = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
CHECKS: Final[dict[str, Callable[[Any], str]]] = {
    **dict.fromkeys(FLOATS, _number),
    **dict.fromkeys(
        (
            *(
                "n",
                "top_k",
                "max_tokens",
                "max_completion_tokens",
                "min_tokens",
                "top_logprobs",
                "prompt_logprob_start",
            ),
            *("thinking_token_budget", "stream_interval", "beam_width", "dimensions", "seed"),
        ),
        _whole,
    ),
    **dict.fromkeys(("logprobs", "prompt_logprobs"), _log_probabilities),
    **dict.fromkeys(("stop_token_ids", "allowed_token_ids", "logprob_token_ids", "trace_decode_token_ids"), _ids),
    "prompt_logprob_token_ids": _rows,
    "bad_words": _words,
    "stop": _stop,
    "logit_bias": _biases,
    **dict.fromkeys(("ignore_eos", "detokenize", "echo", "stream", "use_beam_search", "watermarking"), _flag),
    **dict.fromkeys(("structured_outputs", "repetition_detection", "extra_args"), _object),
    "task": _task,
    "prompt_embeds": _any,
}
"""What is wrong with the value of a field, empty if nothing is; other fields are not read."""
