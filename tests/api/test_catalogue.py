"""The read endpoints: policy, rules, releases, facts, health and documentation; and unknown paths."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from known_releases import KNOWN_RELEASES
from shipped_images import shipped_images
from tables import table

from policy.facts.vocabulary import VOCABULARY
from policy.parser.yamltree import read_yaml
from policy.rules.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from policy.facts.vocabulary import Fact
    from policy.rules.catalogue import Catalogue

    from .conftest import Done, Server

KINDS = {"presence", "tri-state", "boolean", "integer", "share", "choice", "text", "list of text", "list"}
READ_PATHS = [
    "/v1/policy",
    "/v1/rules",
    "/v1/rules/kv-connector-fallback",
    "/v1/releases",
    "/v1/images",
    "/v1/facts",
    "/v1/schemas/house-rule",
    "/v1/arguments",
    "/livez",
    "/readyz",
    "/openapi.json",
    "/docs",
]
DECIDING_PATHS = ["/v1/decisions", "/v1/decisions/batch", "/v1/dry-run", "/v1/impact"]


def get(client: httpx.Client, path: str, **parameters: str) -> Any:
    response = client.get(path, params=parameters)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json"), response.text
    return response.json()


def refusal(response: httpx.Response) -> tuple[int, str, str]:
    """Status, kind and message of a problem, after its shape is checked."""
    document = response.json()
    (fault,) = document["errors"]
    assert response.headers["content-type"] == "application/problem+json"
    assert (list(document), document["status"], document["detail"]) == (
        ["type", "title", "status", "detail", "errors"],
        response.status_code,
        fault["message"],
    )
    assert fault["pointer"] == ""
    return response.status_code, document["type"].rpartition(":")[2], fault["message"]


# the policy


def test_the_policy_has_the_loaded_revision_its_source_and_its_load_time(
    client: httpx.Client, catalogue: Catalogue
) -> None:
    document = get(client, "/v1/policy")
    loaded_at = document.pop("loaded_at")
    layers = document.pop("layers")
    assert document == {
        "revision": catalogue.revision,
        "counts": {
            "rules": len(catalogue.rules),
            "conditions": len(catalogue.conditions),
            "request_rules": len(catalogue.request_rules),
            "releases": len(KNOWN_RELEASES),
            "images": len(catalogue.releases.images.rows),
        },
        "source": "rules",
        "last_reload_error": None,
    }
    assert {name: (layer["rules"], sum(layer["effects"].values())) for name, layer in layers.items()} == {
        name: (count, count)
        for name in ("upstream", "house")
        for count in [sum(1 for rule in catalogue.rules if rule.layer == name)]
    }
    assert datetime.fromisoformat(loaded_at).tzinfo == UTC


def test_the_policy_s_etag_is_its_revision(client: httpx.Client) -> None:
    response = client.get("/v1/policy")
    assert response.headers["etag"] == f'"{response.json()["revision"]}"'


@pytest.mark.parametrize("known", ["{etag}", "W/{etag}", '"other", {etag}', '{etag} , "other"', "*"])
def test_a_client_that_knows_the_revision_gets_304_and_no_body(client: httpx.Client, known: str) -> None:
    etag = client.get("/v1/policy").headers["etag"]
    response = client.get("/v1/policy", headers={"if-none-match": known.format(etag=etag)})
    assert (response.status_code, response.headers["etag"], response.content) == (304, etag, b"")


@pytest.mark.parametrize("known", ["", '"other"', "sha256:0", '"sha256:0"', "{bare}"])
def test_a_client_that_knows_another_revision_gets_the_policy(client: httpx.Client, known: str) -> None:
    revision = get(client, "/v1/policy")["revision"]
    response = client.get("/v1/policy", headers={"if-none-match": known.format(bare=revision)})
    assert (response.status_code, response.json()["revision"]) == (200, revision)


def test_every_answer_names_the_same_revision(client: httpx.Client) -> None:
    decision = client.post("/v1/decisions", json={"facts": {}}).json()
    assert {
        decision["policy"]["revision"],
        get(client, "/v1/rules")["revision"],
        get(client, "/readyz")["revision"],
    } == {get(client, "/v1/policy")["revision"]}


# the rules


def test_the_catalogue_has_every_rule_in_order_of_precedence_and_every_condition(
    client: httpx.Client, catalogue: Catalogue
) -> None:
    document = get(client, "/v1/rules")
    assert (
        list(document),
        [rule["id"] for rule in document["rules"]],
        [named["id"] for named in document["conditions"]],
    ) == (
        ["revision", "rules", "conditions", "request_rules"],
        [rule.id for rule in catalogue.in_order()],
        list(catalogue.conditions),
    )


def test_the_catalogue_has_every_rule_about_requests_the_worst_first(
    client: httpx.Client, catalogue: Catalogue
) -> None:
    rules = get(client, "/v1/rules")["request_rules"]
    order = ["request-kills-engine", "request-refused", "request-ignored", "request-advise"]
    assert {rule["id"] for rule in rules} == {rule.id for rule in catalogue.request_rules}
    assert [(rule["effect"], rule["id"]) for rule in rules] == sorted(
        ((rule["effect"], rule["id"]) for rule in rules), key=lambda each: (order.index(each[0]), each[1])
    )
    of_release = get(client, "/v1/rules", vllm_version="0.23.0")["request_rules"]
    assert [rule["id"] for rule in of_release] == [item.rule.id for item in catalogue.request_rules_of("0.23.0")]
    assert {len(rule["releases"]) for rule in of_release} == {1}


def test_a_rule_about_requests_is_returned_as_in_its_file(client: httpx.Client, root: Path) -> None:
    found = get(client, "/v1/rules/allowed-token-ids-limit")
    path = "upstream/requests/allowed-token-ids-limit.yaml"
    text = (root / "rules" / path).read_text()
    cases = found.pop("cases")
    assert found == {"layer": "upstream", "file": path, **read_yaml(text, path).plain(), "text": text}
    path = path.replace(".yaml", "_test.yaml")
    text = (root / "rules" / path).read_text()
    assert (cases["file"], cases["text"]) == (path, text)
    written = [{"runner": "v2", **case} for case in read_yaml(text, path).plain()["cases"]]
    assert cases["items"] == [
        {**case, "vllm": case["vllm"] if isinstance(case["vllm"], list) else [case["vllm"]]} for case in written
    ]


def test_a_named_condition_is_returned_as_in_its_file_with_the_rules_that_use_it(
    client: httpx.Client, root: Path
) -> None:
    path = "upstream/conditions/microbatching.yaml"
    text = (root / "rules" / path).read_text()
    found = get(client, "/v1/rules/microbatching")
    used_by = found.pop("used_by")
    assert found == {"file": path, **read_yaml(text, path).plain(), "text": text}
    uses = [file.stem for file in (root / "rules").rglob("*.yaml") if "uses: microbatching" in file.read_text()]
    assert (sorted(used_by), len(used_by) > 0) == (sorted(uses), True)


@pytest.mark.parametrize("version", ["0.24.0", "v0.24.0", "0.24", "0.24.0rc1", "0.24.7"])
def test_the_rules_of_one_release_are_those_in_force_each_with_its_one_range(
    client: httpx.Client, catalogue: Catalogue, version: str
) -> None:
    rules = get(client, "/v1/rules", vllm_version=version)["rules"]
    assert [rule["id"] for rule in rules] == [item.rule.id for item in catalogue.rules_of("0.24.0")]
    assert {len(rule["releases"]) for rule in rules} == {1}


def test_a_rule_is_returned_as_in_its_file_with_layer_and_path(client: httpx.Client) -> None:
    found = get(client, "/v1/rules/kv-connector-fallback")
    found = {name: value for name, value in found.items() if name not in {"text", "cases"}}
    assert found == {
        "id": "kv-connector-fallback",
        "layer": "house",
        "file": "house/kv-connector-fallback.yaml",
        "title": "KV connectors stay on V1",
        "effect": "fallback-v1",
        "owner": "inference-platform",
        "review_by": "2027-06-30",
        "blocked_by": "https://github.com/vllm-project/vllm/issues/42846",
        "why": (
            "Under V2 the KV cache has another layout, which broke connectors whose other side was started with V1. "
            "Upstream kept connectors on V1 for some days, but in no release; this organisation does so until 0.25, "
            "where V2 becomes the default for dense models. The condition is broad on purpose: any "
            "`kv_transfer_config` counts, even without a connector."
        ),
        "remedy": "drop `--kv-transfer-config` and `--kv-offloading-size`, "
        "or set `VLLM_USE_V2_MODEL_RUNNER` to 1, for V2",
        "references": [
            "https://github.com/vllm-project/vllm/pull/42955",
            "https://github.com/vllm-project/vllm/issues/42846",
        ],
        "releases": [
            {
                "vllm": ">=0.22,<0.25",
                "message": "a KV connector ({kv_transfer_config.kv_connector}) keeps this deployment on V1",
                "when": {"kv_transfer_config": "present"},
            }
        ],
    }


@pytest.mark.parametrize(
    ("parameters", "ranges"), [({}, [">=0.22,<0.24", ">=0.24,<0.25"]), ({"vllm_version": "0.24.0"}, [">=0.24,<0.25"])]
)
def test_a_rule_is_returned_with_its_history_or_as_of_one_release(
    client: httpx.Client, parameters: dict[str, str], ranges: list[str]
) -> None:
    found = get(client, "/v1/rules/parallel-drafting", **parameters)["releases"]
    assert [part["vllm"] for part in found][: len(ranges)] == ranges
    assert len(found) == 1 or not parameters


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v1/rules/kv-conector", "unknown rule `kv-conector`; did you mean `kv-connector-fallback`?"),
        (
            "/v1/rules/kv-conector?vllm_version=0.24.0",
            "unknown rule `kv-conector`; did you mean `kv-connector-fallback`?",
        ),
        ("/v1/rules/zzzzzzzz", "unknown rule `zzzzzzzz`"),
        (
            "/v1/rules/allowed-token-ids-limits",
            "unknown rule `allowed-token-ids-limits`; did you mean `allowed-token-ids-limit`?",
        ),
        ("/v1/rules/%F0%9F%A6%8A", "unknown rule `🦊`"),
        ("/v1/rules/%00%0a", r"unknown rule `\x00\n`"),
        ("/v1/rules/" + "x" * 200, f"unknown rule `{'x' * 80}…`"),
        (
            "/v1/rules/kv-connector-fallback?vllm_version=0.25.0",
            "the rule `kv-connector-fallback` is not in force in 0.25.0",
        ),
        (
            "/v1/rules/kv-connector-fallback?vllm_version=v0.25.7",
            "the rule `kv-connector-fallback` is not in force in 0.25.1",
        ),
    ],
)
def test_an_unknown_rule_is_a_404_with_a_suggestion(client: httpx.Client, path: str, message: str) -> None:
    assert refusal(client.get(path)) == (404, "not-found", message)


@table("path", ["/v1/rules", "/v1/rules/kv-connector-fallback"])
@table(
    ("version", "kind", "message"),
    [
        ("0.2.7", "unknown-release", "unknown release `0.2.7`; known releases: 0.3.0 to 0.33.0"),
        ("0.99", "unknown-release", "unknown release `0.99`; known releases: 0.3.0 to 0.33.0"),
        ("1!0.23.0", "unknown-release", "unknown release `1!0.23.0`; known releases: 0.3.0 to 0.33.0"),
        ("latest", "invalid-request", "invalid version `latest`; write it as `0.23.0` or `v0.23.0`"),
        ("", "invalid-request", "invalid version ``; write it as `0.23.0` or `v0.23.0`"),
        ("9" * 300, "invalid-request", f"invalid version `{'9' * 80}…`; write it as `0.23.0` or `v0.23.0`"),
    ],
)
def test_an_unknown_or_invalid_version_in_a_query_is_a_422(
    client: httpx.Client, path: str, version: str, kind: str, message: str
) -> None:
    status, found, said = refusal(client.get(path, params={"vllm_version": version}))
    assert (status, found, said.startswith(f"vllm_version: {message}")) == (422, kind, True)


@pytest.mark.parametrize("rule_id", ["kv-connector-fallback", "dual-batch-overlap"])
@pytest.mark.parametrize("parameters", [{}, {"vllm_version": "0.24.0"}])
def test_a_rule_has_the_text_of_its_file_and_its_cases(
    client: httpx.Client, root: Path, rule_id: str, parameters: dict[str, str]
) -> None:
    found = get(client, f"/v1/rules/{rule_id}", **parameters)
    path = root / "rules" / found["file"]
    cases = path.with_name(f"{rule_id}_test.yaml")
    items = [
        {**item, "vllm": list(map(str, item["vllm"]))}
        for item in read_yaml(cases.read_text(), "cases").plain()["cases"]
    ]
    assert (found["text"], found["cases"]) == (
        path.read_text(),
        {"file": str(cases.relative_to(root / "rules")), "text": cases.read_text(), "items": items},
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_the_one_beside_the_rules(client: httpx.Client, root: Path, name: str) -> None:
    assert get(client, f"/v1/schemas/{name}") == json.loads((root / f"rules/{name}.schema.json").read_text())


def test_an_unknown_schema_is_a_404(client: httpx.Client) -> None:
    status, kind, message = refusal(client.get("/v1/schemas/rules"))
    assert (status, kind) == (404, "not-found")
    assert message.startswith("unknown schema `rules`; legal: `rule`, `house-rule`, ")


# releases and facts


def test_the_releases_are_those_that_were_checked_and_one_is_the_default(client: httpx.Client) -> None:
    found = get(client, "/v1/releases")
    (removal,) = found.pop("removals")
    assert found == {
        "releases": [
            {"version": version, "verified": True, "default": version == "0.23.0"} for version in KNOWN_RELEASES
        ],
        "default": "0.23.0",
    }
    assert (removal["runner"], removal["deprecated_in"], removal["announced_for"]) == ("v1", "0.29.0", "0.32.0")


def test_the_images_are_the_rows_of_their_files(client: httpx.Client) -> None:
    rows = {row["id"]: row for row in get(client, "/v1/images")["images"]}
    assert (len(rows), rows["vllm-release-repo"]) == (
        len(shipped_images().rows),
        {
            "id": "vllm-release-repo",
            "file": "images/vllm.yaml",
            "title": "vLLM's images of releases on Amazon's public registry",
            "references": [
                "https://docs.vllm.ai/en/stable/deployment/docker/",
                "https://github.com/vllm-project/vllm/blob/0000977eaf873be6a295cf73017976d49ca2fb9d/docker/Dockerfile",
            ],
            "names": ["q9t5s3a7/vllm-release-repo"],
            "entry_point": "vllm-serve",
            "working_folder": "/vllm-workspace",
            "platform": "cuda",
            "tags": [{"tag": "{release}{build}"}],
        },
    )


def test_the_facts_are_the_vocabulary(client: httpx.Client) -> None:
    def shown(fact: Fact) -> dict[str, Any]:
        return {
            "name": fact.name,
            "type": str(fact.kind),
            "legal": fact.legal,
            "choices": list(fact.choices),
            "meaning": fact.meaning,
        }

    facts = get(client, "/v1/facts")["facts"]
    assert [
        {name: value for name, value in fact.items() if name not in {"nullable", "default", "read_by"}}
        for fact in facts
    ] == list(map(shown, VOCABULARY))


def test_every_fact_has_a_type_a_default_and_the_releases_that_read_it(client: httpx.Client) -> None:
    members = ["name", "type", "legal", "choices", "nullable", "default", "meaning", "read_by"]
    for fact in get(client, "/v1/facts")["facts"]:
        assert (list(fact), fact["type"] in KINDS, fact["read_by"]) == (
            members,
            True,
            [version for version in KNOWN_RELEASES if version in fact["read_by"]],
        )


def test_a_fact_s_readers_are_the_releases_with_a_rule_about_it(client: httpx.Client) -> None:
    facts = {fact["name"]: fact for fact in get(client, "/v1/facts")["facts"]}
    assert facts["kv_transfer_config"]["read_by"][:4] == ["0.22.0", "0.22.1", "0.23.0", "0.24.0"]
    assert facts["env.VLLM_USE_V2_MODEL_RUNNER"]["read_by"] == KNOWN_RELEASES


def test_every_default_of_the_facts_is_legal_in_a_request(client: httpx.Client) -> None:
    document: dict[str, Any] = {}
    for fact in get(client, "/v1/facts")["facts"]:
        *path, name = fact["name"].split(".")
        place = document
        for part in path:
            place = place.setdefault(part, {})
        if fact["type"] == "presence":
            place.setdefault(name, {})
        else:
            place[name] = fact["default"]
    nullable = {"speculative_config": {"method": None}, "kv_transfer_config": None}
    assert client.post("/v1/decisions", json={"facts": {**document, **nullable}}).status_code == 200


# health and documentation


def test_a_running_process_is_live(client: httpx.Client) -> None:
    response = client.get("/livez")
    assert (response.status_code, response.headers["content-type"], response.text) == (
        200,
        "text/plain; charset=utf-8",
        "ok\n",
    )


def test_a_ready_process_names_the_revision_that_decides(client: httpx.Client) -> None:
    assert get(client, "/readyz") == {"status": "ready", "revision": get(client, "/v1/policy")["revision"]}


def test_the_exit_code_of_curl_shows_whether_the_service_is_ready(
    server: Server, run: Callable[..., Done], tmp_path: Path
) -> None:
    ready, nothing = (
        run("-sSf", "-o", "answer", f"{server.url}{path}", program="curl", cwd=tmp_path)
        for path in ("/readyz", "/ready")
    )
    assert (ready.code, nothing.code) == (0, 22)


def test_the_documentation_is_a_page_that_needs_no_other_host(client: httpx.Client) -> None:
    page = client.get("/docs")
    links = re.findall(r"""(?:src="|href="|url: ')([^"']+)["']""", page.text)
    assert (page.status_code, page.headers["content-type"], "openapi.json" in links) == (
        200,
        "text/html; charset=utf-8",
        True,
    )
    assert links
    assert {link: client.get(link).status_code for link in links} == dict.fromkeys(links, 200)
    assert "://" not in page.text.replace("http://www.w3.org", "")
    assert (page.headers["x-frame-options"], page.headers["content-security-policy"]) == (
        "DENY",
        "frame-ancestors 'none'",
    )


