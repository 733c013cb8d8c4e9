"""bash runs scripts that install vLLM with fake programs: the release that is certain is the one that starts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from policy.intake.command.launcher import read_command

if TYPE_CHECKING:
    from policy.errors import RequestFault

IMAGES: Final = "0.24.0"
PIP: Final = """#!/bin/sh
[ "$1" = install ] || [ "$1" = uninstall ] || exit 0
for word; do
    case $word in
        --help | -h | --dry-run) exit 0 ;;
        vllm==*) version=${word#vllm==} ;;
        vllm) version=none ;;
    esac
done
[ -z "$version" ] || echo "$version" > "${target:-${0%/*}}/version"
"""
PYTHON: Final = """#!/bin/sh
while [ "$1" != -m ]; do shift; done
case $2 in pip) shift 2; exec "${0%/*}/pip" "$@" ;; vllm*) exec "${0%/*}/vllm" serve ;; esac
"""
UV: Final = """#!/bin/sh
[ "$1" = pip ] || exit 0
shift
target=$VIRTUAL_ENV${VIRTUAL_ENV:+/bin}
case " $UV_SYSTEM_PYTHON $* " in *" --system "* | " 1 "*) target=${0%/*} ;; esac
[ -n "$target" ] || exit 2
export target
exec "${0%/*}/pip" "$@"
"""
VLLM: Final = """#!/bin/sh
read -r version < "${0%/*}/version" && echo "$version" >> "$OUTPUT"
"""
ACTIVATE: Final = """VIRTUAL_ENV={0} PATH={0}/bin:$PATH
export VIRTUAL_ENV PATH
deactivate() {{ PATH=${{PATH#{0}/bin:}}; unset VIRTUAL_ENV; }}
"""
PROGRAMS: Final = {
    **dict.fromkeys(("pip", "pip3", "pip3.12"), PIP),
    **dict.fromkeys(("python", "python3", "python3.12"), PYTHON),
    "vllm": VLLM,
}
TOOLS: Final = ("bash", "cat", "env", "nice", "nohup", "sh", "tee")


class Machine:
    """A folder with an image's programs in `bin`, and environments `v` and `w` with others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("", "v", "w"):
            bin_folder = folder / name / "bin"
            bin_folder.mkdir(parents=True)
            for program, text in PROGRAMS.items():
                _write(bin_folder / program, text)
            _write(bin_folder / "activate", ACTIVATE.format(folder / name))
        _write(folder / "bin" / "uv", UV)
        for name in ("conda", "sleep", "yes"):
            _write(folder / "bin" / name, "#!/bin/sh\n")
        for name in TOOLS:
            (folder / "bin" / name).symlink_to(str(shutil.which(name)))

    def started(self, script: str, *, succeeds: bool) -> list[str]:
        """The releases of the servers that a script starts; its programs `x` and `y` succeed or fail."""
        for name in ("", "v", "w"):
            (self.folder / name / "bin" / "version").write_text(f"{IMAGES}\n")
        for name in ("x", "y"):
            _write(self.folder / "bin" / name, f"#!/bin/sh\nexit {int(not succeeds)}\n")
        output = self.folder / "output"
        output.write_text("")
        subprocess.run(
            ["bash", "-c", script],  # the shell of the tests
            cwd=self.folder,
            env={"PATH": str(self.folder / "bin"), "OUTPUT": str(output), "HOME": str(self.folder)},
            executable=shutil.which("bash"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
        return output.read_text().split()


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


def certain(script: str) -> str | None:
    """The release of the first server that a script starts, as it is read; None if it is not certain."""
    faults: list[RequestFault] = []
    line = read_command(["bash", "-c", script], [""] * 3, {"HOME": "/h"}, faults, "")
    if faults or line.doubts:
        return None
    return IMAGES if line.installation is None else line.installation.version


def check(machine: Machine, script: str) -> None:
    """Check that the release that is certain is the one that starts first, if any starts."""
    for name in ("v", "w"):
        script = script.replace(f"/{name}/bin", f"{machine.folder}/{name}/bin")
    script = script.replace("/usr/local/bin", f"{machine.folder}/bin")
    expected = certain(script)
    if expected is None:
        return
    for succeeds in (True, False) if "until x" not in script else (True,):
        assert (script, machine.started(script, succeeds=succeeds)[:1]) in [(script, [expected]), (script, [])]


TABLE: Final = yaml.safe_load(Path(__file__).with_name("installations.yaml").read_text(encoding="utf-8"))
SCRIPTS: Final = [
    script.replace("INSTALL", "pip install vllm==0.33.0").replace("SERVE", "vllm serve m")
    for forms in TABLE.values()
    for script in forms["scripts"]
]


@table("script", SCRIPTS)
def test_the_release_of_a_script_is_the_one_that_bash_starts(machine: Machine, script: str) -> None:
    check(machine, script)


PIPS: Final = ("pip", "pip3", "python3 -m pip", "/v/bin/pip", "uv pip", "bin/pip", "/v/bin/python -m pip")
INSTALLS: Final = st.builds(
    "{} install {}vllm==0.{}.0".format,
    st.sampled_from(PIPS),
    st.sampled_from(["", "-q ", "--dry-run ", "--system "]),
    st.sampled_from([31, 32, 33]),
)
COMMANDS: Final = st.one_of(
    INSTALLS,
    INSTALLS,
    st.sampled_from(["x", "true", "false", ". /v/bin/activate", ". /w/bin/activate", "deactivate", "f", "cd v"]),
    st.sampled_from(["pip uninstall vllm", "export UV_SYSTEM_PYTHON=1", "python3 -m venv a", "vllm serve m", "set -e"]),
)
BLOCKS: Final = st.recursive(
    COMMANDS,
    lambda inner: st.one_of(
        *(
            st.builds(f"{{}}{join}{{}}".format, inner, inner)
            for join in ("; ", "; ", " && ", " && ", " || ", " | ", "\n")
        ),
        st.builds("({})".format, inner),
        st.builds("{{ {}; }}".format, inner),
        st.builds("f() {{ {}; }}".format, inner),
        st.builds("if {}; then {}; fi".format, inner, inner),
        st.builds("for i in 1 2; do {}; done".format, inner),
        st.builds("! {}".format, COMMANDS),
        st.builds("A=$({})".format, inner),
    ),
    max_leaves=6,
)
STARTS: Final = st.sampled_from(
    [
        "vllm serve m",
        "/v/bin/vllm serve m",
        "python3 -m vllm.entrypoints.openai.api_server --model m",
        "exec vllm serve m",
    ]
)


@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(BLOCKS, st.sampled_from(["; ", " && ", "\n", " || "]), STARTS, st.sampled_from(["", " | cat", "; x", " || x"]))
def test_the_release_of_any_script_is_the_one_that_bash_starts(
    machine: Machine, before: str, join: str, start: str, after: str
) -> None:
    check(machine, f"{before}{join}{start}{after}")
