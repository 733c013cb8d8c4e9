"""Readers that look for the places of edits in scripts and manifests, and texts that are built to make them slow."""

from __future__ import annotations

from itertools import islice
from math import isqrt
from typing import TYPE_CHECKING, Final

from hostile.families import numbered, repeated
from hostile.reader import Reader

from policy.edits.argument_places import argument_places
from policy.edits.layers import TextLayer, documents_of
from policy.edits.operations import apply, edited
from policy.edits.places import MAX_PLACES
from policy.edits.text_edits import all_text_edits
from policy.edits.variable_places import new_variable_places, variable_places
from policy.intake.command.flags import flags
from policy.remedies.changes import VARIABLE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from policy.edits.argument_places import ArgumentPlace
    from policy.edits.nodes import Node

    Family = Callable[[int], bytes]
    Find = Callable[[TextLayer, Node], Iterator[ArgumentPlace]]

FILE: Final = 32 << 20
FLAGS: Final = flags("0.33.0")
OPTION: Final = "--enable-dbo"
SERVER: Final = b'\nvllm serve m "$@" "${A1[@]}"\n'
PIN: Final = VARIABLE_NAME.encode() + b"=1 "


def _nested(depth: int) -> bytes:
    return b"".join(b" " * n + b"a: |\n" for n in range(depth)) + b" " * depth + b"b: --enable-dbo\n"


def _in_one_another(size: int) -> bytes:
    depth = range(size // len(b"ssh h <<E1000\nE1000\n"))
    opened = b"".join(b"ssh h <<E%d\n" % n for n in depth)
    return opened + SERVER + b"".join(b"E%d\n" % n for n in reversed(depth))


SCRIPTS: Final[Mapping[str, Family]] = {
    "arrays": numbered(b"A%d=(--enable-dbo)\n", after=SERVER),
    "additions to an array": repeated(b"A1+=(--enable-dbo)\n", after=SERVER),
    "lines of an array": repeated(b"\n--enable-dbo", b"A1=(", b")" + SERVER),
    "arguments that are set": repeated(b"set -- --enable-dbo\n", after=SERVER),
    "uses of arguments": repeated(b'other "$1"\n', b"set -- --enable-dbo\n", SERVER),
    "uses of arrays": numbered(b"A%d=(--enable-dbo)\nother $B\n", after=SERVER),
    "servers": repeated(b"vllm serve m --enable-dbo\n"),
    "options": repeated(b"--enable-dbo ", b"vllm serve m "),
    "options of lines": repeated(b"\\\n  --enable-dbo ", b"vllm serve m "),
    "options without a command": repeated(b";--enable-dbo", b"vllm serve m"),
    "blanks": repeated(b"; \t", after=b"--enable-dbo" + SERVER),
    "assignments of a server": repeated(PIN, after=b"vllm serve m\n"),
    "assignments of another program": repeated(PIN, after=b"other\nvllm serve m\n"),
    "assignments after another program": repeated(PIN, b"other ", b"\nvllm serve m\n"),
    "exports": repeated(b"export " + PIN + b"\n", after=SERVER),
    "one export": repeated(PIN, b"export ", SERVER),
    "variables of a container": repeated(b"-e " + PIN, b"docker run ", b"vllm/vllm-openai serve m\n"),
    "expansions": repeated(b"$(", b"vllm serve m "),
    "backquotes": repeated(b"` ", b"vllm serve m "),
    "redirections": repeated(b"2>&1 ", b"vllm serve m "),
    "exports of branches": repeated(b"{ declare -x " + PIN + b"; }\n", after=SERVER),
    "here-documents": repeated(b"cat <<-'END'\n$A don't\n\tEND\n", after=SERVER),
    "here-documents of a line": repeated(b"<<END ", b"cat ", b"\n" + SERVER),
    "here-documents without an end": numbered(b"cat <<A%d\n", after=SERVER),
    "scripts in here-documents": repeated(b"bash <<'END'\n" + PIN + b"vllm serve m --enable-dbo\nEND\n"),
    "scripts in here-documents of a line": repeated(
        b"bash <<END; cat <<END | sh;", after=b"\n" + b"END\n" * 40 + SERVER
    ),
    "here-documents of a shell": repeated(b"<<END ", b"bash -e ", b"\n" + b"END\n" * 40 + SERVER),
    "here-documents in one another": _in_one_another,
    "lines of a script in a here-document": repeated(b"$A vllm serve m\n", b"bash <<END\n", b"END\n" + SERVER),
    "lines of a here-document": repeated(b"$A\n", b"cat <<END\n", b"END" + SERVER),
}
MANIFESTS: Final[Mapping[str, Family]] = {
    "a list in brackets": repeated(b"--enable-dbo, ", b"args: [serve, ", b"z]"),
    "the end of a list in brackets": repeated(b", --enable-dbo", b"args: [serve", b"]"),
    "a list": repeated(b"- --enable-dbo\n", b"args:\n- serve\n"),
    "words before an option": repeated(b"- a\n", b"args:\n", b"- --enable-dbo\n- --enable-dbo\n"),
    "half of a list": lambda size: b"args:\n" + b"- a\n" * (size // 8) + b"- --enable-dbo\n" * (size // 32),
    "a text": repeated(b"--enable-dbo ", b"args: [bash, -c, 'vllm serve m ", b"']"),
    "a text of lines": repeated(b"    --enable-dbo \\\n", b"command: |\n  vllm serve m \\\n"),
    "a folded text": repeated(b"    --enable-dbo\n", b"command: >\n  vllm serve m\n"),
    "lists of a map": numbered(b"a%d: [x]\n"),
    "maps of a map": numbered(b"a%d: {b: c}\n"),
    "variables": numbered(b"- {name: A%d, value: --enable-dbo $B}\n", b"env:\n"),
    "texts that use arguments": repeated(b"- bash -c 'vllm serve m --enable-dbo; other $1'\n", b"args:\n"),
    "texts of YAML": repeated(b"- |\n  a: 1\n  b: --enable-dbo\n", b"args:\n"),
    "texts of YAML within each other": lambda size: _nested(isqrt(2 * size)),
    "aliases": repeated(b"- *a\n", b"a: &a [--enable-dbo]\nargs:\n"),
}


FINDS: Final[tuple[Find, ...]] = (
    lambda layer, node: argument_places(layer, node, OPTION, FLAGS, None, adds=False),
    lambda layer, node: argument_places(layer, node, OPTION, FLAGS, True, adds=True),
    lambda layer, node: variable_places(layer, node, VARIABLE_NAME, None),
    lambda layer, node: new_variable_places(layer, node, VARIABLE_NAME, "1"),
)
"""An option that is dropped and one that is added, a variable that is removed and one that is set."""


def _reading(name: str) -> Callable[[bytes], object]:
    """A reader that writes the changes of each place that is tried, and applies those of one."""

    def read(text: bytes) -> None:
        written = text.decode()
        for find in FINDS:
            layer, (document, *_) = TextLayer(written), documents_of(written, name)
            places = [*islice(find(layer, document), MAX_PLACES)]
            for place in places:
                edited(written, all_text_edits(written, place.operations or ()) or ())
            apply(next((place.operations for place in places if place.operations), []))

    return read


READERS: Final = {
    "scripts": Reader(_reading("a.sh"), FILE, SCRIPTS, counted=16_384),
    "manifests": Reader(_reading("a.yaml"), FILE, MANIFESTS, counted=16_384),
}
