"""What several releases do with a deployment, and the kinds of changes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deployments import TODAY

from policy.decision.remedies import Change, Remedy
from policy.impact import run as impact_run
from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.impact import Impact
from policy.impact.run import ImpactJob, Run, no_piece
from policy.impact.targets import V1_REMOVED, target_of, targets_of
from policy.intake.model_finder import ModelFinder
from policy.request.manifest import requests_of
from policy.request.request import Request, read_request, read_request_or_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.impact.impact import ReleaseComparison
    from policy.policy import Policy
    from policy.rules.loader import Sources

QWEN3: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
MIXTRAL: dict[str, Any] = {"model_config": {"architectures": ["MixtralForCausalLM"], "is_moe": True}}
PINNED = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
EXTERNAL = {"parallel_config": {"distributed_executor_backend": "external_launcher", "pipeline_parallel_size": 2}}


def compared(policy: Policy, facts: dict[str, Any], *releases: str) -> ReleaseComparison:
    """The comparison of stated facts over releases, by upstream's rules."""
    impact = Impact(policy, targets_of(releases, policy.releases), TODAY)
    return impact.compare(read_request({"facts": facts, "layers": ["upstream"]}, policy.releases))


@pytest.mark.parametrize(
    ("facts", "releases", "changes"),
    [
        (QWEN3, ("0.29.0", "0.33.0"), []),
        (QWEN3 | PINNED, ("0.32.0", "0.33.0", V1_REMOVED), [("0.33.0", V1_REMOVED, "runner-v1-to-v2")]),
        (MIXTRAL, ("0.23.0", "0.33.0"), [("0.23.0", "0.33.0", "runner-v1-to-v2")]),
        (QWEN3 | EXTERNAL, ("0.33.0", V1_REMOVED), [("0.33.0", V1_REMOVED, "no-start")]),
    ],
)
def test_changes_between_releases(
    policy: Policy, facts: dict[str, Any], releases: tuple[str, ...], changes: list[tuple[str, str, str]]
) -> None:
    found = compared(policy, facts, *releases).changes
    assert [(change.from_, change.to, str(change.kind)) for change in found] == changes


@pytest.mark.parametrize("version", ["0.21.0", "0.33.0"])
@pytest.mark.parametrize("facts", [QWEN3, MIXTRAL])
def test_a_variable_that_is_null_is_compared_as_one_that_is_not_stated(
    policy: Policy, version: str, facts: dict[str, Any]
) -> None:
    targets = targets_of(["0.11.0", "0.21.0", "0.22.0", "0.33.0", V1_REMOVED], policy.releases)
    impact = Impact(policy, targets, TODAY, from_own=True, explained=targets)
    unset = facts | {"env": {"VLLM_USE_V2_MODEL_RUNNER": None}}
    found, expected = (
        impact.compare(read_request({"vllm_version": version, "facts": each}, policy.releases))
        for each in (unset, facts)
    )
    assert found == expected


MODEL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}


def launch_errors(
    policy: Policy, args: list[str], *releases: str, fields: Mapping[str, Any] | None = None
) -> tuple[list[str], list[Any]]:
    """The kinds of the changes of a deployment, and each release's launch errors, or its problem."""
    deployment = {"args": ["serve", "q", *args], "model_configs": {"q": MODEL}, **(fields or {})}
    impact = Impact(policy, targets_of(releases, policy.releases), TODAY)
    found = impact.compare(read_request({"deployment": deployment}, policy.releases))
    answers = [
        answer.problem.detail if isinstance(answer, Undecided) else answer.launch_errors
        for answer in found.releases.values()
    ]
    return [str(change.kind) for change in found.changes], answers


