"""Engines in shell scripts, systemd services and Nomad jobs: what is known of them, and what is said otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
TOO_MANY = "all of them have more text or variables than the limit"
PARTLY = "a word whose value is not known"


def engines(document: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def words(container: Container) -> list[str]:
    return [word if type(word) is str else PARTLY for word in container.words]


@table(
    ("command", "expected", "env", "doubts"),
    [
        (f"docker run {IMAGE} --model a/b", ["--model", "a/b"], {}, 0),
        (f"sudo docker run -it {IMAGE} --model a/b", ["--model", "a/b"], {}, 0),
        (
            f"docker run -e A=1 --env=B=2 --env C {IMAGE} --model a/b",
            ["--model", "a/b"],
            {"A": "1", "B": "2", "C": None},
            0,
        ),
        (f"export C=3; docker run -e C {IMAGE} --model a/b", ["--model", "a/b"], {"C": "3"}, 0),
        (f"nerdctl run --entrypoint python3 {IMAGE} -m x", None, {}, 0),
        (f"docker run $A $B {IMAGE} --model a/b", ["--model", "a/b"], {}, 2),
        (f"docker run {IMAGE} --model $1", ["--model", PARTLY], {}, 0),
        ("docker run nginx --model a/b", None, {}, 0),
        (f"docker create --name x --gpus all {IMAGE} --model a/b", ["--model", "a/b"], {}, 0),
        (f"podman container create {IMAGE} --model a/b", ["--model", "a/b"], {}, 0),
        (f"docker --context c container run {IMAGE} --model a/b", ["--model", "a/b"], {}, 0),
        (
            f"docker service create -d --name x -e A=1 --replicas 2 {IMAGE} --model a/b",
            ["--model", "a/b"],
            {"A": "1"},
            0,
        ),
        (
            f"docker service create --with-registry-auth --constraint x --mode global --no-resolve-image {IMAGE} a/b",
            ["vllm", "serve", "a/b"],
            {},
            0,
        ),
        (f"docker service update --image {IMAGE} x", None, {}, 0),
        ("docker network create vllm-openai", None, {}, 0),
        ("docker volume create create vllm-openai", None, {}, 0),
        ("docker run other vllm serve a/b", ["vllm", "serve", "a/b"], {}, 0),
        (f"ID=$(docker run -d {IMAGE} --model a/b)", ["--model", "a/b"], {}, 0),
        (f'M=a/b\nID="$(sudo podman run -e A=1 {IMAGE} --model $M 2>log)"', ["--model", "a/b"], {"A": "1"}, 0),
        (f"ID=$(docker run -d {IMAGE} \\\n  --model a/b)\necho $ID", ["--model", "a/b"], {}, 0),
        (f"# ID=$(docker run -d {IMAGE} --model a/b)", None, {}, 0),
        (f"ID=$(docker ps -q --filter ancestor={IMAGE})", None, {}, 0),
        (f"ID=$(docker run -d {IMAGE} --model a/b | tail -1)", ["--model", "a/b"], {}, 0),
        (f"ID=$(docker run -d {IMAGE} --model a/b || exit 1)", ["--model", "a/b"], {}, 0),
        (f"ID=`docker run -d {IMAGE} --model a/b`", ["--model", "a/b"], {}, 0),
        (f"ID=$(x=$(docker run -d {IMAGE} --model a/b); echo $x)", ["--model", "a/b"], {}, 0),
        (f"M=x/y; ID=$(docker run -d {IMAGE} --model $M)", ["--model", "x/y"], {}, 0),
        (f"M=x/y ID=$(docker run -d {IMAGE} --model $M)", ["--model", "x/y"], {}, 0),
        (f"export C=3; ID=$(docker run -d -e C {IMAGE} --model a/b)", ["--model", "a/b"], {"C": "3"}, 0),
        (f"echo 'use ID=$(docker run {IMAGE} --model a/b)'", None, {}, 0),
        (f"A=1 # ID=$(docker run {IMAGE} --model a/b)", None, {}, 0),
        ("docker run $IMAGE vllm serve a/b", ["vllm", "serve", "a/b"], {}, 0),
        (f"docker pull {IMAGE}", None, {}, 0),
        (f"docker run --rm -- {IMAGE} --model a/b", ["--model", "a/b"], {}, 0),
        (f"podman run --unsetenv-all {IMAGE} --model a/b", ["--model", "a/b"], {}, 0),
    ],
)
def test_a_script_that_starts_a_container(
    command: str, expected: list[str] | None, env: dict[str, str | None], doubts: int
) -> None:
    found = [(words(each), each.env, len(each.doubts)) for each in engines({"script": f"set -e\n{command}\n"})]
    assert found == ([] if expected is None else [(expected, env, doubts)])


def test_every_substitution_that_starts_a_container_is_an_engine() -> None:
    script = "".join(f"ID{at}=$(docker run -d {IMAGE} --model a/b{at})\n" for at in range(20))
    assert [each.words[-1] for each in engines({"script": script})] == [f"a/b{at}" for at in range(20)]


@pytest.mark.parametrize(
    ("variables", "runs", "doubt"),
    [
        (0, 1000, "a substitution that may start a container is not read: more than 4096 words, which is the limit"),
        (
            1000,
            100,
            f"a substitution that may start a container is not read: {TOO_MANY}",
        ),
        (0, 300, "the script starts more than 256 containers; those after them are not read"),
    ],
)
def test_substitutions_that_are_left_out_are_noted(variables: int, runs: int, doubt: str) -> None:
    script = f"docker run {IMAGE} --model c/d\n" + "".join(f"A{at}=1\n" for at in range(variables))
    found = engines({"script": script + f"ID=$(docker run -d {IMAGE} --model a/b)\n" * runs})
    assert {words(each)[-1] for each in found} == {"a/b", "c/d"}
    assert all(doubt in each.doubts for each in found)


@table(
    ("command", "expected", "image", "env", "hardware"),
    [
        (f"apptainer run --nv docker://{IMAGE} --model a/b", ["--model", "a/b"], IMAGE, {}, ["cuda"]),
        (
            "singularity run --rocm x/vllm-openai_v0.23.0.sif --model a/b",
            ["--model", "a/b"],
            "vllm-openai:v0.23.0",
            {},
            ["rocm"],
        ),
        ("apptainer exec -B /a:/b,/c any.sif vllm serve a/b", ["vllm", "serve", "a/b"], "any", {}, []),
        ("apptainer -q instance run vllm.sif name vllm serve a/b", ["vllm", "serve", "a/b"], "vllm", {}, []),
        (
            "export A=1; apptainer exec --env B=2,C=3 any.sif vllm serve a/b",
            ["vllm", "serve", "a/b"],
            "any",
            {"A": "1", "B": "2", "C": "3"},
            [],
        ),
        ("export A=1; apptainer exec --cleanenv any.sif vllm serve a/b", ["vllm", "serve", "a/b"], "any", {}, []),
        ("apptainer exec any.sif python train.py", None, None, {}, []),
        ("apptainer pull vllm.sif docker://vllm/vllm-openai", None, None, {}, []),
        ("apptainer exec", None, None, {}, []),
        ("apptainer", None, None, {}, []),
    ],
)
def test_a_script_that_starts_a_container_with_apptainer(
    command: str, expected: list[str] | None, image: str | None, env: dict[str, str], hardware: list[str]
) -> None:
    found = [
        (words(each), each.image, each.env, [sign.platform for sign in each.hardware])
        for each in engines({"script": command})
    ]
    assert found == ([] if expected is None else [(expected, image, env, hardware)])


@table(
    ("command", "env"),
    [
        ("export SINGULARITYENV_A=0; singularity exec", {"A": "0"}),
        ("export APPTAINERENV_A=0; singularity exec --nv", {"A": "0"}),
        ("SINGULARITYENV_A=0 apptainer exec", {"A": "0"}),
        ("APPTAINERENV_A=0 apptainer exec --cleanenv", {"A": "0"}),
        ("SINGULARITYENV_A=0 APPTAINERENV_A=1 singularity exec", {"A": "1"}),
        ("APPTAINERENV_A=1 SINGULARITYENV_A=0 apptainer exec", {"A": "1"}),
        ("A=2 SINGULARITYENV_A=0 apptainer exec", {"A": "0"}),
        ("APPTAINERENV_A=1 apptainer exec --env A=3", {"A": "3"}),
        ("APPTAINERENV_A=$1 apptainer exec", {"A": None}),
        ("APPTAINERENV_A=1; apptainer exec", {}),
        ("export A=1; APPTAINER_CLEANENV=1 apptainer exec", {}),
        ("export A=1; SINGULARITY_CLEANENV=true singularity exec", {}),
        ("export A=1 SINGULARITY_CLEANENV=1; apptainer exec", {}),
        ("A=1 APPTAINER_CLEANENV=0 apptainer exec", {"A": "1", "APPTAINER_CLEANENV": "0"}),
        ("A=1 APPTAINER_CLEANENV=$1 apptainer exec", {"A": None, "APPTAINER_CLEANENV": None}),
        ("A=1 apptainer exec -ce", {}),
        ("A=1 apptainer exec -eB /a:/b", {}),
        ("A=1 apptainer exec -C", {}),
        ("A=1 apptainer exec --cleanenv=true", {}),
        ("A=1 apptainer exec --cleanenv=false", {"A": "1"}),
        ("A=1 apptainer exec $eC", {"A": "1"}),
        ("A=1 apptainer exec -cB /e:/b", {"A": "1"}),
        ("A=1 apptainer exec -B/e:/b", {"A": "1"}),
        ("A=1 apptainer exec -cB/e:/b -W /c", {"A": "1"}),
        ("SINGULARITYENV_A=0 docker run", {}),
    ],
)
def test_the_variables_that_a_container_of_apptainer_gets(command: str, env: dict[str, str | None]) -> None:
    [found] = engines({"script": f"{command} {IMAGE} vllm serve a/b"})
    assert (found.env, found.words[-3:]) == (env, ["vllm", "serve", "a/b"])


def test_the_mounts_of_a_service_of_swarm_are_read() -> None:
    for option in ("--mount type=bind,src=/h,dst=/usr/local/bin", "--config source=x,target=/usr/local/bin/vllm"):
        [found] = engines({"script": f"docker service create {option} {IMAGE} --model a/b"})
        assert found.installation is not None
    [found] = engines({"script": f"docker service create --config x --secret y -w /z {IMAGE} --model a/b"})
    assert (found.installation, found.mounts, found.folder) == (None, ("/x", "/run/secrets/y"), "/z")


RUN = f"docker run --gpus all {IMAGE} --model a/b"


@table(
    "script",
    [
        *(f"bash -c '{RUN}'", f"sudo bash -c '{RUN}'", f'ssh node1 "{RUN}"', f"su -c '{RUN}' x", f"script -c '{RUN}'"),
        *(f"tmux new -d '{RUN}'", f"screen -dm sh -c '{RUN}'", "bash -c 'sudo podman run x/y vllm serve a/b'"),
        *(f"bash -c 'cd /x; nerdctl --debug run {IMAGE}'", f"echo {IMAGE} | xargs docker run", f"eval '{RUN}'"),
        *(f"ssh node1 <<E\n{RUN}\nE", f"for h in a b; do ssh $h '{RUN}' & done"),
    ],
)
def test_a_command_that_may_start_a_container_elsewhere_is_a_problem(script: str) -> None:
    [found] = engines({"script": script})
    assert found.path == "script"
    assert "may start a container of vLLM in a way that is not read" in found.problem
    both = engines({"script": f"{RUN}\n{script}"})
    assert [(each.path, bool(each.problem)) for each in both] == [("script[0]", False), ("script", True)]
    [alone] = engines({"script": f"{script}\nvllm serve c/d"})
    assert any("in a way that is not read" in doubt for doubt in alone.doubts)


@table(
    "script",
    [
        *(f"echo '{RUN}'", f"cat <<E\n{RUN}\nE", f"# {RUN}", "bash -c 'docker run nginx'", f"grep '{RUN}' log"),
        *(f"bash -c 'docker pull {IMAGE}'", "bash -c 'docker rm -f vllm'", "xargs docker run", f"printf '%s' '{RUN}'"),
        *(f"exit 0; bash -c '{RUN}'", f"ssh node1 'docker ps -q --filter ancestor={IMAGE}'"),
    ],
)
def test_a_command_that_only_names_a_container_is_none(script: str) -> None:
    assert engines({"script": script}) == []


@table("script", ["echo vllm", "python train.py", "", "if", 'echo "', "curl vllm:8000/v1/models"])
def test_a_script_without_an_engine(script: str) -> None:
    assert engines({"script": script}) == []


@table(
    ("start", "expected"),
    [
        ("/usr/bin/vllm serve a/b", ["/usr/bin/vllm", "serve", "a/b"]),
        ("/usr/bin/vllm serve $A", ["/usr/bin/vllm", "serve", "a/b", "-tp", "2"]),
        ("/usr/bin/vllm serve ${A}", ["/usr/bin/vllm", "serve", "a/b -tp 2"]),
        ("/usr/bin/vllm serve a/b ${NONE} $NONE", ["/usr/bin/vllm", "serve", "a/b", ""]),
        (":/usr/bin/vllm serve $A", ["/usr/bin/vllm", "serve", "$$A"]),
        ("/usr/bin/vllm serve a/%i", ["/usr/bin/vllm", "serve", PARTLY]),
        ("/usr/bin/vllm serve a/%%i", ["/usr/bin/vllm", "serve", "a/%i"]),
        (r"/bin/bash -c 'vllm serve a/b \$A' \q \;", ["/bin/bash", "-c", r"vllm serve a/b \$$A", r"\q", ";"]),
        ("/usr/bin/vllm serve $Q", ["/usr/bin/vllm", "serve", "a/b", "--x", '{"a": 1}']),
        ("/usr/bin/vllm serve 'a b' \\x41", ["/usr/bin/vllm", "serve", "a b", "A"]),
        (f"/usr/bin/docker run --rm {IMAGE} --model a/b", ["--model", "a/b"]),
        ("/bin/bash -c 'exec vllm serve a/b'", ["/bin/bash", "-c", "exec vllm serve a/b"]),
        ("/usr/bin/nginx", None),
    ],
)
def test_the_command_of_a_systemd_service(start: str, expected: list[str] | None) -> None:
    variables = r"""'A=a/b -tp 2' "Q=a/b --x '{\"a\": 1}'" \q B=2"""
    unit = f"\ufeff[Service]\nEnvironment={variables}\nExecStart={start}\n[Timer]\nExecStart=/usr/bin/vllm serve c/d\n"
    assert [words(each) for each in engines({"unit": unit})] == ([] if expected is None else [expected])


def test_a_unit_of_podman_is_the_container_that_it_runs() -> None:
    unit = (
        f"[Unit]\nDescription=x\n[Container]\nImage={IMAGE}\nEnvironment=A=1 'B=2 3'\nAddDevice=nvidia.com/gpu=all\n"
        "PodmanArgs=--ipc host -e C=4\nVolume=/models:/models:ro\nExec=--model a/b \\\n  --tensor-parallel-size 2\n"
        "[Service]\nRestart=always\n"
    )
    (found,) = engines({"unit": unit})
    assert words(found) == ["--model", "a/b", "--tensor-parallel-size", "2"]
    assert (found.image, found.env) == (IMAGE, {"A": "1", "B": "2 3", "C": "4"})
    assert [sign.platform for sign in found.hardware] == ["cuda"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (f"Image={IMAGE}\nEntrypoint=vllm\nExec=serve a/b", ["vllm", "serve", "a/b"]),
        ("Image=example.com/x\nExec=vllm serve %i", ["vllm", "serve", PARTLY]),
        ("Image=nginx\nExec=x", None),
        ("Exec=vllm serve a/b", None),
    ],
)
def test_the_command_of_a_unit_of_podman(settings: str, expected: list[str] | None) -> None:
    found = engines({"unit": f"[Container]\n{settings}\n"})
    assert [words(each) for each in found] == ([] if expected is None else [expected])


def test_what_a_service_does_not_show_is_said() -> None:
    unit = "[Service]\nEnvironmentFile=/etc/x.env\nExecStart=/usr/bin/vllm serve ${A}"
    (hidden,) = engines({"unit": unit})
    assert (words(hidden)[-1], hidden.has_hidden_variables) == (PARTLY, True)
    assert hidden.notes == ["`EnvironmentFile` takes variables from `/etc/x.env`, which is not shown"]
    (known,) = engines({"unit": unit, "environment_files": {"/etc/x.env": "A=c/d"}})
    assert (words(known)[-1], known.has_hidden_variables, known.notes) == ("c/d", False, [])
    (refused,) = engines({"unit": '[Service]\nExecStart=/usr/bin/vllm serve "a'})
    assert refused.problem == "`ExecStart`: a quote is not closed, so that systemd refuses it"


def test_the_variables_of_a_unit_are_not_copied_for_its_commands_without_end() -> None:
    def unit(variables: int, commands: int) -> dict[str, Any]:
        lines = [f"Environment=A{place}=1" for place in range(variables)]
        return {"unit": "\n".join(["[Service]", *lines, *["ExecStart=vllm serve a/b"] * commands])}

    assert [container.env["A99"] for container in engines(unit(100, 2))] == ["1", "1"]
    faults: list[RequestFault] = []
    read_manifest(unit(10_000, 1_000), "", faults)
    assert [(fault.pointer, "copied or expanded exceed 1000000" in fault.message) for fault in faults] == [
        ("/unit", True)
    ]


@table(
    ("settings", "expected"),
    [
        ("Environment=A=1\nPassEnvironment=A B", {"A": "1", "B": None}),
        ("EnvironmentFile=/x.env\nEnvironment=F=1", {"F": "2"}),
        ("UnsetEnvironment=A\nEnvironment=A=1 B=2", {"B": "2"}),
        ("EnvironmentFile=/x.env\nUnsetEnvironment=F", {}),
        ("Environment=A=1 B=2\nUnsetEnvironment=A=1 B=1", {"B": "2"}),
        ("PassEnvironment=A B\nUnsetEnvironment=A=1 B", {"A": None}),
        ("Environment=A=1\nEnvironment=\nEnvironment=B=2", {"B": "2"}),
        ("PassEnvironment=A\nPassEnvironment=\nPassEnvironment=B", {"B": None}),
        ("Environment=A=1\nUnsetEnvironment=A\nUnsetEnvironment=", {"A": "1"}),
        ("EnvironmentFile=/x.env\nEnvironmentFile=\nEnvironment=A=1", {"A": "1"}),
        ("Environment=A=1\nUnsetEnvironment=A=%i", {"A": None}),
        ("PassEnvironment=A\nEnvironment=A=1\nEnvironment=", {"A": None}),
        ("PassEnvironment=C\nEnvironment=A=1 %iB=0\nEnvironment=B=1", {"A": None, "B": "1", "C": None}),
        ("Environment=A=1\nUnsetEnvironment=%iA", {"A": None}),
        ("Environment=A=1\nUnsetEnvironment=A%i=1", {"A": None}),
    ],
)
def test_systemd_merges_the_variables_of_a_service_in_its_own_order(
    settings: str, expected: dict[str, str | None]
) -> None:
    unit = f"[Service]\n{settings}\nExecStart=/usr/bin/vllm serve a/b"
    (found,) = engines({"unit": unit, "environment_files": {"/x.env": "F=2"}})
    assert found.env == expected


@pytest.mark.parametrize(
    ("setting", "is_hidden"),
    [("Environment=%iA=0", True), ("Environment=A%i=0", True), ("UnsetEnvironment=%iA", False)],
)
def test_a_variable_of_a_service_whose_name_is_not_known_may_be_any(setting: str, *, is_hidden: bool) -> None:
    (found,) = engines({"unit": f"[Service]\n{setting}\nExecStart=/usr/bin/vllm serve a/b"})
    key, _, name = setting.removesuffix("=0").partition("=")
    assert found.has_hidden_variables is is_hidden
    assert list(found.notes) == [f"`{key}=` has a variable whose name is not known: `{name}`"]
