"""Commands of a script that may change the files of vLLM or Python before a server starts.

Every program that is not known only to read counts, if one of its words or a file of its output names a place from
which Python or a shell loads the engine. Not here: what pip and the like install (`installation`).
"""

from __future__ import annotations

import re
from posixpath import basename, dirname, join
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from policy.intake.command.copied_names import copied_names
from policy.intake.command.filled_folders import (
    CONFIGURATION,
    COPYING_PROGRAMS,
    ENVIRONMENT,
    FOLDER_OPTION,
    LAST_FILE_WRITERS,
    PARENT_FOLDER,
    filled_folders,
)
from policy.intake.command.imported_modules import imports_name
from policy.intake.command.links import LINKERS, Links
from policy.intake.command.model_folders import (
    IMAGE_FOLDER,
    REMOVERS,
    ChangedModels,
    filled_model_folders,
    made_folders,
    named_paths,
    paths_in,
)
from policy.intake.command.paths import MAX_PATH, home_of, in_home, path_in
from policy.intake.command.pip_command import PIP_NAME
from policy.intake.command.possible_paths import in_working_folder, possible_path
from policy.intake.command.programs import CONDA, PYTHON, RUNNERS, SHELLS, SYSTEM_MANAGERS, VLLM_NAME
from policy.intake.command.reading_programs import PRINTING_CODE, READERS, named_outputs, only_reads, pip_outputs
from policy.intake.command.volume_paths import NO_VOLUMES
from policy.intake.command.words import Unknown
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policy.intake.command.possible_paths import PossiblePath
    from policy.intake.command.script_commands import Command
    from policy.intake.command.vllm_command import ServerCommand
    from policy.intake.command.volume_paths import VolumePaths

PACKAGE_FOLDER: Final = re.compile(
    r"(?<![\w-])(?:(?:site|dist)-packages|(?:lib(?:64)?|etc)/python3[0-9.]{0,8}(?=/|$))(?![\w-])"
)
"""Matches a folder of Python's libraries within a path or a text; Debian's `sitecustomize.py` is a link to `/etc`."""
ENGINE_PLACE: Final = re.compile(
    rf"{PACKAGE_FOLDER.pattern}|(?<!\w)(?:site|user)customize\.py|(?<![\w.-])pyvenv\.cfg(?!\w)|/etc/ld\.so\.preload"
    r"|(?:/etc/(?:ssl|pki/tls)|/usr/lib/ssl)/openssl\.cnf"
    r"|(?<!\w)s?bin/vllm(?![\w-])"
)
"""Matches a place from which Python or a shell loads the engine within a path or a text."""
INTERPRETER: Final = re.compile(r"(?<!\w)s?bin/python3(?:\.[0-9]{1,3})?\Z")
"""Matches the path of the Python that runs vLLM."""
LOCATING_TEXT: Final = re.compile(
    r"__(?:file|path)__|find_spec|getsitepackages|getusersitepackages|(?:pure|plat)lib|pip[0-9.]{0,8}\s{1,9}show(?!\w)"
    r"|(?:which|command\s{1,9}-v|type\s{1,9}-[pP])\s{1,9}vllm(?![\w-])"
)
"""Matches what gives such a place: `vllm.__file__`, `$(which vllm)`."""
QUERY_COMMANDS: Final = frozenset({"-L", "-l", "-s", "info", "list", "policy", "search", "show", "update"})
"""The first arguments of a package manager with which it changes nothing."""
PACKAGE_FILES: Final = (".deb", ".rpm", ".apk")
REPLACERS: Final = COPYING_PROGRAMS | REMOVERS | {"install", "update-alternatives"}
"""Programs that put another file in the place of one that they name, or remove it; they do not run it."""
PREFIXES: Final = frozenset({"command", "exec", "nice", "nohup", "sudo"})
"""Programs that run the one after them."""
LINK: Final = "ln"
FOLDER_COMMANDS: Final = frozenset({"cd", "chdir", "pushd"})
"""Shell commands that change the working folder to their last argument."""
CD_OPTIONS: Final = frozenset({"-L", "-P", "-e", "-LP", "-PL", "--"})
PROGRAM_FOLDER: Final = re.compile(r"(?:.*/)?s?bin/?", re.DOTALL)
PROGRAM: Final = re.compile(rf"vllm|{PYTHON.pattern}")
MAX_PROGRAMS: Final = 8
"""The maximum number of program names in a command that are looked for in each folder; with more, vLLM counts as
replaced."""
REFERENCE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*+)")
ASSIGNED_NAME: Final = re.compile(r"(?:^|(?<=[\s;&|({]))([A-Za-z_][A-Za-z0-9_]*+)\+?=")
COMMAND_START: Final = re.compile(r"[`;&|\n(][ \t]*+([^\s`;&|()]{0,256}+)")
"""Matches the beginning of a command in a substitution."""
HARMLESS_TEXT: Final = re.compile(
    r"(?<![\w./-])(?:[\w./-]{0,256}?(?:python[0-9.]{0,8}\s{1,9}-m\s{1,9})?pip[0-9.]{0,8}\s{1,9}show(?!\w)"
    r"|command\s{1,9}-[vV](?!\w))"
    r"|[0-9&]?>{1,2}\s?(?:/dev/null|&[12])"
)
"""Matches what changes nothing within a substitution."""
PYTHON_CODE: Final = re.compile(
    r"""(?<![\w./-])[\w./-]{0,256}?python[0-9.]{0,8}\s{1,9}-c\s{1,9}(?:'([^']*+)'|"([^"]*+)")"""
)
CHANGING_TEXT: Final = re.compile(r">|\s-(?:[A-Za-z]{0,9}i|-in|exec|ok|delete|fprint|fls)|system")
"""Matches what may let a program that mostly reads change a file."""
MAX_FOLDER: Final = 256
"""The maximum length of a working folder; in a longer one, each command that may change a file counts."""
MAX_MATCH: Final = 48
"""The maximum length of a match of the patterns above within a path; only this much of a folder's end is searched."""


