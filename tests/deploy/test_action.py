"""The GitHub Action: its steps as action.yml has them, in a repository of their own, with a stub of the hosting API."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from cli.test_cli_impact import QWEN
from files import CopiedFolder
from processes import forked_program
from representatives import slow_except, slow_rows_except

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
ACTION: Final = yaml.safe_load((ROOT / "action.yml").read_text())
POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:{tag}
      args:
        - Qwen/Qwen3-8B
        {flag}
"""


class Api:
    """A stub of the hosting API: what it was sent, and what it answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.refused: set[str] = set()
        self.raw = b""
        """What is sent in the place of each answer, unless it is empty."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.calls.append((method, path, body))
        if any(part in path for part in self.refused):
            return 403, {"message": "Resource not accessible by integration"}
        if method == "GET" and "/comments" in path:
            page = int(re.findall("[^_]page=([0-9]+)", path)[0])
            return 200, self.comments[(page - 1) * 100 : page * 100]
        if method == "POST" and path.endswith("/comments"):
            self.comments.append({"id": len(self.comments) + 1, "user": {"type": "Bot"}, **body})
            return 201, self.comments[-1]
        if method == "PATCH":
            number = int(path.rpartition("/")[2])
            next(each for each in self.comments if each["id"] == number).update(body)
            return 200, {}
        return 201, {}

    def sent(self, part: str) -> list[Any]:
        return [body for method, path, body in self.calls if part in path and method != "GET"]


