"""Files generated from the vocabulary: schemas for editors, and pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from ruleschemas import VALIDATORS, schema_of
from ruletexts import read_document
from tables import table

from policy.cli.generate import check, generated, main
from policy.errors import RulesInvalid
from policy.facts.vocabulary import FACTS
from policy.parser.fields import FieldReader
from policy.parser.yamltree import read_yaml
from policy.rules.catalogue import load
from policy.rules.condition_parser import read_condition
from policy.rules.effects import TABLE
from policy.rules.json_schema import facts_schema
from policy.rules.loader import read_folder
from policy.rules.operators import OPERATORS

if TYPE_CHECKING:
    from policy.rules.loader import Sources

ROOT = Path(__file__).resolve().parent.parent.parent
BROKEN = Path(__file__).parent / "broken"
SOURCES = read_folder(ROOT / "rules")
TEXTS = {**SOURCES.rules, **SOURCES.cases}


def test_every_generated_file_is_what_make_generate_would_write(all_sources: Sources, root: Path) -> None:
    catalogue = load(all_sources)
    stale = [path for path, text in generated(catalogue).items() if (root / path).read_text() != text]
    assert stale == [], "run `make generate`"


def test_make_generate_writes_every_generated_file(
    all_sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "design.md").write_text("# Design\n\n## Index of modules\n\nout of date\n")
    for path in ("policy/b.py", "policy/a.py", "policy/__init__.py", "service/page/src/ask/ask.tsx", "service/a/c.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    for path, text in SOURCES.rules.items():
        (tmp_path / "rules" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "rules" / path).write_text(text)
    monkeypatch.setattr("policy.cli.generate.ROOT", tmp_path)
    main()
    files = generated(load(all_sources))
    assert {path: (tmp_path / path).read_text() for path in files} == files
    start, *_, first, second = files["docs/design.md"].splitlines()
    assert (start, first, second) == ("# Design", "| `policy/` | a, b |", "| `service/page/src/ask/` | ask |")
    check()
    (tmp_path / "docs" / "facts.md").write_text("")
    (tmp_path / "rules" / "rule.schema.json").unlink()
    with pytest.raises(SystemExit, match=r"^out of date: rules/rule.schema.json, docs/facts.md; run `make generate`$"):
        check()


@table("name", sorted(VALIDATORS))
def test_the_schema_of_each_kind_of_file_is_valid(name: str) -> None:
    Draft202012Validator.check_schema(VALIDATORS[name].schema)


def test_the_schema_of_the_facts_is_valid() -> None:
    Draft202012Validator.check_schema(facts_schema())


def test_every_shipped_file_follows_its_schema() -> None:
    errors = {
        path: [error.message for error in VALIDATORS[schema_of(path)].iter_errors(read_yaml(text, path).plain())]
        for path, text in TEXTS.items()
    }
    assert {path: messages for path, messages in errors.items() if messages} == {}
    assert len(errors) > 500


def test_every_shipped_file_names_its_schema_in_its_first_line() -> None:
    schemas = {path: f"{'../' * path.count('/')}{schema_of(path)}.schema.json" for path in TEXTS}
    assert {path: text.splitlines()[0] for path, text in TEXTS.items()} == {
        path: f"# yaml-language-server: $schema={schema}" for path, schema in schemas.items()
    }


# These schemas cannot check relations between files, the content of texts, and the calendar.
UNDETECTED = {
    "known-problems-referred:house/leaves-some.yaml",
    "known-problems-referred:house/leaves.yaml",
    "alternatives:upstream/example.yaml",
    "cases-missing:upstream/example_test.yaml",
    "condition-unused:upstream/conditions/named.yaml",
    "dates:house/c.yaml",
    "facts-of-releases:upstream/conditions/engine.yaml",
    "facts-of-releases:upstream/example.yaml",
    "force-without-v2:house/force-all.yaml",
    "force-without-v2:house/leaves-v1.yaml",
    "ids:upstream/other.yaml",
    "names:upstream/advise.yaml",
    "names:upstream/other.yaml",
    "order-taken:upstream/other.yaml",
    "request-lists:upstream/requests/lists.yaml",
    "spans:upstream/conditions/gap.yaml",
    "spans:upstream/conditions/named.yaml",
    "spans:upstream/example.yaml",
    "spans:upstream/other.yaml",
    "until:house/a.yaml",
    "uses:upstream/example.yaml",
}


def broken() -> dict[str, str]:
    """The broken files that are YAML, as ``case:path``."""
    found = {}
    for case in sorted(BROKEN.glob("*.yaml")):
        document = read_document(case.read_text())
        faulty = {fault.split(":")[0] for fault in document["faults"]}
        for path, text in document["files"].items():
            try:
                if text is not None and path in faulty and path.split("/")[0] in {"upstream", "house", "releases.yaml"}:
                    read_yaml(text, path)
                    found[f"{case.stem}:{path}"] = text
            except RulesInvalid:
                continue
    return found


FILES = broken()


def test_the_schemas_refuse_the_broken_files_that_a_schema_can_detect() -> None:
    accepted = {
        name
        for name, text in FILES.items()
        if VALIDATORS[schema_of(name.partition(":")[2])].is_valid(read_yaml(text, name).plain())
    }
    assert accepted == UNDETECTED
    assert len(FILES) > 30


CONDITIONS: list[tuple[Any, bool]] = [
    ("always", True),
    ({"model_config.is_moe": True}, True),
    ({"model_config": "present"}, True),
    ({"all": [{"any": [{"not": {"lora_config": "absent"}}]}], "uses": "named"}, True),
    ({"speculative_config.method": "mtp"}, True),
    ({"speculative_config.method": "absent"}, True),
    ({"speculative_config.method": {"in": ["mtp"], "is_not": "eagle"}}, True),
    ({"model_config.architectures": {"has_any_of": ["A"], "not_empty": True}}, True),
    ({"env.VLLM_USE_V2_MODEL_RUNNER": "malformed"}, True),
    ({"env.VLLM_USE_V2_MODEL_RUNNER": False}, True),
    ({"parallel_config.ubatch_size": {"at_least": 2}}, True),
    ({"parallel_config.distributed_executor_backend": "external_launcher"}, True),
    ("never", False),
    ([], False),
    ({}, False),
    ({"all": []}, False),
    ({"any": {"lora_config": "present"}}, False),
    ({"not": "always"}, False),
    ({"uses": ["named"]}, False),
    ({"no.fact": True}, False),
    ({"model_config.is_moe": "true"}, False),
    ({"model_config.is_moe": 1}, False),
    ({"model_config.is_moe": {}}, False),
    ({"model_config.is_moe": "present"}, False),
    ({"model_config": True}, False),
    ({"model_config": "not_empty"}, False),
    ({"speculative_config.method": "eagle4"}, False),
    ({"speculative_config.method": None}, False),
    ({"speculative_config.method": {"is": None}}, False),
    ({"speculative_config.method": {"in": []}}, False),
    ({"speculative_config.method": {"in": ["mtp", "mtp"]}}, False),
    ({"speculative_config.method": {"in": "mtp"}}, False),
    ({"speculative_config.method": {"present": False}}, False),
    ({"model_config.architectures": "A"}, False),
    ({"model_config.architectures": {"in": ["A"]}}, False),
    ({"model_config.architectures": {"has_any_of": [1]}}, False),
    ({"model_config.logits_processors": {"has_any_of": ["a"]}}, False),
    ({"env.VLLM_USE_V2_MODEL_RUNNER": "1"}, False),
    ({"env.VLLM_USE_V2_MODEL_RUNNER": None}, False),
    ({"parallel_config.ubatch_size": {"at_least": -1}}, False),
    ({"parallel_config.ubatch_size": True}, False),
    ({"parallel_config.distributed_executor_backend": None}, False),
    ({"parallel_config.distributed_executor_backend": 1}, False),
]


@table(("when", "is_legal"), CONDITIONS, ids=[json.dumps(when) for when, _ in CONDITIONS])
def test_the_schema_accepts_the_conditions_that_the_reader_accepts(when: Any, is_legal: bool) -> None:  # noqa: FBT001  # a table's column
    document = {
        "id": "example",
        "title": "An example",
        "effect": "advise",
        "why": "For the test.",
        "references": ["https://example.org"],
        "releases": [{"vllm": ">=0.22", "text": "examples", "when": when}],
    }
    assert VALIDATORS["rule"].is_valid(document) == is_legal
    reader = FieldReader("example")
    read_condition(read_yaml(json.dumps(when), "example"), reader)
    assert (reader.faults == []) == is_legal


def test_the_page_of_facts_mentions_every_fact(root: Path) -> None:
    page = (root / "docs" / "facts.md").read_text()
    assert [name for name in FACTS if f"| `{name}` |" not in page] == []


def test_the_page_of_the_language_mentions_every_operator_and_effect(root: Path) -> None:
    page = (root / "docs" / "language.md").read_text()
    assert [word for word in [*OPERATORS, *(effect.name for effect in TABLE)] if f"| `{word}` |" not in page] == []


def test_the_sources_are_those_of_the_project(all_sources: Sources) -> None:
    assert all_sources == SOURCES
