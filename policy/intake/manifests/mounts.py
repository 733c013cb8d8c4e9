"""The mount points of a container: which files they hide, and whether they may replace the image's vLLM.

A volume over the image's programs or Python packages may contain another vLLM. So may a program on a volume, and the
working folder, which ``python -m`` searches first. Symbolic links in the image are not known, except those to `/usr`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from posixpath import basename, dirname, isabs, join
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.code_variables import LOCATIONS, assigned_values
from policy.intake.command.imported_modules import may_be_imported
from policy.intake.command.paths import ANY_FOLDER, LINK_STARTS, VOLATILE_FOLDERS, absolute_path, resolve
from policy.intake.command.possible_paths import in_working_folder
from policy.intake.command.programs import PYTHON
from policy.intake.command.words import Unknown
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from policy.intake.command.vllm_command import ServerCommand

MAX_DEPTH: Final = 64
"""The maximum depth of a path; a deeper one is treated as below a mount."""
VLLM_FOLDERS: Final = (
    *("/usr/bin", "/usr/local/bin", "/usr/local/sbin", "/opt/venv", "/opt/vllm", "/root/.local", "/etc/python3"),
    *("/opt/uv/python", "/opt/dynamo/venv", "/prod_venv", "/kserve-workspace/prod_venv"),
    "/kserve-workspace/huggingfaceserver",
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/vllm-workspace/vllm"),
    *("/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf"),
    *("/usr/lib/python3", "/usr/lib64/python3", "/usr/local/lib/python3"),
    *("/usr/sbin/ldconfig", "/usr/sbin/ldconfig.real", "/usr/lib/gcc", "/usr/libexec/gcc"),
)
"""The folders of programs and libraries that vLLM needs. A mount at, below or above one of them hides them.

Python and Triton run `ldconfig` to find libraries, and Triton runs the compiler, whose parts are in `gcc`.
"""
PATH_FOLDERS: Final = ("/usr/local/cuda/bin", "/usr/local/nvidia/bin", "/usr/sbin", "/etc/alternatives")
"""Other folders in which a shell may look for `vllm`, Python or a program that starts them first. A mount above one has
a toolkit, or a driver."""
CHECKOUTS: Final = ("/vllm-workspace", "/workspace/vllm")
"""The folders of vLLM's source in its images. A mount at one hides what is in it; one above has other folders too."""
LIBRARIES: Final = re.compile(
    r"/usr/lib(?:64|/[a-z0-9_]{1,32}-linux-gnu)(?:/(?!(?:lib(?:cuda|nv|amd)|nvidia|vdpau)[^/]*+$)[^/]++)?"
    r"|/usr/lib/ld-linux[^/]*+"
)
"""Matches a folder in which the dynamic loader looks for libraries, and a file in it unless it is a GPU driver's; and
the loader of ARM in the folder above."""
DRIVERS: Final = re.compile(
    r"/(?:usr/local/(?:nvidia|cuda[^/]*|gib|tcpxo?|fastrak)|home/kubernetes/bin/[^/]+|opt/(?:amazon|aws-ofi-nccl|rocm[^/]*))"
    r"(?:/|$)"
)
"""Matches a path in a folder of the libraries of devices and networks, which a driver or a cloud's plug-in mounts."""
PROGRAM: Final = re.compile(r"(?:vllm|python|pypy)[\w.-]{0,64}", re.ASCII)
PACKAGE_FOLDERS: Final = re.compile(
    r"/(?:(?:site|dist)-packages|(?:lib(?:64)?|etc)/python3[0-9.]*(?:zip)?)(?:/|$)|/(?:(?:site|user)customize\.py|pyvenv\.cfg)$"
)
"""Matches a path at or below a folder of Python libraries, or a file that Python reads at its start."""

MODULE_MOUNT: Final = (
    "the mount at {} may replace a module that vLLM imports, as `python -m` searches the working folder first"
)

USER_FOLDER: Final = re.compile(
    r"/(?:home/[^/]+/)?\.local(?:/.*)?|/home(?:/[^/]+)?|/(?:~|\$HOME|\$\{HOME\})(?:/\.local(?:/.*)?)?", re.DOTALL
)
"""Matches a folder of the user's packages if the home is not stated, or one above it, such as `/home/NAME` or `$HOME`.

The home of a user without a name is `/`.
"""


