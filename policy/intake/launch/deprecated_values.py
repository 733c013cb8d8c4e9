"""The values of options that releases accept with a warning, for the table of arguments.

Reads them from the checks that only warn. A message is shown as vLLM's code has it, with `{…}` for each value in it.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from policy.intake.launch.checks import HOLE, all_checks
from policy.intake.model.tables import releases

if TYPE_CHECKING:
    from collections.abc import Iterator

REMOVAL_RELEASE: Final = re.compile(r"removed in v?(\d+\.\d+(?:\.\d+)?)")


def deprecated_values_of(dest: str) -> Iterator[dict[str, Any]]:
    """The deprecated values of an option, or of fields of its object, by unbroken ranges of releases."""
    order = releases()
    for check in all_checks():
        if not check.is_warning or check.at != dest:
            continue
        text = HOLE.sub("{…}", " ".join(check.says.split()))
        named = REMOVAL_RELEASE.search(text)
        for holds, group in groupby(order, key=check.holds_in):
            span = list(group)
            if holds:
                yield {
                    "member": check.member or None,
                    "values": list(check.values),
                    "since": span[0],
                    "until": None if span[-1] == order[-1] else span[-1],
                    "text": text,
                    "removed_in": None if named is None else named.group(1),
                    "replaced_by": [],
                }
