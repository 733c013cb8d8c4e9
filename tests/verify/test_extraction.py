"""Extract code from small sources and run it, and report what is missing."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_rows_except
from vllmsource import CONFIG, EQUIVALENT, rule_texts, write_source

from policy.policy import Policy
from policy.rules.catalogue import load
from policy.rules.loader import Sources
from policy.vllm.verify.verification import NotExtracted, release_process, verify

if TYPE_CHECKING:
    from pathlib import Path

QWEN = {"model_config": True, "model_config.architectures": ["Qwen3ForCausalLM"]}
LLAMA = {"model_config": True, "model_config.architectures": ["LlamaForCausalLM"]}
VARIABLE = "env.VLLM_USE_V2_MODEL_RUNNER"


REFUSAL = "V2 does not support: stock torch.compile"


def answer_of(runner: str | None, errors: list[str], *features: str) -> dict[str, Any]:
    return {
        "runner": runner,
        "startup_errors": errors,
        "unsupported_features": list(features),
        "v1_unsupported_features": [],
    }


ANSWERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (QWEN, answer_of("v2", [])),
    (LLAMA, answer_of("v2", [])),
    ({**LLAMA, "platform.is_rocm": True}, answer_of("v1", [])),
    ({**QWEN, "platform.has_triton": False}, answer_of("v1", [])),
    ({**QWEN, VARIABLE: "0"}, answer_of("v1", [])),
    ({**QWEN, VARIABLE: "yes"}, answer_of(None, ["invalid literal for int() with base 10: 'yes'"])),
    ({**QWEN, "parallel_config.ubatch_size": 2}, answer_of("v1", [], "microbatches")),
    (
        {**QWEN, VARIABLE: "1", "compilation_config.mode": "STOCK_TORCH_COMPILE"},
        answer_of("v2", [REFUSAL], "stock torch.compile"),
    ),
    ({**LLAMA, VARIABLE: "0", "model_config.return_sampling_mask": True}, answer_of("v1", ["masks need V2"])),
]


def test_extracted_code_decides_as_written(tmp_path: Path) -> None:
    with release_process(write_source(tmp_path)) as vllm:
        for facts, expected in ANSWERS:
            answer = vllm.answer(facts)
            beyond = answer.pop("beyond", [])
            assert answer == expected, facts
            assert expected["runner"] is None or [place.partition(":")[0] for place in beyond] == ["_verify_more"]
            assert vllm.answer(QWEN)["runner"] == "v2"


def test_a_wheel_an_archive_and_a_folder_give_the_same_answer(tmp_path: Path) -> None:
    folder = write_source(tmp_path / "folder")
    wheel, archive = tmp_path / "vllm-1.whl", tmp_path / "vllm-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as members, tarfile.open(archive, "w:gz") as packed:
        for path in folder.rglob("*.py"):
            name, data = path.relative_to(folder).as_posix(), path.read_bytes()
            members.writestr(name, data)
            info = tarfile.TarInfo(f"vllm-1/{name}")
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    for source in (folder, wheel, archive):
        with release_process(source) as vllm:
            assert vllm.answer(QWEN)["runner"] == "v2"


INCOMPLETE_SOURCES: list[tuple[str, dict[str, str | None], str]] = [
    (
        CONFIG.replace("_get_v2_model", "_find_v2_model"),
        {},
        "has no `_get_v2_model_runner_unsupported_features`; its methods: __post_init__, use_v2_model_runner",
    ),
    (
        CONFIG.replace("v2_model_runner", "v2"),
        {},
        "`VllmConfig` in vllm/config/vllm.py has no `_validate_v2_model_runner`; its methods: __post_init__",
    ),
    (CONFIG.replace("class VllmConfig", "class Config"), {}, "vllm/config/vllm.py has no class `VllmConfig`"),
    (CONFIG, {"vllm/envs.py": "environment_variables = {}\n"}, "vllm/envs.py has no entry `VLLM_USE_V2_MODEL_RUNNER`"),
    (CONFIG, {"vllm/envs.py": None}, "the source has no vllm/envs.py"),
    (
        CONFIG.replace("LISTED = ", "OTHERS = "),
        {},
        "vllm/config/vllm.py uses `LISTED` and does not import it",
    ),
    (
        CONFIG.replace("vllm.config.compilation import", "vllm.config.modes import"),
        {},
        "imports `CompilationMode` from vllm.config.modes, which the source",
    ),
    ("class VllmConfig(:\n", {}, "invalid syntax"),
    (
        CONFIG,
        {"vllm/config/compilation.py": "import enum\nclass CompilationMode(enum.Enum):\n    NONE = 0\n"},
        "has a class `CUDAGraphMode`",
    ),
]


@pytest.mark.parametrize(("config", "others", "message"), INCOMPLETE_SOURCES)
def test_missing_code_is_named(tmp_path: Path, config: str, others: dict[str, str | None], message: str) -> None:
    folder = write_source(tmp_path, config, others)
    with (
        pytest.raises(NotExtracted, match=message.replace("`", ".").replace("(", r"\(").replace(")", r"\)")),
        release_process(folder),
    ):
        pass


def test_an_invalid_or_missing_source_is_reported(tmp_path: Path) -> None:
    (tmp_path / "vllm-1.whl").write_bytes(b"no wheel")
    for name in ("vllm-1.whl", "no-such.whl", "no-such.tar.gz"):
        with pytest.raises(NotExtracted), release_process(tmp_path / name):
            pass


def test_code_that_ends_its_process_is_reported(tmp_path: Path) -> None:
    config = CONFIG.replace(
        "found = []",
        (
            "found = []\n        if self.parallel_config.enable_elastic_ep:\n            import os\n"
            "            os._exit(1)"
        ),
    )
    with (
        release_process(write_source(tmp_path, config)) as vllm,
        pytest.raises(NotExtracted, match=r"failed on .*its process ended"),
    ):
        vllm.answer({**QWEN, "parallel_config.enable_elastic_ep": True})


def test_code_that_fails_on_some_facts_is_reported_with_them(tmp_path: Path) -> None:
    config = CONFIG.replace(
        "found = []", "found = []\n        if self.parallel_config.enable_elastic_ep:\n            {}['absent']"
    )
    with release_process(write_source(tmp_path, config)) as vllm:
        with pytest.raises(NotExtracted, match=r'failed on .*"enable_elastic_ep": true.*: KeyError: .absent.'):
            vllm.answer({**QWEN, "parallel_config.enable_elastic_ep": True})
        assert vllm.answer(QWEN)["runner"] == "v2"


def test_a_variable_has_the_default_of_its_release(tmp_path: Path) -> None:
    config = CONFIG.replace("found = []", 'found = ["batches"] if envs.VLLM_BATCHES else []')
    envs = (
        write_source(tmp_path)
        .joinpath("vllm/envs.py")
        .read_text()
        .replace("{", '{"VLLM_BATCHES": lambda: bool(int(os.getenv("VLLM_BATCHES", "1"))), ', 1)
    )
    with release_process(write_source(tmp_path, config, {"vllm/envs.py": envs})) as vllm:
        assert vllm.answer(QWEN) == {**answer_of("v1", [], "batches"), "beyond": vllm.answer(QWEN)["beyond"]}
    with (
        pytest.raises(NotExtracted, match=r"vllm/envs\.py has no entry `VLLM_BATCHES`"),
        release_process(write_source(tmp_path, config)),
    ):
        pass


def policy_of(**changed: dict[str, Any]) -> Policy:
    return Policy(load(Sources(rule_texts(**changed))))


def test_equivalent_rules_have_no_mismatch(tmp_path: Path) -> None:
    verified = verify(policy_of(), "0.33.0", write_source(tmp_path, EQUIVALENT), 1000, seed=1)
    assert (verified.cases, verified.different, verified.mismatches, verified.elsewhere) == (
        1000,
        0,
        (),
        ("elsewhere",),
    )
    assert [place.partition(":")[0] for place in verified.beyond] == ["_verify_more"]


WRONG_RULES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("stock-compile", {"feature": "torch.compile"}, {"compilation_config": {"mode": "STOCK_TORCH_COMPILE"}}),
    ("microbatches", {"when": {"parallel_config.enable_dbo": True}}, {"parallel_config": {"ubatch_size": 2}}),
    (
        "microbatches",
        {"when": {"parallel_config.ubatch_size": {"at_least": 3}}},
        {"parallel_config": {"ubatch_size": 2}},
    ),
    (
        "masks",
        {"text": "masks need V2", "when": {"model_config.return_sampling_mask": True, "model_config.is_moe": False}},
        {},
    ),
]


@pytest.mark.parametrize(("name", "change", "expected"), slow_rows_except(WRONG_RULES[::2], WRONG_RULES))
def test_a_wrong_rule_is_found_with_few_facts(
    tmp_path: Path, name: str, change: dict[str, Any], expected: dict[str, Any]
) -> None:
    verified = verify(policy_of(**{name: change}), "0.33.0", write_source(tmp_path, EQUIVALENT), 1000, seed=1)
    assert verified.different > 0
    facts = [mismatch.facts for mismatch in verified.mismatches]
    assert not expected or expected in facts, json.dumps(facts)
