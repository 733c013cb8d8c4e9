"""Faults in rule files, and changes of files that change no decision.

``broken/base/`` is a small folder of rules. Each file in ``broken/`` is a case: the files to overlay on that folder,
and all expected faults in order.
"""

from __future__ import annotations

import gzip
import json
import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_except
from ruletexts import read_document, rule_text, write_document
from tables import table

from policy.checks.cases import Case, read_cases, run_cases
from policy.errors import MAX_FAULTS, Fault, RequestInvalid, RulesInvalid
from policy.parser.yamltree import MAX_BYTES, MAX_DIRECTIVES, read_documents, read_yaml
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load, unused_conditions
from policy.rules.loader import MAX_FILES, TEST_SUFFIX, Sources, default_folder, read_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.rules.catalogue import Catalogue

BROKEN = Path(__file__).parent / "broken"
TODAY = date(2026, 1, 1)


def overlaid(files: Mapping[str, str | None]) -> Sources:
    base = read_folder(BROKEN / "base")
    texts = {path: text for path, text in {**base.rules, **base.cases, **files}.items() if text is not None}
    rules = {path: text for path, text in texts.items() if not path.endswith(TEST_SUFFIX)}
    return Sources(rules, {path: text for path, text in texts.items() if path not in rules})


def faults_of(sources: Sources) -> list[str]:
    """All faults of the rules; if there are none, those of the cases."""
    faults: list[Fault] = []
    try:
        catalogue = load(sources)
        faults.extend(unused_conditions(catalogue))
        read_cases(sources.cases, catalogue)
    except RulesInvalid as error:
        faults.extend(error.faults)
    return [str(fault) for fault in sorted(faults)]


VARIABLE = "env.VLLM_USE_V2_MODEL_RUNNER"
OPT_IN = {
    "on": rule_text("on", "override-v2", {VARIABLE: True}, vllm=">=0.20"),
    "off": rule_text("off", "not-default", {VARIABLE: False}, vllm=">=0.20"),
    "bad": rule_text("bad", "invalid", {VARIABLE: "malformed"}, vllm=">=0.20"),
}


@pytest.mark.parametrize(
    ("rules", "undecided"),
    [
        ({"on", "off", "bad"}, ["0.22.0"]),
        ({"on", "off"}, ["0.20.0 to 0.21.0", "0.22.0"]),
        ({"on", "bad"}, ["0.20.0 to 0.21.0", "0.22.0"]),
        ({"off", "bad"}, ["0.20.0 to 0.21.0", "0.22.0"]),
    ],
)
def test_the_variable_alone_decides_only_where_it_has_a_default(rules: set[str], undecided: list[str]) -> None:
    texts = {f"upstream/{name}.yaml": OPT_IN[name] for name in rules}
    releases = "known: ['0.20.0', '0.21.0', '0.22.0']\ndefault: '0.22.0'\n"
    with pytest.raises(RulesInvalid) as caught:
        load(Sources({"releases.yaml": releases, **texts}))
    found = [fault.message.partition(" if ")[0] for fault in caught.value.faults]
    assert found == [f"no rule decides in {releases}" for releases in undecided]


@table("variable", [None, True, False, "1", "0", "", "abc"])
def test_if_the_variable_has_a_default_every_value_is_decided(variable: object) -> None:
    texts = {f"upstream/{name}.yaml": text for name, text in OPT_IN.items()}
    policy = Policy(load(Sources({"releases.yaml": "known: ['0.20.0', '0.21.0']\ndefault: '0.21.0'\n", **texts})))
    request = read_request({"facts": {"env": {"VLLM_USE_V2_MODEL_RUNNER": variable}}}, policy.releases)
    expected = "v2" if variable in {True, "1"} else None if variable in {"", "abc"} else "v1"
    assert policy.decide(request, TODAY).runner == expected


def test_the_base_has_no_fault() -> None:
    assert faults_of(overlaid({})) == []


