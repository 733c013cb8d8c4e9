"""Commands of pip that remove or replace Triton before vLLM starts: a warning, and a doubt about the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deployments import TODAY
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking

V = "vllm serve dense"
U = "pip uninstall -y triton"


def doubts(ask: Asking, script: str) -> tuple[list[str], list[str]]:
    """The warnings about Triton, and the reasons why the deployment is not certain."""
    request = read_request(ask.request(script), ask.policy.releases)
    result = ask.policy.evaluate(request, TODAY)
    assert result.intake is not None
    warnings = [each for each in ask.policy.assemble(result).warnings if "without Triton" in each]
    try:
        require_known_values(result.intake, "/deployment")
    except RequestInvalid as error:
        return warnings, [fault.message for fault in error.faults]
    return warnings, []


@table(
    ("script", "subcommand", "named"),
    [
        (f"pip uninstall -y triton; {V}", "uninstall", "triton"),
        (f"pip install triton==2.0; {V}", "install", "triton==2.0"),
        (f"pip3 install -U 'Triton>=3' && {V}", "install", "Triton>=3"),
        (f"python -m pip uninstall -y pytorch-triton-rocm\n{V}", "uninstall", "pytorch-triton-rocm"),
        (f"uv pip uninstall pytorch_triton_xpu; exec {V}", "uninstall", "pytorch_triton_xpu"),
        (f"bash -c 'pip install pandas triton[tests]; {V}'", "install", "triton[tests]"),
        (f"bash -c 'pip uninstall -y triton'; {V}", "uninstall", "triton"),
        (f"sudo sh -ec 'cd /x && pip install \"triton==2.0\"; ls'; {V}", "install", "triton==2.0"),
        (f"for i in 1 2; do pip uninstall -y triton; {V}; done", "uninstall", "triton"),
    ],
)
def test_triton_may_be_absent(ask: Asking, script: str, subcommand: str, named: str) -> None:
    why = (
        f"`pip {subcommand}` of `{named}` may leave vLLM without Triton or with another one, and it chooses the runner "
        "by whether Triton works"
    )
    warnings, faults = doubts(ask, script)
    assert warnings == [why]
    assert [each.startswith(why) for each in faults] == [True]


@table(
    "command",
    [
        *("echo triton | xargs pip uninstall -y", "pip freeze | xargs -n 1 pip3 uninstall -y", "pip uninstall -yr /r"),
        *("pip uninstall -y -r /r", "pip uninstall --requirement=/r -y", 'pip uninstall -y "$X"', "pip uninstall tri*"),
    ],
)
def test_packages_that_are_not_known_may_be_triton(ask: Asking, command: str) -> None:
    why = "`pip uninstall` of packages that are not known may leave vLLM without Triton or with another one"
    warnings, faults = doubts(ask, f"{command}; {V}")
    assert [each.startswith(why) for each in warnings] == [True]
    assert any(each.startswith(why) for each in faults)


@table(
    "script",
    [
        *(f"A=$({U}); {V}", f'A="$({U})"; {V}', f"A=`{U}`; {V}", f"export A=$({U}); {V}", f"echo $({U}); {V}"),
        *(f'[ -n "$({U})" ]; {V}', f"if A=$({U}); then :; fi; {V}", f"for i in $({U}); do :; done; {V}"),
        *(f"echo ${{A:-$({U})}}; {V}", f"A=$({U}) {V}", f'{V} --served-model-name "a$({U})"', f"{V} > /tmp/$({U})"),
        *(f"A=$(echo $({U})); {V}", f"A=$( ({U}) ); {V}", f"A=$({{ {U}; }}); {V}", f"A=$(true; {U} || :); {V}"),
        *(f"set -- $({U}); {V}", f'cd "$({U})"; {V}', f": $({U})\n{V}", f"exec env A=$({U}) {V}", f"$({U}); {V}"),
        *(f"bash -c '{V}' \"$({U})\"", f"bash -c 'A=$({U}); {V}'", f"! A=$({U}); {V}", f"A=$({U}) && {V}"),
        *(f"A=($({U})); {V}", f"echo $(( $({U}) + 1 )); {V}", f"(( $({U}) > 0 )); {V}", f"cat < $({U}); {V}"),
        *(f"cat <<E\n$({U})\nE\n{V}", f"T=triton; A=$(pip uninstall -y $T); {V}", f"A=$(({U}); true); {V}"),
        *(f"A=`echo \\`{U}\\``; {V}", f"case $({U}) in a) :;; esac; {V}", f"A[$({U})]=1; {V}"),
    ],
)
def test_a_substitution_may_replace_triton(ask: Asking, script: str) -> None:
    warnings, faults = doubts(ask, script)
    assert len(warnings) == 1
    assert any(each.startswith(warnings[0]) for each in faults)


@table(
    "script",
    [
        *(f"until {V}; do {U}; done", f"while true; do {V}; {U}; done", f"for i in 1 2; do {V}; {U}; done"),
        *(f"until {V}; do A=$({U}); done", f"f() {{ {V}; }}; {U}; f", f"{V} & {U}; wait", f"{V} | {{ {U}; }}"),
        *(f"{V} 2>&1 | tee log | {{ sleep 1; {U}; }}; echo", f"{{ {V}; }} & {U}; wait", f"setsid -f {V}; {U}"),
        *(f"{V} & A=$({U}); wait", f"setsid --fork {V}; {U}; sleep infinity", f"until {V}; do :; {V}; {U}; {V}; done"),
    ],
)
def test_triton_may_be_absent_when_a_server_starts_again_or_loads(ask: Asking, script: str) -> None:
    warnings, _ = doubts(ask, script)
    assert len(warnings) == 1


def test_a_substitution_that_is_not_read_is_a_doubt(ask: Asking) -> None:
    script = f"{'$(mkdir ' * 5}x{')' * 5}"
    _, faults = doubts(ask, f"A={script}; {V}")
    assert [each.split("; ")[0] for each in faults] == [
        f"the commands in `{script[8 * 4 :][:-4]}` are not read: it is nested more than 4 deep"
    ]


@table(
    "script",
    [
        *(f"{V} | tee log; {U}", f"setsid -w {V}; {U}", f"A='$({U})'; {V}", f"{V}; A=$({U})"),
        *(f"A=$((1 + 2)); {V}", f"cat log | {{ {V}; {U}; }}"),
        f"pip uninstall -y pandas; {V}",
        f"pip install pandas; {V}",
        f"pip show triton; {V}",
        f"pip install triton-kernels tritonclient triton.tools; {V}",
        f"echo pip uninstall triton; {V}",
        f"{V}; pip uninstall -y triton",
    ],
)
def test_other_commands_leave_triton_as_it_is(ask: Asking, script: str) -> None:
    assert doubts(ask, script) == ([], [])
