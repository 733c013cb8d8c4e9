"""Flags that a release takes but calls deprecated, and the replacements of those that are gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tables import table

from policy.intake.arguments_document import arguments_in, differences, find
from policy.intake.command.arguments import read_options
from policy.intake.command.deprecated_flags import deprecated_in, deprecation_history, replacement
from policy.intake.command.flags import flags
from policy.intake.command_line import CommandLine
from policy.intake.model.tables import releases_with_flags
from policy.vllm.tablegen.deprecations import deprecation, deprecations, main
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LOGGING = (
    "--log-config-file is deprecated and will be removed in v0.33.0. "
    "Use --logging-config.pylogging_config_file instead."
)
KERNELS = "Deprecated: vLLM IR is being removed, and this option will be removed in v0.34.0."
LOGITS = "`logit_bias` is deprecated and will be removed in v0.21. Use `logit_mean` instead."


@table(
    ("release", "words", "expected"),
    [
        (
            "0.33.0",
            ["--log-config-file", "a.json"],
            [f'vLLM 0.33.0 calls the flag `--log-config-file` (args[0]) deprecated: "{LOGGING}"'],
        ),
        ("0.30.0", ["--log-config-file", "a.json"], []),
        (
            "0.33.0",
            ["--kernel-config", '{"ir_op_priority": {"rms_norm": ["native"]}}'],
            [f'vLLM 0.33.0 calls `ir_op_priority` of `--kernel-config` deprecated: "{KERNELS}"'],
        ),
        (
            "0.22.0",
            ["--pooler-config.logit_bias", "0.5"],
            [f'vLLM 0.22.0 calls `logit_bias` of `--pooler-config` deprecated: "{LOGITS}"'],
        ),
        ("0.22.0", ["--pooler-config", '{"logit_mean": 0.5}'], []),
        (
            "0.19.0",
            ["--config", "c.yaml"],
            [
                (
                    "vLLM 0.19.0 calls the flag `--calculate-kv-scales` (files/c.yaml/calculate-kv-scales) deprecated: "
                    '"The `--calculate-kv-scales` option is deprecated and will be removed in v0.19."'
                )
            ],
        ),
        ("0.33.0", ["--max-model-len", "4k", "--port", "80"], []),
    ],
)
def test_a_deprecated_flag_is_a_warning_in_vllm_s_words(release: str, words: list[str], expected: list[str]) -> None:
    command = CommandLine([*words, "--model", "m"], [f"args[{index}]" for index in range(len(words) + 2)])
    options = read_options(release, command, {"c.yaml": "calculate-kv-scales: true"}, [])
    assert options.warnings == expected


@table(
    ("release", "words", "end"),
    [
        ("0.23.0", ["--num-redundant-experts", "2"], "; use `--eplb-config.num_redundant_experts` instead"),
        ("0.23.0", ["--rope-scaling", "{}"], "; use `--hf-overrides` instead"),
        ("0.13.0", ["--task", "embed"], "; use `--runner`, `--convert` instead"),
        ("0.12.0", ["--guided-decoding-backend", "x"], "; use `--structured-outputs-config.backend` instead"),
        ("0.9.0", ["--speculative-model", "x"], "; use `--speculative-config` instead"),
        ("0.33.0", ["--swap-space", "4"], " have it"),
        ("0.8.0", ["--runner", "pooling"], " have it"),
    ],
)
def test_a_flag_that_is_gone_names_what_vllm_named_instead(release: str, words: list[str], end: str) -> None:
    command = CommandLine([*words, "--model", "m"], [f"args[{index}]" for index in range(len(words) + 2)])
    (error,) = read_options(release, command, {}, []).launch_errors
    assert (error.startswith(f"vLLM {release} has no flag"), error.endswith(end)) == (True, True), error


def test_every_row_is_about_a_flag_of_its_release_and_every_replacement_exists() -> None:
    for release in releases_with_flags():
        table = flags(release)
        for dest, rows in deprecated_in(release).items():
            assert dest in table.by_name
            for row in rows.values():
                assert row.keys() <= {"text", "removed_in", "replaced_by"}
                assert all(word.partition(".")[0] in table.exact for word in row.get("replaced_by", ()))
    assert all(replacement(key.partition(".")[0], "0.33.0") is not None for key in deprecation_history())


def test_the_catalogue_has_the_deprecations() -> None:
    (item,) = find("--log-config-file")
    assert item["deprecations"] == [
        {
            "member": None,
            "values": [],
            "since": "0.31.0",
            "until": None,
            "text": LOGGING,
            "removed_in": "0.33.0",
            "replaced_by": ["--logging-config.pylogging_config_file"],
        }
    ]
    (item,) = find("--mamba-cache-mode")
    assert [(each["values"], each["since"], each["until"]) for each in item["deprecations"]] == [
        (["all"], "0.30.0", "0.31.0"),
        ([], "0.33.0", None),
    ]
    assert "--mamba-cache-mode=all" in differences("0.29.0", "0.30.0")["deprecated"]
    names = {i["name"]: len(i["deprecations"]) for i in arguments_in("0.30.0")["items"] if i["deprecations"]}
    assert "--log-config-file" not in names
    assert differences("0.30.0", "0.31.0")["deprecated"] == ["--log-config-file", "--quantization=fp8"]


KNOWN = {"new": "--new", "--new": "--new", "config.field": "--config.field", "use": "--use", "model": "--model"}


@table(
    ("text", "is_own", "expected"),
    [
        ("--old is deprecated. Use --new instead.", False, {"replaced_by": ["--new"]}),
        ("The `--old` option is deprecated and will be removed in v0.9.", False, {"removed_in": "0.9"}),
        ("old has been replaced with config.field.", False, {"replaced_by": ["--config.field"]}),
        ("[DEPRECATED] The old way. Use nothing.", True, {}),
        ("What it does. This option is deprecated. Please use `new` instead.", True, {"replaced_by": ["--new"]}),
        ("Deprecated: use absent instead.", True, {}),
        # about something else
        ("[DEPRECATED] Something was removed.", False, None),
        ("--other is deprecated. Use --old instead.", False, None),
        ("--old fast is deprecated.", False, None),
        ("Supersedes `other`, which is deprecated.", True, None),
        ("Enable deprecated metrics. They will be removed in v0.9.", True, None),
        ("[DEPRECATED] The task to use the model for.", True, {}),
    ],
)
def test_only_a_sentence_about_the_flag_counts(text: str, *, is_own: bool, expected: dict[str, object] | None) -> None:
    row = deprecation(text, {"--old", "old"}, {}, KNOWN, is_own=is_own)
    assert (row and {key: value for key, value in row.items() if key != "text"}) == expected


ENGINE = """
import argparse
import warnings
from dataclasses import dataclass
from vllm.config import DeviceConfig

