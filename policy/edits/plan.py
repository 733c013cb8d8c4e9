"""Texts with the changes of some engines, verified: each engine as promised, no other one changed.

Owns the laws of an edit. The new text, read again, is the old document with just the change; the engine is decided with
the facts that it has with the change; every other engine has the facts it had.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from policy.edits.flag_words import option_of
from policy.edits.layers import TextLayer, documents_of, position
from policy.edits.operations import Splice, TextEdit, apply, edited
from policy.edits.places import places_of
from policy.edits.sources import EditedEngine, located
from policy.edits.text_edits import all_text_edits
from policy.errors import PolicyError, RequestInvalid, RulesInvalid
from policy.intake.command.flags import flags
from policy.intake.deployment import Edits
from policy.intake.manifests.compose_yaml import resolve_variables
from policy.remedies.advice import in_release

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from policy.decision.remedies import Change
    from policy.edits.argument_places import ArgumentPlace
    from policy.edits.nodes import Node
    from policy.edits.operations import Operation
    from policy.edits.sources import EditedFiles
    from policy.parser.yamltree import YamlNode
    from policy.policy import Policy
    from policy.request.request import Request

MIN_TRIES: Final = 16
MAX_TRIES: Final = 128
"""The bounds of how often all files are decided again for one command."""
MAX_DECISIONS: Final = 20_000
"""The most decisions of engines for one command, if that is more than ``MIN_TRIES`` of all."""
MAX_NODES: Final = 200_000
"""The most values of a document with anchors in which other places of a change are looked for."""
EXTENSION: Final = "x-"
"""The beginning of the names of Compose fields that exist only for anchors."""
NOT_FOUND: Final = "the text does not show where it is set"
NO_PLACE: Final = "the text does not show where it can be added"
NOT_CERTAIN: Final = "the text here cannot be edited with certainty"
OVERLAPS: Final = "another engine's change is in the same place"
SHARED: Final = "the same text is used elsewhere, which would change too"
NOT_PROMISED: Final = "with this edit the engine is not decided as promised"
TOO_MANY: Final = "too many edits could not be written; write this one by hand, or give fewer files"
NOT_READ: Final = "with this edit the file cannot be read"


class WantedChanges(Struct, frozen=True):
    """The changes of one engine that are wanted together.

    ``promised`` is the engine with them; ``None`` if the changes say all of it.
    """

    engine: EditedEngine
    changes: tuple[Change, ...]
    promised: Request | None = None


class Refusal(Struct, frozen=True):
    """The reason why nothing is written for an engine, and the place of its change, if that is known."""

    reason: str
    line: int | None = None
    column: int | None = None


class Plan(Struct):
    """The new texts, and the engines for which nothing is written, by their paths in the files."""

    texts: dict[str, str]
    refused: dict[str, Refusal]


class EngineState(Struct, frozen=True):
    """What is decided for an engine, and the arguments that are ignored, which only the text shows.

    ``is_certain`` is false if a shell may read its command in another way.
    """

    decided: tuple[Any, ...]
    ignored: list[str] = []
    is_certain: bool = True

    def is_kept(self, found: EngineState | None) -> bool:
        """Whether another state has what this one has; what is not certain may become so."""
        if found is None or (found.decided, found.ignored) != (self.decided, self.ignored):
            return False
        return found.is_certain or not self.is_certain


def state_of(policy: Policy, request: Request, today: date) -> EngineState:
    """What is decided for a request: the runner, whether it starts, the problems, the facts and all other arguments."""
    try:
        result = policy.evaluate(request, today)
    except RequestInvalid as error:
        return EngineState((str(error),))
    decision = policy.assemble(result)
    decided = (
        decision.runner,
        decision.outcome,
        decision.starts,
        len(decision.launch_errors),
        decision.startup_errors,
        [problem.rule for problem in decision.known_problems],
        result.request.release.decided_as,
        [*result.evaluation.facts.row],
    )
    if result.intake is None:
        return EngineState(decided)
    return EngineState(decided, result.intake.ignored, not result.intake.doubts)


def _without(state: EngineState, release: str, changes: Sequence[Change]) -> EngineState:
    """The state without the ignored arguments that changes are about."""
    options = {option_of(str(change.argument))[0] for change in changes if change.argument is not UNSET}
    known = flags(release)
    ignored = []
    for text in state.ignored:
        flag, _, _ = known.find(text.partition(" ")[0])
        if flag is None or flag.dest not in options:
            ignored.append(text)
    return replace(state, ignored=ignored)


def changed_request(request: Request, changes: Sequence[Change]) -> Request:
    """The request with the changes of arguments, variables and the release, but not of stated facts."""
    options: dict[str, Any] = {}
    variables: dict[str, str | None] = {}
    for change in changes:
        if change.argument is not UNSET:
            option, member = option_of(str(change.argument))
            options[f"{option}.{member}" if member else option] = change.to
        elif change.variable is not UNSET:
            variables[str(change.variable)] = change.to
        elif change.field is not UNSET:
            request = in_release(request, str(change.to))
    if request.deployment is None or not (options or variables):
        return request
    return replace(request, deployment=replace(request.deployment, edits=Edits(options, variables)))


class Planner:
    """Makes plans for some files; ``before`` has the state of each engine as it is."""

    def __init__(self, policy: Policy, sources: EditedFiles, today: date) -> None:
        self.policy = policy
        self.sources = sources
        self.today = today
        self.tries = 0
        self.plan = Plan(dict(sources.texts), {})
        self.before = self._states(sources.texts)
        self.limit = max(MIN_TRIES, min(MAX_TRIES, MAX_DECISIONS // max(len(self.before or ()), 1)))

    def write(self, wanted: Sequence[WantedChanges]) -> Plan:
        """Plan all changes that can be written: those of all engines at once, or else of fewer at a time."""
        pending = [[*wanted]] if wanted else []
        while pending:
            group = pending.pop()
            if self.tries >= self.limit:
                self.plan.refused.update({_key(each.engine): Refusal(TOO_MANY) for each in group})
                continue
            failed = self._try(group, 0)
            if not failed:
                continue
            if len(group) == 1:
                self._try_others(group[0], next(iter(failed.values())))
                continue
            without = {key for key, refusal in failed.items() if refusal.reason in {NOT_FOUND, NO_PLACE}}
            self.plan.refused.update({key: failed[key] for key in without})
            left = [each for each in group if _key(each.engine) not in failed]
            alone = [[each] for each in group if _key(each.engine) in failed.keys() - without]
            if len(left) == len(group):  # another engine changed, and which edit changed it is not known
                half = len(group) // 2
                pending += [group[half:], group[:half]]
            else:
                pending += alone + ([left] if left else [])
        return self.plan

    def _try_others(self, wanted: WantedChanges, refusal: Refusal) -> None:
        """Try the other places where one engine's changes can be made; store the refusal if none works."""
        choice = 1
        while refusal.reason in {NOT_PROMISED, SHARED, NOT_CERTAIN, NOT_READ} and self.tries < self.limit:
            failed = self._try([wanted], choice)
            if not failed:
                return
            if next(iter(failed.values())).reason in {NOT_FOUND, NO_PLACE}:
                break
            choice += 1
        self.plan.refused[_key(wanted.engine)] = refusal

    def _try(self, group: Sequence[WantedChanges], choice: int) -> dict[str, Refusal]:
        """Write the changes of a group if all laws hold, otherwise nothing; return what failed, by engine."""
        self.tries += 1
        texts = dict(self.plan.texts)
        for number in range(max(len(each.changes) for each in group)):
            by_file: dict[str, list[tuple[EditedEngine, Change]]] = {}
            for each in group:
                if number < len(each.changes):
                    by_file.setdefault(each.engine.file, []).append((each.engine, each.changes[number]))
            for file, changes in by_file.items():
                found = self._edit(file, texts[file], changes, choice)
                if isinstance(found, dict):
                    return found
                texts[file] = found
        promised = {
            _key(each.engine): state_of(
                self.policy, each.promised or changed_request(each.engine.request, each.changes), self.today
            )
            for each in group
        }
        after = self._states(texts)
        if after is None:
            return {"": Refusal(NOT_READ)}
        by_key = {_key(each.engine): each for each in group}
        wrong = [key for key, state in promised.items() if not _is_same(after.get(key), state, by_key[key])]
        if wrong:
            return {key: self._refusal(NOT_PROMISED, by_key[key], choice) for key in wrong}
        others = {key: state for key, state in (self.before or {}).items() if key not in promised}
        if len(after) > len(others) + len(promised) or not all(
            each.is_kept(after.get(key)) for key, each in others.items()
        ):
            return {"": self._refusal(SHARED, group[0], choice)}
        self.plan.texts, self.before = texts, after
        return {}

    def _refusal(self, reason: str, wanted: WantedChanges, choice: int) -> Refusal:
        """A refusal with the place of an engine's first change."""
        text = self.plan.texts[wanted.engine.file]
        place = place_in(text, documents_of(text, wanted.engine.file), wanted.engine, wanted.changes[0], choice)
        return Refusal(reason) if place is None else Refusal(reason, *position(text, place.offset))

    def _states(self, texts: dict[str, str]) -> dict[str, EngineState] | None:
        try:
            engines = self.sources.engines(texts)
        except PolicyError:
            return None
        return {
            each[0] if isinstance(each, tuple) else _key(each): EngineState((str(each[1]),))
            if isinstance(each, tuple)
            else state_of(self.policy, each.request, self.today)
            for each in engines
        }

    def _edit(
        self, file: str, text: str, changes: Sequence[tuple[EditedEngine, Change]], choice: int
    ) -> str | dict[str, Refusal]:
        """The text of a file with one change for each engine, or the engines for which it cannot be written."""
        try:
            documents = documents_of(text, file)
        except RulesInvalid:
            return {_key(engine): Refusal(NOT_CERTAIN) for engine, _ in changes}
        edits: list[TextEdit] = []
        written: set[TextEdit] = set()
        operations: list[Operation] = []
        failed: dict[str, Refusal] = {}
        for engine, change in changes:
            place = place_in(text, documents, engine, change, choice)
            if place is None:
                is_new = change.to is not None and change.from_ is None
                failed[_key(engine)] = Refusal(NO_PLACE if is_new else NOT_FOUND)
                continue
            new = all_text_edits(text, place.operations or ())
            if not place.operations or new is None:
                failed[_key(engine)] = Refusal(NOT_CERTAIN, *position(text, place.offset))
                continue
            if written.issuperset(new):
                continue  # an anchor that another engine shares, and changes in the same way
            if _overlap(edits, new):
                failed[_key(engine)] = Refusal(OVERLAPS, *position(text, place.offset))
                continue
            edits = sorted(edits + new)
            written.update(new)
            operations += place.operations
        if failed:
            return failed
        if "&" in text and not self._is_only_of_engines(file, documents, operations):
            return {_key(changes[0][0]) if len(changes) == 1 else "": Refusal(SHARED, *position(text, edits[0].start))}
        changed = edited(text, edits)
        if apply(operations) and self._is(file, changed, documents):
            return changed
        first = Refusal(NOT_CERTAIN, *position(text, edits[0].start))
        return {_key(changes[0][0]) if len(changes) == 1 else "": first}

    def _is_only_of_engines(self, file: str, documents: Sequence[Node], operations: Sequence[Operation]) -> bool:
        """Whether what operations change is in one place, or by aliases only in engines, which are decided again."""
        changed = {id(each.node if isinstance(each, Splice) else each.parent) for each in operations}
        found = self.sources.engines(self.plan.texts)
        engines = [each.steps for each in found if isinstance(each, EditedEngine) and each.file == file]
        places: dict[int, list[tuple[str, ...]]] = {}
        pending: list[tuple[YamlNode, tuple[str, ...]]] = [(each, (str(n),)) for n, each in enumerate(documents)]
        for _ in range(MAX_NODES):
            if not pending:
                break
            node, steps = pending.pop()
            if id(node) in changed:
                places.setdefault(id(node), []).append(steps)
            elif isinstance(node.value, dict):
                pending += [(child, (*steps, key)) for key, child in node.value.items()]
            elif isinstance(node.value, list):
                pending += [(child, (*steps, str(n))) for n, child in enumerate(node.value)]
        several = [steps for all_steps in places.values() if len(all_steps) > 1 for steps in all_steps]
        return not pending and all(
            (steps[1:2] and steps[1].startswith(EXTENSION)) or any(steps[: len(each)] == each for each in engines)
            for steps in several
        )

    def _is(self, file: str, text: str, documents: Sequence[Any]) -> bool:
        """Whether a text, read again, has these documents."""
        try:
            found = self.sources.document(file, text)
        except PolicyError:
            return False
        expected = []
        for each in documents:
            if not each.is_json:
                resolve_variables(each)
            expected.append(each.plain())
        return repr(found) == repr(expected)


def _is_same(found: EngineState | None, promised: EngineState, wanted: WantedChanges) -> bool:
    release, changes = wanted.engine.request.release.decided_as, wanted.changes
    return found is not None and _without(promised, release, changes).is_kept(_without(found, release, changes))


def place_in(
    text: str, documents: list[Any], engine: EditedEngine, change: Change, choice: int = 0
) -> ArgumentPlace | None:
    """A place of a change in a file, the nearest to the engine for 0; None if there is none."""
    layer, document, node = located(TextLayer(text), documents, engine)
    return next(islice(places_of(layer, document, node, engine, change), choice, None), None)


def _overlap(edits: Sequence[TextEdit], new: Sequence[TextEdit]) -> bool:
    for edit in new:
        at = bisect_left(edits, edit)
        before, after = edits[at - 1 : at], edits[at : at + 1]
        if (before and before[0].end > edit.start) or (after and after[0].start < edit.end):
            return True
        if (before and (before[0].start, before[0].end) == (edit.start, edit.end)) or (
            after and (after[0].start, after[0].end) == (edit.start, edit.end)
        ):
            return True
    return False


def _key(engine: EditedEngine) -> str:
    return f"{engine.file}\0{engine.path}"
