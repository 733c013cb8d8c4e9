"""`runner-policy decide` on folders: which files are read, what is said of the others, and what has to be rendered."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes_objects import NAME, container, deployment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from api.conftest import Done

    Call = Callable[..., Done]

PATH = "spec.template.spec.containers[0]"
ONE = yaml.safe_dump(deployment(container(), name="one"))
ZOO = "apiVersion: example.com/v1\nkind: Zoo\nmetadata: {name: z}\n"
TEMPLATE = "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n"
NOT_RENDERED = (
    "`{{ .Release.Name }}` is an action of a template, which has not been rendered; send the rendered manifest, such "
    "as the output of `helm template …`, `kustomize build` or `docker compose config`"
)


@pytest.fixture
def model(tmp_path: Path) -> str:
    config = tmp_path / "model.json"
    config.write_text('{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}')
    return f"--model-config={NAME}={config}"


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    (folder / "sub").mkdir(parents=True)
    return folder


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", ".").replace("___", "/")
        path.write_text(text)


def shown(done: Done) -> list[tuple[str, str, str]]:
    """The file, the path and the runner or the first fault of each engine."""
    lines = [json.loads(line) for line in done.out.splitlines()]
    return [
        (line["file"], line["path"], line["decision"]["runner"] if "decision" in line else line["problem"]["detail"])
        for line in lines
    ]


def test_the_files_of_a_folder_are_read_in_the_order_of_their_names(call: Call, manifests: Path, model: str) -> None:
    write(manifests, b__yaml=f"{ONE}---\n{ONE}", a__yml=ONE, c__json=json.dumps(yaml.safe_load(ONE)), d__txt=TEMPLATE)
    write(manifests / "sub", x__yaml=ONE)
    read = [
        ("a.yml", PATH, "v2"),
        ("b.yaml", f"[0].{PATH}", "v2"),
        ("b.yaml", f"[1].{PATH}", "v2"),
        ("c.json", PATH, "v2"),
    ]
    done = call("decide", str(manifests), model)
    assert (done.code, shown(done), done.err) == (0, read, "")
    assert shown(call("decide", "-R", str(manifests), model)) == [*read, ("sub/x.yaml", PATH, "v2")]


def test_objects_of_one_file_refer_to_those_of_another(call: Call, manifests: Path, model: str) -> None:
    env = {"name": "VLLM_USE_V2_MODEL_RUNNER", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    config_map: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"k": "0"},
    }
    write(manifests, a__yaml=yaml.safe_dump(deployment(container(env=[env]))), b__yaml=yaml.safe_dump(config_map))
    assert shown(call("decide", str(manifests), model)) == [("a.yaml", PATH, "v1")]


def test_what_cannot_be_read_is_said_and_the_rest_is_decided(call: Call, manifests: Path, model: str) -> None:
    broken = f"{ONE}---\nkind: Pod\napiVersion: v1\nspec: []\n"
    write(manifests, a__yaml=TEMPLATE, b__yaml=ONE, c__yaml=broken, d__json="{", e__yaml="", f__yaml=ZOO)
    done = call("decide", str(manifests), model)
    assert done.code == 1
    assert shown(done) == [
        ("b.yaml", PATH, "v2"),
        ("c.yaml", f"[0].{PATH}", "v2"),
        ("c.yaml", "[1]", "/1/spec: expected an object, got `[]`"),
    ]
    ignored, template, no_json = done.err.splitlines()
    assert ignored == "ignored, because nothing that starts vLLM was found in them: `f.yaml: Zoo/z`"
    assert template == f"{manifests}/a.yaml:3:9: {NOT_RENDERED}"
    assert no_json.startswith(f"{manifests}/d.json: not JSON: ")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            [],
            (
                "no file with the ending .json, .yaml, .yml, .sh, .service, .container, .nomad, .nomad.hcl; "
                "`--recursive` reads its subfolders"
            ),
        ),
        (["kustomization.yaml"], "Kustomize has to render it; run `kustomize build FOLDER | runner-policy decide -`"),
        (["Chart.yaml", "values.yaml"], "Helm has to render it; run `helm template FOLDER | runner-policy decide -`"),
        (
            ["compose.yaml", ".env"],
            "Compose has to render it; run `docker compose --project-directory FOLDER config | runner-policy decide -`",
        ),
    ],
)
def test_a_folder_that_has_to_be_rendered_is_not_read(
    call: Call, manifests: Path, files: list[str], message: str
) -> None:
    for name in files:
        (manifests / name).write_text("services: {a: {image: $IMAGE}}")
    for source in (manifests, *(manifests / name for name in files[:1])):
        done = call("decide", str(source))
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"{manifests}: {message.replace('FOLDER', str(manifests))}"), done.err


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"compose.yaml": "$IMAGE"}, 0),
        ({"compose.yaml": "nginx", ".env": "A=b"}, 0),
        ({"docker-compose.yml": "$IMAGE", ".env": "A=b"}, 2),
        ({"compose.yml": "nginx", "compose.override.yaml": "nginx"}, 2),
    ],
)
def test_a_compose_file_is_read_unless_other_files_change_it(
    call: Call, manifests: Path, files: dict[str, str], code: int
) -> None:
    for name, image in files.items():
        (manifests / name).write_text(f"services: {{a: {{image: {image}}}}}")
    assert call("decide", str(manifests / next(iter(files)))).code == code


def test_a_project_is_rendered_only_if_asked(
    call: Call, manifests: Path, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifests / "kustomization.yaml").write_text("")
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    render = f"kustomize build {manifests}"
    done = call("decide", "--render", str(manifests), model)
    message = f"`kustomize` is not installed; run `{render}` elsewhere, and pipe its output to `decide -`\n"
    assert (done.code, done.out, done.err) == (2, "", message)
    (programs / "kustomize").write_text(f"#!/bin/sh\ntest \"$*\" = 'build {manifests}' && printf '%s' '{ONE}'\n")
    (programs / "kustomize").chmod(0o755)
    done = call("decide", "--render", str(manifests), model)
    assert (done.code, json.loads(done.out)["path"], done.err) == (0, PATH, "")
    (programs / "kustomize").write_text("#!/bin/sh\necho 'no \033[1mbase' >&2; exit 3\n")
    done = call("decide", "--render", str(manifests), model)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"`{render}` failed with exit code 3: no \\x1b[1mbase\\n\n"


def test_without_anything_to_render_the_flag_is_wrong(call: Call, manifests: Path) -> None:
    write(manifests, a__yaml=ONE)
    done = call("decide", "--render", str(manifests))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{manifests}: found nothing to render: no kustomization.yaml, ")


def test_links_out_of_the_folder_are_not_read(call: Call, manifests: Path, model: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2-the-password")
    (manifests / "..data").mkdir()
    (manifests / "..data" / "a").write_text(ONE)
    for name, target in {"a.yaml": "..data/a", "b.yaml": str(tmp_path / "secret"), "c.yaml": "../secret"}.items():
        (manifests / name).symlink_to(target)
    (manifests / "d.yaml").symlink_to("d.yaml")
    done = call("decide", str(manifests), model)
    assert (done.code, shown(done)) == (1, [("a.yaml", PATH, "v2")])
    reason = "not read, because the link leads out of the folder"
    assert done.err.splitlines() == [f"{manifests}/{name}.yaml: {reason}" for name in "bcd"]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with folders that are nested too deep, and one whose path is almost as long as a path may be.

    ``Path.mkdir`` and ``shutil.rmtree`` call themselves for each level.
    """
    folder = tmp_path / "all"
    subprocess.run(["mkdir", "-p", folder / "a" / "/".join("b" * 980)], check=True)
    (folder / "a" / "/".join("b" * 980) / "a.yaml").write_text(ONE)
    (folder / "c" / "/".join(["x" * 250] * 15)).mkdir(parents=True)
    (folder / "z.yaml").write_text(ONE)
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-r", folder], check=True)


