"""The HTML report of the command ``impact`` as a file: its data, and that nothing in it can be obeyed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

import pytest
from impact_reports import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

HOSTILE: Final = ("</script><script>document.title=1</script>", "<!--<script>", "&lt;%DATA%", "\u2028\x1b[31m", "]]>")
ELEMENTS: Final = [
    *("html", "head", "meta", "meta", "meta", "meta", "meta", "title", "link", "style"),
    *("body", "div", "noscript", "code", "script", "script"),
]


def facts(name: str, architecture: str = "Qwen3ForCausalLM", version: str = "0.22.0") -> dict[str, Any]:
    return {
        "request_id": name,
        "vllm_version": version,
        "facts": {"model_config": {"architectures": [architecture]}},
    }


def lines(*documents: Any) -> str:
    return "".join(f"{json.dumps(document)}\n" for document in documents)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.jsonl"
    file.write_text(
        lines(facts("a"), facts("b", "OPTForCausalLM", "0.21.0"), facts("c"), {"facts": {"x": 1}}, facts("d", "x", "9"))
    )
    return file


class Elements(HTMLParser):
    """The elements of a document, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append((self.names[-1] if self.names else "", data))


@pytest.mark.parametrize(
    ("options", "title"),
    [
        (("--to", "0.33.0"), "vLLM 0.33.0: what changes"),
        (("--releases", "0.32.0,0.33.0"), "vLLM 0.32.0, 0.33.0: what changes"),
        (("--releases", "all"), "vLLM 0.3.0..0.33.0: what changes"),
    ],
)
def test_the_title_names_what_is_compared(
    call: Callable[..., Done], fleet: Path, options: tuple[str, ...], title: str
) -> None:
    assert data_of(call("impact", str(fleet), *options, "--format", "html").out)["title"] == title


@pytest.mark.parametrize(
    "options", [("--to", "0.33.0"), ("--releases", "0.20.0..0.33.0,v1-removed"), ("--to", "v1-removed", "--explain")]
)
def test_the_report_has_what_json_has(
    call: Callable[..., Done], fleet: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    report = tmp_path / "report.html"
    done = call("impact", str(fleet), *options, "-o", str(report))
    document = json.loads(call("impact", str(fleet), *options, "--json").out)
    nothing: dict[str, Any] = {"from": None, "releases": {}, "changes": [], "kind": None}
    data = data_of(report.read_text())
    assert (done.code, done.out) == (1, "")
    assert data["items"] == [item if "releases" in item else item | nothing for item in document["items"]]
    assert (data["targets"], data["complete"]) == (document["targets"], document["complete"])


def test_the_report_has_the_rules_that_it_names(call: Callable[..., Done], fleet: Path) -> None:
    data = data_of(call("impact", str(fleet), "--to", "0.33.0", "--format", "html").out)
    policy = json.loads(call("rules", "show", "--json").out)
    answers = [answer for item in data["items"] for answer in item["releases"].values() if "problem" not in answer]
    named = {each["rule"] for answer in answers for each in (*answer["reasons"], *answer["known_problems"])}
    fields = ("id", "title", "why", "remedy", "references")
    rules = [{name: rule[name] for name in fields if name in rule} for rule in policy if rule["id"] in named]
    assert named != set()
    assert sorted(data["rules"], key=lambda rule: rule["id"]) == sorted(rules, key=lambda rule: rule["id"])


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same_report(call: Callable[..., Done], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.jsonl"
    fleet.write_text(lines(*(facts(f"d{n}", f"A{n % 900}ForCausalLM") for n in range(4_000))))
    for jobs in "1", "2":
        report = str(tmp_path / f"{jobs}.html")
        assert call("impact", str(fleet), "--releases", "0.22.0,0.33.0", "--jobs", jobs, "-o", report).code == 0
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()


def test_names_are_no_markup(call: Callable[..., Done], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.jsonl"
    fleet.write_text(lines(*(facts(name, name) for name in HOSTILE)))
    html = call("impact", str(fleet), "--to", "0.33.0", "--format", "html").out
    elements = Elements(html)
    assert elements.names == ELEMENTS
    assert [item["name"] for item in data_of(html)["items"]] == list(HOSTILE)


def test_the_report_allows_its_own_script_and_style_only(call: Callable[..., Done], fleet: Path) -> None:
    html = call("impact", str(fleet), "--to", "0.33.0", "--format", "html").out
    elements = Elements(html)
    style = next(text for name, text in elements.texts if name == "style")
    script = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[0]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    (policy,) = [value for name, value in elements.attributes if name == "content" and "default-src" in (value or "")]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert [value for name, value in elements.attributes if name in {"src", "href"}] == ["data:,"]
