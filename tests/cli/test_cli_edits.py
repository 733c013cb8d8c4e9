"""`rules diff` of typical edits of the shipped rules: the whole summary, as a reviewer sees it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

MAX_LINES = 40


def replaced(path: str, *pairs: tuple[str, str]) -> Callable[[Path], None]:
    """An edit that replaces texts in one file."""

    def edit(folder: Path) -> None:
        text = (folder / path).read_text()
        for old, new in pairs:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        replace_file(folder / path, text)

    return edit


def removed(path: str) -> Callable[[Path], None]:
    """An edit that removes a rule with its cases."""

    def edit(folder: Path) -> None:
        (folder / path).unlink()
        (folder / path.replace(".yaml", "_test.yaml")).unlink()

    return edit


def together(*edits: Callable[[Path], None]) -> Callable[[Path], None]:
    """Several edits in one pull request."""

    def edit(folder: Path) -> None:
        for each in edits:
            each(folder)

    return edit


KV = "house/kv-connector-fallback.yaml"
EDITS = {
    "narrow a house rule": replaced(
        KV, ("kv_transfer_config: present", "kv_transfer_config.kv_connector: {in: [NixlConnector]}")
    ),
    "add a release": together(
        replaced("releases.yaml", ('  - "0.33.0"\n', '  - "0.33.0"\n  - "0.34.0"\n')),
        replaced("upstream/v2/heterogeneous-vocab.yaml", ('">=0.32"', '">=0.32,<0.34"')),
    ),
    "change a condition in one range": replaced(
        "upstream/v2/parallel-drafting.yaml", ("{not_in: [dflash, dspark]}", "{not_in: [dflash, dspark, mtp]}")
    ),
    "extend a list": replaced(
        "upstream/default/architecture-allowlist.yaml",
        ("          - Qwen2MoeForCausalLM\n", "          - Qwen2ForCausalLM\n          - Qwen2MoeForCausalLM\n"),
    ),
    "remove a rule": removed("upstream/v2/elastic-ep.yaml"),
    "change texts": replaced(
        KV,
        ("owner: inference-platform", "owner: serving"),
        ("review_by: 2027-06-30", "review_by: 2027-12-31"),
        ("The condition is broad on purpose: any", "Any"),
        ("remedy: drop", "remedy: remove"),
        ("keeps this deployment on V1", "keeps this engine on V1"),
    ),
}


def on_screen(
    run: Callable[..., Done], copy_rules: Callable[[Path], Path], tmp_path: Path, name: str, columns: int
) -> str:
    """The output for an edit on a terminal of this width, without colours."""
    folder = tmp_path / f"rules-{columns}"
    copy_rules(folder)
    EDITS[name](folder)
    done = run("rules", "diff", "rules", str(folder), COLUMNS=str(columns), FORCE_COLOR="1", NO_COLOR="1")
    assert done.code == 0, done.err
    return "".join(f"{line.rstrip()}\n" for line in re.sub(r"\x1b\[[0-9;]*m", "", done.out).splitlines())


EXPECTED = {
    "narrow a house rule": """\
kv-connector-fallback (house, fallback-v1)
  0.22.0–0.24.0: only if kv_transfer_config.kv_connector is NixlConnector; before: any or none

Deployments that no longer start
  kv-connector-fallback: V1 → V2 (fails to start), 2 releases: 0.23.0–0.24.0, stopped by
  refuse-v2-mamba
    e.g. in 0.23.0: {"model_config": {"architectures": ["FalconMambaForCausalLM",
    "LlamaForCausalLM"]}, "kv_transfer_config": {}}
Deployments with another runner
  kv-connector-fallback: V1 → V2, 4 releases: 0.22.0–0.24.0
    e.g. in 0.22.0–0.22.1: {"model_config": {"architectures": ["Qwen3ForCausalLM"]},
    "kv_transfer_config": {}}
Same runner and start, other reasons or texts: 4 classes, by kv-connector-fallback; `--full` lists
them

9 classes of deployments are affected, by kv-connector-fallback, in 4 of 83 releases
""",
    "add a release": """\
heterogeneous-vocab (upstream, exclude-v2)
  0.34.0: no longer in force; before: if speculative_config.use_heterogeneous_vocab is true
  range: >=0.32,<0.34; before: >=0.32

Deployments that no longer start
  heterogeneous-vocab: V1 → V2 (fails to start), 0.34.0, stopped by refuse-v2-no-triton-worker
    e.g. {"speculative_config": {"use_heterogeneous_vocab": true}, "platform": {"has_triton": false,
    "is_unspecified": true}}
