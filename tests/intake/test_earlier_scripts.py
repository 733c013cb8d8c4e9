"""Scripts and packages of a manifest that change a machine or an image before the command of the server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.33.0"
WITHOUT_TRITON = "may leave vLLM without Triton or with another one, and it chooses the runner by whether Triton works"
REPLACED = "may replace or remove the vLLM of the image before the start"


def read(document: dict[str, Any]) -> Container:
    faults: list[RequestFault] = []
    (container,) = read_manifest(document, "/manifest", faults)
    assert faults == []
    return container


def skypilot(setup: str, run: str = "vllm serve a/b") -> Container:
    return read({"resources": {"image_id": f"docker:{IMAGE}"}, "setup": setup, "run": run})


def truss(build: list[str], command: str = "vllm serve a/b", **fields: Any) -> Container:
    server = {"start_command": command, "server_port": 8000}
    return read({"base_image": {"image": IMAGE}, "docker_server": server, "build_commands": build, **fields})


EFFECTS: list[tuple[str, str, list[str], str | None]] = [
    ("pip uninstall -y triton", "a/b", [f"`pip uninstall` of `triton` {WITHOUT_TRITON}"], None),
    (
        "pip install triton==2.0; pip uninstall triton",
        "a/b",
        [f"`pip install` of `triton==2.0` {WITHOUT_TRITON}"],
        None,
    ),
    ("rm -rf /usr/lib/python3/dist-packages/vllm", "a/b", [], f"`rm` {REPLACED}"),
    ("echo x > /usr/lib/python3.12/sitecustomize.py", "a/b", [], f"`echo` {REPLACED}"),
    ("pip install vllm==0.21.0; rm /usr/local/bin/vllm", "a/b", [], f"`rm` {REPLACED}"),
    (
        "bash setup.sh; bash other.sh",
        "a/b",
        ["the file `setup.sh` is a script that is not read, and `FIELD` runs it before the start"],
        None,
    ),
    ("vllm serve a/b &", "a/b", ["`FIELD` also starts vLLM"], None),
    (
        "echo 'x",
        "a/b",
        ["`FIELD` runs before the start and cannot be read: the quote `'` at character 6 is not closed; close it"],
        None,
    ),
    (
        "cp x /models/q/config.json",
        "/models/q",
        ["`cp` may change the files of the folder `/models/q` before vLLM loads them"],
        None,
    ),
    (
        "cd /models; tar xf x",
        "/models/q",
        ["`tar` may make the folder `/models/q`, and vLLM loads it instead of that model"],
        None,
    ),
    ("cd /x; hf download a/c --local-dir a/b", "a/b", [], None),
    ("exit 0; bash setup.sh", "a/b", [], None),
    ("apt-get install -y curl; pip install pandas; vllm --help; hf download a/b", "a/b", [], None),
    ("git clone http://x/y; cd y; ls; echo x >> ~/x; vllm serve --help", "a/b", [], None),
]


@table(("script", "model", "doubts", "changed"), EFFECTS)
def test_a_setup_is_read_like_the_commands_before_the_start(
    script: str, model: str, doubts: list[str], changed: str | None
) -> None:
    for field, container in (
        ("setup", skypilot(script, f"vllm serve {model}")),
        ("build_commands", truss([script], f"vllm serve {model}")),
    ):
        assert container.doubts == [each.replace("FIELD", field) for each in doubts]
        assert (container.installation and container.installation.cause) == changed


def test_build_commands_are_read_one_after_another_each_in_the_first_folder() -> None:
    container = truss(["cd /models", "tar xf x", "pip uninstall -y triton", "bash x.sh"], "vllm serve /models/q")
    assert container.doubts == [
        f"`pip uninstall` of `triton` {WITHOUT_TRITON}",
        "the file `x.sh` is a script that is not read, and `build_commands` runs it before the start",
    ]


def test_options_of_pip_that_a_build_command_writes_make_a_later_version_uncertain() -> None:
    assert truss(["pip install vllm==0.21.0"]).vllm_version == "0.21.0"
    container = truss(["echo x > /etc/pip.conf", "pip install vllm==0.21.0"])
    assert (container.vllm_version, container.likely_version) == ("0.33.0", "0.21.0")


def test_build_commands_count_for_an_image_that_runs_its_entry_point() -> None:
    document = {"base_image": {"image": IMAGE}, "docker_server": {"server_port": 8000}}
    container = read({**document, "build_commands": ["rm /usr/local/bin/vllm"]})
    assert container.installation is not None
    assert container.installation.cause == f"`rm` {REPLACED}"


@table(
    ("command", "doubts", "changed"),
    [
        ("/usr/bin/pip uninstall -y triton", [f"`pip uninstall` of `triton` {WITHOUT_TRITON}"], None),
        (
            "-/bin/sh -c 'pip uninstall -y triton'",
            [f"`pip uninstall` of `triton` {WITHOUT_TRITON}"],
            "`sh` may install another vLLM or activate an environment with one",
        ),
        ("+/bin/rm -f /usr/local/bin/vllm", [], f"`rm` {REPLACED}"),
        (
            "/bin/cp x q/config.json",
            ["`cp` may change the files of the folder `/models/q` before vLLM loads them"],
            None,
        ),
        (
            "/opt/setup.sh ${A}",
            ["the file `/opt/setup.sh` is a script that is not read, and `ExecStartPre` runs it before the start"],
            None,
        ),
        ("/bin/mkdir -p /models/q", [], None),
        ("-/usr/bin/docker rm -f vllm", [], None),
        ("/bin/sleep 10", [], None),
    ],
)
def test_a_unit_s_commands_before_the_start_count(command: str, doubts: list[str], changed: str | None) -> None:
    unit = f"[Service]\nWorkingDirectory=/models\nExecStartPre={command}\nExecStart=/usr/bin/vllm serve /models/q\n"
    container = read({"unit": unit})
    assert container.doubts == doubts
    assert (container.installation and container.installation.cause) == changed


def test_requirements_may_replace_triton() -> None:
    doubt = f"`pip install` of `triton==2.0` {WITHOUT_TRITON}"
    assert truss([], requirements=["pandas", "triton==2.0"]).doubts == [doubt]
    assert truss([], requirements=["pandas"]).doubts == []


@pytest.mark.parametrize(
    ("setup", "program"),
    [
        ("echo 'export A=0' >> ~/.bashrc", "echo"),
        ("cat x | tee -a /root/.bashrc", "tee"),
        ("sed -i s/a/b/ ~/.profile", "sed"),
        ("echo A=0 >> /etc/environment", "echo"),
        ("conda init bash", "conda"),
    ],
)
def test_a_setup_that_may_change_what_the_shell_of_run_reads_makes_variables_uncertain(
    setup: str, program: str
) -> None:
    doubt = f"`{program}` in `setup` may change what the shell reads before the command, and so its variables"
    assert skypilot(setup).doubts == [doubt]
    assert truss([setup]).doubts == []


@pytest.mark.parametrize("setup", ["source ~/.bashrc", "cat ~/.bashrc", "grep -q x ~/.bashrc", "echo .bashrc", "ls"])
def test_a_setup_that_reads_what_the_shell_reads_is_certain(setup: str) -> None:
    assert skypilot(setup).doubts == []


@pytest.mark.parametrize("packages", [["triton==2.0"], {"packages": ["triton==2.0"]}])
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_packages_of_a_ray_job_may_replace_triton(installer: str, packages: object) -> None:
    head = {"name": "head", "image": IMAGE}
    container = read(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "x"},
            "spec": {
                "entrypoint": "vllm serve a/b",
                "runtimeEnvYAML": f"{{{installer}: {packages}}}",
                "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": [head]}}}},
            },
        }
    )
    assert container.doubts == [f"`pip install` of `triton==2.0` {WITHOUT_TRITON}"]
