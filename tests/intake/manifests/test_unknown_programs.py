"""Programs that are not known, where the object names vLLM apart from them: they may be vLLM's server, wherever run."""

from __future__ import annotations

import pytest
from command_places import HOOKS, OWN_IMAGE, PLACES, VLLM, document_of, expected, problems
from tables import table

IMAGES = [VLLM, OWN_IMAGE, "registry.example.org/our-vllm:1"]
P = {"name": "P", "value": "vllm"}
SCRIPTS = [
    "$(echo $P) serve a/b",
    "`echo $P` serve a/b",
    "exec $(printenv P) serve a/b",
    "env A=b $(which $P) serve a/b",
    "A=$(echo $P); $A serve a/b",
    "${P%x} serve a/b",
    "${P#x} serve a/b",
    "${P/x/y} serve a/b",
    "${P,,} serve a/b",
    "exec ${P@E} serve a/b",
    "for i in $P; do $i serve a/b; done",
    "f() { $1 serve a/b; }; f $P",
    "printf -v X %s $P; $X serve a/b",
    "mapfile -t X <<< $P; ${X[0]} serve a/b",
    "declare -n R=P; $R serve a/b",
    "declare -n R; R=P; $R serve a/b",
    "A=ls; typeset -n R=A; R=$P; $A serve a/b",
    "f() { local -n R=P; $R serve a/b; }; f",
    "eval $(echo $P) serve a/b",
    "ln -s $(which $P) /x; /x serve a/b",
    "nohup $(echo $P) serve a/b &",
    "/usr/local/bin/$(echo $P) serve a/b",
    "python3 -m $(echo $P).entrypoints.cli.main serve a/b",
    "python3 -m $(echo $P).entrypoints.openai.api_server --model a/b",
    "bash /x/start.sh serve a/b",
    "$(echo $P) serve a/b\necho 'unclosed",
    *(f"{program} $(echo $P) serve a/b" for program in ("flock /l", "watch", "find . -exec", "ssh h", "coproc")),
    *(f"{program} '$(printenv P) serve a/b'" for program in ("flock /l -c", "su -c", "ssh h", "watch", "script -c")),
    "trap '$(echo $P) serve a/b' EXIT",
    *(f"{program} $(which $P) /usr/bin/x; x serve a/b" for program in ("cp", "mv", "ln -s", "install", "hash -p")),
    "cat $(which $P) > /usr/bin/x; x serve a/b",
    "alias x=$(echo $P); x serve a/b",
]
ANY_IMAGE = [
    *("$UNKNOWN serve a/b", "$(cat /x) serve a/b", "bash /x/start.sh serve", "flock /l $UNKNOWN serve a/b"),
    *("trap '$UNKNOWN serve a/b' EXIT", "cp $UNKNOWN /bin/x; x serve a/b"),
]
"""Those in which only the image names vLLM."""


@table("place", PLACES)
@table("script", SCRIPTS)
@table("image", IMAGES)
def test_a_program_is_not_known_and_a_variable_names_vllm(place: str, script: str, image: str) -> None:
    document = document_of(place, image, ["bash", "-c", script], P)
    assert problems(place, document) == [expected(place)]


@table("place", PLACES)
@table("script", ANY_IMAGE)
@table("image", [VLLM, "registry.example.org/our-vllm:1"])
def test_a_program_is_not_known_and_the_image_names_vllm(place: str, script: str, image: str) -> None:
    assert problems(place, document_of(place, image, ["sh", "-c", script])) == [expected(place)]


@table("place", HOOKS)
@table("command", [["/start.sh"], ["bash", "/x/start.sh"], ["sh", "-c", "$(cat /x)"], ["sh", "-c", "$UNKNOWN"]])
def test_a_hook_of_another_program_in_an_image_of_vllm_runs_what_is_not_known(place: str, command: list[str]) -> None:
    assert problems(place, document_of(place, VLLM, command)) == [expected(place)]
    assert problems(place, document_of(place, OWN_IMAGE, command, P)) == []


@table("place", PLACES)
@table(
    ("command", "value"),
    [
        (["sh", "-c", "ls; cp -r /a /b"], "vllm"),
        (["sh", "-c", "cp $UNKNOWN /x; serve -s build"], "vllm"),
        (["sh", "-c", "flock /l hf download $P; echo 'ready to serve'"], "vllm"),
        (["hf", "download", "a/b", "--local-dir", "/serve"], "vllm"),
        (["sh", "-c", "echo ready to serve"], "vllm"),
        (["sh", "-c", "if [ -f /x ]; then curl -f http://localhost:8000/health; fi"], "vllm serve"),
        (["serve", "-s", "build"], "vllm"),
        (["sh", "-c", "$(echo $P) serve a/b"], "ollama"),
        (["sh", "-c", "$(cat /x)"], "vllm"),
        (["/start.sh", "server"], "vllm"),
    ],
)
def test_other_programs_are_ignored(place: str, command: list[str], value: str) -> None:
    assert problems(place, document_of(place, OWN_IMAGE, command, {"name": "P", "value": value})) == []


@pytest.mark.parametrize("place", ["initContainers", "ephemeralContainers"])
@table(
    "script",
    [
        *("ls", "bash /x/start.sh", "hf download $P", "cp -r $A /b", "python3 /x/y.py", "echo $A ready to serve"),
        *("cp $A /b; echo 'ready to serve'", '[ -n "$A" ] && cp $A serve', ". /x/env; curl $A/serve"),
    ],
)
def test_containers_that_prepare_something_with_vllms_image_are_ignored(place: str, script: str) -> None:
    assert problems(place, document_of(place, VLLM, ["sh", "-c", script], P)) == []
