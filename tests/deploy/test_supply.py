"""The supply chain: what the image and the workflows take from elsewhere is pinned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()
WORKFLOWS: Final = sorted((ROOT / ".github/workflows").glob("*.y*ml"))
BY_DIGEST: Final = re.compile(r"[\w./-]+:\d[\w.-]*@sha256:[0-9a-f]{64}")
BY_COMMIT: Final = re.compile(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+")

# pins


def unpinned_images(dockerfile: str) -> list[str]:
    """What FROM and `COPY --from` name that is neither a stage nor an image with a version and a digest."""
    stages: set[str] = set()
    found = []
    for line in dockerfile.splitlines():
        match = re.match(r"(?:FROM(?: --\S+)*|COPY(?: --(?!from)\S+)* --from=)\s*(\S+)(?: AS (\S+))?", line, re.IGNORECASE)
        if match is None:
            continue
        image, stage = match.groups()
        if image not in stages and not BY_DIGEST.fullmatch(image):
            found.append(image)
        if stage is not None:
            stages.add(stage)
    return found


def unpinned_actions(workflow: str) -> list[str]:
    """What `uses:` names that is neither of this repository nor a commit with its version."""
    uses = re.findall(r"^\s*(?:-\s+)?[\"']?uses[\"']?\s*:\s*(.*?)\s*$", workflow, re.MULTILINE)
    return [each for each in uses if not each.startswith("./") and not BY_COMMIT.fullmatch(each)]


def test_the_dockerfile_takes_images_by_their_digest() -> None:
    assert unpinned_images(DOCKERFILE) == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_take_actions_by_their_commit(path: Path) -> None:
    text = path.read_text()
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    assert unpinned_actions(text) == []
    assert text.count("uses:") == sum("uses" in step for step in steps)


def test_an_action_is_the_same_commit_everywhere() -> None:
    uses = re.findall(r"uses: (\S+)@(\S+ # \S+)", "\n".join(path.read_text() for path in WORKFLOWS))
    assert len(set(uses)) == len({action for action, _ in uses})


def test_compose_takes_images_by_their_digest() -> None:
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
    taken = [service["image"] for service in services.values() if "build" not in service]
    assert [image for image in taken if not BY_DIGEST.fullmatch(image)] == []
    assert len(taken) == 1


DIGEST: Final = f"sha256:{'0' * 64}"
COMMIT: Final = "0" * 40


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"FROM python:3.13.1-slim@{DIGEST}", []),
        (f"FROM --platform=linux/amd64 python:3.13.1-slim@{DIGEST} AS build", []),
        (f"FROM python:3.13.1-slim@{DIGEST} AS build\nFROM build\nCOPY --from=build /app /app", []),
        ("FROM python:3.13.1-slim", ["python:3.13.1-slim"]),
        ("from python", ["python"]),
        (f"FROM python@{DIGEST}", [f"python@{DIGEST}"]),
        (f"FROM python:latest@{DIGEST}", [f"python:latest@{DIGEST}"]),
        ("FROM python:3.13.1-slim@sha256:0000", ["python:3.13.1-slim@sha256:0000"]),
        ("COPY --from=nginx:1.27 /etc/nginx /etc/nginx", ["nginx:1.27"]),
        ("COPY --chown=1 --from=nginx:1.27 /etc/nginx /etc/nginx", ["nginx:1.27"]),
    ],
)
def test_an_image_without_a_digest_is_found(line: str, expected: list[str]) -> None:
    assert unpinned_images(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"- uses: actions/checkout@{COMMIT} # v4.2.2", []),
        ("- uses: ./.github/actions/own", []),
        ("- uses: actions/checkout@v4", ["actions/checkout@v4"]),
        ("  uses: actions/checkout@main", ["actions/checkout@main"]),
        (f"- uses: actions/checkout@{COMMIT}", [f"actions/checkout@{COMMIT}"]),
        (f"- uses: actions/checkout@{COMMIT[:39]} # v4.2.2", [f"actions/checkout@{COMMIT[:39]} # v4.2.2"]),
        ("- uses: docker://alpine:3", ["docker://alpine:3"]),
        ("- 'uses' : actions/checkout@v4", ["actions/checkout@v4"]),
    ],
)
def test_an_action_without_a_commit_is_found(line: str, expected: list[str]) -> None:
    assert unpinned_actions(line) == expected


def test_dependabot_looks_after_all_pins() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    looked_after = {(update["package-ecosystem"], folder) for update in updates for folder in update.get("directories", [update.get("directory")])}
    assert looked_after == {
        ("docker", "/"),
        ("docker-compose", "/deploy"),
        ("github-actions", "/"),
        ("pip", "/"),
        ("pip", "/requirements"),
    }


# what the image is built from


def test_the_build_takes_only_what_dockerignore_lets_in() -> None:
    first, *rest = (ROOT / ".dockerignore").read_text().split()
    copied = [source for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for source in sources.split()]
    assert first == "*"
    assert sorted(f"!{source}" for source in copied) == sorted(line for line in rest if line.startswith("!"))


def test_the_image_installs_nothing_without_a_hash() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [step] = re.findall(r"^image-install:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    installs = re.findall(r"/pip install (.*)", step)
    assert len(installs) == 3
    for options in installs:
        assert "--require-hashes" in options or options.endswith("--no-deps --no-build-isolation ."), options
