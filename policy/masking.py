"""Mask secrets in user input, which are recognised by the name before them or by their shape.

Answers, problems, warnings and logs repeat user input; secrets are masked in all of them in the same way.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, takewhile
from string import digits
from typing import TYPE_CHECKING, Final, Self

from policy.secret_names import HINTS as NAME_HINTS
from policy.secret_names import LOADER, as_ascii, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HIDDEN: Final = "…"
MAX_READ: Final = 2048
"""How many characters ``masked_start`` reads of a longer text."""
MAX_SHOWN: Final = 1024
"""How many it shows by default."""
MAX_MASKED: Final = 1024
"""How many characters of a value a message may need."""
MAX_CACHED: Final = 512
"""The length of the longest text that is cached; searching a warning of 300 characters takes 17 µs."""
MIN_VALUE: Final = 6
"""The length of the shortest variable's value that is hidden."""
SHORT_TOKENS: Final = (
    *("hf_", "rp_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxe-"),
    *("xoxp-", "xoxr-", "xoxs-"),
)
"""How tokens begin that six more characters show; `rp_…` are the service's own."""
LONG_TOKENS: Final = (
    *("api_org_", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "gldt-", "glrt-", "xapp-", "nvapi-", "gsk_", "r8_"),
    *("rpa_", "npm_", "pypi-", "dckr_pat_", "dckr_oat_", "dop_v1_", "hvs.", "ya29.", "glsa_", "glc_", "SG.", "shpat_"),
    *(
        "sntrys_",
        "xai-",
        "pplx-",
        "lsv2_pt_",
        "lsv2_sk_",
        "tskey-",
        "pcsk_",
        "tgp_v1_",
        "fw_",
        "AGE-SECRET-KEY-",
        "AIza",
        "AKIA",
        "ASIA",
        "dapi",
    ),
)
"""How tokens begin that sixteen more characters show."""
HEADERS: Final = frozenset({"authorization", "bearer"})
"""Single words that are no prose before a blank and a secret."""
JWT: Final = "eyJ"
"""How a JSON Web Token begins."""
TOKEN_BEGINNINGS: Final = (*SHORT_TOKENS, *LONG_TOKENS, JWT)
HINTS: Final = (
    *NAME_HINTS,
    *("@", "%", "\\u", "\\x"),
    *(start for start in map(str.lower, TOKEN_BEGINNINGS) if not any(hint in start for hint in NAME_HINTS)),
)
"""A text that contains none of these has no secret to mask."""
NAME: Final = re.compile(r"[\w.-]++")
ELEMENT_END: Final = r"""(?:[^\]\s=:`"']{0,64}["']?\]\+?=)"""
"""Matches what follows the name in a subscript, up to the value: `CFG[token]=`, `CFG[token_$i]+=`."""
QUOTE: Final = r"""(?:["'\\]|&quot;)*+"""
ASSIGNMENT: Final = re.compile(rf"""{QUOTE}(?:\s*(?:[:=]|\+=)|(?<=["'])\s*,?\s*["']|[|>]|{ELEMENT_END})""")
SEPARATOR: Final = re.compile(rf"""{QUOTE}(?:[\s:=,|>\u200b\u2060\ufeff]|(?<=\\)[nrt]|\+=|{ELEMENT_END})""")
"""What may follow a secret's name; the characters without width are not matched by ``\\s``, and blanks are escaped."""
DECLARATION: Final = re.compile(
    r"(?:\A|[\s;&|`({\"'])(?:printf\s{1,8}-\w{0,8}v\s{0,8}|(?:export|readonly|declare|typeset|local|setenv|set)\s{1,8}"
    r"(?:-[\w-]{0,8}\s{1,8}){0,4}|(?:login|machine)\s{1,8}\S{1,40}\s{1,8})[\"']?\Z"
)
"""Matches a shell's command before the name of a variable, or a field of netrc before it: a word after it may be its
value."""
MAX_DECLARATION: Final = 64
RUNNERS: Final = frozenset({"builtin", "command"})
"""A shell's commands whose first argument is the name of another one."""
RUNNERS_OPTIONS: Final = frozenset({"--", "-p", "-v", "-V", "-pv", "-pV"})
NAME_FIELD: Final = re.compile(r"""\b(?:name|key)["'\\]{0,8}\s{0,8}[:=]\s{0,8}["'\\]{0,8}([\w.-]++)""", re.IGNORECASE)
"""Matches the name of a variable in a field, as in `{"name": "HF_TOKEN"}`."""
VALUE_FIELD: Final = re.compile(r"""\bvalue["'\\]{0,8}\s{0,8}[:=]""", re.IGNORECASE)
"""Matches what precedes the variable's value, which may stand before its name."""
HEX: Final = "[0-9A-Fa-f]"
BYTE: Final = r"(?:%(?:25){0,8}+|\\{1,8}+x)"
NEXT: Final = rf"{BYTE}[89ABab]{HEX}"
ESCAPE: Final = re.compile(
    rf"(?:{BYTE}|\\{{1,8}}+u00)([0-7]{HEX})"
    rf"|({BYTE}(?:[CDcd]{HEX}|[Ee]{HEX}{NEXT}|[Ff][0-7]{NEXT}{NEXT}){NEXT})"
    rf"|\\{{1,8}}+u([Dd][89ABab]{HEX}{{2}})\\{{1,8}}+u([Dd][C-Fc-f]{HEX}{{2}})"
    rf"|\\{{1,8}}+(?:u({HEX}{{4}})|U(00(?:0{HEX}|10){HEX}{{4}}))|{BYTE}([89A-Fa-f]{HEX})"
    r"|%(?:25){0,7}(25)"
)
"""Matches an escaped character of a URL, even if escaped several times, or of a text: `%3F`, `%253D`, `\\u0077`.

Those outside ASCII are escaped as bytes of UTF-8, as units of UTF-16, or by their numbers: `%C3%BC`, `\\ud83d\\ude00`,
`\\xfc`.
"""
ESCAPED_BYTE: Final = re.compile(rf"[%x](?:25){{0,8}}+([89A-Fa-f]{HEX})")
BYTES, LOW_UNIT = 2, 4
"""The groups of `ESCAPE` with the bytes of a character, and with the second unit of one."""
EXPANSION: Final = re.compile(r"\$\{[#!]?(\w++)(?:\[[^\]]{0,64}\])?+[^\w}\[]")
"""Matches the beginning of a shell's expansion with an operator: `${NAME:-`, `${NAME/`; its word may be the value."""
SUBSTITUTION: Final = re.compile(r"[$<>]\((?!\([\w\s+*/%${}=!,-]*+\)\))|`")
"""Matches the beginning of a command within a word, `$(…)`, `<(…)` or backticks, and not of a calculation."""
MESSAGE_SUBSTITUTION: Final = re.compile(r"[$<>]\((?!\([\w\s+*/%${}=!,-]*+\)\))")
"""The same in a message, which quotes with backticks."""
PLAIN_COMMAND: Final = re.compile(r"""[^()'"`\\#]*+(?=\))""")
"""Matches a command in brackets whose end is certain: it has no quotes or other brackets."""
COMMAND_IN_BACKTICKS: Final = re.compile(r"(?:[^`\\]|\\.)*+(?=`)", re.DOTALL)
SCRIPT_FILE: Final = re.compile(r"[\w./-]++(?<=\.py|\.sh)")
UNBROKEN_TEXT: Final = re.compile(r"""[^\s"'`]++""")
"""Matches what may be a URL with a user and a password."""
ADDRESS: Final = re.compile(r"""[^\s"'`,;=()\[\]{}<>|&]++""")
"""Matches what may be `user:password@host`."""
QUOTED_USER: Final = re.compile(
    r"""//([^\s/"'`]*+["'`](?![\s,;:)\]}>"'`/]|\Z)(?:[^\s/"'`]|["'`](?![\s,;:)\]}>"'`/]|\Z))*)@"""
)
"""Matches a URL's user and password with a quote that ends no text: another character of a password is behind it."""
HOST: Final = frozenset("$[{(/_-*<")
"""What a host begins with, other than letters and digits, in an address without a scheme, such as `$(HOST)`, `[::1]`
and the path of a socket."""
ESCAPED_SLASH: Final = re.compile(r"(?<!/)/(?!/)")
PASSWORD: Final = re.compile(
    r"""(?://[^\s/@:]*+|\A[\w.+/-]*+(?=:\S*@\w)|\A[\w.+-]*+(?=:\S*@[$\[{(/_*<-]))"""
    r""":(?!//|[0-9]{1,5}(?:[/\s"'`;]|\Z))"""
)
"""Matches the user in a text that has a URL or begins with an address, and what is no port: any password may follow."""
USER_END: Final = re.compile(r"@(?!sha\d)")
"""Matches the end of a user and password; before the digest of an image is neither."""
PORT: Final = re.compile(r"[0-9]{2,5}")
"""Matches what is a port and no password, as in `kv@10.0.0.1:8000@MODEL`."""
MIN_PASSWORD: Final = 3
"""The length of the shortest password without a URL's scheme before it."""
MESSAGE_VALUE: Final = re.compile(
    rf"""((?:["'\\]{{0,4}}\s{{0,8}}(?:[:=]|\+=)|["'\\]?{ELEMENT_END})"""
    r"""\s{0,8}["'\\]{0,4}(?:(?:Basic|Bearer)\s{1,8})?|\s{1,8})([^\s"'`,;(){}\[\]…]{6})""",
    re.IGNORECASE,
)
"""What follows a secret's name within a message: a separator, and the beginning of a value."""
MESSAGE_VALUE_END: Final = re.compile(r"""[\s"'`,;(){}\[\]…]""")
"""Where the value ends, as the message goes on."""
HAS_DIGIT: Final = r"(?=[a-z_.-]{0,40}+[A-Z0-9])"
"""What distinguishes a token from ordinary words, such as `hf_config` and `pypi-mirror`: a digit or a capital."""
KNOWN_TOKEN: Final = re.compile(
    rf"\b(?:({'|'.join(map(re.escape, SHORT_TOKENS))}){HAS_DIGIT}[\w-]{{6,}}"
    rf"|({'|'.join(map(re.escape, LONG_TOKENS))}){HAS_DIGIT}[\w.-]{{16,}}"
    rf"|(?<![\w-])({JWT})[\w-]{{8,}}+\.[\w-]{{8,}}+(?:\.[\w-]*+)?)"
)

