"""AWS's image for SageMaker, whose entry point makes arguments of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.draft import NAMED_IMAGE

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.27.1-gpu-py312-cu130-ubuntu22.04-sagemaker"
SERVER = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "8080"]
UBUNTU = IMAGE.replace("sagemaker", "ec2")


def engine(env: dict[str, Any], image: str = IMAGE, **container: Any) -> Container:
    variables = [
        {"name": name, **({"valueFrom": value} if isinstance(value, dict) else {"value": value})}
        for name, value in env.items()
    ]
    faults: list[RequestFault] = []
    spec = {"containers": [{"name": "vllm", "image": image, "env": variables, **container}]}
    (found,) = read_manifest({"apiVersion": "v1", "kind": "Pod", "spec": spec}, "", faults)
    assert faults == []
    return found


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"SM_VLLM_MODEL": "a/b"}, ["--model", "$(SM_VLLM_MODEL)"]),
        ({"HF_MODEL_ID": "a/b", "X": "1"}, ["--model", "$(HF_MODEL_ID)"]),
        ({"HF_MODEL_ID": "c", "SM_VLLM_MODEL": "a/b"}, ["--model", "$(SM_VLLM_MODEL)"]),
        (
            {"SM_VLLM_MODEL": "a/b", "SM_VLLM_MAX_MODEL_LEN": "4096"},
            ["--model", "$(SM_VLLM_MODEL)", "--max-model-len", "$(SM_VLLM_MAX_MODEL_LEN)"],
        ),
        (
            {"SM_VLLM_MODEL": "a/b", "SM_VLLM_ENFORCE_EAGER": "true", "SM_VLLM_ENABLE_LORA": "false", "SM_VLLM_X": ""},
            ["--model", "$(SM_VLLM_MODEL)", "--enforce-eager", "--x"],
        ),
    ],
)
def test_the_variables_of_sagemakers_image_are_arguments(env: dict[str, Any], words: list[str]) -> None:
    found = engine(env)
    assert (found.words, found.problem, found.notes, found.doubts) == ([*SERVER, *words], "", [], [])
    assert found.places[len(SERVER)].startswith("env.")


@table(
    ("path", "env", "is_doubt"),
    [
        ("/opt/ml/model", {"HF_MODEL_ID": "a/b"}, True),
        ("/opt/ml/model/", {"HF_MODEL_ID": "a/b"}, True),
        ("/opt/ml", {"HF_MODEL_ID": "a/b"}, True),
        ("/opt/ml/model/x", {"HF_MODEL_ID": "a/b"}, True),
        ("/opt/ml/model", {"SM_VLLM_MODEL": "a/b"}, False),
        ("/opt/ml/models", {"HF_MODEL_ID": "a/b"}, False),
    ],
)
def test_a_model_on_a_volume_is_preferred_to_that_of_the_hub(path: str, env: dict[str, str], *, is_doubt: bool) -> None:
    found = engine(env, volumeMounts=[{"name": "v", "mountPath": path}])
    assert ([why for why in found.doubts if "prefers a model" in why] != []) == is_doubt


SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
ENTRY_POINT = "the entry point of the image for SageMaker"
IN_ANY_ORDER = "in an order that is not known; leave one of them out"
BY_SUPERVISOR = (
    "the supervisor in the image for SageMaker may install packages or change the command or the variables by `{}`; "
    "leave it out"
)
SEVERAL = (
    "some builds of the image for SageMaker make several arguments of `{}`, which has a blank or `%(`, or begins with "
    "`[`; write `vllm serve MODEL …` as the command"
)
LINES = f"{ENTRY_POINT} reads each line of the variables' values as a variable, and "


@table(
    ("env", "doubt"),
    [
        ({"A": "x\nSM_VLLM_ENFORCE_EAGER=true"}, f"{LINES}`A` has a line break; leave it out"),
        ({"SM_VLLM_SEED": "1\n"}, f"{LINES}`SM_VLLM_SEED` has a line break; leave it out"),
        (
            {"A": SECRET},
            f"{LINES}the value of `A` is not in the manifest; write `vllm serve MODEL …` as the command",
        ),
        (
            {"SM_VLLM_RUNNER": SECRET},
            f"{LINES}the value of `SM_VLLM_RUNNER` is not in the manifest; write `vllm serve MODEL …` as the command",
        ),
        (
            {"SM_VLLM_CHAT_TEMPLATE": "a="},
            f"{ENTRY_POINT} drops the `=` at the end of `SM_VLLM_CHAT_TEMPLATE`; leave it out",
        ),
        (
            {"SM_VLLM_SEED": "1", "SM_VLLM_seed": "2"},
            f"{ENTRY_POINT} makes the same flag of `SM_VLLM_seed` as of another variable, {IN_ANY_ORDER}",
        ),
        ({"SUPERVISOR_PROGRAM__APP_ENVIRONMENT": 'A="0"'}, BY_SUPERVISOR.format("SUPERVISOR_PROGRAM__APP_ENVIRONMENT")),
        ({"SUPERVISOR_PROGRAM__X_COMMAND": "vllm serve m"}, BY_SUPERVISOR.format("SUPERVISOR_PROGRAM__X_COMMAND")),
        ({"STANDARD_PIP_ARGS": "vllm==0.20.0"}, BY_SUPERVISOR.format("STANDARD_PIP_ARGS")),
        ({"SM_VLLM_X": "%(ENV_Y)s"}, SEVERAL.format("SM_VLLM_X")),
        ({"SM_VLLM_X": "a --enable-prompt-embeds"}, SEVERAL.format("SM_VLLM_X")),
        ({"SM_VLLM_X": '["a","--enable-prompt-embeds"]'}, SEVERAL.format("SM_VLLM_X")),
        ({"SM_VLLM_X": '{"a":[1]}', "X": "a b [%("}, None),
        ({"BASH_ENV": "/x"}, "the variable `BASH_ENV` may change how `bash` interprets its script"),
        ({"A": "x\\nSM_VLLM_X=1", "B": "=", "SM_VLLM_X": "a=b"}, None),
    ],
)
def test_variables_of_which_the_entry_point_may_make_other_arguments_are_a_doubt(
    env: dict[str, Any], doubt: str | None
) -> None:
    found = engine({"SM_VLLM_MODEL": "a/b", **env})
    assert (found.doubts, found.problem) == ([] if doubt is None else [doubt], "")
    assert found.words[: len(SERVER) + 2] == [*SERVER, "--model", "$(SM_VLLM_MODEL)"]
    assert engine({"SM_VLLM_MODEL": "a/b", **env}, command=["vllm", "serve", "m"]).doubts == []


@table(
    "repository",
    [
        "mirror.example.com/deep-learning-containers/vllm",
        "1.dkr.ecr.us-east-1.amazonaws.com/ecr-public/deep-learning-containers/vllm",
        "1.dkr.ecr.us-east-1.amazonaws.com/vllm",
    ],
)
def test_a_copy_in_another_registry_is_the_same(repository: str) -> None:
    image = f"{repository}:{IMAGE.rpartition(':')[2]}"
    found = engine({"SM_VLLM_MODEL": "a/b", "SM_VLLM_RUNNER": "pooling"}, image)
    assert found.words == [*SERVER, "--model", "$(SM_VLLM_MODEL)", "--runner", "$(SM_VLLM_RUNNER)"]
    assert (found.vllm_version or "").startswith("0.27.1")


@table(
    ("tag", "is_sagemaker"),
    [
        ("0.23.0-gpu-py312", True),
        ("0.23-gpu-py312", True),
        ("0.23-gpu-py312-cu130-ubuntu22.04-sagemaker-v1", True),
        ("0.23.0-gpu-py312-ec2", False),
        ("0.23-gpu-py312-cu130-ubuntu22.04-ec2-v1", False),
    ],
)
def test_a_tag_without_a_platform_is_that_of_the_image_for_sagemaker(tag: str, *, is_sagemaker: bool) -> None:
    found = engine({"SM_VLLM_MODEL": "a/b"}, f"public.ecr.aws/deep-learning-containers/vllm:{tag}", args=["--model=c"])
    assert found.words == ([*SERVER, "--model", "$(SM_VLLM_MODEL)"] if is_sagemaker else ["--model=c"])


@table("variable", ["BASH_ENV", "BASH_FUNC_vllm%%", "SHELLOPTS", "PS4"])
@table("image", [UBUNTU, "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1"])
def test_a_variable_may_change_the_script_of_an_entry_point(image: str, variable: str) -> None:
    words = ["vllm", "serve", "m"]
    found = engine({variable: "x"}, image, args=words if "dynamo" in image else words[2:])
    assert [why for why in found.doubts if "bash" in why]
    assert not engine({variable: "x"}, image, command=words).doubts


def test_the_variables_show_vllm_in_an_image_that_is_not_known() -> None:
    image = "mine/vllm-sagemaker:1"
    assert engine({"SM_VLLM_MODEL": "a/b"}, image).problem == NAMED_IMAGE


def test_a_variable_whose_value_is_not_known_is_a_reference() -> None:
    found = engine({"SM_VLLM_MODEL": "a/b", "SM_VLLM_RUNNER": SECRET})
    assert (found.words, found.problem, found.notes) == (
        [*SERVER, "--model", "$(SM_VLLM_MODEL)", "--runner", "$(SM_VLLM_RUNNER)"],
        "",
        [],
    )


def test_the_image_passes_on_no_arguments() -> None:
    found = engine({"SM_VLLM_MODEL": "a/b"}, args=["--max-model-len", "1"])
    assert found.words == [*SERVER, "--model", "$(SM_VLLM_MODEL)"]
    assert found.notes == [
        "the image for SageMaker passes on no arguments; set its variables `SM_VLLM_…` instead",
    ]


def test_a_model_in_no_variable_is_a_problem() -> None:
    assert engine({"SM_VLLM_MAX_MODEL_LEN": "1"}).problem.startswith("the image for SageMaker takes the model from")


def test_hidden_variables_may_be_arguments() -> None:
    found = engine({"SM_VLLM_MODEL": "a"}, envFrom=[{"secretRef": {"name": "s"}}])
    assert found.doubts == [
        "variables that the manifest does not show may set arguments of the image for SageMaker",
    ]


def test_a_command_or_another_image_makes_nothing_of_them() -> None:
    env = {"SM_VLLM_MODEL": "a/b"}
    assert engine(env, command=["vllm", "serve", "m"]).words == ["vllm", "serve", "m"]
    assert engine(env, UBUNTU, args=["--model", "m"]).words == ["--model", "m"]