@pytest.mark.parametrize(
    ("command", "shown"),
    [(("decide",), "z.yaml"), (("impact", "--to", "0.33.0"), "z.yaml"), (("lint",), ""), (("pins",), "")],
)
def test_folders_that_are_nested_too_deep_are_not_read(
    call: Call, deep: Path, model: str, command: tuple[str, ...], shown: str
) -> None:
    done = call(*command, "-R", str(deep), *(() if command == ("pins",) else (model,)))
    assert (done.code in {0, 1}, "Traceback" in done.err, shown in done.out) == (True, False, True), done.err
    assert "not read, because it is nested more than 64 deep" in done.out + done.err


def test_a_folder_of_which_nothing_can_be_read_is_unreadable(call: Call, deep: Path, model: str) -> None:
    (deep / "z.yaml").unlink()
    done = call("decide", "-R", str(deep), model)
    assert (done.code, done.out, "nested more than 64 deep" in done.err) == (2, "", True)


def test_a_folder_whose_name_begins_with_a_dash_is_no_option_of_the_tool(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "--enable-helm").mkdir()
    (tmp_path / "--enable-helm" / "kustomization.yaml").write_text("")
    (tmp_path / "kustomize").write_text('#!/bin/sh\necho "$2" >&2; exit 3\n')
    (tmp_path / "kustomize").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = call("decide", "--render", "--", "--enable-helm")
    assert done.err.endswith("failed with exit code 3: ./--enable-helm\\n\n")