TOKEN_END: Final = re.compile("/")
"""Where a text is shown again after a token: all else may belong to it, but not what follows it in a path."""
MESSAGE_TOKEN_END: Final = re.compile("[/`]")
"""The same in a message, which quotes with backticks."""


def _takes_next(name: str) -> bool:
    """Whether a blank may separate the name from its secret: a single word such as `key` may be prose."""
    return "-" in name or "_" in name or name.lower() in HEADERS


def is_declared(text: str, at: int) -> bool:
    """Whether the name at a position is the variable of a shell's command that may set it."""
    return DECLARATION.search(text, max(0, at - MAX_DECLARATION), at) is not None


def may_have_secret(text: str) -> bool:
    """Whether ``masked`` may change the text. It is false for most texts, at a fraction of the cost."""
    # as `may_have_name`, without a call
    short = text.rstrip(digits) if text[-1:] in digits else text
    has_name = _cached_hint(short) if len(text) <= MAX_CACHED else _has_hint(text)
    return has_name or (("(" in text or "`" in text) and SUBSTITUTION.search(text) is not None)


def may_have_name(text: str) -> bool:
    """Whether the text may have a secret with a name or of a known form.

    Most flags and their values repeat, so that of short texts is cached, which takes 0.1 µs instead of 1.5. Numbers do
    not, but none of the hints ends with a digit, so that a number at the end does not matter.
    """
    short = text.rstrip(digits) if text[-1:] in digits else text
    return _cached_hint(short) if len(text) <= MAX_CACHED else _has_hint(text)


