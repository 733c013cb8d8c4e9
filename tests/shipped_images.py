"""Manifests, read with the shipped table of images."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from policy.intake.manifests import registry
from policy.rules.catalogue import load
from policy.rules.loader import read_folder

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container
    from policy.rules.images import ImageTable

RULES: Final = Path(__file__).resolve().parent.parent / "rules"


@cache
def shipped_images() -> ImageTable:
    return load(read_folder(RULES)).releases.images


def read_manifest(
    document: object, pointer: str, faults: list[RequestFault], ignored: list[str] | None = None
) -> list[Container]:
    return registry.read_manifest(document, pointer, faults, shipped_images(), ignored)
