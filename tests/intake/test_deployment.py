"""The legal content of a deployment's document, and every fault in its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.errors import MAX_FAULTS, RequestFault
from policy.intake.deployment import (
    MAX_FILES,
    MAX_MODELS,
    MAX_PLUGINS,
    MAX_VARIABLES,
    Deployment,
    Environment,
    read_deployment,
)

if TYPE_CHECKING:
    from deployments import Asking


def read(document: Any) -> tuple[Deployment, list[RequestFault]]:
    faults: list[RequestFault] = []
    return read_deployment(document, "/deployment", faults), faults


def test_stated_values_are_kept_unchanged() -> None:
    document = {
        "args": ["--model", "a/b"],
        "env": {"A": "1", "B": ""},
        "model_configs": {"a/b/": {"model_type": "qwen3"}},
        "files": {"serve.yaml": "x: 1"},
        "environment": {"platform": "rocm", "has_triton": False, "plugins": {"logits_processors": ["one"]}},
    }
    environment = Environment(
        "rocm", has_triton=False, logits_processors=("one",), stated=frozenset({"platform", "has_triton", "plugins"})
    )
    expected = Deployment(
        ["--model", "a/b"],
        {"A": "1", "B": ""},
        {"a/b": {"model_type": "qwen3"}},
        {"serve.yaml": "x: 1"},
        environment,
        models_at="/deployment/model_configs",
    )
    assert read(document) == (expected, [])


@pytest.mark.parametrize("document", [{}, {"env": None, "model_configs": None, "files": None, "environment": None}])
def test_missing_fields_are_empty_or_assumed(document: dict[str, Any]) -> None:
    assert read(document) == (Deployment([], {}, {}, {}, Environment(), models_at="/deployment/model_configs"), [])


def test_a_variable_with_null_is_not_set() -> None:
    deployment, faults = read({"env": {"A": None, "B": "1"}})
    assert (deployment.env, faults) == ({"B": "1"}, [])


ENVIRONMENTS: list[tuple[dict[str, Any], Environment]] = [
    ({}, Environment("cuda", has_triton=True)),
    ({"platform": "cpu"}, Environment("cpu", has_triton=False, stated=frozenset({"platform"}))),
    (
        {"platform": "cpu", "has_triton": True},
        Environment("cpu", has_triton=True, stated=frozenset({"platform", "has_triton"})),
    ),
    ({"has_triton": False}, Environment("cuda", has_triton=False, stated=frozenset({"has_triton"}))),
    ({"platform": None, "has_triton": None, "plugins": None}, Environment()),
    ({"plugins": {}}, Environment(stated=frozenset({"plugins"}))),
    ({"has_pinned_memory": True}, Environment(stated=frozenset({"has_pinned_memory"}))),
    ({"has_pinned_memory": False}, Environment(has_pinned_memory=False, stated=frozenset({"has_pinned_memory"}))),
    ({"plugins": {"logits_processors": []}}, Environment(stated=frozenset({"plugins"}))),
]


@table(("document", "expected"), ENVIRONMENTS)
def test_the_environment_is_as_stated_and_completed_from_the_platform(
    document: dict[str, Any], expected: Environment
) -> None:
    deployment, faults = read({"environment": document})
    assert (deployment.environment, faults) == (expected, [])


PLATFORMS = (
    "`cuda`, `rocm`, `xpu`, `cpu`, `tpu`, `out-of-tree`, `unspecified`, `ascend`, `gaudi`, `metal`, `neuron`, "
    "`openvino`, `rbln`, `spyre`, `tenstorrent`"
)
MEMBERS = "`args`, `env`, `model_configs`, `files`, `environment`"
WRONG: list[tuple[Any, list[tuple[str, str]]]] = [
    (None, [("", 'expected an object such as `{"args": ["--model", "Qwen/Qwen3-8B"]}`, got `null`')]),
    ([], [("", 'expected an object such as `{"args": ["--model", "Qwen/Qwen3-8B"]}`, got `[]`')]),
    ({"arg": []}, [("/arg", f"unknown field `arg`; legal: {MEMBERS}; did you mean `args`?")]),
    ({"a/b~c": 1}, [("/a~1b~0c", f"unknown field `a/b~c`; legal: {MEMBERS}")]),
    (
        {"args": None},
        [("/args", 'expected a list of strings such as `["--model", "Qwen/Qwen3-8B"]`, or one string, got `null`')],
    ),
    (
        {"args": {}},
        [("/args", 'expected a list of strings such as `["--model", "Qwen/Qwen3-8B"]`, or one string, got `{}`')],
    ),
    (
        {"args": ["-tp", 2, None]},
        [("/args/1", "expected a string in quotes, got `2`"), ("/args/2", "expected a string in quotes, got `null`")],
    ),
    ({"env": []}, [("/env", "expected an object of variables with their texts, got `[]`")]),
    (
        {"env": {"A": 1, "B": True}},
        [("/env/A", "expected a string in quotes, got `1`"), ("/env/B", "expected a string in quotes, got `true`")],
    ),
    ({"files": "x"}, [("/files", "expected an object of files with their texts, got `x`")]),
    ({"files": {"a/b": {}}}, [("/files/a~1b", "expected a string in quotes, got `{}`")]),
    (
        {"model_configs": []},
        [
            (
                "/model_configs",
                (
                    'expected an object with each model\'s config.json by its name, such as `{"Qwen/Qwen3-8B": {…}}`, '
                    "got `[]`"
                ),
            )
        ],
    ),
    ({"model_configs": {"a/b": []}}, [("/model_configs/a~1b", "expected the object of a config.json, got `[]`")]),
    (
        {"environment": "cuda"},
        [("/environment", 'expected an object such as `{"platform": "cuda"}`, got `cuda`')],
    ),
    (
        {"environment": {"platforms": "cuda"}},
        [
            (
                "/environment/platforms",
                (
                    "unknown field `platforms`; legal: `platform`, `has_triton`, `has_pinned_memory`, `plugins`, "
                    "`transformers`; did you mean `platform`?"
                ),
            )
        ],
    ),
    (
        {"environment": {"platform": "cude"}},
        [("/environment/platform", f"unknown platform `cude`; legal: {PLATFORMS}; did you mean `cuda`?")],
    ),
    ({"environment": {"platform": 1}}, [("/environment/platform", f"unknown platform `1`; legal: {PLATFORMS}")]),
    (
        {"environment": {"platform": ["cuda"]}},
        [("/environment/platform", f'unknown platform `["cuda"]`; legal: {PLATFORMS}')],
    ),
    ({"environment": {"has_triton": "true"}}, [("/environment/has_triton", "expected `true` or `false`, got `true`")]),
    (
        {"environment": {"has_pinned_memory": "no"}},
        [("/environment/has_pinned_memory", "expected `true` or `false`, got `no`")],
    ),
    ({"environment": {"has_triton": 1}}, [("/environment/has_triton", "expected `true` or `false`, got `1`")]),
    (
        {"environment": {"plugins": []}},
        [("/environment/plugins", 'expected an object such as `{"logits_processors": []}`, got `[]`')],
    ),
    (
        {"environment": {"plugins": {"x": 1}}},
        [("/environment/plugins/x", "unknown field `x`; legal: `logits_processors`")],
    ),
    (
        {"environment": {"plugins": {"logits_processors": "a"}}},
        [("/environment/plugins/logits_processors", f"expected a list of at most {MAX_PLUGINS} strings, got `a`")],
    ),
    (
        {"environment": {"plugins": {"logits_processors": [1]}}},
        [("/environment/plugins/logits_processors", f"expected a list of at most {MAX_PLUGINS} strings, got `[1]`")],
    ),
]


@table(("document", "expected"), WRONG)
def test_each_fault_has_its_pointer(document: Any, expected: list[tuple[str, str]]) -> None:
    _, faults = read(document)
    assert faults == [RequestFault(f"/deployment{place}", message) for place, message in expected]


def test_all_faults_are_reported_at_once(ask: Asking) -> None:
    wrong = {"args": 1, "env": 1, "model_configs": 1, "files": 1, "environment": 1, "other": 1}
    problem, faults = ask.problem(lambda: ask.document({"deployment": wrong, "explain": 1}))
    assert problem == "invalid-request"
    assert [place for place, _ in faults] == [
        "/explain",
        *(f"/deployment/{name}" for name in ("other", "args", "env", "model_configs", "files", "environment")),
    ]


LIMITS: list[tuple[str, dict[str, Any], str]] = [
    (
        "env",
        {str(n): "" for n in range(MAX_VARIABLES + 1)},
        f"expected at most {MAX_VARIABLES} variables, got {MAX_VARIABLES + 1}",
    ),
    (
        "files",
        {str(n): "" for n in range(MAX_FILES + 1)},
        f"expected at most {MAX_FILES} files, got {MAX_FILES + 1}",
    ),
    (
        "model_configs",
        {str(n): {} for n in range(MAX_MODELS + 1)},
        f"expected at most {MAX_MODELS} models, got {MAX_MODELS + 1}",
    ),
]


@pytest.mark.parametrize(("member", "document", "message"), LIMITS, ids=[member for member, _, _ in LIMITS])
def test_every_size_is_limited(member: str, document: dict[str, Any], message: str) -> None:
    _, faults = read({member: document})
    assert faults == [RequestFault(f"/deployment/{member}", message)]


def test_only_the_first_unknown_fields_and_words_are_reported() -> None:
    assert len(read({f"x{n}": 1 for n in range(5000)})[1]) == MAX_FAULTS
    assert len(read({"args": [1] * 10_000})[1]) == MAX_FAULTS


ORIGINS = {
    "platform.has_triton": "has_triton",
    "plugins.logits_processors": "plugins",
    **dict.fromkeys(
        [
            "platform.is_rocm",
            "platform.is_tpu",
            "platform.is_out_of_tree",
            "platform.is_unspecified",
            "platform.plugin",
        ],
        "platform",
    ),
}


@table(("fact", "member"), ORIGINS.items())
def test_the_origin_of_an_environment_fact_shows_whether_it_was_stated(ask: Asking, fact: str, member: str) -> None:
    stated = {"platform": "cuda", "has_triton": True, "plugins": {}}
    found = [
        ask.fact(fact, ["--model", "dense"], environment=environment) for environment in ({}, {member: stated[member]})
    ]
    assert [each and each[1] for each in found] == ["assumed", f"environment.{member}"]
