"""Scripts that start no server as they are read, but may run what is read as data, or a program other than named."""

from __future__ import annotations

import pytest
from command_places import OWN_IMAGE, PLACES, VLLM, document_of, expected, problems
from tables import table

from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand

SERVE = "vllm serve a/b --prefill-context-parallel-size 2"
LINK = "mkdir -p /tmp/a; ln -sf /bin/sh /tmp/a/cat; "
TEXT = f"cat <<E\n{SERVE}\nE"
ANY_SHELL = [
    f"alias cat=sh\n{TEXT}",
    f"command alias cat=sh\n{TEXT}",
    f"hash -p /bin/sh cat; {TEXT}",
    f"enable -f /x.so cat; {TEXT}",
    f"PATH=/tmp/a:$PATH; {TEXT}",
    f"export PATH=/tmp/a:$PATH; {TEXT}",
    f"export 'PA'TH=/tmp/a; {TEXT}",
    f"read PATH < /x; {TEXT}",
    f"PATH=/tmp/a:$PATH {TEXT}",
    f"env PATH=/tmp/a:/bin {TEXT}",
    f"{LINK}/tmp/a/{TEXT}",
    f"{LINK}cd /tmp/a; ./{TEXT}",
    f"cp /bin/sh /bin/cat; {TEXT}",
    f"mv /bin/sh /bin/cat; {TEXT}",
    f"cp $(which sh) /tmp/a/cat; {TEXT}",
    f"A=$(ln -sf /bin/sh /bin/cat); {TEXT}",
    f"ln -s /bin/sh /tmp/[; /tmp/[ -c '{SERVE}'",
    f"cp /bin/sh /tmp/echo; env /tmp/echo -c '{SERVE}'",
    f"cd /bin; ln -sf sh cat; {TEXT}",
    f"sudo ln -sf /bin/sh /bin/cat; {TEXT}",
    f"cat /bin/sh > /bin/cat; {TEXT}",
    f"ln -s /usr/bin/env /tmp/a/echo; /tmp/a/echo {SERVE}",
    f"ln -s /bin/sh /tmp/a/tr; echo '{SERVE}' | /tmp/a/tr",
    f"ln -s /bin/sh /bin/wc; echo '{SERVE}' | wc",
    f"echo '{SERVE}' | sed 's/^//e'",
    f"echo '{SERVE}' | sed e",
    f"echo '{SERVE}' | sed -n -e 's/x/y/;e'",
    f"echo '{SERVE}' | sed -f /x",
    f"echo '{SERVE}' | mywrap",
    f"echo '{SERVE}' | at now",
    f"echo 'alias cat=sh' > /tmp/env; . /tmp/env\n{TEXT}",
    "IFS=_; A='vllm_serve_a/b'; $A",
    "IFS=,; A='A=b,vllm,serve,a/b'; env $A",
    "A='vllm-serve'; B=c ${A%-*} ${A#*-} a/b",
]
BASH = [
    "xargs -a <(echo serve a/b --prefill-context-parallel-size 2) vllm",
    "xargs --arg-file=<(echo serve a/b) -t vllm",
    f"make -f <(echo '{SERVE}')",
    f"BASH_CMDS[cat]=/bin/sh\n{TEXT}",
    "BASH_CMDS[sleep]=/usr/local/bin/vllm\nsleep serve a/b",
    "BASH_ALIASES[sleep]=vllm\nshopt -s expand_aliases\nsleep serve a/b",
    f"shopt -s expand_aliases; BASH_ALIASES[cat]=sh\n{TEXT}",
    f"declare 'BASH_'CMDS[cat]=/bin/sh\n{TEXT}",
    f"cat <<EF\nfoo\nE\\\nF\n{SERVE}\nEF\n",
    f"cat <<E\nfoo\nE\\\n\n{SERVE}\nE\n",
    f"cat <<-EF\nfoo\n\tE\\\nF\n{SERVE}\nEF\n",
    f"cat <<EF\nfoo\\\nEF\ncat <<'X'\nEF\n{SERVE}\nX\n",
]
OTHER_SHELL = [
    f"echo &> /dev/null {SERVE}",
    f"echo a &>> /dev/null {SERVE}",
    f"grep a &>/dev/null env {SERVE}",
    f"echo $'\\'\n{SERVE}\necho \\''",
    f"A=$'\\'\n{SERVE}\nB=\\''",
    f"cat <<$'E'\nx\n$E\n{SERVE}\nE",
    f"A='env {SERVE}'; ((x || $A))",
    f"A='env {SERVE}'; (( $A ))",
    f'cat <<$"E"\nx\n$E\n{SERVE}\nE',
]
SILENT = [
    "cat <(echo vllm serve a/b)",
    "echo 'vllm serve a/b'",
    TEXT,
    "pip install vllm; echo 'then run: vllm serve a/b'",
    "pkill -f 'vllm serve'",
    "until curl -sf http://vllm:8000/health; do echo 'waiting for vllm serve'; sleep 2; done",
    "until pgrep -f 'vllm serve' &> /dev/null; do sleep 1; done",
    "pgrep -f 'vllm serve' &>/dev/null || exit 1",
    "hash -r; alias -p; echo 'vllm serve a/b'",
    "export PATH=$PATH:/x/bin; echo 'vllm serve a/b'",
    'export PATH="${PATH}:/x/bin"; echo "$PATH vllm serve a/b"',
    "export LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH; echo 'vllm serve a/b'",
    "export PYTHONPATH=/x; echo 'vllm serve a/b'",
    "cp -r /a /b; ln -s /x/python3 /usr/bin/python; cp /x/uv /usr/local/bin/; echo 'vllm serve a/b'",
    "cp test /x; ln -sf /usr/bin/pip3 /usr/bin/pip; echo 'vllm serve a/b'",
    "/usr/bin/echo 'vllm serve a/b' | /bin/grep serve | tee /dev/stderr",
    "echo 'vllm serve a/b' | tr a b | sort | awk '{print $1}'",
    "echo 'vllm serve a/b' | sed -e 's/serve/Serve/g; s|e|f|' -e '/e/d'",
    "echo 'vllm serve a/b' | sed '1i the first line'",
    "cat <<E\nvllm serve a/b \\\n  --port 1\nE",
    "cat <<E\nvllm serve a/b \\\\\nE\n",
    "cat <<'E'\nvllm serve \\\nE\n",
    "echo $'vllm serve\\n'",
    ". /x/env; echo 'vllm serve a/b'",
    "A=vllm-serve-7b; kubectl rollout status deploy/${A%-7b}; echo ${A%-7b}",
    'IFS=, read -r A B; echo "$A" vllm-serve',
]
WITHOUT_SERVER = [
    *("alias ll='ls -l'", "export PATH=/x:$PATH; python3 /x/y.py", "sed -i 's/a/b/e' /x", "ln -s /bin/sh /tmp/a/cat"),
    *("cat <<E\nE\\\n\nls\nE\n", "BASH_CMDS[cat]=/bin/sh", "echo &> /dev/null ls", "echo a | mywrap"),
]
"""Scripts that name no server of vLLM."""


