"""`rules diff`: rules with an end, releases, hostile texts in its reports, and ambiguous names of revisions."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from dulwich import porcelain
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo
from markdown_it import MarkdownIt
from ruletexts import rule_text, write_document
from tables import table

from policy.cli.console import annotation
from policy.errors import Fault
from policy.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

WHEN = {"kv_transfer_config.kv_connector": {"in": ["a"]}}
SMALLEST = {"kv_transfer_config": {"kv_connector": "a"}}


def rules_at(folder: Path, when: Any = None) -> Path:
    """Write rules of one release into a folder, with a rule for ``when`` if it is set."""
    texts = {"releases": "known: ['0.23.0']\ndefault: '0.23.0'\n", "upstream/v2": rule_text("v2", "default-v2")}
    if when is not None:
        texts["upstream/moe"] = rule_text("moe", "not-default", when)
    (folder / "upstream").mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


# rules with an end


def house_rule_at(folder: Path, until: str | None) -> Path:
    """Write rules with a house rule, which has an end if ``until`` is set."""
    rules_at(folder)
    (folder / "house").mkdir()
    end = {} if until is None else {"until": until}
    house = {"owner": "tests", "review_by": "2020-01-01", "blocked_by": "nothing", **end}
    (folder / "house/moe.yaml").write_text(rule_text("moe", "fallback-v1", WHEN, **house))
    return folder


def test_each_format_names_the_first_day_on_which_an_end_changes_decisions(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    flags = [str(house_rule_at(tmp_path / "base", None)), str(house_rule_at(tmp_path / "head", "2099-03-01"))]
    text, markdown, github = (
        call("rules", "diff", *flags, "--format", form).out for form in ("text", "markdown", "github")
    )
    where = "0.23.0, from 2099-03-02 on"
    assert text.splitlines()[:5] == [
        "moe (house, fallback-v1)",
        "  until: 2099-03-01; before: none",
        "",
        "Deployments with another runner",
        f"  moe: V1 → V2, {where}",
    ]
    assert f"| `moe` | V1 → V2 | {where} |" in markdown
    assert f"another runner, {where}: V1 → V2" in github.replace("%2C", ",")
    found = json.loads(call("rules", "diff", *flags, "--format", "json").out)
    for each in (found["changes"][0], found["groups"][0]):
        assert (each["releases"], each["rule"], each["since"]) == (["0.23.0"], "moe", "2099-03-02")


def test_a_fleet_is_counted_as_of_today(call: Callable[..., Done], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps({"vllm_version": "0.23.0", "facts": SMALLEST}))
    base = str(house_rule_at(tmp_path / "base", None))
    changed = {}
    for until in ("2020-01-01", "2099-03-01"):
        head = str(house_rule_at(tmp_path / until, until))
        found = json.loads(call("rules", "diff", base, head, "--fleet", str(fleet), "--format", "json").out)
        changed[until] = (found["fleet"]["runner"], [change.get("since") for change in found["changes"]])
    assert changed == {"2020-01-01": (1, [None]), "2099-03-01": (0, ["2099-03-02"])}


def test_what_an_end_changes_is_shown_beside_what_the_edit_changes_today(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    base, head = house_rule_at(tmp_path / "base", None), house_rule_at(tmp_path / "head", "2099-03-01")
    for folder, connectors in ((base, ["a", "b"]), (head, ["a"])):
        when = {"kv_transfer_config.kv_connector": {"in": connectors}}
        house = yaml.safe_load((folder / "house/moe.yaml").read_text())
        house["releases"][0]["when"] = when
        (folder / "house/moe.yaml").write_text(yaml.safe_dump(house))
    found = json.loads(call("rules", "diff", str(base), str(head), "--format", "json").out)
    assert [(group["from"], group["to"], group.get("since")) for group in found["groups"]] == [
        ({"runner": "v1", "starts": True}, {"runner": "v2", "starts": True}, since) for since in (None, "2099-03-02")
    ]
    assert [group["example"]["facts"]["kv_transfer_config"] for group in found["groups"]] == [
        {"kv_connector": "b"},
        {"kv_connector": "a"},
    ]


def test_another_review_date_changes_no_deployment_of_a_fleet(call: Callable[..., Done], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps({"vllm_version": "0.23.0", "facts": SMALLEST}))
    base, head = house_rule_at(tmp_path / "base", None), house_rule_at(tmp_path / "head", None)
    rule = head / "house/moe.yaml"
    rule.write_text(rule.read_text().replace("2020-01-01", "2020-01-02"))
    found = json.loads(call("rules", "diff", str(base), str(head), "--fleet", str(fleet), "--format", "json").out)
    assert (found["fleet"]["deployments"], found["fleet"]["changed"]) == (1, 0)


def test_removing_a_rule_that_has_ended_affects_no_deployment(call: Callable[..., Done], tmp_path: Path) -> None:
    base, head = house_rule_at(tmp_path / "base", "2020-01-01"), rules_at(tmp_path / "head")
    done = call("rules", "diff", str(base), str(head), "--exit-code")
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("moe (house, fallback-v1, until 2020-01-01): removed, 0.23.0: ")
    assert done.out.splitlines()[1:] == ["", "no deployment is affected (proved)"]


# releases


def test_another_default_release_is_a_change(call: Callable[..., Done], tmp_path: Path) -> None:
    base, head = rules_at(tmp_path / "base"), rules_at(tmp_path / "head")
    for folder, default in ((base, "0.23.0"), (head, "0.22.0")):
        (folder / "releases.yaml").write_text(f"known: ['0.22.0', '0.23.0']\ndefault: '{default}'\n")
    done = {
        form: call("rules", "diff", str(base), str(head), "--exit-code", "--format", form)
        for form in ("text", "github")
    }
    assert {form: (each.code, each.out.splitlines()) for form, each in done.items()} == {
        "text": (
            1,
            [
                "no deployment of a remaining release is affected (proved)",
                "the default release is 0.22.0; before: 0.23.0",
            ],
        ),
        "github": (1, ["::notice::the default release is 0.22.0; before: 0.23.0"]),
    }


REMOVAL = {
    "deprecated_in": "0.22.0",
    "announced_for": "0.23.0",
    "why": "The notes say so.",
    "references": ["https://example.org"],
}
DAYS = "the day of publication of {} is changed; builds without tags may be decided for another release"


def with_releases(folder: Path, **members: Any) -> None:
    """Write a list of releases with these members."""
    document = {"known": ["0.21.0", "0.22.0", "0.23.0"], "default": "0.23.0", **members}
    (folder / "releases.yaml").write_text(write_document(document))


@pytest.mark.parametrize(
    ("before", "after", "member", "lines"),
    [
        (
            {"published": {"0.22.0": "2026-01-01", "0.23.0": "2026-02-01"}},
            {"published": {"0.22.0": "2026-01-02", "0.23.0": "2026-02-02"}},
            ("published", ["0.22.0", "0.23.0"]),
            [
                "no deployment of a remaining release is affected (proved)",
                DAYS.format("0.22.0–0.23.0"),
            ],
        ),
        (
            {},
            {"published": {"0.22.0": "2026-01-02"}},
            ("published", ["0.22.0"]),
            [
                "no deployment of a remaining release is affected (proved)",
                DAYS.format("0.22.0"),
            ],
        ),
        (
            {"removals": {"v1": REMOVAL}},
            {"removals": {"v1": {**REMOVAL, "announced_for": "0.24.0"}}},
            ("removals", ["v1"]),
            [
                "no deployment gets another runner, start or reason (proved)",
                "what is announced of the removal of V1 is changed; answers about V1 may tell of it",
            ],
        ),
    ],
)
def test_other_days_and_announcements_are_changes(
    call: Callable[..., Done],
    tmp_path: Path,
    before: dict[str, Any],
    after: dict[str, Any],
    member: tuple[str, list[str]],
    lines: list[str],
) -> None:
    base, head = rules_at(tmp_path / "base"), rules_at(tmp_path / "head")
    for folder, members in ((base, before), (head, after)):
        (folder / "upstream/v2.yaml").write_text(rule_text("v2", "default-v2", vllm=">=0.21"))
        with_releases(folder, **members)
    done = call("rules", "diff", str(base), str(head), "--exit-code")
    assert (done.code, done.out.splitlines()) == (1, lines)
    document = json.loads(call("rules", "diff", str(base), str(head), "--format", "json").out)
    assert document[member[0]] == member[1]


@pytest.mark.parametrize(
    "members",
    [{"symptom": "slow"}, {"certainty": "confirmed"}, {"fixed_in": "0.24.0"}],
)
def test_another_description_of_a_known_problem_is_a_change(
    call: Callable[..., Done], tmp_path: Path, members: dict[str, str]
) -> None:
    base, head = rules_at(tmp_path / "base"), rules_at(tmp_path / "head")
    for folder, more in ((base, {}), (head, members)):
        problem = {"symptom": "crash", "certainty": "reported", **more}
        text = rule_text("crash", "known-problem", WHEN, vllm=">=0.23,<0.24", **problem)
        (folder / "upstream/crash.yaml").write_text(text)
    done = call("rules", "diff", str(base), str(head), "--exit-code")
    assert (done.code, done.out.splitlines()[-2:]) == (
        1,
        [
            "no deployment gets another runner, start or reason (proved)",
            "the known problem crash is changed; answers with it differ",
        ],
    )
    document = json.loads(call("rules", "diff", str(base), str(head), "--format", "json").out)
    assert document["known_problems"] == ["crash"]
    github = call("rules", "diff", str(base), str(head), "--format", "github").out.splitlines()
    assert "::notice::the known problem crash is changed; answers with it differ" in github
    assert "::notice::no deployment is affected (proved)" not in github


def test_the_end_of_a_new_rule_is_in_its_headline(call: Callable[..., Done], tmp_path: Path) -> None:
    base, head = rules_at(tmp_path / "base"), house_rule_at(tmp_path / "head", "2099-03-01")
    out = call("rules", "diff", str(base), str(head)).out
    assert out.splitlines()[0].startswith("moe (house, fallback-v1, until 2099-03-01): new, 0.23.0: ")


# hostile texts in Markdown and annotations

HOSTILE = [
    "a`b",
    "``` ` ``",
    "`",
    "|",
    "`|<img src=x onerror=alert(1)>|`",
    "a\\|b\\\\|`c",
    "<script>alert(1)</script>",
    "[x](https://example.org) @everyone **bold**",
    "a\n\n# heading\r\n::error::forged",
    "\u2028\x1b[31m\u202e",
    " both ends ",
    "%0A::error::forged",
]


def rendered(text: str) -> Any:
    """The syntax tree of Markdown, with tables."""
    return MarkdownIt("commonmark").enable("table").parse(text)


def inline(text: str) -> list[Any]:
    return [child for token in rendered(text) if token.type == "inline" for child in token.children or []]


@pytest.mark.parametrize(("flags", "tables", "columns"), [([], 2, 4 + 5), (["--full"], 1, 5)])
@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_a_literal_as_code_in_its_cell(
    call: Callable[..., Done], tmp_path: Path, text: str, flags: list[str], tables: int, columns: int
) -> None:
    when = {"kv_transfer_config.kv_connector": {"in": [text]}}
    base, head = rules_at(tmp_path / "base"), rules_at(tmp_path / "head", when)
    out = call("rules", "diff", str(base), str(head), "--format", "markdown", *flags).out
    code = [child for child in inline(out) if child.type == "code_inline"]
    assert {child.type for child in inline(out)} <= {"text", "code_inline", "html_inline"}
    assert {child.content for child in inline(out) if child.type == "html_inline"} <= {"<br>"}
    folds = [token.content for token in rendered(out) if token.type == "html_block"]
    assert all(re.fullmatch(r"<details><summary>[\w ,()]+</summary>\n|</details>\n?", fold) for fold in folds)
    facts = [json.loads(child.content) for child in code if child.content.startswith('{"kv_transfer_config"')]
    assert [each["kv_transfer_config"]["kv_connector"] for each in facts] == [text] * tables
    assert escape_line(text) in [child.content for child in code]
    rows = [token for token in rendered(out) if token.type == "tr_open"]
    cells = [token for token in rendered(out) if token.type == "td_open"]
    assert (len(rows), len(cells)) == (2 * tables, columns)


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_a_changed_text_as_code(call: Callable[..., Done], tmp_path: Path, text: str) -> None:
    base, head = (rules_at(tmp_path / name, WHEN) for name in ("base", "head"))
    (head / "upstream/moe.yaml").write_text(rule_text("moe", "not-default", WHEN, words=text, remedy=text))
    out = call("rules", "diff", str(base), str(head), "--format", "markdown").out
    lines = [line for line in out.splitlines() if line.startswith("  - ")]
    assert [[child.content for child in inline(line) if child.type == "code_inline"] for line in lines] == [
        [escape_line(text), "words"],
        [escape_line(text)],
    ]
    assert {child.type for line in lines for child in inline(line)} == {"text", "code_inline"}


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_the_name_of_a_deployment_as_code(call: Callable[..., Done], tmp_path: Path, text: str) -> None:
    base, head = rules_at(tmp_path / "base"), rules_at(tmp_path / "head", WHEN)
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps({"request_id": text, "vllm_version": "0.23.0", "facts": SMALLEST}))
    flags = [str(base), str(head), "--fleet", str(fleet)]
    out = call("rules", "diff", *flags, "--format", "markdown").out
    (line,) = [line for line in out.splitlines() if line.startswith("- changes: ")]
    assert [child.content for child in inline(line) if child.type == "code_inline"] == [escape_line(text)]
    assert {child.type for child in inline(line)} <= {"text", "code_inline"}
    text_lines = call("rules", "diff", *flags).out.splitlines()
    assert text_lines[-1] == f"changes: {escape_line(text)}: V2 → V1"


@table("text", HOSTILE)
def test_an_annotation_is_one_line_with_commas_and_colons_in_its_path_escaped(text: str) -> None:
    line = annotation("error", Fault(f"rules,{text}::x.yaml", 1, 2, text))
    found = re.fullmatch(r"::error file=([^,:]*),line=1,col=2::(.*)", line)
    assert found is not None
    decoded = [part.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%") for part in found.groups()]
    shown = "".join(c if c in "\r\n" else escape_line(c) for c in text)
    assert decoded == [f"rules%2C{shown}::x.yaml".replace(":", "%3A").replace(",", "%2C"), shown]


# a name that is both a folder and a revision


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A repository in the working directory with one commit of ``rules/``, and its id; the rules are then edited."""
    repository = tmp_path / "repository"
    rules_at(repository / "rules")
    porcelain.init(str(repository))
    porcelain.add(str(repository), [str(path) for path in repository.rglob("*.yaml")])
    author = b"A <a@example.org>"
    commit = porcelain.commit(str(repository), message=b"Add", author=author, committer=author)
    with Repo(str(repository)) as found:
        for ref in ("heads/main", "remotes/origin/main", "tags/v1", "remotes/fork/HEAD"):
            found.refs[Ref(f"refs/{ref}".encode())] = ObjectID(commit)
        found.refs[Ref(b"refs/heads/gone")] = ObjectID(commit[::-1])
    shutil.rmtree(repository / "rules")
    rules_at(repository / "rules", WHEN)
    monkeypatch.chdir(repository)
    return repository, commit.decode()


