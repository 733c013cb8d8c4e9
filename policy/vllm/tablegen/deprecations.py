"""`python -m policy.vllm.tablegen.deprecations FOLDER`: the flags that a release takes but calls deprecated.

Reads the help of each flag, the texts below the fields of the configuration classes, and the warnings that name a flag
or a field. Only a sentence about the flag itself counts: `SUBJECT is deprecated`, or one that begins with `Deprecated`.
What such a sentence says to use instead is kept only if the release has it. Nothing is concluded from other prose.

FOLDER has a folder for each release, such as `0.33.0/`, which contains `vllm/`. The rows of releases that it does not
have stay. `policy.intake.command.deprecated_flags` describes the rows.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.version import Version

from policy.intake.model.tables import DEPRECATIONS, TABLES_FOLDER, releases_with_flags
from policy.vllm.tablegen.arguments import flag_texts
from policy.vllm.tablegen.flag_texts import docstrings, text_of
from policy.vllm.tablegen.history import read_history, write_history
from policy.vllm.tablegen.modules import SourceDefinition, World
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from policy.vllm.tablegen.flag_texts import FlagTexts
    from policy.vllm.tablegen.modules import Module

ABOUT_COMMANDS: Final = frozenset({"model"})
"""Flags whose warning is about one command: `--model` is deprecated after `vllm serve` only."""
ENGINE: Final = "vllm.engine.arg_utils"
WARNING_MODULES: Final = (ENGINE, "vllm.utils", "vllm.utils.argparse_utils", "vllm.config")
"""The modules whose warnings may be about a flag, each with the modules below `vllm.config`."""
WARNING_CALLS: Final = frozenset({"warning", "warning_once", "warn", "deprecated", "print_warning_once"})
MAX_DEPTH: Final = 2
"""How deep the fields of an object are read: `compilation_config.pass_config.enable_fusion` is two deep."""

DEPRECATION_MARK: Final = re.compile(r"[\[(]?(?:DEPRECATED|Deprecated)\b")
SUBJECT: Final = re.compile(
    r"(?:The |argument )?[`'\"]*(?P<name>-{0,2}[A-Za-z_][\w.-]*)[`'\"]*(?: option| flag| field| parameter| argument)?"
    r" (?:will be deprecated|(?:is|has been) (?:deprecated|replaced|renamed)|will be removed)\b"
)
END: Final = re.compile(r"\.\)? (?=[A-Z`'\"(\[-]|[a-z]+_\w+ )|(?<=[a-z.])(?= ?\(DEPRECATED)")
"""The end of a sentence; some are followed by a bracket at once."""
THIS: Final = re.compile(r"(?:Warning: )?This (?:option|flag|field|parameter|argument) is deprecated\b")
FOLLOWS: Final = re.compile(r"(?i)\bremoved in|\bno effect|\buse |\bset |will be removed")
REMOVAL_RELEASE: Final = re.compile(r"removed in (?:version )?v?(\d+\.\d+(?:\.\d+)?)\b")
INSTEAD: Final = re.compile(
    r"(?i)(?:(?:^|[.,;] ?|please )use|replaced (?:by|with)|renamed to|alias for) (?:the )?(?P<what>.{1,200}?)"
    r"(?=,| instead| to | line argument|$)"
)
WORD: Final = re.compile(r"(?P<quote>[`'\"]?)(?P<name>-{0,2}[A-Za-z_][\w-]*(?:\.[A-Za-z_]\w*)*)")


def deprecations(world: World) -> dict[str, object]:
    """The deprecated flags of a release, and the deprecated fields of their objects, as `flag.field`."""
    flags = flag_texts(world)
    members = {dest: dict(_members(world, row.klass, MAX_DEPTH)) for dest, row in flags.items() if row.klass}
    known = _known(flags, members)
    named, engine = list(_warnings(world, _modules(world))), list(_warnings(world, [ENGINE]))
    found: dict[str, object] = {}
    for dest, row in flags.items():
        if dest in ABOUT_COMMANDS:
            continue
        flag_names = {flag for flag in row.flags if flag.startswith("--")}
        field_names = {*(flag.lstrip("-") for flag in row.flags), dest}
        made = _best(
            *(deprecation(text, flag_names, {}, known) for text in named),
            *(deprecation(text, field_names, {}, known) for text in engine),
            *(deprecation(text, {row.field}, {}, known) for text in _own_warnings(world, row.field_of)),
            deprecation(row.help, flag_names | field_names | {row.field}, {}, known, is_own=True),
        )
        if made is None and row.deprecated:
            made = {"text": _squeezed(row.help) or None}
        if made is not None:  # then a bare name in any warning is certainly this flag's
            made = _best(made, *(deprecation(text, field_names, {}, known) for text in named))
        if made is not None:
            found[dest] = made
        for path, (warned, text) in members.get(dest, {}).items():
            prefix, _, name = path.rpartition(".")
            siblings = {each: f"{row_flag(row)}.{each}" for each in members[dest]}
            near = {each.rpartition(".")[2]: shown for each, shown in siblings.items() if each.startswith(prefix)}
            meant = siblings | near
            made = _best(
                *(deprecation(each, {name}, meant, known) for each in warned),
                deprecation(text, {name}, meant, known, is_own=True),
            )
            if made is not None:
                found[f"{dest}.{path}"] = made
    return found


def row_flag(row: FlagTexts) -> str:
    """The long spelling of a flag."""
    return next((flag for flag in row.flags if flag.startswith("--")), row.flags[0])


def deprecation(
    text: str, names: Collection[str], siblings: Mapping[str, str], known: Mapping[str, str], *, is_own: bool = False
) -> dict[str, object] | None:
    """What a text says about the flag or field with one of these names; None if it does not call it deprecated.

    ``siblings`` and ``known`` map the names that can be meant as a replacement to the words that set it. ``is_own``:
    the text is the flag's help, which need not name it.
    """
    text = _squeezed(text)
    if "eprecat" not in text and "DEPRECAT" not in text and "replaced" not in text and "will be removed" not in text:
        return None
    sentences = _sentences(text)
    first = next((index for index, each in enumerate(sentences) if _is_about(each, names, is_own=is_own)), None)
    if first is None:
        return None
    last = first + 1
    while last < len(sentences) and FOLLOWS.search(sentences[last]) is not None:
        last += 1
    said = _joined(text, sentences[first:last])
    removed = REMOVAL_RELEASE.search(said)
    row: dict[str, object] = {"text": said}
    if removed is not None:
        row["removed_in"] = removed[1]
    instead = list(dict.fromkeys(_replacements(said, names, siblings, known)))
    return row | ({"replaced_by": instead} if instead else {})


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _sentences(text: str) -> list[str]:
    """The sentences of a text; a bracket with `DEPRECATED` begins one."""
    found, start = [], 0
    for end in END.finditer(text):
        found.append(text[start : end.end()].strip())
        start = end.end()
    return [each for each in (*found, text[start:].strip()) if each]


def _joined(text: str, sentences: Sequence[str]) -> str:
    start = text.index(sentences[0])
    said = text[start : text.index(sentences[-1], start) + len(sentences[-1])]
    return said[1:].removesuffix(")") if said.startswith("(DEPRECATED.") else said


def _is_about(sentence: str, names: Collection[str], *, is_own: bool) -> bool:
    if is_own and (DEPRECATION_MARK.match(sentence) is not None or THIS.search(sentence) is not None):
        return True
    subject = SUBJECT.match(sentence)
    return subject is not None and (subject["name"] in names or subject["name"].lower() in names)


def _replacements(
    said: str, names: Collection[str], siblings: Mapping[str, str], known: Mapping[str, str]
) -> Iterator[str]:
    for clause in INSTEAD.finditer(said):
        for number, word in enumerate(WORD.finditer(clause["what"])):
            name = word["name"].rstrip(".")
            if name in names or not (number == 0 or word["quote"] or "_" in name or name.startswith("--")):
                continue
            shown = siblings.get(name) or known.get(name)
            if shown is not None:
                yield shown


def _best(*rows: dict[str, object] | None) -> dict[str, object] | None:
    """The first of the rows that say most."""
    return max((row for row in rows if row is not None), key=len, default=None)


def _known(flags: Mapping[str, FlagTexts], members: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The names of flags and of their objects' fields, with the words that set them."""
    found: dict[str, str] = {}
    for dest, row in flags.items():
        long = row_flag(row)
        found |= dict.fromkeys((dest, *row.flags), long)
        for path in members.get(dest, ()):
            found |= {f"{dest}.{path}": f"{long}.{path}", f"{long}.{path}": f"{long}.{path}"}
    return found


