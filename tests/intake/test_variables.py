"""The environment variables of vLLM: the table by release, and the warnings about those that a deployment sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.intake.arguments_document import arguments_document, arguments_in, differences, find, suggestion
from policy.intake.model.tables import releases_with_flags
from policy.intake.variables import MAX_WARNINGS, row_in, variable_history, variable_warnings
from policy.vllm.tablegen.variables import variables
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from deployments import Asking

NOT_READ = "vLLM {} does not read the variable `{}`; {}"
FP8 = "VLLM_USE_FLASHINFER_MOE_FP8"
REFUSED = "vLLM 0.24.0 refuses the variables with `--fail-on-environ-validation`"
INSTEAD = "; use `--moe-backend` instead"


@table(
    ("release", "names", "platform", "expected"),
    [
        ("0.33.0", ["VLLM_USE_V1"], "cuda", [NOT_READ.format("0.33.0", "VLLM_USE_V1", "0.6.4 to 0.11.0 read it")]),
        ("0.11.1", ["VLLM_USE_V1"], None, [NOT_READ.format("0.11.1", "VLLM_USE_V1", "0.6.4 to 0.11.0 read it")]),
        ("0.11.0", ["VLLM_USE_V1"], "cuda", []),
        ("0.6.3", ["VLLM_USE_V1"], "cuda", [NOT_READ.format("0.6.3", "VLLM_USE_V1", "0.6.4 to 0.11.0 read it")]),
        ("0.21.0", [FP8], "cuda", []),
        ("0.23.0", [FP8], "cuda", [f"vLLM 0.23.0 warns that the variable `{FP8}` is deprecated{INSTEAD}"]),
        ("0.24.0", [FP8], "rocm", [NOT_READ.format("0.24.0", FP8, "0.10.0 to 0.23.0 read it") + INSTEAD]),
        (
            "0.29.0",
            ["VLLM_TRITON_ATTN_USE_TD"],
            "xpu",
            [
                NOT_READ.format("0.29.0", "VLLM_TRITON_ATTN_USE_TD", "0.22.0 to 0.28.0 read it")
                + "; use `VLLM_TRITON_USE_TD` instead"
            ],
        ),
        (
            "0.30.0",
            ["VLLM_LOGING_LEVEL"],
            "cuda",
            ["no vLLM release reads the variable `VLLM_LOGING_LEVEL`; did you mean `VLLM_LOGGING_LEVEL`?"],
        ),
        # scripts' and controllers' own, and what Kubernetes sets for a service named `vllm`
        (
            "0.30.0",
            ["VLLM_MODEL", "VLLM_ARGS", "VLLM_IMAGE", "VLLM_SERVICE_HOST", "VLLM_PORT_8000_TCP", "VLLM_EXTRA_ARGS"],
            "cuda",
            [],
        ),
        (
            "0.30.0",
            ["VLLM_ASCEND_ENABLE_NZ", "VLLM_OMNI_X", "DYN_X", "HF_TOKEN", "PATH", "", "vllm_use_v1"],
            "cuda",
            [],
        ),
        ("0.30.0", ["VLLM_TARGET_DEVICE", "VLLM_USE_V2_MODEL_RUNNER", "VLLM_PORT", "VLLM_API_KEY"], "cuda", []),
        ("0.3.0", ["VLLM_USE_V2_MODEL_RUNNER"], "cuda", []),
        ("0.30.0", ["VLLM_USE_V1"], "ascend", []),
        ("0.30.0", ["VLLM_USE_V1", "VLLM_XLA_CHEK_RECOMPILATION"], "tpu", []),
        ("9.9.9", ["VLLM_USE_V1"], "cuda", []),
        ("0.30.0", ["VLLM_" + "A" * 100_000, "VLLM_\x00", "VLLM_\ud800"], "cuda", []),
    ],
)
def test_a_variable_that_the_release_does_not_read_is_a_warning(
    release: str, names: list[str], platform: str | None, expected: list[str]
) -> None:
    assert variable_warnings(names, release, platform) == expected


def test_the_number_of_warnings_is_limited() -> None:
    names = [name for name in variable_history() if name.startswith("VLLM_") and row_in(name, "0.33.0") is None]
    found = variable_warnings(names, "0.33.0", "cuda")
    assert (len(found), found[-1].endswith("more variables are not read by vLLM 0.33.0")) == (MAX_WARNINGS + 1, True)


@table("release", releases_with_flags())
def test_the_variables_that_a_release_reads_give_no_warning_there(release: str) -> None:
    read = [name for name in variable_history() if row_in(name, release) is not None]
    warned = {name for name in read if (row_in(name, release) or {}).get("deprecated")}
    assert len(variable_warnings(read, release, "cuda")) == min(len(warned), MAX_WARNINGS + 1)


ENVS = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    VLLM_PORT: int | None = None
    VLLM_LEVEL: Optional[str] = "INFO"
    VLLM_ROOT: str = os.path.expanduser("~")
    VLLM_ONLY_ANNOTATED: bool = False
environment_variables{annotation} = {{
    "VLLM_PORT": lambda: os.getenv("VLLM_PORT"),
    "VLLM_LEVEL": lambda: os.getenv("VLLM_LEVEL", "INFO"),
    "VLLM_ROOT": lambda: 1,
    "OTHER": lambda: 1,
    "VLLM_OLD": deprecated_env("VLLM_OLD", "v0.9", "Use --new-flag (e.g. one) or --other.", lambda: 1),
    "VLLM_ALIAS": lambda: warn("VLLM_ALIAS is deprecated and goes. Use VLLM_PORT instead."),
}}
"""
LISTED: Mapping[str, Any] = {
    "VLLM_PORT": {"type": "int | None", "default": None},
    "VLLM_LEVEL": {"type": "str | None", "default": "INFO"},
    "VLLM_ROOT": {"type": "str"},
    "OTHER": {},
    "VLLM_OLD": {"deprecated": True, "replaced_by": ["--new-flag", "--other"]},
    "VLLM_ALIAS": {"deprecated": True, "replaced_by": ["VLLM_PORT"]},
    "VLLM_ONLY_ANNOTATED": {"listed": False},
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"envs.py": ENVS.format(annotation="")}, LISTED),
        ({"envs.py": ENVS.format(annotation=": dict[str, Any]")}, LISTED),
        (
            {"engine/a.py": "# VLLM_A, VLLM_B_ and xVLLM_C\nos.environ['VLLM_D']"},
            {"VLLM_A": {"listed": False}, "VLLM_D": {"listed": False}},
        ),
        ({}, {}),
    ],
)
def test_the_variables_are_read_from_the_sources(
    tmp_path: Path, files: dict[str, str], expected: dict[str, Any]
) -> None:
    for name, text in files.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert variables(SourceReader(FolderSource(tmp_path))) == expected


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("--max-model-len", "argument", [("0.3.0", "0.8.3"), ("0.8.4", "0.8.5.post1"), ("0.9.0", None)]),
        ("max_model_len", "argument", [("0.3.0", "0.8.3"), ("0.8.4", "0.8.5.post1"), ("0.9.0", None)]),
        ("--max_model_len", "argument", [("0.3.0", "0.8.3"), ("0.8.4", "0.8.5.post1"), ("0.9.0", None)]),
        ("VLLM_ATTENTION_BACKEND", "variable", [("0.4.2", "0.14.1")]),
    ],
)
def test_a_name_is_found_in_each_spelling(name: str, kind: str, expected: list[tuple[str, str | None]]) -> None:
    (item,) = find(name)
    assert (item["kind"], [(each["since"], each["until"]) for each in item["changes"]]) == (kind, expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max_model_length", "--max-model-len"),
        ("VLLM_ATENTION_BACKEND", "VLLM_ATTENTION_BACKEND"),
        ("--tensor-paralel-size", "--tensor-parallel-size"),
        ("qqqqqqqqqqqqqq", None),
    ],
)
def test_an_unknown_name_gets_a_suggestion(name: str, expected: str | None) -> None:
    assert (find(name), suggestion(name)) == ([], expected)


