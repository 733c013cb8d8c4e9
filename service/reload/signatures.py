"""Whether a commit is signed by an allowed signer (``ALLOWED SIGNERS`` of ssh-keygen(1)).

Owns the reading of that file. An entry that has expired, or is for a namespace other than git, is ignored; so is one
whose principals match nobody. A commit is not asked who signed it: a key may sign if its entry has a principal left.
"""

from __future__ import annotations

from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from sshsig.allowed_signers import AllowedSigner
from sshsig.ssh_public_key import PublicKey
from sshsig.sshsig import InvalidSignature, check_signature

from policy.errors import PolicyError
from policy.parser.files import read_at_most

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dulwich.objects import Commit

MAX_BYTES: Final = 1 << 20
"""The largest size of a file of allowed signers, in bytes."""
MAX_PATTERN: Final = 1_022
"""The length of the longest pattern that OpenSSH reads, in bytes; a list with a longer one matches nothing."""
NAMESPACE: Final = "git"
FORMATS: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""The formats of a timestamp, by its length."""


class NotSigned(PolicyError):
    """A commit is not signed by an allowed signer."""


class SignersInvalid(PolicyError):
    """The file of allowed signers cannot be used."""


def verify(commit: Commit, file: Path) -> None:
    """Check that a commit is signed by an allowed signer of the file.

    Raises:
        NotSigned: it is not, or this cannot be verified.
    """
    try:
        payload, signature, _ = commit.extract_signature()
        key = check_signature(payload, signature, NAMESPACE) if signature is not None else None
        allowed = read_signers(file)
    except (InvalidSignature, NotImplementedError) as error:
        raise NotSigned(f"invalid signature: {str(error) or type(error).__name__}") from error
    except SignersInvalid as error:
        raise NotSigned(str(error)) from error
    except Exception as error:  # a signature that cannot be parsed is not valid
        raise NotSigned(f"the signature cannot be read: {error}") from error
    if key is None:
        raise NotSigned("it is not signed")
    if key not in allowed:
        raise NotSigned("its signer is not an allowed signer")


def read_signers(file: Path) -> list[PublicKey]:
    """The keys by which commits may be signed today.

    Raises:
        SignersInvalid: a line cannot be read.
    """
    try:
        data = read_at_most(file, MAX_BYTES + 1)
        lines = data.decode().split("\n")  # as OpenSSH; `splitlines` would end a comment at other characters too
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else f"byte {error.start} is not UTF-8"
        raise SignersInvalid(f"{file} cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise SignersInvalid(f"{file} has more than the {MAX_BYTES:,} bytes that are read")
    keys = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            signer = AllowedSigner.parse(line.strip())
            if _may_sign(signer):
                keys.append(PublicKey.from_openssh_str(f"{signer.key_type} {signer.base64_key}"))
        except NotImplementedError:  # an unsupported kind of key: no signature can match it
            continue
        except ValueError as error:
            raise SignersInvalid(f"{file}:{number}: invalid entry: {error}") from error
    return keys


def _may_sign(signer: AllowedSigner) -> bool:
    options = {name.lower(): text for name, text in (signer.options or {}).items()}
    now = datetime.now(UTC)
    return (
        "cert-authority" not in options
        and _matches_anybody(signer.principals)
        and _matches(NAMESPACE, options.get("namespaces", NAMESPACE).split(","))
        and ("valid-after" not in options or _timestamp(options["valid-after"]) <= now)
        and ("valid-before" not in options or now < _timestamp(options["valid-before"]))
    )


def _matches_anybody(principals: str) -> bool:
    """Whether one of the patterns, taken as an identity, matches the list; ``git verify-commit`` tries the same."""
    patterns = principals.split(",")
    return any(_matches(each, patterns) for each in patterns if each)


def _matches(text: str, patterns: Sequence[str]) -> bool:
    """Whether a text matches a list of patterns (``PATTERNS`` of ssh_config(5)).

    A negated pattern that matches excludes the text, and none but the others include it.
    """
    excluding = [each[1:] for each in patterns if each.startswith("!")]
    including = [each for each in patterns if not each.startswith("!")]
    return (
        all(len(each.encode()) <= MAX_PATTERN for each in (*excluding, *including))
        and any(_is_like(text, each) for each in including)
        and not any(_is_like(text, each) for each in excluding)
    )


def _is_like(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern.replace("[", "[[]"))  # `*` and `?` are the only wildcards of OpenSSH


def _timestamp(text: str) -> datetime:
    """A timestamp as ``ssh-keygen`` writes it: in local time without a ``Z``."""
    plain = text.removesuffix("Z")
    if len(plain) not in FORMATS:
        raise ValueError(f"invalid timestamp `{text}`; write one such as `20270131`")
    found = datetime.strptime(plain, FORMATS[len(plain)])  # noqa: DTZ007  # the zone is set below
    return found.replace(tzinfo=UTC) if text != plain else found.astimezone()
