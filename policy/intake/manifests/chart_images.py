"""The image in the values of a chart: a text, or its parts by their usual names."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

REPOSITORIES: Final = ("repository", "name")


def is_image(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value has the parts of an image: a `repository`."""
    return isinstance(value, dict) and isinstance(value.get("repository"), str)


def image_of(value: Any, tag: object = None) -> str | None:
    """The image that a value names, with its registry, tag and digest; None if it names none.

    ``tag`` is added to an image that is a text without a tag or digest.
    """
    if isinstance(value, str):
        stated = _text(tag)
        has_tag = ":" in value.rpartition("/")[2] or "@" in value
        return f"{value}:{stated}" if value and stated and not has_tag else value or None
    if not isinstance(value, dict):
        return None
    repository = next((_text(value.get(name)) for name in REPOSITORIES if _text(value.get(name))), "")
    if not repository:
        return None
    registry, tag_text, digest = (_text(value.get(name)) for name in ("registry", "tag", "digest"))
    name = f"{registry.rstrip('/')}/{repository}" if registry else repository
    return name + (f":{tag_text}" if tag_text else "") + (f"@{digest}" if digest else "")


def _text(value: object) -> str:
    """A part as a chart prints it; empty if it is absent. A float may have lost digits, so it is not used."""
    return value if isinstance(value, str) else str(value) if type(value) is int else ""
