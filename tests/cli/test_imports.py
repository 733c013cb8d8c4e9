"""What a command imports: a library that it does not use would slow its start."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

import pytest
from representatives import slow_rows_except

from policy.cli.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

LIST_LOADED: Final = """
import atexit, sys
atexit.register(lambda: print(*sorted(sys.modules), sep="\\n", file=sys.stderr))
from service.cli import main
main()
"""
SERVER: Final = ("fastapi", "starlette", "uvicorn", "uvloop", "prometheus_client", "opentelemetry", "service.settings")
LOG: Final = ("sqlalchemy", "alembic", "psycopg", "arro3")
NETWORK: Final = ("httpx", "httpx2", "urllib3", "huggingface_hub", "dulwich", "ssl")
PROOFS: Final = ("z3", "policy.proof", "policy.checks", "policy.vllm")
LIBRARIES: Final = ("durable_rules_engine", "msgspec", "yaml", "pydantic", "packaging")
MANIFESTS: Final = ("policy.intake.manifests.registry", "policy.intake.manifests.kserve")
SCRIPTS: Final = tuple(f"policy.intake.command.{name}" for name in ("launcher", "shell", "certain_scripts", "programs"))
DECIDING: Final = ("policy.policy", "policy.intake", "policy.rules", "policy.facts")
MODEL: Final = '{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}'
REQUEST: Final = f'{{"deployment": {{"args": ["serve", "a/b"], "model_configs": {{"a/b": {MODEL}}}}}}}'


UNUSED: Final = [
    (("--help",), (*SERVER, *LOG, *NETWORK, *PROOFS, *LIBRARIES, *DECIDING)),
    (("decide", "-"), (*SERVER, *LOG, *NETWORK, *PROOFS, *MANIFESTS, *SCRIPTS, "pydantic", "rich", "email")),
    (("rules", "check"), (*SERVER, *LOG, *NETWORK, "z3", "policy.proof.space", "policy.vllm")),
    (("rules", "--help"), (*SERVER, *LOG, *NETWORK, "z3", "policy.vllm")),
    (("token", "new", "argo", "--scope", "decide"), ("fastapi", *LOG, "z3", "policy.checks", "policy.vllm")),
]


@pytest.mark.parametrize(
    ("arguments", "unused"),
    slow_rows_except(
        UNUSED[:3],
        UNUSED,
    ),
    ids=lambda value: " ".join(value) if value[0] != "fastapi" else "",
)
def test_a_command_imports_no_unused_library(
    run: Callable[..., Done], arguments: tuple[str, ...], unused: tuple[str, ...]
) -> None:
    done = run("-c", LIST_LOADED, *arguments, program="python", stdin=REQUEST)
    loaded = set(done.err.splitlines())
    assert (done.code, {"service.cli", "typer"} - loaded) == (0, set())
    assert sorted(loaded.intersection(unused)) == []


def test_the_list_of_commands_needs_no_engine(run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "durable_rules_engine.py").write_text("raise ImportError\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = run("--help", PYTHONPATH=path)
    assert (done.code, done.err, "decide" in done.out) == (0, "", True)


def test_the_list_of_commands_has_the_first_line_of_each_help() -> None:
    import_module("service.cli.app")
    listed = {name: command.short_help for name, command in COMMANDS.items()}
    assert listed == {name: command.load().help.partition("\n")[0] for name, command in COMMANDS.items()}
