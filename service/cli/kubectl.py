"""The plug-in of kubectl: the same program by the name ``kubectl-runner_policy``, which can read a cluster's objects.

Owns the options that ask for objects, and the arguments of `kubectl get`. Without these options, the plug-in is the
same as ``runner-policy``.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from codecs import getincrementaldecoder
from threading import Thread
from typing import IO, Any, Final, NoReturn

from policy.cli.console import INTERRUPTED, USAGE
from policy.cli.requests import MAX_FILE
from policy.escaping import escape_lines
from policy.intake.manifests.registry import ADAPTERS
from policy.messages import quoted

COMMANDS: Final = ("impact", "pins", "lint", "decide")
"""The commands that take a fleet; other commands get all options themselves."""
OBJECT_OPTIONS: Final = {
    "-A": 0,
    "--all-namespaces": 0,
    "-n": 1,
    "--namespace": 1,
    "-l": 1,
    "--selector": 1,
    "--kinds": 1,
}
"""The options that ask for objects, each with its number of values."""
CLUSTER_OPTIONS: Final = {"--context": 1, "--kubeconfig": 1, "--cluster": 1, "--user": 1, "--as": 1}
"""Further options of kubectl, which say which cluster it is."""
KINDS: Final = "--kinds"
KUBECTL: Final = "kubectl"
NO_LIST: Final = "kubectl printed no list of objects"
MADE_BY: Final[dict[tuple[str, str] | None, tuple[tuple[str, str], ...]]] = {
    ("apps", "ReplicaSet"): (("apps", "Deployment"), ("argoproj.io", "Rollout")),
    ("batch", "Job"): (("batch", "CronJob"),),
}
"""The kinds whose objects make those of another kind, with their own name and a suffix."""
HASH_LABELS: Final = ("pod-template-hash", "rollouts-pod-template-hash")
"""The labels of a pod with the suffix of its ReplicaSet's name."""
UNLISTED_KINDS: Final = frozenset({("", "PodTemplate")})


def main() -> None:
    """Run the command line; with an option that asks for it, on the objects of a cluster."""
    from service.cli import main as run  # noqa: PLC0415  # the command line is loaded once

    words = sys.argv[1:]
    options, rest, asks = split(words)
    if not words or words[0] not in COMMANDS or not asks:
        run()
        return
    try:
        found, has_failed = objects(options)
        data = as_input(found)
    except RecursionError:
        _fail(NO_LIST)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    sys.argv = [sys.argv[0], rest[0], "-", *rest[1:]]
    try:
        run()
    except SystemExit as end:
        if has_failed and not end.code:
            sys.exit(1)
        raise


def split(words: list[str]) -> tuple[list[str], list[str], bool]:
    """The words for kubectl, those for the command, and whether objects are asked for."""
    taken: list[str] = []
    rest: list[str] = []
    asks = False
    at = 0
    known = OBJECT_OPTIONS | CLUSTER_OPTIONS
    while at < len(words):
        word = words[at]
        name, equals, _ = word.partition("=")
        if word == "--":
            return taken, [*rest, *words[at:]], asks
        if name not in known or (equals and not known[name]):
            rest.append(word)
            at += 1
            continue
        number = 0 if equals else known[name]
        taken += words[at : at + 1 + number]
        asks = asks or name in OBJECT_OPTIONS
        at += 1 + number
    return taken, rest, asks


def objects(options: list[str]) -> tuple[list[dict[str, Any]], bool]:
    """The objects that could start vLLM, without those that others of them own; and whether kubectl failed in part."""
    kinds, options = _kinds(options)
    has_failed = False
    if not kinds:
        table, has_failed = _kubectl(["api-resources", "--verbs=list", "--no-headers", *_place(options)])
        kinds = listed_kinds(table)
    if not kinds:
        _fail("kubectl lists no kind of object that could start vLLM")
    if (option := next((each for each in kinds if each.startswith("-")), None)) is not None:
        _fail(f"{KINDS}: expected names of kinds such as `pods`, got {quoted(option)}")
    text, failed = _kubectl(["get", ",".join(kinds), "-o", "json", *options])
    try:
        items = json.loads(text)["items"]
    except (ValueError, KeyError, TypeError, RecursionError):
        _fail(NO_LIST)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        _fail(NO_LIST)
    return without_controlled(items), has_failed or failed


def listed_kinds(table: str) -> list[str]:
    """The kinds in a table of `kubectl api-resources` that are read, as `kubectl get` takes them."""
    found = []
    for line in table.splitlines():
        words = line.split()
        if len(words) < 4:  # noqa: PLR2004  # name, version, whether it is namespaced, kind
            continue
        name, version, kind = words[0], words[-3], words[-1]
        group = version.partition("/")[0] if "/" in version else ""
        if (group, kind) in ADAPTERS and (group, kind) not in UNLISTED_KINDS:
            found.append(f"{name}.{group}" if group else name)
    return found


