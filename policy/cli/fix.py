"""The command ``fix``: what lets engines start or avoids known problems, and with ``--write`` the edits of the files.

Owns its options, and the order of the fixes. ``policy.edits`` has the edits, ``fix_report`` shows them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import UNSET
from msgspec.structs import replace

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, DefaultOption, JsonOption, RulesOption, err, fail
from policy.cli.fix_files import Files, write_file
from policy.cli.fix_report import EngineFix, FixChange, FixRemedy, UnwrittenRemedy, diff_of, show_fixes
from policy.cli.report_options import PlatformOption, RecursiveOption
from policy.cli.requests import (
    REMEDIES,
    FolderOption,
    HubOption,
    ModelOption,
    NearestOption,
    Unreadable,
    VersionOption,
    fail_request,
    load_policy,
    models_of,
    print_warnings,
    today,
)
from policy.decision.remedies import Change, Remedy
from policy.edits.layers import Lines, documents_of
from policy.edits.plan import Planner, WantedChanges, place_in
from policy.edits.remedies import DEFAULT, Purpose, chosen, is_upgrade, purposes_of, remedies_for
from policy.errors import RequestInvalid, RulesInvalid
from policy.escaping import escape_line
from policy.masking import masked
from policy.pins.decider import PinDecider
from policy.pins.pins import VariableSource
from policy.pins.verdicts import PinVerdict
from policy.problems import Problem, request_problem
from policy.remedies.changes import VARIABLE_NAME
from policy.request.items import ManifestDecision, object_of
from policy.request.manifest import name_of
from policy.request.request import Manifest
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from policy.decision.decision import Decision
    from policy.edits.nodes import Node
    from policy.edits.plan import Refusal
    from policy.edits.sources import EditedEngine
    from policy.pins.pins import Pin
    from policy.policy import Policy

app = command_app()

MAX_ROUNDS: Final = 8
"""How often changed engines are decided again at most: an engine may have several things to fix."""
UPGRADE: Final = "the remedy is another release; `--allow-upgrade` writes the tag of vLLM's own image"
EDITABLE_SOURCES: Final = frozenset({VariableSource.VARIABLES, VariableSource.COMMAND})
"""The sources of a variable whose text can be edited."""
NO_REMEDY: Final = "no remedy was found"
NO_CHOICE: Final = "there is no remedy with this number"


@app.command()
def fix(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="What `decide` reads: a request, a manifest, a chart's values, a script, a systemd service, or a "
            "folder; `-` reads standard input.",
        ),
    ],
    recursive: RecursiveOption = False,  # noqa: FBT002  # a typer flag
    purposes: Annotated[
        list[Purpose] | None,
        typer.Option(
            "--for",
            help="What to fix; may be repeated. Default: `start` and `known-problems`. `pins` are redundant settings "
            "of VLLM_USE_V2_MODEL_RUNNER.",
        ),
    ] = None,
    write: Annotated[  # noqa: FBT002  # a typer flag
        bool, typer.Option("--write", help="Write the first remedy of each engine into its file.")
    ] = False,
    diff: Annotated[  # noqa: FBT002  # a typer flag
        bool, typer.Option("--diff", help="Print what `--write` would change, as a unified diff.")
    ] = False,
    choose: Annotated[
        int, typer.Option("--choose", metavar="N", min=1, help="Write the remedy with this number instead of 1.")
    ] = 1,
    allow_upgrade: Annotated[  # noqa: FBT002  # a typer flag
        bool, typer.Option("--allow-upgrade", help="A later release is a remedy that may be written.")
    ] = False,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    vllm_version: VersionOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Show the smallest changes that let engines start or avoid known problems, and write them.

    With `--for pins`, remove each VLLM_USE_V2_MODEL_RUNNER without which the decision is the same.

    Exits with 1 if there is something to fix. Examples: `runner-policy fix deployment.yaml --diff`,
    `runner-policy fix manifests/ --write`
    """
    if file == "-" and write:
        fail(USAGE, "--write needs a file; standard input cannot be written")
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    _, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    try:
        files = Files(policy, file, vllm_version, platform, nearest=nearest, recursive=recursive)
        fixer = Fixer(policy, files, _purposes(purposes), today(), choose, upgrades=allow_upgrade)
        with err.working("looking for remedies"):
            found = fixer.engines()
            if write or diff:
                fixer.write(found)
    except Unreadable as error:
        fail(USAGE, *error.lines)
    except RequestInvalid as error:
        fail_request(error)
    print_warnings(fixer.warnings)
    unwritten: list[str] = []
    if write:
        for name, text in fixer.texts.items():
            if text != files.read[name]:
                root = Path(file) if files.folder is not None else Path(file).parent
                why = write_file(files.path(name), files.read[name], text, root)
                if why:
                    unwritten.append(f"{escape_line(str(files.path(name)))}: not written: {why}")
                    for each in found:
                        each.was_not_written(name, why)
    if diff:
        for name, text in fixer.texts.items():
            typer.echo(diff_of(name, files.read[name], text), nl=False)
    else:
        show_fixes(found, as_json=as_json, is_written=write)
    left = unwritten + ([] if files.folder is None else files.folder.messages)
    for line in left:
        err.print(line, markup=False)
    done = write and not left and all(each.written is not UNSET and each.is_done for each in found)
    raise typer.Exit(FOUND if (found and not done) or left else 0)


