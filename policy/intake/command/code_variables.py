"""Variables, and options of Python, by which Python, the dynamic loader or vLLM load other code than the image's.

Whole families count, except for the names that are known to load nothing, because releases of Python add names. Read at
`python3.14 --help-env`, ld.so(8) of glibc 2.41, config(5) of OpenSSL 3, and vLLM's own table up to 0.33. Not here: the
variables of shells (`shell_options`), and plug-ins (`loaded_code`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FAMILIES: Final = re.compile(
    r"PATH\Z|_?PYTHON|LD_|VLLM_LOGGING_CONFIG_PATH\Z"
    r"|RAY_(?:JOB_CONFIG_JSON_ENV_VAR|RUNTIME_ENV_HOOK|RUNTIME_ENV_PLUGINS|USER_SETUP_FUNCTION)\Z"
)
"""Matches a name of these families.

Those of Ray name functions that it calls, or state other variables and packages for vLLM's workers.
`VLLM_LOGGING_CONFIG_PATH` names a file that can make Python call any function, before vLLM reads its other variables.
"""
HARMLESS_VARIABLES: Final = frozenset(
    {
        *("PYTHONASYNCIODEBUG", "PYTHONBREAKPOINT", "PYTHONCASEOK", "PYTHONCOERCECLOCALE", "PYTHONDEBUG"),
        *("PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE", "PYTHONDUMPREFS", "PYTHONDUMPREFSFILE", "PYTHONFAULTHANDLER"),
        *("PYTHONHASHSEED", "PYTHONHTTPSVERIFY", "PYTHONINSPECT", "PYTHONINTMAXSTRDIGITS", "PYTHONIOENCODING"),
        *("PYTHONLEGACYWINDOWSFSENCODING", "PYTHONLEGACYWINDOWSSTDIO", "PYTHONMALLOC", "PYTHONMALLOCSTATS"),
        *("PYTHONNODEBUGRANGES", "PYTHONNOUSERSITE", "PYTHONPERFSUPPORT", "PYTHONPROFILEIMPORTTIME"),
        *("PYTHONSAFEPATH", "PYTHONTRACEMALLOC", "PYTHONTZPATH", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONVERBOSE"),
        *("PYTHONWARNDEFAULTENCODING", "LD_BIND_NOT", "LD_BIND_NOW", "LD_DEBUG_OUTPUT", "LD_PROFILE_OUTPUT"),
        *("LD_SHOW_AUXV", "LD_VERBOSE", "LD_WARN", "LD_LIBRARY_PATH"),
    }
)
"""The names that load nothing; `LD_LIBRARY_PATH` counts only with a folder on a volume (``LOCATIONS``)."""
OTHER_USES: Final = re.compile(r"PYTHON_(?!PRESITE\Z)|LD_(?:SDK_KEY|CLIENT_ID)\Z")
"""Matches a name that images and other programs use, such as `PYTHON_VERSION`, or a name of Python that loads nothing.

Of Python's own names with `PYTHON_`, only `PYTHON_PRESITE` names a module. `LD_SDK_KEY` is LaunchDarkly's.
"""
WARNINGS: Final = "PYTHONWARNINGS"
IMPORTING_FILTER: Final = re.compile(r"(?:^|,)[^,:]*:[^,:]*:\s*+(?!urllib3\.exceptions\.)[^,:.]*\.")
"""Matches a filter of `PYTHONWARNINGS` that names a class with its module, which Python then imports."""
IMPORTING_OPTION: Final = re.compile(r"[^:]*:[^:]*:\s*+(?!urllib3\.exceptions\.)[^:.]*\.")
"""The same for the filter of Python's option `-W`, in which a comma is part of the filter."""
LOADING_SETTING: Final = re.compile("(pycache_prefix|presite)=.", re.DOTALL)
"""Matches a setting of Python's option `-X` that does what `PYTHONPYCACHEPREFIX` and `PYTHON_PRESITE` do."""
SETTING_NAME: Final = re.compile(r"\w{1,64}=", re.ASCII)
"""Matches the name of a setting that has a value."""
LOCATIONS: Final = (
    *("LD_LIBRARY_PATH", "VLLM_NCCL_SO_PATH", "VLLM_CUDART_SO_PATH", "VLLM_CUDA_COMPATIBILITY_PATH"),
    *("VLLM_RUST_FRONTEND_PATH", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "GCONV_PATH"),
    *("CUDA_INJECTION64_PATH", "CC", "CXX", "TRITON_PTXAS_PATH", "NUMBA_CUDA_DRIVER"),
    *("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN"),
)
"""The variables with files or folders, separated by colons, from which libraries or programs are loaded.

A file or folder counts only if it is on a volume: the others are the image's own. Python's `ssl` and `hashlib` load the
libraries that OpenSSL's configuration names, the C library those of `GCONV_PATH`, and CUDA's `CUDA_INJECTION64_PATH`.
Triton and torch run the compilers, Numba and NCCL load their own.
"""
LOADER_ASSIGNMENT: Final = re.compile(
    r"""(?<!\w)((?:LD|VLLM|OPENSSL|GCONV|CUDA|TRITON|NUMBA|NCCL)_[A-Z0-9_]{1,64}+|CC|CXX)=["']?([^\s;&|"']*+)"""
)
"""Matches an assignment to a variable with libraries or programs in a script: its name, and how its value begins."""


def vllm_of_variables(*environments: Mapping[str, str | None]) -> Installation | None:
    """The vLLM that may run instead of the image's because of a variable, if any."""
    for environment in environments:
        names = "\n".join(environment)
        if not (
            "PATH" in names or "PYTHON" in names or "LD_" in names or "RAY_" in names
        ):  # as in most: FAMILIES for each takes longer
            continue
        name = next((name for name, value in environment.items() if _loads_code(name, value)), None)
        if name is not None:
            return Installation(None, f"the variable {quoted(name)} may make another vLLM run")
    return None


def assigned_values(name: str, words: Iterable[str]) -> list[str]:
    """The values that the words of a command, which may be scripts, assign to a variable, up to a blank or quote."""
    return [value for word in words if name in word for each, value in LOADER_ASSIGNMENT.findall(word) if each == name]


def loading_option(letter: str, value: str, *, is_known: bool) -> str:
    """The option of Python that loads other code, as shown, from its letter and value; empty if it loads none."""
    if letter == "X":
        found = LOADING_SETTING.match(value)
        if found is not None:
            return f"-X {found[1]}"
        return "" if is_known or SETTING_NAME.match(value) is not None else "-X"
    is_loading = not is_known or IMPORTING_OPTION.match(value) is not None
    return "-W" if is_loading else ""


def _loads_code(name: str, value: str | None) -> bool:
    """Whether a variable may load other code; ``value`` is None if it is not known; an empty one counts as not set."""
    if value == "" or FAMILIES.match(name) is None or name in HARMLESS_VARIABLES or OTHER_USES.match(name) is not None:
        return False
    return name != WARNINGS or value is None or IMPORTING_FILTER.search(value) is not None