@table("name", sorted(path.stem for path in BROKEN.glob("*.yaml")))
def test_broken_rules_give_every_fault_with_its_position(name: str) -> None:
    case = read_document((BROKEN / f"{name}.yaml").read_text())
    assert faults_of(overlaid(case["files"])) == case["faults"]


def example(when: str) -> dict[str, str | None]:
    """The example rule with another condition, at 11:7."""
    text = (BROKEN / "base" / "upstream" / "example.yaml").read_text()
    return {"upstream/example.yaml": text.replace("lora_config: present", when)}


def test_a_break_that_git_does_not_show_may_be_written_as_an_escape() -> None:
    assert faults_of(overlaid(example(r'model_config.architectures: {has_any_of: ["a\u2028b", "\u0085"]}'))) == []


def test_a_document_that_is_no_rule_may_have_each_break_of_yaml() -> None:
    assert read_documents("a: 1 # b\u2028c: 2\n", "manifest.yaml") == [{"a": 1, "c": 2}]


def hidden_break(place: str, code: str) -> str:
    """The fault for a line break that Git does not show."""
    found = f"{place}: U+{code.upper()} begins a new line in YAML, but not in Git and in most editors"
    return f"{found}; remove the character, or write it as `\\u{code}` in double quotes"


LEAVES = [f"parallel_config.ubatch_size: {{at_least: {n}}}" for n in range(65)]


@table(
    ("files", "fault"),
    [
        (
            {"upstream/a.yaml": "#" * (MAX_BYTES + 1)},
            "upstream/a.yaml:1:1: expected at most 262144 characters, got 262145",
        ),
        ({"upstream/a.yaml": "a: " + "[" * 64 + "]" * 64}, "upstream/a.yaml:1:67: nested more than 64 deep"),
        ({"upstream/a.yaml": "[" * 100_000}, "upstream/a.yaml:1:65: nested more than 64 deep"),
        ({"upstream/a.yaml": "- 1\n" * 20_000}, "upstream/a.yaml:20000:3: more than 20000 values"),
        (
            {"upstream/a.yaml": "a: ééé\nb: é\a"},
            "upstream/a.yaml:2:5: not YAML: control characters are not allowed; remove the character",
        ),
        (
            {"upstream/a.yaml": "a: ééé\nb: é: c"},
            'upstream/a.yaml:2:5: not YAML: a colon and a space in a text; put the whole text in quotes: `"é: c"`',
        ),
        (
            {"upstream/a.yaml": f"order: {'9' * 5000}"},
            f"upstream/a.yaml:1:8: invalid number `{'9' * 80}…`; put it in quotes",
        ),
        (
            example("lora_config: present # reviewed\u2028      model_config.is_moe: true"),
            hidden_break("upstream/example.yaml:11:38", "2028"),
        ),
        (
            {"upstream/example_test.yaml": "# é\u2029rule: example\n"},
            hidden_break("upstream/example_test.yaml:1:4", "2029"),
        ),
        (
            {"upstream/a.yaml": 'id: a\ntitle: "one\x85  two"\nwhy: a\u2028b\n'},
            hidden_break("upstream/a.yaml:2:12", "0085"),
        ),
        (
            {"upstream/a.yaml": "id: a\r\n# why: b\rtitle: c\r\n"},
            hidden_break("upstream/a.yaml:2:9", "000d"),
        ),
        (
            example("all: [" + ", ".join(f"{{{leaf}}}" for leaf in LEAVES) + "]"),
            "upstream/example.yaml:11:7: more than 64 comparisons in one condition; split the rule",
        ),
    ],
    ids=[
        "too long",
        "too deep",
        "far too deep",
        "too many values",
        "after other characters",
        "marked",
        "number",
        "hidden break",
        "hidden break in cases",
        "first hidden break",
        "hidden carriage return",
        "too many comparisons",
    ],
)
def test_a_file_has_limits(files: dict[str, str | None], fault: str) -> None:
    assert faults_of(overlaid(files)) == [fault]


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(RulesInvalid, match=r"^a\.yaml:1:1: not YAML: a lone surrogate$"):
        read_yaml("a: \ud800", "a.yaml")


