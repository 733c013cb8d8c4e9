"""The commands in the documentation are run, and their output is compared with what it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
from processes import forked_program
from tables import table
from typer.main import get_command

from policy.cli.app import app
from policy.cli.commands import LazyCommand

from .conftest import BIN, PATIENCE, ROOT, environment
from .console import Block, Command, InvalidBlock, blocks, matches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Server

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "rules/README.md"]
)
NOT_RUN = {"make", "git", "docker", "podman", "cd", "pip"}
MARK = "\x1e"
CLUSTER = """\
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: qwen3, namespace: chat}
  spec:
    template:
      spec:
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.23.0
          args: [--model, Qwen/Qwen3-8B, --kv-transfer-config, \
'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}']
        - {name: proxy, image: "envoyproxy/envoy:v1.35.0"}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: drafts, namespace: chat}
  spec: {template: {spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.33.0", \
command: [vllm, serve, Qwen/Qwen3-8B]}]}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop}
  spec: {template: {spec: {containers: [{name: nginx, image: "nginx:1.29"}]}}}
"""
"""What `kubectl get deploy -A -o yaml` prints here, where there is no cluster."""
GUIDES: Final = ("README.md", "rules/README.md")
"""The pages for people who begin; `make test` runs their commands, and CI those of all pages."""
BLOCKS = [(page, block) for page in PAGES for block in blocks((ROOT / page).read_text())]


def block_id(value: object) -> str:
    return f"line {value.line}" if isinstance(value, Block) else str(value)


def words(command: Command) -> list[str]:
    return shlex.split(command.text, comments=True)


def is_run_here(command: Command) -> bool:
    """Whether a command can be tried: not one that installs something, serves forever, or needs another machine."""
    return words(command)[:1] != [] and words(command)[0] not in NOT_RUN


@pytest.fixture
def workspace(copy_rules: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A writable copy of the files that commands read, with a fake ``kubectl``."""
    copy_rules(tmp_path / "workspace" / "rules")
    shutil.copytree(ROOT / "docs", tmp_path / "workspace" / "docs")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n[ \"$*\" = 'get deploy -A -o yaml' ] || exit 1\ncat <<'END'\n{CLUSTER}END\n")
    kubectl.chmod(0o755)
    forked_program(tmp_path / "bin")
    return tmp_path / "workspace"


def printed(commands: list[str], workspace: Path, port: int) -> list[tuple[int, str]]:
    """Exit code and output of each command, run one after the other in one shell."""
    script = "exec 2>&1\n" + "".join(f'{command}\nprintf "{MARK}%d{MARK}" "$?"\n' for command in commands)
    path = os.pathsep.join([str(workspace.parent / "bin"), str(BIN), os.environ["PATH"]])
    variables = environment(PATH=path, TMPDIR=str(workspace.parent / "tmp"))
    done = subprocess.run(
        ["bash", "-c", script.replace("localhost:8080", f"localhost:{port}")],
        cwd=workspace,
        env=variables,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    parts = done.stdout.decode().split(MARK)
    assert len(parts) == 2 * len(commands) + 1, done
    return [
        (int(code), output.replace(f"localhost:{port}", "localhost:8080"))
        for output, code in zip(parts[::2], parts[1::2], strict=False)
    ]


RUN: Final = [(page, block) for page, block in BLOCKS if any(map(is_run_here, block.commands))]


@pytest.mark.parametrize(
    ("page", "block"),
    [
        pytest.param(page, block, marks=() if page in GUIDES else pytest.mark.slow, id=f"{page}-{block_id(block)}")
        for page, block in RUN
    ],
)
def test_commands_print_what_the_page_shows(server: Server, workspace: Path, page: str, block: Block) -> None:
    commands = [command for command in block.commands if is_run_here(command)]
    found = printed([command.text for command in commands], workspace, server.port)
    wrong = [
        f"{page}:{command.line}: {command.text}\nexit code {code}, printed\n{output}\nexpected\n{command.expected}"
        for command, (code, output) in zip(commands, found, strict=True)
        if (not matches(command.expected, output) if block.shows_output else code != 0)
    ]
    assert not wrong, "\n\n".join(wrong)


def make_targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_make_target_in_a_page_s_commands_exists() -> None:
    named = {
        (page, block.line, word)
        for page, block in BLOCKS
        for command in block.commands
        if words(command)[:1] == ["make"]
        for word in words(command)[1:]
        if "=" not in word and word[0] != "-"
    }
    targets = make_targets()
    assert {each for each in named if each[-1] not in targets} == set()


def test_every_make_target_in_a_page_s_prose_exists() -> None:
    named = {(page, word) for page in PAGES for word in re.findall(r"`make ([a-z][\w-]*)", (ROOT / page).read_text())}
    targets = make_targets()
    assert {each for each in named if each[-1] not in targets} == set()


def test_no_page_has_an_unresolved_merge() -> None:
    marks = {page: re.findall(r"^(?:<{7}|>{7}) .*|^={7}$", (ROOT / page).read_text(), re.MULTILINE) for page in PAGES}
    assert {page: found for page, found in marks.items() if found} == {}


@pytest.mark.parametrize("page", GUIDES)
def test_the_guides_show_commands_with_their_output(page: str) -> None:
    assert sum(len(block.commands) for shown, block in BLOCKS if shown == page and block.shows_output) >= 5


def names_of(command: Any, above: str = "") -> set[str]:
    """The names of a command's subcommands, or its own."""
    if isinstance(command, LazyCommand):
        command = command.load()
    below = getattr(command, "commands", None)
    if below is None:
        return {above}
    return {name for each in below.values() for name in names_of(each, f"{above} {each.name}".strip())}


def test_the_readme_lists_every_command() -> None:
    table = (ROOT / "README.md").read_text().partition("| command |")[2].partition("\n\n")[0]
    listed = {
        re.sub(r" [A-Z[].*", "", name)
        for row in table.splitlines()[2:]
        for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    assert listed == names_of(get_command(app))


# the extractor

PAGE = """\
# Title

```console
$ echo one
one
$ cat <<'END' | tr $ %
$ not a command
```` neither
END
% not a command
```` neither

$ printf '%s\\n' x \\
    y
x
y
$ true
```

Text with `$ inline` and

  1. an item:

     ```console
     $ echo indented
     indented
       deeper
     ```

```sh
# a comment
make serve   # starts

echo two \\
  three
```

~~~~bash
cat <<A; cat <<"B"
1
A
2
B
~~~~

```json
{"$ ": "no command"}
```

````text
```console
$ inside another block
```
````
"""


def test_commands_and_their_output_are_found_with_their_line_numbers() -> None:
    found = [
        (block.language, block.line, [(command.line, command.text, command.expected) for command in block.commands])
        for block in blocks(PAGE)
    ]
    assert found == [
        (
            "console",
            3,
            [
                (4, "echo one", "one"),
                (6, "cat <<'END' | tr $ %\n$ not a command\n```` neither\nEND", "% not a command\n```` neither"),
                (13, "printf '%s\\n' x \\\n    y", "x\ny"),
                (17, "true", ""),
            ],
        ),
        ("console", 24, [(25, "echo indented", "indented\n  deeper")]),
        ("sh", 30, [(32, "make serve   # starts", ""), (34, "echo two \\\n  three", "")]),
        ("bash", 38, [(39, 'cat <<A; cat <<"B"\n1\nA\n2\nB', "")]),
    ]


@pytest.mark.parametrize(
    "text", ["", "plain text\n", "```\n$ x\n```\n", "```text\n$ x\n```\n", "``` \n```\n", "    $ x\n", "`console`\n"]
)
def test_a_text_without_commands_has_none(text: str) -> None:
    assert list(blocks(text)) == []


@pytest.mark.parametrize(
    ("text", "expected_message"),
    [
        ("```console\n$ x\n", "line 1: the block has no end"),
        ("x\n\n~~~sh\nx\n```\n", "line 3: the block has no end"),
        ("```console\noutput\n```\n", "line 2: output without a command; write commands as `$ …`"),
        ("```console\n$ cat <<END\nx\n```\n", "line 2: the here-document `END` has no end"),
    ],
)
def test_an_invalid_block_is_reported(text: str, expected_message: str) -> None:
    with pytest.raises(InvalidBlock, match=f"^{re.escape(expected_message)}$"):
        list(blocks(text))


@table(
    ("expected", "output", "same"),
    [
        ("", "", True),
        ("", "\n\n", True),
        ("", "x\n", False),
        ("x", "x", True),
        ("x", "x  \n\n", True),
        ("x", "xx\n", False),
        ("x", "x\ny\n", False),
        ("x\ny", "x\n\ny\n", False),
        ("x.y", "xzy\n", False),
        ("…", "", True),
        ("…", "x\ny\n", True),
        ("a…c", "abbbc\n", True),
        ("a…c", "a\nb\nc\n", True),
        ("a…c", "ab\n", False),
        ("a\n…\nc", "a\nc\n", True),
        ("a\n…\nc", "a\nb\nb\nc\n", True),
        ("a\n  …\nc", "a\nb\n\nc\n", True),
        ("a\n…\nc", "a\nb\nd\n", False),
        ("a\n…", "a\n", True),
        ("…\nc", "c\n", True),
        ("…\nc", "bc\n", False),
        ("{…}", '{"a": {}}\n', True),
        ("… rules, sha256:…: ok", "88 rules, sha256:abc: ok\n", True),
        ("… rules, sha256:…: ok", "88 rules, sha256:abc: all wrong\n", False),
    ],
)
def test_an_ellipsis_matches_anything_and_other_text_only_itself(expected: str, output: str, *, same: bool) -> None:
    assert matches(expected, output) is same


def test_commands_of_a_block_share_a_shell_and_each_has_its_own_output(workspace: Path) -> None:
    commands = [
        "T=$(mktemp -d)",
        "cd $T; echo here > x",
        "cat <<'END'\n$T\nEND",
        "cat x nothing 2>&1 | head -n 1; false",
        "ls rules",
        "echo localhost:8080",
    ]
    assert [(code, output.strip()) for code, output in printed(commands, workspace, 99)] == [
        (0, ""),
        (0, ""),
        (0, "$T"),
        (1, "here"),
        (2, "ls: cannot access 'rules': No such file or directory"),
        (0, "localhost:8080"),
    ]
    assert sorted(path.name for path in workspace.iterdir()) == ["docs", "rules"]
