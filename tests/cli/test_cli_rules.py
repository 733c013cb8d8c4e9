"""`runner-policy rules check|test|show`: reports in every format, exit codes, and a rule's history."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from files import replace_file
from representatives import slow_except

from policy.checks.check import faults_of
from policy.rules.loader import read_folder
from policy.rules.request_rule import RequestRule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

    from policy.rules.catalogue import Catalogue
    from policy.rules.rule import Rule

FORMATS = ["text", "json", "junit", "github"]
TOO_MANY_WAYS = "combine in 4096 ways, more than 16; split the rule, or use lists of values"
RULE = "house/kv-connector-fallback.yaml"
CASES = "house/kv-connector-fallback_test.yaml"


def edit(file: Path, old: str, new: str) -> str:
    """Change a file, and return the line and column of the change."""
    text = file.read_text()
    before, found, after = text.partition(old)
    assert found
    replace_file(file, before + new + after)
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def squeezed(text: str) -> list[str]:
    """The lines without styles, with two spaces between columns."""
    return [re.sub(r"\s{2,}", "  ", line).strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


# check


@pytest.mark.parametrize(
    ("form", "out"),
    [
        ("text", r"\d+ rules, 83 releases, sha256:[0-9a-f]{64}: ok\n"),
        ("json", r'\{"faults": \[\], "warnings": \[\]\}\n'),
        (
            "junit",
            (
                r"<\?xml .*\?>\n<testsuite name=\"rules check\" tests=\"1\" failures=\"0\"><testcase "
                r"classname=\"rules\" name=\"check\" /></testsuite>\n"
            ),
        ),
        ("github", r""),
    ],
)
def test_the_shipped_rules_pass_the_check(call: Callable[..., Done], form: str, out: str) -> None:
    done = call("rules", "check", "--format", form)
    assert (done.code, re.fullmatch(out, done.out) is not None) == (0, True), done.out


def test_the_folder_to_check_is_an_argument_a_flag_or_a_variable(call: Callable[..., Done], folder: Path) -> None:
    edit(folder / RULE, "effect: fallback-v1", "effect: none")
    ways = [
        call("rules", "check", str(folder)),
        call("rules", "check", "--rules", str(folder)),
        call("rules", "check", RUNNER_POLICY_RULES=str(folder)),
    ]
    assert [done.code for done in ways] == [3, 3, 3]
    assert ways[0].err == ways[1].err == ways[2].err


@pytest.fixture
def faults(folder: Path) -> list[tuple[str, int, int, str]]:
    """Faults of three files: path, line, column, message."""
    edit(folder / RULE, "kv_transfer_config: present", 'kv_transfer_config: "100%,\\nor so"')
    line, column = edit(folder / RULE, '"100%', '"100%').split(":")
    (folder / "house/broken.yaml").write_text("id: [\n")
    shutil.move(folder / "upstream/conditions/microbatching.yaml", folder / "stray.yaml")
    edit(folder / "stray.yaml", "id: microbatching", "id: stray")
    message = r"`kv_transfer_config` has no value to compare with `100%,\nor so`; its operators are `present`, `absent`"
    return [
        (
            f"{folder}/house/broken.yaml",
            1,
            5,
            "not YAML: the bracket `[` is not closed with `]`, or a comma is missing between its items",
        ),
        (f"{folder}/{RULE}", int(line), int(column), message),
        (f"{folder}/stray.yaml", 2, 1, "a rule file must be under `upstream/`, `house/`, `images/`; move it there"),
    ]


@pytest.fixture
def checked(call: Callable[..., Done], folder: Path, faults: list[tuple[str, int, int, str]]) -> Callable[[str], Done]:
    """Check the folder, without the rules that would have further faults because of these."""
    assert faults

    def check(form: str) -> Done:
        for use in [path for path in folder.rglob("*.yaml") if "uses: microbatching" in path.read_text()]:
            use.unlink()
        return call("rules", "check", str(folder), "--format", form)

    return check


def test_every_fault_is_a_line_with_file_line_and_column(
    checked: Callable[[str], Done], faults: list[tuple[str, int, int, str]]
) -> None:
    done = checked("text")
    assert (done.code, done.out, done.err.splitlines()) == (
        3,
        "",
        [f"{path}:{line}:{column}: {message}" for path, line, column, message in faults],
    )


def test_faults_as_json_have_their_positions(
    checked: Callable[[str], Done], faults: list[tuple[str, int, int, str]]
) -> None:
    done = checked("json")
    assert (done.code, done.err, json.loads(done.out)) == (
        3,
        "",
        {
            "faults": [
                {"path": path, "line": line, "column": column, "message": message}
                for path, line, column, message in faults
            ],
            "warnings": [],
        },
    )


def test_faults_as_junit_are_failed_cases(
    checked: Callable[[str], Done], faults: list[tuple[str, int, int, str]]
) -> None:
    done = checked("junit")
    suite = ET.fromstring(done.out.encode())
    assert (done.code, suite.attrib) == (3, {"name": "rules check", "tests": "3", "failures": "3"})
    assert [
        (case.get("classname"), case.get("name"), [failure.get("message") for failure in case]) for case in suite
    ] == [(path, f"{line}:{column}", [message]) for path, line, column, message in faults]


def test_faults_for_github_are_annotations(
    checked: Callable[[str], Done], faults: list[tuple[str, int, int, str]]
) -> None:
    done = checked("github")
    assert (done.code, done.err, done.out.splitlines()) == (
        3,
        "",
        [
            f"::error file={path},line={line},col={column}::{message.replace('%', '%25')}"
            for path, line, column, message in faults
        ],
    )


def test_annotations_name_files_relative_to_the_working_directory(run: Callable[..., Done], folder: Path) -> None:
    line = edit(folder / RULE, "effect: fallback-v1", "effect: none").partition(":")[0]
    done = run("rules", "check", "--format", "github", "--rules", folder.name, cwd=folder.parent)
    assert (done.code, done.out.partition("::unknown effect")[0]) == (
        3,
        f"::error file=policy/{RULE},line={line},col=9",
    )


PAST = "review_by: 2020-01-01\nuntil: 2020-01-01"


@pytest.mark.parametrize("form", slow_except(["text"], FORMATS))
@pytest.mark.parametrize(
    ("dates", "warning"),
    [
        (
            "review_by: 2020-01-01",
            (
                "to be reviewed by 2020-01-01; ask inference-platform whether "
                "https://github.com/vllm-project/vllm/issues/42846 is done, then remove the rule or move the date"
            ),
        ),
        (
            PAST,
            (
                "held until 2020-01-01, and no longer applies; remove the rule with its cases, "
                "or ask inference-platform for a later date"
            ),
        ),
    ],
    ids=["past its review", "ended"],
)
def test_a_past_date_of_a_house_rule_is_a_warning_and_not_a_fault(
    call: Callable[..., Done], folder: Path, form: str, dates: str, warning: str
) -> None:
    edit(folder / RULE, "review_by: 2027-06-30", dates)
    done = call("rules", "check", str(folder), "--format", form)
    line = f"{folder}/{RULE}:2:1: warning: {warning}\n"
    shown = {
        "text": done.err,
        "json": json.loads(done.out)["warnings"][0] + "\n" if form == "json" else "",
        "junit": line,
        "github": done.out.replace(f"::warning file={folder}/{RULE},line=2,col=1::", f"{folder}/{RULE}:2:1: "),
    }
    assert (done.code, shown[form]) == (0, line)


def test_the_cases_of_a_rule_that_has_ended_pass(call: Callable[..., Done], folder: Path) -> None:
    before = call("rules", "test", str(folder)).out
    edit(folder / RULE, "review_by: 2027-06-30", PAST)
    done = call("rules", "test", str(folder))
    assert (done.code, done.out) == (0, before)


def test_a_rule_is_shown_with_its_end(
    call: Callable[..., Done], on_terminal: Callable[..., tuple[int, str]], folder: Path
) -> None:
    edit(folder / RULE, "review_by: 2027-06-30", "review_by: 2099-01-01\nuntil: 2099-01-31")
    shown = squeezed(on_terminal("rules", "show", "kv-connector-fallback", "--rules", str(folder))[1])
    owner = "owner inference-platform, to be reviewed by 2099-01-01, blocked by "
    assert f"{owner}https://github.com/vllm-project/vllm/issues/42846, holds until 2099-01-31" in shown
    listed = squeezed(on_terminal("rules", "show", "--rules", str(folder))[1])
    [line] = [line for line in listed if "until" in line]
    assert (line.split()[0], line.endswith(">=0.22,<0.25, until 2099-01-31")) == ("kv-connector-fallback", True)
    document = json.loads(call("rules", "show", "kv-connector-fallback", "--rules", str(folder), "--json").out)
    assert document["until"] == "2099-01-31"


@pytest.mark.parametrize(
    ("dates", "runner", "warnings"),
    [
        ("review_by: 2099-01-31\nuntil: 2099-01-31", "v1", []),
        (
            PAST,
            "v2",
            [
                (
                    "the house rule `kv-connector-fallback` held until 2020-01-01, and no longer applies; "
                    "its owner is inference-platform"
                )
            ],
        ),
    ],
    ids=["ahead", "past"],
)
def test_decide_and_dry_run_leave_out_a_rule_that_has_ended(
    call: Callable[..., Done], folder: Path, dates: str, runner: str, warnings: list[str]
) -> None:
    edit(folder / RULE, "review_by: 2027-06-30", dates)
    facts = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": {}}
    request = json.dumps({"vllm_version": "0.23.0", "facts": facts})
    for command in ("decide", "dry-run"):
        done = call(command, "-", "--rules", str(folder), "--json", stdin=request)
        found = json.loads(done.out)
        assert (done.code, found["runner"], found["warnings"]) == (0, runner, warnings)


def test_a_rule_without_its_cases_is_a_fault(call: Callable[..., Done], folder: Path) -> None:
    (folder / CASES).unlink()
    done = call("rules", "check", str(folder))
    assert (done.code, done.err) == (
        3,
        (
            f"{folder}/{CASES}:1:1: missing; write the cases of `kv-connector-fallback` in it, at least one in "
            "`>=0.22,<0.25` that fires; a near miss, one in 0.22.0 to 0.24.0 that does not fire; one just outside the "
            "rule's releases, in 0.21.0 or 0.25.0, that does not fire\n"
        ),
    )


def test_a_condition_that_no_rule_uses_is_a_fault(call: Callable[..., Done], folder: Path) -> None:
    text = (folder / "upstream/conditions/microbatching.yaml").read_text().replace("id: microbatching", "id: lonely")
    (folder / "upstream/conditions/lonely.yaml").write_text(text)
    done = call("rules", "check", str(folder))
    assert (done.code, done.err) == (
        3,
        f"{folder}/upstream/conditions/lonely.yaml:2:1: no rule uses the condition `lonely`; remove the file\n",
    )


def test_a_condition_with_too_many_alternatives_is_a_fault_with_its_remedy(
    call: Callable[..., Done], folder: Path
) -> None:
    facts = ("model_config.is_moe", "parallel_config.enable_dbo", "model_config.is_hybrid", "platform.is_rocm")
    pairs = "".join(
        f"\n        - any: [{{{first}: true}}, {{{second}: true}}]"
        for first in facts
        for second in facts
        if first != second
    )
    edit(folder / RULE, "      kv_transfer_config: present", f"      kv_transfer_config: present\n      all:{pairs}")
    for command in (
        ["rules", "check", str(folder)],
        ["rules", "test", str(folder)],
        ["rules", "show", "--rules", str(folder)],
    ):
        done = call(*command)
        assert (done.code, done.out, done.err) == (
            3,
            "",
            f"{folder}/{RULE}:2:1: the alternatives of the condition {TOO_MANY_WAYS}\n",
        )


@pytest.mark.parametrize(
    "arguments",
    [["rules", "check"], ["rules", "test"], ["rules", "show"], ["decide", "-"], ["serve", "--port", "0"]],
    ids=" ".join,
)
def test_rules_with_too_many_comparisons_exit_with_3_and_name_the_limit(
    call: Callable[..., Done], small: Path, arguments: list[str]
) -> None:
    for number in range(5):
        name = f"architectures-{number}"
        conditions = "".join(
            f"\n        - model_config.architectures: {{has_none_of: [A{number}B{other}]}}" for other in range(60)
        )
        text = (
            SMALL["upstream/lora.yaml"]
            .replace("id: lora", f"id: {name}")
            .replace(">=0.23", ">=0.22")
            .replace(" {lora_config: present}", f"\n      all:{conditions}")
        )
        cases = [
            f"  - name: fires {fires}\n    vllm: [0.22.0]\n    given: {given}\n    fires: {fires}\n"
            for given, fires in ARCHITECTURE_CASES
        ]
        (small / f"upstream/{name}.yaml").write_text(text)
        (small / f"upstream/{name}_test.yaml").write_text(f"rule: {name}\ncases:\n" + "".join(cases))
    done = call(*arguments, "--rules", str(small))
    bound = r"(?:\S+:1:1: )?expected at most 200 different comparisons in a release, got 30[12]\n"
    assert (done.code, done.out, bool(re.fullmatch(bound, done.err))) == (3, "", True), done.err


# test


def test_the_shipped_cases_pass(run: Callable[..., Done]) -> None:
    done = run("rules", "test")
    assert (done.code, done.err, re.fullmatch(r"\d+ passed, 0 failed\n", done.out) is not None) == (0, "", True), (
        done.out
    )


SMALL = {
    "releases.yaml": "known: [0.22.0, 0.23.0]\ndefault: 0.23.0\n",
    "upstream/v2-by-default.yaml": """\
