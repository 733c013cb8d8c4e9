"""The mistakes that authors make in rules and cases, each with the complete message that it must give.

``mistakes/base/`` is a small folder of valid rules, and ``mistakes.yaml`` has the mistakes: the file, the replacement,
all messages, and whether the schema for editors also refuses the file. ``unread`` means that the text is not YAML, or
that the file is removed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from ruleschemas import VALIDATORS, schema_of
from tables import table

from policy.checks.check import check
from policy.errors import RulesInvalid
from policy.facts.vocabulary import FACTS
from policy.parser.fields import BOOLEANS
from policy.parser.yamltree import read_yaml
from policy.rules import synonyms
from policy.rules.effects import TABLE, Layer, effects_of
from policy.rules.json_schema import rule_schema
from policy.rules.loader import Sources, read_folder
from policy.rules.operators import OPERATORS
from policy.rules.rule import HOUSE_FIELDS, RULE_OPTIONAL, RULE_REQUIRED

if TYPE_CHECKING:
    from policy.parser.yamltree import YamlNode

FOLDER: Final = Path(__file__).parent / "mistakes"
BASE: Final = read_folder(FOLDER / "base")
MISTAKES: Final[list[dict[str, Any]]] = yaml.load((FOLDER / "mistakes.yaml").read_text(), yaml.CSafeLoader)
by_mistake = pytest.mark.parametrize("entry", MISTAKES, ids=[entry["mistake"] for entry in MISTAKES])


def with_mistake(entry: dict[str, Any]) -> dict[str, str]:
    """The texts of the base folder, one of them changed or removed."""
    texts = {**BASE.rules, **BASE.cases}
    file = entry["file"]
    if "replace" in entry:
        assert texts[file].count(entry["replace"]) == 1
        texts[file] = texts[file].replace(entry["replace"], entry["by"])
    else:
        del texts[file]
    return texts


def as_editors_read(node: YamlNode) -> Any:
    """A document as YAML 1.2 reads it: `yes` is a text."""
    if isinstance(node.value, dict):
        return {key: as_editors_read(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [as_editors_read(child) for child in node.value]
    is_text = isinstance(node.value, bool) and node.written is not None and node.written.lower() not in BOOLEANS
    return node.written if is_text else node.value


def verdict_of_schema(path: str, text: str | None) -> str:
    try:
        document = None if text is None else as_editors_read(read_yaml(text, path))
    except RulesInvalid:
        return "unread"
    return "unread" if text is None else "accepts" if VALIDATORS[schema_of(path)].is_valid(document) else "refuses"


def test_the_base_has_no_mistake() -> None:
    assert check(BASE).faults == ()
    assert {verdict_of_schema(path, text) for path, text in {**BASE.rules, **BASE.cases}.items()} == {"accepts"}


@by_mistake
def test_a_mistake_gives_a_message_that_says_what_to_do(entry: dict[str, Any]) -> None:
    sources = Sources()
    for path, text in with_mistake(entry).items():
        sources.add(path, text)
    assert [str(fault) for fault in check(sources).faults] == entry["messages"]


@by_mistake
def test_the_schema_refuses_the_mistakes_that_a_schema_can_detect(entry: dict[str, Any]) -> None:
    assert verdict_of_schema(entry["file"], with_mistake(entry).get(entry["file"])) == entry["schema"]


RULE, CASES = "house/lora-fallback.yaml", "house/lora-fallback_test.yaml"
LEGAL: Final = [
    (RULE, "references:\n  - https:", "references: https:"),
    (RULE, "2027-03-31", '"2027-03-31"'),
    (RULE, '">=0.25,<0.27"', '"<0.27, >=0.25"'),
    (RULE, '">=0.25,<0.27"', "'>= 0.25.0 , < 0.27.0'"),
    (RULE, "    when:\n      lora_config: present\n", "when: {lora_config: {present: true}}\n"),
    (RULE, "lora_config: present", "any: [lora_config: present, model_config.is_moe: True]"),
    (RULE, "owner: adapter-serving", 'owner: "on"'),
    (CASES, "[0.24.0, 0.27.0]", "0.24.0"),
    (CASES, "fires: true", "fires: True\n    starts: true"),
]


@table(("file", "old", "new"), LEGAL, ids=[new for _, _, new in LEGAL])
def test_the_schema_accepts_legal_variants(file: str, old: str, new: str) -> None:
    sources = Sources()
    texts = with_mistake({"file": file, "replace": old, "by": new})
    for path, text in texts.items():
        sources.add(path, text)
    assert [str(fault) for fault in check(sources).faults] == []
    assert verdict_of_schema(file, texts[file]) == "accepts"


@table(("layer", "effect"), [(layer, effect) for layer in Layer for effect in sorted({each.name for each in TABLE})])
def test_each_schema_has_the_effects_of_its_layer(layer: Layer, effect: str) -> None:
    assert (effect in rule_schema(layer)["properties"]["effect"]["enum"]) is (effect in effects_of(layer))


def test_only_the_message_about_a_rule_repeats_a_line() -> None:
    text = "password: @secret\n"
    for quotes_line in (False, True):
        with pytest.raises(RulesInvalid) as raised:
            read_yaml(text, "a.yaml", quotes_line=quotes_line)
        assert ("secret" in str(raised.value)) is quotes_line


def test_synonyms_lead_to_words_of_the_language() -> None:
    assert {word for words in synonyms.OPERATORS.values() for word in words} <= set(OPERATORS)
    assert set(synonyms.CONDITIONS.values()) <= {"all", "any", "not", "uses"}
    assert {*synonyms.FLAGS.values(), *synonyms.OBJECTS.values()} <= set(FACTS)
    assert set(synonyms.EFFECTS.values()) <= set(effects_of(Layer.HOUSE))
    assert set(synonyms.EFFECTS) & {effect.name for effect in TABLE if effect.layer is Layer.HOUSE} == set()
    rule = {*RULE_REQUIRED, *RULE_OPTIONAL, *HOUSE_FIELDS}
    assert set(synonyms.RULE_FIELDS.values()) <= rule
    assert set(synonyms.RANGE_FIELDS.values()) <= {*rule, "vllm"}
    assert set(synonyms.CASE_FIELDS.values()) <= {"name", "vllm", "given", "fires", "message", "starts"}


def test_every_flag_that_a_fact_names_leads_to_a_fact() -> None:
    named = {flag for fact in FACTS.values() for flag in re.findall(r"`--([a-z-]+)`", fact.meaning)}
    others = {"quantization", "hf-overrides"}
    """Flags that influence a fact without setting one."""
    assert {flag.replace("-", "_") for flag in named - others} - set(synonyms.FLAGS) == {"attention_config"}


def test_the_table_has_forty_mistakes() -> None:
    assert len(MISTAKES) >= 40
    assert len({entry["mistake"] for entry in MISTAKES}) == len(MISTAKES)
