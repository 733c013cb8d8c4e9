"""What is known to go wrong with a runner: the fields of a rule with the effect ``known-problem``.

Owns the scales of symptoms and certainties, both worst first, and the evidence in vLLM's source, which refusals may
have too. Rules with other effects have none of these fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from policy.messages import listed, nearest, quoted
from policy.parser.fields import described

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.parser.fields import FieldReader
    from policy.parser.yamltree import YamlNode

EFFECT: Final = "known-problem"
MAX_EVIDENCE: Final = 16
EVIDENCE_FILE: Final = re.compile(r"vllm/(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+\.py")
"""The path of a Python file in vLLM's wheel."""
FINAL_RELEASE: Final = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(?:\.post[0-9]{1,9})?")


class Symptom(StrEnum):
    """What a user sees of a problem, the worst first."""

    NO_START = "no-start"
    CRASH = "crash"
    OUT_OF_MEMORY = "out-of-memory"
    WRONG_OUTPUT = "wrong-output"
    IGNORED = "ignored"
    REFUSED_REQUEST = "refused-request"
    SLOW = "slow"


class Certainty(StrEnum):
    """How a problem is known, the most certain first."""

    CODE = "code"
    CONFIRMED = "confirmed"
    REPRODUCED = "reproduced"
    REPORTED = "reported"


SYMPTOMS: Final = {
    Symptom.NO_START: "vLLM stops while it starts, later than where the runner is checked",
    Symptom.CRASH: "the engine ends while it serves",
    Symptom.OUT_OF_MEMORY: "the device runs out of memory, at the start or under load",
    Symptom.WRONG_OUTPUT: "answers are wrong",
    Symptom.IGNORED: "an option has no effect, without a word",
    Symptom.REFUSED_REQUEST: "requests are refused that the other runner takes",
    Symptom.SLOW: "throughput or latency is worse",
}
CERTAINTIES: Final = {
    Certainty.CODE: "it is in the code of these releases; `evidence` says where",
    Certainty.CONFIRMED: "a maintainer confirmed or fixed it",
    Certainty.REPRODUCED: "several users saw it, or one compared both runners",
    Certainty.REPORTED: "one report",
}
FIELDS: Final = {
    "symptom": f"what a user sees, the worst first: {listed(Symptom)}",
    "certainty": f"how it is known, the most certain first: {listed(Certainty)}",
    "fixed_in": "the release that has the fix, such as `0.29.0`; left out if there is none yet",
    "evidence": "texts in vLLM's files that hold in the releases of the range, and not all of them in any other known "
    "release; needed with `certainty: code`. Refusals may have it too, and need it with `stage: worker`",
}
"""The fields of known problems, with their meanings; of these, refusals have only ``evidence``."""
REQUIRED_FIELDS: Final = ("symptom", "certainty")

Scale = TypeVar("Scale", Symptom, Certainty)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A text that a file of vLLM has, or lacks if ``negated``; no line holds for a file that is not there."""

    file: str
    text: str
    negated: bool

    def holds(self, content: str | None) -> bool:
        """Whether it holds for the content of the file, ``None`` if there is none; blanks count as one."""
        return content is not None and (_one_line(self.text) in _one_line(content)) is not self.negated

    def __str__(self) -> str:
        """The line as a sentence."""
        return f"{self.file} {'lacks' if self.negated else 'has'} {quoted(self.text)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class ProblemDescription:
    """What a known problem looks like, how it is known, and the release that fixes it."""

    symptom: Symptom
    certainty: Certainty
    fixed_in: str | None

    @property
    def severity(self) -> int:
        """The place among problems: a worse symptom first, then the more certain problem."""
        return list(Symptom).index(self.symptom) * len(Certainty) + list(Certainty).index(self.certainty)


def read_problem(fields: Mapping[str, YamlNode], rule: YamlNode, reader: FieldReader) -> ProblemDescription | None:
    """The problem of a rule with the effect ``known-problem``; ``None`` after a fault."""
    for name in REQUIRED_FIELDS:
        if name not in fields:
            legal = listed(Symptom if name == "symptom" else Certainty)
            reader.fault(rule, f"a rule with the effect `{EFFECT}` has a `{name}`; add it; legal: {legal}")
    symptom = _on_scale(fields.get("symptom"), Symptom, "symptom", reader)
    certainty = _on_scale(fields.get("certainty"), Certainty, "certainty", reader)
    fixed_in = read_fixed_in(fields.get("fixed_in"), reader)
    return ProblemDescription(symptom, certainty, fixed_in) if symptom and certainty else None


def read_fixed_in(node: YamlNode | None, reader: FieldReader) -> str | None:
    """The release that has a fix; ``None`` for an absent node or after a fault."""
    if node is None:
        return None
    if isinstance(node.value, str) and FINAL_RELEASE.fullmatch(node.value):
        return node.value
    reader.fault(node, f'expected a release, got {described(node)}; write it as `"0.29.0"`')
    return None


def _on_scale(node: YamlNode | None, scale: type[Scale], what: str, reader: FieldReader) -> Scale | None:
    if node is None:
        return None
    if isinstance(node.value, str) and node.value in set(scale):
        return scale(node.value)
    near = nearest(node.value, list(scale)) if isinstance(node.value, str) else ""
    reader.fault(node, f"unknown {what} {quoted(node.plain())}; legal: {listed(scale)}{near}")
    return None


def read_evidence(node: YamlNode, reader: FieldReader) -> tuple[Evidence, ...]:
    """The lines of evidence, without those that have a fault."""
    found = []
    for item in reader.items(node, "evidence", MAX_EVIDENCE):
        parts = reader.fields(
            item,
            "line of evidence",
            ("file",),
            ("has", "lacks"),
            examples={"file": "vllm/v1/worker/gpu/model_runner.py"},
        )
        if not parts:
            continue
        file = reader.text(parts.get("file"))
        if file is not None and not EVIDENCE_FILE.fullmatch(file):
            reader.fault(
                parts["file"], f"expected a Python file of vLLM's wheel, such as `vllm/envs.py`, got {quoted(file)}"
            )
            file = None
        words = [word for word in ("has", "lacks") if word in parts]
        if len(words) != 1:
            reader.fault(item, "a line of evidence has either `has` or `lacks`, a text of the file; write one of them")
            continue
        text = reader.text(parts[words[0]])
        if file is not None and text is not None:
            found.append(Evidence(file, text, words[0] == "lacks"))
    return tuple(found)
