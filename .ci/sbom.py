"""Write the bill of materials (SBOM) of the service as CycloneDX JSON: `python .ci/sbom.py ENVIRONMENT OUTPUT`.

Lists the packages of the virtual environment ENVIRONMENT, with versions, licences and dependencies, and with the hashes
of requirements/run.lock, which pip verified during installation. Without `--locked-only` every package must be in the
lock, except for pip. With it, other packages are left out: a development environment has many.

Not here: the packages of the operating system, which belong to the base image.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements/run.lock"
VERSION: Final = SchemaVersion.V1_6
UNLOCKED: Final = frozenset({"pip"})
"""The packages that `python -m venv` installs."""

Component = dict[str, Any]


class SbomFailed(Exception):
    """The environment cannot be read, or differs from the lock."""


def generate(*arguments: str) -> dict[str, Any]:
    """The SBOM that cyclonedx-py generates, without timestamps and random values."""
    tool = [sys.executable, "-m", "cyclonedx_py", *arguments]
    options = ["--spec-version", VERSION.to_version(), "--output-reproducible", "--no-validate", "--output-file", "-"]
    done = subprocess.run([*tool, *options], check=False, capture_output=True, text=True)  # noqa: S603  # ours
    if done.returncode:
        raise SbomFailed(f"`cyclonedx-py {arguments[0]}` failed: {done.stderr.strip()}")
    sbom: dict[str, Any] = json.loads(done.stdout)
    return sbom


def by_name(sbom: dict[str, Any]) -> dict[str, Component]:
    """The packages by their normalized names."""
    return {canonicalize_name(component["name"]): component for component in sbom.get("components", [])}


def mismatches(installed: dict[str, Component], locked: dict[str, Component]) -> list[str]:
    """Packages that are not in the lock, or in another version."""
    expected = {name: component["version"] for name, component in locked.items()}
    return [
        f"{name}: expected {expected.get(name, 'no such package')}, got {component['version']}"
        for name, component in installed.items()
        if name not in UNLOCKED and expected.get(name) != component["version"]
    ]


def make(environment: Path, *, locked_only: bool) -> str:
    """The SBOM of an environment as JSON text."""
    # without the texts, a licence that is not stated by its SPDX name would be missing
    options = ["--gather-license-texts", "--pyproject", str(ROOT / "pyproject.toml")]
    sbom = generate("environment", *options, str(environment))
    locked = by_name(generate("requirements", str(LOCK)))
    root = sbom["metadata"]["component"]
    installed = by_name(sbom)
    installed.pop(root["name"], None)
    if locked_only:
        installed = {name: component for name, component in installed.items() if name in locked}
    if faults := mismatches(installed, locked):
        raise SbomFailed("\n".join([f"{environment} differs from requirements/run.lock; reinstall it", *faults]))
    for name, component in installed.items():
        if name in locked:
            component.setdefault("externalReferences", []).extend(locked[name]["externalReferences"])
    sbom["components"] = list(installed.values())
    listed = {root["bom-ref"], *(component["bom-ref"] for component in installed.values())}
    sbom["dependencies"] = [
        {"ref": entry["ref"], "dependsOn": [ref for ref in entry.get("dependsOn", ()) if ref in listed]}
        for entry in sbom["dependencies"]
        if entry["ref"] in listed
    ]
    return json.dumps(sbom, indent=1, sort_keys=True) + "\n"


def main() -> int:
    """Write and validate; the exit code is 1 if the environment or the result is invalid."""
    parser = argparse.ArgumentParser(description="Write the bill of materials of the service as CycloneDX JSON.")
    parser.add_argument("environment", type=Path, help="the folder of a virtual environment")
    parser.add_argument("output", type=Path, help="the file to write")
    parser.add_argument("--locked-only", action="store_true", help="leave out packages that are not in the lock")
    arguments = parser.parse_args()
    try:
        text = make(arguments.environment, locked_only=arguments.locked_only)
    except SbomFailed as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    if (invalid := JsonStrictValidator(VERSION).validate_str(text)) is not None:
        sys.stderr.write(f"not valid CycloneDX {VERSION.to_version()}: {invalid}\n")
        return 1
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    count = len(json.loads(text)["components"])
    sys.stdout.write(f"{arguments.output}: {count} packages, valid CycloneDX {VERSION.to_version()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
