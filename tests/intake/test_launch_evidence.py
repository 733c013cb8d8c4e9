"""The comparison of the checks of `policy.intake.launch` with a release's sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.intake.launch.checks import all_checks
from policy.vllm.tablegen.evidence import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def write(folder: Path, left_out: str = "", added: str = "") -> None:
    """Sources with the evidence of all checks of 0.28.0."""
    texts: dict[str, list[str]] = {}
    for check in all_checks():
        if check.has and check.holds_in("0.28.0") and check.id != left_out:
            texts.setdefault(check.source.replace("*", "openai", 1).replace("*", "cli_args"), []).append(check.has)
    texts.setdefault("vllm/config/vllm.py", []).append(added)
    for path, lines in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines))


def test_sources_with_all_evidence_have_no_differences(tmp_path: Path) -> None:
    write(tmp_path)
    assert main(["0.28.0", "--source", str(tmp_path)]) == 0


def test_a_check_without_evidence_and_evidence_without_a_range_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, left_out="kv-role-missing", added="Adaptive verification is not currently compatible with LoRA")
    assert main(["0.28.0", "--source", str(tmp_path)]) == 1
    lora, role = "Adaptive verification is not currently compatible", "Please specify kv_role when kv_connector "
    unranged = "and no range contains 0.28.0"
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"adaptive-lora: vllm/config/vllm.py of 0.28.0 has '{lora} with LoRA', {unranged}",
        f"adaptive-pipeline: vllm/config/vllm.py of 0.28.0 has '{lora} ', {unranged}",
        f"kv-role-missing: vllm/config/kv_transfer.py of 0.28.0 does not have '{role}'",
    ]
