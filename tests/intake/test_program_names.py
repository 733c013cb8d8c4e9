"""A program of which only a shell knows the name is in doubt where no shell reads the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.launcher import read_command, read_text
from policy.intake.command.program_names import MISSING_PROGRAM_MESSAGE
from policy.intake.command.python_command import MISSING_FILE_MESSAGE
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

SERVE = ["serve", "a/b"]
ABSENT = {
    word: MISSING_PROGRAM_MESSAGE.format(f"`{word}`") for word in ("exec", "command", "builtin", "eval", "source", ".")
}
ASSIGNS = MISSING_PROGRAM_MESSAGE.format("`V=…`")


def doubts_of(words: list[str], env: dict[str, str | None] | None = None) -> list[str]:
    """The doubts about a command that starts vLLM, but those about scripts that are not read."""
    faults: list[RequestFault] = []
    found = read_command(words, ["args"] * len(words), {} if env is None else env, faults, "")
    assert (found.words, faults) == (["a/b"], [])
    return [doubt for doubt in found.doubts if "is not read" not in doubt]


@table("before", ["", "tini --", "dumb-init", "nohup", "timeout 5", "nice", "setsid", "stdbuf -oL"])
@table("program", ["exec", "command", "builtin", "exec -a x"])
def test_a_command_of_shells_may_be_no_program(program: str, before: str) -> None:
    first = program.partition(" ")[0]
    assert doubts_of([*before.split(), *program.split(), "vllm", *SERVE]) == [ABSENT[first]]
    assert doubts_of(["env", "A=b", *before.split(), *program.split(), "vllm", *SERVE]) == [ABSENT[first]]


@table(
    ("words", "doubts"),
    [
        (["V=0", "vllm", *SERVE], [ASSIGNS]),
        (["V=0", "W=secret", "python3", "-m", "vllm.entrypoints.cli.main", *SERVE], [ASSIGNS]),
        (["V=0", "exec", "vllm", *SERVE], [ASSIGNS, ABSENT["exec"]]),
        (["exec", "exec", "vllm", *SERVE], [ABSENT["exec"]]),
        (["builtin", "exec", "vllm", *SERVE], [ABSENT["builtin"], ABSENT["exec"]]),
        (["/usr/bin/command", "vllm", *SERVE], [MISSING_PROGRAM_MESSAGE.format("`/usr/bin/command`")]),
        (["eval", "vllm serve a/b"], [ABSENT["eval"]]),
        (["source", "/x.sh", "vllm", *SERVE], [ABSENT["source"]]),
        ([".", "/x.sh", "vllm", *SERVE], [ABSENT["."]]),
        (["exec", "bash", "-c", "vllm serve a/b"], [ABSENT["exec"]]),
        (["env", "-S", "V=0 exec vllm serve a/b"], [ABSENT["exec"]]),
        (["env", "V=0", "vllm", *SERVE], []),
        (["sh", "-c", "V=0 exec vllm serve a/b"], []),
        (["sh", "-c", "nohup vllm serve a/b"], []),
        (["sh", "-c", "exec exec vllm serve a/b"], [ABSENT["exec"]]),
        (["sh", "-c", "nohup exec vllm serve a/b"], [ABSENT["exec"]]),
        (["sh", "-c", "env command vllm serve a/b"], [ABSENT["command"]]),
        (["sh", "-c", "eval 'exec vllm serve a/b'"], []),
        (["sh", "-c", "eval 'timeout 5 exec vllm serve a/b'"], [ABSENT["exec"]]),
    ],
)
def test_shells_know_their_commands_and_assignments_and_other_programs_do_not(
    words: list[str], doubts: list[str]
) -> None:
    assert doubts_of(words) == doubts


@table(
    "program",
    [
        *("$HOME/bin/vllm", "~/bin/vllm", "~user/vllm", "${VENV}/bin/vllm", "$(NAME)/bin/vllm", "$$(SET)/vllm"),
        *("*/vllm", "/opt/venv?/bin/vllm", "/opt/[ab]/vllm", "{/opt,/usr}/bin/vllm", "`pwd`/vllm"),
    ],
)
def test_an_expansion_in_the_folder_of_a_program_is_a_folder_of_this_name(program: str) -> None:
    env: dict[str, str | None] = {"SET": "/opt"}
    assert doubts_of([program, *SERVE], env) == [MISSING_PROGRAM_MESSAGE.format(quoted(program.replace("$$", "$")))]
    for before in (["tini", "--"], ["env", "A=b"], ["timeout", "5"]):
        assert [each.count("no shell reads") for each in doubts_of([*before, program, *SERVE], env)] == [1]
    for others in ("python3", "bash"):
        other = program.replace("vllm", others)
        rest = ["-m", "vllm", *SERVE] if others == "python3" else ["-c", "vllm serve a/b"]
        assert [each.count("no shell reads") for each in doubts_of([other, *rest], env)] == [1]


@pytest.mark.parametrize("program", ["$(SET)/bin/vllm", "$(HIDDEN)/vllm", "./vllm", "bin/vllm", "/opt/a=b/vllm"])
def test_what_kubernetes_replaces_in_the_folder_of_a_program_is_no_doubt(program: str) -> None:
    assert doubts_of([program, *SERVE], {"SET": "/opt", "HIDDEN": None}) == []


@table(
    ("text", "doubts"),
    [
        ("V=0 exec vllm serve a/b", []),
        ("~/bin/vllm serve a/b", None),
        ("'~/bin/vllm' serve a/b", [MISSING_PROGRAM_MESSAGE.format("`~/bin/vllm`")]),
        ("'$HOME/bin/vllm' serve a/b", [MISSING_PROGRAM_MESSAGE.format("`$HOME/bin/vllm`")]),
        ("P='~/bin'; $P/vllm serve a/b", [MISSING_PROGRAM_MESSAGE.format("`~/bin/vllm`")]),
        ("$HOME/bin/vllm serve a/b", []),
    ],
)
def test_a_shell_expands_what_is_not_quoted(text: str, doubts: list[str] | None) -> None:
    found = read_text(text, {}, [], "")
    assert found.doubts == doubts if doubts is not None else not found.words


@table("python", ["python3", "python3 -u -X dev", "torchrun --standalone", "accelerate launch"])
@table(
    ("file", "is_doubted"),
    [("vllm", True), ("~/bin/vllm", True), ("$HOME/bin/vllm", True), ("/opt/bin/vllm", False), ("./vllm", False)],
)
def test_python_does_not_search_for_the_program(python: str, file: str, *, is_doubted: bool) -> None:
    doubts = [MISSING_FILE_MESSAGE.format(f"`{file}`")] if is_doubted else []
    assert doubts_of([*python.split(), file, *SERVE]) == doubts
    assert doubts_of(["sh", "-c", f"exec {python} '{file}' serve a/b"]) == doubts
    assert doubts_of(["sh", "-c", f'{python} "$HOME/bin/vllm" serve a/b']) == []


def test_the_doubts_about_programs_are_limited() -> None:
    words = [f"${index}/nohup" for index in range(500)]
    assert len(doubts_of([*words, "vllm", *SERVE])) == 8


IMAGE = "vllm/vllm-openai:v0.33.0"
RUN = f"docker run -e V {IMAGE} a/b"


def engine(document: dict[str, Any]) -> Container:
    faults: list[RequestFault] = []
    (found,) = read_manifest(document, "", faults)
    assert faults == []
    return found


@table(
    ("document", "doubts"),
    [
        ({"unit": f"[Service]\nExecStart=exec {RUN}\n"}, [ABSENT["exec"]]),
        ({"unit": f"[Service]\nExecStart=nohup exec {RUN.replace('-e V', '')}\n"}, [ABSENT["exec"]]),
        ({"unit": f"[Service]\nExecStart=V=0 {RUN}\n"}, [ASSIGNS]),
        ({"unit": f"[Service]\nExecStart=env V=0 {RUN}\n"}, []),
        ({"script": f"exec {RUN}"}, []),
        ({"script": f"V=0 exec {RUN}"}, []),
        ({"script": f"nohup exec {RUN.replace('-e V', '')}"}, [ABSENT["exec"]]),
    ],
)
def test_the_programs_before_docker_may_not_exist(document: dict[str, Any], doubts: list[str]) -> None:
    assert engine(document).doubts == doubts


def container(**fields: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "v", "image": IMAGE, **fields}]}
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def service(**fields: Any) -> dict[str, Any]:
    return {"services": {"v": {"image": IMAGE, **fields}}}


def task(driver: str, **config: Any) -> dict[str, Any]:
    return {"Job": {"TaskGroups": [{"Tasks": [{"Driver": driver, "Config": config}]}]}}


@pytest.mark.parametrize("before", [[], ["tini", "--"]])
@pytest.mark.parametrize("first", ["exec", "~/bin/nohup"])
def test_no_manifest_of_words_has_a_shell(first: str, before: list[str]) -> None:
    words = [*before, first, "vllm", *SERVE]
    program, *arguments = words
    line = " ".join(words)
    documents: list[dict[str, Any]] = [
        container(command=words),
        container(command=words[:-3], args=words[-3:]),
        service(entrypoint=words),
        service(entrypoint=line),
        service(entrypoint=[], command=words),
        task("docker", image=IMAGE, entrypoint=words[:-3], args=words[-3:]),
        task("docker", image=IMAGE, entrypoint=[program], args=arguments),
        *(task(driver, command=program, args=arguments) for driver in ("exec", "raw_exec", "exec2")),
        {"script": f"docker run --entrypoint '{program}' {IMAGE} {' '.join(map(repr, arguments))}"},
        {"script": f"apptainer exec docker://{IMAGE} {' '.join(map(repr, words))}"},
        {"unit": f"[Container]\nImage={IMAGE}\nEntrypoint={program}\nExec={' '.join(arguments)}\n"},
        {"type": "task", "image": IMAGE, "entrypoint": line},
    ]
    for document in documents:
        found = engine(document)
        read = read_command(found.words, found.places, found.env, [], "")
        assert (read.words, [*found.doubts, *read.doubts]) == (
            ["a/b"],
            [MISSING_PROGRAM_MESSAGE.format(f"`{first}`")],
        ), document


def test_compose_replaces_variables_before() -> None:
    document = service(entrypoint=["${VENV:-/opt}/bin/vllm", *SERVE])
    found = engine(document)
    assert read_command(found.words, found.places, found.env, [], "").doubts == []
    found = engine(service(entrypoint=["$$HOME/bin/vllm", *SERVE]))
    assert read_command(found.words, found.places, found.env, [], "").doubts == [
        MISSING_PROGRAM_MESSAGE.format("`$HOME/bin/vllm`")
    ]