id: v2-by-default
title: V2 by default
effect: default-v2
why: No other rule applies.
references: [https://github.com/vllm-project/vllm/pull/39337]
releases:
  - vllm: ">=0.22"
    message: no other rule applies
    when: always
""",
    "upstream/v2-by-default_test.yaml": """\
rule: v2-by-default
cases:
  - name: alone
    vllm: [0.22.0, 0.23.0]
    given: {}
    fires: true
  - name: another rule decides
    vllm: [0.23.0]
    given: {lora_config: {}}
    fires: false
""",
    "upstream/lora.yaml": """\
id: lora
title: LoRA
effect: not-default
why: For the test.
references: [https://github.com/vllm-project/vllm/pull/39337]
releases:
  - vllm: ">=0.23"
    message: LoRA is on
    when: {lora_config: present}
""",
    "upstream/lora_test.yaml": """\
rule: lora
cases:
  - name: fires [red]100%[/red]
    vllm: [0.23.0]
    given: {lora_config: {}}
    fires: true
  - name: expects [bold]another[/bold] text
    vllm: [0.23.0]
    given: {lora_config: {}}
    fires: true
    message: another text
  - name: does not fire, 50%
    vllm: [0.23.0]
    given: {}
    fires: true
  - name: fires unexpectedly
    vllm: [0.23.0]
    given: {lora_config: {}}
    fires: false
  - name: outside
    vllm: [0.22.0]
    given: {lora_config: {}}
    fires: false
""",
}
ARCHITECTURE_CASES = [("{model_config: {}}", "true"), ("{}", "false")]
LORA = "upstream/lora_test.yaml"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A policy of two rules, with cases of which three fail."""
    for name, text in SMALL.items():
        path = tmp_path / "small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "small"


FAILED = [
    (7, "expects [bold]another[/bold] text", "0.23.0", "expected the text `another text`, got `LoRA is on`"),
    (12, "does not fire, 50%", "0.23.0", 'it does not fire: `lora_config` is "absent", expected "present"'),
    (16, "fires unexpectedly", "0.23.0", "it fires"),
]


def test_failed_cases_exit_with_1_and_a_table_of_the_results(run: Callable[..., Done], small: Path) -> None:
    done = run("rules", "test", small.name, cwd=small.parent)
    lines = squeezed(done.out)
    expected = [f"{small.name}/{LORA}:{line}  {release}  {found}" for line, _, release, found in FAILED]
    assert (done.code, done.err, lines[-1], [line for line in lines if line in expected]) == (
        1,
        "",
        "5 passed, 3 failed",
        expected,
    )
    assert [line for line in lines if line in {name for _, name, _, _ in FAILED}] == [name for _, name, _, _ in FAILED]


def test_the_table_of_failed_cases_has_the_width_of_the_terminal(run: Callable[..., Done], small: Path) -> None:
    piped, shown = (
        run("rules", "test", small.name, cwd=small.parent, **variables).out
        for variables in ({}, {"COLUMNS": "80", "FORCE_COLOR": "1", "NO_COLOR": "1"})
    )
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines() if set(line) != {"─"}]
    assert (max(map(len, piped.splitlines())) > 80, max(map(len, lines)) <= 80) == (True, True)
    assert sorted(" ".join(lines).split()) == sorted(word for word in piped.split() if set(word) != {"─"})


def test_failed_cases_as_json_have_their_positions(call: Callable[..., Done], small: Path) -> None:
    done = call("rules", "test", str(small), "--format", "json")
    report = json.loads(done.out)
    assert (done.code, done.err, report["passed"], report["failed"]) == (
        1,
        "",
        5,
        [
            {"rule": "lora", "case": name, "path": f"{small}/{LORA}", "line": line, "vllm": release, "found": found}
            for line, name, release, found in FAILED
        ],
    )


def test_cases_as_junit_have_a_case_for_each_release(call: Callable[..., Done], small: Path) -> None:
    done = call("rules", "test", str(small), "--format", "junit")
    suite = ET.fromstring(done.out.encode())
    found = [
        (case.get("name"), [failure.get("message") for failure in case])
        for case in suite
        if case.get("classname") == "lora"
    ]
    failed = {f"{name} [{release}]": [found] for _, name, release, found in FAILED}
    names = ["fires [red]100%[/red]", "expects [bold]another[/bold] text", "does not fire, 50%", "fires unexpectedly"]
    assert (done.code, suite.get("failures"), suite.get("tests"), found) == (
        1,
        "3",
        "8",
        [*((f"{name} [0.23.0]", failed.get(f"{name} [0.23.0]", [])) for name in names), ("outside [0.22.0]", [])],
    )


def test_failed_cases_for_github_are_annotations(call: Callable[..., Done], small: Path) -> None:
    done = call("rules", "test", str(small), "--format", "github")
    assert (done.code, done.err, done.out.splitlines()) == (
        1,
        "",
        [
            f"::error file={small}/{LORA},line={line}::{name.replace('%', '%25')} ({release}): {found}"
            for line, name, release, found in FAILED
        ],
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rule: lora", "rule: lorra", "1:7: expected the cases of `lorra` in `lorra_test.yaml`"),
        ("rule: lora\n", "rule: lora\nrule: x\n", "2:1: duplicate key `rule`; keep one, or merge the two"),
        ("fires: true", "fires: yes please", "6:12: expected `true` or `false`, got `yes please`"),
        ("vllm: [0.23.0]", "vllm: [0.24.0]", "4:12: "),
        ("lora_config: {}}", "lora_config: 1}", "5:13: `1` is not legal for `lora_config`"),
        ("lora_config:", "lora_confg:", "5:13: unknown field `lora_confg`"),
    ],
)
@pytest.mark.parametrize("command", ["check", "test"])
def test_unreadable_cases_exit_with_3(
    call: Callable[..., Done], small: Path, command: str, old: str, new: str, message: str
) -> None:
    edit(small / LORA, old, new)
    done = call("rules", command, str(small))
    assert (done.code, done.out, done.err.startswith(f"{small}/{LORA}:{message}")) == (3, "", True), done.err