@pytest.mark.parametrize("ranges", ["bytes=0-3", "bytes=9999999999-", "x", "bytes=3-1", "bytes=a"])
def test_a_documentation_file_is_always_sent_whole(client: httpx.Client, ranges: str) -> None:
    answer = client.get("/docs/static/swagger-ui.css", headers={"range": ranges})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/css")


# unknown paths and methods


@table(
    ("path", "message"),
    [
        ("/%2F", "unknown path `//`"),
        ("/v1/polic", "unknown path `/v1/polic`; did you mean `/v1/policy`?"),
        ("/v1/decision", "unknown path `/v1/decision`; did you mean `/v1/decisions`?"),
        ("/v1/dryrun", "unknown path `/v1/dryrun`; did you mean `/v1/dry-run`?"),
        ("/v1/fact", "unknown path `/v1/fact`; did you mean `/v1/facts`?"),
        ("/readyzz", "unknown path `/readyzz`; did you mean `/readyz`?"),
        ("/favicon.ico", "unknown path `/favicon.ico`"),
        ("/%F0%9F%A6%8A", "unknown path `/🦊`"),
        ("/" + "x" * 5000, f"unknown path `/{'x' * 79}…`"),
    ],
)
@table("method", ["GET", "POST"])
def test_an_unknown_path_is_a_404_with_a_suggestion(client: httpx.Client, method: str, path: str, message: str) -> None:
    assert refusal(client.request(method, path, content=b"x" if method == "POST" else None)) == (
        404,
        "not-found",
        message,
    )


