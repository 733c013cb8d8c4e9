"""A launcher with its own words before a command gives the answer of that command, and a doubt about any other word."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from policy.intake.command.launcher import find_server, read_command
from policy.intake.command.launcher_grammar import Launcher, Meaning
from policy.intake.command.launcher_refusals import refusal_of
from policy.intake.command.launcher_tables import LAUNCHERS, UNREAD_LAUNCHERS
from policy.intake.command.program_names import MISSING_PROGRAM_MESSAGE
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand

if TYPE_CHECKING:
    from pathlib import Path

MODULE: Final = "vllm.entrypoints.openai.api_server"
VARIABLE: Final = "VLLM_USE_V2_MODEL_RUNNER"
ENV: Final = {VARIABLE: "0"}
VLLM: Final = ("vllm", "serve", "org/m", "-tp", "2")
RESTS: Final = [
    VLLM,
    ("python3", "-m", MODULE, "--model", "org/m"),
    ("bash", "-c", "exec vllm serve org/m"),
    ("bash", "-lc", "vllm serve org/m"),
    ("env", f"{VARIABLE}=1", "vllm", "serve", "org/m"),
    ("timeout", "-k", "5", "10m", "nice", "vllm", "serve", "org/m"),
    ("/entrypoint.sh", "vllm", "serve", "org/m"),
    ("/entrypoint.sh", "nginx"),
    ("strace", "-f", "vllm", "serve", "org/m"),
    ("my-wrapper", "vllm", "serve", "org/m"),
    ("run", "vllm", "serve", "org/m"),
    ("5", "vllm", "serve", "org/m"),
    ("sleep", "3", "vllm", "serve", "org/m"),
    ("rm", "vllm", "serve"),
    ("echo", "vllm", "serve", "org/m"),
    ("echo", "vllm", "run-batch"),
    ("vllm", "bench", "latency"),
    ("vllm", "bench", "serve"),
    ("vllm", "--version"),
    ("nginx", "-g", "daemon off;"),
]
KNOWN: Final = [
    *(
        "nohup",
        "nohup --",
        "nice",
        "nice -n 5",
        "nice -n5",
        "nice -5",
        "nice --5",
        "nice --adj=5",
        "nice --adjustment 5",
    ),
    *("timeout 5", "timeout 1.5h", "timeout -k 5 10m", "timeout -vk5 10m", "timeout --sig=TERM 5", "timeout -s KILL 5"),
    *("timeout --signal TERM --foreground -- 5", "timeout --kill-after=5 .5", "stdbuf -oL", "stdbuf -o L --error=0"),
    *("stdbuf --out L", "/usr/bin/time -v", "time -p", "time -f %e -ao x", "setsid", "setsid -fw", "setsid --wait"),
    *(
        "ionice -c 2",
        "ionice -c2 -n7",
        "ionice --class idle -t",
        "chrt 5",
        "chrt -f 5",
        "chrt --rr 5",
        "chrt -T 5 -d 0",
    ),
    *("taskset 0xff", "taskset -c 0-3,5", "taskset --cpu-list 0-31:2", "taskset -ac 1", "prlimit -n1024 -l"),
    *("prlimit --memlock=unlimited", "prlimit --nofile --verbose", "exec", "exec -a x", "exec -ax", "exec --"),
    *("command", "command -p", "command -p --", "builtin exec", "tini --", "tini -s -g --", "tini -gvvv -p SIGTERM"),
    *("tini -e 143 -e143 --", "dumb-init", "dumb-init -cv --", "dumb-init -r 15:3 --", "dumb-init --rewrite=1:2"),
    *("dumb-init --single", "catatonit", "catatonit -g --", "numactl -l", "numactl -N 0 -m 0", "numactl -N0 -m0"),
    *("numactl --cpunodebind=0 --membind=0", "numactl --physcpubind 0-3 --localalloc", "numactl --inter all --"),
    *("gosu x", "gosu 1000:1000", "su-exec my-wrapper", "catchsegv", "busybox", "toybox", "rocprofv3 --hip-trace --"),
    *("rocprofv3 -f csv json --pmc A B --", "ddtrace-run", "ddtrace-run -d --profiling", "opentelemetry-instrument"),
    *("opentelemetry-instrument --service_name x --traces_exporter=otlp", "uv run", "uv run --no-sync", "uv run -qn"),
    *("uv run --frozen --with x -p3.12 --", "uv --project x run --extra y", "uv -q run --no-env-file"),
    *("uvx --from x", "uv tool run --python 3.12", "poetry run", "poetry -C x run", "pipx run", "pipx run --spec x"),
    *("nsys profile -t cuda -o x", "nsys profile --trace=cuda,nvtx --", "nsys launch", "ncu --set full -o x", "ncu -f"),
]
"""Words that launchers know, from their manuals."""
CHANGING: Final = [
    *("sudo", "sudo -E", "sudo -Eu x", "sudo --user=x --", "sudo A=b -H", "sudo --preserve-env=A", "conda run"),
    *(
        "conda run -n x",
        "conda run --live-stream --cwd x",
        "conda -v run -p x",
        "mamba run -n x",
        "micromamba run -n x",
    ),
    *("micromamba -r x run -a stdout", "pixi run", "pixi run -e x --frozen", "mpirun -np 2", "mpirun --mca a b -x A"),
    *("uv run --env-file x", "uv run --env-file=x", "nsys profile -e A=b", "nsys profile --env-var=A=b", "nohup sudo"),
    *("nsys profile -n false", "uvx --env-file x"),
]
"""Words with which launchers may change variables."""
OF_PYTHON: Final = [
    *("torchrun", "torchrun --standalone", "torchrun --nproc-per-node 2 --nnodes=1", "torchrun --nproc_per_node=2 --"),
    *("accelerate launch", "accelerate launch --num_processes 2 --quiet", "uv run --script", "uv run -qs"),
]
"""Words after which launchers start a file with a Python program."""
OF_MODULES: Final = ["torchrun -m", "torchrun --standalone --module", "accelerate launch -m", "uv run -m", "uv run -qm"]
WITHOUT_PYTHON: Final = ["torchrun --no-python", "torchrun --standalone --no_python", "accelerate launch --no_python"]
STOPPING: Final = [
    *("nohup --help", "timeout --version", "timeout --h", "nice --vers", "time -V", "setsid -h", "ionice -p 1"),
    *("ionice -c2 -p1", "chrt -p 5 1", "chrt -m", "taskset -p 1", "taskset -pc 0", "prlimit --pid 1", "prlimit -p1"),
    *("command -v", "command -V", "exec --help", "tini -h", "tini -l", "dumb-init --version", "catatonit -P"),
    *("numactl --hardware", "numactl -s", "numactl --show", "gosu --version", "busybox --list", "sudo -l", "sudo -v"),
    *("sudo -u x --edit", "uv --version", "uv run --help", "uv -h", "uvx -V", "conda run -h", "pixi run --dry-run"),
    *("poetry --version", "pipx run --help", "accelerate launch --help", "torchrun -h", "nsys --version", "ncu -v"),
    *("ncu -i x", "rocprofv3 --list-avail --", "ddtrace-run --info", "opentelemetry-instrument --version", "mpirun -h"),
]
"""Words with which launchers start nothing."""
UNKNOWN: Final = [
    *("nohup -x", "nohup --no-such", "nice --n 5", "nice -x", "timeout", "timeout my-wrapper", "timeout -x 5"),
    *("timeout --no-such 5", "timeout --foreground=x 5", "timeout 5x", "timeout -k 5", "taskset", "taskset my-wrapper"),
    *("taskset -c x", "chrt", "chrt high", "chrt --no-such 5", "stdbuf -x", "stdbuf --no-such=L", "time -x", "exec -x"),
    *("exec --no-such", "exec -cx", "command -x", "builtin -x", "tini --no-such", "tini -x", "dumb-init -x", "gosu -x"),
    *("gosu --", "su-exec -x x", "numactl -x", "numactl --no-such", "numactl --no-such my-wrapper", "busybox -x"),
    *("catatonit -x", "catchsegv -x", "setsid -x", "ionice --c 2", "ionice -x", "prlimit -x5 -k", "prlimit --no-such"),
    *(
        "uv --no-such run",
        "uv run --no-such",
        "uv run --no-sy",
        "uv run -e .",
        "uvx --no-such x",
        "conda run --no-such",
    ),
    *("poetry run --no-such", "pipx run --no-such", "nsys profile --no-such", "nsys profile --no-such my-wrapper"),
    *("ncu --no-such", "ncu --no-such my-wrapper", "rocprofv3", "rocprofv3 --hip-trace", "sudo -x", "sudo -h x"),
    *("opentelemetry-instrument --no-such x", "ddtrace-run -x", "mpirun -no-such", "pixi run --no-such"),
    *("torchrun --no-such", "accelerate launch --no-such x", "micromamba run --no-such"),
]
"""Words that launchers do not have."""


def answer(words: list[str], env: dict[str, str | None] | None = None) -> ServerCommand | UnreadableCommand | None:
    """What a command starts, without places."""
    return find_server(words, dict(ENV) if env is None else env)


def essence(words: list[str]) -> object:
    """What a command starts, apart from the programs before it and the vLLM that they use."""
    found = answer(words)
    if isinstance(found, ServerCommand):
        absent = absent_of(words)
        return (
            found.words,
            found.env,
            found.serve,
            [each for each in found.doubts if each not in absent],
            found.warnings,
        )
    return found


def absent_of(words: list[str]) -> list[str]:
    """The doubts about the commands of shells with which a command begins, as no shell runs it."""
    own = list(takewhile({"exec", "command", "builtin"}.__contains__, words))
    return [MISSING_PROGRAM_MESSAGE.format(f"`{word}`") for word in own]


def assert_doubtful(words: list[str]) -> None:
    """A command starts no server, or it is not known what it starts, or its server has a doubt and a warning."""
    found = answer(words)
    if isinstance(found, ServerCommand):
        assert (bool(found.doubts), bool(found.warnings)) == (True, True)


@cache
def essence_of(*words: str) -> object:
    """``essence``, of a command that many are compared with."""
    return essence([*words])


@table("before", KNOWN)
def test_a_launcher_with_its_own_words_gives_the_answer_of_the_command_after_it(before: str) -> None:
    for rest in RESTS:
        assert essence([*before.split(), *rest]) == essence_of(*rest)
        if not before.startswith(("builtin", "command", "time")):  # a shell's own commands, which `shell` reads
            script = shlex.join([*before.split(), *rest])
            shell = "bash" if before.startswith("exec -") else "sh"  # dash has no options of `exec`
            assert essence([shell, "-c", script]) == essence_of(shell, "-c", shlex.join(rest))


@table("before", CHANGING)
def test_a_launcher_that_may_change_variables_adds_a_doubt_to_that_answer(before: str) -> None:
    for rest in RESTS:
        found, plain = answer([*before.split(), *rest]), answer([*rest])
        if isinstance(plain, ServerCommand):
            assert isinstance(found, ServerCommand)
            assert (found.words, found.serve) == (plain.words, plain.serve)
            assert set(found.doubts) > set(plain.doubts)
            assert found.env.get(VARIABLE, "0") == plain.env.get(VARIABLE)
        else:
            assert found == plain


@table("before", OF_PYTHON)
@table(
    "rest",
    ["vllm serve m", "/opt/bin/vllm serve m", f"/x/{MODULE.replace('.', '/')}.py --model m", "launch.py vllm serve m"],
)
def test_a_launcher_of_python_files_gives_the_answer_of_python(before: str, rest: str) -> None:
    assert essence([*before.split(), *rest.split()]) == essence(["python3", *rest.split()])


@table("before", OF_MODULES)
@table("rest", [f"{MODULE} --model m", "vllm.entrypoints.cli.main serve m", "wrap vllm serve m", "x"])
def test_a_launcher_of_python_modules_gives_the_answer_of_python_with_that_module(before: str, rest: str) -> None:
    assert essence([*before.split(), *rest.split()]) == essence(["python3", "-m", *rest.split()])


@pytest.mark.parametrize("before", WITHOUT_PYTHON)
def test_a_launcher_of_python_files_may_be_told_to_start_a_program(before: str) -> None:
    for rest in RESTS:
        assert essence([*before.split(), *rest]) == essence([*rest])


@table("before", STOPPING)
def test_an_option_with_which_nothing_is_started_starts_nothing(before: str) -> None:
    assert answer([*before.split(), *VLLM]) is None
    assert answer(["sh", "-c", f"nohup {before} vllm run-batch"]) is None


@table("before", UNKNOWN)
def test_a_word_that_a_launcher_does_not_have_is_a_doubt(before: str) -> None:
    words = [*before.split(), *VLLM]
    found = answer(words)
    if before != "timeout -k 5":  # the duration is `vllm`, and the program `serve`
        assert isinstance(found, ServerCommand)
        assert found.words == ["org/m", "-tp", "2"]
    assert_doubtful(words)
    assert_doubtful(["sh", "-c", f"exec {before} vllm serve m"])


OTHERS: Final = [
    *("numactl -l my-wrapper", "uv run --no-sync my-wrapper", "torchrun --standalone launch.py", "exec run", "exec 5"),
    *("nice 5", "exec A=b", "taskset -c 0 --", "timeout 5 -k", "uv run A=b", "nohup ssh gpu1", "uv lock", "nsys stats"),
    *("tini -- /opt/bin/secrets run --", "exec screen -dmS v", "conda list", "accelerate config"),
    *("timeout 5 sleep 3", "nohup rm", "busybox rm", "poetry add", "exec docker exec x"),
]


@table("before", OTHERS)
def test_another_program_after_a_launcher_may_start_vllm_and_is_not_read(before: str) -> None:
    found = answer([*before.split(), *VLLM])
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm
    assert re.search(
        "among its arguments and may start it$|is not read$|is a Python program that is not read", found.why
    )


@pytest.mark.parametrize("before", ["exec echo", "nohup printf", "timeout 5 grep", "sudo -u x echo", "uv run echo"])
def test_a_program_that_prints_starts_nothing_after_a_launcher(before: str) -> None:
    assert answer([*before.split(), *VLLM]) is None
    assert answer([*before.split(), "vllm", "run-batch"]) is None


@table("name", sorted(UNREAD_LAUNCHERS))
def test_a_launcher_whose_words_are_not_read_is_a_doubt(name: str) -> None:
    for before in ([name], [name, "-x", "y"], ["nohup", name], ["timeout", "5", name, "--"]):
        found = answer([*before, *VLLM])
        assert isinstance(found, ServerCommand)
        assert (found.words, found.env) == (["org/m", "-tp", "2"], {VARIABLE: None})
        assert found.doubts == [f"`{name}` may change the variables of what it starts"]
        assert answer([*before, "nginx"]) is None


@table(
    "command", ["numactl -C $CPUS", "timeout $T", "timeout -k $T 5", "gosu $U", "numactl --membind=$N", "numactl -m$N"]
)
def test_a_value_or_operand_that_is_not_known_is_no_doubt(command: str) -> None:
    assert essence(["sh", "-c", f"{command} vllm serve m"]) == essence(["sh", "-c", "vllm serve m"])
    assert answer(["sh", "-c", f"{command} nginx"]) is None


@table(
    "command", ["exec $A", "numactl $A", "uv $A run", "timeout 5 $A", "numactl -l$A", "nohup {a,b}", "rocprofv3 $A --"]
)
def test_a_word_that_may_be_an_option_or_a_program_is_a_doubt(command: str) -> None:
    assert_doubtful(["sh", "-c", f"{command} vllm serve m"])
    assert isinstance(answer(["sh", "-c", f"{command} nginx $B"]), UnreadableCommand)


def test_the_doubt_names_the_word_and_the_launcher() -> None:
    line = read_command(["numactl", "--no-such", "my-wrapper", *VLLM], [""] * 9, {}, [], "")
    why = "`--no-such` is not a known option of `numactl`, and another program may start vLLM with other variables"
    assert (line.doubts, line.warnings) == ([why], [f"{why}; variables are not certain"])
    line = read_command(["timeout", "my-wrapper", *VLLM], [""] * 9, {}, [], "")
    assert line.doubts == ["`my-wrapper` may be another program, which may start vLLM with other variables"]


def test_the_doubts_about_a_command_are_limited() -> None:
    words = [word for index in range(500) for word in ("nohup", f"--option-{index}")]
    line = read_command([*words, *VLLM], [""] * 1005, {}, [], "")
    assert (line.words, len(line.doubts), len(line.warnings)) == (["org/m", "-tp", "2"], 8, 8)
    twice = read_command(["sudo", "nice", "sudo", *VLLM], [""] * 8, {}, [], "")
    assert twice.doubts == ["`sudo` may change the variables of what it starts"]


WORDS: Final = st.sampled_from(["x", "5", "0-3", "vllm", "serve", "run", "-x", "--", "my-wrapper", "A=b", "$(A)", "ü"])


@st.composite
def own_words(draw: st.DrawFn, launcher: Launcher) -> tuple[list[str], set[Meaning]]:
    """Words in the grammar of a launcher, and what its options do."""
    words: list[str] = []
    meanings: set[Meaning] = set()
    names = [name for name, option in launcher.options.items() if option.meaning is not Meaning.STOPS]
    for name in draw(st.lists(st.sampled_from(names), max_size=4)) if names else []:
        option = launcher.options[name]
        meanings.add(option.meaning)
        values = [draw(WORDS) for _ in range(option.values)]
        is_long = name.startswith("--")
        if option.takes_value and len(values) < 2 and (not values or draw(st.booleans())) and draw(st.booleans()):
            is_letter = len(name) == len("-x")
            values = [f"{name}={draw(WORDS)}" if is_long or not is_letter else f"{name}{draw(WORDS)}"]
            words += values
        else:
            words += [name, *values]
    if launcher.ends_options and draw(st.booleans()):
        words.append("--")
    if launcher.commands is not None:
        command = draw(st.sampled_from(sorted(launcher.commands)))
        inner, others = draw(own_words(launcher.commands[command]))
        return [*words, command, *inner], meanings | others
    operands = {"5": ("timeout 5", "chrt 5"), "0x3": ("taskset",)}
    for form in launcher.operands:
        words.append(next(word for word in (*operands, "x:y") if form.fullmatch(word)))
    return words, meanings


@pytest.mark.parametrize("name", sorted(set(LAUNCHERS) - UNREAD_LAUNCHERS - {"rocprofv3"}))
@given(st.data())
def test_any_words_of_a_launcher_s_grammar_give_the_answer_of_the_command_after_it(
    name: str, data: st.DataObject
) -> None:
    words, meanings = data.draw(own_words(LAUNCHERS[name]))
    rest = data.draw(st.sampled_from(RESTS))
    found, plain = answer([name, *words, *rest]), answer([*rest])
    if refusal_of(name, words):
        assert not isinstance(found, ServerCommand)
        return
    if Meaning.MODULE in meanings or Meaning.FILE in meanings or name in {"torchrun", "accelerate"}:
        return
    if not isinstance(plain, ServerCommand):
        assert getattr(found, "why", None) == getattr(plain, "why", None)
        return
    assert isinstance(found, ServerCommand)
    assert found.words == plain.words
    doubting = {Meaning.CHANGES, Meaning.LOGS_IN}
    may_change = LAUNCHERS[name].changes_variables or bool(meanings & doubting)
    assert set(found.doubts) >= set(plain.doubts)
    assert (len(found.doubts) > len(plain.doubts) + len(absent_of([name]))) is may_change


@pytest.mark.parametrize("name", sorted(set(LAUNCHERS) - UNREAD_LAUNCHERS - {"rocprofv3"}))
@given(st.data())
def test_any_other_option_among_the_words_of_a_launcher_is_a_doubt(name: str, data: st.DataObject) -> None:
    words, _ = data.draw(own_words(LAUNCHERS[name]))
    other = data.draw(st.sampled_from(["--no-such-option", "--no-such-option=x", "-@"]))
    assert_doubtful([name, other, *words, *VLLM])


PRINTS: Final = '#!/bin/sh\necho "${0##*/}" "$@" >&9\n'
PROGRAMS: Final = [
    *("nohup", "nice", "timeout", "stdbuf", "setsid", "ionice", "chrt", "taskset", "prlimit", "time"),
    *("bash exec", "bash command"),
]
TOKENS: Final = {
    "nice": ["-n", "-n1", "-1", "--1", "-+1", "--adjustment", "--adj=1", "1", "--"],
    "timeout": [
        "-k",
        "-k5",
        "-s",
        "-sTERM",
        "TERM",
        "5",
        "5s",
        "-v",
        "-vk",
        "--sig",
        "--signal=KILL",
        "--foreg",
        "--",
        "x",
    ],
    "stdbuf": ["-o", "-oL", "L", "0", "-i0", "--error", "--err=0", "-eL", "--"],
    "setsid": ["-w", "--wait", "--wa", "--", "-h"],
    "ionice": ["-c", "-c2", "2", "-n", "-n7", "-t", "--class", "--class=2", "-tc", "-p", "--", "--c"],
    "chrt": ["-o", "-b", "0", "-R", "-bR", "--batch", "--oth", "--", "-m", "-p"],
    "taskset": ["-c", "0", "0x1", "1", "--cpu-list", "-a", "-ac", "--", "-p"],
    "prlimit": ["-n", "-n99", "--nofile", "--nofile=99", "99", "--verb", "-o", "-oDESCRIPTION", "--", "-p"],
    "time": ["-p", "-f", "-f%e", "%e", "-v", "-qv", "-o", "/dev/null", "--quiet", "--form=%e", "--", "-V"],
    "bash exec": ["-a", "-ax", "x", "-c", "-la", "-l", "--", "-cl"],
    "bash command": ["-p", "-v", "-pv", "--", "-V"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs that print their names and arguments."""
    folder = tmp_path_factory.mktemp("launchers")
    for name in ("vllm", "my-wrapper"):
        (folder / name).write_text(PRINTS, encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "work").mkdir()
    return folder


