"""Scripts that shells refuse as a whole, so that nothing in them runs: never certain, and compared with real shells."""

from __future__ import annotations

import subprocess

from tables import table

from policy.intake.command.certain_scripts import uncertain_construct

REFUSED = (
    *("vllm serve m; fi", "vllm serve m;;", "vllm serve m &&", "vllm serve m ; ; true", "& vllm serve m", "a | | b"),
    *(
        "if vllm serve m; then fi",
        "vllm serve m; done",
        "vllm serve m; }",
        "then vllm serve m",
        "do vllm serve m",
        "a |",
    ),
    *(
        "if true; vllm serve m",
        "if true; then vllm serve m",
        "while true; do vllm serve m",
        "{ vllm serve m; ",
        "else a",
    ),
    *(
        "if true; then a; elif; then b; fi",
        "if true; do a; done",
        "while true; then a; fi",
        "for i in a; b; done",
        "; a",
    ),
    *(
        "for i in a; do done",
        "{ ; a; }",
        "if true; then; a; fi",
        "a && && b",
        "a || ;",
        "if true; then a; else fi",
        "a &;",
    ),
    *(
        "if true; then a; else b; else c; fi",
        "if a; then b; fi; fi",
        "{ a; } }",
        "vllm serve m\n;;",
        "a &&\n",
        "a | ; b",
    ),
)
ACCEPTED = (
    *(
        "vllm serve m",
        "a; vllm serve m;",
        "a & vllm serve m &",
        "a &&\n vllm serve m",
        "a |\n\n b",
        "{ vllm serve m; }",
    ),
    *("if true; then vllm serve m; fi", "if a; then b; elif c; then d; else e; fi", "while false; do a; done; b\n"),
    *(
        "for i in a b; do echo c; done",
        "for i in a\ndo\nb\ndone",
        "if a\nthen\n\nb\nfi",
        "if ! a; then b; fi",
        "a || b && c",
    ),
    *(
        "if a; then { b; }; fi",
        "while a; do if b; then c; fi; done",
        "A=b; a",
        "A=b a && b",
        "until a; do b; done",
        "a\n\nb",
    ),
    *(
        '"/bin/vllm" serve m',
        'true && "/bin/vllm" serve m',
        "a # fi\n",
        "echo fi done then",
        "{ a; b & }",
        "> f a && b",
    ),
)


def is_accepted(shell: str, script: str) -> bool:
    return subprocess.run([shell, "-n", "-c", script], capture_output=True, check=False).returncode == 0


@table("script", REFUSED)
def test_a_script_that_shells_refuse_is_not_certain(script: str) -> None:
    assert [is_accepted(shell, script) for shell in ("dash", "bash")] == [False, False]
    assert uncertain_construct(script, is_bash=True)
    assert uncertain_construct(script, is_bash=False)


@table("script", ACCEPTED)
def test_a_script_that_shells_accept_is_certain(script: str) -> None:
    assert [is_accepted(shell, script) for shell in ("dash", "bash")] == [True, True]
    assert uncertain_construct(script, is_bash=True) == ""
    assert uncertain_construct(script, is_bash=False) == ""