def _has_hint(text: str) -> bool:
    lower = as_ascii(text).lower()
    for hint in HINTS:  # a generator takes 0.5 µs more
        if hint in lower:
            return True
    return "-model" in lower and LOADER.search(lower) is not None


_cached_hint: Final = lru_cache(maxsize=2048)(_has_hint)


@lru_cache(maxsize=2048)
def _is_plain(text: str) -> bool:
    """Whether the text has nothing to mask, and would have nothing with a number at its end.

    ``masked`` and ``masked_message`` ask this first, which saves 1 % of the instructions to derive facts.
    """
    return "(" not in text and "`" not in text and not _has_hint(text)


class HiddenName(str):
    """A name that contains a secret: messages have it as it is ``shown``."""

    __slots__ = ("shown",)

    shown: str

    def __new__(cls, text: str, shown: str = HIDDEN) -> Self:
        """Create the name from its text and what is shown of it."""
        found = super().__new__(cls, text)
        found.shown = shown
        return found


def is_plain(text: str) -> bool:
    """Whether neither ``masked`` nor ``masked_message`` changes the text; false for a text of another type."""
    return type(text) is str and len(text) <= MAX_CACHED and _is_plain(text.rstrip(digits))


def masked(text: str) -> str:
    """The text with its secrets replaced by ``…``.

    Secrets are the user and password in a URL, tokens of known shapes, and everything after the name of a secret.
    Of a command in ``$(…)``, ``<(…)`` or backticks the beginning is kept.
    """
    text = str(text)  # a word of a script is a `str` of another type, which no encoder takes
    if (len(text) <= MAX_CACHED and _is_plain(text.rstrip(digits))) or not may_have_secret(text):
        return text
    if may_have_name(text):
        text = _without_tokens(_without_spans(*unescaped(text))[0])
    return _without_commands(text, SUBSTITUTION) if "(" in text or "`" in text else text


