"""Variables of containers of Podman's that come from elsewhere, and of the files of `EnvironmentFile=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.paths import ANY_FOLDER
from policy.intake.manifests.environment_file import variables_of
from policy.intake.manifests.unit_file import assigned_words, command_words, podman_words, settings_of, value_words

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.24.0"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
CAUSE = "the mount at `/usr/local/bin/vllm` may make another vLLM run"


def container(document: Any) -> Container:
    faults: list[RequestFault] = []
    (found,) = read_manifest(document, "", faults)
    assert faults == []
    return found


def run(options: str) -> Container:
    return container({"script": f"podman run {options} {IMAGE} --model a/b"})


def unit(setting: str) -> Container:
    return container({"unit": f"[Container]\nImage={IMAGE}\nExec=--model a/b\n{setting}\n"})


@table(
    "found",
    [
        *(lambda: run("-e 'VLLM_*'"), lambda: run("--env='*'"), lambda: run("--env-host"), lambda: run("--env-host=1")),
        *(lambda: unit("Environment=VLLM_*"), lambda: unit("EnvironmentHost=true"), lambda: unit("EnvironmentHost=on")),
        *(lambda: unit("PodmanArgs=--env-host"), lambda: unit("EnvironmentFile=/x")),
    ],
)
def test_variables_of_the_host_are_hidden(found: Any) -> None:
    engine = found()
    assert (engine.has_hidden_variables, engine.env) == (True, {})
    assert [note.endswith("variables that are not shown") for note in engine.notes] == [True]


@pytest.mark.parametrize("setting", ["EnvironmentHost=false", "EnvironmentHost=", "PodmanArgs=--env-host=false"])
def test_no_variables_of_the_host_are_passed(setting: str) -> None:
    assert not unit(setting).has_hidden_variables


@pytest.mark.parametrize("value", [f"x,type=env,target={RUNNER}", f"{RUNNER},type=env", f"x,target={RUNNER},type=env"])
def test_a_secret_as_a_variable_has_an_unknown_value(value: str) -> None:
    assert run(f"--secret {value}").env == {RUNNER: None}
    assert unit(f"Secret={value}").env == {RUNNER: None}


def test_a_merged_variable_has_an_unknown_value() -> None:
    assert run(f"--env-merge {RUNNER}='${{{RUNNER}}}1'").env == {RUNNER: None}


@pytest.mark.parametrize("value", ["x,target=/usr/local/bin/vllm", "x,type=mount,target=/usr/local/bin/vllm"])
def test_a_secret_as_a_file_is_a_mount(value: str) -> None:
    for found in (run(f"--secret {value}"), unit(f"Secret={value}")):
        assert (found.env, None if found.installation is None else found.installation.cause) == ({}, CAUSE)
    assert run("--secret vllm").installation is None


@table(
    ("text", "variables"),
    [
        ("A=b\n# c\n; d\nB = c d  \nC\nexport D=1\n1=2", {"A": "b", "B": "c d"}),
        ("A='b'\"c\" 'd'e\nB=''", {"A": "bcde", "B": ""}),
        (
            r"""A=b\ c\\d\ne