# show


def test_a_rule_s_history_is_a_table_over_the_releases(on_terminal: Callable[..., tuple[int, str]]) -> None:
    code, out = on_terminal("rules", "show", "parallel-drafting", NO_COLOR="1")
    lines = squeezed(out)
    table = lines[lines.index("releases  known releases in it  feature  when") + 2 :]
    assert (code, lines[0], lines[1]) == (
        0,
        "parallel-drafting  upstream  exclude-v2  upstream/v2/parallel-drafting.yaml",
        "Parallel drafting for speculative decoding",
    )
    assert table[:4] == [
        (
            ">=0.22,<0.24  0.22.0, 0.22.1, 0.23.0  parallel drafting for speculative decoding  "
            "speculative_config.parallel_drafting: true"
        ),
        (
            ">=0.24,<0.25  0.24.0  parallel drafting for EAGLE speculative decoding  "
            "speculative_config.parallel_drafting: true"
        ),
        "speculative_config.method:",
        "is_not: dflash",
    ]
    assert table[-2:] == [
        "https://github.com/vllm-project/vllm/pull/43010",
        "https://github.com/vllm-project/vllm/pull/44816",
    ]


def test_a_house_rule_s_history_names_its_owner(on_terminal: Callable[..., tuple[int, str]]) -> None:
    code, out = on_terminal("rules", "show", "kv-connector-fallback", NO_COLOR="1")
    owner = (
        "owner inference-platform, to be reviewed by 2027-06-30, blocked by "
        "https://github.com/vllm-project/vllm/issues/42846"
    )
    assert (code, owner in squeezed(out), "remedy: drop `--kv-transfer-config`" in "\n".join(squeezed(out))) == (
        0,
        True,
        True,
    )


