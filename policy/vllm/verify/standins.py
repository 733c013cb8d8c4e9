"""Stand-ins for vLLM in a release's decision: objects that hold facts, the platform and Triton, and a silent logger.

Owns the stand-ins, by the names under which vLLM's modules use them. ``extraction`` finds the release's own code.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(slots=True)
class Machine:
    """The environment of the decision: the platform (CUDA by default), Triton, plugins."""

    platform: dict[str, bool] = field(default_factory=dict)
    plugins: Sequence[str] = ()
    has_triton: bool = True


class Object:
    """A configuration object: facts by their names; ``member`` returns other attributes of its class in the release."""

    def __init__(self, path: str, members: Mapping[str, Any], member: Callable[[Object, str, str], Any]) -> None:
        self.__dict__.update(members)
        self.__dict__["_path"], self.__dict__["_member"] = path, member

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_member"](self, self.__dict__["_path"], name)


class _SilentLogger:
    """A logger that discards everything."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class _Variables:
    """``vllm.envs``: variables as the release reads them."""

    def __init__(self, variable: Callable[[str], Any]) -> None:
        self._variable = variable

    def __getattr__(self, name: str) -> Any:
        return self._variable(name)


class _PlatformStandIn:
    """``current_platform``: its methods return facts; the default is CUDA."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Callable[[], bool]:
        known = self._machine.platform
        match name:
            case "is_cuda":
                return lambda: not any(known.values())
            case "is_cuda_alike":
                return lambda: known.get("is_rocm", False) or not any(known.values())
        return lambda: known.get(name, False)


class _TritonFlag:
    """``HAS_TRITON``: whether the machine of the case has Triton."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __bool__(self) -> bool:
        return self._machine.has_triton


def _no_cache(*arguments: Any, **_: Any) -> Any:
    """A cache decorator that caches nothing, because the platform changes from case to case."""
    return arguments[0] if arguments and callable(arguments[0]) else lambda function: function


class _Functools:
    """``functools`` without its caches."""

    cache = staticmethod(_no_cache)
    lru_cache = staticmethod(_no_cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(functools, name)


def stand_ins(machine: Machine, variable: Callable[[str], Any]) -> dict[str, Any]:
    """The stand-ins by their names in vLLM's modules; ``variable`` reads an environment variable."""
    return {
        "envs": _Variables(variable),
        "logger": _SilentLogger(),
        "init_logger": lambda _: _SilentLogger(),
        "current_platform": _PlatformStandIn(machine),
        "HAS_TRITON": _TritonFlag(machine),
        "entry_points": lambda **query: machine.plugins if query == {"group": "vllm.logits_processors"} else (),
        "config": lambda *classes, **_: classes[0] if classes else lambda klass: klass,
        "cache": _no_cache,
        "lru_cache": _no_cache,
        "functools": _Functools(),
    }


DERIVED_ATTRIBUTES: Final[dict[str, Callable[[Object], Any]]] = {
    "model_config.architecture": lambda model: model.architectures[0] if model.architectures else None,
}
"""The attributes that the release's code cannot compute here, with functions that do.

A model is assumed to resolve to the first of its architectures.
"""
