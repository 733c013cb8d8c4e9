"""The arguments of KServe's Hugging Face server as those of vLLM, which it runs in its process (read at KServe 0.20).

It has flags of its own, passes vLLM's on, and ignores any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.flags import dashed, is_flag_of_any_release
from policy.intake.command.words import Unknown
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_PATH: Final = "/mnt/models"
"""The folder of the model, unless an argument names another model."""
OWN_FLAGS: Final = frozenset(
    {"--model_name", "--model_dir", "--model_id", "--backend", "--task", "--http_port", "--predictor_host", "--workers"}
)
VLLM: Final = "vllm"
TRANSFORMERS: Final = "huggingface"
NOT_SURE: Final = (
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
    """Convert the server's arguments."""
    found = ServerWords([], [], {}, [])
    waiting, is_ignored = "", False
    for place, word in zip(places, words, strict=True):
        flag, equals, value = word.partition("=")
        if waiting:
            found.own[waiting], waiting = (place, word), ""
        elif is_ignored and not word.startswith("-"):
            continue
        elif " " in flag and flag.startswith("-"):
            found.notes.append(
                f"{place}: KServe's Hugging Face server ignores {quoted(word)}, which is one argument; write the flag "
                "and its value as two"
            )
        elif flag in OWN_FLAGS:
            found.own[flag] = place, Unknown(value) if type(word) is Unknown else value
            waiting, is_ignored = "" if equals else flag, False
        elif flag.startswith("--") and not is_flag_of_any_release(dashed(flag.partition(".")[0])):
            is_ignored = not equals
            found.notes.append(f"{place}: KServe's Hugging Face server ignores {quoted(flag)}, which it does not know")
        else:
            is_ignored = False
            found.words.append(word)
            found.places.append(place)
    return found