@table("place", PLACES)
@table("script", [*ANY_SHELL, *BASH])
@table("image", [VLLM, OWN_IMAGE])
def test_a_script_may_run_what_it_shows_as_data(place: str, script: str, image: str) -> None:
    assert problems(place, document_of(place, image, ["bash", "-c", script])) == [expected(place)]


@table("place", PLACES)
@table("script", [*ANY_SHELL, *OTHER_SHELL])
@table("image", [VLLM, OWN_IMAGE])
def test_a_script_of_any_shell_may_run_what_it_shows_as_data(place: str, script: str, image: str) -> None:
    assert problems(place, document_of(place, image, ["sh", "-c", script])) == [expected(place)]


@table("script", [*ANY_SHELL, *BASH])
@table("doubts_programs", [False, True])
def test_the_reason_is_given(script: str, *, doubts_programs: bool) -> None:
    found = find_server(["bash", "-c", script], {}, is_command=True, doubts_programs=doubts_programs)
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm
    assert not found.is_any_program


@table("shell", ["sh", "bash"])
@table("script", [f"cat <<--E\nx\n-E\n{SERVE}\nE", f"cat <<EF\n\\\nEF\n{SERVE}\nEF\n"])
def test_a_server_after_a_here_document_is_found(shell: str, script: str) -> None:
    assert isinstance(find_server([shell, "-c", script], {}, is_command=True), ServerCommand)


@table("place", PLACES)
@table("script", SILENT)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_script_that_only_mentions_the_server_is_ignored(place: str, script: str, shell: str) -> None:
    assert problems(place, document_of(place, OWN_IMAGE, [shell, "-c", script])) == []


@table("place", PLACES)
@table("script", WITHOUT_SERVER)
def test_a_script_that_does_not_mention_the_server_is_ignored(place: str, script: str) -> None:
    assert problems(place, document_of(place, OWN_IMAGE, ["sh", "-c", script], {"name": "P", "value": "vllm"})) == []
