"""The command ``replay``: past decisions under other rules and by other releases."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from core.test_laws import random_facts
from deployments import DENSE
from files import replace_file
from replay.conftest import row_of

from policy.impact.impact import Impact
from policy.impact.run import Run
from policy.intake.model_finder import ModelFinder
from policy.replay.records import read_record
from policy.replay.run import ReplayJob
from policy.request.request import read_request
from service.log.record import encode, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done

    from policy.policy import Policy
    from policy.rules.loader import Sources

RULES = Path(__file__).parents[2] / "rules"
QWEN = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
CONNECTOR = {**QWEN, "kv_transfer_config": {"kv_connector": "NixlConnector"}}
RELEASES = ("0.20.0", "0.22.0", "0.23.0", "0.26.0", "0.29.0", "0.33.0")


def request_for(facts: dict[str, Any], version: str = "0.23.0", **fields: Any) -> dict[str, Any]:
    return {"facts": facts, "vllm_version": version, **fields}


def check_sums(document: dict[str, Any]) -> None:
    """The counts add up to the records, and the groups to the kinds."""
    counts = document["counts"]
    assert counts["decisions"] == counts["undecided"] + counts["unchanged"] + sum(counts["kinds"].values())
    assert sum(group["decisions"] for group in document["groups"]) + counts["others"] == sum(counts["kinds"].values())
    assert sum(document["undecided_reasons"].values()) == counts["undecided"]


@pytest.fixture
def other_rules(copy_rules: Callable[[Path], Path], tmp_path: Path) -> str:
    """The shipped rules without the house rule."""
    copy_rules(tmp_path / "rules")
    (tmp_path / "rules/house/kv-connector-fallback.yaml").unlink()
    (tmp_path / "rules/house/kv-connector-fallback_test.yaml").unlink()
    return str(tmp_path / "rules")


def test_the_same_rules_decide_the_same(call: Callable[..., Done], log_of: Callable[..., str]) -> None:
    """A law: whatever was decided, including for what vLLM refuses, the same rules decide it again."""
    documents = [
        request_for(random_facts(seed), RELEASES[seed % len(RELEASES)], layers=LAYERS[seed % 2]) for seed in range(300)
    ]
    deployments = [["--enable-dbo"], ["--no-such-flag"], ["-pp", "2"], []]
    documents += [
        {
            "deployment": {"args": ["serve", "Qwen/Qwen3-8B", *args], "model_configs": {"Qwen/Qwen3-8B": DENSE}},
            "vllm_version": version,
        }
        for args in deployments
        for version in RELEASES
    ]
    done = call("replay", "--log", log_of(documents), "--json")
    found = json.loads(done.out)
    check_sums(found)
    assert done.code == 0
    assert found["groups"] == []
    assert found["counts"]["unchanged"] == len(documents)


LAYERS = (["upstream"], ["upstream", "house"])


def test_other_rules_differ_by_the_rule(
    call: Callable[..., Done], log_of: Callable[..., str], other_rules: str
) -> None:
    url = log_of([*[request_for(CONNECTOR)] * 5, request_for(QWEN), request_for(CONNECTOR, "0.33.0")])
    done = call("replay", "--log", url, "--rules", other_rules, "--json")
    found = json.loads(done.out)
    check_sums(found)
    (group,) = found["groups"]
    assert done.code == 0
    assert (group["kind"], group["decisions"], group["step"]) == ("runner-with-known-problem", 5, "V1 → V2")
    assert "kv-connector-fallback" in group["rules"]
    assert len(group["examples"]) == 3
    assert {each["requested_by"] for each in group["examples"]} == {"argo"}
    assert found["counts"]["unchanged"] == 2


def test_another_release_decides_as_a_request_for_it(
    call: Callable[..., Done], log_of: Callable[..., str], policy: Policy
) -> None:
    """Each difference is that between the recorded decision and a decision for the other release."""
    documents = [request_for(random_facts(seed), "0.29.0") for seed in range(80)]
    done = call("replay", "--log", log_of(documents), "--to", "0.33.0", "--format", "jsonl")
    *differences, last = map(json.loads, done.out.splitlines())
    decided: dict[tuple[Any, ...], int] = {}
    for document in documents:
        before, after = (
            policy.decide(read_request({**document, "vllm_version": version}, policy.releases), row_day())
            for version in ("0.29.0", "0.33.0")
        )
        if (before.runner, before.starts) != (after.runner, after.starts):
            key = (before.runner, before.starts, after.runner, after.starts)
            decided[key] = decided.get(key, 0) + 1
    found: dict[tuple[Any, ...], int] = {}
    for each in differences:
        change = each["change"]
        key = (change["runner"][0], change["starts"][0], change["runner"][1], change["starts"][1])
        if key[:2] != key[2:]:
            found[key] = found.get(key, 0) + 1
    assert found == decided
    assert last["counts"]["decisions"] == len(documents)
    assert len(differences) == sum(last["counts"]["kinds"].values()) > 0


def row_day() -> Any:
    from datetime import UTC, datetime  # noqa: PLC0415  # only here

    return datetime.now(UTC).date()


def test_an_export_gives_what_the_log_gives(
    call: Callable[..., Done], log_of: Callable[..., str], other_rules: str, tmp_path: Path
) -> None:
    url = log_of([request_for(CONNECTOR), request_for(QWEN)])
    assert call("log", "export", str(tmp_path / "log.jsonl"), "--log", url).code == 0
    of_log = call("replay", "--log", url, "--rules", other_rules, "--json")
    of_file = call("replay", str(tmp_path / "log.jsonl"), "--rules", other_rules, "--json")
    of_input = call("replay", "-", "--rules", other_rules, "--json", stdin=(tmp_path / "log.jsonl").read_text())
    assert of_log.out == of_file.out == of_input.out


def test_an_export_as_parquet_gives_what_lines_give(
    call: Callable[..., Done], log_of: Callable[..., str], other_rules: str, tmp_path: Path
) -> None:
    url = log_of([request_for(CONNECTOR), request_for(QWEN)])
    for name in "log.jsonl", "log.parquet":
        assert call("log", "export", str(tmp_path / name), "--log", url).code == 0
    (tmp_path / "log").write_bytes((tmp_path / "log.parquet").read_bytes())
    options = ("--rules", other_rules, "--json")
    of_lines, of_rows, without_suffix = (
        call("replay", str(tmp_path / name), *options) for name in ("log.jsonl", "log.parquet", "log")
    )
    assert of_lines.out == of_rows.out == without_suffix.out
    assert (of_rows.code, json.loads(of_rows.out)["counts"]["decisions"]) == (0, 2)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (None, "not a whole Parquet file"),
        ({"request": ["{}"]}, "expected an export of the decision log, without a column `decision_id`, "),
        (
            {key: [None] for key in ("decision_id", "requested_by", "input", "result")},
            "expected texts in the columns `decision_id`, ",
        ),
        (
            {key: ["x"] for key in ("decision_id", "requested_by", "input", "result")},
            "the recorded answer cannot be read: ",
        ),
    ],
)
def test_parquet_that_is_no_export_is_listed(
    call: Callable[..., Done], tmp_path: Path, columns: dict[str, Any] | None, why: str
) -> None:
    from arro3.core import Array, DataType, RecordBatch  # noqa: PLC0415  # only here
    from arro3.io import write_parquet  # noqa: PLC0415  # as above

    file = tmp_path / "log.parquet"
    if columns is None:
        file.write_bytes(b"PAR1 cut")
    else:
        write_parquet(
            RecordBatch.from_pydict({name: Array(each, DataType.string()) for name, each in columns.items()}), str(file)
        )
    done = call("replay", str(file), "--json")
    document = json.loads(done.out)
    assert (done.code, document["counts"]["decisions"], document["counts"]["undecided"]) == (1, 1, 1)
    assert why in done.out


def test_a_byte_order_mark_is_no_part_of_the_first_record(call: Callable[..., Done], policy: Policy) -> None:
    whole = encode(record(row_of(policy, request_for(QWEN)))).decode()
    done = call("replay", "-", "--json", stdin=f"\ufeff{whole}\n\ufeff{whole}\n")
    found = json.loads(done.out)
    assert (found["counts"]["decisions"], [each["place"] for each in found["undecided"]]) == (2, ["-:2"])


def test_what_cannot_be_decided_is_listed_and_counted(call: Callable[..., Done], policy: Policy) -> None:
    whole = json.loads(encode(record(row_of(policy, request_for(QWEN)))))
    without = {**whole, "input": None}
    of_deployment = {name: value for name, value in whole.items() if name != "input"}
    unknown = {**whole, "input": {**whole["input"], "vllm_version": "0.99.0"}}
    no_fact = {**whole, "input": {"facts": {"no_such": 1}}}
    manifest = {**whole, "input": {"manifest": {"kind": "Pod"}}}
    no_result = {**whole, "result": {"runner": 7}}
    texts = [*map(json.dumps, (whole, without, of_deployment, unknown, no_fact, manifest, no_result))]
    done = call("replay", "-", "--json", stdin="\n".join([*texts, "", "{", "[1]", '"x"']))
    found = json.loads(done.out)
    check_sums(found)
    assert done.code == 1
    assert found["counts"] | {"kinds": None} == {
        "decisions": 10,
        "undecided": 9,
        "unchanged": 1,
        "kinds": None,
        "others": 0,
        "first": found["counts"]["first"],
        "last": found["counts"]["last"],
    }
    assert found["undecided_reasons"]["the record has no request, so it cannot be decided again"] == 3
    assert [each["place"] for each in found["undecided"]] == [f"-:{n}" for n in (2, 3, 4, 5, 6, 7, 9, 10, 11)]


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "csv", "markdown"])
def test_a_recorded_runner_is_one_of_vllm(call: Callable[..., Done], policy: Policy, form: str) -> None:
    """A log of another program may have anything; it is listed and counted, and never written raw."""
    whole = json.loads(encode(record(row_of(policy, request_for(QWEN)))))
    names = ("\x1b[31mV3", "v2 | x |\n# <b>big</b>", "v3", "V1", "")
    texts = [json.dumps({**whole, "result": {**whole["result"], "runner": name}}) for name in names]
    done = call("replay", "-", "--format", form, stdin="\n".join([*texts, json.dumps(whole)]))
    assert done.code == 1
    assert not re.search("\x1b|\n# ", done.out)
    outside_code = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", done.out)
    assert form != "markdown" or not re.search(r"<b>|v2 \|", outside_code)
    if form == "json":
        found = json.loads(done.out)
        check_sums(found)
        assert (found["counts"]["undecided"], found["counts"]["unchanged"]) == (len(names), 1)
        assert [each["place"] for each in found["undecided"]] == [f"-:{n + 1}" for n in range(len(names))]
        assert all("the recorded answer cannot be read: " in each["problem"] for each in found["undecided"])


def test_text_names_the_rule_and_examples(
    call: Callable[..., Done], log_of: Callable[..., str], other_rules: str
) -> None:
    done = call("replay", "--log", log_of([request_for(CONNECTOR)]), "--rules", other_rules, "--format", "text")
    assert "flips, problem" in done.out
    assert "kv-connector-fallback" in done.out
    assert "(argo)" in done.out
    assert done.out.rstrip().endswith("1 of 1 decision differs: 1 changes its runner and gets a known problem")


def test_csv_has_a_row_for_each_difference(
    call: Callable[..., Done], log_of: Callable[..., str], other_rules: str
) -> None:
    url = log_of([request_for(QWEN), request_for(CONNECTOR)])
    done = call("replay", "--log", url, "--rules", other_rules, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert (row["runner_before"], row["runner"], row["change"]) == ("v1", "v2", "runner-with-known-problem")


def test_markdown_folds_and_fits(call: Callable[..., Done], log_of: Callable[..., str]) -> None:
    url = log_of([request_for(random_facts(seed), "0.22.0") for seed in range(300)])
    found = call("replay", "--log", url, "--to", "0.33.0", "--format", "markdown").out
    head, _, folded = found.partition("<details>")
    assert len(head.splitlines()) < 24
    assert len(found) < 65_536
    assert folded.count("<details>") + 1 == found.count("</details>")


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same(call: Callable[..., Done], policy: Policy, tmp_path: Path) -> None:
    rows = [row_of(policy, request_for({"model_config": {"architectures": [f"A{n}ForX"]}})) for n in range(120)]
    text = b"".join(encode(record(each)) + b"\n" for each in rows) * 60
    (tmp_path / "log.jsonl").write_bytes(text)
    for jobs in "1", "2":
        options = ("--to", "0.33.0", "--jobs", jobs, "-o", f"{tmp_path}/out{jobs}.jsonl")
        assert call("replay", str(tmp_path / "log.jsonl"), *options).code == 0
    assert (tmp_path / "out1.jsonl").read_bytes() == (tmp_path / "out2.jsonl").read_bytes()


def test_distinct_requests_are_decided_once(policy: Policy, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row_of(policy, request_for(facts, request_id=str(n))) for n in range(50) for facts in (QWEN, CONNECTOR)]
    records = [
        read_record(row.decision_id, row.requested_by, row.input.encode(), row.result.encode(), policy.releases)
        for row in rows
    ]
    decided = []
    answer = Impact.answer

    def counted(*given: Any) -> Any:
        decided.append(1)
        return answer(*given)

    monkeypatch.setattr(Impact, "answer", counted)
    run = Run(ReplayJob(sources, None, None, {}), policy, ModelFinder({}, hub=False), 1)
    assert len([*run.results(iter(records), lambda each: each.past)]) == 100
    assert len(decided) == 2


def test_a_house_rule_counts_on_the_day_of_its_decisions(
    call: Callable[..., Done], policy: Policy, copy_rules: Callable[[Path], Path], tmp_path: Path
) -> None:
    """A rule that has ended since still decides the decisions of its time, unless today's rules are asked for."""
    copy_rules(tmp_path / "rules")
    rule = tmp_path / "rules/house/kv-connector-fallback.yaml"
    ended = rule.read_text().replace("review_by: 2027-06-30", "review_by: 2026-01-01\nuntil: 2026-01-01")
    replace_file(rule, ended)
    now = json.loads(encode(record(row_of(policy, request_for(CONNECTOR)))))
    earlier = "0197a1b2-0000-7000-8000-000000000000"  # in June 2025
    then = {**now, "decision_id": earlier, "result": {**now["result"], "decision_id": earlier}}
    counted = []
    for options in (), ("--today",):
        done = call(
            "replay",
            "-",
            "--rules",
            str(tmp_path / "rules"),
            *options,
            "--json",
            stdin=f"{json.dumps(then)}\n{json.dumps(now)}",
        )
        counted.append(sum(json.loads(done.out)["counts"]["kinds"].values()))
    assert counted == [1, 2]


