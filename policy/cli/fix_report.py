"""What the command ``fix`` prints: engines with their remedies, as JSON or a table, and unified diffs."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import typer
from msgspec import UNSET, Struct, UnsetType

from policy.cli.console import err, out, show
from policy.cli.secret_lines import SecretLines
from policy.decision.decision import encode
from policy.decision.remedy_text import switch
from policy.escaping import escape_line
from policy.problems import Problem, fault_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType


Opcode: TypeAlias = tuple[str, int, int, int, int]
CONTEXT: Final = 3
"""The lines of a diff before and after an edit."""
EQUAL_LINES: Final = 3
MAX_EDIT: Final = 64
"""The most lines of one edit in a diff; after a longer one the rest of the file is shown as replaced."""


class FixChange(Struct, frozen=True, rename={"from_": "from"}):
    """A change with its place in the file; ``written`` is the text there, absent if it is to be added."""

    argument: str | UnsetType = UNSET
    variable: str | UnsetType = UNSET
    fact: str | UnsetType = UNSET
    field: str | UnsetType = UNSET
    from_: Any = None
    to: Any = None
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET
    written: str | UnsetType = UNSET

    def in_words(self) -> str:
        """The change as a sentence says it."""
        name = next(str(each) for each in (self.argument, self.variable, self.fact, self.field) if each is not UNSET)
        if self.field is not UNSET:
            return f"vLLM {self.to} instead of {self.from_}"
        shown = f"`{name if self.written is UNSET else str(self.written).partition(chr(10))[0].strip()}`"
        if self.to is None:
            return f"drop {shown}"
        instead = "" if self.written is UNSET else f" instead of {shown}"
        if self.argument is not UNSET and isinstance(self.to, bool) and self._is_flag:
            return f"{'add' if self.to else 'pass'} `{switch(name, on=self.to)}`{instead}"
        return f"set `{name}` to {self.to if isinstance(self.to, str) else json.dumps(self.to)}{instead}"

    @property
    def _is_flag(self) -> bool:
        """Whether the place is a flag, or none; a field such as ``enable_prefix_caching: true`` takes a value."""
        return self.written is UNSET or str(self.written).removeprefix("- ").lstrip(" \"'").startswith("-")


class FixRemedy(Struct, frozen=True, rename={"purpose": "for"}):
    """Changes that together reach a purpose, and what is decided with them."""

    purpose: str
    change: list[FixChange]
    runner: str | None
    starts: bool


class UnwrittenRemedy(Struct, frozen=True):
    """Why a remedy is not written, and where its change is; the remedy is null if there is none."""

    reason: str
    line: int | None = None
    column: int | None = None
    remedy: FixRemedy | None = None


class EngineFix(Struct):
    """An engine with something to fix: ``fixes`` says what, ``remedies`` how, the cheapest first.

    ``written`` has the remedies that were written, ``unwritten`` why something is left.
    """

    file: str
    path: str
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    runner: str | None = None
    starts: bool | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    fixes: list[str] = []
    remedies: list[FixRemedy] = []
    problem: Problem | UnsetType = UNSET
    written: list[FixRemedy] | UnsetType = UNSET
    unwritten: UnwrittenRemedy | UnsetType = UNSET
    shown: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    is_done: bool | UnsetType = UNSET

    def refuse(self, unwritten: UnwrittenRemedy) -> None:
        """Say why something is not written."""
        self.unwritten = unwritten

    def wrote(self, remedy: FixRemedy) -> None:
        """Add a remedy that was written."""
        self.written = [*(self.written or []), remedy]

    def was_not_written(self, file: str, reason: str) -> None:
        """Say why the remedies of this engine are not in its file, if it is this one."""
        if self.file == file and self.written:
            self.unwritten = UnwrittenRemedy(reason, remedy=self.written[0])
            self.written = UNSET

    def public(self) -> EngineFix:
        """The engine without what only the command needs."""
        return EngineFix(
            self.file,
            self.path,
            self.kind,
            self.namespace,
            self.name,
            self.runner,
            self.starts,
            self.summary,
            self.fixes,
            self.remedies,
            self.problem,
            self.written,
            self.unwritten,
        )


def show_fixes(found: Sequence[EngineFix], *, as_json: bool, is_written: bool) -> None:
    """Print the engines: a table on a terminal, a line of JSON for each in a pipe."""
    if as_json or not out.is_terminal:
        for each in found:
            typer.echo(encode(each.public()).decode())
    else:
        for each in found:
            show(_engine(each, is_written=is_written))
    if not found:
        err.print("nothing to fix", markup=False)


def _engine(each: EngineFix, *, is_written: bool) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415  # JSON in a pipe needs no rich
    from rich.table import Table  # noqa: PLC0415  # as above
    from rich.text import Text  # noqa: PLC0415  # as above

    name = each.path if each.shown is UNSET else str(each.shown)
    parts: list[RenderableType] = [Text(escape_line(name or each.file), style="bold")]
    if isinstance(each.problem, Problem):
        return Group(*parts, *(Text(escape_line(line)) for line in fault_lines(each.problem)))
    parts.append(Text(escape_line(str(each.summary))))
    table = Table("", "for", "place", "change", "then")
    for number, remedy in enumerate(each.remedies, 1):
        places = dict.fromkeys(
            f"{each.file}:{change.line}:{change.column}" for change in remedy.change if change.line is not UNSET
        )
        table.add_row(
            str(number),
            escape_line(remedy.purpose),
            Text("\n".join(map(escape_line, places))),
            Text("\n".join(escape_line(change.in_words()) for change in remedy.change)),
            f"{(remedy.runner or '—').upper()}, {'starts' if remedy.starts else 'does not start'}",
        )
    if each.remedies:
        parts.append(table)
    for done in each.written or []:
        words = " and ".join(change.in_words() for change in done.change)
        parts.append(Text(escape_line(f"{'written' if is_written else 'would write'}: {words}")))
    if isinstance(each.unwritten, UnwrittenRemedy):
        place = "" if each.unwritten.line is None else f"{each.file}:{each.unwritten.line}:{each.unwritten.column}: "
        left = each.unwritten.remedy
        words = "" if left is None else f"{' and '.join(change.in_words() for change in left.change)}: "
        parts.append(Text(escape_line(f"not written: {words}{place}{each.unwritten.reason}")))
    return Group(*parts)


def diff_of(name: str, old: str, new: str) -> str:
    """The unified diff of a file, with its name escaped into one line; empty if nothing changed.

    Lines with secrets are not shown as the context of a change.
    """
    if old == new:
        return ""
    before, after = _lines(old), _lines(new)
    matcher: SequenceMatcher[str] = SequenceMatcher(None, [], [])
    matcher.opcodes = _opcodes(before, after)  # type: ignore[attr-defined]  # what it would compute
    shown = escape_line(name)
    parts = [f"--- {shown}\n", f"+++ {shown}\n"]
    for group in _hunks(matcher.get_grouped_opcodes(CONTEXT), SecretLines(name, old)):
        (_, start, _, begin, _), (_, _, end, _, stop) = group[0], group[-1]
        parts.append(f"@@ -{_range(start, end)} +{_range(begin, stop)} @@\n")
        for tag, i, j, k, m in group:
            if tag == "equal":
                parts += [f" {line}" for line in before[i:j]]
            else:
                parts += [f"-{line}" for line in before[i:j]] + [f"+{line}" for line in after[k:m]]
    return "".join(parts)


def _hunks(groups: Iterable[list[Opcode]], secret: SecretLines) -> Iterator[list[Opcode]]:
    """The groups, each of them ended before an equal line with a secret and continued after it."""
    for group in groups:
        hunk: list[Opcode] = []
        for tag, i, j, k, m in group:
            hidden = [at for at in range(i, j) if at in secret] if tag == "equal" else []
            if not hidden:
                hunk.append((tag, i, j, k, m))
                continue
            if hunk:
                yield [*hunk, *_equal(i, hidden[0], k - i)]
            hunk = _equal(hidden[-1] + 1, j, k - i)
        if any(tag != "equal" for tag, *_ in hunk):
            yield hunk


def _equal(start: int, end: int, ahead: int) -> list[Opcode]:
    return [("equal", start, end, start + ahead, end + ahead)] if start < end else []


def _range(start: int, end: int) -> str:
    """Lines as a unified diff states them."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _opcodes(before: list[str], after: list[str]) -> list[tuple[str, int, int, int, int]]:
    """The equal and the other lines; edits are short, so both texts are equal again a few lines after each.

    ``difflib`` compares all lines with all, which takes very long for a long file with many edits.
    """
    found: list[tuple[str, int, int, int, int]] = []
    i = k = 0
    while i < len(before) or k < len(after):
        j, m = i, k
        while j < len(before) and m < len(after) and before[j] == after[m]:
            j, m = j + 1, m + 1
        if j > i and found and found[-1][0] == "equal":
            _, start, _, begin, _ = found.pop()
            found.append(("equal", start, j, begin, m))
        elif j > i:
            found.append(("equal", i, j, k, m))
        i, k = j, m
        if i < len(before) or k < len(after):
            j, m = _again(before, after, i, k)
            found += _short(before, after, i, j, k, m)
            i, k = j, m
    return found


def _short(before: list[str], after: list[str], i: int, j: int, k: int, m: int) -> list[tuple[str, int, int, int, int]]:
    """The equal and the other lines of an edit, compared by ``difflib`` if they are few."""
    if max(j - i, m - k) > 2 * MAX_EDIT:
        return [("replace", i, j, k, m)]
    matcher = SequenceMatcher(None, before[i:j], after[k:m], autojunk=False)
    return [(tag, i + a, i + b, k + c, k + d) for tag, a, b, c, d in matcher.get_opcodes()]


def _again(before: list[str], after: list[str], i: int, k: int) -> tuple[int, int]:
    """Where the lines are equal again: for three lines, or up to the end."""
    for distance in range(1, 2 * MAX_EDIT):
        for gone in range(min(distance, len(before) - i) + 1):
            added = distance - gone
            start, begin = i + gone, k + added
            if begin <= len(after) and before[start : start + EQUAL_LINES] == after[begin : begin + EQUAL_LINES]:
                return start, begin
    return len(before), len(after)


def _lines(text: str) -> list[str]:
    """The lines with their ends; a last line without one says so, as `diff` does."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, f"{last}\n\\ No newline at end of file\n"] if last else lines