def test_two_releases_are_compared() -> None:
    found = differences("0.23.0", "0.24.0")
    assert (FP8 in found["removed"], FP8 in differences("0.24.0", "0.23.0")["added"]) == (True, True)
    assert differences("0.24.0", "0.24.0") == {"added": [], "removed": [], "changed": [], "deprecated": []}


def test_a_release_has_the_names_whose_ranges_contain_it() -> None:
    names = {item["name"] for item in arguments_in("0.23.0")["items"]}
    assert {"--max-model-len", FP8} <= names
    assert names < {item["name"] for item in arguments_document()["items"]}
    assert "VLLM_USE_V1" not in names


@pytest.mark.parametrize(
    ("args", "errors"),
    [
        ([], []),
        (
            ["--fail-on-environ-validation"],
            [f"{REFUSED}: Unknown vLLM environment variable detected: VLLM_FOO"],
        ),
    ],
)
def test_unknown_variables_are_refused_if_the_deployment_asks_for_it(
    ask: Asking, args: list[str], errors: list[str]
) -> None:
    dense = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    env = {"VLLM_FOO": "1", "VLLM_LOGGING_LEVEL": "DEBUG"}
    deployment = {"args": ["--model", "dense", *args], "env": env, "model_configs": {"dense": dense}}
    assert ask.document({"deployment": deployment, "vllm_version": "0.24.0"}).launch_errors == errors
