"""What an edit changes in the rules themselves, in words: fields, ranges, named conditions, added and removed rules."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import yaml
from ruletexts import rule_text
from tables import table

from policy.rules.catalogue import load
from policy.rules.change_texts import entry
from policy.rules.changes import catalogue_changes
from policy.rules.loader import Sources
from policy.rules.wording import Wording

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue

KNOWN = ["0.22.0", "0.22.1", "0.23.0", "0.24.0"]
MOE: dict[str, Any] = {"model_config.is_moe": True}
HOUSE = {
    "owner": "inference",
    "review_by": "2027-01-31",
    "blocked_by": "https://example.org/1",
    "why": "Because.",
    "remedy": "none",
}


def catalogue(known: list[str] = KNOWN, **rules: str) -> Catalogue:
    """A catalogue of rules by path, with ``__`` for a slash, and one rule that always decides."""
    texts = {f"{name.replace('__', '/').replace('_', '-')}.yaml": text for name, text in rules.items()}
    releases = yaml.safe_dump({"known": known, "default": known[0]})
    return load(Sources({"releases.yaml": releases, "upstream/v2.yaml": rule_text("v2", "default-v2"), **texts}))


def lines(before: Catalogue, after: Catalogue) -> list[str]:
    """The changes as a terminal shows them; a new release is compared with the last one before it."""
    known = after.releases.known
    compared = {release: before.releases.resolve(release, nearest=True).decided_as for release in known}
    wording = Wording(str)
    entries = [entry(change, known, wording) for change in catalogue_changes(before, after, compared)]
    return [line for title, changes in entries for line in (title, *(f"  {each}" for each in changes))]


def moe(when: Any = MOE, **members: Any) -> Catalogue:
    return catalogue(upstream__moe=rule_text("moe", "not-default", when, **members))


def house(**members: Any) -> Catalogue:
    return catalogue(house__moe=rule_text("moe", "fallback-v1", MOE, **{**HOUSE, **members}))


def ranges(*parts: tuple[str, Any]) -> list[dict[str, Any]]:
    """Ranges with their conditions; one object twice would be written as an anchor, which rules do not have."""
    return [{"vllm": vllm, "message": "words", "when": deepcopy(when)} for vllm, when in parts]


def advice(**members: Any) -> Catalogue:
    return catalogue(
        upstream__a=rule_text("a", "advise", MOE, **members), upstream__moe=rule_text("moe", "not-default")
    )


CONDITION = "id: named\nwhy: Because.\nreleases: [{vllm: '>=0.22', when: {model_config.is_moe: %s}}]\n"


def with_condition(value: str, line: str = "") -> Catalogue:
    rule = line + rule_text("moe", "not-default", {"uses": "named"})
    return catalogue(upstream__conditions__named=CONDITION % value, upstream__moe=rule)


HEAD, HOUSE_HEAD, ADVICE_HEAD = (
    "moe (upstream, not-default)",
    "moe (house, fallback-v1)",
    "a (upstream, advise)",
)


@table(
    ("before", "after", "expected"),
    [
        (moe(), moe(), []),
        (moe(), moe({"all": [MOE]}), []),
        (with_condition("true"), with_condition("true", "# a comment\n"), []),
        (
            catalogue(),
            moe(),
            [f"{HEAD}: new, 0.22.0–0.24.0: if model_config.is_moe is true"],
        ),
        (
            moe("always", vllm=">=0.23"),
            catalogue(),
            [f"{HEAD}: removed, 0.23.0–0.24.0: always"],
        ),
        (
            moe(vllm=">=0.22,<0.24"),
            moe(vllm=">=0.23"),
            [
                HEAD,
                "  0.22.0–0.22.1: no longer in force; before: if model_config.is_moe is true",
                "  0.24.0: now in force, if model_config.is_moe is true",
                "  range: >=0.23; before: >=0.22,<0.24",
            ],
        ),
        (
            moe(releases=ranges((">=0.22,<0.23", MOE), (">=0.23", MOE))),
            moe(releases=ranges((">=0.22,<0.23", {"model_config.is_hybrid": True}), (">=0.23", "always"))),
            [
                HEAD,
                "  0.22.0–0.22.1: only if model_config.is_hybrid is true; before: only if model_config.is_moe is true",
                "  0.23.0–0.24.0: always; before: only if model_config.is_moe is true",
            ],
        ),
        (
            moe(),
            moe(words="others", title="Other title", why="Why not.", references=["https://example.org/2"]),
            [
                HEAD,
                "  0.22.0–0.24.0: message: others; before: words",
                "  title: Other title; before: moe",
                "  also changed: why, references",
            ],
        ),
        (
            house(),
            house(owner="serving", review_by="2027-06-30", blocked_by="https://example.org/2", remedy="wait"),
            [
                HOUSE_HEAD,
                "  remedy: wait; before: none",
                "  owner: serving; before: inference",
                "  review_by: 2027-06-30; before: 2027-01-31",
                "  blocked_by: https://example.org/2; before: https://example.org/1",
            ],
        ),
        (
            moe(),
            catalogue(upstream__default__moe=rule_text("moe", "default-v1", MOE)),
            [
                "moe (upstream, default-v1)",
                "  effect: default-v1; before: not-default",
                "  file: upstream/default/moe.yaml; before: upstream/moe.yaml",
            ],
        ),
        (
            advice(runner="v1"),
            advice(unless=["moe"], runner="v2"),
            [ADVICE_HEAD, "  0.22.0–0.24.0: unless: moe; before: none", "  0.22.0–0.24.0: runner: v2; before: v1"],
        ),
        (
            with_condition("true"),
            with_condition("false"),
            [
                "the condition named, used by moe",
                "  0.22.0–0.24.0: only if model_config.is_moe is false; before: only if it is true",
            ],
        ),
        (
            moe(),
            with_condition("true"),
            [
                HEAD,
                "  0.22.0–0.24.0: only if the condition named holds; before: only if model_config.is_moe is true",
                "the condition named, used by moe: new, 0.22.0–0.24.0: if model_config.is_moe is true",
            ],
        ),
        (
            catalogue(upstream__x=rule_text("x", "exclude-v2", MOE, order=1)),
            catalogue(
                upstream__x=rule_text("x", "exclude-v2", MOE, order=2, cleared_at_startup={"platform.is_rocm": True})
            ),
            [
                "x (upstream, exclude-v2)",
                "  0.22.0–0.24.0: cleared at startup: if platform.is_rocm is true; before: never",
                "  order: 2; before: 1",
            ],
        ),
        (
            moe(vllm=">=0.22"),
            catalogue([*KNOWN, "0.25.0"], upstream__moe=rule_text("moe", "not-default", MOE, vllm=">=0.22,<0.25")),
            [
                HEAD,
                "  0.25.0: no longer in force; before: if model_config.is_moe is true",
                "  range: >=0.22,<0.25; before: >=0.22",
            ],
        ),
        (
            catalogue(upstream__moe=rule_text("moe", "not-default", MOE, releases=ranges((">=0.22", MOE)))),
            catalogue(
                upstream__moe=rule_text(
                    "moe",
                    "not-default",
                    MOE,
                    releases=ranges((">=0.22,<0.23", MOE), (">=0.24", MOE)),
                    gaps=[{"vllm": ">=0.23,<0.24", "why": "Reverted."}],
                )
            ),
            [
                HEAD,
                "  0.23.0: no longer in force; before: if model_config.is_moe is true",
                "  range: >=0.22,<0.23, >=0.24; before: >=0.22",
                "  also changed: gaps",
            ],
        ),
    ],
)
def test_an_edit_is_described_in_words(before: Catalogue, after: Catalogue, expected: list[str]) -> None:
    assert lines(before, after) == expected