class ReplacedFiles(Struct):
    """Which of the files that start and make up vLLM the commands of a script so far may have changed."""

    folder: str = ""
    """The working folder, relative to the first one unless it is known."""
    home: str | None = None
    """The home of the user who runs the script, in which a path after `~` is; None if it is not known."""
    replaced: Installation | None = None
    configures: bool = False
    """Whether the commands may write the configuration of pip or uv."""
    _written: dict[str, str] = {}
    """The paths that commands may write, with their programs."""
    _filled: dict[str, str] = {}
    """The folders into which commands may write files that they do not name, with the programs."""
    _packages: dict[str, str] = {}
    """The folders in which commands may write something named vllm, with the programs."""
    _modules: dict[str, str] = {}
    """The folders in which commands may write another module that vLLM imports, with the programs."""
    _names: set[str] = set()
    """The variables with unknown values that may name a place from which the engine is loaded."""
    _models: ChangedModels = field(default_factory=ChangedModels)
    _home: str = ""
    """The home for the command that is read; empty if it is not known."""
    _paths: dict[str, str] = {}
    """The paths that are already resolved in the working folder."""
    _values: dict[str, bool] = {}
    """The values of variables that are already searched, and whether each names a place of the engine."""
    _piped: list[str] = []
    """The paths that commands may list for a later one, as before `|`."""
    _listed: dict[str, list[str]] = {}
    """The variables of loops, with the paths that each may name."""
    _links: Links = field(default_factory=Links)
    _is_listed: bool = False
    """Whether a command may list such places for another one, as before `|`."""
    _is_loaded_from: bool = False
    """Whether the engine is loaded from the working folder, or the folder is too long to know."""
    _is_configuration: bool = False
    """Whether the working folder is in a folder of the configuration of pip or uv."""
    _end: str = ""
    """The end of the working folder, with a slash."""

    def read(self, command: Command) -> None:
        """Note what a command may change; one without arguments or redirections changes at most the folder."""
        words = command.words
        self._home = home_of(command.env, self.home)
        if len(words) == 1 and not command.outputs and words[0] not in FOLDER_COMMANDS:
            return
        at = next((at for at, word in enumerate(words) if word not in PREFIXES), len(words) - 1)
        program, arguments = words[at].rpartition("/")[2], words[at + 1 :]
        targets = [*command.outputs]
        is_reader = only_reads(program, arguments)
        if not is_reader:
            targets += self._targets(program, arguments, command)
        names_packages = any(map(_is_installer, words[: at + 3]))
        written = pip_outputs(arguments) if names_packages else () if is_reader else named_outputs(program, arguments)
        filled: Iterable[str] = ()
        if not names_packages:
            self._write_all(program, targets)
            if not is_reader:
                filled = [*filled_folders(program, arguments, targets)]
                self._fill(program, filled)
            if targets:
                named = command.outputs if is_reader else (*arguments, *targets)
                if self._is_configuration or CONFIGURATION.search(" ".join((f"/{self._end}", *named))) is not None:
                    self.configures = True
        targets += self._write_all(program, written)
        if targets:
            names_others = names_packages and any(map(_names_no_paths, words[: at + 3])) and "run" not in arguments[:1]
            self._change_models(program, [] if is_reader or names_others else arguments, filled, command.outputs)
        is_changed = any(map(self._is_loaded, targets)) or any(map(_runs_change, arguments))
        is_changed = is_changed or self._replaces_interpreter(program, targets)
        if program == "xargs" and (self._is_listed or self._piped):
            started = next((word for word in arguments if word[:1] not in {"-", "{"} and not word.isdecimal()), "cat")
            is_changed = is_changed or (self._is_listed and basename(started) not in READERS)
            if basename(started) not in READERS:
                self._change_listed(started, self._piped)
        if is_changed or (targets and self._is_loaded_from and program not in READERS):
            self.replaced = self.replaced or _replaced(program)
        is_named = any(map(self._names_place, arguments))
        if program in {":", "for"} and is_named:
            self._names.update(arguments[:1] if program == "for" else ASSIGNED_NAME.findall(arguments[0]))
        elif program == "read" and self._is_listed:
            self._names.update(arguments)
        self._is_listed = self._is_listed or (is_named and command.is_masked)
        self._change_lists(program, arguments, is_reader=is_reader, is_masked=command.is_masked)
        self._change_meanings(program, words, arguments)

    def _change_lists(self, program: str, arguments: Sequence[str], *, is_reader: bool, is_masked: bool) -> None:
        """Note the paths that a command lists for a loop or for a later command, or changes by the name of a list."""
        if program == "for" and arguments:
            self._listed[arguments[0]] = [*arguments[1:]]
        elif program == "read" and self._piped:
            self._listed.update(dict.fromkeys(arguments, self._piped))
            self._piped = []
        elif is_reader and is_masked:
            self._piped += arguments
        elif self._listed and not is_reader:
            for name in {name for word in arguments if "$" in word for name in REFERENCE.findall(word)}:
                self._change_listed(program, self._listed.pop(name, []))

    def _change_meanings(self, program: str, words: Sequence[str], arguments: Sequence[str]) -> None:
        """Note how a command changes what later paths mean: by links, and by the working folder."""
        if program in LINKERS:
            self._links.add(arguments, self.folder)
        if program in FOLDER_COMMANDS:
            named = [word for word in words[1:] if word not in CD_OPTIONS]
            target = named[-1] if named else "-" if program == "pushd" else "~"
            self.enter("" if target == "-" else self._resolved(target))

    def _change_models(
        self, program: str, arguments: Sequence[str], filled: Iterable[str], outputs: Sequence[str]
    ) -> None:
        """Note the folders of models that a command may change; it ``filled`` some with what it does not name."""
        made = [*made_folders(program, arguments)]
        for path in self._places(*made, *outputs):
            self._models.make(program, path)
        for path in self._places(*outputs):
            self._models.write(program, path)
        filled = [*filled_model_folders(program, arguments, made, filled)]
        for path in self._places(*filled):
            self._models.fill(program, path)
        self._note_possible(program, made, filled, outputs)
        for possible in copied_names(in_home(self.folder, self._home), program, arguments):
            self._models.make_possible(program, possible, fills=True)
        for named in paths_in(arguments):
            for path in self._places(named):
                if named[0] in {"/", ".", "~"}:
                    self._models.make(program, path)
                self._models.write(program, path)

    def _note_possible(self, program: str, made: Iterable[str], filled: Iterable[str], outputs: Iterable[str]) -> None:
        """Note the partly known paths that a program may make, fill and write."""
        copies = program in COPYING_PROGRAMS
        for word in dict.fromkeys(made):
            if (path := self._possible(word)) is not None and (path.is_known_enough or copies):
                self._models.make_possible(program, path)
        for word in dict.fromkeys(filled):
            if (path := self._possible(word)) is not None and (path.is_known_enough or copies):
                self._models.make_possible(program, path, fills=True)
        for word in outputs:
            if (path := self._possible(word)) is not None and path.is_known_enough:
                self._models.write_possible(program, path)

    def _possible(self, word: str) -> PossiblePath | None:
        """What a word may be as a path in the working folder, with its home if that is known; None if it is known."""
        return possible_path(in_home(self.folder, self._home), in_home(word, self._home))

    def _change_listed(self, program: str, paths: list[str]) -> None:
        """Note that a program may change the files and folders that another command or a loop lists, once."""
        for path in self._places(*filter(None, paths)):
            self._models.make(program, path)
            self._models.write(program, path)
            self._written.setdefault(path, program)
        paths.clear()

    def enter(self, folder: str) -> None:
        """Change the working folder."""
        self._is_loaded_from = len(folder) > MAX_FOLDER or PACKAGE_FOLDER.search(folder) is not None
        self._is_configuration = CONFIGURATION.search(f"/{folder}/") is not None
        self.folder = folder if len(folder) <= MAX_FOLDER else ""
        self._end = f"{self.folder[-MAX_MATCH:]}/" if self.folder else ""
        self._paths = {}

    def installation_before(self, server: ServerCommand) -> Installation | None:
        """The vLLM that may run after the commands so far instead of a server's; None if they leave it as it is."""
        folder = self._folder_of(server)
        programs = [path_in(folder, in_working_folder(each)) for each in server.programs if "/" in each]
        changed = next((self._written[each] for each in programs if each in self._written), None)
        if changed is None and (server.module or server.is_dynamo):
            changed = self._packages.get(folder) or self._written.get(folder) or self._modules.get(folder)
            programs.append(join(folder, "vllm"))
        if changed is None and any(self._links.follow(each) != each for each in programs):
            changed = LINK
        changed = changed or next(filter(None, map(self._models.may_change, programs)), None)
        for each in programs if self._filled else ():
            above, below = dirname(each), each
            while changed is None and above != below and len(each) <= MAX_PATH:
                changed, above, below = self._filled.get(above), dirname(above), above
        return self.replaced if changed is None else self.replaced or _replaced(changed)

    def _targets(self, program: str, arguments: Sequence[str], command: Command) -> Iterator[str]:
        """The words of a command that may name what it changes."""
        if program in SYSTEM_MANAGERS:
            is_named = any(VLLM_NAME.search(word) is not None or word.endswith(PACKAGE_FILES) for word in arguments)
            if is_named and QUERY_COMMANDS.isdisjoint(arguments[:1]):
                self.replaced = self.replaced or _replaced(program)
        if program in SHELLS or program == "eval":
            texts = [word for word in arguments if not word.startswith("-")]
            values = (command.env.get(name) for word in texts for name in set(REFERENCE.findall(word)))
            if any(map(self._value_names_files, filter(None, values))):
                self.replaced = self.replaced or _replaced(program)
            yield from (part for word in texts for part in (word, *word.split()))
            return
        is_last = program in LAST_FILE_WRITERS and not any(map(FOLDER_OPTION.match, arguments))
        named = dict.fromkeys(filter(PROGRAM.fullmatch, map(basename, arguments)))
        if len(named) > MAX_PROGRAMS:
            self.replaced = self.replaced or _replaced(program)
            named = {}
        names = named if is_last or program == "mv" else {}
        for word in arguments[-1:] if is_last else arguments:
            option, equals, value = word.partition("=")
            if program == "dd" and option == "if":
                continue
            yield value if equals and value else word
            if "://" in word or program == "git":
                yield basename(word).removesuffix(".git")
            elif word[:1] == "-" and word[1:2] not in {"", "-"}:
                yield word[2:]
            elif PROGRAM_FOLDER.fullmatch(word) is not None:
                names = named
            yield from (join(word, name) for name in (names if len(word) < MAX_PATH else ()))

    def _write(self, program: str, target: str) -> None:
        """Note that a program may write a path."""
        if not target or target.startswith("-"):
            return
        possible = self._possible(target)
        runs = PYTHON.fullmatch(program) is not None and target.endswith(".py")
        if possible is not None and possible.is_known_enough and not runs:
            self._models.write_possible(program, possible)
        for path in self._places(target):
            if len(path) > MAX_PATH:
                continue
            self._written.setdefault(path, program)
            self._models.write(program, path)
            if not runs:
                self._note_module(program, path)
            above, found, _ = f"/{path}/".partition("/vllm/")
            if found:
                self._packages.setdefault(above[1:] or ("/" if path.startswith("/") else ""), program)

    def _note_module(self, program: str, path: str) -> None:
        """Note the folder in which a path that a program may write is a module that vLLM imports, if it is one."""
        folder, name = dirname(path), basename(path)
        if name.startswith("__init__."):
            folder, name = dirname(folder), f"{basename(folder)}.py"
        if program not in REMOVERS and imports_name(name, is_folder=program in COPYING_PROGRAMS):
            self._modules.setdefault(folder, program)

    def _write_all(self, program: str, targets: Iterable[str]) -> list[str]:
        """Note that a program may write paths, and return them."""
        found = [*targets]
        for target in found:
            self._write(program, target)
        return found

    def _replaces_interpreter(self, program: str, targets: Iterable[str]) -> bool:
        """Whether a program may put another file in the place of the Python that runs vLLM."""
        if program not in REPLACERS:
            return False
        return any(INTERPRETER.search(self._resolved(target)) is not None for target in targets)

    def _fill(self, program: str, folders: Iterable[str]) -> None:
        """Note that a program may write any file in some folders."""
        for folder in folders:
            if not folder or folder[0] == "-":
                continue
            for path in (each.removesuffix("/*") for each in self._places(folder)):
                if len(path) > MAX_PATH:
                    continue
                self._filled.setdefault(path, program)
                if PARENT_FOLDER.fullmatch(path) is not None or ENVIRONMENT.search(path) is not None:
                    self.replaced = self.replaced or _replaced(program)

    def other_models(
        self,
        server: ServerCommand,
        start: str = "",
        volumes: VolumePaths = NO_VOLUMES,
        *,
        are_kept: bool = False,
    ) -> Iterator[str]:
        """Why a server may load another model because of the commands before it; ``start`` is the first folder.

        See ``ChangedModels.doubts`` for ``volumes`` and ``are_kept``.
        """
        start = start or IMAGE_FOLDER
        folder = self._folder_of(server)
        home = home_of(server.env, self.home)
        return self._models.doubts(server, folder, self._written, start, home, volumes, are_kept=are_kept)

    def names_kept(self, server: ServerCommand, start: str, volumes: VolumePaths) -> bool:
        """Whether a server in the working folder names a model or a file that is in a volume."""
        found = named_paths(server, self._folder_of(server), start or IMAGE_FOLDER, home_of(server.env, self.home))
        return bool(volumes) and any(volumes.keep(paths[-1]) for _, _, paths in found)

    def _folder_of(self, server: ServerCommand) -> str:
        """The working folder of a server that starts in this one."""
        folder = self.folder
        for each in server.folders:
            folder = path_in(folder, each)
        return folder

    def _is_loaded(self, target: str) -> bool:
        """Whether a target may name a place from which the engine is loaded."""
        if "://" in target:
            return False
        if self._names_place(target):
            return True
        is_plain = target[:1] not in {"/", "~", "$"} and "./" not in target and "//" not in target
        if ENGINE_PLACE.search(self._end + target if is_plain else self._resolved(target)) is not None:
            return True
        return any(ENGINE_PLACE.search(path) is not None for path in self._places(target)[1:])

    def _names_place(self, word: str) -> bool:
        """Whether a text names such a place, or a variable that may."""
        return _names_files(word) or not self._names.isdisjoint(REFERENCE.findall(word))

    def _value_names_files(self, value: str) -> bool:
        """Whether the value of a variable names such a place; each is searched once, as a script may use it often."""
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = _names_files(value)
        return found

    def is_behind_link(self, folders: Iterable[str]) -> bool:
        """Whether the working folder after changes to ``folders`` is at or below a link that may have been made."""
        folder = self.folder
        for each in folders:
            folder = path_in(folder, each)
        return self._links.follow(folder) != folder

    def _places(self, *paths: str) -> list[str]:
        """The resolved paths, each followed by itself in a known home, and by where links of commands lead from it."""
        found = []
        for path in map(self._resolved, paths):
            found.append(path)
            if (at_home := in_home(path, self._home)) != path:
                found.append(path := at_home)
            if (other := self._links.follow(path)) != path:
                found.append(other)
        return found

    def _resolved(self, path: str) -> str:
        found = self._paths.get(path)
        if found is None:
            found = self._paths[path] = path_in(self.folder, in_working_folder(path))
        return found


