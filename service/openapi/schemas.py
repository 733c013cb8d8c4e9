"""Every schema of the document, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.openapi.answers import answers
from service.openapi.loaded import loaded
from service.openapi.naming import with_names
from service.openapi.requests import requests
from service.openapi.reviews import reviews
from service.openapi.values import enumerations

if TYPE_CHECKING:
    from service.openapi.shapes import Schema


def components() -> dict[str, Schema]:
    """The schemas, in which everything that needs a name has its own."""
    return with_names({**enumerations(), **requests(), **answers(), **loaded(), **reviews()})
