"""A check of every answer that a test gets: its status and its content are in the service's OpenAPI document."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from jsonschema_rs import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

JSON: Final = ("application/json", "application/problem+json")


def strict(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every object of the answers closed, so that an unknown field is a fault."""
    schemas = document["components"]["schemas"]
    closed = {
        name: {**schema, "additionalProperties": False}
        if schema.get("type") == "object" and "properties" in schema and name != "Facts"
        else schema
        for name, schema in schemas.items()
    }
    return {**document, "components": {**document["components"], "schemas": closed}}


class DocumentedAnswers:
    """Checks answers against the service's document, which is fetched for the first one."""

    def __init__(self, fetch: Callable[[], dict[str, Any]]) -> None:
        self._fetch = fetch
        self._validators: dict[tuple[str, str, int, str], Draft202012Validator] = {}

    @cached_property
    def document(self) -> dict[str, Any]:
        return strict(self._fetch())

    @cached_property
    def paths(self) -> list[tuple[re.Pattern[str], str]]:
        """Each path and its pattern; one without parameters comes first."""
        return [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), path)
            for path in sorted(self.document["paths"], key=lambda path: "{" in path)
        ]

    def check(self, response: httpx.Response) -> None:
        """Check the answer of an operation; others, such as those for unknown paths, are not documented."""
        path = next((path for pattern, path in self.paths if pattern.fullmatch(response.request.url.path)), "")
        operation = self.document["paths"].get(path, {}).get(response.request.method.lower())
        if operation is None:
            return
        media_type = response.headers.get("content-type", "").partition(";")[0]
        place = (path, response.request.method, response.status_code, media_type)
        answer = operation["responses"].get(str(response.status_code))
        assert answer is not None, f"an undocumented status: {place}"
        if "content" not in answer:
            return
        assert media_type in answer["content"], f"an undocumented type of answer: {place}"
        if media_type in JSON:
            if place not in self._validators:
                schema = answer["content"][media_type]["schema"]
                self._validators[place] = Draft202012Validator({**schema, "components": self.document["components"]})
            response.read()
            faults = [str(fault) for fault in self._validators[place].iter_errors(response.json())]
            assert faults == [], f"an answer that does not fit its schema: {place}"