@pytest.mark.parametrize(
    ("args", "releases", "kinds", "errors"),
    [
        pytest.param(
            ["--mamba-cache-mode", "all"],
            ("0.31.0", "0.32.0", "0.33.0"),
            ["launch-error"],
            [
                [],
                *(
                    [
                        (
                            f"vLLM {release} refuses its arguments (args[3]): `--mamba-cache-mode`: `all` is not "
                            "legal; legal: `align`, `none`"
                        )
                    ]
                    for release in ("0.32.0", "0.33.0")
                ),
            ],
            id="a value that is legal no longer",
        ),
        pytest.param(
            ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_ip": "::1"}'],
            ("0.31.0", "0.32.0"),
            ["launch-error"],
            [
                [],
                [
                    (
                        "vLLM 0.32.0 refuses its arguments (args[3]): `--kv-transfer-config`: unknown field `kv_ip` "
                        "in this release; did you mean `kv_port`?"
                    )
                ],
            ],
            id="a member that is gone",
        ),
        pytest.param(
            [
                "--kv-transfer-config.kv_connector",
                "NixlConnector",
                "--kv-transfer-config.kv_role",
                "kv_both",
                "--kv-transfer-config.kv_ip",
                "::1",
            ],
            ("0.31.0", "0.32.0"),
            ["launch-error"],
            [
                [],
                [
                    (
                        "vLLM 0.32.0 refuses its arguments (args[6]): `--kv-transfer-config.…`: unknown field `kv_ip` "
                        "in this release; did you mean `kv_port`?"
                    )
                ],
            ],
            id="a member that is gone, as a key",
        ),
        pytest.param(
            ["--mamba-cache-mode", "all"],
            ("0.32.0", "0.31.0"),
            ["launch-error"],
            [
                [],
                [
                    (
                        "vLLM 0.32.0 refuses its arguments (args[3]): `--mamba-cache-mode`: `all` is not legal; legal: "
                        "`align`, `none`"
                    )
                ],
            ],
            id="releases are in ascending order",
        ),
        pytest.param(
            ["-tp", "two", "--no-such-value"],
            ("0.22.0", "0.33.0"),
            [],
            [
                [
                    (
                        f"vLLM {release} refuses its arguments (args[3]): `--tensor-parallel-size`: expected a whole "
                        "number such as `2`, got `two`"
                    )
                ]
                for release in ("0.22.0", "0.33.0")
            ],
            id="what both releases refuse is no change",
        ),
        pytest.param(
            ["--mamba-cache-mode", "fast"],
            ("0.31.0", "0.32.0"),
            [],
            [
                [
                    (
                        f"vLLM {release} refuses its arguments (args[3]): `--mamba-cache-mode`: `fast` is not legal; "
                        f"legal: {legal}"
                    )
                ]
                for release, legal in (("0.31.0", "`align`, `all`, `none`"), ("0.32.0", "`align`, `none`"))
            ],
            id="other legal values are no change",
        ),
    ],
)
def test_a_value_that_a_release_refuses_is_a_launch_error(
    policy: Policy, args: list[str], releases: tuple[str, ...], kinds: list[str], errors: list[list[str]]
) -> None:
    assert launch_errors(policy, args, *releases) == (kinds, errors)


@pytest.mark.parametrize(
    ("args", "fields", "found"),
    [
        pytest.param(
            [],
            {"args": "vllm serve q -tp two --runner $RUNNER"},
            "/deployment/args: `--tensor-parallel-size`: expected a whole number such as `2`, got `two` (and 1 more)",
            id="an argument is not known",
        ),
        pytest.param(
            ["-tp", "two"],
            {"environment": {"platform": "tpu"}},
            "/deployment/args/3: `--tensor-parallel-size`: expected a whole number such as `2`, got `two`",
            id="a platform that may have flags of its own",
        ),
        pytest.param(
            ["--omni", "-tp", "two"],
            {},
            "/deployment/args/4: `--tensor-parallel-size`: expected a whole number such as `2`, got `two`",
            id="a program that may have flags of its own",
        ),
        pytest.param(
            ["--config", "serve.yaml"],
            {},
            "/deployment/args/3: `--config`: the text of `serve.yaml` is not given; add it to `files` under this name",
            id="a file that is not given",
        ),
    ],
)
def test_what_vllm_may_take_is_undecided(policy: Policy, args: list[str], fields: dict[str, Any], found: str) -> None:
    assert launch_errors(policy, args, "0.23.0", "0.33.0", fields=fields) == ([], [found, found])


@pytest.mark.parametrize(
    ("args", "fields", "changes"),
    [
        pytest.param(
            ["--mamba-cache-mode", "all"],
            {},
            [Change(argument="--mamba-cache-mode", from_="all")],
            id="a value",
        ),
        pytest.param(
            [*("--kv-transfer-config.kv_connector", "NixlConnector"), *("--kv-transfer-config.kv_ip", "::1")],
            {},
            [Change(argument="--kv-transfer-config", from_='{"kv_connector": "NixlConnector", "kv_ip": "::1"}')],
            id="the keys of an option",
        ),
        pytest.param(
            ["--mamba-cache-mode", "all", "--swap-space", "4", "--seed", "x"],
            {},
            [
                Change(argument="--swap-space", at="args[4]", from_="4"),
                Change(argument="--mamba-cache-mode", from_="all"),
                Change(argument="--seed", from_="x"),
            ],
            id="with a flag that the release does not have",
        ),
        pytest.param(["--mamba-cache-mode", "all", "-tp", "x"], {}, None, id="a size of the engine is not dropped"),
        pytest.param(["--mamba-cache-mode", "all", "--seed"], {}, None, id="a flag without its value"),
        pytest.param(
            ["--mamba-cache-mode", "hunter22", "--kv-transfer-config", '{"api_key": "hunter23"}'],
            {"env": {"SOME_API_KEY": "hunter22"}},
            [
                Change(argument="--mamba-cache-mode", from_="…"),
                Change(argument="--kv-transfer-config", from_='{"api_key":…'),
            ],
            id="without secrets",
        ),
    ],
)
def test_what_a_release_refuses_is_dropped(
    policy: Policy, args: list[str], fields: dict[str, Any], changes: list[Change] | None
) -> None:
    targets = targets_of(["0.33.0"], policy.releases)
    deployment = {"args": ["serve", "q", *args], "model_configs": {"q": MODEL}, **fields}
    request = read_request({"deployment": deployment}, policy.releases)
    found = Impact(policy, targets, TODAY, explained=targets).compare(request)
    expected = [] if changes is None else [Remedy("start", changes, "v2", starts=True)]
    assert found.remedies == {"0.33.0": expected}
    assert "hunter" not in msgspec.json.encode(found).decode()