def test_links_to_folders_are_not_followed(call: Call, manifests: Path, model: str) -> None:
    (manifests / "sub" / "again").symlink_to(manifests)
    write(manifests, a__yaml=ONE)
    assert shown(call("decide", "-R", str(manifests), model)) == [("a.yaml", PATH, "v2")]


def test_scripts_and_services_are_read(call: Call, manifests: Path, model: str) -> None:
    write(
        manifests,
        a__sh=f"#!/bin/bash\nexec vllm serve {NAME}\n",
        b__sh="#!/usr/bin/env python3\nvllm serve m/m\n",
        c__service=f"[Service]\nEnvironmentFile=/etc/own.env\nExecStart=/usr/bin/vllm serve {NAME}\n",
        d__nomad='job "a" {}',
    )
    (manifests / "own.env").write_text("VLLM_USE_V2_MODEL_RUNNER=0\n")
    done = call("decide", str(manifests), model)
    assert shown(done) == [("a.sh", "script", "v2"), ("c.service", "unit", "v1")]
    file = manifests / "d.nomad"
    command = f"nomad job run -output {file} | runner-policy decide -"
    message = f"{file}: HCL is not read; run `{command}`, which reads the job as JSON\n"
    assert (done.code, done.err) == (1, message)
    alone = json.loads(call("decide", str(manifests / "a.sh"), model).out)
    assert (alone["path"], alone["decision"]["runner"]) == ("script", "v2")


def test_of_several_compose_files_composes_own_choice_is_read(call: Call, manifests: Path, model: str) -> None:
    services = f"services: {{a: {{image: vllm/vllm-openai:v0.33.0, command: [--model, {NAME}]}}}}"
    for name in ("docker-compose.yaml", "docker-compose.yml", "compose.yaml"):
        (manifests / name).write_text(services)
    done = call("decide", str(manifests), model)
    assert (done.code, [file for file, _, _ in shown(done)]) == (0, ["compose.yaml"])
    reason = "not read, because Compose takes `compose.yaml`, which is beside it"
    assert done.err.splitlines() == [f"{manifests}/docker-compose.{end}: {reason}" for end in ("yaml", "yml")]


@pytest.mark.usefixtures("model")
def test_links_out_of_the_folder_of_models_are_not_read(call: Call, manifests: Path) -> None:
    config = manifests.parent / "model.json"
    models, script = manifests / "models", manifests / "a.sh"
    (models / "org" / "b").mkdir(parents=True)
    (models / "org" / "b" / "config.json").symlink_to(config)
    (models / "org" / "c.json").symlink_to(config)
    (models / "d").mkdir()
    (models / "d" / "blob").write_text(config.read_text())
    (models / "d" / "config.json").symlink_to("blob")
    for name, refused in (("org/b", True), ("org/c", True), ("d", False)):
        script.write_text(f"vllm serve {name}\n")
        line = json.loads(call("decide", str(script), "--models", str(models)).out)
        assert ("leads out of the folder of models" in str(line.get("problem"))) is refused, name
