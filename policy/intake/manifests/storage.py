"""The storage URIs of models: ``hf://``, ``pvc://``, ``s3://`` and others.

Only those of the Hugging Face Hub name a model; the others are locations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft

HUB: Final = "hf://"


def hub_name(uri: str) -> str | None:
    """The model's name on the Hub, without its revision; None if the URI is not on the Hub."""
    return uri.removeprefix(HUB).partition(":")[0].strip("/") if uri.startswith(HUB) else None


def mount(draft: EngineDraft, uri: str, path: str) -> None:
    """Record the model that is mounted at a path by its name on the Hub, or else by the path."""
    name = hub_name(uri)
    draft.models[path] = name or path
    draft.mounts.add(path)
    if not name:
        draft.note(f"the model of {quoted(uri)} is mounted at `{path}`; give its config.json under that name")
