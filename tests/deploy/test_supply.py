"""The supply chain: external parts of the image and the workflows are pinned, listed and checked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from representatives import slow_rows_except

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS: Final = sorted((ROOT / ".github/workflows").glob("*.y*ml"))
BY_DIGEST: Final = re.compile(r"[\w./-]+:\d[\w.-]*@sha256:[0-9a-f]{64}")
BY_COMMIT: Final = re.compile(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+")

Document = dict[str, Any]

# the interpreter


def test_this_python_matches_possessive_quantifiers_as_documented() -> None:
    """Before 3.11.5, Python matches what it should not: github.com/python/cpython/issues/106052."""
    for pattern in ("(?:ab?c)*", "(?:ab?c)+"):
        assert re.fullmatch(pattern, "aca") is None
        assert re.fullmatch(f"{pattern}+", "aca") is None


def _pretend_python(file: Path, release: tuple[int, int, int]) -> None:
    """Make ``file`` an interpreter that says that it is of another version."""
    code = f"import sys; sys.version_info = {(*release, 'final', 0)}; del sys.argv[0]; exec(sys.argv[0])"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"""#!/bin/sh\nshift\nexec {sys.executable} -c "{code}" "$@"\n""")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("release", "printed"),
    slow_rows_except(
        [((3, 11, 4), ""), ((3, 11, 5), "python3\n"), ((3, 14, 0), "")],
        [
            ((3, 10, 19), ""),
            ((3, 11, 0), ""),
            ((3, 11, 2), ""),  # that of Debian 12
            ((3, 11, 4), ""),
            ((3, 11, 5), "python3\n"),
            ((3, 11, 14), "python3\n"),
            ((3, 12, 0), "python3\n"),
            ((3, 13, 9), "python3\n"),
            ((3, 14, 0), ""),
        ],
    ),
)
def test_a_python_is_found_that_the_package_allows(tmp_path: Path, release: tuple[int, int, int], printed: str) -> None:
    python = tmp_path / "bin/python3"
    _pretend_python(python, release)
    for arguments, found in ((), printed), ((python,), printed and f"{python}\n"):
        run = subprocess.run(
            ["/bin/sh", ROOT / ".ci/python", *arguments],
            env={"PATH": f"{tmp_path}/bin", "PYENV_ROOT": f"{tmp_path}/none"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert (run.stdout, run.stderr) == (found, "")
    assert SpecifierSet(PROJECT["requires-python"]).contains(Version(".".join(map(str, release)))) is bool(printed)


# pins


def unpinned_images(dockerfile: str) -> list[str]:
    """The names in FROM and `COPY --from` that are neither a stage nor an image with a version and a digest."""
    stages: set[str] = set()
    found = []
    for line in dockerfile.splitlines():
        match = re.match(
            r"(?:FROM(?: --\S+)*|COPY(?: --(?!from)\S+)* --from=)\s*(\S+)(?: AS (\S+))?", line, re.IGNORECASE
        )
        if match is None:
            continue
        image, stage = match.groups()
        if image not in stages and not BY_DIGEST.fullmatch(image):
            found.append(image)
        if stage is not None:
            stages.add(stage)
    return found


def unpinned_actions(workflow: str) -> list[str]:
    """The actions in `uses:` that are neither in this repository nor pinned to a commit with its version."""
    uses = re.findall(r"^\s*(?:-\s+)?[\"']?uses[\"']?\s*:\s*(.*?)\s*$", workflow, re.MULTILINE)
    return [each for each in uses if not each.startswith("./") and not BY_COMMIT.fullmatch(each)]


def test_the_dockerfile_pins_images_by_their_digest() -> None:
    assert unpinned_images(DOCKERFILE) == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_by_their_commit(path: Path) -> None:
    text = path.read_text()
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    assert unpinned_actions(text) == []
    assert text.count("uses:") == sum("uses" in step for step in steps)


def test_an_action_is_the_same_commit_everywhere() -> None:
    uses = re.findall(r"uses: (\S+)@(\S+ # \S+)", "\n".join(path.read_text() for path in WORKFLOWS))
    assert len(set(uses)) == len({action for action, _ in uses})


def test_compose_pins_images_by_their_digest() -> None:
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
    images = [service["image"] for service in services.values() if "build" not in service]
    assert [image for image in images if not BY_DIGEST.fullmatch(image)] == []
    assert len(images) == 1


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


def test_dependabot_updates_all_pins() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    updated = {
        (update["package-ecosystem"], folder)
        for update in updates
        for folder in update.get("directories", [update.get("directory")])
    }
    assert updated == {
        ("docker", "/"),
        ("docker-compose", "/deploy"),
        ("github-actions", "/"),
        ("npm", "/.ci/typescript"),
        ("pip", "/"),
        ("pip", "/requirements"),
    }


# contents of the image


def test_the_build_copies_exactly_what_dockerignore_allows() -> None:
    first, *rest = (ROOT / ".dockerignore").read_text().split()
    copied = [
        source
        for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for source in sources.split()
    ]
    assert first == "*"
    assert sorted(f"!{source}" for source in copied) == sorted(line for line in rest if line.startswith("!"))


def test_the_image_installs_nothing_without_a_hash() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [step] = re.findall(r"^image-install:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    [listing] = re.findall(r"^image-sbom:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    installs = re.findall(r"/pip install (.*)", step + listing)
    assert len(installs) == 4
    for options in installs:
        assert "--require-hashes" in options or options.endswith("--no-deps --no-build-isolation ."), options


# the bill of materials


@pytest.fixture(scope="module")
def sbom(tmp_path_factory: pytest.TempPathFactory) -> Document:
    path = tmp_path_factory.mktemp("sbom") / "sbom.cdx.json"
    run = [sys.executable, ".ci/sbom.py", "--locked-only", sys.prefix, str(path)]
    done = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
    assert re.fullmatch(rf"{re.escape(str(path))}: \d+ packages, valid CycloneDX 1\.6\n", done.stdout)
    document: Document = json.loads(path.read_text())
    return document


def locked() -> dict[Requirement, set[str]]:
    """The requirements of run.lock with their hashes."""
    entries = re.findall(
        r"^(\S.*?) \\\n((?:    --hash=.*\n?)+)", (ROOT / "requirements/run.lock").read_text(), re.MULTILINE
    )
    return {Requirement(line): set(re.findall(r"sha256:([0-9a-f]{64})", hashes)) for line, hashes in entries}


@pytest.mark.slow
def test_the_bill_of_materials_describes_this_service(sbom: Document) -> None:
    component = sbom["metadata"]["component"]
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert (component["name"], component["type"], component["version"]) == (
        "runner-policy",
        "application",
        version("runner-policy"),
    )


@pytest.mark.slow
def test_the_bill_of_materials_has_every_locked_package_with_version_and_hashes(sbom: Document) -> None:
    listed = {canonicalize_name(component["name"]): component for component in sbom["components"]}
    needed = [requirement for requirement in locked() if requirement.marker is None or requirement.marker.evaluate()]
    assert len(needed) > 50
    for requirement, hashes in locked().items():
        component = listed.pop(canonicalize_name(requirement.name), None)
        if component is None:
            assert requirement not in needed, requirement
            continue
        references = component["externalReferences"]
        assert requirement.specifier.contains(component["version"], prereleases=True)
        assert {digest["content"] for reference in references for digest in reference.get("hashes", ())} == hashes, (
            requirement
        )
    assert listed == {}


@pytest.mark.slow
def test_the_bill_of_materials_has_every_licence(sbom: Document) -> None:
    assert [component["name"] for component in sbom["components"] if not component.get("licenses")] == []


@pytest.mark.slow
def test_the_bill_of_materials_has_the_dependencies(sbom: Document) -> None:
    references = {sbom["metadata"]["component"]["bom-ref"], *(component["bom-ref"] for component in sbom["components"])}
    depends = {entry["ref"]: entry.get("dependsOn", []) for entry in sbom["dependencies"]}
    assert depends.keys() == references
    assert {each for needed in depends.values() for each in needed} <= references
    assert any(
        each.startswith("starlette") for each in depends[next(ref for ref in references if ref.startswith("fastapi="))]
    )


@pytest.mark.slow
def test_an_environment_with_other_packages_has_no_bill_of_materials(tmp_path: Path) -> None:
    """The image's is made without `--locked-only`, so a package from another source stops the build."""
    run = [sys.executable, ".ci/sbom.py", sys.prefix, str(tmp_path / "sbom.json")]
    done = subprocess.run(run, cwd=ROOT, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert re.search(r"^pytest: expected no such package, got [\d.]+$", done.stderr, re.MULTILINE)
    assert not (tmp_path / "sbom.json").exists()


def test_the_image_has_its_bill_of_materials_and_not_the_tool() -> None:
    assert 'runner-policy.sbom="/app/sbom.cdx.json"' in DOCKERFILE
    assert "\nRUN make image-sbom IMAGE=/app PYTHON=python3\n" in DOCKERFILE
    assert "cyclonedx" not in (ROOT / "requirements/run.lock").read_text()


# known vulnerabilities


@contextmanager
def osv(status: int, answers: dict[str, Document]) -> Iterator[str]:
    """A server with OSV's interface that knows vulnerabilities of some packages."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(answers.get(query["package"]["name"], {})).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()


def audit(*arguments: str, **environment: str) -> tuple[int, str]:
    run = [sys.executable, ".ci/audit.py", *arguments]
    done = subprocess.run(
        run, cwd=ROOT, env={**os.environ, **environment}, check=False, capture_output=True, text=True, timeout=600
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


@pytest.mark.slow
def test_packages_without_a_known_vulnerability_pass_the_audit() -> None:
    with osv(200, {}) as url:
        code, output = audit("--osv-url", url)
    assert (code, re.sub(r"\d+ packages", "N packages", output)) == (
        0,
        f"{url}: N packages, no known vulnerabilities\n",
    )


@pytest.mark.slow
def test_a_known_vulnerability_fails_the_audit() -> None:
    """Also one that only `impact --ray` needs."""

    def answer(name: str) -> Document:
        ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}]
        affected = {"package": {"name": name, "ecosystem": "PyPI"}, "ranges": ranges}
        return {"vulns": [{"id": "PYSEC-0000-1", "summary": "a summary", "affected": [affected]}]}

    names = ("starlette", "ray")
    with osv(200, {name: answer(name) for name in names}) as url:
        code, output = audit("--osv-url", url)
    assert code == 1
    for name in names:
        assert re.search(rf"^{name} [\d.]+: PYSEC-0000-1, fixed in 99\.0$", output, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("status", [404, 500])
def test_a_source_that_cannot_answer_is_not_a_clean_audit(status: int) -> None:
    with osv(status, {}) as url:
        code, output = audit("--osv-url", url)
    assert code == 3
    assert output.startswith(f"{url} could not be queried: ")


@pytest.mark.slow
def test_an_unreachable_source_is_not_a_clean_audit() -> None:
    with osv(200, {}) as url:
        pass
    assert audit("--osv-url", url)[0] == 3


@pytest.mark.parametrize(
    ("known", "unknown", "expected"),
    [((), ("a", "b"), 3), (("a",), ("b",), 2), (("a", "b"), (), 0)],
)
def test_an_index_that_does_not_know_packages_is_not_a_clean_audit(
    tmp_path: Path, known: tuple[str, ...], unknown: tuple[str, ...], expected: int
) -> None:
    """Packages that the index does not know fail the audit.

    pip-audit skips them and exits with 0; a stand-in prints the same output.
    """
    packages = [{"name": name, "version": "1", "vulns": []} for name in known]
    skipped = [
        {"name": name, "skip_reason": "Dependency not found on PyPI and could not be audited"} for name in unknown
    ]
    (tmp_path / "pip_audit.py").write_text(f"print({json.dumps({'dependencies': packages + skipped, 'fixes': []})!r})")
    assert audit(PYTHONPATH=str(tmp_path))[0] == expected