def started(words: list[str], folder: Path) -> str:
    """What a command really starts: the line that it prints.

    It runs in a folder without the programs: `time -o vllm` writes a file.
    """
    path = folder / "output"
    with path.open("wb") as output:
        subprocess.run(
            ["/bin/sh", "-c", 'exec 9>&1 >/dev/null; exec "$@"', "sh", *words],
            cwd=folder / "work",
            env={"PATH": f"{folder}:{os.defpath}"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("program", [each for each in PROGRAMS if shutil.which(each.partition(" ")[0])])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_launchers_start_what_is_read_from_their_words(program: str, folder: Path, data: st.DataObject) -> None:
    shell, _, builtin = program.rpartition(" ")
    tokens = [*TOKENS.get(program, ["--"]), "my-wrapper", "-@", "--no-such-option"]
    before = data.draw(st.lists(st.sampled_from(tokens), max_size=4))
    words = [builtin, *before, "vllm", "serve", "org/m"]
    command = [shell, "-c", shlex.join(words)] if shell else words
    found, line = answer(command, {}), started(command, folder)
    is_read = isinstance(found, ServerCommand) and not found.doubts
    if line == "vllm serve org/m\n":
        is_doubtful = builtin == "command" or (
            builtin == "exec" and "exec -l" in " ".join(getattr(found, "doubts", ()))
        )
        assert is_read or is_doubtful
    else:
        assert not (is_read and line)
        assert found is not None or not line.startswith("vllm serve")