def test_filters_select_records(call: Callable[..., Done], log_of: Callable[..., str]) -> None:
    url = log_of([request_for(QWEN, "0.23.0"), request_for(QWEN, "0.33.0")])
    for options, number in (("--vllm-version", "0.33.0"), 1), (("--since", "1h"), 2), (("--until", "1h"), 0):
        done = call("replay", "--log", url, *options, "--json")
        assert json.loads(done.out)["counts"]["decisions"] == number, options


@pytest.mark.parametrize(
    ("options", "code"), [(("--fail-on", "no-start"), 0), (("--fail-on", "runner-with-known-problem"), 1)]
)
def test_fail_on(
    call: Callable[..., Done], log_of: Callable[..., str], other_rules: str, options: tuple[str, ...], code: int
) -> None:
    url = log_of([request_for(CONNECTOR)])
    assert call("replay", "--log", url, "--rules", other_rules, *options, "--json").code == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "9.9", "-"), "--to: unknown release `9.9`"),
        (("--fail-on", "bad", "-"), "--fail-on: expected one of `no-start`"),
        (("--since", "1h", "-"), "`--since`: they are for the log"),
        (("none.jsonl",), "none.jsonl: there is no such file or folder"),
        (("--format", "xml", "-"), "--format: expected one of"),
        (("--since", "yesterday"), "--since: `yesterday` is not legal"),
    ],
)
def test_wrong_usage(call: Callable[..., Done], arguments: tuple[str, ...], message: str) -> None:
    done = call("replay", *arguments, stdin="")
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_no_decision_log(call: Callable[..., Done], tmp_path: Path) -> None:
    missing = call("replay", "--log", f"sqlite:///{tmp_path}/none.db")
    assert (missing.code, missing.out) == (2, "")
    assert "no log found at" in missing.err
