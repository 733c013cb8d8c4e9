"""The commands ``compare`` and ``lint``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli.test_cli_impact import check_sums, facts, lines, models

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done

__all__ = ["models"]
RULES = Path(__file__).parents[2] / "rules"
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
    - name: c
      image: vllm/vllm-openai:{tag}
      args:
        - Qwen/Qwen3-8B
        - {flag}
"""


def pod(name: str, tag: str, flag: str = "--max-num-seqs=4") -> str:
    return POD.format(name=name, tag=tag, flag=flag)


@pytest.fixture
def sides(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Two folders with these files."""

    def write(base: dict[str, str], head: dict[str, str]) -> tuple[str, str]:
        for side, files in (("base", base), ("head", head)):
            (tmp_path / side).mkdir()
            for name, text in files.items():
                (tmp_path / side / name).parent.mkdir(exist_ok=True)
                (tmp_path / side / name).write_text(text)
        return str(tmp_path / "base"), str(tmp_path / "head")

    return write


def kinds(done: Done) -> dict[str, Any]:
    found = json.loads(done.out)
    check_sums(found) if not any(len(item.get("releases", {})) == 1 for item in found["items"]) else None
    return {item["name"]: item.get("kind", "unread") for item in found["items"]}


def test_each_deployment_is_compared_with_itself_by_its_name(
    call: Callable[..., Done], sides: Callable[..., tuple[str, str]], models: str
) -> None:
    base = {
        "a.yaml": pod("bumped", "v0.21.0"),
        "b.yaml": "---\n".join([pod("same", "v0.33.0"), pod("gone", "v0.33.0")]),
    }
    head = {"c.yaml": pod("bumped", "v0.33.0"), "b.yaml": "---\n".join([pod("new", "v0.33.0"), pod("same", "v0.33.0")])}
    done = call("compare", *sides(base, head), "--models", models, "--json")
    assert done.code == 0
    assert {name.rpartition(": ")[2]: kind for name, kind in kinds(done).items()} == {
        "Pod/bumped/c": "runner-v1-to-v2",
        "Pod/new/c": None,
        "Pod/same/c": None,
    }


OLD, NEW = pod("chat", "v0.21.0"), pod("chat", "v0.33.0")


@pytest.mark.parametrize(
    ("base", "head", "expected", "said"),
    [
        (
            {"a/d.yaml": OLD, "b/d.yaml": NEW},
            {"b/d.yaml": OLD},
            {"b/d.yaml": "runner-v2-to-v1"},
            "1 deployment is gone: `Pod/chat/c`\n",
        ),
        (
            {"b/d.yaml": OLD},
            {"a/d.yaml": NEW, "b/d.yaml": OLD},
            {"a/d.yaml": None, "b/d.yaml": None},
            "1 deployment is new: `Pod/chat/c`\n",
        ),
        (
            {"a/d.yaml": OLD, "b/d.yaml": NEW},
            {"b/d.yaml": NEW, "c/d.yaml": OLD},
            {"b/d.yaml": None, "c/d.yaml": None},
            "",
        ),
        (
            {"a/d.yaml": f"{OLD}---\n{NEW}", "b/d.yaml": NEW},
            {"a/d.yaml": f"{OLD}---\n{OLD}", "b/d.yaml": OLD},
            {"a/d.yaml": [None, "runner-v2-to-v1"], "b/d.yaml": "runner-v2-to-v1"},
            "",
        ),
    ],
)
def test_equal_names_are_compared_within_their_file(
    call: Callable[..., Done],
    sides: Callable[..., tuple[str, str]],
    models: str,
    base: dict[str, str],
    head: dict[str, str],
    expected: dict[str, Any],
    said: str,
) -> None:
    done = call("compare", *sides(base, head), "-R", "--models", models, "--json")
    found: dict[str, list[Any]] = {}
    for item in json.loads(done.out)["items"]:
        found.setdefault(item["place"]["file"], []).append(item["kind"])
    assert (done.code, done.err) == (0, said)
    assert {file: kinds if len(kinds) > 1 else kinds[0] for file, kinds in found.items()} == expected


def test_a_folder_may_have_the_name_of_a_namespace(
    call: Callable[..., Done],
    sides: Callable[..., tuple[str, str]],
    models: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = (pod("chat, namespace: base", tag) for tag in ("v0.21.0", "v0.33.0"))
    sides({"a.yaml": old}, {"b.yaml": new})
    monkeypatch.chdir(tmp_path)
    done = call("compare", "base", "head", "--models", models, "--json")
    assert (done.err, kinds(done)) == ("", {"base/Pod/chat/c": "runner-v1-to-v2"})


@pytest.mark.parametrize("name", ["vllm", "./vllm", "vllm/"])
@pytest.mark.parametrize(
    "text",
    [
        pod("vllm", "v0.33.0", "FLAG"),
        "vllm_version: 0.33.0\ndeployment: {args: [serve, Qwen/Qwen3-8B, FLAG]}",
    ],
)
def test_the_name_of_a_file_may_begin_with_that_of_its_folder(
    call: Callable[..., Done], models: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    good, bad = (text.replace("FLAG", flag) for flag in ("--max-num-seqs=4", "--enable-dbo"))
    sides = {"base/vllm": {"vllm-dev.yaml": bad, "vllm-prod.yaml": good}, "vllm": {"vllm-prod.yaml": bad}}
    for folder, files in sides.items():
        (tmp_path / folder).mkdir(parents=True)
        for file, each in {**files, "z.yaml": pod("same", "v0.33.0")}.items():
            (tmp_path / folder / file).write_text(each)
    monkeypatch.chdir(tmp_path)
    done = call("compare", f"base/{name}", name, "--models", models, "--json")
    assert list(kinds(done).values()) == ["launch-error", None]
    assert "1 deployment is gone: " in done.err


def test_equal_folders_change_nothing(
    call: Callable[..., Done], sides: Callable[..., tuple[str, str]], models: str
) -> None:
    files = {"a.yaml": pod("a", "v0.33.0"), "b.jsonl.yaml": pod("b", "v0.22.0", "--no-such-flag")}
    done = call("compare", *sides(files, files), "--models", models, "--fail-on", "reasons", "--json")
    assert (done.code, set(kinds(done).values()), done.err) == (0, {None}, "")


def test_edited_rules_change_what_is_decided(
    call: Callable[..., Done], copy_rules: Callable[[Path], Path], tmp_path: Path
) -> None:
    copy_rules(tmp_path / "rules")
    for name in ("kv-connector-fallback.yaml", "kv-connector-fallback_test.yaml"):
        (tmp_path / "rules" / "house" / name).unlink()
    fleet = tmp_path / "fleet.jsonl"
    fleet.write_text(lines(facts("a", version="0.23.0", kv_transfer_config={}), facts("b", version="0.23.0")))
    options = ("--rules", str(tmp_path / "rules"), "--base-rules", str(RULES), "--json")
    done = call("compare", str(fleet), str(fleet), *options)
    assert kinds(done) == {"a": "runner-with-known-problem", "b": None}


@pytest.mark.parametrize(
    ("flag", "options", "code"),
    [
        ("--max-num-seqs=8", ("--fail-on", "no-start"), 0),
        ("--no-such-flag", (), 0),
        ("--no-such-flag", ("--fail-on", "launch-error"), 1),
        ("--no-such-flag", ("--fail-on", "no-start"), 1),
        ("--no-such-flag", ("--fail-on", "runner-v1-to-v2"), 1),
    ],
)
def test_fail_on(
    call: Callable[..., Done],
    sides: Callable[..., tuple[str, str]],
    models: str,
    flag: str,
    options: tuple[str, ...],
    code: int,
) -> None:
    folders = sides({"a.yaml": pod("a", "v0.33.0")}, {"a.yaml": pod("a", "v0.33.0", flag)})
    assert call("compare", *folders, "--models", models, *options, "--json").code == code


def test_a_new_deployment_that_does_not_start_fails(
    call: Callable[..., Done], sides: Callable[..., tuple[str, str]], models: str
) -> None:
    folders = sides({}, {"a.yaml": pod("a", "v0.33.0", "--no-such-flag")})
    done = call("compare", *folders, "--models", models, "--fail-on", "no-start", "--json")
    assert done.code == 1
    assert "1 deployment is new: `Pod/a/c`" in done.err


def test_names_are_written_on_one_line(
    call: Callable[..., Done], sides: Callable[..., tuple[str, str]], models: str
) -> None:
    """A name with a line feed could otherwise begin a line, which a workflow may obey."""
    name = r'"{}\n::add-mask::3\r::error file=x::fake\u2028\e[31m"'
    folders = sides({"a.yaml": pod(name.format("old"), "v0.33.0")}, {"a.yaml": pod(name.format("new"), "v0.33.0")})
    done = call("compare", *folders, "--models", models, "--json")
    shown = r"{}\n::add-mask::3\r::error file=x::fake\u2028\x1b[31m"
    assert done.err == (
        f"1 deployment is new: `Pod/{shown.format('new')}/c`\n1 deployment is gone: `Pod/{shown.format('old')}/c`\n"
    )


@pytest.mark.parametrize("command", ["compare", "impact", "pins", "replay"])
def test_the_name_of_an_output_is_written_on_one_line(call: Callable[..., Done], tmp_path: Path, command: str) -> None:
    arguments = {"compare": (".", "."), "impact": ("-", "--to", "0.33.0"), "pins": ("-",), "replay": ("-",)}[command]
    (tmp_path / "empty").mkdir()
    arguments = tuple(str(tmp_path / "empty") if each == "." else each for each in arguments)
    done = call(command, *arguments, "-o", f"{tmp_path}/none/a\n::error::fake.json", stdin="{}\n")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        f"{tmp_path}/none/a\\n::error::fake.json: No such file or directory",
    )


def test_several_reports_at_once(
    call: Callable[..., Done], sides: Callable[..., tuple[str, str]], models: str, tmp_path: Path
) -> None:
    folders = sides({"a.yaml": pod("a", "v0.21.0")}, {"a.yaml": pod("a", "v0.33.0")})
    files = [str(tmp_path / f"report.{ending}") for ending in ("json", "md", "sarif", "html", "csv")]
    done = call("compare", *folders, "--models", models, *(word for file in files for word in ("-o", file)))
    assert (done.code, done.out) == (0, "")
    (result,) = json.loads(Path(files[2]).read_text())["runs"][0]["results"]
    assert result["ruleId"] == "runner-v1-to-v2"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("a.yaml")
    assert "Pod/a/c" in Path(files[1]).read_text()
    assert all(Path(file).stat().st_size for file in files)


def test_what_cannot_be_read_is_counted(call: Callable[..., Done], sides: Callable[..., tuple[str, str]]) -> None:
    done = call("compare", *sides({}, {"a.yaml": "a: [", "b.yaml": pod("b", "v0.33.0")}), "--json")
    assert done.code == 1
    assert json.loads(done.out)["counts"]["undecided"] == 2


@pytest.mark.parametrize(
    ("base", "said"),
    [
        (
            {"a.yaml": pod("a", "v0.33.0"), "d.yaml": pod("d", "v0.33.0") + "  x: [1\n"},
            "1 deployment is new: `Pod/d/c`\nBASE: {base}/d.yaml:11:6: not YAML: the bracket `[` is not closed",
        ),
        (
            {"a.yaml": pod("a", "v0.33.0"), "d.yaml": pod("d", "v0.33.0"), "e.yaml": pod("e", "v9.9.9")},
            "BASE: e.yaml:6:7: /2/spec/containers/0: the image `vllm/vllm-openai:v9.9.9`: unknown release `9.9.9`",
        ),
        ({"a.yaml": pod("a", "v0.33.0"), "d.yaml": pod("d", "v0.33.0")}, ""),
    ],
)
def test_what_cannot_be_read_in_the_base_is_not_gone(
    call: Callable[..., Done], sides: Callable[..., tuple[str, str]], models: str, base: dict[str, str], said: str
) -> None:
    folders = sides(base, {"a.yaml": pod("a", "v0.33.0"), "d.yaml": pod("d", "v0.33.0")})
    done = call("compare", *folders, "--models", models, "--fail-on", "no-start", "--json")
    said = said.format(base=folders[0])
    assert (done.code, done.err[: len(said) or None]) == (int(bool(said)), said)


def test_a_base_without_files_has_no_deployments(
    call: Callable[..., Done], sides: Callable[..., tuple[str, str]], models: str
) -> None:
    done = call("compare", *sides({}, {"a.yaml": pod("a", "v0.33.0")}), "--models", models, "--json")
    assert (done.code, done.err) == (0, "1 deployment is new: `Pod/a/c`\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none", "none"), "none: there is no such file or folder"),
        ((".", ".", "--fail-on", "bad"), "--fail-on: expected one of `no-start`"),
        ((".", ".", "--format", "parquet"), "--format parquet: it is a file"),
    ],
)
def test_wrong_usage(call: Callable[..., Done], arguments: tuple[str, ...], message: str) -> None:
    done = call("compare", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_lint_prints_a_line_for_each_engine_that_would_not_start(
    call: Callable[..., Done], tmp_path: Path, models: str
) -> None:
    (tmp_path / "good.yaml").write_text(pod("good", "v0.33.0"))
    (tmp_path / "bad.yaml").write_text(pod("bad", "v0.33.0", "--no-such-flag"))
    (tmp_path / "other.yaml").write_text("replicas: 3\n")
    (tmp_path / ".pre-commit-config.yaml").write_text("repos: []\n")
    names = ("good.yaml", "bad.yaml", "other.yaml", ".pre-commit-config.yaml", "models/Qwen/Qwen3-8B/config.json")
    files = [str(tmp_path / name) for name in names]
    done = call("lint", *files, "--models", models)
    assert (done.code, done.err) == (1, "")
    (line,) = done.out.splitlines()
    assert line.startswith(f"{files[1]}:6:7: Pod/bad/c: vLLM would not start: ")


def test_lint_and_sarif_name_files_of_a_folder_as_seen_from_here(
    call: Callable[..., Done], tmp_path: Path, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deploy" / "eu").mkdir(parents=True)
    (tmp_path / "deploy" / "eu" / "bad.yaml").write_text(pod("bad", "v0.33.0", "--no-such-flag"))
    monkeypatch.chdir(tmp_path)
    for folder in ("deploy", "./deploy", str(tmp_path / "deploy")):
        assert call("lint", "-R", folder, "--models", models).out.startswith("deploy/eu/bad.yaml:6:7: "), folder
        (tmp_path / "deploy" / "eu" / "bad.yaml").write_text(pod("bad", "v0.21.0", "--max-num-partial-prefills=1"))
        done = call("impact", "-R", folder, "--to", "0.33.0", "--models", models, "--format", "sarif")
        (result,) = json.loads(done.out)["runs"][0]["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "deploy/eu/bad.yaml"
        (tmp_path / "deploy" / "eu" / "bad.yaml").write_text(pod("bad", "v0.33.0", "--no-such-flag"))


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_lint_does_not_judge_what_it_cannot_decide(
    call: Callable[..., Done], tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    (tmp_path / "template.yaml").write_text("a: {{ .Values.x }}\n")
    (tmp_path / "pod.yaml").write_text(pod("p", "v0.33.0"))
    done = call("lint", str(tmp_path / "template.yaml"), str(tmp_path / "pod.yaml"), *options)
    assert (done.code, done.out) == (code, "")
    assert done.err.count("not decided") == 2