def without_controlled(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects that no other one of them controls, as such an object stands for them.

    A ReplicaSet or Job that is not among them stands for its own controller, by its name.
    """
    read = {uid for item in items if isinstance(uid := _metadata(item).get("uid"), str)}
    named = {_place_of(item) for item in items}
    return [item for item in items if not _is_controlled(item, read, named)]


def as_input(items: list[dict[str, Any]]) -> bytes:
    """The objects as one list, so that they can refer to each other; as a line each if that would be too long."""
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    return data if len(data) <= MAX_FILE else b"".join(json.dumps(item).encode() + b"\n" for item in items)


def _metadata(item: dict[str, Any]) -> dict[str, Any]:
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}


def _identity(item: dict[str, Any]) -> tuple[str, str] | None:
    """The group and kind of an object, or of the object of a reference."""
    version, kind = item.get("apiVersion") or "", item.get("kind")
    return (version.rpartition("/")[0], kind) if isinstance(version, str) and isinstance(kind, str) else None


def _place_of(item: dict[str, Any]) -> tuple[object, ...]:
    metadata = _metadata(item)
    return (_identity(item), str(metadata.get("namespace")), str(metadata.get("name")))


def _is_controlled(item: dict[str, Any], read: set[str], named: set[tuple[object, ...]]) -> bool:
    """Whether an object's controller is among the objects with the uids ``read``, or that controller's own by name."""
    metadata = _metadata(item)
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if not isinstance(owner, dict) or not owner.get("controller") or _identity(owner) not in ADAPTERS:
            continue
        uid = owner.get("uid")
        if isinstance(uid, str) and uid in read and uid != metadata.get("uid"):
            return True
        namespace = str(metadata.get("namespace"))
        name, _, suffix = str(owner.get("name")).rpartition("-")
        made = MADE_BY.get(_identity(owner), ()) if _is_generated(suffix, metadata) else ()
        if any((identity, namespace, name) in named for identity in made):
            return True
    return False


def _is_generated(suffix: str, metadata: dict[str, Any]) -> bool:
    """Whether a controller made a ReplicaSet's or Job's name with this suffix, by the metadata of its pod."""
    labels = metadata.get("labels")
    hashes = [labels.get(name) for name in HASH_LABELS] if isinstance(labels, dict) else []
    return suffix.isdecimal() or suffix in hashes


def _kinds(options: list[str]) -> tuple[list[str], list[str]]:
    """The kinds that an option names, and the other options."""
    kinds: list[str] = []
    rest: list[str] = []
    words = iter(options)
    for word in words:
        if word == KINDS:
            kinds += [each for each in next(words, "").split(",") if each]
        elif word.startswith(f"{KINDS}="):
            kinds += [each for each in word.partition("=")[2].split(",") if each]
        else:
            rest.append(word)
    return kinds, rest


def _place(options: list[str]) -> list[str]:
    """The options that say which cluster it is, without those that select objects."""
    found: list[str] = []
    words = iter(options)
    for word in words:
        name, equals, _ = word.partition("=")
        value = [] if equals or not (OBJECT_OPTIONS | CLUSTER_OPTIONS)[name] else [next(words, "")]
        found += [word, *value] if name in CLUSTER_OPTIONS else []
    return found


def _kubectl(words: list[str]) -> tuple[str, bool]:
    """What kubectl prints, and whether it failed; the program ends if it printed nothing."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    errors = subprocess.PIPE if on_terminal else None
    try:
        started = subprocess.Popen([KUBECTL, *words], stdout=subprocess.PIPE, stderr=errors)  # noqa: S603  # no shell
    except OSError as error:
        _fail(f"{KUBECTL} cannot be run: {error.strerror or error}")
    with started:
        teller = Thread(target=_tell, args=(started.stderr,), daemon=True) if started.stderr else None
        if teller is not None:
            teller.start()
        found = started.stdout.read() if started.stdout else b""
        if teller is not None:
            teller.join()
    if started.returncode and not found.strip():
        sys.exit(USAGE)  # it has said why
    return found.decode(errors="replace"), started.returncode != 0


def _tell(errors: IO[bytes]) -> None:
    """Write what kubectl says as it says it, such as how to log in, without control characters."""
    decoder = getincrementaldecoder("utf-8")("replace")
    part = b" "
    while part:
        part = os.read(errors.fileno(), 65536)
        sys.stderr.write(escape_lines(decoder.decode(part, final=not part)))
        sys.stderr.flush()


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(USAGE)
