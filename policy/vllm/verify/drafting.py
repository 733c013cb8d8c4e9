"""Draft the rules of an unknown release: what changed in vLLM's decision, and rule files to start from.

Owns the draft. It is made from observed differences: a reason that vLLM no longer gives ends its rule's range, and a
new reason becomes a rule with the fewest facts that cause it. Remaining differences are reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Final

import yaml

from policy.errors import PolicyError
from policy.policy import Policy
from policy.rules.catalogue import load
from policy.rules.loader import Sources
from policy.rules.release_list import RELEASES_FILE
from policy.rules.releases import series
from policy.rules.rule import MAX_ORDER
from policy.vllm.verify.verification import Mismatch, release_process, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from policy.vllm.verify.verification import VerificationResult

MAX_ROUNDS: Final = 6
LISTS: Final = {"unsupported_features": "exclude-v2", "v1_unsupported_features": "exclude-v1"}
FOLDERS: Final = {"exclude-v2": "v2", "exclude-v1": "v1"}


@dataclass(frozen=True, slots=True)
class RulesDraft:
    """The changes of a release since the newest known one below it.

    ``changed`` has a diff for each function and constant of the decision. ``new_reasons`` and ``removed_reasons`` are
    texts. ``before`` and ``after`` compare the release with the rules without and with the draft; their ``beyond`` is
    code that reads something that is not a fact yet. ``patch`` is a unified diff.
    """

    release: str
    known: str
    changed: dict[str, list[str]]
    new_reasons: tuple[str, ...]
    removed_reasons: tuple[str, ...]
    before: VerificationResult
    after: VerificationResult
    patch: str


def draft(
    sources: Sources, release: str, source: Path, known_source: Callable[[str], Path], cases: int, seed: int
) -> RulesDraft:
    """The draft of an unknown release; ``known_source`` returns the source of a known one.

    Raises:
        NotExtracted: the decision of either source was not found.
        PolicyError: the rules cannot be used.
    """
    known = load(sources).releases.resolve(release, nearest=True).decided_as
    with release_process(known_source(known)) as old, release_process(source) as new:
        changed = dict(_changes(old.found["code"], new.found["code"]))
        new_reasons = tuple(text for text in new.found["reasons"] if text not in old.found["reasons"])
        reasons: list[str] = new.found["reasons"]
        removed_reasons = tuple(text for text in old.found["reasons"] if text not in new.found["reasons"])
    texts = dict(sources.rules)
    texts[RELEASES_FILE] = _with_release(texts[RELEASES_FILE], release)
    before = after = verify(Policy(load(Sources(texts))), release, source, cases, seed)
    for _ in range(MAX_ROUNDS):
        improvement = next(
            _improvements(texts, after, release, reasons, lambda policy: verify(policy, release, source, cases, seed)),
            None,
        )
        if improvement is None:
            break
        texts, after = improvement
    return RulesDraft(
        release, known, changed, new_reasons, removed_reasons, before, after, _patch(sources.rules, texts)
    )


def _improvements(
    texts: dict[str, str],
    verified: VerificationResult,
    release: str,
    reasons: Sequence[str],
    verify_again: Callable[[Policy], VerificationResult],
) -> Iterator[tuple[dict[str, str], VerificationResult]]:
    """Rule files with fewer differences: edited for new and removed reasons, or without rules that are wrong alone."""
    for drop_alone in (False, True):
        edited = _edited_rules(texts, verified, release, reasons, drop_alone=drop_alone)
        if edited != texts:
            found = verify_again(Policy(load(Sources(edited))))
            if found.different < verified.different:
                yield edited, found


def _changes(old: dict[str, str], new: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            lines = unified_diff(old.get(name, "").splitlines(), new.get(name, "").splitlines(), n=1, lineterm="")
            yield name, [line for line in lines if not line.startswith(("---", "+++"))]


def _with_release(text: str, release: str) -> str:
    """The list of releases with one more; comments and layout are kept."""
    known = yaml.safe_load(text)["known"]
    last = known[-1]
    line = next(line for line in text.splitlines() if last in line and "default" not in line)
    if line.strip().startswith("-"):
        return text.replace(line, f"{line}\n{line.replace(last, release)}", 1)
    quoted = next(quoted for quoted in (f'"{last}"', f"'{last}'", last) if quoted in line)
    return text.replace(line, line.replace(quoted, f"{quoted}, {quoted.replace(last, release)}", 1), 1)


def _edited_rules(
    texts: dict[str, str], verified: VerificationResult, release: str, reasons: Sequence[str], *, drop_alone: bool
) -> dict[str, str]:
    """The rule files edited for the mismatches: ended ranges, and new reasons in the order of ``reasons``."""
    edited = dict(texts)
    paths = {yaml.safe_load(text).get("id"): path for path, text in texts.items()}
    for mismatch in verified.mismatches:
        for rule in mismatch.rules:
            if rule in paths and _is_gone(mismatch, edited[paths[rule]], drop_alone=drop_alone):
                edited[paths[rule]] = _with_end(edited[paths[rule]], release)
        for path, document in _new_rules(mismatch, release):
            document["order"] = _order(document, edited, reasons)
            edited[path] = yaml.safe_dump(_merged_rule(edited.get(path), document), sort_keys=False, width=120)
    try:
        load(Sources(edited))
    except PolicyError:
        return texts
    return edited


def _is_gone(mismatch: Mismatch, text: str, *, drop_alone: bool) -> bool:
    """Whether vLLM no longer has the rule's text, or with ``drop_alone``, the rule alone causes the mismatch."""
    document = yaml.safe_load(text)
    words = {part.get("feature", document.get("feature")) for part in document["releases"]} | {
        part.get("text", document.get("text")) for part in document["releases"]
    }
    gone = [
        text for name in LISTS for text in mismatch.rules_say.get(name, ()) if text not in mismatch.vllm.get(name, ())
    ]
    gone += [text for text in mismatch.rules_say["startup_errors"] if text not in mismatch.vllm["startup_errors"]]
    alone = (
        drop_alone
        and len(mismatch.rules) == 1
        and all(mismatch.rules_say[name] == mismatch.vllm.get(name) for name in mismatch.rules_say if name != "runner")
    )
    return alone or any(isinstance(word, str) and _matches(word, text) for word in words for text in gone)


