"""The runtime of several nodes that KServe ships for its Hugging Face server (read at KServe 0.20, August 2026).

It starts the server by a bash script that does not quote the arguments and variables, so that bash splits them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.huggingface_server import TRANSFORMERS, server_words
from policy.intake.command.words import PLAIN_NAME

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft

NAME: Final = "kserve-huggingfaceserver-multinode"
SCRIPT: Final = (
    "python -m huggingfaceserver {} --tensor-parallel-size=${{TENSOR_PARALLEL_SIZE}} "
    "--pipeline-parallel-size=${{PIPELINE_PARALLEL_SIZE}} $0 $@"
)
"""What the runtime's script runs, with the folder of the model if a variable names one."""
FOLDER_VARIABLES: Final = ("MODEL_DIR", "MODEL_ID")
"""The variables that name the folder of the model; the first one that is set counts."""
HIDDEN_FOLDER: Final = (
    "a source of variables that the manifest does not show may set `MODEL_DIR` or `MODEL_ID`, by which KServe's "
    "runtime of several nodes chooses the model"
)
SIZES: Final = dict.fromkeys(("PIPELINE_PARALLEL_SIZE", "TENSOR_PARALLEL_SIZE"), "1")
"""The sizes of its workers, if the predictor states none."""


def runs_multinode(name: str | None, model_format: str, draft: EngineDraft, *, has_workers: bool) -> bool:
    """Whether a predictor without a runtime in the manifest runs this one, with parallel sizes.

    KServe sets the sizes only with workers. Without workers, the server refuses to start unless the predictor does.
    """
    if has_workers:
        return name == NAME or (name is None and model_format == "huggingface")
    return name == NAME and (draft.has_hidden_variables or not draft.env.keys().isdisjoint(SIZES))


def add_script(own: EngineDraft, draft: EngineDraft, place: str, *, has_folder: bool) -> bool:
    """Add the script before the words of a predictor; false if these select a backend other than vLLM.

    ``has_folder``: whether KServe sets the variable of the model's folder.
    """
    backend = server_words(draft.words, draft.places).backend
    if backend == TRANSFORMERS and all(map(_is_plain, draft.words)):
        return False
    named = (name for name in FOLDER_VARIABLES if name in draft.env and draft.env[name] != "")
    variable = FOLDER_VARIABLES[0] if has_folder else next(named, None)
    if variable != FOLDER_VARIABLES[0] and draft.has_hidden_variables:
        draft.doubt(HIDDEN_FOLDER)
        own.doubts.append(HIDDEN_FOLDER)
    folder = "" if variable is None else f"--model_dir=${{{variable}}}"
    own.add(place, "bash", "-c", SCRIPT.format(folder), "--model_name={{.Name}}")
    own.has_command = True
    return True


def _is_plain(word: str) -> bool:
    return PLAIN_NAME.fullmatch(word.replace("=", "-")) is not None