def _purposes(named: list[Purpose] | None) -> frozenset[Purpose]:
    chosen = frozenset(named or DEFAULT)
    return frozenset(Purpose) if Purpose.ALL in chosen else chosen


def _removal(pin: Pin, decision: Decision) -> Remedy:
    """The removal of a redundant setting, without which the decision is the same."""
    change = Change(variable=VARIABLE_NAME, from_=pin.value, to=None)
    return Remedy(str(Purpose.PINS), [change], decision.runner, decision.starts)


class Fixer:
    """Finds what there is to fix, and plans the edits; ``texts`` are those of the files with the edits."""

    def __init__(
        self, policy: Policy, files: Files, wanted: frozenset[Purpose], day: date, choice: int, *, upgrades: bool
    ) -> None:
        self.policy, self.files, self.day = policy, files, day
        self.wanted, self.choice, self.upgrades = wanted, choice, upgrades
        self.texts: dict[str, str] = {}
        self.warnings: list[str] = []
        self.nodes: dict[str, tuple[list[Node], Lines]] = {}
        self.pins = PinDecider(policy, (), day, from_own=True)

    def engines(self) -> list[EngineFix]:
        """The engines with something to fix, and those that cannot be decided."""
        manifest, _, self.warnings = self.files.request(self.files.texts)
        found = []
        for engine in self.files.engines(self.files.texts):
            if isinstance(engine, tuple):
                path, error = engine
                problem = request_problem(error, remedies=REMEDIES)
                found.append(self._named(EngineFix("", path, problem=problem), manifest, path))
                continue
            try:
                decision, remedies = self._remedies(engine)
            except RequestInvalid as error:
                if not isinstance(manifest, Manifest):
                    raise
                problem = request_problem(error, remedies=REMEDIES)
                engine_fix = EngineFix(engine.file, engine.path, problem=problem)
                found.append(self._named(engine_fix, manifest, engine.path))
                continue
            if decision is not None:
                engine_fix = EngineFix(
                    engine.file,
                    engine.path,
                    runner=decision.runner,
                    starts=decision.starts,
                    summary=decision.summary,
                    fixes=[*purposes_of(decision, self.wanted), *(["pins"] if self._pin(engine) else [])],
                    remedies=[self._shown(engine, each) for each in remedies],
                )
                found.append(self._named(engine_fix, manifest, engine.path))
        return found

    def _named(self, engine_fix: EngineFix, manifest: object, path: str) -> EngineFix:
        """The engine with its object's names, and with its path in its own file."""
        if not isinstance(manifest, Manifest):
            return engine_fix
        kind, namespace, name = object_of(manifest, path)
        folder = self.files.folder
        engine_fix = replace(engine_fix, kind=kind, namespace=namespace, name=name, key=path)
        if folder is None:
            return replace(engine_fix, file=self.files.name, shown=name_of(manifest.document, path))
        placed = folder.placed(ManifestDecision(path, kind, namespace, name))
        problem = engine_fix.problem
        if isinstance(problem, Problem):
            problem = folder.placed_problem(path, problem)
        return replace(engine_fix, file=placed.file, path=placed.path, problem=problem, shown=folder.name_of(path))

    def _remedies(self, engine: EditedEngine) -> tuple[Decision | None, list[Remedy]]:
        """The decision of an engine with something to fix, and its remedies; None if there is nothing.

        Raises:
            RequestInvalid: it cannot be decided.
        """
        decision = self.policy.decide(engine.request, self.day)
        purposes = purposes_of(decision, self.wanted)
        pin = self._pin(engine)
        of_pin = [] if pin is None else [_removal(pin, decision)]
        if not purposes:
            return (decision if of_pin else None), of_pin
        decision = self.policy.decide(replace(engine.request, explain=True), self.day)
        keeps_v2 = Purpose.V2 in self.wanted
        found = remedies_for(decision, purposes, keeps_v2=keeps_v2)
        if self.upgrades:
            found = [*filter(is_upgrade, found), *(each for each in found if not is_upgrade(each))]
        return decision, [*found, *of_pin]

    def _pin(self, engine: EditedEngine) -> Pin | None:
        """The first redundant setting of the variable in an engine's text, if those are to be removed."""
        if Purpose.PINS not in self.wanted:
            return None
        _, pins = self.pins.decide(engine.request)
        return next(
            (pin for pin, found in pins if found.now is PinVerdict.REDUNDANT and pin.source in EDITABLE_SOURCES), None
        )

    def _shown(self, engine: EditedEngine, remedy: Remedy) -> FixRemedy:
        changes = [self._placed(engine, change) for change in remedy.change]
        return FixRemedy(remedy.purpose, changes, remedy.runner, remedy.starts)

    def _placed(self, engine: EditedEngine, change: Change) -> FixChange:
        """A change with its place in the file."""
        shown = FixChange(change.argument, change.variable, change.fact, change.field, change.from_, change.to)
        if not self.files.load(engine.file):
            return shown
        text = self.files.texts[engine.file]
        if engine.file not in self.nodes:
            try:
                self.nodes[engine.file] = documents_of(text, engine.file), Lines(text)
            except RulesInvalid:
                self.nodes[engine.file] = [], Lines("")
        documents, lines = self.nodes[engine.file]
        place = place_in(text, documents, engine, change) if documents else None
        if place is None:
            return shown
        line, column = lines.position(place.offset)
        return replace(shown, line=line, column=column, written=masked(place.written) or UNSET)

    def write(self, found: Sequence[EngineFix]) -> None:
        """Plan the edits of the engines, and say for each what is written or why nothing is."""
        by_key = {str(each.key or ""): each for each in found}
        pending = {key for key, each in by_key.items() if each.problem is UNSET}
        for _ in range(MAX_ROUNDS):
            wanted: list[WantedChanges] = []
            remedies: dict[str, Remedy] = {}
            for engine in self.files.engines(self.files.texts):
                if isinstance(engine, tuple) or engine.path not in pending:
                    continue
                each = by_key[engine.path]
                decision, options = self._remedies(engine)
                each.is_done = decision is None
                if decision is None:
                    continue
                remedy = chosen(options, self.choice, upgrades=self.upgrades)
                if remedy is None:
                    has_upgrade = len(options) >= self.choice
                    each.refuse(UnwrittenRemedy(UPGRADE if has_upgrade else NO_CHOICE if options else NO_REMEDY))
                elif self.files.load(engine.file):
                    pin = self._pin(engine) if remedy.purpose == Purpose.PINS else None
                    wanted.append(WantedChanges(engine, tuple(remedy.change), None if pin is None else pin.without))
                    remedies[engine.path] = remedy
            if not wanted:
                break
            pending = self._write(wanted, by_key, remedies)
        self.texts = self.files.texts

    def _write(
        self, wanted: Sequence[WantedChanges], by_key: dict[str, EngineFix], remedies: dict[str, Remedy]
    ) -> set[str]:
        """Change the texts, note what was written or refused, and return the paths of the changed engines."""
        shown = {each.engine.path: self._shown(each.engine, remedies[each.engine.path]) for each in wanted}
        plan = Planner(self.policy, self.files, self.day).write(wanted)
        self.files.texts = plan.texts
        self.nodes.clear()
        changed = set()
        for each in wanted:
            path = each.engine.path
            refusal: Refusal | None = plan.refused.get(f"{each.engine.file}\0{path}")
            if refusal is not None:
                by_key[path].refuse(UnwrittenRemedy(refusal.reason, refusal.line, refusal.column, shown[path]))
            else:
                by_key[path].wrote(shown[path])
                changed.add(path)
        return changed