def test_every_rule_has_a_history_to_show(call: Callable[..., Done], catalogue: Catalogue) -> None:
    from policy import render  # noqa: PLC0415  # one command per rule would take a minute

    rules: list[Rule | RequestRule] = [*catalogue.rules, *catalogue.request_rules]
    for rule in rules:
        text = render.as_text(render.history_of(rule, catalogue))
        effect = rule.effect if isinstance(rule, RequestRule) else rule.effect.name
        assert text.split()[:4] == [rule.id, str(rule.layer), effect, rule.path]
        assert all(part.span.text in text for part in rule.ranges)
        assert all(gap.text in text for gap, _ in rule.gaps)
    assert call("rules", "show", catalogue.rules[0].id).code == 0


def test_in_a_pipe_a_rule_is_the_service_s_document(call: Callable[..., Done], root: Path) -> None:
    done = call("rules", "show", "kv-connector-fallback")
    document = json.loads(done.out)
    assert (done.code, done.err, document["id"], document["layer"], (root / "rules" / document["file"]).is_file()) == (
        0,
        "",
        "kv-connector-fallback",
        "house",
        True,
    )


def test_without_an_id_all_rules_are_listed_in_order_of_precedence(
    call: Callable[..., Done], catalogue: Catalogue
) -> None:
    done = call("rules", "show")
    assert (done.code, [rule["id"] for rule in json.loads(done.out)]) == (
        0,
        [rule.id for rule in catalogue.in_order()] + [rule.id for rule in catalogue.request_rules_in_order()],
    )


