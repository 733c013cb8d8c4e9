"""Commands of a script that may replace or remove the program `vllm`, so that the release is not certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand

if TYPE_CHECKING:
    from policy.intake.command_line import Installation

FOLDER = "/usr/lib/python3.12/dist-packages"


def installation(script: str) -> Installation | None:
    """The vLLM that runs instead of the image's in the server that a script starts."""
    found = find_server(["bash", "-c", script], {}, is_command=True)
    assert isinstance(found, ServerCommand)
    return found.installation


@pytest.mark.parametrize(
    "command",
    [
        *("rm /usr/local/bin/vllm", "rm -f $(which vllm)", 'rm "$(command -v vllm)"', f"rm -rf {FOLDER}/vllm"),
        *("mv /x/vllm /usr/local/bin/vllm", "mv /usr/local/bin/vllm /x", "ln -sf /x/vllm /usr/local/bin/vllm"),
        *("cp /x /opt/venv/bin/vllm", "sudo install -m 755 x /usr/bin/vllm", "dd if=x of=/usr/bin/vllm"),
        *("sed -i s/a/b/ /usr/local/bin/vllm", f"sed -E --in-place s/a/b/ {FOLDER}/vllm/config.py"),
        *(f"patch {FOLDER}/vllm/envs.py a.diff", f"cat x | tee {FOLDER}/vllm/envs.py", "unlink /usr/bin/vllm"),
        *(f"rm -rf {FOLDER}/vllm-0.33.0.dist-info", "apt-get remove -y python3-vllm", "apt-get install -y vllm"),
        *(
            "dpkg -i vllm.deb",
            "dpkg -i ./vllm_0.33.0_amd64.deb",
            "sudo dnf install vllm",
            "apk del vllm",
            "rpm -e vllm",
        ),
    ],
)
@pytest.mark.parametrize("joiner", ["; ", " && ", " || true; "])
def test_a_command_that_may_replace_the_program_makes_the_release_uncertain(command: str, joiner: str) -> None:
    found = installation(f"{command}{joiner}vllm serve m")
    assert found is not None
    assert found.version is None
    assert found.cause.endswith("may replace or remove the vLLM of the image before the start")


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf /tmp/x", "rm -rf /root/.cache/vllm", "ln -s /models/vllm /m", "cp /usr/local/bin/vllm /x/y"),
        *("sed s/a/b/ /usr/local/bin/vllm", "sed -i s/a/b/ /etc/vllm.conf", "chmod +x /usr/local/bin/vllm"),
        *("apt-get install -y curl", "apt-get update", "dpkg -l vllm", "dpkg -L vllm", "apt list vllm", "which vllm"),
        *(f"ls {FOLDER}/vllm", f"grep -r x {FOLDER}/vllm", "mv /x/a /x/b", "rm"),
    ],
)
def test_a_command_that_leaves_the_program_does_not(command: str) -> None:
    assert installation(f"{command}; vllm serve m") is None


def test_a_replacement_after_the_start_does_not_matter() -> None:
    assert installation("vllm serve m; rm /usr/local/bin/vllm") is None