def test_faults_are_sorted_by_file_line_and_column() -> None:
    faults = [
        Fault("b", 1, 1, "x"),
        Fault("a", 10, 1, "x"),
        Fault("a", 9, 2, "x"),
        Fault("a", 9, 1, "y"),
        Fault("a", 9, 1, "x"),
        Fault("a", 9, 1, "x"),
    ]
    assert str(RulesInvalid(faults)) == "a:9:1: x\na:9:1: y\na:9:2: x\na:10:1: x\nb:1:1: x"


def test_a_fault_can_have_the_path_of_its_folder() -> None:
    assert (
        str(RulesInvalid([Fault("a/b.yaml", 2, 1, "x"), Fault("", 1, 1, "y")]).under(Path("rules")))
        == "rules:1:1: y\nrules/a/b.yaml:2:1: x"
    )


@table(
    ("text", "value"),
    [
        ("{}", {}),
        ("[]", []),
        ("a: 0.23", {"a": 0.23}),
        ("a: 0.23.0", {"a": "0.23.0"}),
        ("a: '0.23'", {"a": "0.23"}),
        ("a: 2027-06-30", {"a": "2027-06-30"}),
        ("a: 1_000", {"a": 1000}),
        ("a: 0x10", {"a": 16}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: [yes, no, true, on]", {"a": [True, False, True, True]}),
        ("'a': \"\\u00e9\"", {"a": "é"}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: 1.5e+3", {"a": 1500.0}),
        ("a: ! [1]", {"a": [1]}),
        ("a: >-\n  one\n  two\n", {"a": "one two"}),
        ('{"a": [{"b": null}, -1.5, "x"]}', {"a": [{"b": None}, -1.5, "x"]}),
        ("text", "text"),
        ("---\n1\n...\n", 1),
    ],
)
def test_yaml_is_read_as_these_values(text: str, value: Any) -> None:
    assert read_yaml(text, "file").plain() == value


# The folder.


def test_a_missing_folder_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(RulesInvalid, match=r"^:1:1: no such folder; name one with `--rules` or RUNNER_POLICY_RULES$"):
        read_folder(tmp_path / "nowhere")


def test_all_unreadable_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "upstream").mkdir()
    (tmp_path / "upstream" / "latin.yaml").write_bytes(b"id: caf\xe9\n")
    (tmp_path / "upstream" / "other.yml").write_text("id: other\n")
    with pytest.raises(RulesInvalid) as raised:
        read_folder(tmp_path)
    assert [str(fault) for fault in raised.value.faults] == [
        (
            "upstream/latin.yaml:1:1: cannot be read: 'utf-8' codec can't decode byte 0xe9 in position 7: invalid "
            "continuation byte"
        ),
        "upstream/other.yml:1:1: rule files end in `.yaml`; rename it",
    ]


def test_hidden_files_and_files_of_other_kinds_are_ignored(tmp_path: Path) -> None:
    for name in [
        "a.yaml",
        "b_test.yaml",
        "c.json",
        "README.md",
        ".d.yaml",
        ".git/e.yaml",
        "deep/er/f.yaml",
        "deep/.hidden/g.yml",
    ]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert read_folder(tmp_path) == Sources(
        {"a.yaml": "a.yaml", "deep/er/f.yaml": "deep/er/f.yaml"}, {"b_test.yaml": "b_test.yaml"}
    )


def test_the_number_of_rule_files_is_limited(tmp_path: Path) -> None:
    for n in range(MAX_FILES + 1):
        (tmp_path / f"{n}.yaml").touch()
    with pytest.raises(RulesInvalid, match=rf"^:1:1: more than {MAX_FILES} rule files$"):
        read_folder(tmp_path)


def test_rules_in_the_working_directory_take_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_folder() == root / "rules"
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "releases.yaml").touch()
    assert default_folder() == Path("rules")


