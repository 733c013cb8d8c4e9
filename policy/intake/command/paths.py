"""Paths in the working folder of a script, without looking at any files."""

from __future__ import annotations

import re
from posixpath import join, normpath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PATH: Final = 1024
"""The length above which a relative path is not resolved."""
MAX_HOME: Final = 256
"""The length above which a home does not count: a short path would stand for a long one."""
ROOT: Final = re.compile(r"(?:/proc/(?:self|thread-self|[0-9]{1,9})(?:/task/[0-9]{1,9})?/root)++(?=/|\Z)")
"""Matches the beginning of a path that is a link of a process to the root."""
DEVICES: Final = re.compile(
    r"/(?:dev/(?!shm/)|proc/(?!(?:self|thread-self|[0-9]{1,9})(?:/task/[0-9]{1,9})?/(?:root|cwd)(?![\w.-])))(?!.*/\.\.)",
    re.DOTALL,
)
"""Matches a path below `/dev` or `/proc` that leads to no file of a folder elsewhere."""
HOME_PATH: Final = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?:/(?!\.\.(?:/|\Z))[^/$`*?\[{]*+)*+")
"""Matches a path in the home of the user who runs a command, of which only the home is not known."""
LINKS: Final = {
    **{f"/{name}": f"/usr/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32")},
    "/var/run": "/run",
    "/var/lock": "/run/lock",
    "/usr/bin/X11": "/usr/bin",
    "/usr/local/man": "/usr/local/share/man",
}
"""The folders that are links in images of vLLM, with the folders to which they lead."""
LINK_STARTS: Final = tuple(LINKS)
MAX_LINK: Final = 3
"""The maximum number of folders in the path of such a link."""
VOLATILE_FOLDERS: Final = ("/proc/", "/dev/fd")
"""The beginnings of folders that lead elsewhere in each process."""

ANY_FOLDER: Final = "\0"
"""Stands for a working folder that may be any."""


def is_device(path: str) -> bool:
    """Whether a path leads to a device, or to a state of the system or of a process, and to no file of a folder."""
    return path.startswith(("/dev/", "/proc/")) and DEVICES.match(path) is not None


def without_root_links(path: str) -> str:
    """A normalized path without links of a process to the root at its beginning: `/proc/self/root/data`."""
    found = ROOT.match(path)
    return path if found is None else path[found.end() :] or "/"


def absolute_path(path: str) -> str:
    """An absolute path without `.`, `..` and a link to the root at its beginning; a relative one is from the root."""
    return without_root_links(normpath("/" + path.lstrip("/")))


def home_of(own: Mapping[str, str | None], home: str | None) -> str:
    """The home for a command that sets its ``own`` variables, after ``home``; empty if it is not known, or too long."""
    found = own.get("HOME", home) or ""
    return found if found[:1] == "/" and len(found) <= MAX_HOME else ""


def in_home(path: str, home: str) -> str:
    """A path with the home in place of `~` at its beginning; as written if the home is empty."""
    if not home or not path.startswith("~") or path[1:2] not in {"", "/"}:
        return path
    return absolute_path(home + path[1:])


def path_in(folder: str, path: str) -> str:
    """A path in a folder without `.` and `..`; a path that is too long even then is returned without the folder."""
    if len(path) > MAX_PATH:
        path = normpath(path)
    if len(path) > MAX_PATH or len(folder) > MAX_PATH:
        return path
    if path[:1] in {"~", "$"}:
        folder = ""
    found = without_root_links(normpath(join(folder, path)))
    return found[1:] if found[:2] == "//" else "" if found == "." else found


def resolve(path: str) -> str | None:
    """An absolute path without `.`, `..` and links of the images; None if it is not known.

    After a link, `..` leads to the folder above the link's target, as for the system. A shell's `cd` leads to the
    folder above the link, if the shell entered the link itself.
    """
    if "/.." not in path:
        path = normpath(path)
        if not path.startswith(LINK_STARTS):
            return path
    folder: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if "/".join(["", *folder[: MAX_LINK + 1]]).startswith(VOLATILE_FOLDERS):
                return None
            del folder[-1:]
        elif part not in {"", "."}:
            folder.append(part)
            if len(folder) <= MAX_LINK and (target := LINKS.get("/".join(["", *folder]))) is not None:
                folder = target.split("/")[1:]
    return "/" + "/".join(folder)