REFERENCE: Final = re.compile(r"[$`%]")
"""Matches the beginning of an unknown part in a path that is an `Unknown`: an expansion, or a specifier of systemd."""
HOMES: Final = ("$HOME", "${HOME")
"""The beginnings of a path in the home of the user who starts a container; no image has programs there."""


def known_folder(path: str) -> str:
    """A path, or the last folder in it that is known; empty if none is. A path in a home stays as it is."""
    found = REFERENCE.search(path) if type(path) is Unknown else None
    if found is None or path.startswith(HOMES):
        return path
    head, slash, _ = path[: found.start()].rpartition("/")
    return head or slash


def resolved_path(path: str) -> str:
    """The absolute path of a mount, with the images' links resolved; as in Kubernetes, a relative one is at `/`."""
    path = "/" + path.lstrip("/") if "/.." in path else absolute_path(path)
    return resolve(path) or absolute_path(path)


class Mounts:
    """The mount points of a container."""

    def __init__(self, paths: Iterable[str] = (), empty: Iterable[str] = (), files: Iterable[str] = ()) -> None:
        """Volumes at ``empty`` have no folders when the container starts; those of them at ``files`` may have files."""
        paths = [*paths]
        self._count = Counter(map(resolved_path, paths))
        written = map(absolute_path, paths)
        self._written = {resolved_path(path): path for path in written if path.startswith(LINK_STARTS)}
        """The mount points through links, as they are written."""
        count = Counter(map(resolved_path, empty))
        self._empty = frozenset(path for path in count if count[path] == self._count[path])
        """The mount points whose volumes are all empty at the start, and have no packages."""
        self._files = frozenset(map(resolved_path, files))
        """The mount points at which one of these volumes may have files."""
        self._doubled: set[str] = set()
        """The mount points that were added where one was already."""
        self._program_mounts: list[str] | None = None
        """The first mount point that hides programs of an image, or none; several engines may ask for it."""
        self.hidden_source = ""
        """What may have further mounts that the manifest does not show; empty if nothing has."""

    def __bool__(self) -> bool:
        return bool(self._count or self.hidden_source)

    @staticmethod
    def from_paths(paths: Iterable[str]) -> Mounts:
        """The mounts at ``paths``; one at an `Unknown` may be anywhere below the folder in it that is known."""
        paths = [*filter(None, paths)]
        mounts = Mounts(filter(None, map(known_folder, paths)))
        mounts.hidden_source = next((path for path in paths if not known_folder(path)), "")
        return mounts

    def __or__(self, other: Mounts) -> Mounts:
        """The union of two."""
        return Mounts.union((self, other))

    @staticmethod
    def union(parts: Sequence[Mounts]) -> Mounts:
        """The mount points of several containers: one that several have counts as often as in one of them."""
        union = Mounts()
        for part in parts:
            union._written |= part._written  # noqa: SLF001  # of the same class
            for path, count in part._count.items():  # noqa: SLF001  # of the same class
                union._count[path] = max(union._count[path], count)
        filled = {path for part in parts for path in part._count.keys() - part._empty}  # noqa: SLF001  # of the same class
        union._doubled = set().union(*(part._doubled for part in parts))  # noqa: SLF001  # of the same class
        union._empty = frozenset().union(*(part._empty for part in parts)) - filled  # noqa: SLF001  # of the same class
        union._files = frozenset().union(*(part._files for part in parts))  # noqa: SLF001  # of the same class
        union.hidden_source = next((part.hidden_source for part in parts if part.hidden_source), "")
        return union

    def add(self, path: str) -> None:
        """Add a mount point whose volume is not empty; one that is there already is not counted again."""
        found = resolved_path(path)
        self._program_mounts = None
        if self._count[found]:
            self._doubled.add(found)
        self._count[found] = self._count[found] or 1
        if found in self._empty:
            self._empty -= {found}

    @property
    def paths(self) -> list[str]:
        """The mount points."""
        return [*self._count]

    def model_mounts(self, folder: str) -> tuple[str, ...]:
        """The mount points that may have a model; not those at or above a working folder whose volumes are empty."""
        above = set(_ancestry(folder)) if isabs(folder) else self._empty if folder == ANY_FOLDER else set()
        return tuple(path for path in self._count if path not in self._empty or path not in above)

    def model_mounts_near(self, folder: str) -> tuple[str, ...]:
        """Those of the ``model_mounts`` that are at, above or below a working folder; all if it may be any."""
        filled = self.model_mounts(folder)
        if not filled or not isabs(folder):
            return filled
        above, below = set(_ancestry(folder)), f"{folder.rstrip('/')}/"
        return tuple(path for path in filled if path in above or path.startswith(below))

    def with_programs(self) -> set[str]:
        """The mount points that may have a program: also those of volumes that only have files, such as a Secret's."""
        return {*self.model_mounts(ANY_FOLDER), *self._files}

    def first_program(self, words: Sequence[str]) -> int | None:
        """The index of the first word that may be a program in a volume, as in `env /mnt/cat`; None if none may.

        A relative path may be one if it is the first word or begins with a dot.
        """
        mounts = self.with_programs()
        for index, word in enumerate(words if mounts else ()):
            is_path = word.startswith(("/", "./", "../")) or (index == 0 and "/" in word)
            if is_path and self._may_contain(word, mounts):
                return index
        return None

    def file_mount(self, folder: str) -> str:
        """A mount point that may be the working folder and have files, but no folder; empty if none is."""
        known = (folder,) if folder != ANY_FOLDER else self._files
        return next((path for path in known if path in self._files and path in self._empty), "")

    def hides(self, file: str, mount: str) -> bool:
        """Whether another mount hides a file of the one at ``mount``.

        It does if it is at the file or between them. Of two mounts at the same path, either may hide the other.
        """
        own = resolved_path(mount)
        return self._count[own] > 1 or any(
            path is None or (len(path) > len(own) and path in self._count) for path in _ancestry(file)
        )

    def mount_over(self, folders: Iterable[str]) -> tuple[str, str] | None:
        """The first mount that may replace files of a folder that is itself a mount, and that folder.

        The mount is below the folder and not empty, or at the folder in addition to the folder's own.
        """
        found = {resolved_path(folder): folder for folder in folders}
        for path in self._count if found else ():
            if path in self._doubled and path in found:
                return path, found[path]
            above = next((each for each in _ancestry(dirname(path)) if each in found), None)
            if above is not None and path != above and path not in self._empty:
                return path, found[above]
        return None

    def other_vllm(
        self, server: ServerCommand | None, folder: str, env: Mapping[str, str | None], image_folder: str = ""
    ) -> Installation | None:
        """The vLLM that may run from a volume, if any; ``folder`` is the working folder, empty for the image's own.

        ``image_folder`` is the absolute folder in which the server starts if its container starts in the image's own.
        """
        folders = [each for each in (folder, *(() if server is None else server.folders), image_folder) if each]
        replaced = (
            next(iter(self._first_with_programs()), None)
            or self._mount_of_program(() if server is None else server.programs)
            or self._user_packages(server, env, folders)
        )
        if replaced is not None:
            shown = replaced[1:] if replaced[1:2] in {"~", "$"} else self._written.get(replaced, replaced)
            return Installation(None, f"the mount at {quoted(shown)} may make another vLLM run")
        if self.hidden_source:
            return Installation(
                None, f"the volumes of {quoted(self.hidden_source)} are not shown and may have another vLLM"
            )
        if server is None or not self._count:
            return None
        if any(PYTHON.fullmatch(program.rpartition("/")[2]) for program in server.programs):
            modules = self._modules()
            for found in folders:
                if self._may_contain(join(found, "vllm")):
                    return Installation(None, f"the working folder {quoted(found)} may have another vLLM")
                if (module := modules.get(resolved_path(found))) is not None:
                    return Installation(None, MODULE_MOUNT.format(quoted(module)))
        for program in server.programs:
            path = in_working_folder(program)
            starts = [join(found, path) for found in folders] or [path]
            if "/" in program and any(map(self._may_contain, starts)):
                return Installation(None, f"{quoted(program)} may be a different vLLM from the image's")
        return None

    def vllm_of_variables(
        self, server: ServerCommand | None, env: Mapping[str, str | None], words: Sequence[str]
    ) -> Installation | None:
        """The vLLM that may run because a variable names a file or folder on a volume from which code is loaded.

        If the value of a variable is not known, the paths that the ``words`` of the command assign to it count.
        """
        own = {} if server is None else server.env
        names = [name for name in LOCATIONS if name in own or name in env] if self._count else []
        if not names:
            return None
        parents = {dirname(path) for path in self._count if DRIVERS.match(path) is None}
        for name in names:
            value = own.get(name, env.get(name))
            texts = assigned_values(name, words) if value is None else [value]
            for path in (resolved_path(path) for text in texts for path in text.split(":") if isabs(path)):
                is_driver = DRIVERS.match(path) is not None
                if not is_driver and (path in parents or self._may_contain(path)):
                    cause = f"the variable `{name}` has a path on a volume, which may make another vLLM run"
                    return Installation(None, cause)
        return None

    def _first_with_programs(self) -> list[str]:
        if self._program_mounts is None:
            self._program_mounts = [*islice(filter(_has_programs, self._count), 1)]
        return self._program_mounts

    def _mount_of_program(self, programs: Iterable[str]) -> str | None:
        """The mount at which one of the programs may be found before the image's; None if none is."""
        names = [program for program in programs if "/" not in program]
        paths = (f"{folder}/{name}" for folder in PATH_FOLDERS for name in names)
        return next((path for path in paths if path in self._count), None)

    def _user_packages(
        self, server: ServerCommand | None, env: Mapping[str, str | None], folders: Iterable[str]
    ) -> str | None:
        """The mount that may have Python packages of the user, which come before the image's; None if none may.

        Any may if the home is stated but not known. A relative one is in one of the working ``folders``.
        """
        own = {} if server is None else server.env
        home, without = (own.get(name, env.get(name)) for name in ("HOME", "PYTHONNOUSERSITE"))
        home = home and in_working_folder(home)
        filled = [path for path in self._count if path not in self._empty]
        if without:
            return None
        if home is None and ("HOME" in own or "HOME" in env):
            return next(iter(filled), None)
        if not home:
            return next(filter(USER_FOLDER.fullmatch, filled), None)
        for start in ("/",) if isabs(home) else folders:
            folder = resolved_path(join(start, home, ".local"))
            above = set(_ancestry(folder))
            found = next((path for path in filled if path in above or path.startswith(f"{folder}/")), None)
            if found is not None:
                return found
        return None

    def _modules(self) -> dict[str, str]:
        """The folders in which a mount may be a module that Python imports, each with its first such mount."""
        without_files, found = self._empty - self._files, dict[str, str]()
        for path in self._count:
            for folder in islice(_ancestry(path), 1, None) if path not in without_files else ():
                if folder and may_be_imported(path[len(folder.rstrip("/")) + 1 :]):
                    found.setdefault(folder, path)
        return found

    def _may_contain(self, path: str, mounts: Collection[str] | None = None) -> bool:
        """Whether a path is at or below a mount, of ``mounts`` or any.

        It is true for a path that may be: a relative, very deep or volatile one.
        """
        if not isabs(path) or resolved_path(path).startswith(VOLATILE_FOLDERS):
            return True
        mounts = self._count if mounts is None else mounts
        return any(found is None or found in mounts for found in _ancestry(path))