# The shipped rules.


def test_the_shipped_rules_have_no_fault(sources: Sources) -> None:
    assert faults_of(sources) == []


def test_every_shipped_case_passes(all_sources: Sources) -> None:
    policy = Policy(load(all_sources))
    found = list(run_cases(read_cases(all_sources.cases, policy.catalogue), policy))
    assert [
        (result.case.path, result.case.line, result.release, result.found) for result in found if not result.passed
    ] == []
    assert {result.case.rule for result in found} == {rule.id for rule in policy.catalogue.rules}


@table(
    ("case", "found"),
    [
        (
            {"vllm": ["0.22.0"], "given": {"lora_config": {}}, "fires": True},
            "it does not fire: the rule does not apply to the release",
        ),
        ({"vllm": ["0.23.0"], "given": {"lora_config": {}}, "fires": False}, "it fires"),
        (
            {"vllm": ["0.23.0"], "given": {}, "fires": True},
            'it does not fire: `lora_config` is "absent", expected "present"',
        ),
        (
            {"vllm": ["0.23.0"], "given": {"lora_config": {}}, "fires": True, "message": "something"},
            "expected the text `something`, got `examples`",
        ),
        ({"vllm": ["0.23.0"], "given": {"lora_config": {}}, "fires": True, "message": "examples"}, None),
        ({"vllm": ["0.23.0"], "given": {"lora_config": None}, "fires": False}, None),
    ],
    ids=["another release", "it fires", "it does not", "another text", "its text", "near miss"],
)
def test_a_failed_case_says_what_happened(case: dict[str, Any], found: str | None) -> None:
    base = overlaid({})
    policy = Policy(load(base))
    cases = read_document(base.cases["upstream/example_test.yaml"])["cases"]
    texts = {
        **base.cases,
        "upstream/example_test.yaml": json.dumps(
            {"rule": "example", "cases": [*cases, {"name": "the tested case", **case}]}
        ),
    }
    results = list(run_cases(read_cases(texts, policy.catalogue), policy))
    assert [result.found for result in results if result.case.name == "the tested case"] == [found]


def test_a_case_with_invalid_facts_is_never_run(policy: Policy) -> None:
    case = Case(
        "moe",
        "the tested case",
        ("0.23.0",),
        {"model_config": {"is_moe": 1}},
        fires=True,
        message=None,
        starts=None,
        path="moe_test.yaml",
        line=3,
    )
    with pytest.raises(RequestInvalid, match=r"^/model_config/is_moe: `1` is not legal"):
        list(run_cases([case], policy))


# Changes that change no decision.


def unchanged(texts: dict[str, str]) -> dict[str, str]:
    return texts


def in_another_order(texts: dict[str, str]) -> dict[str, str]:
    return dict(reversed(texts.items()))


def in_other_folders(texts: dict[str, str]) -> dict[str, str]:
    def moved(path: str) -> str:
        layer, *folders, name = path.split("/")
        return "/".join(
            [layer, f"{name[-6]}", *folders[-1:], name]
            if folders[-1:] in (["conditions"], ["requests"])
            else [layer, f"{name[0]}", "deeper", name]
        )

    return {path if path == "releases.yaml" else moved(path): text for path, text in texts.items()}


def as_json(texts: dict[str, str]) -> dict[str, str]:
    return {path: json.dumps(read_document(text), default=str) for path, text in texts.items()}


def reformatted(texts: dict[str, str]) -> dict[str, str]:
    return {
        path: "# a comment\n" + write_document(read_document(text), sort_keys=True, width=40, indent=6)
        for path, text in texts.items()
    }