Deployments with another runner
  heterogeneous-vocab: V1 → V2, 0.34.0
    e.g. {"speculative_config": {"use_heterogeneous_vocab": true}}
  heterogeneous-vocab: V1 (fails to start) → V2, 0.34.0
    e.g. {"speculative_config": {"use_heterogeneous_vocab": true}, "aux_output_config": {"enabled":
    true}}
  heterogeneous-vocab: V1 (fails to start) → V2 (fails to start), 0.34.0
    e.g. {"model_config": {"runner_type": "pooling", "architectures": ["Step5ForCausalLM",
    "PrithviGeoSpatialMAE"]}, "speculative_config": {"use_heterogeneous_vocab": true}}
Deployments that now start
  heterogeneous-vocab: V2 (fails to start) → V2, 0.34.0
    e.g. {"speculative_config": {"use_heterogeneous_vocab": true}, "attention_config":
    {"hisparse_config": {}}}
Same runner and start, other reasons or texts: 5 classes, by heterogeneous-vocab; `--full` lists
them

10 classes of deployments are affected, by heterogeneous-vocab, in 1 of 84 releases
0.34.0 is new, and compared with 0.33.0
""",
    "change a condition in one range": """\
parallel-drafting (upstream, exclude-v2)
  0.25.0–0.33.0: only if speculative_config.method is none of dflash, dspark, mtp; before: only if
  it is none of dflash, dspark

Deployments that no longer start
  parallel-drafting: V1 → V2 (fails to start), 7 releases: 0.25.0–0.25.1, 0.29.0–0.33.0, stopped by
  refuse-v2-mamba, refuse-v2-plugin-task, refuse-v2-no-triton-worker
    e.g. in 0.29.0–0.32.0: {"model_config": {"runner_type": "pooling", "architectures":
    ["PrithviGeoSpatialMAE"]}, "speculative_config": {"method": "mtp", "parallel_drafting": true}}
Deployments with another runner
  parallel-drafting: V1 → V2, 11 releases: 0.25.0–0.33.0
    e.g. in 0.29.0–0.33.0: {"speculative_config": {"method": "mtp", "parallel_drafting": true}}
  parallel-drafting: V1 (fails to start) → V2, 6 releases: 0.28.0–0.33.0
    e.g. in 0.31.0–0.33.0: {"speculative_config": {"method": "mtp", "parallel_drafting": true},
    "aux_output_config": {"enabled": true}}
  parallel-drafting: V1 (fails to start) → V2 (fails to start), 5 releases: 0.29.0–0.33.0
    e.g. in 0.29.0–0.30.0: {"model_config": {"runner_type": "pooling", "architectures":
    ["PrithviGeoSpatialMAE"]}, "speculative_config": {"method": "mtp", "parallel_drafting": true,
    "enable_adaptive_verification": true}}
Deployments that now start
  parallel-drafting: V2 (fails to start) → V2, 11 releases: 0.25.0–0.33.0
    e.g. in 0.25.0–0.28.0: {"speculative_config": {"method": "mtp", "parallel_drafting": true},
    "env": {"VLLM_USE_V2_MODEL_RUNNER": true}}
Same runner and start, other reasons or texts: 16 classes, by parallel-drafting; `--full` lists them

31 classes of deployments are affected, by parallel-drafting, in 11 of 83 releases
""",
    "extend a list": """\
architecture-allowlist (upstream, not-default)
  0.24.0: only if model_config.architectures has none of 7 values (before 6): added Qwen2ForCausalLM

Deployments that no longer start
  architecture-allowlist: V1 → V2 (fails to start), 0.24.0, stopped by refuse-v2-mamba
    e.g. {"model_config": {"architectures": ["FalconMambaForCausalLM", "Qwen2ForCausalLM"]}}
Deployments with another runner
  architecture-allowlist: V1 → V2, 0.24.0
    e.g. {"model_config": {"architectures": ["Qwen2ForCausalLM"]}}
Deployments that vLLM alone decides otherwise
  architecture-allowlist: V1 (vLLM alone: V1 → V2), 0.24.0
    e.g. {"model_config": {"architectures": ["Qwen2ForCausalLM"]}, "kv_transfer_config": {}}
  architecture-allowlist: V1 (vLLM alone: V1 → V2 (fails to start)), 0.24.0
    e.g. {"model_config": {"architectures": ["FalconMambaForCausalLM", "Qwen2ForCausalLM"]},
    "kv_transfer_config": {}}
Same runner and start, other reasons or texts: 4 classes, by architecture-allowlist; `--full` lists
them

8 classes of deployments are affected, by architecture-allowlist, in 1 of 83 releases
""",
    "remove a rule": """\
