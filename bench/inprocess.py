"""From validated facts to the ordered list of fired rules, in this process: the ruleset compared with zen-engine.

Owns a fast use of zen-engine: its loader caches compiled content, which ``create_decision`` does not; the graph has as
few nodes as possible; facts are a prepared dict with short keys. Of several forms of the rules, the fastest counts.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import compress
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bench import cores
from bench.dialects import conditions, facts_read, plain
from bench.dialects import zen as zen_dialect
from bench.documents import different, encode
from policy.facts.vocabulary import INDEX
from policy.fastpath.request_decoder import decode_fast
from policy.request.request import read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policy.decision.ruleset import Ruleset
    from policy.facts.facts import Facts
    from policy.policy import Policy

T = TypeVar("T")
Fired = tuple[int, ...]
TRIAL: Final = 1000
BATCH: Final = 50
KEY: Final = "rules"
BARE: Final = "bare expression"


class ResultsDiffer(Exception):
    """zen-engine's result differs from the ruleset's."""


@dataclass(frozen=True, slots=True)
class EngineComparison:
    """Microseconds for one list of fired rules of a release; ``bare`` is zen-engine's expression evaluated alone.

    ``ratio`` is zen-engine's time divided by the ruleset's, in the median of the rounds.
    """

    release: str
    conditions: int
    documents: int
    fired: float
    ours: float
    zen: float
    ratio: float
    form: str
    bare: float


def available() -> bool:
    """Whether zen-engine is installed."""
    return find_spec("zen") is not None


def compare(policy: Policy, release: str, seed: int, count: int, rounds: int) -> EngineComparison:
    """Medians of interleaved rounds over documents that all differ in the facts that the release reads.

    Raises:
        ResultsDiffer: the lists of a document differ.
    """
    ruleset = policy.ruleset(release)
    names = facts_read(ruleset.rules)
    keys = {name: f"c{index}" for index, name in enumerate(names)}

    def read(document: dict[str, Any]) -> dict[str, Any]:
        row = read_request(document, policy.releases).facts.row
        return {keys[name]: plain(row[INDEX[name]]) for name in names}

    found = different(seed, count, (release,), lambda document: repr(read(document)))
    expected = []
    forms = _forms(ruleset, keys)
    for document in found:
        facts = read_request(document, policy.releases).facts
        expected.append(ruleset.fired(facts))
        context = read(document)
        for name, evaluate in forms.items():
            if evaluate(context) != expected[-1]:
                raise ResultsDiffer(f"{name}: expected {expected[-1]}, got {evaluate(context)} for {document}")

    def fire(facts: Facts) -> Fired:
        return ruleset.fired(facts)

    def facts_of(document: dict[str, Any]) -> Facts:
        return (decode_fast(encode(document), policy.releases) or read_request(document, policy.releases)).facts

    with cores.pinned(cores.SERVER):
        trial = {name: time_calls(evaluate, read, found[:TRIAL]) for name, evaluate in forms.items() if name != BARE}
        form = min(trial, key=trial.__getitem__)
        ours, zen, bare = zip(
            *(
                (
                    time_calls(fire, facts_of, found),
                    time_calls(forms[form], read, found),
                    time_calls(forms[BARE], read, found),
                )
                for _ in range(rounds)
            ),
            strict=True,
        )
    mean = sum(map(len, expected)) / count
    ratio = median(theirs / own for own, theirs in zip(ours, zen, strict=True))
    return EngineComparison(
        release, len(conditions(ruleset.rules)), count, mean, median(ours), median(zen), ratio, form, median(bare)
    )


def time_calls(call: Callable[[Any], Any], prepare: Callable[[T], Any], documents: Sequence[T]) -> float:
    """Microseconds of processor time per call, without the preparation of its argument.

    Other programs do not add to it, and both engines work in the calling thread. Arguments are prepared a few at a
    time, so that they are still in the processor's cache, as in a service. The garbage collector is off, because the
    garbage is the benchmark's and not the engines'.
    """
    seconds = 0.0
    gc.collect()
    gc.disable()
    for start in range(0, len(documents), BATCH):
        arguments = [prepare(document) for document in documents[start : start + BATCH]]
        began = process_time()
        for argument in arguments:
            call(argument)
        seconds += process_time() - began
    gc.enable()
    return 1e6 * seconds / len(documents)


def _forms(ruleset: Ruleset, keys: dict[str, str]) -> dict[str, Callable[[dict[str, Any]], Fired]]:
    import zen  # noqa: PLC0415  # it may be missing

    dialect = zen_dialect(keys)
    expressions = [(number, dialect.translate(condition)) for number, condition in conditions(ruleset.rules)]
    numbers = [number for number, _ in expressions]
    every = "[" + ", ".join(text for _, text in expressions) + "]"
    table = {
        "hitPolicy": "collect",
        "inputs": [{"id": "when", "name": "when"}],
        "outputs": [{"id": "rule", "name": "rule", "field": "rule"}],
        "rules": [{"_id": str(number), "when": text, "rule": str(number)} for number, text in expressions],
    }
    content = {
        "decision table": _graph("decisionTableNode", table),
        "one list of booleans": _graph(
            "expressionNode", {"expressions": [{"id": "held", "key": "held", "value": every}]}
        ),
    }
    engines: dict[str, Any] = {
        name: zen.ZenEngine({"loader": {"type": "static", "content": {KEY: graph}}}) for name, graph in content.items()
    }
    by_table, by_list = engines["decision table"].evaluate, engines["one list of booleans"].evaluate
    bare = zen.compile_expression(every).evaluate
    return {
        "decision table": lambda context: tuple([row["rule"] for row in by_table(KEY, context)["result"]]),
        "one list of booleans": lambda context: tuple(compress(numbers, by_list(KEY, context)["result"]["held"])),
        BARE: lambda context: tuple(compress(numbers, bare(context))),
    }


def _graph(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    """A decision graph of an input and one node."""
    where = {"position": {"x": 0, "y": 0}}
    return {
        "nodes": [
            {"id": "facts", "type": "inputNode", "name": "facts", **where},
            {"id": KEY, "type": kind, "name": KEY, **where, "content": {**content, "passThrough": False}},
        ],
        "edges": [{"id": "edge", "type": "edge", "sourceId": "facts", "targetId": KEY}],
    }