def with_ranges_split(texts: dict[str, str]) -> dict[str, str]:
    """Split each range that includes 0.23 and 0.24, and repeat the shared fields in every range."""
    shared = (
        "message",
        "feature",
        "text",
        "when",
        "requires_any",
        "unless",
        "runner",
        "decided_by",
        "cleared_at_startup",
    )

    def split(file: dict[str, Any]) -> dict[str, Any]:
        common = {name: file[name] for name in shared if name in file}
        parts = []
        for part in file["releases"]:
            lower, _, upper = part["vllm"].partition(",")
            complete = {**common, **part}
            if lower < ">=0.24" and (not upper or upper > "<0.24"):
                parts += [
                    {**complete, "vllm": f"{lower},<0.24"},
                    {**complete, "vllm": ",".join(filter(None, [">=0.24", upper]))},
                ]
            else:
                parts.append(complete)
        return {**{name: value for name, value in file.items() if name not in shared}, "releases": parts}

    files = {path: read_document(text) for path, text in texts.items()}
    return {path: json.dumps(split(file) if "releases" in file else file, default=str) for path, file in files.items()}


def answers(policy: Policy, requests: list[dict[str, Any]]) -> list[Any]:
    found = []
    for request in requests:
        decision = policy.decide(read_request(request, policy.releases), TODAY)
        found.append(
            [getattr(decision, name) for name in decision.__struct_fields__ if name not in {"decision_id", "policy"}]
        )
    return found