elastic-ep (upstream, exclude-v2): removed, 0.24.0–0.31.0: if parallel_config.enable_elastic_ep is
true

Deployments that no longer start
  elastic-ep: V1 → V2 (fails to start), 6 releases: 0.24.0–0.25.1, 0.29.0–0.31.0, stopped by
  refuse-v2-mamba, refuse-v2-plugin-task
    e.g. in 0.29.0–0.31.0: {"model_config": {"runner_type": "pooling", "architectures":
    ["PrithviGeoSpatialMAE"]}, "parallel_config": {"enable_elastic_ep": true}}
Deployments with another runner
  elastic-ep: V1 → V2, 10 releases: 0.24.0–0.31.0
    e.g. in 0.25.0–0.28.0: {"model_config": {}, "parallel_config": {"enable_elastic_ep": true}}
  elastic-ep: V1 (fails to start) → V2, 4 releases: 0.28.0–0.31.0
    e.g. in 0.29.0–0.30.0: {"parallel_config": {"enable_elastic_ep": true,
    "enable_batch_sharded_sampling": true}}
  elastic-ep: V1 (fails to start) → V2 (fails to start), 3 releases: 0.29.0–0.31.0
    e.g. in 0.29.0–0.30.0: {"model_config": {"runner_type": "pooling", "architectures":
    ["PrithviGeoSpatialMAE"]}, "parallel_config": {"enable_elastic_ep": true,
    "enable_batch_sharded_sampling": true}}
Deployments that now start
  elastic-ep: V2 (fails to start) → V2, 10 releases: 0.24.0–0.31.0
    e.g. in 0.24.0–0.28.0: {"env": {"VLLM_USE_V2_MODEL_RUNNER": true}, "parallel_config":
    {"enable_elastic_ep": true}}
Deployments that vLLM alone decides otherwise
  elastic-ep: V1 (vLLM alone: V2 (fails to start) → V2), 0.24.0
    e.g. {"model_config": {"is_diffusion": true}, "kv_transfer_config": {}, "parallel_config":
    {"enable_elastic_ep": true}}
  elastic-ep: V1 (vLLM alone: V1 → V2), 0.24.0
    e.g. {"model_config": {"architectures": ["DeepseekV2ForCausalLM"]}, "kv_transfer_config": {},
    "parallel_config": {"enable_elastic_ep": true}}
  elastic-ep: V1 (vLLM alone: V1 → V2 (fails to start)), 0.24.0
    e.g. {"model_config": {"architectures": ["FalconMambaForCausalLM", "DeepseekV2ForCausalLM"]},
    "kv_transfer_config": {}, "parallel_config": {"enable_elastic_ep": true}}
Same runner and start, other reasons or texts: 14 classes, by elastic-ep; `--full` lists them

31 classes of deployments are affected, by elastic-ep, in 10 of 83 releases
""",
    "change texts": """\
kv-connector-fallback (house, fallback-v1)
  0.22.0–0.24.0: message: "a KV connector ({kv_transfer_config.kv_connector}) keeps this engine on
  V1"; before: "a KV connector ({kv_transfer_config.kv_connector}) keeps this deployment on V1"
  remedy: "remove `--kv-transfer-config` and `--kv-offloading-size`, or set
  `VLLM_USE_V2_MODEL_RUNNER` to 1, for V2"; before: "drop `--kv-transfer-config` and
  `--kv-offloading-size`, or set `VLLM_USE_V2_MODEL_RUNNER` to 1, for V2"
  owner: serving; before: inference-platform
  review_by: 2027-12-31; before: 2027-06-30
  also changed: why

Same runner and start, other reasons or texts: 4 classes, by kv-connector-fallback; `--full` lists
them

4 classes of deployments are affected, by kv-connector-fallback, in 4 of 83 releases
""",
}
FAST = ("narrow a house rule",)


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in EXPECTED]
)
def test_the_summary_of_an_edit_fits_a_screen(
    run: Callable[..., Done], copy_rules: Callable[[Path], Path], tmp_path: Path, name: str
) -> None:
    found = on_screen(run, copy_rules, tmp_path, name, 100)
    assert found == EXPECTED[name]
    assert len(found.splitlines()) <= MAX_LINES
    assert max(map(len, found.splitlines())) <= 100


def test_a_narrow_terminal_truncates_nothing(
    run: Callable[..., Done], copy_rules: Callable[[Path], Path], tmp_path: Path
) -> None:
    found = on_screen(run, copy_rules, tmp_path, "narrow a house rule", 80)
    assert found.split() == EXPECTED["narrow a house rule"].split()
    assert max(map(len, found.splitlines())) <= 80
