"""`runner-policy rules prove|diff`: reports in every format, exit codes, revisions, fleets."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dulwich import porcelain
from files import CopiedFolder, replace_file
from processes import forked_program
from representatives import slow_except
from ruletexts import rule_text

from policy.cli import edit_report
from policy.cli.edit_report import summary
from policy.proof.difference import Difference, ProofOutcome
from policy.proof.documents import edit_document
from policy.proof.edit import Edit, EditEffect, FleetCount, FleetOutcome, RequestEffect
from policy.proof.requests import RequestDifference, RequestOutcome
from policy.render import as_text
from policy.rules.changes import ItemChange
from policy.rules.request_rule import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from api.conftest import Done

    from policy.policy import Policy

RULE = "house/kv-connector-fallback.yaml"
NARROW = ("kv_transfer_config: present", "kv_transfer_config.kv_connector: {in: [NixlConnector]}")
QWEN = {"architectures": ["Qwen3ForCausalLM"]}
SMALLEST = {"model_config": QWEN, "kv_transfer_config": {}}
V1, V2 = (ProofOutcome(runner, "default", True, ()) for runner in ("v1", "v2"))
EFFECT = EditEffect(("0.22.0",), Difference("moe", ("moe",), {}, V1, V2))


def without(folder: str, names: list[str]) -> set[str]:
    """What is not copied: known problems, which would be in most reasons, cases, and most rules about requests.

    No comparison here needs the rest, and to commit and read it would take half of the time.
    """
    is_of_requests = folder.endswith("/requests")
    left_out = {name for name in names if is_of_requests and not name.startswith("bad-words-")}
    return left_out | {name for name in names if name == "known-problems" or name.endswith("_test.yaml")}


@pytest.fixture(scope="session")
def committed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> CopiedFolder:
    """A repository with the shipped rules, without known problems, in one commit, to copy.

    Its objects are in one file: to write 600 for each test would take longer than most of them.
    """
    repository = tmp_path_factory.mktemp("committed") / "repository"
    shutil.copytree(root / "rules", repository / "policy" / "rules", ignore=without)
    porcelain.init(str(repository)).close()
    commit(repository)
    porcelain.repack(str(repository))
    for emptied in (repository / ".git" / "objects").glob("??"):
        emptied.rmdir()
    return CopiedFolder(repository)


@pytest.fixture
def folder(committed: CopiedFolder, tmp_path: Path) -> Iterator[Path]:
    """A copy of the shipped rules, without known problems, at ``policy/rules`` of a repository with one commit."""
    yield committed.copy_to(tmp_path / "repository") / "policy" / "rules"
    assert committed.is_unchanged(), "the test wrote into a file, which is that of all copies: use `replace_file`"


def commit(repository: Path) -> None:
    porcelain.add(str(repository), [str(path) for path in repository.rglob("*.yaml")])
    porcelain.commit(str(repository), message=b"Change", author=b"A <a@example.org>", committer=b"A <a@example.org>")


def narrow(folder: Path) -> None:
    text = (folder / RULE).read_text()
    assert NARROW[0] in text
    replace_file(folder / RULE, text.replace(*NARROW))


def changes(done: Done) -> list[tuple[list[str], str, str | None, str | None, dict[str, Any]]]:
    return [
        (item["releases"], item["rule"], item["from"]["runner"], item["to"]["runner"], item["facts"])
        for item in json.loads(done.out)["changes"]
    ]


LIMIT_RULE = "upstream/requests/bad-words-limit.yaml"
ONE_MORE = {"request": {"bad_words": 128}}


@pytest.fixture
def edited_requests(folder: Path) -> Path:
    """The rules, in which one about requests is edited: it holds for one word less."""
    text = (folder / LIMIT_RULE).read_text()
    assert "more_than: 128" in text
    replace_file(folder / LIMIT_RULE, text.replace("more_than: 128", "more_than: 127"))
    return folder


def test_an_edited_rule_about_requests_shows_the_smallest_requests(
    call: Callable[..., Done], edited_requests: Path
) -> None:
    done = call("rules", "diff", "HEAD", "--rules", str(edited_requests), "--exit-code")
    lines = done.out.splitlines()
    assert done.code == 1
    assert lines[:6] == [
        "bad-words-limit (upstream, request-kills-engine)",
        "  0.22.0–0.27.1: only if request.bad_words is more than 127; before: only if it is more than 128",
        "",
        "Requests with another answer",
        "  bad-words-limit: request fine → kills-engine with V2, 0.22.0–0.27.1",
        f"    e.g. {json.dumps(ONE_MORE)}",
    ]
    assert lines[-2] == "no deployment is affected (proved)"
    assert lines[-1].endswith("classes of requests are affected, by bad-words-limit")


def test_an_edited_rule_about_requests_is_reported_in_every_format(
    call: Callable[..., Done], edited_requests: Path
) -> None:
    out = {
        form: call("rules", "diff", "HEAD", "--rules", str(edited_requests), "--format", form).out
        for form in ("json", "markdown", "github")
    }
    document = json.loads(out["json"])
    assert document["requests"][0] == {
        "releases": ["0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1"],
        "rule": "bad-words-limit",
        "rules": ["bad-words-limit"],
        "facts": ONE_MORE,
        "from": {
            "v1": {"verdict": "fine", "rules": []},
            "v2": {"verdict": "fine", "rules": ["bad-words-near-limit"]},
        },
        "to": {
            "v1": {"verdict": "fine", "rules": []},
            "v2": {"verdict": "kills-engine", "rules": ["bad-words-limit", "bad-words-near-limit"]},
        },
    }
    assert [(edit["id"], edit["kind"]) for edit in document["edits"]] == [("bad-words-limit", "request-rule")]
    row = f"| `bad-words-limit` | request fine → kills-engine with V2 | 0.22.0–0.27.1 | `{json.dumps(ONE_MORE)}` |"
    assert row in out["markdown"].splitlines()
    notice = (
        f"::notice file={edited_requests / LIMIT_RULE},line=2,col=1::Requests with another answer, 0.22.0–0.27.1: "
        f"request fine → kills-engine with V2, e.g. {json.dumps(ONE_MORE)}"
    )
    assert notice in out["github"].splitlines()


def test_unedited_rules_are_proved_to_change_nothing(call: Callable[..., Done], folder: Path) -> None:
    done = call("rules", "diff", "HEAD", "--rules", str(folder), "--exit-code")
    assert (done.code, done.out) == (0, "no deployment is affected (proved)\n")


def test_narrowing_a_rule_shows_its_class(call: Callable[..., Done], folder: Path) -> None:
    narrow(folder)
    done = call("rules", "diff", "HEAD", "--rules", str(folder), "--format", "json")
    found = changes(done)
    assert done.code == 0
    assert (["0.22.0", "0.22.1"], "kv-connector-fallback", "v1", "v2", SMALLEST) in found
    assert {rule for _, rule, *_ in found} == {"kv-connector-fallback"}


@pytest.mark.slow
def test_revisions_and_folders_give_the_same_comparison(
    call: Callable[..., Done], folder: Path, tmp_path: Path
) -> None:
    before = str(shutil.copytree(folder, tmp_path / "before"))
    narrow(folder)
    commit(folder.parent.parent)
    ways = [["HEAD~1", "HEAD"], ["HEAD~1"], [before, "HEAD"], [before, str(folder)]]
    found = [changes(call("rules", "diff", *way, "--rules", str(folder), "--format", "json")) for way in ways]
    assert found[0]
    assert found == [found[0]] * len(ways)


@pytest.mark.parametrize(
    ("edit", "fleet", "sentences"),
    [
        (
            Edit({"0.22.0": "0.22.0"}, (), (EFFECT,)),
            FleetCount(1, 1, 0, 1, 0, {"a": (FleetOutcome("v2", starts=True), FleetOutcome("v2", starts=False))}, {}),
            [
                "1 class of deployments is affected, by moe, in 1 of 1 release",
                "of 1 deployment, 1 changes (runner: 0, start: 1), and 0 could not be decided",
                "changes: a: V2 → V2 (fails to start)",
            ],
        ),
        (
            Edit({"0.22.0": "0.22.0", "0.23.0": "0.22.0"}, (), (EFFECT, EFFECT)),
            FleetCount(0, 0, 0, 0, 0, {}, {}),
            [
                "2 classes of deployments are affected, by moe, in 1 of 2 releases",
                "0.23.0 is new, and compared with 0.22.0",
                "of 0 deployments, 0 change (runner: 0, start: 0), and 0 could not be decided",
            ],
        ),
    ],
)
def test_the_summary_has_singular_and_plural(edit: Edit, fleet: FleetCount, sentences: list[str]) -> None:
    assert list(summary(edit, fleet)) == sentences


def test_the_full_report_has_each_class_with_releases_rule_runner_reasons_and_deployment(
    call: Callable[..., Done], folder: Path
) -> None:
    narrow(folder)
    done = call("rules", "diff", "HEAD", "--rules", str(folder), "--exit-code", "--full")
    lines = done.out.splitlines()
    assert done.code == 1
    assert lines[11:15] == [
        "0.22.0–0.22.1",
        "  kv-connector-fallback: V1 → V2",
        "    - kv-connector-fallback (fallback-v1), + v2-by-default (default-v2)",
        f"    {json.dumps(SMALLEST)}",
    ]
    assert re.fullmatch(
        r"\d+ classes of deployments are affected, by kv-connector-fallback, in 4 of 83 releases", lines[-1]
    )


@pytest.mark.slow
def test_markdown_is_a_table_for_a_pull_request(call: Callable[..., Done], folder: Path) -> None:
    narrow(folder)
    lines = call("rules", "diff", "HEAD", "--rules", str(folder), "--format", "markdown").out.splitlines()
    assert lines[0] == "## What this edit of the rules changes"
    assert lines[9] == (
        "| `kv-connector-fallback` | V1 → V2 | 4 releases: 0.22.0–0.24.0 | "
        f"in 0.22.0–0.22.1: `{json.dumps(SMALLEST)}` |"
    )
    every_class = (
        "| 0.22.0–0.22.1 | `kv-connector-fallback` | V1 → V2 | - kv-connector-fallback (fallback-v1)<br>+ "
        f"v2-by-default (default-v2) | `{json.dumps(SMALLEST)}` |"
    )
    full = call("rules", "diff", "HEAD", "--rules", str(folder), "--format", "markdown", "--full").out.splitlines()
    assert (lines.count(every_class), full.count(every_class)) == (1, 1)
    assert (lines.count("</details>"), full.count("</details>")) == (2, 0)


def test_github_annotations_are_notices_at_the_rule(call: Callable[..., Done], folder: Path) -> None:
    narrow(folder)
    lines = call("rules", "diff", "HEAD", "--rules", str(folder), "--format", "github").out.splitlines()
    prefix = f"::notice file={folder / RULE},line=2,col=1::"
    assert lines[0] == (
        f"{prefix}kv-connector-fallback (house, fallback-v1): 0.22.0–0.24.0: "
        "only if kv_transfer_config.kv_connector is NixlConnector; before: any or none"
    )
    smallest = f"e.g. in 0.22.0–0.22.1: {json.dumps(SMALLEST)}"
    assert lines[2:] == [
        f"{prefix}Deployments with another runner, 0.22.0–0.24.0: V1 → V2, {smallest}",
        "::notice::Same runner and start, other reasons or texts: 4 classes, by kv-connector-fallback",
    ]
    assert (
        call("rules", "diff", str(folder), "--rules", str(folder), "--format", "github").out
        == "::notice::no deployment is affected (proved)\n"
    )


@pytest.mark.slow
def test_one_run_gives_notices_and_markdown(call: Callable[..., Done], folder: Path, tmp_path: Path) -> None:
    narrow(folder)
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    compared = ("rules", "diff", "HEAD", "--rules", str(folder), "--format")
    both = call(*compared, "github", "--markdown", str(summary))
    assert (both.code, both.out) == (0, call(*compared, "github").out)
    assert summary.read_text() == "before\n" + call(*compared, "markdown").out


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_markdown_on_standard_output_overwrites_nothing_in_a_file(root: Path, tmp_path: Path, mode: str) -> None:
    printed = tmp_path / "printed"
    printed.write_text("before\n")
    command = [str(forked_program(tmp_path)), "rules", "diff", str(root / "rules")]
    shell = f"{shlex.join([*command, '--format', 'github', '--markdown', '-'])} && echo after"
    with printed.open(mode) as out:
        out.write(b"first\n" * 20)
        out.flush()
        subprocess.run(["sh", "-c", shell], cwd=root, stdout=out, check=True)
    lines = printed.read_text().splitlines()
    assert [line for line in lines if line not in {"before", "first"}] == [
        "## What this edit of the rules changes",
        "",
        "- no deployment is affected (proved)",
        "::notice::no deployment is affected (proved)",
        "after",
    ]
    assert lines.count("first") == 20


def test_markdown_that_cannot_be_written_exits_with_2(call: Callable[..., Done], folder: Path, tmp_path: Path) -> None:
    done = call("rules", "diff", "HEAD", "--rules", str(folder), "--markdown", str(tmp_path))
    assert (done.code, done.err) == (2, f"{tmp_path}: cannot be written: Is a directory\n")


@pytest.mark.slow
def test_a_removed_rule_is_annotated_at_its_former_file(call: Callable[..., Done], folder: Path, root: Path) -> None:
    (folder / RULE).unlink()
    lines = call("rules", "diff", str(root / "rules"), "--rules", str(folder), "--format", "github").out.splitlines()
    removed, affected = lines[0], next(line for line in lines if "Deployments with another runner" in line)
    assert removed == (
        f"::notice file={folder / RULE},line=2,col=1::kv-connector-fallback (house, fallback-v1): "
        "removed, 0.22.0–0.24.0: if kv_transfer_config is present"
    )
    assert affected.startswith(
        f"::notice file={folder / RULE},line=2,col=1::Deployments with another runner, 0.22.0–0.24.0: V1 → V2"
    )


def group(number: int, *, starts: bool = True) -> EditEffect:
    """An effect that forms a separate group."""
    before = ProofOutcome("v1", "default", starts=True, reasons=())
    return EditEffect(("0.22.0",), Difference(f"rule-{number}", (), {}, before, replace(V2, starts=starts)))


def test_only_the_worst_of_many_groups_are_shown_and_the_others_are_counted() -> None:
    found = Edit({"0.22.0": "0.22.0"}, (), (*map(group, range(11)), group(11, starts=False)))
    text = as_text(edit_report.edit(found, None)).splitlines()
    assert text[:2] == ["Deployments that no longer start", "  rule-11: V1 → V2 (fails to start), 0.22.0"]
    more = text.index("2 more groups of deployments; `--full` lists every class")
    assert text[more - 2] == "  rule-8: V1 → V2, 0.22.0"
    assert "2 more groups of deployments; all classes are below." in edit_report.markdown(found, None)
    assert "rule-10: V1 → V2" in as_text(edit_report.edit(found, None, full=True))


def test_a_change_of_vllms_own_decision_that_house_rules_hide_is_a_group_of_its_own() -> None:
    alone = replace(V2, reasons=(("refuse", "refuse-v2"),), starts=False)
    change = Difference("refuse", (), {}, replace(V1, upstream=V2), replace(V1, upstream=alone))
    found = Edit({"0.22.0": "0.22.0"}, (), (EditEffect(("0.22.0",), change), group(1)))
    assert as_text(edit_report.edit(found, None)).splitlines()[3:6] == [
        "Deployments that vLLM alone decides otherwise",
        "  refuse: V1 (vLLM alone: V2 → V2 (fails to start)), 0.22.0",
        "    e.g. {}",
    ]
    assert as_text(edit_report.edit(found, None, full=True)).splitlines()[1:3] == [
        "  refuse: V1 (vLLM alone: V2 → V2 (fails to start))",
        "    + refuse (refuse-v2)",
    ]
    document = edit_document(found, None)
    assert document["changes"][0]["to"] == {
        "runner": "v1",
        "outcome": "default",
        "starts": True,
        "reasons": [],
        "upstream": {
            "runner": "v2",
            "outcome": "default",
            "starts": False,
            "reasons": [{"rule": "refuse", "effect": "refuse-v2"}],
        },
    }
    assert (document["groups"][1]["consequence"], document["groups"][1]["upstream"]) == (
        "other-upstream",
        {"from": {"runner": "v2", "starts": True}, "to": {"runner": "v2", "starts": False}},
    )


def of_requests(number: int) -> RequestEffect:
    """An effect on requests to an engine, of a rule of its own."""
    before, after = (RequestOutcome((verdict, Verdict.FINE), ()) for verdict in (Verdict.FINE, Verdict.REFUSED))
    return RequestEffect(("0.22.0",), RequestDifference(f"request-{number}", (), {}, before, after))


def test_of_many_changed_rules_and_classes_of_requests_the_first_are_shown_and_the_others_counted(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_report, "MAX_CHANGES", 2)
    changes = tuple(ItemChange(None, rule, ()) for rule in policy.catalogue.rules[:5])
    found = Edit({"0.22.0": "0.22.0"}, (), (), changes, request_effects=tuple(map(of_requests, range(12))))
    text, full = (as_text(edit_report.edit(found, None, full=full)) for full in (False, True))
    markdown, all_markdown = (edit_report.markdown(found, None, full=full) for full in (False, True))
    notices = [*edit_report.notices(found, tmp_path, policy.catalogue, policy.catalogue)]
    assert "\n3 more rules and conditions are changed; `--full` lists them\n" in text
    assert "\n2 more classes of requests; `--full` lists them\n" in text
    assert "\n- 3 more rules and conditions are changed\n" in markdown
    assert markdown.endswith("\n\n2 more classes of requests.")
    assert notices[-2:] == [
        "::notice::3 more rules and conditions are changed; `--format json` has all",
        "::notice::2 more classes of requests; `--format json` has all",
    ]
    for shown, cut in ((full, text), (all_markdown, markdown)):
        assert [shown.count(f"request-{number}") for number in (9, 10, 11)] == [1, 1, 1]
        assert [cut.count(f"request-{number}") for number in (9, 10, 11)] == [1, 0, 0]
        assert "more" not in shown


def test_markdown_of_a_large_edit_has_the_length_of_a_comment() -> None:
    found = Edit({"0.22.0": "0.22.0"}, (), tuple(map(group, range(2_000))))
    for full in (False, True):
        lines = edit_report.markdown(found, None, full=full).splitlines()
        left = re.fullmatch(r"([\d,]+) more lines are left out: a comment has a maximum length\.", lines[-1])
        assert left is not None
        assert sum(map(len, lines)) < 62_000
        assert sum(line.startswith("| 0.22.0 | `rule-") for line in lines) + int(left[1].replace(",", "")) == 2_000
        assert sum(line.startswith("<details>") for line in lines) == lines.count("</details>")


def test_json_has_every_class_the_groups_and_the_edits_in_words(call: Callable[..., Done], folder: Path) -> None:
    narrow(folder)
    found = json.loads(call("rules", "diff", "HEAD", "--rules", str(folder), "--format", "json").out)
    assert [set(change) for change in found["changes"]] == [{"releases", "rule", "rules", "facts", "from", "to"}] * 9
    assert [(each["consequence"], each["classes"]) for each in found["groups"]] == [
        ("breaks-start", 2),
        ("other-runner", 3),
        ("other-reasons", 1),
        ("other-reasons", 1),
        ("other-reasons", 2),
    ]
    releases = ["0.22.0", "0.22.1", "0.23.0", "0.24.0"]
    assert found["groups"][1] == {
        "consequence": "other-runner",
        "rule": "kv-connector-fallback",
        "from": {"runner": "v1", "starts": True},
        "to": {"runner": "v2", "starts": True},
        "releases": releases,
        "classes": 3,
        "example": {"releases": ["0.22.0", "0.22.1"], "facts": SMALLEST},
    }
    words = "only if kv_transfer_config.kv_connector is NixlConnector; before: any or none"
    assert (found["edits"], found["default_release"]) == (
        [
            {
                "id": "kv-connector-fallback",
                "kind": "rule",
                "file": RULE,
                "change": "changed",
                "fields": [{"field": "when", "releases": releases, "text": [words]}],
            }
        ],
        None,
    )


FLEET = [
    {
        "request_id": "kv",
        "vllm_version": "0.22.0",
        "facts": {"model_config": QWEN, "kv_transfer_config": {"kv_connector": "Mooncake"}},
    },
    {
        "request_id": "nixl",
        "vllm_version": "0.22.0",
        "facts": {"model_config": QWEN, "kv_transfer_config": {"kv_connector": "NixlConnector"}},
    },
    {"facts": {"model_config": QWEN, "kv_transfer_config": {"kv_connector": "Mooncake"}}, "vllm_version": "0.33.0"},
    {"facts": {"no_such": 1}},
]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "vllm/vllm-openai:v0.22.0",
                "args": [
                    "--model",
                    "m",
                    "--kv-transfer-config",
                    '{"kv_connector": "ExampleConnector", "kv_role": "kv_both"}',
                ],
            }
        ]
    },
}
TO_V2 = [{"runner": "v1", "starts": True}, {"runner": "v2", "starts": True}]
COUNTED = {"deployments": 4, "changed": 1, "runner": 1, "starts": 0, "undecided": 1, "first": {"kv": TO_V2}}


@pytest.mark.slow
@pytest.mark.parametrize("lines", slow_except([True], [True, False]))
def test_a_fleet_is_counted(call: Callable[..., Done], folder: Path, tmp_path: Path, *, lines: bool) -> None:
    narrow(folder)
    file = tmp_path / "fleet.json"
    file.write_text("\n".join(map(json.dumps, FLEET)) if lines else json.dumps(FLEET, indent=1))
    done = call("rules", "diff", "HEAD", "--rules", str(folder), "--format", "json", "--fleet", str(file))
    found = json.loads(done.out)["fleet"]
    ((name, why),) = found.pop("first_undecided").items()
    assert (found, name) == (COUNTED, f"{file}:4")
    assert why.startswith("/facts/no_such: unknown field `no_such`; legal: ")
    text = call("rules", "diff", "HEAD", "--rules", str(folder), "--fleet", str(file)).out.splitlines()
    assert text[text.index("changes: kv: V1 → V2") - 1] == (
        "of 4 deployments, 1 changes (runner: 1, start: 0), and 1 could not be decided"
    )
    assert " ".join(text[text.index("changes: kv: V1 → V2") + 1 :]).startswith(
        f"not decided: {file}:4: /facts/no_such: "
    )


def test_a_fleet_of_manifests_is_counted_container_by_container(
    call: Callable[..., Done], folder: Path, tmp_path: Path
) -> None:
    narrow(folder)
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"manifest": POD, "model_configs": {"m": {**QWEN, "model_type": "qwen3"}}}))
    done = call("rules", "diff", "HEAD", "--rules", str(folder), "--format", "json", "--fleet", str(file))
    assert json.loads(done.out)["fleet"] == {
        **COUNTED,
        "deployments": 1,
        "undecided": 0,
        "first": {"Pod/p/c": TO_V2},
        "first_undecided": {},
    }


@pytest.mark.slow
def test_a_fleet_that_cannot_be_decided_exits_with_1_and_the_reason(
    call: Callable[..., Done], folder: Path, tmp_path: Path
) -> None:
    narrow(folder)
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"manifest": POD}))
    diff = ("rules", "diff", "HEAD", "--rules", str(folder), "--fleet", str(file))
    done = call(*diff)
    assert (done.code, done.err) == (1, f"{file}: no deployment could be decided, so none was compared\n")
    assert "the config.json of `m` is needed" in " ".join(done.out.split())
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**QWEN, "model_type": "qwen3"}))
    named = call(*diff, "--model-config", f"m={config}", "--format", "json")
    assert (named.code, json.loads(named.out)["fleet"]["undecided"]) == (0, 0)


@pytest.mark.slow
def test_a_manifest_is_counted_if_one_side_does_not_know_its_exact_release(
    call: Callable[..., Done], folder: Path, tmp_path: Path
) -> None:
    """The side without the release decides as another release of its series."""
    file = tmp_path / "fleet.json"
    pods = {
        "kind": "List",
        "apiVersion": "v1",
        "items": [POD, json.loads(json.dumps(POD).replace("v0.22.0", "v0.33.0"))],
    }
    file.write_text(json.dumps({"manifest": pods, "model_configs": {"m": {**QWEN, "model_type": "qwen3"}}}))
    short = tmp_path / "short"
    shutil.copytree(folder, short)
    replace_file(short / "releases.yaml", KNOWN_RELEASES.replace("'0.22.0', ", "").replace("0.23.0", "0.33.0"))
    for rules in ("upstream", "house"):
        shutil.rmtree(short / rules)
    (short / "upstream").mkdir()
    (short / "upstream" / "v2.yaml").write_text(rule_text("v2", "default-v2"))
    for way in ([str(folder), str(short)], [str(short), str(folder)]):
        counted = json.loads(
            call("rules", "diff", *way, "--rules", str(folder), "--format", "json", "--fleet", str(file)).out
        )["fleet"]
        assert (counted["deployments"], counted["undecided"]) == (2, 0), counted


def test_a_disagreement_of_solver_and_engine_is_an_error(
    call: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(folder)
    monkeypatch.setattr(
        "policy.proof.replay.PolicyPair.__call__",
        lambda self, facts: (ProofOutcome(None, None, False, ()),) * 2,  # noqa: ARG005
    )
    done = call("rules", "diff", "HEAD", "--rules", str(folder))
    assert (done.code, done.out) == (1, "")
    assert "the solver and the engine disagree; report it with these facts: {" in done.err


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("no-such", 2, "`no-such` is neither a folder nor a revision of"),
        ("HEAD^{blob}", 2, "is neither a folder nor a revision of"),
    ],
)
def test_an_unknown_revision_is_reported(
    call: Callable[..., Done], folder: Path, name: str, code: int, message: str
) -> None:
    done = call("rules", "diff", name, "--rules", str(folder))
    assert (done.code, done.out) == (code, "")
    assert message in done.err


def test_a_folder_outside_a_repository_has_no_revisions(
    call: Callable[..., Done], copy_rules: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = copy_rules(tmp_path / "rules")
    done = call("rules", "diff", "HEAD", "--rules", str(folder))
    assert (done.code, "is not in a git repository" in done.err) == (2, True)


def test_a_revision_without_the_folder_is_reported(
    call: Callable[..., Done], folder: Path, copy_rules: Callable[[Path], Path]
) -> None:
    other = copy_rules(folder.parent / "other")
    done = call("rules", "diff", "HEAD", "--rules", str(other))
    assert (done.code, "`HEAD` has no rules in this folder" in done.err) == (2, True)


def test_invalid_rules_of_a_revision_are_reported_with_their_file(call: Callable[..., Done], folder: Path) -> None:
    good = (folder / RULE).read_text()
    (folder / RULE).unlink()
    (folder / RULE).write_bytes(b"id: \xff")
    commit(folder.parent.parent)
    replace_file(folder / RULE, good.replace("effect: fallback-v1", "effect: none"))
    commit(folder.parent.parent)
    for revision, message in (("HEAD~1", "cannot be read"), ("HEAD", "unknown effect `none` of the house layer")):
        done = call("rules", "diff", revision, "--rules", str(folder))
        assert (done.code, f"the rules of {revision}:" in done.err, message in done.err, RULE in done.err) == (
            3,
            True,
            True,
            True,
        )


def test_an_incomplete_revision_is_reported_with_its_file(call: Callable[..., Done], folder: Path) -> None:
    good, aside = folder / RULE, folder.parent / "aside.yaml"
    good.rename(aside)
    good.symlink_to("../../aside.yaml")
    commit(folder.parent.parent)
    good.unlink()
    aside.rename(good)
    done = call("rules", "diff", "HEAD", "--rules", str(folder))
    assert (done.code, done.out) == (3, "")
    assert f"{RULE}:1:1: a symbolic link, which is not followed in a git tree" in done.err


@pytest.mark.parametrize(("name", "code"), [("x" * 5000, 3), ("loop", 2)])
def test_an_inaccessible_path_is_reported(
    call: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.chdir(folder)
    Path("loop").symlink_to("loop")
    done = call("rules", "diff", name, "--rules", name)
    assert (done.code, done.out, done.err != "") == (code, "", True)


KNOWN_RELEASES = """\
known: ['0.22.0', '0.22.1', '0.23.0']
default: '0.23.0'
"""


@pytest.fixture
def write_rules(tmp_path: Path) -> Callable[[Any], str]:
    def write(when: Any) -> str:
        (tmp_path / "upstream").mkdir()
        texts = {
            "releases": KNOWN_RELEASES,
            "upstream/v2": rule_text("v2", "default-v2"),
            "upstream/moe": rule_text("moe", "not-default", when, vllm=">=0.23"),
        }
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return str(tmp_path)

    return write


def test_a_proof_is_reported_as_text(call: Callable[..., Done], write_rules: Callable[[Any], str]) -> None:
    done = call("rules", "prove", write_rules({"model_config.is_moe": True}))
    assert (done.code, done.out) == (
        0,
        """\
