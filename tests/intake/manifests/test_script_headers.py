"""What the first lines of a script set: the options and variables of its shebang, and those of a batch system."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand

if TYPE_CHECKING:
    from pathlib import Path

    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.33.0"
BY_SHEBANG = "the variables of the script's first line are assumed; `bash FILE` does not set them"
ASSUMED = "the variables of `{}` are assumed; who submits the job may set others"
BY_SLURM = ASSUMED.format("#SBATCH --export")
STARTUP = "`bash` reads start-up files before its script, and they may set any variable"


def engine(script: str) -> Container:
    faults: list[RequestFault] = []
    (found,) = read_manifest({"script": script}, "", faults)
    assert faults == []
    return found


def server(script: str) -> ServerCommand:
    found = engine(script)
    started = find_server(found.words, found.env, is_command=True)
    assert isinstance(started, ServerCommand)
    return started


def doubts(script: str) -> list[str]:
    return [*engine(script).doubts, *server(script).doubts]


SHEBANGS: list[tuple[str, dict[str, str | None]]] = [
    ("#!/bin/bash", {}),
    ("#!/usr/bin/env bash", {}),
    *((f"#!/bin/bash {options}", {}) for options in ("-", "--", "--norc", "-e")),
    ("#!/usr/bin/env -S V=0 bash --norc -e --", {"V": "0"}),
    ("#!/usr/bin/env -S V=0 bash", {"V": "0"}),
    ("#!/usr/bin/env -SV=0 bash", {"V": "0"}),
    ("#! /usr/bin/env -S V=0 bash -e", {"V": "0"}),
    ("#!/usr/bin/env -S 'V=0' A=\"b c\" bash", {"V": "0", "A": "b c"}),
    ("#!/usr/bin/env -vS V=0 sh", {"V": "0"}),
    ("#!/usr/bin/env --split-string=V=0 bash", {"V": "0"}),
    ("#!/usr/bin/env -S -i V=0 bash", {"V": "0"}),
    ("#!/usr/bin/env -S -u V bash", {}),
    ("#!/usr/bin/env -S V=1 env V=0 bash", {"V": "0"}),
    ("#!/usr/bin/env -S V=${HOME} bash", {"V": None}),
]


@table(("line", "env"), SHEBANGS)
@table("end", ["\n", " \n"])
def test_the_shebang_of_a_script_sets_variables(line: str, env: dict[str, str | None], end: str) -> None:
    script = f"{line}{end}vllm serve a/b\n"
    assert server(script).env == env
    assert engine(script).notes == [BY_SHEBANG] * ("=" in line.replace("--split-string=", ""))
    assert doubts(script) == []


@pytest.mark.parametrize(("line", "env"), SHEBANGS[:-1])
def test_a_shebang_is_read_as_the_kernel_and_env_read_it(tmp_path: Path, line: str, env: dict[str, str | None]) -> None:
    script = tmp_path / "x"
    script.write_text(f'{line}\necho "${{V-unset}}"\n')
    script.chmod(0o755)
    done = subprocess.run([script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == f"{env.get('V', 'unset')}\n"


def test_a_container_gets_the_variables_of_the_shebang() -> None:
    script = f"#!/usr/bin/env -S V=0 bash\ndocker run -e V {IMAGE} a/b\n"
    assert (engine(script).env, engine(script).notes) == ({"V": "0"}, [BY_SHEBANG])
    assert engine(script.replace("V=0", "-i")).env == {"V": None}


@table(
    ("line", "doubt"),
    [
        ("#!/bin/bash -l", STARTUP),
        ("#!/usr/bin/env -S bash --login", STARTUP),
        ("#!/usr/bin/fish", "the script's first line starts `/usr/bin/fish`, and the script is read as bash reads it"),
        ("#!/bin/tcsh -f", "the script's first line starts `/bin/tcsh`, and the script is read as bash reads it"),
        ("#!/usr/bin/env python3", "the script's first line starts `python3`, and the script is read as bash reads it"),
        ("#!/usr/bin/env -S fish", "the script's first line starts `fish`, and the script is read as bash reads it"),
        ("#!/usr/bin/env V=0 bash", "the script's first line starts ``, and the script is read as bash reads it"),
        ("#!/usr/bin/env -S V=0", "the script's first line starts ``, and the script is read as bash reads it"),
        ("#!/usr/bin/env -S 'V=0 bash", "the script's first line cannot be read"),
        ("#!/bin/bash x.sh", "the script's first line starts `/bin/bash`, and the script is read as bash reads it"),
        ("#!/bin/zsh", "the script is read as bash reads it, and `zsh` may read it differently"),
    ],
)
def test_a_script_of_another_shell_is_doubted(line: str, doubt: str) -> None:
    found = doubts(f"{line}\nvllm serve a/b\n")
    assert len(found) == 1
    assert found[0].startswith(doubt)


def test_the_options_of_a_shebang_count() -> None:
    script = "#!/bin/bash -e\nfalse\nvllm serve a/b\n"
    assert find_server(engine(script.replace("-e", "-x")).words, {}, is_command=True) is not None
    assert not isinstance(find_server(engine(script).words, {}, is_command=True), ServerCommand)
    for options in ("-", "--", "-eu", "-x"):
        assert doubts(f"#!/bin/bash {options}\nvllm serve a/b\n") == []


@table(
    ("lines", "env", "notes"),
    [
        ("#SBATCH --export=V=0", {"V": "0"}, [BY_SLURM]),
        ("#SBATCH --export=V=0,A=1", {"V": "0", "A": "1"}, [BY_SLURM]),
        ("#SBATCH --export=ALL,V=0", {"V": "0"}, [BY_SLURM]),
        ("#SBATCH --export ALL,V=0", {"V": "0"}, [BY_SLURM]),
        ('#SBATCH -N 1 --export="all,V=0" # x', {"V": "0"}, [BY_SLURM]),
        ("#SBATCH --export='V=0'", {"V": "0"}, [BY_SLURM]),
        ("#SBATCH --export=V=1\n\n# x\n#SBATCH --export=V=0", {"V": "0"}, [BY_SLURM]),
        ("#SBATCH --export=V=1\n#SBATCH --export=ALL", {}, []),
        ("#SBATCH --export=NONE", {}, []),
        ("#SBATCH --export=NIL", {}, []),
        ("#SBATCH --export=V,A", {}, []),
        ("##SBATCH --export=V=0", {}, []),
        ("# SBATCH --export=V=0", {}, []),
        ("echo\n#SBATCH --export=V=0", {}, []),
        (
            "#PBS -N x -v V=0,A",
            {"V": "0"},
            [ASSUMED.format("#PBS -v")],
        ),
        ("#PBS -vV=0", {"V": "0"}, [ASSUMED.format("#PBS -v")]),
        ("#$ -v V=0", {"V": "0"}, [ASSUMED.format("#$ -v")]),
        ("#PJM -x V=0", {"V": "0"}, [ASSUMED.format("#PJM -x")]),
        (
            '#BSUB -env "all, V=0"',
            {"V": "0"},
            [ASSUMED.format("#BSUB -env")],
        ),
        ("#BSUB -env none", {}, []),
    ],
)
def test_directives_of_a_batch_system_set_variables(lines: str, env: dict[str, str | None], notes: list[str]) -> None:
    script = f"#!/bin/bash\n#SBATCH -J x\n{lines}\nvllm serve a/b\n"
    assert (server(script).env, engine(script).notes) == (env, notes)
    assert doubts(script) == []
    found = engine(f"#!/bin/bash\n{lines}\ndocker run -e V {IMAGE} a/b\n")
    assert (found.env, found.notes) == ({"V": env.get("V")}, notes)


def test_a_script_overrides_what_the_batch_system_sets() -> None:
    script = "#!/usr/bin/env -S V=1 bash\n#SBATCH --export=V=0,A=0\nvllm serve a/b\n"
    assert server(script).env == {"V": "1", "A": "0"}
    assert server(script.replace("vllm", "V=2 vllm")).env == {"V": "2", "A": "0"}


def test_directives_with_hidden_variables_are_noted() -> None:
    found = engine("#!/bin/bash\n#SBATCH --export-file=x.env\nvllm serve a/b\n")
    assert (found.has_hidden_variables, found.notes) == (
        True,
        ["`#SBATCH --export-file` sets variables that are not shown"],
    )
    found = engine("#!/bin/bash\n#SBATCH --export='V=0\nvllm serve a/b\n")
    assert found.has_hidden_variables


@table(
    ("command", "value"),
    [
        ("srun --export=V=0", "0"),
        ("srun --export=ALL,V=0", "0"),
        ("srun -n 1 --export ALL,V=0 nice", "0"),
        ("srun --export=V=$X", None),
        ("srun --export=$X", None),
        ("V=1 srun --export=V=0", "0"),
        ("V=1 srun --export=ALL,V=0", None),
        ("V=1 srun --export=V", None),
        ("srun --export=V=1 env V=0", "0"),
    ],
)
def test_srun_sets_the_variables_that_it_exports(command: str, value: str | None) -> None:
    found = server(f"{command} vllm serve a/b")
    assert found.env.get("V") == value
    assert found.doubts == ["`srun` may change the variables of what it starts"]