@table(
    ("path", "legal", "methods"),
    [
        ("/", "GET, HEAD", ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")),
        *((path, "GET", ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")) for path in READ_PATHS[:7]),
        *((path, "POST", ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")) for path in DECIDING_PATHS),
    ],
)
def test_another_method_is_a_405_that_names_the_legal_one(
    client: httpx.Client, path: str, legal: str, methods: tuple[str, ...]
) -> None:
    responses = {method: client.request(method, path) for method in methods}
    assert {method: (*refusal(response), response.headers["allow"]) for method, response in responses.items()} == {
        method: (405, "method-not-allowed", f"{method} is not allowed here; legal: {legal}", legal)
        for method in methods
    }


@table("path", READ_PATHS)
def test_a_read_endpoint_ignores_a_body(client: httpx.Client, path: str) -> None:
    plain, odd = client.get(path), client.request("GET", path, content=b"{")
    assert (odd.status_code, odd.content) == (200, plain.content)


@table("method", ["GET", "HEAD"])
@table("value", ["bytes=0-9", "bytes=9999999-", "bytes=9-1", "bytes=a-b", "lines=1-2", "x", ""])
def test_a_range_of_a_static_file_is_ignored(client: httpx.Client, method: str, value: str) -> None:
    whole = client.request(method, "/docs/static/swagger-ui.css")
    answer = client.request(method, "/docs/static/swagger-ui.css", headers={"range": value})
    assert (answer.status_code, answer.headers["accept-ranges"], answer.content) == (200, "none", whole.content)


def test_a_static_file_that_does_not_exist_is_a_problem_with_any_range(client: httpx.Client) -> None:
    answer = client.get("/docs/static/nothing.css", headers={"range": "x"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
