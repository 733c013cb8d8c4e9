"""Programs that do not change the files in their arguments, and the words with which others do not.

A program that may write is known only to read with certain words; with any other word it may write a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.programs import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

READERS: Final = frozenset(
    [
        *("cat", "head", "tail", "less", "more", "nl", "od", "xxd", "strings", "jq", "sort", "uniq", "cut", "tr", "wc"),
        *("echo", "printf", "logger", "grep", "egrep", "fgrep", "zgrep", "pgrep", "pkill", "kill", "diff", "cmp"),
        *("ls", "tree", "du", "df", "stat", "file", "ldd", "ldconfig", "which", "whereis", "type", "hash", "readlink"),
        *("realpath", "dirname", "basename", "md5sum", "sha1sum", "sha256sum", "id", "whoami", "hostname", "uname"),
        *("date", "sleep", "wait", "test", "[", "[[", "((", "true", "false", ":", "nvidia-smi", "rocm-smi", "free"),
        *("export", "declare", "typeset", "local", "readonly", "unset", "set", "shift", "trap", "read", "exit"),
        *("return", "ulimit", "pwd", "cd", "chdir", "pushd", "popd", "mkdir", "chmod", "chown", "ps", "printenv"),
        *("for", "select", "case", "esac", "done", "fi", "in", "break", "continue", "let", "vllm"),
    ]
)
"""Programs and shell commands that do not change the content of the files that they name, but see ``READING_WORDS``."""
READING_WORDS: Final[Mapping[str, re.Pattern[str]]] = {
    "sort": re.compile(
        r"-[bCcdfgHhiMmnRrsuVz]*+(?:[0-9.,]{0,9}|[kStT].*)|--(?:key|field-separator|buffer-size|parallel|temporary-dir\w*"
        r"|batch-size|sort|check|debug|dictionary-order|general-numeric-sort|human-numeric-sort|ignore-case"
        r"|ignore-leading-blanks|merge|month-sort|numeric-sort|random-sort|reverse|stable|unique|version-sort"
        r"|zero-terminated)(?:=.*)?|[^-].*",
        re.DOTALL,
    ),
    "uniq": re.compile(
        r"-[cdDiuz]*+(?:[fsw][0-9]{1,9})?|--(?:count|repeated|all-repeated|unique|ignore-case)(?:=.*)?|[^-].*",
        re.DOTALL,
    ),
    "xxd": re.compile(r"-(?:[abCeEipu]|[clgos][0-9]{0,9}|ps|plain|len|cols?|seek)|[^-].*", re.DOTALL),
    "less": re.compile(r"-[eEFfgGiIMmNnQqRrSsUuwWX~]*+|[^-].*", re.DOTALL),
    "tree": re.compile(r"-[acdDfFghilpqrsStuUvxACNQJX]*+|-[LIP]|--(?:noreport|dirsfirst|du|prune)|[^-].*", re.DOTALL),
    "file": re.compile(r"-[bhiIkLnNprsSvzZ0]*+|--(?:brief|mime\S*|dereference)|[^-].*", re.DOTALL),
    "ldconfig": re.compile(r"-[pvNXn]*+|--(?:print-cache|verbose)|/.*", re.DOTALL),
    "nvidia-smi": re.compile(
        r"-[qLxhBaims]|-(?:pm|pl|lgc|rgc|ac|i|id|d|l|lms|c|e|p|r|mig|cgi|gi|ci|lgip|s|vm)"
        r"|--(?:query-[a-z-]+|format|id|list-gpus|help|loop|loop-ms|display|query|version|persistence-mode|xml-format)(?:=.*)?"
        r"|[^-].*",
        re.DOTALL,
    ),
    "rocm-smi": re.compile(r"-[aidtPfbcguhV]|--(?:show\w+|json|csv|alldevices|device|help|version)|[^-].*", re.DOTALL),
    "vllm": re.compile(r"serve|chat|complete|collect-env|-.*", re.DOTALL),
    "sed": re.compile(
        r"-[nErsuz]*+e?|-[nErsuz]*+e.+|--(?:quiet|silent|regexp-extended|null-data|separate|debug|posix|unbuffered|sandbox"
        r"|expression(?:=.*)?)|[^-].*",
        re.DOTALL,
    ),
    "awk": re.compile(r"-(?:[FvS].*|-posix|-field-separator.*|-assign.*|-sandbox|-)|[^-].*", re.DOTALL),
}
"""For each program that may write a file, the words with which it does not."""
FIRST_WORD_PROGRAMS: Final = frozenset({"vllm"})
"""Programs whose first argument says whether they write."""
ONE_FILE_PROGRAMS: Final = frozenset({"uniq", "xxd"})
"""Programs that write the second named file."""
AWK: Final = frozenset({"awk", "gawk", "mawk"})
FIND_ACTIONS: Final = ("-exec", "-ok", "-delete", "-fls", "-fprint")
WRITING_LETTER: Final = re.compile(r"[wWe]")
SED_READING_COMMANDS: Final = re.compile(
    r"(?:[\s;{}!0-9,$~+]++|[/][^/\\\n]*+(?:\\.[^/\\\n]*+)*+/[IM]{0,2}|[pPdDqQnNgGhHxl=]"
    r"|s(?:/(?:[^/\\\n]|\\.)*+/(?:[^/\\\n]|\\.)*+/|\|(?:[^|\\\n]|\\.)*+\|(?:[^|\\\n]|\\.)*+\|"
    r"|#(?:[^#\\\n]|\\.)*+#(?:[^#\\\n]|\\.)*+#|,(?:[^,\\\n]|\\.)*+,(?:[^,\\\n]|\\.)*+,"
    r"|@(?:[^@\\\n]|\\.)*+@(?:[^@\\\n]|\\.)*+@)[gpiIM0-9]*+|[aic](?:[^\\\n]|\\.)*+)*+",
    re.DOTALL,
)
"""Matches commands of `sed` that write no file and run no program: addresses, `s`, and those of one letter."""
SED_SCRIPT_FILE: Final = re.compile(r"-[nErsuz]*+f")
"""Matches the option of `sed` before a file of its commands."""
SED_FILE: Final = re.compile(r"[wW][ \t]*+([^\s;}]++)")
"""Matches what may be the file of a command of `sed`."""
PRINTING_CODE: Final = re.compile(
    r"""\s*+(?:(?:import|from)\s[\w., ]++[;\s]*+|print\((?:[\w.]++(?!\s*[\w(.])|['"\[\]\s,)]"""
    r"""|(?:[\w.]{0,64}?dirname|[\w.]{0,64}?version|[\w.]{0,64}?find_spec|[\w.]{0,64}?getsitepackages)\()++[;\s]*+)++"""
)
"""Matches code of Python that imports and prints, and calls no other functions."""
OUTPUT_OPTION: Final = re.compile(
    r"--(?:log|log-file|report|dest|target|prefix|root|src|wheel-dir|cache-dir|build|partial-dir|temp-dir|backup-dir"
    r"|write-batch|only-write-batch)\Z"
)
"""Matches an option of `pip` and `rsync` before a file or folder that they write."""
SHORT_OUTPUT_OPTIONS: Final = frozenset({"-t", "-d", "-w"})
"""The same for short options of `pip`."""


def only_reads(program: str, arguments: Sequence[str]) -> bool:
    """Whether a program certainly does not change the content of the files that its arguments name."""
    if program == "find":
        return not any(word.startswith(FIND_ACTIONS) for word in arguments)
    if PYTHON.fullmatch(program) is not None and arguments[:1] == ["-c"]:
        return PRINTING_CODE.fullmatch("".join(arguments[1:2])) is not None
    if program in AWK:
        has_action = any(mark in word for word in arguments for mark in (">", "system", "|"))
        return not has_action and _all_match("awk", arguments)
    if program == "sed":
        return _all_match(program, arguments) and all(map(_sed_reads, sed_scripts(arguments)))
    if program not in READERS:
        return False
    if program in FIRST_WORD_PROGRAMS:
        return READING_WORDS[program].fullmatch("".join(arguments[:1])) is not None
    if program in ONE_FILE_PROGRAMS and sum(not word.isdecimal() for word in _operands(arguments)) > 1:
        return False
    return program not in READING_WORDS or _all_match(program, arguments)


def _operands(arguments: Sequence[str]) -> Iterator[str]:
    return (word for word in arguments if word[:1] != "-" or word == "-")


def _all_match(program: str, arguments: Sequence[str]) -> bool:
    pattern = READING_WORDS[program]
    return all(not word or word == "-" or pattern.fullmatch(word) is not None for word in arguments)


def sed_scripts(arguments: Sequence[str]) -> list[str]:
    """The scripts of `sed` in its arguments: those of options, or the first other word."""
    scripts = [word.partition("=")[2] for word in arguments if word.startswith("--expression=")]
    before = ""
    for word in arguments:
        if before == "--expression" or (before[:1] == "-" and before[1:2] != "-" and before.endswith("e")):
            scripts.append(word)
        elif word[:1] == "-" and word[1:2] != "-" and "e" in word[:-1]:
            scripts.append(word.partition("e")[2])
        before = word
    return scripts or [word for word in arguments if not word.startswith("-")][:1]


def sed_runs(arguments: Sequence[str]) -> bool:
    """Whether `sed` may run its input, or a part of its script, or reads a script that is not known."""
    is_file = any(word.startswith("--file") or SED_SCRIPT_FILE.match(word) for word in arguments)
    return is_file or any(
        type(script) is not str or ("e" in script and not _sed_reads(script)) for script in sed_scripts(arguments)
    )


def _sed_reads(script: str) -> bool:
    return WRITING_LETTER.search(script) is None or SED_READING_COMMANDS.fullmatch(script) is not None


def named_outputs(program: str, arguments: Sequence[str]) -> Iterator[str]:
    """The files that options or a script in the arguments of a program name; other words do not count."""
    if program == "sed":
        for script in sed_scripts(arguments):
            yield from SED_FILE.findall(script)
    elif program == "rsync":
        yield from _values(arguments, is_short=False)


def pip_outputs(arguments: Sequence[str]) -> Iterable[str]:
    """The files and folders that options of `pip` name."""
    return _values(arguments, is_short=True)


def _values(arguments: Sequence[str], *, is_short: bool) -> Iterator[str]:
    before = ""
    for word in arguments:
        option, _, value = word.partition("=")
        if value and OUTPUT_OPTION.match(option) is not None:
            yield value
        elif OUTPUT_OPTION.match(before) is not None or (is_short and before in SHORT_OUTPUT_OPTIONS):
            yield word
        before = word
