"""Why a text is not YAML, where to edit it, and what to write instead.

Owns the messages for text that PyYAML rejects. PyYAML itself names the rule of its grammar that failed, often lines
after the mistake: it reports an unclosed quote at the end of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from policy.messages import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""A line break in YAML 1.1, by which PyYAML counts lines."""
KEY: Final = re.compile(r" *+(?:- ++)*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'#,\[\]{}:][^:]*+): ++(?=\S)")
"""The beginning of a line up to the value of its first key."""
DASH: Final = re.compile(r"( *)(- +)?")
INDICATORS: Final = {
    "scanning a block scalar": "`>` and `|`",
    "scanning an alias": "`*`",
    "scanning an anchor": "`&`",
    "scanning a tag": "`!`",
    "parsing a tag": "`!`",
    "undefined tag handle": "`!`",
    "directive": "`%`",
    "YAML document": "`%`",
}
"""For parts of PyYAML's messages, the indicator characters that cannot begin a text."""
TEMPLATE: Final = re.compile(r"^[^\n\"'#{]*+(?:\{(?![{%])[^\n\"'#{]*+)*+(?=\{[{%])", re.MULTILINE)
"""The beginning of a line before an action of a template that is not in quotes."""
ACTION: Final = re.compile(r"\{[{%][^\n]{0,60}?[}%]\}")
NOT_RENDERED: Final = (
    "{} is an action of a template, which has not been rendered; send the rendered manifest, such as the output of "
    "`helm template …`, `kustomize build` or `docker compose config`"
)
MAX_KEY: Final = 1024
"""The maximum length of a key without a question mark before it."""
CLOSING_BRACKETS: Final = {"[": "]", "{": "}"}
INDENTATION: Final = "indent with spaces, like the lines beside it"


@dataclass(frozen=True, slots=True)
class YamlAdvice:
    """The position to edit, counted from 1, and what to do there."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The scanner's tokens before the error: the open brackets, and the last quoted text."""

    brackets: tuple[yaml.Token, ...]
    quoted: yaml.ScalarToken | None


def explain_template(text: str) -> YamlAdvice | None:
    """The first action of a template (`{{ … }}`, `{% … %}`) outside quotes, which YAML cannot contain, if any."""
    found = TEMPLATE.search(text)
    if found is None:
        return None
    at = found.end()
    action = ACTION.match(text, at)
    shown = "`{{`" if action is None else quoted(action[0])
    return YamlAdvice(text.count("\n", 0, at) + 1, at - found.start() + 1, NOT_RENDERED.format(shown))


def explain(text: str, error: yaml.MarkedYAMLError, loader: type, *, quotes_line: bool) -> YamlAdvice:
    """Why ``text`` cannot be parsed; ``loader`` is the class whose scanner reported the error.

    With ``quotes_line``, the message contains the corrected line; not for texts with secrets.
    """
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return YamlAdvice(1, 1, f"{error}")
    return _Explainer(text, error, mark, error.context_mark or mark, loader, quotes_line=quotes_line).explanation()


