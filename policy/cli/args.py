"""The commands ``args show``, ``args list`` and ``args diff``: vLLM's flags and environment variables by release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from policy.cli.commands import command_app
from policy.cli.console import USAGE, JsonOption, fail, show_answer
from policy.intake.arguments_document import arguments_document, arguments_in, differences, find, suggestion
from policy.intake.model.tables import releases_with_flags
from policy.messages import nearest, quoted
from policy.render_rows import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

app = command_app("args", "vLLM's flags and environment variables, by release.")
ReleaseOption = Annotated[
    str | None,
    typer.Option("--release", "--vllm-version", metavar="VERSION", help="Show only what this release has."),
]


@app.command("show", context_settings={"ignore_unknown_options": True})  # a flag is a name here
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A flag without or with its dashes, or a variable: max_model_len, VLLM_PORT."
        ),
    ],
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Show since when and until when vLLM has a flag or a variable, and its values in each release."""
    items = find(name)
    if not items:
        near = suggestion(name)
        hint = f"; did you mean {quoted(near)}?" if near else "; `runner-policy args list` shows all names"
        fail(USAGE, f"no vLLM release has a flag or variable {quoted(name)}{hint}")
    show_answer({"items": items}, lambda: _changes(items), as_json=as_json)


@app.command("list")
def list_all(
    release: ReleaseOption = None,
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """List the flags and variables of all releases, or of one."""
    found = arguments_document() if release is None else arguments_in(_known(release))
    show_answer(found, lambda: _names(found["items"]), as_json=as_json)


@app.command("diff")
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="The release to compare with.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other release.")],
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Show which flags and variables a release adds, removes and changes, compared with another one."""
    found = differences(_known(before), _known(after))
    show_answer(found, lambda: _differences(found), as_json=as_json)


def _known(release: str) -> str:
    known = releases_with_flags()
    version = release.removeprefix("v")
    if version not in known:
        fail(USAGE, f"unknown release {quoted(release)}{nearest(version, known)}; known: {known[0]} to {known[-1]}")
    return version


def _changes(items: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = table_of("name", "since", "until", "type", "more")
    for item in items:
        for change in item["changes"]:
            table.add_row(
                item["name"], change["since"], change["until"] or "", Text(change.get("type", "")), Text(_more(change))
            )
        for each in item["deprecations"]:
            name = item["name"] + (f".{each['member']}" if each["member"] else "")
            name += f" {', '.join(each['values'])}" if each["values"] else ""
            said = f"deprecated: {each['text']}" if each["text"] else "deprecated"
            table.add_row(name, each["since"], each["until"] or "", "", Text(said))
    return table


def _names(items: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = table_of("name", "kind", "releases", "type", "deprecated")
    for item in items:
        spans = ", ".join(f"{each['since']}–{each['until'] or ''}" for each in item["releases"])
        deprecated = ", ".join(
            f"{each['since']}–{each['until'] or ''}"
            for each in item["deprecations"]
            if not (each["member"] or each["values"])
        )
        table.add_row(item["name"], item["kind"], spans, Text(item["changes"][-1].get("type", "")), deprecated)
    return table


def _differences(found: Mapping[str, Any]) -> RenderableType:
    table = table_of("name", "change", "before", "after")
    for change in ("added", "removed", "deprecated"):
        for name in found[change]:
            table.add_row(name, change, "", "")
    for each in found["changed"]:
        before, after = each["before"], each["after"]
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        table.add_row(
            each["name"], "changed", *(Text(_values({key: side.get(key) for key in keys})) for side in (before, after))
        )
    return table


def _more(change: Mapping[str, Any]) -> str:
    return _values({key: value for key, value in change.items() if key not in {"since", "until", "type"}})


def _values(values: Mapping[str, Any]) -> str:
    return "; ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