def masked_start(text: str, most: int = MAX_SHOWN) -> str:
    """The beginning of a text as ``masked`` shows it, at most ``most`` characters and ``…``.

    For what anybody can send at any length: of a long text only the first ``MAX_READ`` characters are read. There it is
    cut after a `/` or a blank, as the rest of a word may belong to a secret that is recognised by its end.
    """
    if len(text) > MAX_READ:
        end = max(text.rfind("/", 0, MAX_READ), text.rfind(" ", 0, MAX_READ)) + 1
        shown = f"{masked(text[:end])}{HIDDEN}"
    else:
        shown = masked(text)
    return shown if len(shown) <= most else f"{shown[:most]}{HIDDEN}"


def secret_parts(text: str) -> list[str]:
    """What ``masked`` hides in a text by the names of secrets and as users and passwords."""
    return _without_spans(*unescaped(text))[1] if may_have_name(text) else []


def users_of(text: str, *, is_script: bool = True) -> Iterator[str]:
    """The users with their passwords in the addresses of a text, and each password by itself; some several times."""
    if not _may_have_user(text):
        return
    text, plain, at = _with_users(*unescaped(text))
    for first, end in chain(_unbroken_users(plain), () if is_script else user_places(plain)):
        last = plain.rfind("//", first, end)  # of an address behind another one, or behind `jdbc:mysql:`
        for start in (first, last + len("//")) if last >= 0 else (first,):
            yield text[at[start] : at[end]]
            for colon in {plain.find(":", start, end), plain.rfind(":", start, end)} - {-1}:
                yield text[at[colon + 1] : at[end]]