@pytest.mark.parametrize("version", ["0.24.0", "v0.24.1"])
def test_the_rules_of_one_release_are_listed(call: Callable[..., Done], catalogue: Catalogue, version: str) -> None:
    done = call("rules", "show", "--vllm-version", version)
    rules = json.loads(done.out)
    assert (done.code, [rule["id"] for rule in rules], {len(rule["releases"]) for rule in rules}) == (
        0,
        [item.rule.id for item in catalogue.rules_of("0.24.0")]
        + [item.rule.id for item in catalogue.request_rules_of("0.24.0")],
        {1},
    )


def test_on_a_terminal_each_rule_is_one_line(on_terminal: Callable[..., tuple[int, str]], catalogue: Catalogue) -> None:
    code, out = on_terminal("rules", "show", "--vllm-version", "0.23.0", NO_COLOR="1", COLUMNS="300")
    lines = squeezed(out)
    assert (code, lines[0], [line.split("  ")[0] for line in lines[2:] if line]) == (
        0,
        "rule  layer  effect  title  releases",
        [item.rule.id for item in catalogue.rules_of("0.23.0")]
        + [item.rule.id for item in catalogue.request_rules_of("0.23.0")],
    )


def test_on_a_terminal_the_json_flag_prints_json(on_terminal: Callable[..., tuple[int, str]]) -> None:
    code, out = on_terminal("rules", "show", "moe", "--json")
    assert (code, json.loads(out)["id"]) == (0, "moe")


