"""Laws of whole runs: only the promised words go, a second run changes nothing, and hostile texts do no harm."""

from __future__ import annotations

import copy
import json
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import yaml
from edits.test_fix_kinds import DEPLOYMENT, QWEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from policy.cli.fix import Fixer
from policy.cli.fix_files import Files
from policy.cli.requests import parse_documents
from policy.edits.remedies import DEFAULT, Purpose
from policy.errors import PolicyError
from policy.intake.model_finder import ModelFinder
from policy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policy.rules.catalogue import Catalogue


class Fix(Protocol):
    def __call__(self, text: str, purposes: tuple[Purpose, ...] = DEFAULT) -> tuple[str, list[str]]: ...


@pytest.fixture(scope="module")
def fix(catalogue: Catalogue, tmp_path_factory: pytest.TempPathFactory) -> Fix:
    """Plan the edits of a text; gives the new text, and why something is not written."""
    folder: Path = tmp_path_factory.mktemp("fix")
    (folder / "qwen.json").write_text(json.dumps(QWEN))
    finder = ModelFinder({"Qwen/Qwen3-8B": folder / "qwen.json"}, hub=False)
    deciding = Policy(catalogue, "0.33.0", finder.find, compile_all=False)

    def fix(text: str, purposes: tuple[Purpose, ...] = DEFAULT) -> tuple[str, list[str]]:
        path = folder / "d.yaml"
        path.write_bytes(text.encode())
        files = Files(deciding, str(path), None, None, nearest=False, recursive=False)
        fixer = Fixer(deciding, files, frozenset(purposes), date(2026, 1, 1), 1, upgrades=False)
        found = fixer.engines()
        fixer.write(found)
        reasons = [str(getattr(each.unwritten, "reason", "")) for each in found]
        return fixer.texts[str(path)], [reason for reason in reasons if reason]

    return fix


WORDS = ["--max-model-len=4096", "--max-num-seqs", "4", "--no-enable-log-requests"]
STYLES = st.sampled_from([None, "'", '"'])


@st.composite
def manifests(draw: Callable[..., Any]) -> tuple[dict[str, Any], str]:
    """A list of pods, some of which do not start, and its text in one of many styles."""
    pods = []
    for n in range(draw(st.integers(1, 3))):
        words = ["--model", "Qwen/Qwen3-8B", *WORDS[: draw(st.sampled_from([0, 1, 3, 4]))]]
        if draw(st.booleans()):
            words.insert(2 * draw(st.integers(0, 1)), "--enable-dbo")
        note = draw(st.text(st.sampled_from("aé😀:#'\"\\ \n"), max_size=12))
        container = {"name": "ü", "image": "vllm/vllm-openai:v0.33.0"}
        if draw(st.booleans()):
            container |= {"args": words}  # type: ignore[dict-item]  # a container has lists too
        else:
            script = draw(st.sampled_from([" ", " \\\n  "])).join(["exec vllm serve", *words])
            container |= {"command": ["sh", "-c", script]}  # type: ignore[dict-item]  # as above
        metadata = {"name": f"p{n}", "annotations": {"note": note}}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    document = {"apiVersion": "v1", "kind": "List", "items": pods}
    if draw(st.booleans()):
        return document, json.dumps(document, indent=draw(st.sampled_from([None, 2])), ensure_ascii=draw(st.booleans()))
    flow = draw(st.sampled_from([None, True, False]))
    text = yaml.safe_dump(
        document, default_style=draw(STYLES), default_flow_style=flow, width=draw(st.integers(20, 120))
    )
    return document, text.replace("\n", "\r\n") if draw(st.booleans()) else text


def without_word(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_word(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_word(each) for each in value if each != "--enable-dbo"]
    if isinstance(value, str) and "--enable-dbo" in value:
        return [word for word in value.replace("\\\n", " ").split() if word != "--enable-dbo"]
    return value.replace("\\\n", " ").split() if isinstance(value, str) and "exec" in value else value


@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(found=manifests())
def test_only_the_promised_words_go_and_a_second_run_changes_nothing(fix: Fix, found: tuple[Any, str]) -> None:
    document, text = found
    new, reasons = fix(text)
    assert reasons == []
    assert without_word(parse_documents(new, "d.yaml")[0]) == without_word(copy.deepcopy(document))
    assert "--enable-dbo" not in new
    assert (text == new) == ("--enable-dbo" not in text)
    assert fix(new) == (new, [])


@table("purposes", [DEFAULT, (Purpose.V2,), tuple(Purpose)], ids=["default", "v2", "all"])
@table("version", ["0.20.0", "0.23.0", "0.26.0", "0.33.0"])
@table("flag", ["--enable-dbo", "--enable-lora", "--enforce-eager"])
def test_a_second_run_changes_nothing_for_any_purpose(
    fix: Fix, purposes: tuple[Purpose, ...], version: str, flag: str
) -> None:
    text = DEPLOYMENT.replace("0.33.0", version).replace("--enable-dbo", flag)
    new, reasons = fix(text, purposes)
    assert fix(new, purposes) == (new, reasons)


HOSTILE = {
    "tabs": DEPLOYMENT.replace("            - --enable-dbo", "            -\t--enable-dbo"),
    "a key twice": DEPLOYMENT + "kind: Pod\n",
    "deep": "a: " + "[" * 60 + "]" * 60 + "\n---\n" + DEPLOYMENT,
    "an alias of itself": DEPLOYMENT + "x: &x [*x]\n",
    "aliases of aliases": "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" if n else "a0: &a0 [1]\n" for n in range(12))
    + DEPLOYMENT,
    "a long line": DEPLOYMENT + "x: '" + "'' " * 20_000 + "'\n",
    "many documents": "---\n".join([DEPLOYMENT, *["a: 1\n"] * 2_000]),
    "many words": DEPLOYMENT + "            - --max-num-seqs=4\n" * 2_000,
    "many quotes": DEPLOYMENT.replace("--model=Qwen/Qwen3-8B", "--model=Qwen/Qwen3-8B").replace(
        "- '--max-model-len'", '- "sh -c \\"' + "'$(" * 2_000 + '"'
    ),
    "a block": DEPLOYMENT + "x: |2\n" + "      - --enable-dbo\n\n" * 2_000,
    "folded": DEPLOYMENT + "x: >+\n" + "   --enable-dbo  a\n\n\n" * 2_000,
    "nothing": "# only a comment\n",
    "controls": DEPLOYMENT.replace("# two streams", "# \x85 \u2028 two"),
}


@table("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_edited_only_where_the_word_is(fix: Fix, text: str) -> None:
    try:
        new, _ = fix(text)
    except PolicyError:
        return
    assert new in {text, *(text.replace(f"            - {word}   # faster\n", "") for word in ("--enable-dbo",))} | {
        text.replace("            -\t--enable-dbo   # faster\n", "")
    }