def _is_installer(word: str) -> bool:
    name = basename(word)
    return name in RUNNERS or PIP_NAME.fullmatch(name) is not None


def _names_no_paths(word: str) -> bool:
    """Whether a program's words name packages and environments: pip, and conda without `run`."""
    name = basename(word)
    return name in CONDA or PIP_NAME.fullmatch(name) is not None


def _names_files(text: str) -> bool:
    return ENGINE_PLACE.search(text) is not None or LOCATING_TEXT.search(text) is not None


def names_changed_files(written: str, located: set[str]) -> bool:
    """Whether a statement that only sets variables names a place from which the engine is loaded.

    If it does, its variables are added to ``located``.
    """
    if not ("$" in written or "`" in written):
        return False
    if not _names_files(written) and located.isdisjoint(REFERENCE.findall(written)):
        return False
    located.update(ASSIGNED_NAME.findall(written))
    return True


def _runs_change(text: str) -> bool:
    """Whether a substitution in a text names such a place, and runs more than programs that only read."""
    if type(text) is not Unknown or not ("$(" in text or "`" in text) or not _names_files(text):
        return False
    rest = HARMLESS_TEXT.sub("cat", PYTHON_CODE.sub(_shown_code, text))
    return CHANGING_TEXT.search(rest) is not None or not _all_read(
        found.rpartition("/")[2] for found in COMMAND_START.findall(rest)
    )


def _all_read(programs: Iterable[str]) -> bool:
    return all(not program or program in READERS or program in {"sed", "awk", "find"} for program in programs)


def _shown_code(code: re.Match[str]) -> str:
    return "cat" if PRINTING_CODE.fullmatch(code[1] or code[2] or "") is not None else code[0]


def _replaced(program: str) -> Installation:
    changing = "a substitution or redirection" if program == ":" else quoted(program)
    return Installation(None, f"{changing} may replace or remove the vLLM of the image before the start")