def _members(
    world: World, klass: SourceDefinition | None, depth: int, prefix: str = ""
) -> Iterator[tuple[str, tuple[list[str], str]]]:
    """The fields of a class, each with the warnings of the class and its own text, and those of its fields' classes."""
    for part in _lineage(world, klass):
        assert isinstance(part.node, ast.ClassDef)
        texts, warned = docstrings(part), _own_warnings(world, part)
        for node in part.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                yield f"{prefix}{name}", (warned, texts.get(name, ""))
                if depth > 1 and isinstance(node.annotation, ast.Name):
                    inner = world.find(part.module, node.annotation.id)
                    if isinstance(inner, SourceDefinition):
                        yield from _members(world, inner, depth - 1, f"{prefix}{name}.")


def _lineage(world: World, klass: SourceDefinition | None) -> Iterator[SourceDefinition]:
    if klass is None or not isinstance(klass.node, ast.ClassDef):
        return
    yield klass
    for base in klass.node.bases:
        parent = world.find(klass.module, base.id) if isinstance(base, ast.Name) else None
        if isinstance(parent, SourceDefinition):
            yield from _lineage(world, parent)


def _own_warnings(world: World, klass: SourceDefinition | None) -> list[str]:
    """The warnings in the class that has a field."""
    return [] if klass is None else list(_texts_in(world, klass.module, klass.node))


