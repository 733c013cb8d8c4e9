"""Code from outside vLLM that a flag or a variable makes it load, and that may choose the runner or the configuration.

Follows `WorkerWrapperBase.init_worker`, `Executor.get_class`, `SchedulerConfig.get_scheduler_cls`,
`ModelConfig.registry`, `get_config_parser` and `load_plugins_by_group`. Such code is not run here, so each is a doubt.
Not here: logits processors and connectors, which are facts, and code of the API server, which chooses neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.masking import masked
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.intake.command_line import ParsedOptions

OWN_PACKAGE: Final = "vllm."
EXECUTORS: Final = "distributed_executor_backend"
OVERRIDES: Final = "model_class_overrides"
CODE_OPTIONS: Final[Mapping[str, tuple[str, str, frozenset[str]]]] = {
    "worker_cls": ("--worker-cls", "the worker, which creates the model runner", frozenset({"", "auto"})),
    "worker_extension_cls": (
        "--worker-extension-cls",
        "part of the worker, which creates the model runner",
        frozenset({""}),
    ),
    "scheduler_cls": ("--scheduler-cls", "the scheduler of the model runner", frozenset({""})),
    EXECUTORS: (
        "--distributed-executor-backend",
        "the executor, which creates the workers and their model runners",
        frozenset({"external_launcher", "mp", "ray", "uni"}),
    ),
    OVERRIDES: ("--model-class-overrides", "the model's class", frozenset()),
    "config_format": (
        "--config-format",
        "what reads the model's configuration",
        frozenset({"auto", "hf", "mistral"}),
    ),
}
"""The options that name code: the flag, what the code becomes, and the names besides `vllm.…` that are vLLM's own."""
OPTION_NAMES: Final = frozenset(CODE_OPTIONS)
PLUGINS: Final = "VLLM_PLUGINS"
OWN_PLUGINS: Final = frozenset({"", "lora_filesystem_resolver", "lora_hf_hub_resolver"})
"""The plug-ins in vLLM's own package; the value `""` names none."""
NOT_RUN: Final = "that code is not run here, and may choose another runner or change the configuration"


def loaded_code(
    options: ParsedOptions,
    variables: Mapping[str, str | None],
    env: Mapping[str, str],
    set_by_command: Mapping[str, Any],
) -> list[str]:
    """A doubt for each flag and variable that makes vLLM load code from outside it.

    ``env`` has the ``variables`` with known values. A variable that the command clears or sets to an unknown value is
    reported where the command is read.
    """
    found: list[str] = []
    # most deployments have no such option: looking up each one takes 3 % of the time to derive a deployment's facts
    if not (OPTION_NAMES.isdisjoint(options.values) and OPTION_NAMES.isdisjoint(options.others)):
        found += _of_options(options)
    if PLUGINS in variables:
        found += _of_plugins(env, set_by_command)
    return found


def _of_options(options: ParsedOptions) -> Iterator[str]:
    for name, (flag, role, own) in CODE_OPTIONS.items():
        if name in options.unknown_options:
            unknown = options.unknown_options[name]
            yield (
                f"`{flag}` is set to {quoted(unknown.text)} ({unknown.place}), whose value is not known; it may load "
                f"code from outside vLLM as {role}; {NOT_RUN}"
            )
            continue
        value, place = options.others.get(name, (options.values.get(name), options.place(name)))
        named = value.values() if isinstance(value, dict) else [value]
        foreign = next((each for each in named if isinstance(each, str) and _is_foreign(each, own)), None)
        if foreign is not None:
            yield f"`{flag}` ({place}) loads {quoted(foreign)} from outside vLLM as {role}; {NOT_RUN}"


def _is_foreign(name: str, own: frozenset[str]) -> bool:
    return name not in own and not name.startswith(OWN_PACKAGE)


def _of_plugins(env: Mapping[str, str], set_by_command: Mapping[str, Any]) -> Iterator[str]:
    if PLUGINS in env:
        text = env[PLUGINS]
        foreign = next((each for each in text.split(",") if each not in OWN_PLUGINS), None)
        if foreign is not None:
            shown = quoted(foreign if masked(text) == text else text)  # a secret's name may be in another part
            yield f"`{PLUGINS}` loads the plug-in {shown} from outside vLLM; {NOT_RUN}"
    elif PLUGINS not in set_by_command:
        yield f"the value of `{PLUGINS}` is not known; it may load a plug-in from outside vLLM; {NOT_RUN}"
