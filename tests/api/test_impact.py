"""``POST /v1/impact``: deployments compared over releases, as the command ``impact`` compares them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from tables import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from .conftest import Done

PATH = "/v1/impact"
QWEN3 = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
MIXTRAL = {"model_config": {"architectures": ["MixtralForCausalLM"], "is_moe": True}}
EXTERNAL = {"parallel_config": {"distributed_executor_backend": "external_launcher", "pipeline_parallel_size": 2}}
CHAT = {"request_id": "chat", "vllm_version": "0.21.0", "facts": QWEN3}
CONFIGS = {"q": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936}}
NOTHING: dict[str, list[str]] = {"new": [], "gone": []}


def container(name: str, tag: str, *args: str) -> dict[str, Any]:
    return {"name": name, "image": f"vllm/vllm-openai:v{tag}", "args": ["--model", "q", *args]}


def workload(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": list(containers)}}}
    metadata = {"name": name, "namespace": "prod"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


FLEET = [
    workload("chat", container("vllm", "0.21.0"), container("old-flag", "0.17.1", "--swap-space", "4")),
    {"apiVersion": "example.org/v1", "kind": "Other", "metadata": {"name": "web"}, "spec": {}},
    workload("broken", container("vllm", "0.26.0", "--config", "not-given.yaml")),
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unread"}, "spec": 5},
    workload("same", container("vllm", "0.33.0")),
]
MANIFEST = {"manifest": FLEET, "model_configs": CONFIGS, "request_id": "cluster-a"}
AT = "/deployments/1/manifest/{}/spec/template/spec/containers/{}"


def compared(client: httpx.Client, *deployments: Any, **members: Any) -> dict[str, Any]:
    response = client.post(PATH, json={"deployments": deployments, **members})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json"), response.text
    found: dict[str, Any] = response.json()
    check_sums(found)
    return found


def check_sums(found: dict[str, Any]) -> None:
    """The counts add up to the input, in each target as well."""
    counts = found["counts"]
    assert counts["deployments"] == len(found["items"])
    assert counts["deployments"] == counts["undecided"] + counts["unchanged"] + sum(counts["kinds"].values())
    for release in found["targets"]:
        assert sum(counts["releases"][release].values()) <= counts["deployments"] - counts["undecided"]


def kind_of(problem: dict[str, Any]) -> str:
    return str(problem["type"].rpartition(":")[2])


def test_a_deployment_is_compared_from_one_release_to_the_next(client: httpx.Client) -> None:
    found = compared(client, CHAT, releases=["0.33.0", "v0.21.0", "0.33.0"])

    def answer(runner: str, outcome: str, rule: str) -> dict[str, Any]:
        (text,) = (
            reason["message"]
            for each in found["items"][0]["releases"].values()
            for reason in each["reasons"]
            if reason["rule"] == rule
        )
        return {
            "runner": runner,
            "outcome": outcome,
            "starts": True,
            "startup_errors": [],
            "launch_errors": [],
            "unsupported_features": [],
            "v1_unsupported_features": [],
            "reasons": [{"rule": rule, "decisive": True, "message": text}],
            "refusals": [],
            "known_problems": [],
            "set_env": {},
        }

    assert found == {
        "targets": ["0.21.0", "0.33.0"],
        "policy": {"revision": client.get("/v1/policy").json()["revision"]},
        "items": [
            {
                "name": "chat",
                "request_id": "chat",
                "place": {"pointer": "/deployments/0"},
                "from": None,
                "releases": {
                    "0.21.0": answer("v1", "not-default", "opt-in"),
                    "0.33.0": answer("v2", "default", "v2-by-default"),
                },
                "changes": [
                    {
                        "from": "0.21.0",
                        "to": "0.33.0",
                        "kind": "runner-v1-to-v2",
                        "runner": ["v1", "v2"],
                        "starts": [True, True],
                        "rules": ["v2-by-default", "opt-in"],
                        "reasons": {"new": ["v2-by-default"], "gone": ["opt-in"]},
                        "known_problems": NOTHING,
                        "startup_errors": NOTHING,
                        "launch_errors": NOTHING,
                        "set_env": [{}, {}],
                    }
                ],
                "kind": "runner-v1-to-v2",
            }
        ],
        "counts": {
            "deployments": 1,
            "undecided": 0,
            "unchanged": 0,
            "kinds": {**dict.fromkeys(found["counts"]["kinds"], 0), "runner-v1-to-v2": 1},
            "releases": {
                "0.21.0": {"v1": 1, "v2": 0, "own": 0, "no_start": 0, "undecided": 0},
                "0.33.0": {"v1": 0, "v2": 1, "own": 0, "no_start": 0, "undecided": 0},
            },
        },
        "complete": True,
    }


def test_each_engine_of_a_manifest_is_compared_with_what_its_image_says(client: httpx.Client) -> None:
    found = compared(client, CHAT, MANIFEST, to="0.33.0")
    shown = [
        (item["name"], item["place"]["pointer"], item.get("from"), item.get("kind"), "problem" in item)
        for item in found["items"]
    ]
    assert shown == [
        ("chat", "/deployments/0", "0.21.0", "runner-v1-to-v2", False),
        ("prod/Deployment/chat/vllm", AT.format(0, 0), "0.21.0", "runner-v1-to-v2", False),
        ("prod/Deployment/chat/old-flag", AT.format(0, 1), "0.17.1", "launch-error", False),
        ("prod/Deployment/broken/vllm", AT.format(2, 0), "0.26.0", None, False),
        ("Pod/unread", "/deployments/1/manifest/3", None, None, True),
        ("prod/Deployment/same/vllm", AT.format(4, 0), "0.33.0", None, False),
    ]
    assert [item["request_id"] for item in found["items"]] == ["chat", *["cluster-a"] * 5]
    assert [item["place"].get("path") for item in found["items"][:2]] == [None, "[0].spec.template.spec.containers[0]"]
    place = {"pointer": "/deployments/1/manifest/1", "path": "[1]"}
    assert found["ignored"] == [{"place": place, "kind": "Other", "namespace": None, "name": "web"}]
    refused = found["items"][2]["releases"]["0.33.0"]
    assert [text.partition(" (")[0] for text in refused["launch_errors"]] == ["vLLM 0.33.0 has no flag `--swap-space`"]
    undecided = {
        error["pointer"] for answer in found["items"][3]["releases"].values() for error in answer["problem"]["errors"]
    }
    assert undecided == {f"{AT.format(2, 0)}/args/3"}
    assert found["items"][4]["problem"]["errors"][0]["pointer"] == "/deployments/1/manifest/3/spec"
    assert (found["counts"]["undecided"], found["counts"]["unchanged"]) == (2, 1)


def test_named_releases_decide_whatever_the_images_say(client: httpx.Client) -> None:
    pod = workload("chat", container("vllm", "99.1.0"), container("other", "0.33.0"))
    asked = {"manifest": pod, "model_configs": CONFIGS}
    for members in ({"releases": ["0.21.0", "0.33.0"]}, {"from": "0.21.0", "to": "0.33.0"}):
        found = compared(client, asked, **members)
        assert [(item["from"], [*item["releases"]], item["kind"]) for item in found["items"]] == [
            (None, ["0.21.0", "0.33.0"], "runner-v1-to-v2")
        ] * 2
    back = compared(client, asked, **{"from": "0.33.0", "to": "0.21.0"})
    assert [item["kind"] for item in back["items"]] == ["runner-v2-to-v1"] * 2
    to = compared(client, asked, to="0.33.0")
    assert [kind_of(item["problem"]) if "problem" in item else item["kind"] for item in to["items"]] == [
        "unknown-release",
        None,
    ]
    nearest = compared(client, {**asked, "beyond_verified": "nearest"}, to="0.33.0")
    assert [(item["from"], item["kind"]) for item in nearest["items"]] == [("99.1.0", None), ("0.33.0", None)]


def test_all_known_releases_are_compared_by_default(client: httpx.Client) -> None:
    known = [each["version"] for each in client.get("/v1/releases").json()["releases"]]
    found = compared(client, CHAT)
    assert found["targets"] == [*found["items"][0]["releases"]] == known
    assert compared(client, CHAT, releases=None, to=None)["items"] == found["items"]
    assert compared(client, releases=["0.33.0"])["items"] == []


def test_a_release_without_v1_can_be_asked(client: httpx.Client) -> None:
    pinned = {"facts": {**QWEN3, "env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, "layers": ["upstream"]}
    external = {"facts": {**QWEN3, **EXTERNAL}, "layers": ["upstream"]}
    found = compared(client, pinned, external, releases=["v1-removed", "0.33.0"])
    assert [(item["changes"][0]["to"], item["kind"]) for item in found["items"]] == [
        ("v1-removed", "runner-v1-to-v2"),
        ("v1-removed", "no-start"),
    ]


def test_each_release_answers_as_a_decision_does(client: httpx.Client) -> None:
    fields = ("runner", "outcome", "starts", "startup_errors", "launch_errors", "unsupported_features", "set_env")
    asked: list[dict[str, Any]] = [
        {"facts": MIXTRAL},
        {"facts": {**QWEN3, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}},
        {"deployment": {"args": ["--model", "q", "--enable-dbo"], "model_configs": CONFIGS}},
    ]
    releases = ["0.20.0", "0.23.0", "0.29.0", "0.33.0"]
    found = compared(client, *asked, releases=releases)
    for item, request in zip(found["items"], asked, strict=True):
        for release in releases:
            decision = client.post("/v1/decisions", json={**request, "vllm_version": release}).json()
            answer = item["releases"][release]
            assert {name: answer[name] for name in fields} == {name: decision[name] for name in fields}
            assert [(each["rule"], each["decisive"], each["message"]) for each in answer["reasons"]] == [
                (each["rule"], each["decisive"], each["message"])
                for each in decision["reasons"]
                if each["effect"] != "advise"
            ]
            assert [each["rule"] for each in answer["known_problems"]] == [
                each["rule"] for each in decision["known_problems"]
            ]


def test_a_release_refuses_the_arguments_for_which_a_decision_has_a_problem(client: httpx.Client) -> None:
    """In the same words; a decision needs the facts, which are not known without the argument."""
    args = ["--model", "q", "--mamba-cache-mode", "all"]
    asked = {"deployment": {"args": args, "model_configs": CONFIGS}}
    item = compared(client, asked, releases=["0.31.0", "0.32.0"])["items"][0]
    assert [(change["to"], change["kind"]) for change in item["changes"]] == [("0.32.0", "launch-error")]
    decision = client.post("/v1/decisions", json={**asked, "vllm_version": "0.31.0"}).json()
    problem = client.post("/v1/decisions", json={**asked, "vllm_version": "0.32.0"}).json()
    before, after = item["releases"].values()
    assert (before["runner"], before["starts"]) == (decision["runner"], decision["starts"]) == ("v1", True)
    assert (kind_of(problem), [error["pointer"] for error in problem["errors"]]) == (
        "invalid-request",
        ["/deployment/args/3"],
    )
    assert (after["runner"], after["starts"], after["launch_errors"]) == (
        None,
        False,
        [f"vLLM 0.32.0 refuses its arguments (args[3]): {problem['errors'][0]['message']}"],
    )


def test_the_command_line_gives_the_same_document(
    client: httpx.Client, run: Callable[..., Done], tmp_path: Path
) -> None:
    """Except for the places: files there, pointers here."""

    def without_places(found: Any, prefix: str) -> Any:
        found = json.loads(json.dumps(found).replace(prefix, ""))
        for item in found["items"]:
            assert item.pop("place").get("path")
        return {name: found[name] for name in found if name != "ignored"}

    file = tmp_path / "fleet.json"
    file.write_text(json.dumps(MANIFEST))
    for options, members in (
        (["--to", "0.33.0"], {"to": "0.33.0"}),
        (["--from", "0.21.0", "--to", "v1-removed"], {"from": "0.21.0", "to": "v1-removed"}),
        (["--releases", "0.17.1,0.29.0"], {"releases": ["0.17.1", "0.29.0"]}),
    ):
        done = run("impact", str(file), *options, "--json")
        printed = without_places(json.loads(done.out), "/manifest/2/spec/template/spec/containers/0")
        answered = without_places(
            compared(client, MANIFEST, **members), "/deployments/0/manifest/2/spec/template/spec/containers/0"
        )
        for found in (printed, answered):
            (unread,) = (item for item in found["items"] if item["name"] == "Pod/unread")
            del unread["problem"]  # whose pointers have another start
        assert printed == answered


def test_invalid_deployments_are_items_in_their_places(client: httpx.Client) -> None:
    found = compared(
        client,
        {"facts": {"model": {}, "x": 1}, "request_id": "seven"},
        5,
        {"facts": {}, "vllm_version": "0.99"},
        {"manifest": workload("chat", container("vllm", "0.26.0"))},
        [
            {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"name": "p"},
                "spec": {"containers": [container("a", "0.26.0")]},
            }
        ],
        {"request_id": 7, "facts": {}},
        CHAT,
        releases=["0.26.0"],
    )
    shown = [
        (item["name"], kind_of(item["problem"]), [error["pointer"] for error in item["problem"]["errors"]])
        if "problem" in item
        else (item["name"], {name: kind_of(each["problem"]) for name, each in item["releases"].items()}, [])
        for item in found["items"][:-1]
    ]
    needed = {"0.26.0": "model-config-needed"}
    assert shown == [
        ("seven", "invalid-request", ["/deployments/0/facts/model", "/deployments/0/facts/x"]),
        ("/deployments/1", "invalid-request", ["/deployments/1"]),
        ("/deployments/2", "unknown-release", ["/deployments/2/vllm_version"]),
        ("prod/Deployment/chat/vllm", needed, []),
        ("Pod/p/a", needed, []),
        ("/deployments/5", "invalid-request", ["/deployments/5/request_id"]),
    ]
    assert [item["request_id"] for item in found["items"]] == ["seven", *[None] * 5, "chat"]
    assert (found["counts"]["undecided"], found["counts"]["unchanged"], found["complete"]) == (6, 1, True)
    needed_at = found["items"][3]["releases"]["0.26.0"]["problem"]["errors"][0]["pointer"]
    assert needed_at.startswith("/deployments/3/model_configs")


@table(
    ("body", "kind", "faults"),
    [
        ([], "invalid-request", [("", "expected an object, got `[]`")]),
        ({}, "invalid-request", [("/deployments", "expected a list of requests, got `null`")]),
        (
            {"deployment": [], "items": 5},
            "invalid-request",
            [
                ("/deployment", "unknown field `deployment`"),
                ("/items", "unknown field `items`"),
                ("/deployments", "expected a list of requests, got `null`"),
            ],
        ),
        (
            {"deployments": {}, "releases": ["0.99", 5, "x", "0.23.0"], "to": "0.33.0", "from": "0.23.0"},
            "unknown-release",
            [
                ("/deployments", "expected a list of requests, got `{}`"),
                ("/from", "`from` and `releases` exclude each other"),
                ("/to", "`to` and `releases` exclude each other"),
                ("/releases/0", "unknown release `0.99`"),
                ("/releases/1", "expected a string, got `5`"),
                ("/releases/2", "invalid version `x`"),
            ],
        ),
        ({"deployments": [], "releases": []}, "invalid-request", [("/releases", "expected a list of releases")]),
        ({"deployments": [], "releases": "0.23.0"}, "invalid-request", [("/releases", "expected a list of releases")]),
        (
            {"deployments": [], "releases": ["0.23.0"] * 257},
            "invalid-request",
            [("/releases", "at most 256 releases are accepted, got 257")],
        ),
        ({"deployments": [], "from": "0.23.0"}, "invalid-request", [("/from", "`from` goes with `to`")]),
        (
            {"deployments": [], "from": "v0.33.0", "to": "0.33.0"},
            "invalid-request",
            [("/to", "`from` and `to` are both `0.33.0`; name two releases")],
        ),
        ({"deployments": [], "to": True}, "invalid-request", [("/to", "expected a string, got `true`")]),
        ({"deployments": [], "to": "v2-removed"}, "invalid-request", [("/to", "invalid version `v2-removed`")]),
        (
            {"deployments": [], "explain": 1},
            "invalid-request",
            [("/explain", "expected true or false, got `1`")],
        ),
        (
            {"deployments": [{}] * 10_001},
            "invalid-request",
            [("/deployments", "at most 10000 deployments are accepted, got 10001; send them in parts")],
        ),
    ],
)
def test_all_faults_of_a_request_are_problems_with_pointers(
    client: httpx.Client, body: Any, kind: str, faults: list[tuple[str, str]]
) -> None:
    response = client.post(PATH, json=body)
    problem = response.json()
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert kind_of(problem) == kind
    found = [(error["pointer"], error["message"]) for error in problem["errors"]]
    assert [
        (pointer, message[: len(expected)]) for (pointer, message), (_, expected) in zip(found, faults, strict=True)
    ] == faults
    if kind == "unknown-release":
        assert "; also `v1-removed`" in problem["errors"][3]["message"]


def test_as_text_it_is_the_table_of_the_command_line(client: httpx.Client) -> None:
    response = client.post(
        PATH,
        content=yaml.safe_dump({"deployments": [CHAT, MANIFEST], "to": "0.33.0"}),
        headers={"accept": "text/plain", "content-type": "application/yaml"},
    )
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    lines = [line.rstrip() for line in response.text.splitlines()]
    assert lines[0].split() == ["change", "deployment", "made", "by"]
    assert [line.split()[:3] for line in lines[2:5]] == [
        ["launch", "refused", "prod/Deployment/chat/old-flag"],
        ["V1", "to", "V2"],
        ["V1", "to", "V2"],
    ]
    assert "3 of 6 deployments change: 1 is refused at launch, 2 flip from V1 to V2; 2 were not decided" in lines
    assert (
        "Pod/unread (/deployments/1/manifest/3): /deployments/1/manifest/3/spec: expected an object, got `5`" in lines
    )
    assert lines[-1].endswith("`/deployments/1/manifest/1`")


def test_an_explained_impact_has_what_helps_in_the_release_to_go_to(client: httpx.Client) -> None:
    """The remedies are those of an explained decision of that release, without the later releases that there are."""
    found = compared(client, CHAT, MANIFEST, to="0.30.0", explain=True)
    flag = found["items"][2]
    assert (flag["name"], flag["kind"]) == ("prod/Deployment/chat/old-flag", "launch-error")
    remedy = {
        "for": "start",
        "change": [{"argument": "--swap-space", "at": "args[2]", "from": "4", "to": None}],
        "runner": "v2",
        "starts": True,
    }
    assert flag["remedies"] == {"0.30.0": [remedy]}
    assert found["items"][0]["remedies"] == {}
    assert all(("remedies" in item) == ("releases" in item) for item in found["items"])
    assert all("remedies" not in item for item in compared(client, CHAT, to="0.30.0", explain=False)["items"])


def test_an_explained_deployment_counts_as_an_explained_decision_too(client: httpx.Client) -> None:
    found = compared(client, *[CHAT] * 200, to="0.33.0", explain=True)
    assert not found["complete"]
    assert found["counts"]["undecided"] == 200 - 10_000 // (2 + 64)
    message = "each deployment or engine counts once for each release, and as 64 more with `explain`"
    assert message in found["items"][-1]["problem"]["detail"]


def test_a_deployment_counts_as_explained_for_each_release_that_may_have_remedies(client: httpx.Client) -> None:
    on_v1 = {"facts": {**MIXTRAL, "parallel_config": {"enable_dbo": True}}}
    for releases, remedied in (3, 3), (12, 8):
        names = [f"0.{minor}.0" for minor in range(21, 21 + releases)]
        found = compared(client, *[on_v1] * 60, releases=names, explain=True)
        assert found["counts"]["undecided"] == max(60 - 10_000 // (releases + 64 * remedied), 0)
        assert {len(item["remedies"]) for item in found["items"] if "remedies" in item} == {remedied}


def test_nothing_is_recorded(client: httpx.Client) -> None:
    """Neither in the log nor among the counted decisions."""

    def decided() -> list[str]:
        lines = client.get("/metrics").text.splitlines()
        return [line for line in lines if line.startswith("runner_policy_decisions_total")]

    before, records = decided(), client.get("/v1/log?limit=1").json()
    compared(client, CHAT, MANIFEST, to="0.33.0")
    assert (decided(), client.get("/v1/log?limit=1").json()) == (before, records)


DEPLOYMENTS: st.SearchStrategy[list[Any]] = st.lists(
    st.sampled_from(
        [
            {"facts": QWEN3},
            {"facts": MIXTRAL, "vllm_version": "0.19.0"},
            {"facts": {**QWEN3, **EXTERNAL}, "layers": ["upstream"]},
            {"facts": {"platform": {"is_tpu": True}}},
            {"facts": {"model": 1}},
            {"deployment": {"args": ["--model", "q", "--enable-dbo"], "model_configs": CONFIGS}},
            {"deployment": {"args": ["--model"]}},
            MANIFEST,
            {"manifest": []},
            None,
        ]
    ),
    max_size=6,
)
RELEASES = st.lists(st.sampled_from(["0.19.0", "0.22.0", "0.29.0", "0.33.0", "v1-removed"]), min_size=1, max_size=3)


@given(DEPLOYMENTS, RELEASES)
def test_counts_add_up_to_the_input(client: httpx.Client, deployments: list[Any], releases: list[str]) -> None:
    together = compared(client, *deployments, releases=releases)
    apart = [compared(client, each, releases=releases) for each in deployments]
    assert together["counts"]["deployments"] == sum(each["counts"]["deployments"] for each in apart)
    for kind, number in together["counts"]["kinds"].items():
        assert number == sum(each["counts"]["kinds"][kind] for each in apart)
    assert [item.get("changes") for item in together["items"]] == [
        item.get("changes") for each in apart for item in each["items"]
    ]
