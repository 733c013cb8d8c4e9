"""The release that a command installs counts only where it certainly reaches the vLLM that is started."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from tables import table

from policy.intake.command.launcher import read_command
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

TODAY: Final = date(2026, 1, 1)
IMAGE: Final = "vllm/vllm-openai:v0.24.0"
ANSWERS: Final = {"installed": ("0.33.0", True), "image": ("0.24.0", True), "uncertain": ("0.24.0", False)}
"""The release and whether it is certain."""
TABLE: Final = yaml.safe_load(Path(__file__).with_name("installations.yaml").read_text(encoding="utf-8"))
SCRIPTS: Final = [
    (script.replace("INSTALL", "pip install vllm==0.33.0").replace("SERVE", "vllm serve dense"), name)
    for name, forms in TABLE.items()
    for script in [*(f"{before} vllm==0.33.0 && SERVE" for before in forms.get("before", ())), *forms["scripts"]]
]


def decided_manifest(ask: Asking, manifest: dict[str, Any], **members: Any) -> tuple[str, bool]:
    """The release that the only engine of a manifest is decided for, and whether it is certain."""
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    document = {"manifest": manifest, "model_configs": configs, **members}
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, TODAY)
    is_warned = any("which may not be the one that runs" in warning for warning in decision.warnings)
    assert is_warned is not decision.release.verified
    return decision.vllm_version, decision.release.verified


def decided(
    ask: Asking, script: str, env: dict[str, str], image: str | None = IMAGE, **members: Any
) -> tuple[str, bool]:
    """The same for a pod that runs a script."""
    engine: dict[str, Any] = {
        "name": "vllm",
        "command": ["bash", "-c", script],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    } | ({} if image is None else {"image": image})
    return decided_manifest(ask, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [engine]}}, **members)


@table(("script", "expected"), SCRIPTS)
def test_an_installation_counts_if_it_certainly_reaches_the_vllm_that_starts(
    ask: Asking, script: str, expected: str
) -> None:
    assert decided(ask, script, {}) == ANSWERS[expected]


VARIABLES: Final[list[tuple[str, str, str, str]]] = [
    *(
        (name, "/x", "pip install", "uncertain")
        for name in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_CONSTRAINT", "PIP_user")
    ),
    *((name, "/x", "uv pip install --system", "uncertain") for name in ("UV_PYTHON", "UV_PROJECT_ENVIRONMENT")),
    ("VIRTUAL_ENV", "/x", "uv pip install", "uncertain"),
    ("UV_PYTHON", "/x", "pip install", "installed"),
    ("PIP_TARGET", "", "pip install", "installed"),
    ("PIP_TARGET", "/x", "uv pip install --system", "installed"),
    ("PIP_INDEX_URL", "https://x", "pip install", "installed"),
    ("PIP_NO_CACHE_DIR", "1", "pip install", "installed"),
    ("UV_HTTP_TIMEOUT", "500", "uv pip install --system", "installed"),
    ("UV_SYSTEM_PYTHON", "1", "uv pip install", "installed"),
    ("UV_SYSTEM_PYTHON", "0", "uv pip install", "uncertain"),
    ("A", "/x", "pip install", "installed"),
]


@table(("name", "value", "command", "expected"), VARIABLES)
def test_a_container_s_variables_may_change_where_or_whether_a_command_installs(
    ask: Asking, name: str, value: str, command: str, expected: str
) -> None:
    script = f"{command} vllm==0.33.0 && vllm serve dense"
    set_by_script = (
        f"{name}={value} {script}",
        f"env {name}={value} bash -c '{script}'",
        f"export {name}={value}; {script}",
    )
    assert decided(ask, script, {name: value}) == ANSWERS[expected]
    assert [decided(ask, written, {}) for written in set_by_script] == [ANSWERS[expected]] * 3


LIKELY: Final[list[tuple[str, str | None, str | None, tuple[str, bool]]]] = [
    ("pip install vllm==0.33.0 || true; vllm serve dense", None, None, ("0.33.0", False)),
    ("uv pip install vllm==0.33.0 && vllm serve dense", "own/image:1", None, ("0.33.0", False)),
    ("uv pip install vllm==0.33.0 && vllm serve dense", None, "0.24.0", ("0.24.0", False)),
    ("uv pip install vllm==0.33.0 && vllm serve dense", "vllm/vllm-openai:v0.24.0", None, ("0.24.0", False)),
    ("uv pip install vllm==0.99.0 && vllm serve dense", None, None, ("0.23.0", False)),
    ("uv pip install vllm && vllm serve dense", None, None, ("0.23.0", False)),
    ("pip install vllm==0.22.0; pip install vllm==0.33.0 --user; vllm serve dense", None, None, ("0.33.0", False)),
]


@table(("script", "image", "stated", "expected"), LIKELY)
def test_a_release_that_may_be_installed_counts_if_nothing_shows_another(
    ask: Asking, script: str, image: str | None, stated: str | None, expected: tuple[str, bool]
) -> None:
    members = {} if stated is None else {"vllm_version": stated}
    assert decided(ask, script, {}, image, **members) == expected


SETUPS: Final[list[tuple[str, str, str]]] = [
    ("conda activate e; {}", "conda activate e; {}", "likely"),
    ("conda activate e\nif [ $? -ne 0 ]; then conda activate e; fi\n{}", "conda activate e; {}", "likely"),
    ("source ~/c/bin/activate e; {}", "conda activate e; {}", "likely"),
    ("conda activate e; {}", "{}", "image"),
    ("{}", "conda activate e; {}", "image"),
    (". /v/bin/activate; {}", ". /w/bin/activate; {}", "image"),
    ("{}; . /v/bin/activate", "{}", "installed"),
    ("export PIP_TARGET=/x; {}", "{}", "image"),
]
"""The scripts of a task, `setup` and `run`, and whose vLLM it is decided for."""


@table(("setup", "run", "expected"), SETUPS)
def test_a_task_s_setup_installs_where_its_command_starts(ask: Asking, setup: str, run: str, expected: str) -> None:
    task = {
        "setup": setup.format("pip install vllm==0.33.0"),
        "run": run.format("vllm serve dense"),
        "resources": {"image_id": "docker:vllm/vllm-openai:v0.24.0"},
    }
    release, is_certain = decided_manifest(ask, task)
    assert release == ("0.24.0" if expected == "image" else "0.33.0")
    assert is_certain is (expected == "installed")


TWICE: Final = "the script starts vLLM 2 times with different arguments or variables"


@pytest.mark.parametrize(
    ("script", "doubts"),
    [
        ("{serve}; {install}; {serve}", [TWICE]),
        ("{serve} & {install}; {serve}", [TWICE]),
        ("{install}; {serve}; pip uninstall -y vllm; {serve}", [TWICE]),
        ("{install}; {serve}; {serve}", []),
        ("{serve}; pip install ray; {serve}", []),
    ],
)
def test_engines_of_a_script_before_and_after_an_installation_differ(script: str, doubts: list[str]) -> None:
    written = script.format(serve="vllm serve m", install="pip install vllm==0.33.0")
    line = read_command(["bash", "-c", written], [""] * 3, {}, [], "")
    assert line.doubts == doubts
