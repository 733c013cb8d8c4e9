"""`runner-policy verify`: a release's code compared with the rules, and errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_except
from vllmsource import EQUIVALENT, rule_texts, write_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

STOCK = {"compilation_config": {"mode": "STOCK_TORCH_COMPILE"}}
WRONG = {"stock-compile": {"feature": "torch.compile"}}


@pytest.fixture
def verify(call: Callable[..., Done], tmp_path: Path) -> Callable[..., Done]:
    """Run the command on the small source and its rules, some of which may be changed."""

    def command(*flags: str, changed: dict[str, dict[str, Any]] | None = None) -> Done:
        for name, text in rule_texts(**(changed or {})).items():
            (tmp_path / "rules" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "rules" / name).write_text(text)
        source = write_source(tmp_path / "source", EQUIVALENT)
        return call(
            "verify", "0.33.0", "--rules", str(tmp_path / "rules"), "--source", str(source), "--samples", "600", *flags
        )

    return command


def test_equal_configurations_are_reported_with_the_rules_not_compared(verify: Callable[..., Done]) -> None:
    done = verify()
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == "0.33.0: 600 configurations, all equal\n  not compared: elsewhere, whose text is in another file of vLLM\n"
    )


@pytest.mark.parametrize(
    ("evidence", "code", "lines"),
    [
        (
            {"has": "class VllmConfig:"},
            0,
            [
                "  not compared: elsewhere, whose text is in another file of vLLM, where its evidence is looked up",
                "  evidence: 1 rule; it holds in the releases of the rules and in no other",
            ],
        ),
        (
            {"lacks": "class VllmConfig:"},
            1,
            [
                "  not compared: elsewhere, whose text is in another file of vLLM, where its evidence is looked up",
                (
                    "  not proved: elsewhere: `>=0.33` has 0.33.0, but this does not hold there: "
                    "vllm/config/vllm.py lacks `class VllmConfig:`"
                ),
            ],
        ),
    ],
    ids=["holds", "contradicts"],
)
def test_the_evidence_of_refusals_in_other_files_is_looked_up(
    verify: Callable[..., Done], evidence: dict[str, str], code: int, lines: list[str]
) -> None:
    done = verify(changed={"elsewhere": {"evidence": [{"file": "vllm/config/vllm.py", **evidence}]}})
    assert (done.code, done.out.splitlines()) == (code, ["0.33.0: 600 configurations, all equal", *lines])


def test_a_difference_exits_with_1_and_shows_the_rule_the_facts_and_both_answers(verify: Callable[..., Done]) -> None:
    done = verify(changed=WRONG)
    lines = done.out.splitlines()
    start = lines.index(f"  stock-compile: {json.dumps(STOCK)}")
    assert (done.code, lines[0].startswith("0.33.0: 600 configurations, ")) == (1, True)
    assert lines[start + 1 : start + 3] == [
        '    vLLM   {"unsupported_features": ["stock torch.compile"]}',
        '    rules  {"unsupported_features": ["torch.compile"]}',
    ]


def test_differences_are_reported_as_json(verify: Callable[..., Done]) -> None:
    done = verify("--json", changed=WRONG)
    (found,) = json.loads(done.out)
    assert (done.code, found["release"], found["cases"], found["elsewhere"], found["different"] > 0) == (
        1,
        "0.33.0",
        600,
        ["elsewhere"],
        True,
    )
    assert STOCK in [mismatch["facts"] for mismatch in found["mismatches"]]
    assert verify("--seed", "7", "--json").code == 0


def test_an_invalid_source_is_reported(call: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "vllm-1.whl").write_bytes(b"no wheel")
    done = call("verify", "0.33.0", "--source", str(tmp_path / "vllm-1.whl"))
    assert (done.code, done.out, done.err) == (
        2,
        "",
        f"vLLM 0.33.0: the decision was not found in {tmp_path}/vllm-1.whl: BadZipFile: File is not a zip file\n",
    )
    done = call("verify", "0.33.0", "--source", str(tmp_path))
    assert (done.code, "the source has no vllm/config/vllm.py" in done.err) == (2, True)


def test_vllm_variables_of_the_user_are_ignored(verify: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "nonsense")
    monkeypatch.setenv("VLLM_OTHER", "1")
    assert verify().code == 0


@pytest.mark.parametrize(
    "release", slow_except(["0.33.0", "0.34.0rc1"], ["0.33.0", "0.24.1", "0.19.0", "0.34", "0.34.0rc1", "next"])
)
def test_only_a_newer_release_is_drafted(
    verify: Callable[..., Done], call: Callable[..., Done], tmp_path: Path, release: str
) -> None:
    verify()
    done = call("verify", release, "--draft", "--rules", str(tmp_path / "rules"), "--source", str(tmp_path / "source"))
    message = (
        f"--draft: expected one final release newer than all known ones, got `{release}`; "
        "known releases: 0.33.0 to 0.33.0\n"
    )
    assert (done.code, done.out, done.err) == (2, "", message)


def test_a_failed_download_asks_for_a_source(call: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    done = call("verify", "0.33.0", "--cache", str(tmp_path / "cache"))
    assert (done.code, "name its source with --source" in done.err, "Traceback" in done.err) == (2, True, False)