@pytest.fixture
def api() -> Iterator[tuple[Api, str]]:
    stub = Api()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            assert self.headers["authorization"] == "Bearer secret"
            code, answer = stub.answer(self.command, self.path, body)
            if stub.raw:
                self.wfile.write(stub.raw)
                self.close_connection = True
                return
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = respond  # noqa: N815  # the names of the base class

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stub, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Checkout:
    """A repository with a base commit and a pull request's commit, which is checked out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.folder.mkdir()
        self.temporary = folder / "temp"
        self.temporary.mkdir()
        self.git("init", "-q", "-b", "main")
        model = self.folder / "models" / "Qwen" / "Qwen3-8B"
        model.mkdir(parents=True)
        (model / "config.json").write_text(json.dumps(QWEN))

    def git(self, *arguments: str) -> str:
        names = {f"GIT_{who}_{what}": f"{what}@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(["git", *arguments], cwd=self.folder, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        (self.folder / "deploy").mkdir(exist_ok=True)
        for name, text in files.items():
            (self.folder / "deploy" / f"{name}.yaml").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")


def pods(tag: str, flag: str = "- --max-num-seqs=4", *names: str) -> str:
    return "---\n".join(POD.format(name=name, tag=tag, flag=flag) for name in names or ("chat",))


@pytest.fixture(scope="session")
def copied_rules(root: Path, tmp_path_factory: pytest.TempPathFactory) -> CopiedFolder:
    """The shipped rules to copy, without their cases and the rules about requests, which no comparison here uses.

    To commit a file takes longer than to read it.
    """
    ignored = shutil.ignore_patterns("*_test.yaml", "requests")
    return CopiedFolder(Path(shutil.copytree(root / "rules", tmp_path_factory.mktemp("c") / "rules", ignore=ignored)))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def run(checkout: Checkout, tmp_path: Path, api: tuple[Api, str]) -> Callable[..., tuple[int, str, dict[str, str]]]:
    """Run the steps of the action, except the installation; gives the exit code, the output and the outputs."""
    forked = forked_program(tmp_path)

    def run(
        base: str, event: dict[str, Any] | None = None, program: Path | str = forked, **given: str
    ) -> tuple[int, str, dict[str, str]]:
        head = checkout.git("rev-parse", "HEAD")
        pull = {"pull_request": {"number": 7, "base": {"sha": base}, "head": {"sha": head}}}
        (tmp_path / "event.json").write_text(json.dumps(pull if event is None else event))
        output, summary = tmp_path / "output", tmp_path / "summary.md"
        output.write_text("")
        summary.write_text("")
        inputs = {name: str(each["default"]) for name, each in ACTION["inputs"].items()}
        inputs |= {"token": "secret", "path": "deploy", "models": "models"}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        text, code = "", 0
        for step in ACTION["runs"]["steps"]:
            if step.get("name") not in {"compare", "publish"}:
                continue
            outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
            values = {f"inputs.{name}": value for name, value in inputs.items()}
            values |= {f"steps.compare.outputs.{name}": value for name, value in outputs.items()}
            env = {name: values[each.removeprefix("${{ ").removesuffix(" }}")] for name, each in step["env"].items()}
            done = subprocess.run(
                ["sh", "-ec", step["run"]],
                cwd=checkout.folder,
                env={
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    "HOME": str(tmp_path),
                    "GIT_CONFIG_GLOBAL": os.devnull,
                    "GITHUB_ACTION_PATH": str(ROOT),
                    "GITHUB_WORKSPACE": str(checkout.folder),
                    "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
                    "GITHUB_OUTPUT": str(output),
                    "GITHUB_STEP_SUMMARY": str(summary),
                    "GITHUB_REPOSITORY": "me/fleet",
                    "GITHUB_API_URL": api[1],
                    "GITHUB_SERVER_URL": "https://example.com",
                    "GITHUB_RUN_ID": "5",
                    "GITHUB_SHA": head,
                    "GITHUB_REF": "refs/heads/main",
                    "RUNNER_TEMP": str(checkout.temporary),
                    "RUNNER_POLICY": str(program),
                    **env,
                },
                capture_output=True,
                text=True,
                check=False,
            )
            text, code = text + done.stdout + done.stderr, done.returncode
            if code:
                break
        return code, text, dict(line.split("=", 1) for line in output.read_text().splitlines())

    return run


def test_a_bump_is_commented_and_sets_a_status(
    checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str]
) -> None:
    names = [f"chat{n}" for n in range(3)]
    base = checkout.commit(chat=pods("v0.21.0", "- --max-num-seqs=4", *names))
    head = checkout.commit(chat=pods("v0.33.0", "- --max-num-seqs=4", *names))
    code, text, outputs = run(base)
    stub, _ = api
    sentence = "this change flips 3 of 3 deployments to V2"
    assert code == 0, text
    assert (outputs["summary"], outputs["changed"], outputs["no-start"]) == (sentence, "3", "0")
    (comment,) = stub.comments
    assert comment["body"].startswith("<!-- runner-policy -->\n**This change flips 3 of 3 deployments to V2.**")
    assert "Pod/chat2/vllm" in comment["body"]
    assert stub.sent("/statuses/") == [
        {
            "state": "success",
            "context": "runner-policy",
            "description": sentence,
            "target_url": "https://example.com/me/fleet/actions/runs/5",
        }
    ]
    (upload,) = stub.sent("/code-scanning/sarifs")
    sarif = json.loads(gzip.decompress(base64.b64decode(upload["sarif"])))
    assert (upload["commit_sha"], upload["ref"]) == (head, "refs/pull/7/head")
    places = [each["locations"][0]["physicalLocation"] for each in sarif["runs"][0]["results"]]
    assert [each["artifactLocation"]["uri"] for each in places] == ["deploy/chat.yaml"] * 3
    assert checkout.git("worktree", "list").count("\n") == 0


def test_a_comparison_that_writes_no_report_fails(
    checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str], tmp_path: Path
) -> None:
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    (tmp_path / "broken").write_text("#!/bin/sh\necho Traceback\nexit 1\n")
    (tmp_path / "broken").chmod(0o755)
    code, text, _ = run(base, program=tmp_path / "broken")
    assert (code, text.count("Traceback"), api[0].sent("/statuses/")) == (2, 1, [])
    assert "::error::the command ended without a report" in text


def test_a_deployment_that_will_not_start_fails_the_check(
    checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str]
) -> None:
    base = checkout.commit(chat=pods("v0.33.0"))
    checkout.commit(chat=pods("v0.33.0", "- --no-such-flag"), other=pods("v0.33.0", "- --enable-dbo", "new"))
    code, text, outputs = run(base)
    assert code == 1, text
    assert outputs["summary"] == "this change flips no deployment, 2 will not start"
    assert api[0].sent("/statuses/")[0]["state"] == "failure"
    code, text, _ = run(base, fail_on="never")
    assert code == 0, text


def test_a_later_run_replaces_its_comment(checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str]) -> None:
    stub, _ = api
    stub.comments = [{"id": n, "user": {"type": "User"}, "body": "<!-- runner-policy --> mine"} for n in range(1, 121)]
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    run(base)
    checkout.commit(chat=pods("v0.21.0"))
    run(base)
    own = [each for each in stub.comments if each["user"]["type"] == "Bot"]
    assert len(own) == 1
    assert "flips no deployment" in own[0]["body"]
    assert len(stub.comments) == 121


def test_what_the_token_may_not_write_is_a_warning(
    checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str]
) -> None:
    stub, _ = api
    stub.refused = {"/comments", "/code-scanning"}
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    code, text, _ = run(base)
    assert code == 0
    assert "::warning::comment: the API answered 403; the job needs the permission `pull-requests: write`" in text
    assert "::warning::code scanning: the API answered 403" in text
    assert len(stub.sent("/statuses/")) == 1


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"no\r::error::HTTP\r\n\r\n", r"BadStatusLine('no\r::error::HTTP\r\n')"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[]", "IncompleteRead(2 bytes read, 7 more expected)"),
    ],
)
def test_a_broken_answer_is_a_warning(
    checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str], raw: bytes, why: str
) -> None:
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    api[0].raw = raw
    code, text, _ = run(base)
    parts = ("comment", "status", "code scanning")
    assert (code, commands_of(text)) == (
        0,
        [f"::warning::{part}: the answer of the API is broken: {why}" for part in parts],
    ), text


def test_each_part_can_be_switched_off(checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str]) -> None:
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    code, text, _ = run(base, comment="false", sarif="false", status="false")
    assert (code, api[0].calls) == (0, []), text


@pytest.mark.parametrize("is_shallow", [False, True])
def test_what_others_merged_meanwhile_is_not_the_pull_requests_change(
    checkout: Checkout, run: Callable[..., Any], *, is_shallow: bool
) -> None:
    """The event may name an older base than the one that the checked out merge has."""
    stale = checkout.commit(chat=pods("v0.21.0"))
    checkout.git("checkout", "-q", "-b", "change")
    head = checkout.commit(mine=pods("v0.33.0", "- --max-num-seqs=4", "mine"))
    checkout.git("checkout", "-q", "main")
    checkout.commit(chat=pods("v0.33.0"))
    checkout.git("merge", "-q", "--no-ff", "-m", "x", "change")
    if is_shallow:
        (checkout.folder / ".git" / "shallow").write_text(checkout.git("rev-parse", "HEAD") + "\n")
    event = {"pull_request": {"number": 7, "base": {"sha": stale}, "head": {"sha": head}}}
    code, text, outputs = run(stale, event)
    assert (code, outputs["summary"], outputs["changed"]) == (0, "this change flips no deployment", "0"), text


def test_own_rules_are_compared_too(
    checkout: Checkout, run: Callable[..., Any], copy_rules: Callable[[Path], Path]
) -> None:
    """An edit of a rule changes deployments that no edit touches."""
    copy_rules(checkout.folder / "rules")
    flag = '- --kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}'
    base = checkout.commit(chat=pods("v0.23.0", f"'{flag}'".replace("'- ", "- '")))
    (checkout.folder / "rules" / "house" / "kv-connector-fallback.yaml").unlink()
    checkout.commit()
    code, text, outputs = run(base, rules="rules")
    assert code == 0, text
    assert outputs["summary"] == "this change flips 1 of 1 deployments to V2, 1 gets a known problem"


def test_a_push_is_compared_with_the_commit_before(
    checkout: Checkout, run: Callable[..., Any], api: tuple[Api, str]
) -> None:
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    code, text, outputs = run(base, event={"before": base})
    assert (code, outputs["summary"]) == (0, "this change flips 1 of 1 deployments to V2"), text
    assert api[0].comments == []
    assert api[0].sent("/code-scanning")[0]["ref"] == "refs/heads/main"


@pytest.mark.parametrize(
    ("event", "given", "message"),
    [
        ({}, {}, "expected an event with a commit to compare with"),
        ({"before": "0" * 40}, {}, "expected an event with a commit to compare with"),
        ({"before": "$(touch x)"}, {}, "expected an event with a commit to compare with"),
        ({"before": "1" * 40}, {}, "is not in the checkout; check out with `fetch-depth: 0`"),
        (None, {"path": "../other"}, "path: expected a folder or file of the repository, got ../other"),
        (None, {"fail_on": "bad"}, "fail-on: expected `never` or one of no-start, "),
    ],
)
def test_wrong_input(
    checkout: Checkout, run: Callable[..., Any], event: Any, given: dict[str, str], message: str
) -> None:
    base = checkout.commit(chat=pods("v0.33.0"))
    code, text, _ = run(base, event, **given)
    assert code != 0
    assert message in text


def commands_of(text: str) -> list[str]:
    """The lines of an output that a runner of the hosting service would obey."""
    found, stop = [], ""
    for line in re.split("\r\n|\r|\n", text):
        if stop:
            stop = "" if line.strip() == f"::{stop}::" else stop
        elif line.startswith("::stop-commands::"):
            stop = line.removeprefix("::stop-commands::")
        elif line.lstrip().startswith("::") or "##[" in line:
            found.append(line)
    return found


@pytest.mark.parametrize("name", [r"a\n::add-mask::3\n::error file=x::fake", r"a\r::error::fake", "##[error]fake"])
def test_a_name_is_no_command_for_the_runner(checkout: Checkout, run: Callable[..., Any], name: str) -> None:
    base = checkout.commit(old=pods("v0.33.0", "- --max-num-seqs=4", f'"gone {name}"'))
    (checkout.folder / "deploy" / "old.yaml").unlink()
    checkout.commit(new=pods("v0.33.0", "- --max-num-seqs=4", f'"new {name}"'))
    code, text, _ = run(base)
    assert code == 0, text
    assert "1 deployment is new: " in text
    assert "1 deployment is gone: " in text
    assert commands_of(text) == []


def test_a_report_that_fails_ends_what_the_runner_ignores(checkout: Checkout, run: Callable[..., Any]) -> None:
    base = checkout.commit(chat=pods("v0.33.0"))
    code, text, _ = run(base, default_release="9.9")
    assert (code, "unknown release" in text) == (2, True), text
    assert commands_of(f"{text}\n::error::after") == ["::error::after"]


def test_a_module_of_the_checkout_is_not_run(checkout: Checkout, run: Callable[..., Any]) -> None:
    for name in ("json", "re", "secrets", "shlex"):
        (checkout.folder / f"{name}.py").write_text("raise SystemExit('ran')\n")
    base = checkout.commit(chat=pods("v0.33.0"))
    code, text, _ = run(base)
    assert (code, "ran" in text) == (0, False), text


def outside(checkout: Checkout, copy_rules: Callable[[Path], Path]) -> Path:
    """A folder beside the checkout with what each input could name."""
    folder = checkout.folder.parent / "outside"
    folder.mkdir()
    (folder / "chat.yaml").write_text(pods("v0.33.0", "- --max-num-seqs=4", "outside"))
    copy_rules(folder / "rules")
    shutil.copytree(checkout.folder / "models", folder / "models")
    return folder


@pytest.mark.parametrize("parent", ["", "sub/"])
@pytest.mark.parametrize(
    ("given", "target"),
    slow_rows_except(
        [("path", "chat.yaml"), ("rules", "rules")],
        [("path", ""), ("path", "chat.yaml"), ("rules", "rules"), ("models", "models")],
    ),
)
def test_an_input_that_leads_out_of_the_checkout_is_refused(
    checkout: Checkout,
    run: Callable[..., Any],
    copy_rules: Callable[[Path], Path],
    given: str,
    target: str,
    parent: str,
) -> None:
    """Through a link at its end or in its middle."""
    base = checkout.commit(chat=pods("v0.33.0"))
    folder = outside(checkout, copy_rules)
    (checkout.folder / (parent.rstrip("/") or "link")).symlink_to(folder if parent else folder / target)
    checkout.commit()
    name = f"{parent}{target}" if parent else "link"
    code, text, _ = run(base, **{given: name})
    assert code == 2, text
    assert f"::error::{given}: expected a folder or file of the repository, got {name}, which leads out of it" in text
    assert "Pod/outside" not in text
    assert not (checkout.temporary / "runner-policy-report" / "report.json").exists()
    assert checkout.git("worktree", "list").count("\n") == 0


def test_a_model_of_a_manifest_cannot_be_a_folder_outside_of_the_checkout(
    checkout: Checkout, run: Callable[..., Any], copy_rules: Callable[[Path], Path]
) -> None:
    base = checkout.commit(chat=pods("v0.33.0"))
    folder = outside(checkout, copy_rules) / "other"
    shutil.copytree(checkout.folder / "models" / "Qwen" / "Qwen3-8B", folder)
    link = checkout.folder / "linked"
    link.symlink_to(folder)
    names = {"absolute": str(folder), "other": "../outside/other", "link": "./linked"}
    checkout.commit(
        **{key: pods("v0.33.0", "- --seed=1", key).replace("Qwen/Qwen3-8B", name) for key, name in names.items()}
    )
    run(base)
    report = json.loads((checkout.temporary / "runner-policy-report" / "report.json").read_bytes())
    assert (report["counts"]["deployments"], report["counts"]["undecided"]) == (4, 3)


def test_an_input_may_be_a_link_within_the_checkout(checkout: Checkout, run: Callable[..., Any]) -> None:
    (checkout.folder / "link").symlink_to("deploy")
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    code, text, outputs = run(base, path="link")
    assert (code, outputs["summary"]) == (0, "this change flips 1 of 1 deployments to V2"), text


def test_what_led_out_of_the_checkout_before_is_not_read(
    checkout: Checkout, run: Callable[..., Any], copy_rules: Callable[[Path], Path]
) -> None:
    """So that a change that replaces the link can be checked."""
    folder = outside(checkout, copy_rules)
    (checkout.folder / "rules").symlink_to(folder / "rules")
    (checkout.folder / "link").symlink_to(folder)
    base = checkout.commit()
    for name in ("link", "rules"):
        (checkout.folder / name).unlink()
    copy_rules(checkout.folder / "rules")
    (checkout.folder / "link").symlink_to("deploy")
    checkout.commit(chat=pods("v0.33.0"))
    code, text, outputs = run(base, path="link", rules="rules")
    assert (code, outputs["summary"]) == (0, "this change flips no deployment"), text
    assert "1 deployment is new: `Pod/chat/vllm`" in text
    assert "Pod/outside" not in text
    assert [line for line in text.splitlines() if line.startswith("::warning::")] == [
        f"::warning::{given}: {name} led out of the repository before, and is not compared"
        for given, name in (("path", "link"), ("rules", "rules"))
    ]


def linked_rules(checkout: Checkout, copy_rules: Callable[[Path], Path], link: str) -> str:
    """Commit rules of which a folder, through a link to it, is outside; gives the commit."""
    target = outside(checkout, copy_rules)
    (target / "rules" / "house" / "broken.yaml").write_text("private: value\n")
    copy_rules(checkout.folder / "rules")
    (checkout.folder / "rules" / ".hidden").mkdir()
    (checkout.folder / "rules" / link).symlink_to(target / "rules" / "house")
    if link.startswith("."):
        (checkout.folder / "rules" / "house" / "more").symlink_to(f"../{link}")
    return checkout.commit(chat=pods("v0.33.0"))


@pytest.mark.parametrize(
    "link",
    slow_except(
        ["house/a%0A\n::add-mask::b\\n::error::c"],
        ["house/other", ".hidden/other", "house/a%0A\n::add-mask::b\\n::error::c"],
    ),
)
def test_a_link_out_of_the_rules_is_refused(
    checkout: Checkout, run: Callable[..., Any], copy_rules: Callable[[Path], Path], link: str
) -> None:
    base = linked_rules(checkout, copy_rules, link)
    code, text, _ = run(base, rules="rules")
    assert code == 2, text
    assert f"::error::rules: the link {link!a} leads out of the folder; copy what it leads to\n" in text
    assert len(commands_of(text)) == 1
    assert "private" not in text
    assert checkout.git("worktree", "list").count("\n") == 0


def test_a_link_out_of_the_rules_can_be_replaced(
    checkout: Checkout, run: Callable[..., Any], copy_rules: Callable[[Path], Path]
) -> None:
    base = linked_rules(checkout, copy_rules, "house/other")
    (checkout.folder / "rules" / "house" / "other").unlink()
    checkout.commit()
    code, text, outputs = run(base, rules="rules")
    assert (code, outputs["summary"]) == (0, "this change flips no deployment"), text
    assert commands_of(text) == [
        "::warning::rules: the link 'house/other' led out of the folder before, whose rules are not compared"
    ]


def test_links_within_the_rules_are_followed(
    checkout: Checkout, run: Callable[..., Any], copy_rules: Callable[[Path], Path]
) -> None:
    """As in a folder that was copied from a mounted ConfigMap."""
    rules = copy_rules(checkout.folder / "rules")
    (rules / "house").rename(rules / "..data")
    (rules / "house").symlink_to("..data")
    (checkout.folder / "notes.md").touch()
    (rules / "notes.md").symlink_to("../notes.md")
    base = checkout.commit(chat=pods("v0.21.0"))
    checkout.commit(chat=pods("v0.33.0"))
    code, text, outputs = run(base, rules="rules")
    assert (code, outputs["summary"]) == (0, "this change flips 1 of 1 deployments to V2"), text


def test_the_actions_of_others_are_pinned() -> None:
    """A tag can be moved; a commit cannot."""
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each) for each in used)


HOOKS: Final = {each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


@pytest.mark.parametrize(
    ("flag", "code", "printed"),
    [
        ("- --max-num-seqs=4", 0, ""),
        ("- --no-such-flag", 1, "chat.yaml:6:7: Pod/chat/vllm: vLLM would not start: "),
    ],
)
def test_the_hook_fails_on_an_engine_that_would_not_start(
    checkout: Checkout, tmp_path: Path, flag: str, code: int, printed: str
) -> None:
    """The entry as pre-commit runs it: with the names of the staged files that match."""
    hook = HOOKS["runner-policy"]
    checkout.commit(chat=pods("v0.33.0", flag), values="replicas: 3\n", broken="a: {{ .Values.x }}\n")
    names = [name for name in checkout.git("ls-files", "deploy").splitlines() if re.search(hook["files"], name)]
    program, *arguments = hook["entry"].split()
    assert program == "runner-policy"
    done = subprocess.run(
        [str(forked_program(tmp_path)), *arguments, "--models", "models", *names],
        cwd=checkout.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(names)) == (code, 3), done
    assert printed in done.stdout
    assert "broken.yaml" in done.stderr


def test_the_hook_for_rules_runs_their_cases(tmp_path: Path) -> None:
    program, *arguments = HOOKS["runner-policy-rules"]["entry"].split()
    done = subprocess.run(
        [str(forked_program(tmp_path)), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (program, done.returncode) == ("runner-policy", 0), done