def _without_spans(text: str, plain: str, at: Sequence[int]) -> tuple[str, list[str]]:
    """A text without users, passwords and what follows the name of a secret, and the texts that were left out."""
    rest = _rest(plain)
    users = list(user_places(_with_users(text, plain, at)[1])) if "@" in plain else []
    rest = min([rest, *(start for start, end in users if end > rest)])  # a password may look like the name of a secret
    spans = [*(each for each in users if each[1] <= rest), *([(rest, len(plain))] if rest < len(plain) else ())]
    kept: list[str] = []
    hidden: list[str] = []
    last = 0
    for start, end in spans:
        kept += (text[last : at[start]], HIDDEN)
        last = at[end]
        hidden.append(text[at[start] : last])
    return "".join([*kept, text[last:]]), hidden


def _rest(plain: str) -> int:
    """The position after the first name of a secret from which all of a text may be the secret; its end if none."""
    end = next((found.end() for found in EXPANSION.finditer(plain) if is_secret(found[1])), len(plain))
    value = VALUE_FIELD.search(plain)
    if value is not None and any(is_secret(found[1]) for found in NAME_FIELD.finditer(plain)):
        end = min(end, value.end())
    for found in NAME.finditer(plain, 0, end):
        name = found.group()
        if not is_secret(name):
            continue
        flag, dot, key = name.partition(".")
        if dot and key and name.startswith("-") and is_secret(flag):  # the secret may be the key after the flag
            return found.start() + len(flag) + 1
        takes_next = found.start() == 0 or _takes_next(name) or is_declared(plain, found.start())
        follows = (SEPARATOR if takes_next else ASSIGNMENT).match(plain, found.end())
        if follows is not None and follows.end() < len(plain):
            return min(end, follows.end())
    return end


def masked_message(text: str) -> str:
    """A message with the secrets in what it quotes replaced by ``…``, and its own words kept.

    A value after the name of a secret is one if it is assigned (`token=…`, `"api_key": "…"`), or has a digit.
    """
    text = str(text)
    if len(text) <= MAX_CACHED and _is_plain(text.rstrip(digits)):
        return text
    if "(" in text:
        text = _without_commands(text, MESSAGE_SUBSTITUTION)
    if not may_have_name(text):
        return text
    text, plain, at = unescaped(_without_words(text))
    kept: list[str] = []
    last = end = digit = 0
    for found in NAME.finditer(plain):
        if at[found.start()] < last or not is_secret(found.group()):
            continue
        follows = MESSAGE_VALUE.match(plain, found.end())
        if follows is None:
            continue
        start = follows.start(2)
        if start >= end:  # else it is the end of a value before, which is searched once for all names within
            ends = MESSAGE_VALUE_END.search(plain, follows.end())
            end = len(plain) if ends is None else ends.start()
            digit = next((place for place in range(end - 1, start - 1, -1) if plain[place].isdigit()), -1)
        if _is_value(found.group(), follows[1], has_digit=digit >= start):
            kept += (text[last : at[start]], HIDDEN)
            last = at[end]
    return _without_tokens(_without_users("".join([*kept, text[last:]])), MESSAGE_TOKEN_END)


def _may_have_user(text: str) -> bool:
    """Whether a text has an ``@``, maybe in another form or escaped."""
    return "@" in text or "40" in text or not text.isascii()


def _without_users(text: str) -> str:
    """A message without the users and passwords of addresses."""
    if not _may_have_user(text):
        return text
    text, plain, at = _with_users(*unescaped(text))
    kept: list[str] = []
    last = 0
    for start, end in _unbroken_users(plain):
        kept += (text[last : at[start]], HIDDEN)
        last = at[end]
    return "".join([*kept, text[last:]])


def shown_command(words: Iterable[str]) -> str:
    """A command up to the first argument that may be a secret: what it means to another program is not known.

    A short argument, such as an option, and the file of a script are none.
    """
    program, *arguments = (part for word in words for part in word[:MAX_MASKED].split() or [""])
    known = list(takewhile(_is_shown, arguments))
    name, equals, value = program.partition("=")
    if equals and len(value) >= MIN_VALUE:
        return f"{name}={HIDDEN}"
    return " ".join([program, *known, *([HIDDEN] if len(known) < len(arguments) else [])])