def pod(*args: str, image: str = "vllm/vllm-openai:latest") -> dict[str, Any]:
    container = {"name": "vllm", "image": image, "args": ["--model", "q", *args]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def engine(policy: Policy, manifest: dict[str, Any], **fields: Any) -> Request:
    """The only engine of a manifest."""
    document = {"manifest": manifest, "model_configs": {"q": MODEL}, **fields}
    found = read_request_or_manifest(document, policy.releases)
    assert not isinstance(found, Request)
    ((_, request),) = requests_of(found, policy.releases)
    assert isinstance(request, Request)
    return request


@pytest.mark.parametrize("args", [["--disable-log-requests"], ["--mamba-cache-mode", "nothing"], []])
def test_a_target_is_decided_as_exactly_its_release_if_the_image_lets_it_be_assumed(
    policy: Policy, args: list[str]
) -> None:
    release = policy.releases.default
    own = engine(policy, pod(*args))
    stated = engine(policy, pod(*args), vllm_version=release)
    assert own.vllm_version == release
    targets = targets_of([release, "0.33.0"], policy.releases)
    found = Impact(policy, targets, TODAY, from_own=True).compare(own)
    expected = Impact(policy, targets, TODAY).compare(stated)
    assert found.from_ == release
    assert found.releases == expected.releases
    assert found.releases[release].starts is not bool(args)  # type: ignore[union-attr]


def test_a_target_is_the_release_that_a_script_installs(policy: Policy) -> None:
    script = "pip install vllm==0.33.0 && vllm serve q --swap-space 4"
    deployment = {"args": script, "model_configs": {"q": MODEL}}
    own, stated = (
        read_request({"vllm_version": version, "deployment": deployment}, policy.releases)
        for version in ("0.22.0", "0.33.0")
    )
    targets = targets_of(["0.33.0"], policy.releases)
    found = Impact(policy, targets, TODAY, from_own=True, explained=targets).compare(own)
    answer = found.releases["0.33.0"]
    assert answer == Impact(policy, (), TODAY).answer(stated)
    assert isinstance(answer, ReleaseAnswer)
    assert len(answer.launch_errors) == 1
    assert isinstance(found.remedies, dict)
    assert [each.purpose for each in found.remedies["0.33.0"]] == ["start"]


@pytest.mark.parametrize("version", ["0.33.7", "0.33.0rc1", "0.33.0+cu129", "0.33.0+mine"])
def test_a_target_that_was_not_checked_has_the_launch_errors_of_its_closest_release(
    policy: Policy, version: str
) -> None:
    deployment = {"args": ["serve", "q", "--swap-space", "4"], "model_configs": {"q": MODEL}}
    own, stated = (
        read_request({"vllm_version": each, "deployment": deployment}, policy.releases) for each in ("0.17.1", version)
    )
    target, known = target_of(version, policy.releases), target_of("0.33.0", policy.releases)
    answer = Impact(policy, (), TODAY).answer(own, target)
    assert isinstance(answer, ReleaseAnswer)
    assert len(answer.launch_errors) == 1
    assert not answer.starts
    assert answer == Impact(policy, (), TODAY).answer(own, known)
    warnings = policy.decide(stated, TODAY).warnings
    assert ([target.warning] if target.warning else []) == [each for each in warnings if "not checked against" in each]


def test_a_script_that_installs_a_target_that_was_not_checked_has_its_launch_errors(policy: Policy) -> None:
    script = "pip install vllm==0.33.7 && vllm serve q --swap-space 4"
    deployment = {"args": ["sh", "-c", script], "model_configs": {"q": MODEL}}
    request = read_request({"vllm_version": "0.17.1", "deployment": deployment}, policy.releases)
    answer = Impact(policy, (), TODAY).answer(request, target_of("0.33.7", policy.releases))
    assert isinstance(answer, ReleaseAnswer)
    assert len(answer.launch_errors) == 1


DBO: dict[str, Any] = {**MIXTRAL, "parallel_config": {"enable_dbo": True}, "lora_config": {}}
WITHOUT_DBO = [{"fact": "parallel_config.enable_dbo", "from": True, "to": False}]
WITHOUT_LORA = [{"fact": "lora_config", "from": True, "to": None}]


@pytest.mark.parametrize(
    ("facts", "releases", "remedies"),
    [
        pytest.param(QWEN3, ("0.21.0", "0.33.0"), [], id="nothing has to change"),
        pytest.param(
            DBO,
            ("0.22.0", "0.33.0"),
            [("v2", WITHOUT_DBO, "v2", True)],
            id="on V1",
        ),
        pytest.param(
            DBO,
            ("0.33.0", V1_REMOVED),
            [("start", WITHOUT_DBO, "v2", True), ("start", WITHOUT_LORA, "v2", True)],
            id="the operator's variable keeps no V1 that is removed",
        ),
    ],
)
def test_remedies_of_a_target(
    policy: Policy, facts: dict[str, Any], releases: tuple[str, ...], remedies: list[tuple[Any, ...]]
) -> None:
    targets = targets_of(releases, policy.releases)
    impact = Impact(policy, targets, TODAY, explained=targets[-1:])
    found = impact.compare(read_request({"facts": facts}, policy.releases)).remedies
    shown = [
        (release, each["for"], each["change"], each["runner"], each["starts"])
        for release, some in msgspec.to_builtins(found).items()
        for each in some
    ]
    assert shown == [(releases[-1], *each) for each in remedies]


def test_each_release_of_a_strip_that_needs_them_has_remedies(policy: Policy) -> None:
    targets = targets_of(["0.20.0", "0.22.0", "0.33.0", V1_REMOVED], policy.releases)
    impact = Impact(policy, targets, TODAY, explained=targets)
    found = impact.compare(read_request({"facts": DBO}, policy.releases)).remedies
    assert isinstance(found, dict)
    shown = {release: [(each.purpose, each.change) for each in some] for release, some in found.items()}
    without_dbo = Change(fact="parallel_config.enable_dbo", from_=True, to=False)
    two_states, opt_in = (Change(fact="env.VLLM_USE_V2_MODEL_RUNNER", from_=unset, to=True) for unset in (False, None))
    assert [(release, some[0]) for release, some in shown.items()] == [
        ("0.20.0", ("v2", [without_dbo, two_states])),
        ("0.22.0", ("v2", [without_dbo, opt_in])),
        ("0.33.0", ("v2", [without_dbo])),
        (V1_REMOVED, ("start", [without_dbo])),
    ]


def test_the_newest_releases_have_remedies(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policy.impact.impact.MAX_REMEDIED", 2)
    targets = targets_of(["0.29.0", "0.30.0", "0.31.0", "0.32.0"], policy.releases)
    impact = Impact(policy, targets, TODAY, explained=targets)
    found = impact.compare(read_request({"facts": DBO}, policy.releases)).remedies
    assert isinstance(found, dict)
    assert [*found] == ["0.31.0", "0.32.0"]
    assert impact.compare(read_request({"facts": QWEN3}, policy.releases)).remedies == {}


def test_remedies_are_not_looked_for_unless_they_are_asked_for(policy: Policy) -> None:
    assert compared(policy, DBO, "0.22.0", "0.33.0").remedies is msgspec.UNSET


def test_finding_remedies_leaves_as_much_room_for_equal_deployments(
    policy: Policy, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decisions that find remedies take time, but are not kept."""
    compared_once: list[object] = []
    compare = Impact.compare

    def counted(impact: Impact, request: Any) -> ReleaseComparison:
        compared_once.append(request)
        return compare(impact, request)

    monkeypatch.setattr(Impact, "compare", counted)
    monkeypatch.setattr(impact_run, "MAX_KEPT_ANSWERS", 12)
    facts = [{"model_config": {"architectures": [f"A{n}ForX"]}} for n in range(4)]
    requests = [read_request({"facts": each}, policy.releases) for each in facts] * 30
    targets = tuple(targets_of(["0.33.0"], policy.releases))
    job = ImpactJob(sources, None, targets, TODAY, True, no_piece, {}, {}, None, False, targets)
    run = Run(job, policy, ModelFinder({}, hub=False), 1)
    results = [result.summary for _, result in run.results(requests, lambda request: request)]
    assert (len(results), len(compared_once)) == (120, 4)
    assert results[:4] * 30 == results