def _matches(words: str, text: str) -> bool:
    """Whether a rule's text, with values filled in, can be equal to a text of vLLM."""
    return re.fullmatch(re.sub(r"\\\{[^}]*\\\}", ".*", re.escape(words)), text) is not None


def _with_end(text: str, release: str) -> str:
    """The rule with its open range ended before the release's series."""
    major, minor = series(release)
    return re.sub(r'(vllm: ["\x27])(>=[\d.]+)(["\x27])', rf"\g<1>\g<2>,<{major}.{minor}\g<3>", text)


def _merged_rule(earlier_text: str | None, document: dict[str, Any]) -> dict[str, Any]:
    """A drafted rule, or its earlier draft with the new condition added as an alternative."""
    if earlier_text is None:
        return document
    earlier = yaml.safe_load(earlier_text)
    (old,), (new,) = earlier["releases"], document["releases"]
    alternatives = old["when"]["any"] if list(old["when"]) == ["any"] else [old["when"]]
    if new["when"] not in alternatives:
        old["when"] = {"any": [*alternatives, new["when"]]}
    return {**earlier, "releases": [old]}


def _order(document: dict[str, Any], texts: dict[str, str], reasons: Sequence[str]) -> int:
    """The rule's position in vLLM's list: after the rule whose reason precedes its own in the release's code."""
    own = document["releases"][0]["feature"]
    literals = {"'" + own + "'", '"' + own + '"'}
    before = reasons[
        : next((n for n, reason in enumerate(reasons) if reason in literals or _matches(_plain(reason), own)), 0)
    ]
    rules = [
        rule
        for rule in (yaml.safe_load(text) for text in texts.values())
        if isinstance(rule, dict) and rule.get("effect") == document["effect"]
    ]
    used = {rule["order"] for rule in rules if rule["id"] != document["id"]}
    for reason in reversed(before):
        for rule in rules:
            if rule["id"] != document["id"] and any(
                _plain(reason) == re.sub(r"\{[^}]*\}", "{}", str(part.get("feature", rule.get("feature"))))
                for part in rule["releases"]
            ):
                return next(order for order in range(rule["order"] + 1, MAX_ORDER) if order not in used)
    return next(order for order in range(1, MAX_ORDER) if order not in used)


def _plain(reason: str) -> str:
    """The text that an expression appends, with ``{}`` for each value in it."""
    return re.sub(r"\{[^}]*\}", "{}", reason.removeprefix("f").strip("'\""))


def _new_rules(mismatch: Mismatch, release: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A rule for each reason that only vLLM gives, with the facts that cause it."""
    major, minor = series(release)
    for name, effect in LISTS.items():
        for feature in mismatch.vllm.get(name, ()):
            if feature not in mismatch.rules_say.get(name, ()):
                slug = re.sub(r"[^a-z0-9]+", "-", feature.lower()).strip("-")
                rule_id = f"draft-{FOLDERS[effect]}-{slug}"[:60].strip("-")
                document = {
                    "id": rule_id,
                    "title": feature,
                    "effect": effect,
                    "why": "A draft from the observed behaviour of the release; explain why, and check the condition.",
                    "references": [f"https://github.com/vllm-project/vllm/releases/tag/v{release}"],
                    "order": 0,
                    "releases": [
                        {
                            "vllm": f">={major}.{minor}",
                            "feature": feature.replace("{", "{{").replace("}", "}}"),
                            "when": dict(_conditions(mismatch.facts)),
                        }
                    ],
                }
                yield f"upstream/{FOLDERS[effect]}/{rule_id}.yaml", document


def _conditions(facts: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        path = f"{above}{name}"
        if path == "env":
            yield "env.VLLM_USE_V2_MODEL_RUNNER", "present"
        elif isinstance(value, dict) and value:
            yield from _conditions(value, f"{path}.")
        elif isinstance(value, dict):
            yield path, "present"
        elif isinstance(value, list):
            yield path, {"has_any_of": value} if value else "absent"
        elif type(value) is int:
            yield path, {"at_least": value}
        else:
            yield path, "absent" if value is None else value


def _patch(before: dict[str, str], after: dict[str, str]) -> str:
    lines: list[str] = []
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            old, new = (texts.get(path, "").splitlines(keepends=True) for texts in (before, after))
            source = f"a/rules/{path}" if path in before else "/dev/null"
            lines += unified_diff(old, new, source, f"b/rules/{path}")
    return "".join(lines)
