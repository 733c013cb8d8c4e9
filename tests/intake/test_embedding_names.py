"""Models that are named like embedding models, without the file that makes them pooling models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE, TODAY, Asking
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.policy import Policy
from policy.request.request import read_request

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue

NAME = "Qwen/Qwen3-Embedding-0.6B"
POOLING = '[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]'


def warnings(ask: Asking, *flags: str, name: str = NAME, release: str = "0.23.0", **given: Any) -> list[str]:
    found = ask(["serve", name, *flags], release, models={name: DENSE}, **given).warnings
    return [warning for warning in found if "is named like an embedding model" in warning]


@table(
    "name",
    [
        NAME,
        "BAAI/bge-m3",
        "intfloat/E5-mistral-7b-instruct",
        "Alibaba-NLP/gte-Qwen2-7B-instruct",
        "jinaai/jina-reranker-v3",
        "sentence-transformers/a",
        "a/some_retriever",
        "a/colbert-v2",
        "/models/my-embed",
    ],
)
def test_a_model_that_is_named_like_an_embedding_model_gets_a_warning(ask: Asking, name: str) -> None:
    expected = (
        f"`{name}` is named like an embedding model, and its `modules.json` is not given; with that file vLLM may run "
        "it as a pooling model, which would change the decision; send `modules.json` and `1_Pooling/config.json` in "
        "`files`, under the model's name, or set `--runner`"
    )
    assert warnings(ask, name=name) == [expected]


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "a/Llama-e50", "a/agte", "a/bged"])
def test_a_model_with_another_name_gets_none(ask: Asking, name: str) -> None:
    assert warnings(ask, name=name) == []


@pytest.mark.parametrize("modules", ["[]", POOLING])
def test_no_warning_if_the_file_is_given(ask: Asking, modules: str) -> None:
    assert warnings(ask, files={f"{NAME}/modules.json": modules}) == []


@pytest.mark.parametrize(
    "flags", [["--runner", "generate"], ["--runner", "pooling"], ["--convert", "embed"]], ids=" ".join
)
def test_no_warning_if_an_argument_decides(ask: Asking, flags: list[str]) -> None:
    assert warnings(ask, *flags) == []


def test_no_warning_if_the_decision_would_be_the_same(ask: Asking) -> None:
    assert warnings(ask, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}) == []


def test_no_warning_for_a_model_that_was_looked_up(catalogue: Catalogue) -> None:
    policy = Policy(catalogue, find=lambda name: (DENSE, {}) if name == NAME else None)
    found = Asking(policy)(["serve", NAME], "0.23.0").warnings
    assert not any("embedding" in warning for warning in found)


def test_where_every_value_must_be_known_the_model_cannot_be_decided(ask: Asking) -> None:
    document = ask.request(["serve", NAME], "0.23.0", models={NAME: DENSE})
    result = ask.policy.evaluate(read_request(document, ask.policy.releases), TODAY)
    assert result.intake is not None
    with pytest.raises(RequestInvalid) as caught:
        require_known_values(result.intake, "/deployment")
    [fault] = caught.value.faults
    assert fault.pointer == "/deployment"
    assert fault.message.startswith(f"`{NAME}` is named like an embedding model")
