"""Read ``releases.yaml``: the known releases, the default one, their days, and what was said of a runner's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packaging.version import Version

from policy.messages import quoted
from policy.rules.effects import Runner
from policy.rules.releases import MAX_RELEASES, Releases, Removal, is_final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from policy.parser.fields import FieldReader
    from policy.parser.yamltree import YamlNode

RELEASES_FILE: Final = "releases.yaml"
REMOVAL_FIELDS: Final = ("deprecated_in", "announced_for", "why", "references")


def read_releases(node: YamlNode, reader: FieldReader) -> Releases | None:
    """The known releases with what is known of them; ``None`` after a fault."""
    fields = reader.fields(node, "list of releases", ("known", "default"), ("published", "removals"))
    known: list[str] = []
    for item in reader.items(fields.get("known"), "releases", MAX_RELEASES):
        if not isinstance(item.value, str) or not is_final(item.value):
            reader.fault(
                item, f'expected a final release, got {quoted(item.plain())}; write one in quotes, such as `"0.23.0"`'
            )
        elif known and Version(known[-1]) >= Version(item.value):
            reader.fault(
                item,
                f"{quoted(item.plain())} is not newer than {quoted(known[-1])}; list releases in ascending order",
            )
        else:
            known.append(item.value)
    default = fields.get("default")
    if default is not None and default.value not in known:
        reader.fault(default, f"the default {quoted(default.plain())} is not a known release")
    published = _read_published(fields.get("published"), known, reader)
    removals = _read_removals(fields.get("removals"), known, reader)
    if not known or default is None or reader.faults:
        return None
    return Releases(tuple(known), str(default.value), published=published, removals=removals)


def _read_published(node: YamlNode | None, known: Sequence[str], reader: FieldReader) -> dict[str, date]:
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        advice = 'write it as `"0.23.0": 2026-06-13` for each'
        reader.fault(node, f"expected a map of releases to days, got {quoted(node.plain())}; {advice}")
        return {}
    found = {}
    for release, item in node.value.items():
        day = reader.day(item)
        if release not in known:
            reader.fault(item, f"{quoted(release)} is not a known release; add it to `known`, or remove it", key=True)
        elif day is not None:
            found[release] = day
    return found


def _read_removals(node: YamlNode | None, known: Sequence[str], reader: FieldReader) -> tuple[Removal, ...]:
    if node is None:
        return ()
    by_runner = reader.fields(node, "map of removals", (), tuple(Runner))
    return tuple(
        removal
        for runner, item in by_runner.items()
        if (removal := _read_removal(Runner(runner), item, known, reader)) is not None
    )


def _read_removal(runner: Runner, node: YamlNode, known: Sequence[str], reader: FieldReader) -> Removal | None:
    fields = reader.fields(node, "removal", REMOVAL_FIELDS)
    deprecated_in, announced_for, why = (reader.text(fields.get(name)) for name in REMOVAL_FIELDS[:3])
    references = reader.links(fields.get("references"))
    if deprecated_in is not None and deprecated_in not in known:
        reader.fault(fields["deprecated_in"], f"{quoted(deprecated_in)} is not a known release; add it to `known`")
    if announced_for is not None and not is_final(announced_for):
        reader.fault(
            fields["announced_for"],
            f'expected a final release, got {quoted(announced_for)}; write one in quotes, such as `"0.23.0"`',
        )
    if not (deprecated_in and announced_for and why and references):
        return None
    return Removal(runner, deprecated_in, announced_for, why, references)
