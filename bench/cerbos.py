"""Cerbos, a policy server in Go, with the conditions of one release as a resource policy.

Owns its installation from npm, its policy and configuration, and its requests: the facts of the same documents as
attributes of a resource, answered with the rules that fire. It runs on one core, like the service's one worker, without
audit log and telemetry.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from bench.dialects import cel, conditions, plain
from bench.servers import HOST, Server, ServerFailed, free_port, running
from policy.facts.vocabulary import VARIABLE, parse_variable
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.rules.release_rule import ReleaseRule

PACKAGE: Final = "cerbos@0.51.0"
CACHE: Final = Path(__file__).resolve().parent / ".cache" / "cerbos"
INSTALL_LIMIT: Final = 300.0
PATH: Final = "/api/check/resources"
KIND: Final = "deployment"
ACTION: Final = "decide"


class CerbosMissing(Exception):
    """Cerbos cannot be measured here; the message says why."""


def install() -> Path:
    """The server's executable, installed into ``bench/.cache`` on first use.

    Raises:
        CerbosMissing: npm is missing, or did not install it.
    """
    found = _executable()
    if found is not None:
        return found
    npm = shutil.which("npm")
    if npm is None:
        raise CerbosMissing("npm is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [
        npm,
        "install",
        "--prefix",
        str(CACHE),
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        PACKAGE,
    ]
    try:
        done = subprocess.run(command, cwd=CACHE, capture_output=True, timeout=INSTALL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CerbosMissing(f"npm did not install it: {error}") from error
    found = _executable()
    if found is None:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            "it has no executable for this platform"
        ]
        raise CerbosMissing(f"npm did not install it: {last[0]}")
    return found


@contextmanager
def serving(executable: Path, rules: Sequence[ReleaseRule], release: str) -> Iterator[Server]:
    """Cerbos with a release's conditions as its policy, on one core.

    Raises:
        CerbosMissing: it does not start.
    """
    with TemporaryDirectory(prefix="bench-cerbos-") as folder:
        policies = Path(folder) / "policies"
        policies.mkdir()
        (policies / "deployment.json").write_bytes(json.encode(policy(rules, release)))
        port = free_port()
        config = Path(folder) / "config.json"
        config.write_bytes(json.encode(_config(port, policies)))
        command = [str(executable), "server", f"--config={config}", "--log-level=error"]
        try:
            with running(command, port, "/_cerbos/health", {"GOMAXPROCS": "1", "CERBOS_NO_TELEMETRY": "1"}) as server:
                yield server
        except ServerFailed as error:
            raise CerbosMissing(str(error)) from error


def policy(rules: Sequence[ReleaseRule], release: str) -> dict[str, Any]:
    """A resource policy with a rule for each condition of a release.

    A rule that fires puts its number into the answer.
    """
    dialect = cel(series(release))
    return {
        "apiVersion": "api.cerbos.dev/v1",
        "resourcePolicy": {
            "resource": KIND,
            "version": "default",
            "rules": [
                {
                    "name": f"rule-{index}",
                    "actions": [ACTION],
                    "effect": "EFFECT_ALLOW",
                    "roles": ["*"],
                    "condition": {"match": {"expr": dialect.translate(condition)}},
                    "output": {"when": {"ruleActivated": str(number)}},
                }
                for index, (number, condition) in enumerate(conditions(rules))
            ],
        },
    }


def request(document: dict[str, Any]) -> bytes:
    """The request for a document: its facts as attributes, with the variable's text parsed."""
    facts = document["facts"]
    name = VARIABLE.partition(".")[2]
    if "env" in facts:
        facts = {**facts, "env": {name: plain(parse_variable(facts["env"][name]))}}
    resource = {"kind": KIND, "id": document["request_id"], "attr": facts}
    return json.encode(
        {
            "principal": {"id": "controller", "roles": ["controller"]},
            "resources": [{"actions": [ACTION], "resource": resource}],
        }
    )


def fired(answer: bytes) -> list[int]:
    """The numbers of the rules that fired, in order."""
    outputs = json.decode(answer)["results"][0].get("outputs", ())
    return sorted((int(output["val"]) for output in outputs), key=lambda number: (max(number, ~number), number < 0))


def _executable() -> Path | None:
    return next((path for path in sorted(CACHE.glob("node_modules/@cerbos/cerbos-*/cerbos-*")) if path.is_file()), None)


def _config(port: int, policies: Path) -> dict[str, Any]:
    return {
        "server": {"httpListenAddr": f"{HOST}:{port}", "grpcListenAddr": f"{HOST}:{free_port()}"},
        "storage": {"driver": "disk", "disk": {"directory": str(policies), "watchForChanges": False}},
        "audit": {"enabled": False},
        "telemetry": {"disabled": True},
    }
