"""The effect of the programs before vLLM on its environment: they keep it, clear it, or may change it.

Not here: `env` and shells, whose options are parsed (`env_options`, `shell_options`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Effect(Enum):
    """The effect of a program on the variables of the program that it starts."""

    KEEPS = "keeps"
    CLEARS = "clears"
    MAY_CHANGE = "may change"


class Starter(Struct, frozen=True, gc=False):
    """A program that starts another one, with its effect on the variables.

    If it keeps them, it may still change them with one of its ``options``, or if one of ``variables`` is set.
    """

    effect: Effect = Effect.KEEPS
    options: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


KEEPS: Final = Starter()
MAY_CHANGE: Final = Starter(Effect.MAY_CHANGE)
UV: Final = Starter(options=("--env-file",), variables=("UV_ENV_FILE",))
STARTERS: Final[Mapping[str, Starter]] = {
    **dict.fromkeys(("exec", "nohup", "nice", "ionice", "tini", "dumb-init", "catatonit", "numactl"), KEEPS),
    **dict.fromkeys(("taskset", "timeout", "stdbuf", "setsid", "gosu", "su-exec", "command", "builtin"), KEEPS),
    **dict.fromkeys(("chrt", "time", "catchsegv", "prlimit", "busybox", "toybox", "ncu", "rocprofv3"), KEEPS),
    **dict.fromkeys(("accelerate", "torchrun", "opentelemetry-instrument", "ddtrace-run", "poetry", "pipx"), KEEPS),
    # sudo's policy resets variables. The others activate an environment with its own variables, or start programs on
    # other machines.
    **dict.fromkeys(("sudo", "conda", "mamba", "micromamba", "pixi", "mpirun"), MAY_CHANGE),
    "uv": UV,
    "uvx": UV,
    "nsys": Starter(options=("-e", "-n", "--env-var", "--inherit-environment")),
}
"""The programs that start the program in their arguments, except shells, Python, `env`, `eval` and `xargs`."""

UNPARSED_STARTERS: Final = frozenset(
    {
        *("su", "runuser", "doas", "chroot", "unshare", "nsenter", "systemd-run", "start-stop-daemon", "strace"),
        *("ltrace", "chpst", "envdir", "s6-envdir", "with-contenv", "pipenv", "dotenv", "dotenvx", "doppler", "srun"),
        *("mpiexec", "setpriv", "bwrap", "firejail"),
    }
)
"""Programs that may change the environment, and whose arguments are not parsed."""


def effect_of(
    program: str, arguments: Sequence[str], env: Mapping[str, str | None], own: Mapping[str, str | None]
) -> Effect:
    """The effect of a program on the environment; ``arguments`` are those before the program that it starts.

    The variables in ``own`` take precedence over those in ``env``.
    """
    if any(word.rpartition("/")[2] in UNPARSED_STARTERS for word in arguments):
        return Effect.MAY_CHANGE
    if program == "exec":
        return Effect.CLEARS if "c" in exec_letters(arguments) else Effect.KEEPS
    starter = STARTERS.get(program, KEEPS)
    if any(own.get(name, env.get(name, "")) != "" for name in starter.variables):
        return Effect.MAY_CHANGE
    if any(_is_option(word, option) for word in arguments for option in starter.options):
        return Effect.MAY_CHANGE
    return starter.effect


def exec_letters(arguments: Sequence[str]) -> str:
    """The single-letter options of `exec`, including combined ones: `-cl`, `-ca NAME`."""
    letters, at = "", 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        flags, name, attached = arguments[at][1:].partition("a")
        letters += flags
        at += 2 if name and not attached else 1
    return letters


def _is_option(word: str, option: str) -> bool:
    """Whether a word is the option, possibly abbreviated or with an attached value."""
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > len("--") and option.startswith(name)
    return word.startswith(option)
