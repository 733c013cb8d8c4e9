"""Publishes a comparison in a pull request: the job's summary, a comment, a commit status and code scanning.

Runs with the Python of the runner and its standard library. Reads ``report.json``, ``report.md`` and ``report.sarif``
of the folder ``REPORT``. Exits with 1 if the check fails, by ``INPUT_FAIL_ON``. A part that
the token may not write, as for a fork's pull request, is a warning; the others are written all the same.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import sys
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

MARKER = "<!-- runner-policy -->"
"""The beginning of the comment, by which a later run finds and replaces it."""
CONTEXT = "runner-policy"
MAX_COMMENT = 65_000
MAX_DESCRIPTION = 140
PER_PAGE = 100
MAX_PAGES = 50
TIMEOUT = 30
NO_START = ("no-start", "launch-error")
FLIPS = {("v1", "v2"): "V2", ("v2", "v1"): "V1"}


class Summary:
    """What a comparison says, in numbers and in a sentence."""

    def __init__(self, report: dict[str, Any]) -> None:
        counts = report["counts"]
        self.deployments: int = counts["deployments"]
        self.undecided: int = counts["undecided"] + counts["kinds"]["undecided"]
        self.changed: int = self.deployments - counts["undecided"] - counts["unchanged"]
        self.flips = dict.fromkeys(FLIPS.values(), 0)
        self.no_start = 0
        self.problems = counts["kinds"]["known-problem"] + counts["kinds"]["runner-with-known-problem"]
        for item in report["items"]:
            releases = item.get("releases", {})
            if "base" not in releases and releases.get("head", {}).get("starts") is False:
                self.no_start += 1  # it is new
            for change in item.get("changes", []):
                self.no_start += change["kind"] in NO_START
                runner = FLIPS.get(tuple(change["runner"]))
                if runner is not None and all(change["starts"]):
                    self.flips[runner] += 1

        self.kinds: dict[str, int] = {**counts["kinds"], "undecided": self.undecided}
        """How many deployments change in each way, the worst first."""

    def fails(self, kind: str) -> bool:
        """Whether there is a change of a kind or worse, or a deployment that is new and does not start."""
        if kind == "never":
            return False
        order = list(self.kinds)
        if kind not in order:
            raise SystemExit(f"::error::fail-on: expected `never` or one of {', '.join(order)}, got {kind}")
        return bool(self.no_start or any(self.kinds[each] for each in order[: order.index(kind) + 1]))

    @property
    def sentence(self) -> str:
        """What the change does, such as `this change flips 7 of 20 deployments to V2, 1 will not start`."""
        parts = [
            f"flips {number} of {self.deployments} deployments to {runner}"
            for runner, number in self.flips.items()
            if number
        ]
        text = f"this change {' and '.join(parts)}" if parts else "this change flips no deployment"
        if self.no_start:
            text += f", {self.no_start} will not start"
        if self.problems:
            text += f", {self.problems} get{'s' * (self.problems == 1)} a known problem"
        if self.undecided:
            text += f", {self.undecided} cannot be decided"
        return text


class Api:
    """The hosting API of the repository."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        if not re.fullmatch(r"https://[^/\s]+(/[^\s]*)?|http://127\.0\.0\.1:[0-9]+", url):
            raise SystemExit(f"::error::GITHUB_API_URL: expected an address with https, got {url}")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise SystemExit(f"::error::GITHUB_REPOSITORY: expected OWNER/NAME, got {repository}")
        self.base = f"{url}/repos/{repository}"
        self.token = token

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to a request as JSON; raises ``HTTPError``, ``URLError`` or ``HTTPException``."""
        request = Request(  # noqa: S310  # the scheme was checked
            self.base + path,
            None if body is None else json.dumps(body).encode(),
            {
                "accept": "application/vnd.github+json",
                "authorization": f"Bearer {self.token}",
                "content-type": "application/json",
                "user-agent": "runner-policy",
                "x-github-api-version": "2022-11-28",
            },
            method=method,
        )
        with urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310  # as above
            return json.loads(answer.read() or b"null")

    def comment(self, number: int, text: str) -> None:
        """Write the comment of this action in a pull request, in the place of an earlier one."""
        body = {"body": text}
        for page in range(1, MAX_PAGES + 1):
            found = self.send("GET", f"/issues/{number}/comments?per_page={PER_PAGE}&page={page}")
            for each in found:
                is_own = (each.get("user") or {}).get("type") == "Bot"
                if is_own and str(each.get("body", "")).startswith(MARKER):
                    self.send("PATCH", f"/issues/comments/{int(each['id'])}", body)
                    return
            if len(found) < PER_PAGE:
                break
        self.send("POST", f"/issues/{number}/comments", body)

    def status(self, commit: str, *, failed: bool, description: str, url: str) -> None:
        """Set the commit's status."""
        body = {
            "state": "failure" if failed else "success",
            "context": CONTEXT,
            "description": description[:MAX_DESCRIPTION],
            "target_url": url,
        }
        self.send("POST", f"/statuses/{commit}", body)

    def code_scanning(self, commit: str, ref: str, sarif: bytes) -> None:
        """Upload results to code scanning."""
        text = base64.b64encode(gzip.compress(sarif)).decode()
        self.send("POST", "/code-scanning/sarifs", {"commit_sha": commit, "ref": ref, "sarif": text})