0.22.1 to 0.23.0
  moe: V2 → V1
    - v2 (default-v2), + moe (not-default)
    {"model_config": {"is_moe": true}}
0.22.0 = 0.22.1: equivalent (proved)
2 rules, 3 releases: no unreachable or redundant rule, every deployment decided (proved)
""",
    )


def test_a_proof_is_reported_as_json(call: Callable[..., Done], write_rules: Callable[[Any], str]) -> None:
    proof = json.loads(call("rules", "prove", write_rules({"model_config.is_moe": True}), "--format", "json").out)
    assert (proof["faults"], proof["equivalent"]) == ([], [["0.22.0", "0.22.1"], ["0.23.0"]])
    assert proof["steps"][1]["changes"] == [
        {
            "rule": "moe",
            "rules": ["moe"],
            "facts": {"model_config": {"is_moe": True}},
            "from": {
                "runner": "v2",
                "outcome": "default",
                "starts": True,
                "reasons": [{"rule": "v2", "effect": "default-v2"}],
            },
            "to": {
                "runner": "v1",
                "outcome": "not-default",
                "starts": True,
                "reasons": [{"rule": "moe", "effect": "not-default"}],
            },
        }
    ]


@pytest.mark.parametrize("form", ["text", "github"])
def test_a_refuted_claim_exits_with_1_and_names_its_rule(
    call: Callable[..., Done], write_rules: Callable[[Any], str], form: str
) -> None:
    folder = write_rules({"all": [{"model_config.is_moe": True}, {"model_config": "absent"}]})
    done = call("rules", "prove", folder, "--format", form)
    message = "in 0.23.0, unreachable rule: no facts meet its condition; correct it, or remove the range"
    path = f"{folder}/upstream/moe.yaml"
    assert done.code == 1
    assert (
        (f"{path}:1:1: {message}" in done.err)
        if form == "text"
        else (done.out == f"::error file={path},line=1,col=1::{message}\n")
    )
