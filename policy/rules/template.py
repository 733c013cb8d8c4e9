"""The text of a rule, in which ``{fact}`` is replaced by the fact's value.

Owns the parsing and filling of such texts. A text can also contain two lists, ``{unsupported_features}`` and
``{v1_unsupported_features}``: the features of the fired ``exclude-v2`` and ``exclude-v1`` rules, separated by commas.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, takewhile
from string import Formatter
from typing import TYPE_CHECKING, Any, Final

from policy.facts.facts import to_json
from policy.facts.vocabulary import FACTS, FACTS_WITH_REQUEST, INDEX, Malformed
from policy.masking import masked
from policy.messages import quoted
from policy.rules.suggestions import suggest_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.facts.vocabulary import Fact
    from policy.parser.fields import FieldReader
    from policy.parser.yamltree import YamlNode

UNSUPPORTED: Final = "unsupported_features"
V1_UNSUPPORTED: Final = "v1_unsupported_features"
LISTS: Final = (UNSUPPORTED, V1_UNSUPPORTED)
MAX_VALUES: Final = 65_536
"""The maximum length of all values in a text, which may repeat a fact of several megabytes."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text with facts or lists; each of the ``parts`` is a literal text and the name that follows it."""

    text: str
    parts: tuple[tuple[str, str | None], ...]

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts in the text."""
        return tuple(name for _, name in self.parts if name in FACTS_WITH_REQUEST)

    @property
    def lists(self) -> tuple[str, ...]:
        """The lists in the text."""
        return tuple(name for _, name in self.parts if name in LISTS)

    @property
    def fixed(self) -> str | None:
        """The text if it contains no fact or list, else ``None``."""
        return "".join(text for text, _ in self.parts) if all(name is None for _, name in self.parts) else None

    def filled(self, row: Sequence[Any], lists: Mapping[str, Sequence[str]]) -> str:
        """The text with all values filled in, which are cut to ``MAX_VALUES`` characters in total."""
        out = []
        left = MAX_VALUES
        for text, name in self.parts:
            out.append(text)
            if name is not None:
                value = _joined(lists[name], left) if name in LISTS else format_value(row[INDEX[name]], left)
                value = masked(value)
                out.append(value)
                left = max(0, left - len(value))
        return "".join(out)


def format_value(value: object, limit: int = MAX_VALUES) -> str:
    """A value as vLLM prints it, cut after ``limit`` characters.

    Constants are as in Python, texts have no quotes, the items of a list are separated by commas, and a malformed
    variable is shown as its error.
    """
    if isinstance(value, tuple):
        return _joined([str(item) for item in to_json(value)], limit)
    text = value.error if isinstance(value, Malformed) else str(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _joined(items: Sequence[str], limit: int) -> str:
    """The items separated by commas; if that exceeds ``limit`` characters, the first items and the number of others."""
    joined = ", ".join(items)
    if len(joined) <= limit:
        return joined
    ends = accumulate(len(item) + len(", ") for item in items)
    count = sum(1 for _ in takewhile(lambda end: end <= limit, ends))
    return ", ".join([*items[:count], f"… ({len(items) - count} more)"])


def read_template(node: YamlNode | None, reader: FieldReader, facts: Mapping[str, Fact] = FACTS) -> Template | None:
    """The template of a node; names that are not in ``facts`` and unmatched braces are faults."""
    if node is None:
        return None
    whole = reader.text(node)
    if whole is None:
        return None
    try:
        parsed = list(Formatter().parse(whole))
    except ValueError:
        reader.fault(node, "unmatched brace; write `{fact}` for a value, `{{` for a brace")
        return None
    parts: list[tuple[str, str | None]] = []
    for text, name, form, conversion in parsed:
        if name is not None and (name not in facts and name not in LISTS):
            reader.fault(
                node,
                f"unknown fact {quoted('{' + name + '}')}{suggest_name(name, LISTS)}; "
                "docs/facts.md lists the facts, and `{{` is a brace",
            )
        elif form or conversion:
            reader.fault(node, f"format specifiers are not supported in a text; write `{{{name}}}`")
        else:
            parts.append((text, name))
    return Template(whole, tuple(parts))
