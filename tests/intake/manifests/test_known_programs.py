"""Programs that may start any other: of one in an image of vLLM, a review does not know whether it starts vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from shipped_images import shipped_images
from tables import table

from policy.intake.manifests.registry import read_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault

VLLMS: Final = "vllm/vllm-openai:v0.23.0"
UNKNOWN: Final = "may start any program, so it is not known whether it starts vLLM"
KNOWN_SCRIPTS: Final = (
    "nvidia-smi; sleep 3",
    "if [ -f x ]; then cd /x; fi; while true; do sleep 1; done",
    "A=$(date +%s); echo $((A + 1)) $(ls /x | wc -l)",
    "pip install requests; curl http://vllm:8000/health",
    "until ray health-check; do sleep 5; done; ray start --address=$(LEADER) --block",
    "trap 'kill 1' TERM; sleep infinity & wait",
    "find /models -name '*.json' | head -3",
    "export A=1 B; set -e; unset B; test -d /x || exit 1",
    "vllm bench serve --model M",
)
UNKNOWN_SCRIPTS: Final = (
    "flock /tmp/l -c '$X'",
    "sleep 1; su -m root -c '$X'",
    "find / -maxdepth 0 -exec sh -c '$X' \\;",
    "tar --checkpoint=1 --checkpoint-action=exec='$X' -cf /dev/null /etc/hostname",
    "sed -n '1e $X' /etc/passwd",
    "git -c alias.x='!$X' x",
    "split --filter='$X' /etc/passwd",
    "echo $(flock /tmp/l -c '$X')",
    "A=`flock /tmp/l -c x`",
    "cat <(ls | script -qec '$X')",
    "trap 'flock /tmp/l -c x' EXIT; sleep 3",
    "trap 'kill 1; flock /tmp/l -c x' EXIT; sleep 3",
    "ip netns exec n sh -c '$X'",
    "f() { flock /tmp/l -c '$X'; }; f",
    "timeout 3 script -qec '$X' /dev/null",
    "BROWSER='$X' python3 -m webbrowser http://x",
    "python3 -c 'import runpy'",
)
COMMANDS: Final = [
    *(([*shell, script], "") for script in KNOWN_SCRIPTS for shell in (["sh", "-c"], ["bash", "-ec"])),
    *((["bash", "-c", script], UNKNOWN) for script in UNKNOWN_SCRIPTS),
    *((words, "") for words in (["sleep", "infinity"], ["/usr/bin/nvidia-smi"], ["python3", "-m", "http.server"])),
    *((words, "") for words in (["bash"], ["env", "A=1", "tail", "-f", "/dev/null"], ["python3", "--version"])),
    *((words, UNKNOWN) for words in (["foo"], ["pytest", "-q"], ["env", "A=1", "foo"], ["python3", "-m", "timeit"])),
    *((words, UNKNOWN) for words in (["nohup", "bar"], ["ray", "job", "submit", "--", "x"], ["nice", "foo", "bar"])),
]


def problems(command: list[str], image: str, *, is_under_review: bool) -> list[str]:
    """The problems of the engines of a pod."""
    containers = [{"name": "a", "image": image, "command": command, "env": [{"name": "X", "value": "start"}]}]
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}}
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults, shipped_images(), is_under_review=is_under_review)
    assert faults == []
    return [each.problem for each in found]


@table(("command", "problem"), COMMANDS)
def test_under_review_a_program_that_may_start_any_other_may_start_vllm(command: list[str], problem: str) -> None:
    found = problems(command, VLLMS, is_under_review=True)
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)


@pytest.mark.parametrize(
    ("image", "is_under_review"), [(VLLMS, False), ("example.com/tools:1", True), ("example.com/tools:1", False)]
)
def test_outside_a_review_and_in_other_images_such_a_program_is_another_one(
    image: str, *, is_under_review: bool
) -> None:
    for command, problem in COMMANDS:
        if problem:
            assert problems(command, image, is_under_review=is_under_review) == [], command


def test_before_vllm_such_a_program_does_not_matter() -> None:
    assert problems(["bash", "-c", "foo --bar; exec vllm serve M"], VLLMS, is_under_review=True) == [""]