def mount_paths(mounts: Any, key: str) -> list[str]:
    """The paths under ``key`` in a list of mounts; invalid mounts are skipped, as they are reported elsewhere."""
    items = mounts if isinstance(mounts, list) else []
    found = (item.get(key) for item in items if isinstance(item, dict))
    return [path for path in found if isinstance(path, str)]


def _ancestry(path: str) -> Iterator[str | None]:
    """A path and its parent folders, up to the root; a single None if there are too many."""
    path = resolved_path(path)  # which ends the loop: of two slashes at the start `dirname` leaves two
    if path.count("/") > MAX_DEPTH:
        yield None
        return
    while path != "/":
        yield path
        path = dirname(path)
    yield path


def _has_programs(mount: str) -> bool:
    """Whether a mount hides programs or libraries of an image."""
    below = mount.rstrip("/") + "/"
    if PACKAGE_FOLDERS.search(mount) is not None or any(f"{folder}/".startswith(below) for folder in VLLM_FOLDERS):
        return True
    is_first = mount in PATH_FOLDERS or (
        dirname(mount) in PATH_FOLDERS and PROGRAM.fullmatch(basename(mount)) is not None
    )
    is_first = is_first or mount in CHECKOUTS or LIBRARIES.fullmatch(mount) is not None
    return is_first or any(below.startswith(f"{folder}/") for folder in VLLM_FOLDERS)
