"""The plug-in of kubectl, with a program in the place of kubectl that says what it was asked."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import run_forked
from cli.test_cli_impact import MODEL, models

from service.cli.kubectl import _kubectl, as_input, listed_kinds, split, without_controlled

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["models"]
ROOT = Path(__file__).parents[2]
TABLE = """\
bindings                                 v1                true    Binding
configmaps                   cm          v1                true    ConfigMap
pods                         po          v1                true    Pod
podtemplates                             v1                true    PodTemplate
deployments                  deploy      apps/v1           true    Deployment
replicasets                  rs          apps/v1           true    ReplicaSet
inferenceservices            isvc        serving.kserve.io/v1beta1   true    InferenceService
widgets                                  example.com/v1    true    Widget
"""


def pod(name: str, owner: dict[str, Any] | None = None, tag: str = "v0.21.0") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "prod", "uid": f"pod-{name}"}
    if owner is not None:
        metadata["ownerReferences"] = [{"controller": True, **owner}]
    container = {"name": "c", "image": f"vllm/vllm-openai:{tag}", "args": [MODEL]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def deployment(name: str) -> dict[str, Any]:
    template = {"spec": pod(name)["spec"]}
    metadata = {"name": name, "namespace": "prod", "uid": f"deployment-{name}"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}


OF_REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs-web-1"}
OF_WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"}


def replica_set(name: str, of: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": of, "uid": f"deployment-{of}", "controller": True}
    metadata = {"name": name, "namespace": "prod", "uid": f"rs-{name}", "ownerReferences": [owner]}
    return {**deployment(name), "kind": "ReplicaSet", "metadata": metadata}


@pytest.fixture
def plugin(tmp_path: Path, models: str) -> Callable[..., tuple[int, str, str, list[list[str]]]]:
    """Run the plug-in; gives its exit code, what it printed, and what kubectl was asked."""
    asked = tmp_path / "asked"
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable} -IS\n"
        "import json, os, sys\n"
        f"open({str(asked)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "if 'SIGNAL' in os.environ:\n"
        "    os.kill(os.getppid(), int(os.environ['SIGNAL'])); sys.exit(1)\n"
        "name = 'TABLE' if sys.argv[1] == 'api-resources' else 'OBJECTS'\n"
        "sys.stdout.write(os.environ[name]); sys.exit(int(os.environ.get('CODE', '0')))\n"
    )
    program.chmod(0o755)

    def run(*words: str, items: Any = (), text: str = "", **variables: str) -> tuple[int, str, str, list[list[str]]]:
        asked.write_text("")
        env = {
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "TABLE": TABLE,
            "OBJECTS": json.dumps({"items": list(items)}),
            **variables,
        }
        given = ("--models", models) if words[0] in {"impact", "pins"} else ()
        command = [sys.executable, "-c", "from service.cli.kubectl import main; main()", *words, *given]
        done = run_forked(command, text.encode(), ROOT, env)
        return done.code, done.out, done.err, [json.loads(line) for line in asked.read_text().splitlines()]

    return run


def test_the_objects_of_a_cluster_are_compared(plugin: Callable[..., Any]) -> None:
    web = [deployment("web"), replica_set("web-1", "web"), pod("web-1-x", OF_REPLICA_SET)]
    items = [*web, pod("bare"), pod("of-widget", OF_WIDGET)]
    code, out, err, asked = plugin("impact", "-A", "--context", "big", "--to", "0.33.0", "--json", items=items)
    assert code == 0, err
    assert asked == [
        ["api-resources", "--verbs=list", "--no-headers", "--context", "big"],
        [
            "get",
            "pods,deployments.apps,replicasets.apps,inferenceservices.serving.kserve.io",
            "-o",
            "json",
            "-A",
            "--context",
            "big",
        ],
    ]
    names = [item["name"] for item in json.loads(out)["items"]]
    assert names == ["prod/Deployment/web/c", "prod/Pod/bare/c", "prod/Pod/of-widget/c"]


def test_kinds_and_a_namespace(plugin: Callable[..., Any]) -> None:
    code, out, err, asked = plugin("pins", "-n", "prod", "--kinds=pods", "-l", "app=x", "--json", items=[pod("a")])
    assert code == 0, err
    assert asked == [["get", "pods", "-o", "json", "-n", "prod", "-l", "app=x"]]
    assert json.loads(out)["counts"]["unpinned"] == 1


@pytest.mark.parametrize(
    "kinds",
    ["--raw=/api", "pods,--raw=/api", ",--raw=/api", "-f\x1b[31m"],
    ids=["only", "later", "empty first", "escape"],
)
def test_a_kind_is_no_option_of_kubectl(plugin: Callable[..., Any], kinds: str) -> None:
    shown = kinds.rsplit(",", maxsplit=1)[-1].replace("\x1b", r"\x1b")
    for words in ([f"--kinds={kinds}"], ["--kinds", kinds]):
        code, out, err, asked = plugin("impact", *words, "--to", "0.33.0", items=[pod("a")])
        assert (code, out, asked) == (2, "", [])
        assert err == f"--kinds: expected names of kinds such as `pods`, got `{shown}`\n"


def test_nothing_is_read_unless_it_is_asked_for(plugin: Callable[..., Any]) -> None:
    text = json.dumps({"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}, "vllm_version": "0.33.0"})
    code, out, err, asked = plugin("decide", "-", text=text)
    assert (code, asked) == (0, []), err
    assert json.loads(out)["runner"] == "v2"
    assert plugin("--version")[1].startswith("runner-policy ")


def test_what_kubectl_could_not_read_is_no_success(plugin: Callable[..., Any]) -> None:
    """It prints the objects of the other kinds, and its own message."""
    code, out, _, _ = plugin("pins", "-A", "--json", items=[pod("a")], CODE="1")
    assert (code, json.loads(out)["counts"]["deployments"]) == (1, 1)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TABLE": "", "CODE": "1"}, ""),
        ({"TABLE": "widgets example.com/v1 true Widget\n"}, "no kind of object that could start vLLM"),
        ({"OBJECTS": "No resources found"}, "kubectl printed no list of objects"),
        ({"PATH": "/nonexistent"}, "kubectl cannot be run"),
        *(
            ({"OBJECTS": text}, "kubectl printed no list of objects")
            for text in (
                *('{"items": null}', '{"items": {}}', '{"items": [1]}', '{"items": [null]}', '{"items": [[]]}'),
                *("[]", "{", '{"items": [NaN]}', '{"items": [' + "[" * 5_000),
                '{"items": [{"a": ' + "[" * 5_000 + "]" * 5_000 + "}]}",
            )
        ),
    ],
)
def test_a_failure_is_wrong_usage(plugin: Callable[..., Any], variables: dict[str, str], message: str) -> None:
    code, out, err, _ = plugin("impact", "-A", "--to", "0.33.0", **variables)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_ctrl_c_while_kubectl_runs_ends_the_command(plugin: Callable[..., Any]) -> None:
    code, out, err, _ = plugin("impact", "-A", "--to", "0.33.0", items=[pod("a")], SIGNAL=str(int(signal.SIGINT)))
    assert (code, out, err) == (130, "", "")


@pytest.mark.parametrize(
    "metadata",
    [
        *(None, [], "x", 1, {"ownerReferences": "x"}, {"ownerReferences": {"a": 1}}, {"ownerReferences": 1}),
        {"ownerReferences": ["x", None, 1, []]},
        {"ownerReferences": [{"controller": True, "apiVersion": "apps/v1", "kind": {}}]},
        {"ownerReferences": [{"controller": True, "apiVersion": ["apps/v1"], "kind": "ReplicaSet"}]},
    ],
)
def test_an_object_with_other_owners_is_read_as_one_without(plugin: Callable[..., Any], metadata: Any) -> None:
    item = pod("a") | {"metadata": metadata}
    assert without_controlled([item]) == [item]
    code, _, err, _ = plugin("lint", "-A", items=[item])
    assert code in {0, 1, 2}
    assert "Traceback" not in err


@pytest.mark.parametrize("depth", [500, 950, 980, 990, 995])
def test_a_deep_object_is_no_traceback(plugin: Callable[..., Any], depth: int) -> None:
    code, _, err, _ = plugin("lint", "-A", OBJECTS='{"items": [{"a": ' + "[" * depth + "]" * depth + "}]}")
    assert code in {0, 1, 2}
    assert "Traceback" not in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_kubectl_says_controls_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = r"import sys; sys.stderr.buffer.write('a\x1b[31mb\nc\x9bd\xe9'.encode() + b'\xe2'); sys.exit(1)"
    terminal = Terminal()
    monkeypatch.setattr("service.cli.kubectl.KUBECTL", sys.executable)
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(SystemExit) as end:
        _kubectl(["-c", text])
    assert end.value.code == 2
    assert terminal.getvalue() == "a\\x1b[31mb\nc\\u009bd\xe9\ufffd"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["impact", "-A", "--to", "1"], (["-A"], ["impact", "--to", "1"], True)),
        (["impact", "--namespace=a", "x"], (["--namespace=a"], ["impact", "x"], True)),
        (["impact", "--kubeconfig", "f", "x"], (["--kubeconfig", "f"], ["impact", "x"], False)),
        (["impact", "--", "-A"], ([], ["impact", "--", "-A"], False)),
        (["impact", "-A=x"], ([], ["impact", "-A=x"], False)),
    ],
)
def test_words(words: list[str], found: tuple[list[str], list[str], bool]) -> None:
    assert split(words) == found


def test_kinds_are_those_that_are_read() -> None:
    assert listed_kinds(TABLE) == [
        "pods",
        "deployments.apps",
        "replicasets.apps",
        "inferenceservices.serving.kserve.io",
    ]
    assert without_controlled([replica_set("web-1", "other"), pod("a", OF_REPLICA_SET)])[1:] == []


def test_a_pod_of_an_object_that_was_not_read_is_read(plugin: Callable[..., Any]) -> None:
    """With `--kinds pods`, or a selector that only the pod has."""
    code, out, err, _ = plugin("pins", "-n", "prod", "--kinds", "pods", "--json", items=[pod("a", OF_REPLICA_SET)])
    assert code == 0, err
    assert json.loads(out)["counts"]["deployments"] == 1
    replicas, controlled = replica_set("web-1", "web"), pod("a", OF_REPLICA_SET)
    assert without_controlled([replicas, controlled]) == [replicas]
    itself = pod("a", {**OF_REPLICA_SET, "uid": "pod-a"})
    assert without_controlled([itself]) == [itself]


def labelled(item: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], "labels": {k.replace("_", "-"): v for k, v in labels.items()}}}


OF_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "web-29000000", "uid": "job"}
OF_HASH = {**OF_REPLICA_SET, "name": "web-5d8f"}


@pytest.mark.parametrize(
    ("kind", "item", "is_left_out"),
    [
        ("apps/v1 Deployment", labelled(pod("a", OF_HASH), pod_template_hash="5d8f"), True),
        ("argoproj.io/v1alpha1 Rollout", labelled(pod("a", OF_HASH), rollouts_pod_template_hash="5d8f"), True),
        ("batch/v1 CronJob", pod("a", OF_JOB), True),
        ("apps/v1 Deployment", pod("a", OF_HASH), False),
        ("apps/v1 Deployment", labelled(pod("a", OF_HASH), pod_template_hash="other"), False),
        ("apps/v1 StatefulSet", labelled(pod("a", OF_HASH), pod_template_hash="5d8f"), False),
        ("batch/v1 CronJob", pod("a", {**OF_JOB, "name": "web-x"}), False),
        ("batch/v1 CronJob", pod("a", {**OF_JOB, "name": "other-29000000"}), False),
    ],
)
def test_a_controller_that_was_not_read_stands_for_its_own(
    kind: str, item: dict[str, Any], *, is_left_out: bool
) -> None:
    version, _, name = kind.partition(" ")
    above = {**deployment("web"), "apiVersion": version, "kind": name}
    assert without_controlled([above, item]) == ([above] if is_left_out else [above, item])
    elsewhere = {**above, "metadata": {**above["metadata"], "namespace": "other"}}
    assert without_controlled([elsewhere, item]) == [elsewhere, item]


def test_very_many_objects_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.cli.kubectl.MAX_FILE", 100)
    assert [json.loads(line) for line in as_input([pod("a"), pod("b")]).splitlines()] == [pod("a"), pod("b")]


def test_the_program_has_the_name_that_kubectl_looks_for() -> None:
    """An underscore in the name of the file is a hyphen or an underscore of the command."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-runner_policy"] == "service.cli.kubectl:main"