def main() -> int:
    """Publish, and return the exit code."""
    env = os.environ
    folder = Path(env["REPORT"])
    summary = Summary(json.loads((folder / "report.json").read_bytes()))
    markdown = (folder / "report.md").read_text()
    text = f"{MARKER}\n**{summary.sentence[0].upper()}{summary.sentence[1:]}.**\n\n{markdown}"
    event = json.loads(Path(env["GITHUB_EVENT_PATH"]).read_bytes())
    failed = summary.fails(env.get("INPUT_FAIL_ON") or "no-start")
    with Path(env["GITHUB_STEP_SUMMARY"]).open("a") as target:
        target.write(f"{text}\n")
    with Path(env["GITHUB_OUTPUT"]).open("a") as target:
        target.write(f"summary={summary.sentence}\nchanged={summary.changed}\nno-start={summary.no_start}\n")
    print(summary.sentence)
    pull = event.get("pull_request")
    commit = pull["head"]["sha"] if pull else env["GITHUB_SHA"]
    api = Api(env.get("GITHUB_API_URL", "https://api.github.com"), env["GITHUB_REPOSITORY"], env.get("INPUT_TOKEN", ""))
    run = f"{env.get('GITHUB_SERVER_URL', '')}/{env['GITHUB_REPOSITORY']}/actions/runs/{env.get('GITHUB_RUN_ID', '')}"

    def is_on(name: str) -> bool:
        return env.get(f"INPUT_{name}", "true") == "true"

    if pull and is_on("COMMENT"):
        attempt("comment", "pull-requests: write", lambda: api.comment(int(pull["number"]), text[:MAX_COMMENT]))
    if is_on("STATUS"):
        attempt(
            "status",
            "statuses: write",
            lambda: api.status(commit, failed=failed, description=summary.sentence, url=run),
        )
    if is_on("SARIF"):
        sarif = (folder / "report.sarif").read_bytes()
        ref = f"refs/pull/{int(pull['number'])}/head" if pull else env["GITHUB_REF"]
        attempt("code scanning", "security-events: write", lambda: api.code_scanning(commit, ref, sarif))
    return 1 if failed else 0


def attempt(what: str, permission: str, write: Any) -> None:
    """Write a part; if that fails, print a warning, which names the permission if the API refuses it."""
    try:
        write()
    except HTTPError as error:
        error.close()
        print(f"::warning::{what}: the API answered {error.code}; the job needs the permission `{permission}`")
    except HTTPException as error:
        print(f"::warning::{what}: the answer of the API is broken: {error!r}")
    except (URLError, OSError, ValueError) as error:
        print(f"::warning::{what}: {error}")


if __name__ == "__main__":
    sys.exit(main())
