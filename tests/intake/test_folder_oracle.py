"""The working folder of a server that a script starts is that of bash and sh, or it is not known."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from representatives import slow_except
from shells import DESCRIPTOR, SHELLS, lines_of

from policy.intake.command.launcher import find_server
from policy.intake.command.paths import ANY_FOLDER
from policy.intake.command.vllm_command import ServerCommand
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.working_folder import working_folder

if TYPE_CHECKING:
    from pathlib import Path

PRINTS = f"""#!{sys.executable} -IS
import os
os.write({DESCRIPTOR}, (os.getcwd() + "\\n").encode())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program `vllm` that prints its working folder, and the folders that scripts change to."""
    folder = tmp_path_factory.mktemp("folders").resolve()
    for name in ("bin", "data/a", "tmp", "home"):
        (folder / name).mkdir(parents=True)
    program = folder / "bin" / "vllm"
    program.write_text(PRINTS, encoding="utf-8")
    program.chmod(0o755)
    return folder


def started(shell: str, script: str, folder: Path) -> set[str]:
    """The working folder of each `vllm serve` that a shell runs."""
    env = {"PATH": f"{folder / 'bin'}:{os.defpath}", "HOME": str(folder / "home")}
    return set(lines_of(shell, script, folder / "data", env, folder / "output"))


def check(script: str, folder: Path) -> None:
    """Check that a script's server starts in the folder that is read from it, or in one in which no mount has a model.

    The container mounts volumes at the others, with models of any names.
    """
    script = script.replace("@", str(folder))
    mounts = Mounts(str(folder / name) for name in ("data", "data/a", "tmp"))
    for shell in SHELLS:
        server = find_server([shell, "-c", script], {}, is_command=True)
        if not isinstance(server, ServerCommand) or server.doubts:
            continue
        found = working_folder(str(folder / "data"), server.folders, mounts, server.words)
        if found != ANY_FOLDER:
            runs = started(shell, script, folder)
            assert (shell, script, runs) == (shell, script, runs & {found, str(folder), str(folder / "home")})


CHANGES = st.sampled_from(
    [
        *("cd @/tmp", "cd @/missing", "! cd @/tmp", "! cd @/missing", "cd a", "cd ..", "cd", "cd @/tmp | cat"),
        *("cd @/tmp x", "cd ~", "cd $HOME/x", "cd ~/../tmp", 'cd "$A"', "cd -P @/tmp", "cd -- @/tmp"),
        *("cd @/missing 2>&1", "cd @/tmp >@/missing/a", "test -f @/missing", "true", "false"),
        *("set -e", "set +e", "exit", "exit 1"),
    ]
)
LISTS = st.lists(st.tuples(st.sampled_from([" && ", " || ", "; ", "\n", " && "]), CHANGES), min_size=1, max_size=3).map(
    lambda parts: "".join(f"{joiner}{change}" for joiner, change in parts).lstrip(" &|;\n")
)
START = st.sampled_from(["vllm serve a/b", "exec vllm serve a/b", "sh -c 'vllm serve a/b'"])
SCRIPTS = st.one_of(
    st.builds("{}{}{}".format, LISTS, st.sampled_from([" && ", " || ", "; ", "; ", " & "]), START),
    st.builds("{}\nif {}; then {}; else {}; fi".format, LISTS, LISTS, LISTS, START),
    st.builds("if {}; then {}; {}; fi".format, LISTS, LISTS, START),
    st.builds("if {}; then {}; fi; {}".format, LISTS, LISTS, START),
    st.builds("if {}; then {}; elif {}; then {}; fi".format, LISTS, LISTS, LISTS, START),
    st.builds("if {}; then {}; elif {}; then :; fi".format, LISTS, LISTS, START),
    st.builds("{}; until {}; do {}; break; done".format, LISTS, LISTS, START),
    st.builds("{{ {}; }}{}{}".format, LISTS, st.sampled_from([" && ", " || ", "; "]), START),
    st.builds("({}){}{}".format, LISTS, st.sampled_from([" && ", " || ", "; "]), START),
    st.builds("({}; {})".format, LISTS, START),
    st.builds("{}{}{{ {}; }}".format, LISTS, st.sampled_from([" && ", " || ", "; "]), START),
    st.builds("bash -c '{}'; {}".format, LISTS, START),
    st.builds("f() {{ {}; }}; f; {}".format, LISTS, START),
)


@pytest.mark.skipif("bash" not in SHELLS, reason="compares with bash")
@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(SCRIPTS)
def test_a_server_starts_in_the_folder_that_is_read_or_in_one_that_is_not_known(folder: Path, script: str) -> None:
    check(script, folder)


ROWS = [
    "if [ -f @/missing ]; then cd @/tmp; else vllm serve a/b; fi",
    "if [ -f @/missing ]; then cd @/tmp; elif vllm serve a/b; then :; fi",
    "cd @/missing || exec vllm serve a/b",
    "if ! cd @/missing; then vllm serve a/b; fi",
    "set -e; cd @/missing && true; vllm serve a/b",
    "cd @/missing && exit; vllm serve a/b",
    "if cd @/missing; then exit; fi; vllm serve a/b",
    "until cd @/missing; do vllm serve a/b; break; done",
    'cd "$A" || cd @/tmp; vllm serve a/b',
    "set -e; cd @/missing && cd @/tmp; vllm serve a/b",
    "cd @/missing | cat || cd @/tmp && vllm serve a/b",
    "cd @/missing || { vllm serve a/b; }",
    "cd @/missing || exec sh -c 'vllm serve a/b'",
    "true || cd @/tmp && vllm serve a/b",
    "(cd @/tmp || exit); vllm serve a/b",
    "(cd @/tmp) && vllm serve a/b",
    "! cd @/tmp || exit; vllm serve a/b",
    "cd @/missing || exit | cat; vllm serve a/b",
    "cd @/tmp || exit & vllm serve a/b",
    "cd @/tmp && true & vllm serve a/b",
    "test -f @/missing && cd @/tmp || true; vllm serve a/b",
]


@pytest.mark.parametrize("script", slow_except(ROWS[::2], ROWS))
def test_a_change_that_may_fail_or_not_run_is_not_certain(script: str, folder: Path) -> None:
    check(script, folder)


@pytest.mark.parametrize(
    "script",
    [
        "cd @/tmp && vllm serve a/b",
        "cd @/tmp && true && exec vllm serve a/b",
        "cd @/tmp || exit 1; vllm serve a/b",
        "set -e; cd @/tmp; vllm serve a/b",
        "set -e\ntrue\ncd @/tmp\nvllm serve a/b",
    ],
)
def test_a_change_that_certainly_succeeds_is(script: str, folder: Path) -> None:
    server = find_server(["bash", "-c", script.replace("@", str(folder))], {}, is_command=True)
    assert isinstance(server, ServerCommand)
    mounts = Mounts(str(folder / name) for name in ("data", "data/a", "tmp"))
    found = working_folder(str(folder / "data"), server.folders, mounts, server.words)
    assert (server.doubts, found) == ([], str(folder / "tmp"))
