"""Where a model comes from, as controllers write it: ``hf://``, ``pvc://``, ``s3://`` and others.

Owns which of them name a model on the Hugging Face Hub; the rest are only places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft

HUB: Final = "hf://"


def hub_name(uri: str) -> str | None:
    """The model's name on the Hub without its revision; nothing where the URI points elsewhere."""
    return uri.removeprefix(HUB).partition(":")[0].strip("/") if uri.startswith(HUB) else None


def mount(draft: EngineDraft, uri: str, path: str) -> None:
    """Say which model lies under a path in the container: its name on the Hub where there is one, the path itself otherwise."""
    name = hub_name(uri)
    draft.models[path] = name or path
    if not name:
        draft.note(
            f"the model of {quoted(uri)} is mounted at `{path}`; give its config.json under that name in `model_configs`"
        )
