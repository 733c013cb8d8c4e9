"""Startup logs in vLLM's form, made of its texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MODEL: Final = "org/some-model"
V2_WORKER: Final = "Using V2 Model Runner"
V2_LOADS: Final = "Loading model from scratch..."
V1_LOADS: Final = f"Starting to load model {MODEL}..."
READY: Final = "init engine (profile, create kv cache, warmup model) took 3.10 s"
SERVING_LINE: Final = "Starting vLLM server on http://0.0.0.0:8000"
FAILED_LINE: Final = "EngineCore failed to start."


def record(text: str, file: str = "core.py", line: int = 1, *, level: str = "INFO", process: str = "") -> str:
    """A record as vLLM's formatter writes it."""
    return f"{f'({process}) ' if process else ''}{level} 11-22 01:02:03 [{file}:{line}] {text}"


def configuration(release: str, model: str = MODEL) -> str:
    return record(
        f"Initializing a V1 LLM engine (v{release}) with config: model='{model}', device_config=cuda, seed=0", "core.py"
    )


def version(release: str, model: str = MODEL) -> str:
    return record(f"vLLM server version {release}, serving model {model}", "utils.py")


def v2_start(release: str = "0.26.0") -> list[str]:
    """The log of a server on V2."""
    return [
        version(release),
        configuration(release),
        record(V2_WORKER, "gpu_worker.py"),
        record(V2_LOADS, "model_runner.py"),
        record(READY),
        record(SERVING_LINE, "api_server.py"),
    ]


def v1_start(release: str = "0.26.0") -> list[str]:
    """The log of a server on V1."""
    return [
        version(release),
        configuration(release),
        record(V1_LOADS, "gpu_model_runner.py"),
        record(READY),
        record(SERVING_LINE, "api_server.py"),
    ]


def traceback(exception: str, *, prefix: str = "", steps: Iterable[str] = ()) -> list[str]:
    """A traceback, each line with a prefix."""
    lines = ["Traceback (most recent call last):", '  File "/x/vllm/other.py", line 1, in start', "    start()"]
    return [f"{prefix}{line}" for line in (*lines, *steps, *exception.split("\n"))]


def refusal(text: str) -> list[str]:
    """The text of a refusal by the configuration, as pydantic formats it."""
    return traceback(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        f"  Value error, {text} [type=value_error, input_value=ArgsKwargs((), {{'model': 1}}), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.13/v/value_error"
    )


def engine_failure(exception: str) -> list[str]:
    """What the engine's process and the server print if the engine fails to start."""
    prefix = "ERROR 11-22 01:02:03 [core.py:9] "
    return [
        record(FAILED_LINE, "core.py", 9, level="ERROR"),
        *traceback(exception, prefix=prefix),
        *traceback(exception, prefix="(EngineCore pid=7) "),
        *traceback("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
    ]


def text_of(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
