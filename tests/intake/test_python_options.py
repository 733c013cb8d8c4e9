"""The options of Python before its program are read as Python reads them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from representatives import slow_except

from policy.intake.command.launcher import read_command

if TYPE_CHECKING:
    from policy.errors import RequestFault

STARTS = [
    *("", "-u", "-bb", "-uBOO", "-E", "-I", "-s", "-P", "-q", "-x", "-R", "-t", "-d", "-v", "-W ignore", "-Wx", "-Wh"),
    *("-X dev", "-Xdev", "-X utf8", "-X utf8=1", "-X utf8=0", "-X utf8x=5", "-X utf8=1 -X utf8=5", "-X foo=1"),
    *("-X int_max_str_digits=0", "-X int_max_str_digits=640", "-X int_max_str_digits=", "-X int_max_str_digits=+05000"),
    *("-X tracemalloc", "-X tracemalloc=", "-X tracemalloc=0", "-X tracemalloc=-0", "-X tracemalloc=65535"),
    *("-X importtime", "-X frozen_modules", "-X frozen_modules=off", "-uX dev", "-X no_debug_ranges=x"),
    *("--check-hash-based-pycs always", "--check-hash-based-pycs never -u"),
]
STOPS = ["-V", "-VV", "-uV", "--version", "-h", "-?", "-uh", "--help", "--help-env", "--help-xoptions", "--help-all"]
REFUSED = {
    **{f"-{letter}": f"-{letter}" for letter in "JZ3Gl"},
    "-O0": "-0",
    "-u -Zh": "-Z",
    "--hel": "--hel",
    "--no-site": "--no-site",
    "---": "---",
    "--check-hash-based-pycs=always": "--check-hash-based-pycs=always",
    "--check-hash-based-pycs x": "--check-hash-based-pycs x",
    **{
        f"-X {setting}": f"-X {setting}"
        for setting in (
            *("utf8=5", "utf8=", "utf8=01", "int_max_str_digits", "int_max_str_digits=1", "int_max_str_digits=639"),
            *("int_max_str_digits=99999999999", "tracemalloc=x", "tracemalloc=-1", "tracemalloc=65536"),
        )
    },
    "-EXutf8=5": "-X utf8=5",
    "-X utf8=5 -X utf8=1": "-X utf8=5",
}
PERHAPS = [
    *("frozen_modules=x", "importtime=3", "cpu_count=0", "cpu_count", "gil=0", "gil"),
    *("context_aware_warnings=5", "thread_inherit_context"),
]


def read(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """vLLM's words in a command, its doubts, and the faults."""
    faults: list[RequestFault] = []
    found = read_command(words, [""] * len(words), {}, faults, "")
    return found.words, found.doubts, [fault.message for fault in faults]


def of(options: str, python: str = "python3") -> tuple[list[str], list[str], list[str]]:
    """The same for a module of vLLM after options of Python."""
    return read([python, *options.split(), "-m", "vllm.entrypoints.openai.api_server", "--model", "m"])


def runs(options: str) -> bool:
    """Whether the Python of this machine runs a module after options."""
    words = [sys.executable, *options.split(), "-m", "timeit", "-n1", "-r1", "-s", "print('started')"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    return b"started" in done.stdout


def test_python_starts_its_module_after_these_options() -> None:
    found = {options: of(options) for options in STARTS}
    assert found == dict.fromkeys(STARTS, (["--model", "m"], [], []))


def test_python_that_only_prints_something_starts_nothing() -> None:
    for options in STOPS:
        words, doubts, (fault,) = of(options)
        assert (words, doubts, "does not start vLLM's server" in fault) == ([], [], True), options


def test_python_that_refuses_an_option_starts_nothing() -> None:
    found = {options: of(options) for options in REFUSED}
    why = "`python3` starts nothing with the option `{}`, so nothing starts it; remove what comes before"
    assert found == {options: ([], [], [why.format(named)]) for options, named in REFUSED.items()}


def test_an_option_that_only_some_releases_of_python_refuse_is_a_doubt() -> None:
    why = "`python3` may start nothing with the option `-X {}`, which some releases of Python refuse"
    found = {setting: of(f"-X {setting}") for setting in PERHAPS}
    assert found == {setting: (["--model", "m"], [why.format(setting)], []) for setting in PERHAPS}


@pytest.mark.parametrize("options", ["-S", "-IS", "-u -S -S"])
def test_python_without_its_folder_of_packages_is_a_doubt(options: str) -> None:
    why = "with `-S` `python3` does not search the folder of packages, so there may be no vLLM, or another one"
    assert of(options) == (["--model", "m"], [why], [])
    assert read(["python3", *options.split(), "/opt/bin/vllm", "serve", "m"]) == (["m"], [why], [])


def test_what_follows_two_dashes_is_a_file() -> None:
    assert read(["python3", "-u", "--", "/opt/bin/vllm", "serve", "m"]) == (["m"], [], [])
    assert "the file `-m` is a Python program that is not read" in of("--")[2][0]
    assert "reads its program from standard input" in read(["python3", "--", "-"])[2][0]
    assert "reads its program from standard input" in read(["sh", "-c", "python3 -u --"])[2][0]


def test_a_value_that_is_not_known_may_be_any() -> None:
    words, _, faults = read(["sh", "-c", 'python3 -X "$A" -m vllm.entrypoints.openai.api_server --model m'])
    assert (words, faults) == (["--model", "m"], [])


def test_another_program_after_a_refused_option_is_no_problem() -> None:
    assert read(["sh", "-c", "python3 --version; python3 -Z -m pip; vllm serve m"]) == (["m"], [], [])


@pytest.mark.parametrize("options", slow_except([*STARTS[::4], "-S"], [*STARTS, "-S"]))
def test_the_python_of_this_machine_runs_a_module_after_these_options(options: str) -> None:
    assert runs(options)


@pytest.mark.parametrize("options", slow_except([*STOPS[::4], *[*REFUSED][::4], "--"], [*STOPS, *REFUSED, "--"]))
def test_the_python_of_this_machine_runs_nothing_after_these_options(options: str) -> None:
    assert not runs(options)


def test_many_options_are_read_in_proportion_to_their_number() -> None:
    assert of(" ".join(["-u", "-X", "dev", "-W", "ignore"] * 100))[0] == ["--model", "m"]
    assert of("-" + "u" * 20_000)[0] == ["--model", "m"]
    assert of("-X tracemalloc=" + "0" * 20_000)[0] == []