B="b\"c\n\$d\
e"
C='a\b'""",
            {"A": r"b c\dne", "B": r'b"c\n$de', "C": r"a\b"},
        ),
        ("A=1\\\n0\nB='1\n2'\nC=a'b'#c", {"A": "10", "B": "1\n2", "C": "a'b'#c"}),
        ("A=\nB=1\\", {"A": "", "B": "1"}),
        ("A='1", {"A": "1"}),
        ('A="1\\', {"A": "1"}),
        ("A=1\\  \r\nB=x=y", {"A": "1 ", "B": "x=y"}),
        ("=1\nA=2", {"A": "2"}),
        ("='\nA=2", {"A": "2"}),
        ('A="a/b\n  -tp 2\n  --x"\nB="x\nV=0\ny"', {"A": "a/b\n  -tp 2\n  --x", "B": "x\nV=0\ny"}),
        ('A="0" "1"', {"A": "01"}),
        ("# c\\\nA=1", {"A": None}),
        ("A=1\n; c \\\nA=0\nB=2", {"A": None, "B": "2"}),
        ("# c\\\nA=1\nA=2", {"A": "2"}),
        ("# c\\\\\nA=1\n#\\", {"A": "1"}),
        ("# c\\\n\nA=1\n# d\\e\\\r\nB=2", {"A": "1", "B": "2"}),
        ('# c\\\nA="1\nB=0"\nC=3', {"A": None, "B": None, "C": "3"}),
        ("\ufeffA=1\nB=2", {"B": "2"}),
        ("", {}),
    ],
)
def test_the_variables_of_a_file_are_those_that_systemd_reads(text: str, variables: dict[str, str | None]) -> None:
    assert variables_of(text) == variables


def test_a_service_gets_the_variables_of_its_file() -> None:
    document = {
        "unit": "[Service]\nExecStart=vllm serve a/b\nEnvironmentFile=/x\n",
        "environment_files": {"/x": f"{RUNNER}=\\1\nB='a'b"},
    }
    assert container(document).env == {RUNNER: "1", "B": "ab"}


def test_a_service_may_have_a_variable_after_a_comment_that_ends_with_a_backslash() -> None:
    document = {
        "unit": f"[Service]\nExecStart=vllm serve a/b\nEnvironment={RUNNER}=1\nEnvironmentFile=/x\n",
        "environment_files": {"/x": f"# c \\\n{RUNNER}=0"},
    }
    assert container(document).env == {RUNNER: None}


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("[Service]\n\ufeffEnvironment=A=1\nEnvironment=B=2", {"A": "1", "B": "2"}),
        ("\ufeff[Service]\n\ufeffEnvironment=A=1\nEnvironment=B=2", {"B": "2"}),
        ("[Service]\n \ufeffEnvironment=A=1\nEnvironment=B=2", {"B": "2"}),
        ("[Service]\nEnvironment=A=1 \\\n\ufeffB=2\n\ufeffEnvironment=A=3", {"A": "1", "B": "2"}),
        ("[Service]\n# \ufeff\n\ufeffEnvironment=A=1", {"A": "1"}),
    ],
)
def test_systemd_drops_the_first_byte_order_mark_before_a_line(text: str, variables: dict[str, str]) -> None:
    assert container({"unit": f"{text}\nExecStart=/usr/bin/vllm serve a/b\n"}).env == variables


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("Environment=A=%i", {"A": None}),
        ("Environment=A=%%i", {"A": "%i"}),
        ("Environment=A=${B}", {"A": "x"}),
        ("PodmanArgs=-e A=%H", {"A": None}),
        ("Environment=%i=1", {}),
    ],
)
def test_systemd_replaces_specifiers_and_variables_in_what_podman_gets(
    setting: str, found: dict[str, str | None]
) -> None:
    engine = unit(f"{setting}\n[Service]\nEnvironment=B=x")
    assert (engine.env, engine.has_hidden_variables) == (found, not found)


@pytest.mark.parametrize("folder", ["%h/x", "%S", "/a/%i"])
def test_the_working_folder_of_a_unit_may_be_unknown(folder: str) -> None:
    service = {"unit": f"[Service]\nWorkingDirectory={folder}\nExecStart=/usr/bin/vllm serve a/b"}
    assert [each.folder for each in (unit(f"WorkingDir={folder}"), container(service))] == [ANY_FOLDER] * 2


@pytest.mark.parametrize("target", ["%h/x", "/usr/%i"])
def test_a_volume_of_podman_at_an_unknown_path_may_have_another_vllm(target: str) -> None:
    assert unit(f"Volume=/h:{target}").installation is not None
    assert unit("Volume=%h/x:/models:ro").installation is None


@table(
    ("settings", "variables"),
    [
        ("Environment=A=1\nEnvironment=\nEnvironment=B=2", {"B": "2"}),
        ("PodmanArgs=-e A=1\nPodmanArgs=", {}),
        ("EnvironmentFile=/x\nEnvironmentFile=", {}),
        (f"Secret={RUNNER},type=env\nSecret=", {}),
        ("PodmanArgs=-e A=1\nEnvironment=A=0", {"A": "1"}),
        ("Environment=A=1 B=\\q\nEnvironment=C=1", {"C": "1"}),
        ("Environment='A=1 2' \"B=3", {"A": "1 2", "B": "3"}),
        ("Environment=A B\n[Service]\nEnvironment=A=1", {"A": "1", "B": None}),
    ],
)
def test_the_variables_of_a_container_are_those_that_podman_passes(settings: str, variables: dict[str, str]) -> None:
    assert unit(settings).env == variables


@pytest.mark.parametrize("key", ["Volume", "Mount", "Tmpfs", "Secret"])
def test_an_empty_value_clears_the_mounts_of_a_container(key: str) -> None:
    target = "/usr/local/bin/vllm"
    value = {"Volume": f"x:{target}", "Mount": f"type=bind,src=x,dst={target}", "Tmpfs": target}.get(
        key, f"x,target={target}"
    )
    assert unit(f"{key}={value}").installation is not None
    assert unit(f"{key}={value}\n{key}=").installation is None


@table(
    ("given", "words", "doubts"),
    [
        ("Exec=--model a/b 'c d' \\x41", ["--model", "a/b", "c d", "A"], []),
        ("Exec=--model a/b 'c d", ["--model", "a/b", "c d"], []),
        ("Exec=--model a/b '' x", ["--model", "a/b"], []),
        ("Exec=--model $A ${A}\n[Service]\nEnvironment='A=a/b c'", ["--model", "a/b", "c", "a/b c"], []),
        (
            "Exec=--model \\$M",
            ["vllm", "serve"],
            ["`Exec`: `\\$` is no escape sequence, so that Podman leaves it out or refuses the unit"],
        ),
        (
            "PodmanArgs=-e \\q\nExec=--model a/b",
            ["--model", "a/b"],
            ["`PodmanArgs`: `\\q` is no escape sequence, so that Podman leaves it out or refuses the unit"],
        ),
        ("Exec=--model c/d\nExec=--model a/b", ["--model", "a/b"], []),
    ],
)
def test_the_arguments_of_a_container_are_split_as_podman_does(given: str, words: list[str], doubts: list[str]) -> None:
    found = container({"unit": f'[Container]\nImage="{IMAGE}"\n{given}\n'})
    assert (found.words, found.doubts) == (words, doubts)


@table(
    ("text", "kept", "assigned", "value", "podman"),
    [
        ("a 'b c'\"d\"", ["a", "b cd"], ["a", "b cd"], ["a", "b cd"], ["a", "b cd"]),
        (r"a\qb 'x \$M'", [r"a\qb", r"x \$M"], [], ["aqb", "x $M"], []),
        (r"a b\q", ["a", r"b\q"], ["a"], ["a", "bq"], []),
        (
            r"\n\x41\101\xc3\xa9\u00e9b\U0001F600",
            ["\nAAééb😀"],
            ["\nAAééb😀"],
            ["nx41101xc3xa9u00e9bU0001F600"],
            ["\nAAééb😀"],
        ),
        (r"\x00 \000 \777", [r"\x00", r"\000", r"\777"], [], ["x00", "000", "777"], []),
        (r"\uD800 \xff", ["\ufffd", "\ufffd"], ["\ufffd", "\ufffd"], ["uD800", "xff"], ["\ufffd", "\ufffd"]),
        ("a\u00a0b\x0bc", ["a\u00a0b\x0bc"], ["a\u00a0b\x0bc"], ["a\u00a0b\x0bc"], ["a\u00a0b\x0bc"]),
        (r"a \; b\;", ["a", ";", r"b\;"], ["a"], ["a", ";", "b;"], []),
        ("a\\", ["a\\"], [], ["a"], []),
        ("a '' b", ["a", "", "b"], ["a", "", "b"], ["a", "", "b"], ["a"]),
        ("a 'b", None, ["a"], ["a", "b"], ["a", "b"]),
        ("", [], [], [], []),
    ],
)
def test_the_words_of_a_setting_are_those_of_systemd_and_podman(
    text: str, kept: list[str] | None, assigned: list[str], value: list[str], podman: list[str]
) -> None:
    found = command_words(text)
    assert (None if found.fault else found.words) == kept
    assert (assigned_words(text), value_words(text), podman_words(text).words) == (assigned, value, podman)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("\ufeff[A]\nB=1", [("A", "B", "1")]),
        ("[A]\nB=1 \\\n # c\n 2\\\n;d\\\n3", [("A", "B", "1  2 3")]),
        ("[A]\nB=1\\\\\nC=2\\", [("A", "B", "1\\\\"), ("A", "C", "2")]),
        ("[A]\rB=1\x0c2\u20283\r\nC = 4 \n[D\nE=5\nF", [("A", "B", "1\x0c2\u20283"), ("A", "C", "4"), ("A", "E", "5")]),
    ],
)
def test_the_settings_of_a_unit_are_those_of_its_whole_lines(text: str, settings: list[tuple[str, str, str]]) -> None:
    assert settings_of(text) == settings


OTHER = "apptainer exec docker://vllm/vllm-openai:v0.20.0 vllm serve c/d"


@pytest.mark.parametrize("words", ["apptainer exec", "apptainer run", OTHER, f"x {OTHER}", "singularity run x.sif"])
def test_the_words_of_a_container_start_no_other_container(words: str) -> None:
    arguments = f"--model a/b --served-model-name {words}"
    for document in (
        {"unit": f"[Container]\nImage={IMAGE}\nExec={arguments}\n"},
        {"script": f"podman run {IMAGE} {arguments}"},
        {"script": f"sudo docker run {IMAGE} {arguments}"},
    ):
        found = container(document)
        assert (found.image, found.words) == (IMAGE, arguments.split())


@table("image", ["apptainer", "-x", "--help", "''", '"', "$A"])
@table("words", ["", "apptainer exec", "podman run", "--", "docker", "apptainer exec -B"])
def test_a_container_without_an_image_starts_nothing(image: str, words: str) -> None:
    assert read_manifest({"unit": f"[Container]\nImage={image}\nExec={words}\n"}, "", []) == []


MODULE = ["the options `--module` of the container are not known"]


@pytest.mark.parametrize(
    "setting", ["GlobalArgs=--module=x.conf", "GlobalArgs=--module x.conf", "ContainersConfModule=/etc/x.conf"]
)
def test_a_module_of_podman_s_configuration_may_change_the_container(setting: str) -> None:
    found = unit(setting)
    assert (found.doubts, found.has_hidden_variables, found.words) == (MODULE, True, ["--model", "a/b"])
    option = setting.partition("=")[2] if setting.startswith("G") else f"--module {setting.partition('=')[2]}"
    found = container({"script": f"podman {option} run {IMAGE} --model a/b"})
    assert (found.doubts, found.has_hidden_variables, found.words) == (MODULE, True, ["--model", "a/b"])
    assert unit("GlobalArgs=--log-level=debug --remote").doubts == []
    assert unit(f"{setting}\n{setting.partition('=')[0]}=").doubts == []


@pytest.mark.parametrize("name", ["CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"])
def test_a_variable_with_podman_s_configuration_may_change_the_container(name: str) -> None:
    doubts = [f"`{name}` names a configuration of Podman that may change the container"]
    assert container({"script": f"{name}=/x podman run {IMAGE} --model a/b"}).doubts == doubts
    assert container({"script": f"export {name}=/x; podman run {IMAGE} --model a/b"}).doubts == doubts
    assert unit(f"[Service]\nEnvironment={name}=/x").doubts == doubts
    assert container({"script": f"{name}=/x docker run {IMAGE} --model a/b"}).doubts == []


def test_a_unit_has_an_image_or_a_folder_with_its_files() -> None:
    assert unit("Rootfs=/x").problem == "`Image` and `Rootfs` exclude each other, so that Podman refuses the unit"
    only = {"unit": "[Container]\nRootfs=/x\nExec=vllm serve a/b"}
    assert (container(only).words, container(only).vllm_version) == (["vllm", "serve", "a/b"], None)
    for document in ({"unit": "[Container]\nRootfs=/vllm\nExec=a/b"}, {"script": f"podman run --rootfs {IMAGE} a/b"}):
        assert container(document).problem
    found = container({"script": f"podman run --rootfs {IMAGE} vllm serve a/b"})
    assert (found.words, found.vllm_version) == (["vllm", "serve", "a/b"], None)


def test_a_container_of_a_pod_has_the_volumes_of_the_pod() -> None:
    found = unit("Pod=x.pod").installation
    assert found is not None
    assert found.cause == "the volumes of `x.pod` are not shown and may have another vLLM"
