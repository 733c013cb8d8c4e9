"""The modules of vLLM that `python -m` starts, and the releases in which they start the server.

From the sources of the releases: whether a module is there, and runs its ``main`` when it is started. Not here: what a
module does with its arguments (`serve_command`, `arguments`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ALL_RELEASES: Final = SpecifierSet()
NO_RELEASE: Final = SpecifierSet("<0")

RELEASES: Final = {
    "vllm": NO_RELEASE,
    "vllm.entrypoints.api_server": SpecifierSet("<0.25"),
    "vllm.entrypoints.cli": NO_RELEASE,
    "vllm.entrypoints.cli.main": SpecifierSet(">=0.7.3"),
    "vllm.entrypoints.grpc_server": SpecifierSet(">=0.14"),
    "vllm.entrypoints.launchers.api_server.entry": SpecifierSet(">=0.29"),
    "vllm.entrypoints.launchers.grpc_server": SpecifierSet(">=0.30"),
    "vllm.entrypoints.openai.api_server": ALL_RELEASES,
    "vllm.scripts": SpecifierSet("<0.7.3"),
}
"""Module → the releases in which `python -m` with it starts the server.

`vllm.scripts` only imports the other module from 0.7.3 on, and ends. No release has `vllm.__main__`.
"""


@lru_cache(maxsize=256)
def module_fault(release: str, module: str) -> str:
    """Why a release starts nothing with a module; empty if it does, or if the module is not vLLM's."""
    releases = RELEASES.get(module, ALL_RELEASES)
    if Version(release) in releases:
        return ""
    where = "no release does" if releases is NO_RELEASE else f"vLLM {releases} does"
    return f"`python -m {module}` starts no server in vLLM {release}; {where}; write `vllm serve MODEL`"
