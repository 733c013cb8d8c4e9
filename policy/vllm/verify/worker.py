"""The process that runs a release's decision: it reads facts, one document per line, and writes results.

Owns how facts become configuration objects, and what is read from the release. It is started by
``python -m policy.vllm.verify.worker SOURCE``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from policy.checks.sandbox import limit_process
from policy.facts.vocabulary import FACTS, FactKind
from policy.vllm.tablegen.wheels import (
    ArchiveSource,
    FolderSource,
    InvalidSource,
    ReleaseSource,
    SourceReader,
    WheelSource,
)
from policy.vllm.verify.extraction import PROPERTY, V1_LIST, V2_LIST, VARIABLE, Extraction, SourceNotFound
from policy.vllm.verify.standins import Object
from policy.vllm.verify.worker_choice import ENGINE_VARIABLE, WorkerChoice, decides_in_worker

MEMORY_LIMIT: Final = 1 << 30
"""Bytes of address space; a wheel of vLLM takes 50 MB."""
TIME_LIMIT: Final = 600
ENUMS: Final = {"compilation_config.mode": "CompilationMode", "compilation_config.cudagraph_mode": "CUDAGraphMode"}
LIST_PREFIX: Final = "support: "
REFUSALS: Final = (ValueError, AssertionError, NotImplementedError)
"""The exceptions by which vLLM's code refuses a configuration."""


def open_source(path: Path) -> ReleaseSource:
    """Open a wheel, a source archive, or the folder that contains ``vllm/``."""
    if path.is_dir():
        return FolderSource(path)
    return WheelSource(path) if path.suffix == ".whl" else ArchiveSource(path)


class Configurations:
    """Makes configuration objects from facts; their structure is prepared once."""

    def __init__(self, release: Extraction) -> None:
        self._release = release
        self._leaves: list[tuple[str, str, str, Any, Any]] = []
        self._objects: list[tuple[str, str, str, bool]] = []
        paths = set[str]()
        for name, fact in FACTS.items():
            above, _, last = name.rpartition(".")
            if name.startswith(("env.", "platform.", "plugins.")):
                continue
            paths |= {*_prefixes(above), *([name] if fact.kind is FactKind.PRESENCE else [])}
            if fact.kind is not FactKind.PRESENCE:
                made = (
                    release.enumeration(ENUMS[name]).__getitem__
                    if name in ENUMS
                    else _as_method
                    if release.is_method(above, last)
                    else None
                )
                self._leaves.append((name, above, last, fact.default, made))
        for path in sorted(paths, key=lambda path: -path.count(".")):
            above, _, last = path.rpartition(".")
            self._objects.append((path, above, last, path in FACTS))

    def make(self, facts: dict[str, Any]) -> Object:
        """The configuration with these facts, by flat names, and defaults for all others."""
        members: dict[str, dict[str, Any]] = {"": {}, **{path: {} for path, *_ in self._objects}}
        for name, above, last, default, make in self._leaves:
            value = facts.get(name, default)
            members[above][last] = value if make is None else make(value)
        for path, above, last, may_be_absent in self._objects:
            members[above][last] = (
                None if may_be_absent and not facts.get(path) else Object(path, members[path], self._release.member)
            )
        return Object("", members[""], self._release.member)


def _prefixes(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _as_method(value: Any) -> Any:
    return lambda: value


def evaluate(release: Extraction, configurations: Configurations, facts: dict[str, Any]) -> dict[str, Any]:
    """The release's decision on a configuration: the runner, lists, refusals, and checks that could not run."""
    for name in (VARIABLE, ENGINE_VARIABLE):
        variable = facts.get(f"env.{name}")
        os.environ.pop(name, None)
        if variable is not None:
            os.environ[name] = variable if isinstance(variable, str) else str(int(variable))
    if isinstance(release, WorkerChoice):
        return release.answer(configurations.make(facts))
    for name in ("is_rocm", "is_unspecified", "is_tpu", "is_out_of_tree"):
        release.machine.platform[name] = facts.get(f"platform.{name}", False)
    release.machine.has_triton = facts.get("platform.has_triton", True)
    release.machine.plugins = facts.get("plugins.logits_processors", [])
    try:
        requests_v2 = release.variable(VARIABLE)
    except ValueError as error:
        return {
            "runner": None,
            "startup_errors": [str(error)],
            "unsupported_features": [],
            "v1_unsupported_features": [],
        }
    try:
        runner = getattr(configurations.make(facts), PROPERTY) if release.has_property else bool(requests_v2)
    except ValueError as error:
        return {"runner": None, "startup_errors": [str(error)], **_lists(release, configurations.make(facts), [])}
    errors, beyond = [], []
    for name, guard in release.guards:
        try:
            guard(configurations.make(facts))
        except REFUSALS as error:
            errors.append(str(error))
        except AttributeError as error:
            beyond.append(f"{name}: {error}")
    return {
        "runner": "v2" if runner else "v1",
        "startup_errors": errors,
        "beyond": beyond,
        **_lists(release, configurations.make(facts), errors),
    }


def _lists(release: Extraction, config: Object, errors: list[str]) -> dict[str, list[str]]:
    if not release.has_property:
        return {"v1_unsupported_features": []} | (
            {"unsupported_features": errors[0].partition(LIST_PREFIX)[2].split(", ")}
            if errors and LIST_PREFIX in errors[0]
            else {}
        )
    lists = {"unsupported_features": getattr(config, V2_LIST)(), "v1_unsupported_features": []}
    return lists | ({"v1_unsupported_features": getattr(config, V1_LIST)()} if release.has_v1_list else {})


def _write(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _fault(error: Exception) -> dict[str, str]:
    if isinstance(error, MemoryError):
        return {"fault": f"it takes more than {MEMORY_LIMIT >> 30} GiB of memory"}
    known = isinstance(error, SourceNotFound | InvalidSource | OSError)
    return {"fault": str(error) if known else f"{type(error).__name__}: {error}"}


def main() -> None:
    """Write what was found in the source, then a result for each line of facts."""
    limit_process(MEMORY_LIMIT, TIME_LIMIT)
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        del os.environ[name]  # the user's own variables are not facts
    try:
        source = SourceReader(open_source(Path(sys.argv[1])))
        release = WorkerChoice(source) if decides_in_worker(source) else Extraction(source)
        configurations = Configurations(release)
        evaluate(release, configurations, {"model_config": True})
    except Exception as error:  # noqa: BLE001  # a broken source or its code may raise anything; it is reported to the caller
        _write(_fault(error))
        return
    texts, numbers = release.constants()
    _write(
        {
            "texts": sorted(texts),
            "numbers": sorted(numbers),
            "code": release.code(),
            "messages": release.messages,
            "reasons": release.reasons,
        }
    )
    for line in sys.stdin:
        try:
            _write(evaluate(release, configurations, json.loads(line)))
        except Exception as error:  # noqa: BLE001  # as above
            _write(_fault(error))


if __name__ == "__main__":
    main()