def test_a_rule_is_shown_for_one_release(call: Callable[..., Done]) -> None:
    done = call("rules", "show", "parallel-drafting", "--vllm-version", "0.24.0")
    assert (done.code, [part["vllm"] for part in json.loads(done.out)["releases"]]) == (0, [">=0.24,<0.25"])


def test_a_rule_that_is_not_in_force_in_a_release_is_wrong_usage(call: Callable[..., Done]) -> None:
    done = call("rules", "show", "kv-connector-fallback", "--vllm-version", "0.25.0")
    assert (done.code, done.out, done.err) == (2, "", "the rule `kv-connector-fallback` is not in force in 0.25.0\n")


# two small rules

V2_RULE = """\
id: v2
title: V2
effect: default-v2
why: Because.
references: [https://example.org]
releases: [{vllm: ">=0.22", message: V2, when: always}]
"""
MOE_RULE = """\
id: moe
title: Experts
effect: not-default
why: Because.
references: [https://example.org]
releases: [{vllm: ">=0.22", message: V1, when: {model_config.is_moe: true}}]
"""
V2_CASES = """\
rule: v2
cases:
  - {name: no facts, vllm: [0.22.0], given: {}, fires: true}
  - {name: the variable, vllm: [0.22.0], given: {model_config: {is_moe: true}}, fires: false}
"""
MOE_CASES = """\
rule: moe
cases:
  - {name: experts, vllm: [0.22.0], given: {model_config: {is_moe: true}}, fires: true, starts: true}
  - {name: none, vllm: [0.22.0], given: {model_config: {is_moe: false}}, fires: false}
"""