def shown_builtin(words: Sequence[str]) -> str:
    """A command of the shell itself: whole, unless a word may name a secret, as any other word may be its value.

    What runs another program is shown as that one's command is.
    """
    program = next((at for at, word in enumerate(words) if word not in RUNNERS and word not in RUNNERS_OPTIONS), 0)
    if program:
        return " ".join([*words[:program], shown_command(words[program:])])
    text = " ".join(words)
    if "$" in text or "`" in text or (may_have_name(text) and any(map(is_secret, NAME.findall(text)))):
        return shown_command(words)
    return text


def _is_shown(word: str) -> bool:
    return len(word) < MIN_VALUE or SCRIPT_FILE.fullmatch(word) is not None


def _without_commands(text: str, substitution: re.Pattern[str]) -> str:
    """A text in which commands in brackets or backticks are shown as those of other programs are.

    If the end of one is not certain, it ends with the text, or with what a message quotes.
    """
    kept: list[str] = []
    last = 0
    while (found := substitution.search(text, last)) is not None:
        is_message = substitution is MESSAGE_SUBSTITUTION
        closed = (COMMAND_IN_BACKTICKS if found.group() == "`" else PLAIN_COMMAND).match(text, found.end())
        end = closed.end() if closed is not None else text.find("`", found.end()) if is_message else -1
        end = len(text) if end < 0 else end
        command = text[found.end() : end]
        shown = shown_command([command])
        is_whole = len(command) <= MAX_MASKED and not shown.endswith(HIDDEN)
        kept += (text[last : found.end()], command if is_whole else f"{shown.removesuffix(HIDDEN)}{HIDDEN}")
        last = end + (found.group() == "`")
        kept.append(text[end:last])
    return "".join([*kept, text[last:]]) if kept else text


def _is_value(name: str, separator: str, *, has_digit: bool) -> bool:
    """Whether what follows the name of a secret in a message is its value, and no word of the message."""
    if has_digit:
        return bool(separator.strip()) or _takes_next(name)
    return separator.endswith(("=", '"', "'")) or (":" in separator and _takes_next(name))


def unescaped(text: str) -> tuple[str, str, Sequence[int]]:
    """A text, the same in ASCII and with its escapes replaced by characters, and where each of those is in the text."""
    plain = as_ascii(text)
    if "%" not in plain and "\\" not in plain:
        return text, plain, range(len(plain) + 1)
    parts: list[str] = []
    at: list[int] = []
    last = 0
    for found in ESCAPE.finditer(plain):
        parts += (plain[last : found.start()], chr(int(found[1], 16)) if found.lastindex == 1 else _character(found))
        at += range(last, found.start() + 1)
        last = found.end()
    return text, "".join([*parts, plain[last:]]), [*at, *range(last, len(plain) + 1)]


def _with_users(text: str, plain: str, at: Sequence[int]) -> tuple[str, str, Sequence[int]]:
    """The same as ``unescaped`` returns, without the slashes that a user or a password has escaped before its ``@``."""
    if len(plain) == len(text) or "/" not in plain or "@" not in plain:
        return text, plain, at
    kept: list[str] = []
    last = end = 0
    for found in ESCAPED_SLASH.finditer(plain):
        if end < found.start() and (end := plain.find("@", found.start())) < 0:
            break
        if text[at[found.start()]] == "%" and text[at[end]] == "@":
            kept += (plain[last : found.start()], "_")
            last = found.end()
    return text, "".join([*kept, plain[last:]]), at


def _character(escape: re.Match[str]) -> str:
    """The escaped character, which is not ASCII, or its form in ASCII."""
    group = escape.lastindex or 0
    if group == BYTES:
        plain = bytes.fromhex("".join(ESCAPED_BYTE.findall(escape[group]))).decode(errors="replace")[0]
    elif group == LOW_UNIT:
        plain = bytes.fromhex(escape[group - 1] + escape[group]).decode("utf-16-be")
    else:
        plain = chr(int(escape[group], 16))
    return as_ascii(plain)


