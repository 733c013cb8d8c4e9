"""What the HTML report of an impact has: the parts of its template, and its data unpacked."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from typing import Any


def data_of(html: str) -> dict[str, Any]:
    """The data of a report, read as its own code reads it."""
    found = re.search(r'<script id="data" type="application/gzip">([^<]*)</script>', html)
    assert found is not None
    document = unpacked(json.loads(gzip.decompress(b64decode(found[1], validate=True))))
    assert isinstance(document, dict)
    return document


def unpacked(document: dict[str, Any], place: int = -1) -> Any:
    """The value at a place of a packed document, by default the last."""
    found: list[Any] = []
    for value in document["values"]:
        if not isinstance(value, list):
            found.append(value)
        elif value[0] == 0:
            found.append([found[at] for at in value[1:]])
        else:
            names = document["shapes"][value[0] - 1]
            found.append(dict(zip(names, (found[at] for at in value[1:]), strict=True)))
    return found[place]