@pytest.fixture
def two_rules(tmp_path: Path) -> Path:
    (tmp_path / "upstream").mkdir()
    texts = {
        "releases": "known: [0.22.0]\ndefault: 0.22.0\n",
        "upstream/v2": V2_RULE,
        "upstream/moe": MOE_RULE,
        "upstream/v2_test": V2_CASES,
        "upstream/moe_test": MOE_CASES,
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


# rules that a service loads

UNUSED_CONDITION = """\
id: lonely
why: No rule uses it.
releases: [{vllm: ">=0.22", when: {model_config.is_moe: true}}]
"""
CHANGES: dict[str, dict[str, str | None]] = {
    "nothing": {},
    "an unused condition": {"upstream/conditions/lonely": UNUSED_CONDITION},
    "a case that fails": {"upstream/moe_test": MOE_CASES.replace("starts: true", "starts: false")},
    "no cases": {"upstream/moe_test": None},
    "cases of no rule": {"upstream/moe": None},
    "an unused condition and no cases": {"upstream/conditions/lonely": UNUSED_CONDITION, "upstream/moe_test": None},
    "an unused condition and a case that fails": {
        "upstream/conditions/lonely": UNUSED_CONDITION,
        "upstream/moe_test": MOE_CASES.replace("starts: true", "starts: false"),
    },
    "no releases": {"releases": None},
    "no YAML": {"upstream/moe": "id: [\n"},
    "an unknown fact": {"upstream/moe": MOE_RULE.replace("is_moe", "is_mo")},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_service_refuses_rules_that_fail_check_or_test_with_the_same_faults(
    call: Callable[..., Done], two_rules: Path, change: str
) -> None:
    for name, text in CHANGES[change].items():
        path = two_rules / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text) if text is not None else path.unlink()
    checked, tested = (
        json.loads(call("rules", command, str(two_rules), "--format", "json").out or "{}")
        for command in ("check", "test")
    )
    wrong = [f"{fault['path']}:{fault['line']}:{fault['column']}: {fault['message']}" for fault in checked["faults"]]
    failed = [
        f"{each['path']}:{each['line']}:1: the case `{each['case']}` fails at {each['vllm']}: {each['found']}"
        for each in tested.get("failed", [])
    ]
    assert (change == "nothing") is not bool(wrong + failed)
    assert [f"{two_rules}/{fault}" for fault in faults_of(read_folder(two_rules), None)] == wrong + failed


def test_a_fault_without_a_file_has_no_position(two_rules: Path) -> None:
    (fault,) = faults_of(read_folder(two_rules), "9.9.9")
    assert fault.startswith("unknown release `9.9.9`")


# test --mutate


@pytest.mark.slow
def test_every_mutant_of_a_shipped_rule_is_killed_or_accepted(call: Callable[..., Done]) -> None:
    done = call("rules", "test", "--mutate")
    assert (
        done.code,
        done.err,
        re.fullmatch(r"\d+ mutants: \d+ killed, \d+ accepted, 0 survived\n", done.out) is not None,
    ) == (0, "", True)


@pytest.mark.parametrize(
    ("form", "out"),
    [
        ("text", "1 mutant: 1 killed, 0 accepted, 0 survived\n"),
        ("json", '{"mutants": 1, "survived": [], "accepted": [], "outdated": []}\n'),
        ("github", ""),
    ],
)
def test_killed_mutants_are_ok(call: Callable[..., Done], two_rules: Path, form: str, out: str) -> None:
    done = call("rules", "test", str(two_rules), "--mutate", "--format", form)
    assert (done.code, done.out, done.err) == (0, out, "")
    assert 'tests="1" failures="0"' in call("rules", "test", str(two_rules), "--mutate", "--format", "junit").out


def test_a_surviving_mutant_and_an_outdated_acceptance_are_faults(call: Callable[..., Done], two_rules: Path) -> None:
    rule, cases = two_rules / "upstream/moe.yaml", two_rules / "upstream/moe_test.yaml"
    edit(rule, "is_moe: true", "is_moe: true, ec_transfer_config: absent")
    cases.write_text(MOE_CASES + "accepted_mutants:\n  - {vllm: '>=0.22', change: 'when: nothing', why: Because.}\n")
    change = "when: without `ec_transfer_config: absent`"
    faults = [
        (
            f"{rule}",
            1,
            (
                f"`>=0.22`: {change}: no case fails; add one that does, or explain the mutant under `accepted_mutants` "
                "in the file of cases"
            ),
        ),
        (f"{cases}", 6, "`>=0.22`: when: nothing: a case kills it, or moe has no such mutant; remove the entry"),
    ]
    done = {form: call("rules", "test", str(two_rules), "--mutate", "--format", form) for form in FORMATS}
    assert {form: answer.code for form, answer in done.items()} == dict.fromkeys(FORMATS, 1)
    assert done["github"].out.splitlines() == [
        f"::error file={path},line={line},col=1::{message}" for path, line, message in faults
    ]
    assert done["text"].err.splitlines() == [f"{path}:{line}:1: {message}" for path, line, message in faults]
    assert done["text"].out == "2 mutants: 1 killed, 0 accepted, 1 survived\n"
    assert json.loads(done["json"].out)["survived"] == [{"item": "moe", "vllm": ">=0.22", "change": change}]
    assert 'tests="2" failures="2"' in done["junit"].out


def test_a_case_may_claim_whether_vllm_starts_and_no_rule_is_mutated_if_one_fails(
    call: Callable[..., Done], two_rules: Path
) -> None:
    edit(two_rules / "upstream/moe_test.yaml", "starts: true", "starts: false")
    done = call("rules", "test", str(two_rules), "--format", "json")
    assert (done.code, json.loads(done.out)["failed"][0]["found"]) == (1, "vLLM starts")
    done = call("rules", "test", str(two_rules), "--mutate")
    assert (done.code, "3 passed, 1 failed" in done.out, "mutants" in done.out) == (1, True, False)
