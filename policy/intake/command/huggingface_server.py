"""Convert the arguments of KServe's Hugging Face server to those of vLLM (read at KServe 0.20).

The server runs vLLM in its process. It has its own flags, passes vLLM's on, and ignores any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.flags import LEVEL_OPTION, NEGATIVE_NUMBER, flag_of_any_release
from policy.intake.command.words import Unknown
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_PATH: Final = "/mnt/models"
"""The folder of the model, unless an argument names another model."""
OWN_FLAGS: Final = frozenset(
    {
        *("--model_name", "--model_dir", "--model_id", "--backend", "--task", "--max_log_len", "--tensor_input_names"),
        *("--http_port", "--grpc_port", "--workers", "--max_threads", "--max_asyncio_workers", "--enable_grpc"),
        *("--enable_docs_url", "--enable_latency_logging", "--configure_logging", "--log_config_file"),
        *("--access_log_format", "--event-loop", "--timeout-keep-alive", "--predictor_host", "--protocol"),
        *("--predictor_protocol", "--predictor_use_ssl", "--predictor_request_timeout_seconds"),
        *("--predictor_request_retries", "--enable_predictor_health_check"),
        *("--grpc_max_send_message_length", "--grpc_max_receive_message_length"),
        *("--model", "--config"),
    }
)
"""The server's own flags with a value, and those of vLLM that have no effect in it."""
OWN_SWITCHES: Final = frozenset(
    {
        *("--disable_lower_case", "--disable_special_tokens", "--return_token_type_ids", "--return_offsets_mapping"),
        *("--return_probabilities", "--return_raw_logits", "--disable_log_requests"),
    }
)
"""The same for flags without a value."""
VLLM_FLAGS: Final = {
    "--max_length": "--max-model-len",
    "--max_model_len": "--max-model-len",
    "--model_revision": "--revision",
    "--tokenizer_revision": "--tokenizer-revision",
    "--trust_remote_code": "--trust-remote-code",
}
"""The server's own flags that set an option of vLLM. It takes no other name with underscores, nor dotted options."""
PARSER_FLAGS: Final = (OWN_FLAGS | OWN_SWITCHES | VLLM_FLAGS.keys()) - {
    "--model",
    "--config",
    "--max_log_len",
    "--task",
}
"""The flags of the server's parser when it runs vLLM; it has `--max_log_len` and `--task` only without vLLM."""
END_OF_OPTIONS: Final = "--"
IGNORED_FLAGS: Final = {
    "--model": "its own `--model_id` names the model",
    "--config": "it reads no file of options; write them as arguments",
}
VLLM: Final = "vllm"
ANY_NUMBER: Final = 1_000_000
"""The number of values of a flag that takes any number of them."""
TRANSFORMERS: Final = "huggingface"
SERVER_PLACE: Final = "added by KServe's Hugging Face server"
UNCERTAIN_BACKEND: Final = (
    "KServe's Hugging Face server uses vLLM only for models that vLLM supports; set `--backend=vllm` to be sure"
)


class ServerWords(Struct, frozen=True):
    """vLLM's words with their places, the values of the server's own flags with theirs, and notes on ignored words."""

    words: list[str]
    places: list[str]
    own: dict[str, tuple[str, str]]
    notes: list[str]

    @property
    def backend(self) -> str:
        """What runs the model: `vllm`, `huggingface`, or `auto`, which is vLLM for the models that it supports."""
        return self.own.get("--backend", ("", "auto"))[1]


def server_words(words: Sequence[str], places: Sequence[str]) -> ServerWords:
    """Convert the server's arguments, which it parses by argparse alone, without what vLLM's own parser adds.

    A word that no flag takes is ignored, as are unknown flags, and flags after `--`.
    """
    found = ServerWords([], [], {}, [])
    waiting, room, is_known, is_ended = "", 0, True, False
    for place, word in zip(places, words, strict=True):
        flag, equals, value = word.partition("=")
        flag = _full(flag)
        if word == END_OF_OPTIONS and not is_ended:
            is_ended = True
            if room:
                found.words.append(word)
                found.places.append(place)
            continue
        if is_ended or not word.startswith("-") or NEGATIVE_NUMBER.fullmatch(word) is not None:
            if waiting:
                found.own[waiting] = place, word
            elif room or type(word) is Unknown:
                found.words.append(word)
                found.places.append(place)
            elif is_known:
                found.notes.append(f"{place}: KServe's Hugging Face server ignores {quoted(word)}, which no flag takes")
            waiting, room = "", max(room - 1, 0)
            continue
        waiting, room, is_known = "", 0, True
        if " " in flag:
            found.notes.append(
                f"{place}: KServe's Hugging Face server ignores {quoted(word)}, which is one argument; write the flag "
                "and its value as two"
            )
        elif flag in OWN_FLAGS:
            found.own[flag] = place, Unknown(value) if type(word) is Unknown else value
            waiting = "" if equals else flag
            if flag in IGNORED_FLAGS:
                found.notes.append(f"{place}: KServe's Hugging Face server ignores `{flag}`: {IGNORED_FLAGS[flag]}")
        elif flag in OWN_SWITCHES:
            continue
        elif (values := _values_of(named := VLLM_FLAGS.get(flag, flag))) is not None:
            found.words.append(word if named == flag else _renamed(word, named))
            found.places.append(place)
            room = 0 if equals else values
        else:
            is_known = bool(equals)
            found.notes.append(f"{place}: KServe's Hugging Face server ignores {quoted(flag)}, which it does not know")
    return found


def size_flags(gpus: int) -> list[str]:
    """VLLM's words for the tensor parallel size that the server sets after its arguments: the number of its GPUs."""
    return ["--tensor-parallel-size", str(gpus)]


def _full(flag: str) -> str:
    """The server's own flag that a flag abbreviates, if it is the only one and none of vLLM's; else as it is."""
    if (
        flag in OWN_FLAGS
        or flag in PARSER_FLAGS
        or not flag[2:]
        or not flag.startswith(END_OF_OPTIONS)
        or _values_of(flag) is not None
    ):
        return flag
    found = [name for name in PARSER_FLAGS if name.startswith(flag)]
    return found[0] if len(found) == 1 else flag


def _values_of(flag: str) -> int | None:
    """How many values a flag of vLLM takes at most in any release; None if no release has it, as it is spelled here.

    Only vLLM's own parser reads `-O3`: it makes `--optimization-level` of it.
    """
    if flag.startswith(LEVEL_OPTION) or (flag.startswith("--") and ("_" in flag or "." in flag)):
        return None
    found = flag_of_any_release(flag)
    if found is None:
        return None
    if found.constant is not None:
        return 0
    return ANY_NUMBER if found.nargs == "+" else found.nargs if isinstance(found.nargs, int) else 1


def _renamed(word: str, flag: str) -> str:
    """A word with another flag."""
    text = f"{flag}{word[len(word.partition('=')[0]) :]}"
    return Unknown(text) if type(word) is Unknown else text