class _Explainer:
    """Explains one error: ``mark`` is where the scanner or parser stopped, ``begin`` where the failed value begins."""

    def __init__(
        self,
        text: str,
        error: yaml.MarkedYAMLError,
        mark: yaml.Mark,
        begin: yaml.Mark,
        loader: type,
        *,
        quotes_line: bool,
    ) -> None:
        self.quotes_line = quotes_line
        self.lines = BREAK.split(text)
        self.problem = " ".join(part for part in (error.context, error.problem) if part)
        self.mark, self.begin = mark, begin
        self.tokens = _tokens_before(text, mark, loader)

    def explanation(self) -> YamlAdvice:
        found = self.after(self.mark)
        if found.startswith("\t"):
            return self.at(self.mark, f"a tab where YAML expects spaces; {INDENTATION}")
        is_misplaced = "expected node content" in self.problem and not self.tokens.brackets
        if "cannot start any token" in self.problem or (is_misplaced and found):
            return self.at(self.mark, self.indicator(self.mark, "a backtick" if found[:1] == "`" else f"`{found[:1]}`"))
        for part, signs in INDICATORS.items():
            if part in self.problem:
                return self.at(self.begin, self.indicator(self.begin, signs))
        if "escape" in self.problem:
            return self.at(
                self.mark, r"an unknown escape in a text in double quotes; write `\\` for a backslash, or single quotes"
            )
        if "scanning a quoted scalar" in self.problem or "scanning a double-quoted" in self.problem:
            return self.at(self.begin, f"the quote `{self.after(self.begin)[:1]}` is not closed; close it")
        return self.structure()

    def structure(self) -> YamlAdvice:
        """The explanation of an error in the structure, where each value is complete."""
        if self.tokens.brackets:
            bracket = self.tokens.brackets[-1].start_mark
            opening = self.after(bracket)[:1]
            closing = CLOSING_BRACKETS.get(opening, "]")
            return self.at(
                bracket,
                f"the bracket `{opening}` is not closed with `{closing}`, or a comma is missing between its items",
            )
        if "expected ':'" in self.problem:
            return self.at(
                self.begin,
                "the line has no `: `; write `FIELD: VALUE` with a space after the colon, or indent it if it continues "
                "the text above",
            )
        return self.complete() if self.before(self.mark).strip(" -") else self.indentation()

    def complete(self) -> YamlAdvice:
        """The explanation of a line that continues after a complete value."""
        ended = self.tokens.quoted
        before = self.before(self.mark).rstrip()
        if before.endswith(('"', "'")) and ended is not None and ended.start_mark.line < self.mark.line:
            sign = self.after(ended.start_mark)[:1]
            return self.at(ended.start_mark, f"the quote `{sign}` is not closed on its line; close it")
        key = KEY.match(self.lines[self.mark.line])
        if "mapping values" in self.problem and (key is None or key.end() > self.mark.column):
            if self.mark.column > MAX_KEY:
                return self.at(self.mark, f"a key of more than {MAX_KEY} characters; shorten it")
            return self.indentation()
        value = self.lines[self.mark.line][key.end() if key else len(before) - len(before.lstrip(" -")) :].strip()
        why = (
            "text after the closing quote"
            if before.endswith(('"', "'"))
            else "text after the closing bracket"
            if before.endswith(("]", "}"))
            else "a colon and a space in a text"
        )
        return self.at(self.mark, f"{why}; put the whole text in quotes{self.example(value)}")

    def indentation(self) -> YamlAdvice:
        line = self.lines[self.mark.line] if self.mark.line < len(self.lines) else ""
        found = len(line) - len(line.lstrip(" "))
        levels = sorted(set(self.levels()))
        if found in levels or not levels:
            return YamlAdvice(
                self.mark.line + 1,
                found + 1,
                "the line does not continue the one above; complete that one, with a space after each colon and dash",
            )
        return YamlAdvice(
            self.mark.line + 1,
            found + 1,
            f"the line is indented by {counted(found, 'space', 'spaces')} and does not match the lines above it, "
            f"which are indented by {', '.join(map(str, levels))}; {INDENTATION}",
        )

    def levels(self) -> Iterator[int]:
        """The indentations of the maps and lists that are open before the line."""
        least = None
        for line in reversed(self.lines[: self.mark.line]):
            dash = DASH.match(line)
            if not line.strip() or line.lstrip().startswith("#") or dash is None:
                continue
            indentation = len(dash[1])
            if least is None or indentation < least:
                least = indentation
                yield indentation
                if dash[2]:
                    yield dash.end()

    def indicator(self, mark: yaml.Mark, signs: str) -> str:
        """The message for an unquoted text that begins with an indicator character."""
        example = "" if self.tokens.brackets else self.example(self.after(mark).strip())
        return f"{signs} cannot begin a text without quotes; put it in quotes{example}"

    def example(self, text: str) -> str:
        return f": {_in_quotes(text)}" if self.quotes_line and text else ""

    def after(self, mark: yaml.Mark) -> str:
        return self.lines[mark.line][mark.column :] if mark.line < len(self.lines) else ""

    def before(self, mark: yaml.Mark) -> str:
        return self.lines[mark.line][: mark.column] if mark.line < len(self.lines) else ""

    def at(self, mark: yaml.Mark, message: str) -> YamlAdvice:
        return YamlAdvice(mark.line + 1, mark.column + 1, message)


def _tokens_before(text: str, mark: yaml.Mark, loader: type) -> _Tokens:
    brackets: list[yaml.Token] = []
    last = None
    try:
        for token in yaml.scan(text, Loader=loader):
            if token.start_mark.index >= mark.index:
                break
            if isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken):
                brackets.append(token)
            elif isinstance(token, yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken):
                del brackets[-1:]
            elif isinstance(token, yaml.ScalarToken) and token.style in {"'", '"'}:
                last = token
    except yaml.YAMLError:
        pass  # the scanner stops at the error itself
    return _Tokens(tuple(brackets), last)


def _in_quotes(text: str) -> str:
    """A text in quotes; quotes around a part of it are dropped."""
    if text[:1] in {"'", '"'}:
        quote, text = text[0], text[1:]
        text = text.removesuffix(quote) if text.endswith(quote) else text.replace(quote, "", 1)
    return quoted(f'"{text}"' if '"' not in text and "\\" not in text else "'" + text.replace("'", "''") + "'")