@pytest.fixture(scope="session")
def requests(root: Path) -> list[dict[str, Any]]:
    """Some recorded requests of every release."""
    found = []
    for path in sorted((root / "tests" / "recordings").glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            found += [json.loads(line)["request"] for n, line in enumerate(lines) if n % 20 == 0]
    return found


@pytest.fixture(scope="module")
def shipped_answers(policy: Policy, requests: list[dict[str, Any]]) -> list[Any]:
    return answers(policy, requests)


@pytest.mark.parametrize(
    "change",
    slow_except(
        [in_other_folders, with_ranges_split],
        [in_another_order, in_other_folders, as_json, reformatted, with_ranges_split],
    ),
    ids=lambda change: change.__name__,
)
def test_the_form_of_the_rule_files_changes_no_decision(
    sources: Sources,
    shipped_answers: list[Any],
    requests: list[dict[str, Any]],
    change: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    assert answers(Policy(load(Sources(change(sources.rules)))), requests) == shipped_answers


def test_the_revision_depends_on_the_texts_and_not_on_their_order(sources: Sources, catalogue: Catalogue) -> None:
    revisions = [
        load(Sources(change(sources.rules))).revision
        for change in (unchanged, in_another_order, in_other_folders, as_json)
    ]
    assert revisions[:2] == [catalogue.revision] * 2
    assert len(set(revisions)) == 3
    assert all(revision.startswith("sha256:") and len(revision) == 71 for revision in revisions)


def test_a_changed_text_changes_the_revision() -> None:
    base = overlaid({}).rules
    moved = {**base, "upstream/example.yaml": base["upstream/example.yaml"] + "#"}
    assert load(Sources(moved)).revision != load(Sources(base)).revision


TOO_MANY = f"more than {MAX_FAULTS} faults; the rest was not read"


@pytest.mark.parametrize("number", [MAX_FAULTS, MAX_FAULTS + 1, 5000])
def test_a_file_with_many_faults_is_read_up_to_the_hundredth(number: int) -> None:
    unknown = "".join(f"a{n}: 1\n" for n in range(number))
    text = (BROKEN / "base" / "upstream" / "example.yaml").read_text()
    found = faults_of(overlaid({"upstream/example.yaml": text + unknown}))
    assert len(found) == min(number, MAX_FAULTS + 1)
    assert [fault.partition(": ")[2] for fault in found[MAX_FAULTS:]] == ([TOO_MANY] if number > MAX_FAULTS else [])


def test_files_with_many_faults_are_read_up_to_the_hundredth() -> None:
    files: dict[str, str | None] = {f"upstream/a{n}.yaml": "[1]" for n in range(150)}
    found = faults_of(overlaid(files))
    assert len(found) == MAX_FAULTS + 1
    assert [fault for fault in found if fault.endswith(TOO_MANY)] == found[-1:]


@pytest.mark.parametrize("vllm", [">=" + "9" * 5000, ">=0.22," * 100 + ">=0.22", ">=" + "1." * 3000 + "1"])
def test_an_overlong_range_is_a_fault(vllm: str) -> None:
    text = (BROKEN / "base" / "upstream" / "example.yaml").read_text()
    found = faults_of(overlaid({"upstream/example.yaml": re.sub(r"(?m)vllm: .*$", f'vllm: "{vllm}"', text)}))
    assert any("expected a range of releases" in fault for fault in found)


def test_a_fault_of_a_text_that_all_ranges_share_counts_once() -> None:
    ranges = "".join(f'  - vllm: ">=0.{n},<0.{n + 1}"\n' for n in range(MAX_FAULTS + 50))
    text = f"""id: shared
title: An example
effect: request-refused
parameter: logit_bias
text: "{{none}}"
when: always
why: For the test.
references: [https://example.org]
gaps: none
releases:
{ranges}"""
    assert faults_of(overlaid({"upstream/requests/shared.yaml": text})) == [
        "upstream/requests/shared.yaml:5:7: unknown fact `{none}`; docs/facts.md lists the facts, and `{{` is a brace",
        "upstream/requests/shared.yaml:9:7: expected a list of gaps, got `none`",
    ]


@pytest.mark.parametrize("separator", ["\n", "\r", "\u2028"])
def test_many_directives_are_refused(separator: str) -> None:
    text = separator.join(f"%TAG !a{n}! b" for n in range(MAX_DIRECTIVES + 1))
    with pytest.raises(RulesInvalid, match=r"^a:1:1: more than 100 `%TAG` directives; remove them$"):
        read_yaml(f"{text}{separator}--- a", "a")


def test_an_overlong_known_release_is_a_fault() -> None:
    found = faults_of(overlaid({"releases.yaml": f'known: ["{"9" * 5000}"]\ndefault: "0.22.0"\n'}))
    assert any("expected a final release, got" in fault for fault in found)


def test_a_fact_with_a_slash_in_a_case_has_its_position() -> None:
    path = "upstream/example_test.yaml"
    text = (BROKEN / "base" / path).read_text().replace("{lora_config: {}}", "{a/b~c: 1}", 1)
    [fault] = faults_of(overlaid({path: text}))
    assert fault.startswith(f"{path}:3:50: unknown field `a/b~c`; legal: ")


# Catalogues of edited folders, whose unchanged files were read before.

RULE_PATH = "house/kv-connector-fallback.yaml"


@table(
    "changed",
    [
        {},
        {RULE_PATH: None},
        {RULE_PATH: "id: [\n"},
        {"releases.yaml": "known: ['0.22.0', '0.23.0']\ndefault: '0.23.0'\n"},
        {"house/other/kv-connector-fallback.yaml": RULE_PATH},
        {"upstream/a.yaml": rule_text("a", "no-such-effect", {VARIABLE: True})},
        {"images/zz.yaml": "images/vllm.yaml"},
    ],
    ids=str,
)
def test_a_catalogue_is_the_same_whether_or_not_unchanged_files_were_read_before(
    sources: Sources, catalogue: Catalogue, changed: dict[str, str | None]
) -> None:
    copied = {path: sources.rules.get(text or "", text) for path, text in changed.items()}
    edited = Sources({path: text for path, text in {**sources.rules, **copied}.items() if text is not None})

    def loaded(before: Catalogue | None) -> Any:
        try:
            found = load(edited, before=before)
        except RulesInvalid as error:
            return error.faults
        return found.revision, found.rules_by_release, found.conditions, found.request_rules, found.releases.images.rows

    assert loaded(catalogue) == loaded(None)