def _modules(world: World) -> list[str]:
    """The modules whose warnings can name a flag."""
    below = (path.removesuffix(".py").replace("/", ".") for path in world.reading.under("vllm/config/"))
    return [*WARNING_MODULES, *(name for name in below if not name.endswith("__init__"))]


def _warnings(world: World, modules: Sequence[str]) -> Iterator[str]:
    for name in modules:
        module = world.module(name)
        if module is not None:
            yield from _texts_in(world, module, module.tree)


def _texts_in(world: World, module: Module, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[text, *_]) if name in WARNING_CALLS:
                found = text_of(world, module, text)
                if found:
                    yield found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table of the releases in a folder, or compare it; returns 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="do not write, but compare with the table")
    options = parser.parse_args(arguments)
    path = TABLES_FOLDER / f"{DEPRECATIONS}.jsonl"
    releases = releases_with_flags()
    tables: dict[str, Mapping[str, object]] = dict(read_history(path, releases))
    folders = sorted(
        (each for each in options.folder.iterdir() if (each / "vllm").is_dir()), key=lambda p: Version(p.name)
    )
    differing = []
    for folder in folders:
        made = deprecations(World(SourceReader(FolderSource(folder))))
        if made != tables.get(folder.name):
            differing.append(folder.name)
        tables[folder.name] = made
        sys.stderr.write(f"{folder.name}: {len(made)} deprecated\n")
    if not options.check:
        write_history(path, tables)
    elif differing:
        sys.stdout.write(f"{path.name}: the sources of {', '.join(differing)} say something else\n")
    return 1 if options.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
