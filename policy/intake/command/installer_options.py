"""The words of `pip` and `uv pip`: options and variables that are known not to change where and whether they install.

From the manuals and parsers of pip 26 and uv 0.13. An option or a variable that is not listed may change anything. Not
here: whether a command runs pip, and what it installs (`installation`).
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads the annotations
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.code_variables import vllm_of_variables
from policy.intake.command.launcher_grammar import Launcher, Meaning, launcher, launcher_words, read_options
from policy.intake.command.words import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

# https://pip.pypa.io/en/stable/cli/pip_install/
_PIP_FLAGS: Final = (
    "--isolated -q --quiet -v --verbose --no-input --no-color --no-cache-dir --disable-pip-version-check "
    "--no-python-version-warning --debug --no-proxy-env"
)
_PIP_VALUES: Final = (
    "--proxy --retries --resume-retries --timeout --default-timeout --trusted-host --cert --client-cert --cache-dir "
    "--log --log-file --keyring-provider --use-feature --use-deprecated"
)
_PIP_CHANGES: Final = "--python --require-virtualenv --require-venv --exists-action"
_PIP_INSTALL: Final = launcher(
    flags=f"{_PIP_FLAGS} -U --upgrade --pre --no-deps --no-dependencies --force-reinstall -I --ignore-installed "
    "--ignore-requires-python --no-build-isolation --check-build-dependencies --use-pep517 "
    "--break-system-packages --compile --no-compile --no-warn-script-location --no-warn-conflicts --prefer-binary "
    "--no-require-hashes --no-clean",
    values=f"{_PIP_VALUES} -i --index-url --pypi-url --extra-index-url -f --find-links --upgrade-strategy --no-binary "
    "--only-binary --progress-bar --root-user-action --report -C --config-settings "
    "--all-releases --only-final --refresh-package "
    "--python --exists-action -c --constraint --build-constraint -t --target --platform --python-version "
    "--implementation --abi --root --prefix --src --uploaded-prior-to",
    changes=f"{_PIP_CHANGES} -c --constraint --build-constraint -t --target --platform --python-version "
    "--implementation --abi --root --prefix --src --uploaded-prior-to --user --no-user --no-index --require-hashes "
    "--only-deps",
    stops="-h --help --dry-run",
    abbreviates=False,
    ends_options=False,
)
PIP: Final = launcher(
    flags=_PIP_FLAGS,
    values=f"{_PIP_VALUES} --python --exists-action",
    changes=_PIP_CHANGES,
    stops="-h --help -V --version",
    commands={"install": _PIP_INSTALL},
    abbreviates=False,
    ends_options=False,
)
"""`pip`: its options that keep where and whether it installs, those that change it, and those that install nothing."""

# https://docs.astral.sh/uv/reference/cli/
_UV_FLAGS: Final = (
    "-n --no-cache --no-cache-dir -q --quiet -v --verbose --system-certs --no-system-certs --native-tls "
    "--no-native-tls --no-progress --no-config --no-offline"
)
_UV_VALUES: Final = "--cache-dir --color --allow-insecure-host --trusted-host --cert"
_UV_CHANGING_FLAGS: Final = "--offline --managed-python --no-managed-python --no-python-downloads"
_UV_CHANGING_VALUES: Final = "--directory --project --config-file --python-preference"
_UV_INSTALL: Final = launcher(
    flags=f"{_UV_FLAGS} --system -U --upgrade --reinstall --force-reinstall --no-deps --pre --compile-bytecode "
    "--no-build-isolation --no-build --refresh --break-system-packages --no-break-system-packages "
    "--no-verify-hashes --no-sources --strict --exact",
    values=f"{_UV_VALUES} {_UV_CHANGING_VALUES} --torch-backend --index --default-index -i --index-url "
    "--extra-index-url -f --find-links --index-strategy --keyring-provider -P --upgrade-package --resolution "
    "--prerelease --prerelease-package --fork-strategy --link-mode -C --config-setting --config-settings "
    "--config-settings-package --no-build-isolation-package --no-binary --only-binary --refresh-package "
    "--reinstall-package --no-sources-package --output-format "
    "-c --constraints --constraint --overrides --override --excludes -b --build-constraints --build-constraint -t "
    "--target --prefix --python-version --python-platform --exclude-newer --exclude-newer-package --upgrade-group "
    "-p --python",
    changes=f"{_UV_CHANGING_FLAGS} {_UV_CHANGING_VALUES} -c --constraints --constraint --overrides --override "
    "--excludes -b --build-constraints --build-constraint -t --target --prefix --python-version --python-platform "
    "--exclude-newer --exclude-newer-package --upgrade-group -p --python --user --no-index --require-hashes "
    "--require-build-hashes --check",
    stops="-h --help -V --version --dry-run",
    abbreviates=False,
    ends_options=False,
)
UV_PIP: Final = launcher(
    flags=_UV_FLAGS,
    values=f"{_UV_VALUES} {_UV_CHANGING_VALUES}",
    changes=f"{_UV_CHANGING_FLAGS} {_UV_CHANGING_VALUES}",
    stops="-h --help -V --version",
    commands={"install": _UV_INSTALL},
    abbreviates=False,
    ends_options=False,
)
"""The same for `uv`, before its command `pip` and after it."""
PYTHON: Final = launcher(
    flags="-b -B -E -I -O -P -q -s -u -v", values="-W -X", modules="-m", abbreviates=False, ends_options=False
)
"""Python's options before `-m pip` that do not change the environment."""
TRANSPARENT_LAUNCHERS: Final = frozenset({"nohup", "nice", "ionice", "stdbuf", "time", "command"})
"""Launchers that start pip as they are started: in the same environment, and until it has ended."""
UV_VARIABLES: Final = frozenset(
    {
        *("UV_BREAK_SYSTEM_PACKAGES", "UV_CACHE_DIR", "UV_COMPILE_BYTECODE", "UV_CONCURRENT_BUILDS"),
        *("UV_CONCURRENT_DOWNLOADS", "UV_CONCURRENT_INSTALLS", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL"),
        *("UV_FIND_LINKS", "UV_FORK_STRATEGY", "UV_HTTP_RETRIES", "UV_HTTP_TIMEOUT", "UV_INDEX", "UV_INDEX_STRATEGY"),
        *("UV_INDEX_URL", "UV_INSECURE_HOST", "UV_INSTALL_DIR", "UV_KEYRING_PROVIDER", "UV_LINK_MODE"),
        *("UV_NATIVE_TLS", "UV_NO_BUILD_ISOLATION", "UV_NO_CACHE", "UV_NO_CONFIG", "UV_NO_PROGRESS"),
        *("UV_NO_VERIFY_HASHES", "UV_PRERELEASE", "UV_PYTHON_INSTALL_DIR", "UV_REQUEST_TIMEOUT", "UV_RESOLUTION"),
        *("UV_SYSTEM_CERTS", "UV_SYSTEM_PYTHON", "UV_TORCH_BACKEND"),
    }
)
"""The variables of uv that do not change where and whether `uv pip install` installs."""
SYSTEM: Final = "--system"
SYSTEM_VARIABLE: Final = "UV_SYSTEM_PYTHON"
TRUE_VALUES: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
PIP_PREFIX: Final = "PIP_"
UV_PREFIX: Final = "UV_"
ENVIRONMENT_VARIABLES: Final = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""The variables that name the environment into which uv installs without `--system`."""


class InstallWords(Struct):
    """The words of an `install`: what it is to install, and the words of its options.

    ``installs``: false if it only prints something. ``is_known``: whether all its options are known, so that no
    requirement is missing. ``changes``: whether an option may change where or whether it installs.
    """

    requirements: list[str]
    options: list[str]
    installs: bool
    is_known: bool
    changes: bool


def install_words(grammar: Launcher, words: Sequence[str], at: int) -> InstallWords:
    """Read the words of an installer, which begin at ``at``, before its `install`."""
    read = launcher_words(grammar, words, at)
    found = InstallWords([], list(words[at : read.end]), installs=True, is_known=True, changes=False)
    while read.end < len(words) and not read.is_unexpected and Meaning.STOPS not in read.meanings:
        found.requirements.append(words[read.end])
        read.end = start = read.end + 1
        read_options(read.launcher, words, read)
        found.options += words[start : read.end]
    may_differ = any(map(_may_be_several, found.options))
    stops = Meaning.STOPS in read.meanings
    found.installs = may_differ or not stops  # in `-i $A --dry-run` it may be the value of `-i`
    found.is_known = not (read.is_unexpected or (stops and may_differ))
    found.changes = Meaning.CHANGES in read.meanings or may_differ
    return found


def is_harmless_option(option: str) -> bool:
    """Whether an option of `pip install` is known not to change where or whether it installs."""
    found = _PIP_INSTALL.options.get(option)
    return found is not None and found.meaning is Meaning.KEEPS


class InstallVariables(Struct):
    """The variables of the commands of a script; ``script`` has those that the script sets for the current command.

    A mapping must not be modified, as it is searched once for variables that may change an installation.
    """

    environment: Mapping[str, str | None] = {}
    script: Mapping[str, str | None] = {}
    searched: dict[int, tuple[bool, bool]] = {}

    def may_change(self, own: Mapping[str, str | None], *, is_uv: bool) -> bool:
        """Whether a variable may change where or whether pip, or uv, installs, or which of them runs.

        ``own`` has the variables that the command sets itself.
        """
        if vllm_of_variables(self.environment, self.script, own) is not None:
            return True
        for variables in (self.environment, self.script):
            if id(variables) not in self.searched:
                self.searched[id(variables)] = _changes(variables)
        found = (self.searched[id(self.environment)], self.searched[id(self.script)], _changes(own))
        return any(each[is_uv] for each in found)

    def value(self, name: str, own: Mapping[str, str | None]) -> str | None:
        """The value of a variable; empty if it is not set, None if it is not known."""
        for variables in (own, self.script, self.environment):
            if name in variables:
                return variables[name]
        return ""


def _changes(variables: Mapping[str, str | None]) -> tuple[bool, bool]:
    """Whether a variable may change where or whether pip installs, and whether one may change that for uv.

    The variables of pip are named after its options.
    """
    changes_pip = changes_uv = False
    for name, value in variables.items():
        if value == "":
            continue
        if name.startswith(PIP_PREFIX):
            option = "--" + name.removeprefix(PIP_PREFIX).lower().replace("_", "-")
            changes_pip = changes_pip or not is_harmless_option(option)
        elif name.startswith(UV_PREFIX):
            changes_uv = changes_uv or name not in UV_VARIABLES
    return changes_pip, changes_uv


def _may_be_several(word: str) -> bool:
    """Whether a shell may make other options of a word."""
    return getattr(word, "is_several", False) or (type(word) is Pattern and not word.startswith("-"))
