"""AWS's image for SageMaker, whose entry point makes arguments of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest

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
        (
            {"SM_VLLM_MODEL": "a/b", "SM_VLLM_RUNNER": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ["--model", "$(SM_VLLM_MODEL)", "--runner", "$(SM_VLLM_RUNNER)"],
        ),
    ],
)
def test_the_variables_of_sagemakers_image_are_arguments(env: dict[str, Any], words: list[str]) -> None:
    found = engine(env)
    assert (found.words, found.problem, found.notes, found.doubts) == ([*SERVER, *words], "", [], [])
    assert found.places[len(SERVER)].startswith("env.")


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