def compare(call: Callable[..., Done], *names: str) -> Done:
    return call("rules", "diff", *names, "--rules", "rules", "--exit-code")


@pytest.mark.parametrize("name", ["main", "heads/main", "origin/main", "v1", "tags/v1", "fork", "HEAD", "HEAD^0"])
def test_a_folder_with_the_name_of_a_revision_is_refused(
    call: Callable[..., Done], repository: tuple[Path, str], name: str
) -> None:
    folder, commit = repository
    assert compare(call, name).code == 1
    shutil.copytree(folder / "rules", folder / name)
    advice = f"write `./{name}` for the folder, or `{commit}` for the revision"
    for names in ([name], ["./rules", name]):
        done = compare(call, *names)
        assert (done.code, done.out, done.err) == (2, "", f"`{name}` is both a folder and a revision; {advice}\n")
    for path in (f"./{name}", str(folder / name)):
        assert compare(call, path).out == "no deployment is affected (proved)\n"
    assert compare(call, commit).code == 1


@pytest.mark.parametrize("name", ["refs/heads/main", "refs/remotes/origin/main", "ID"])
def test_a_full_ref_and_a_commit_id_are_never_a_folder(
    call: Callable[..., Done], repository: tuple[Path, str], name: str
) -> None:
    folder, commit = repository
    shutil.copytree(folder / "rules", folder / name.replace("ID", commit))
    assert compare(call, name.replace("ID", commit)).code == 1
    shutil.copytree(folder / "rules", folder / "refs/heads/absent")
    assert compare(call, "refs/heads/absent").code == 2


def test_a_folder_with_the_name_of_a_branch_that_is_not_fetched_is_refused(
    call: Callable[..., Done], repository: tuple[Path, str]
) -> None:
    folder, _ = repository
    shutil.copytree(folder / "rules", folder / "gone")
    done = compare(call, "gone")
    assert (done.code, done.err.endswith("or `refs/heads/gone` for the revision\n")) == (2, True)


def test_the_workflow_names_the_revision_by_its_full_ref(root: Path) -> None:
    assert 'sh .ci/rules "refs/remotes/origin/$BASE"' in (root / ".github/workflows/rules.yml").read_text()