MESSAGE = "--first is deprecated and will be removed in v0.9. Use --second instead."


@dataclass
class EngineArgs:
    device: str = DeviceConfig.device

    @staticmethod
    def add_cli_args(parser):
        device_kwargs = get_kwargs(DeviceConfig)
        parser.add_argument("--device", **device_kwargs["device"])
        parser.add_argument("--first", type=str, help=MESSAGE)
        parser.add_argument("--second", type=str)
        parser.add_argument("--marked", type=str, deprecated=True)
        for flag, kind in [("--third", str), ("--fourth", int)]:
            parser.add_argument(flag, type=kind, help=(f"[DEPRECATED] {flag} will be removed in v0.9."))
        return parser

    def create(self):
        warnings.warn("`second` is deprecated, use `--device` instead.")


def get_kwargs(cls):
    return _compute_kwargs(cls)


def _compute_kwargs(cls):
    return {}
"""
CONFIG = '''
from dataclasses import dataclass


@dataclass
class DeviceConfig:
    device: str = "auto"
    """The device. This parameter is deprecated and will be removed in a future release. Something else."""
'''
FIRST = {
    "text": "--first is deprecated and will be removed in v0.9. Use --second instead.",
    "removed_in": "0.9",
    "replaced_by": ["--second"],
}


def test_the_deprecations_of_a_release_are_read_from_its_sources(tmp_path: Path) -> None:
    made = deprecations(World(SourceReader(FolderSource(_sources(tmp_path)))))
    assert made == {
        "device": {"text": "This parameter is deprecated and will be removed in a future release."},
        "first": FIRST,
        "second": {"text": "`second` is deprecated, use `--device` instead.", "replaced_by": ["--device"]},
        "marked": {"text": None},
        "third": {"text": "[DEPRECATED] --third will be removed in v0.9.", "removed_in": "0.9"},
        "fourth": {"text": "[DEPRECATED] --fourth will be removed in v0.9.", "removed_in": "0.9"},
    }


def test_a_table_that_the_sources_contradict_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _sources(tmp_path / "0.33.0")
    assert main([str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out == "deprecations.jsonl: the sources of 0.33.0 say something else\n"


def _sources(folder: Path) -> Path:
    for path, text in {
        "vllm/engine/arg_utils.py": ENGINE,
        "vllm/config/__init__.py": CONFIG,
        "vllm/entrypoints/openai/cli_args.py": "def make_arg_parser(parser):\n    return parser\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def test_the_table_is_in_the_format_of_the_others() -> None:
    json.dumps(deprecation_history())
    assert [*deprecation_history()] == sorted(deprecation_history())