def _without_words(text: str) -> str:
    """A message without the words of expansions of secret variables, each up to the closing backtick."""
    if "${" not in text:
        return text
    kept: list[str] = []
    last = 0
    for found in EXPANSION.finditer(text):
        if found.start() >= last and is_secret(found[1]):
            kept += (text[last : found.end()], HIDDEN)
            end = text.find("`", found.end())
            last = len(text) if end < 0 else end
    return "".join([*kept, text[last:]])


def may_have_token(text: str) -> bool:
    """Whether a text has the beginning of a token of a known shape."""
    return any(map(text.__contains__, TOKEN_BEGINNINGS))


def _without_tokens(text: str, token_end: re.Pattern[str] = TOKEN_END) -> str:
    """The text without tokens of known shapes, and without what may belong to them: `ID:SECRET`."""
    if not may_have_token(text):
        return text
    kept: list[str] = []
    last = 0
    while (found := KNOWN_TOKEN.search(text, last)) is not None:
        kept += (text[last : found.start()], next(filter(None, found.groups())), HIDDEN)
        end = token_end.search(text, found.end())
        last = len(text) if end is None else end.start()
    return "".join([*kept, text[last:]])


def user_places(plain: str) -> Iterator[tuple[int, int]]:
    """Where the users and passwords of addresses are in a text: up to its last ``@`` if a password may have blanks."""
    user = PASSWORD.search(plain)
    end = max((found.start() for found in USER_END.finditer(plain)), default=-1)
    least = 0 if user is None or plain.startswith("//", user.start()) else MIN_PASSWORD
    if user is None or end < user.end() + least:
        yield from _unbroken_users(plain)
        return
    start = user.start() + len("//") * plain.startswith("//", user.start())
    yield from _unbroken_users(plain[:start])
    yield start, end


def _unbroken_users(plain: str) -> Iterator[tuple[int, int]]:
    """The same in a text whose addresses have no blanks, such as a message."""
    last = 0
    for quoted in QUOTED_USER.finditer(plain) if "//" in plain else ():
        yield from _users_between(plain, last, quoted.start())
        yield quoted.span(1)
        last = quoted.end()
    yield from _users_between(plain, last, len(plain))


def _users_between(plain: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The same for addresses without quotes in a part of a text."""
    for found in UNBROKEN_TEXT.finditer(plain, first, last) if plain.find("@", first, last) >= 0 else ():
        if "@" in found.group():
            yield from ((found.start() + start, found.start() + end) for start, end in _users_within(found.group()))


def _users_within(text: str) -> Iterator[tuple[int, int]]:
    """Where the user and password of a URL are in an unbroken text, or those of addresses without a scheme."""
    ends = [end.start() for end in USER_END.finditer(text)]
    if not ends:
        return
    last_colon = text.rfind(":", 0, ends[-1])
    start = text.find("//")
    while 0 <= start < ends[-1]:
        start += len("//")
        path = text.find("/", start)
        end = ends[-1] if last_colon >= start else text.rfind("@", start, path if path >= 0 else len(text))
        if end >= start:
            yield start, end
            return
        start = text.find("//", start)
    for found in ADDRESS.finditer(text):
        end = _end_of_password(found.group(), text[found.end() : found.end() + 1])
        if end:
            yield found.start(), found.start() + end


def _end_of_password(text: str, behind: str) -> int:
    """The length of the user and password of an address; 0 if it has none. ``behind`` is the character behind it.

    The name of an image may have a variable as its digest: `vllm/vllm-openai:v0.33.0@$DIGEST`.
    """
    colon = text.find(":")
    hosts = HOST if "/" not in text[: max(colon, 0)] else ()
    ends = [
        end.start()
        for end in USER_END.finditer(text)
        if (first := text[end.end() : end.end() + 1] or behind).isalnum() or first in hosts
    ]
    if not ends or not 0 <= colon < ends[-1] - MIN_PASSWORD or "//" in text[: ends[-1]]:
        return 0
    return 0 if PORT.fullmatch(text, colon + 1, ends[-1]) is not None else ends[-1]
