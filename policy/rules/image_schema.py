"""JSON Schemas of the files of ``images/`` and of their cases, for editors.

They check as much as a schema can; ``images`` and ``checks.image_cases`` check everything, with better messages.
"""

from __future__ import annotations

from typing import Any, Final

from policy.rules.images import (
    DIGEST,
    ENTRY_POINTS,
    FOLDER_FIELDS,
    MAX_ROWS,
    MAX_TAGS,
    NEVER,
    PLATFORMS,
    ROW_REQUIRED,
    VARIABLE,
    WHOLE_VERSION,
    WORKING_FOLDER,
)
from policy.rules.json_schema import DIALECT, LINK, NAME, TEXT

LINKS: Final = {"oneOf": [LINK, {"type": "array", "items": LINK, "minItems": 1}]}
PLATFORM: Final = {"enum": list(PLATFORMS), "description": "the value of `environment.platform`"}
CUSTOM: Final = {"type": "boolean", "description": "whether its vLLM is a build whose code may differ from the release"}
FOLDER: Final = {
    "type": "string",
    "pattern": f"^{WORKING_FOLDER.pattern}$",
    "description": "the working folder of a container whose manifest states none: the `WORKDIR` of the image",
}
FOLDERS: Final = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"enum": list(FOLDER_FIELDS)},
    "additionalProperties": FOLDER,
    "description": "the working folders by platform; `unknown` is for images that show none",
}
RELEASE: Final = {"type": "string", "pattern": f"^{WHOLE_VERSION.pattern}$"}
TRITON_SINCE: Final = {
    **RELEASE,
    "description": "the first release whose images for CPUs have a Triton that vLLM uses on x86-64: triton-cpu",
}
PRESUMED_SCHEMA: Final = {
    "type": "boolean",
    "description": "whether a tag may be another project's version, so that it counts only if it is a known release",
}
ENV: Final = {
    "type": "object",
    "description": "variables that the image sets",
    "propertyNames": {"pattern": f"^{VARIABLE.pattern}$"},
    "additionalProperties": {"type": "string"},
}


def _one_or_several(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "oneOf": [schema, {"type": "array", "items": schema, "minItems": 1}],
        "description": description,
    }


def images_schema() -> dict[str, Any]:
    """The schema of a file of images."""
    tag = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "anyOf": [{"required": ["tag"]}, {"required": ["digest"]}],
        "properties": {
            "tag": _one_or_several(TEXT, "tags, or patterns with one `*`, or with `{release}` for vLLM's version"),
            "digest": _one_or_several({"type": "string", "pattern": f"^{DIGEST.pattern}$"}, "digests"),
            "release": {**RELEASE, "description": "vLLM's version, unless the tag contains it"},
            "platform": PLATFORM,
            "working_folder": FOLDER,
            "custom": CUSTOM,
            "env": ENV,
            "references": LINKS,
        },
    }
    row = {
        "type": "object",
        "required": list(ROW_REQUIRED),
        "additionalProperties": False,
        "properties": {
            "id": NAME,
            "title": TEXT,
            "references": LINKS,
            "names": _one_or_several(TEXT, "the end of the image's name, without tag; a component may have one `*`"),
            "platform": PLATFORM,
            "entry_point": {
                "enum": list(map(str, ENTRY_POINTS)),
                "description": "; ".join(f"{name}: {meaning}" for name, meaning in ENTRY_POINTS.items()),
            },
            "working_folder": {"oneOf": [FOLDER, FOLDERS], "description": "the working folder, or those by platform"},
            "triton_since": TRITON_SINCE,
            "custom": CUSTOM,
            "presumed": PRESUMED_SCHEMA,
            "tags": {"type": "array", "minItems": 1, "maxItems": MAX_TAGS, "items": tag},
        },
    }
    return {
        "$schema": DIALECT,
        "title": "Container images that contain vLLM",
        "type": "object",
        "required": ["images"],
        "additionalProperties": False,
        "properties": {"images": {"type": "array", "minItems": 1, "maxItems": MAX_ROWS, "items": row}},
    }


def image_cases_schema() -> dict[str, Any]:
    """The schema of a file with cases of images."""
    case = {
        "type": "object",
        "required": ["image"],
        "additionalProperties": False,
        "properties": {
            "image": {**TEXT, "description": "the whole name of an image"},
            "row": {**NAME, "description": "the row that has it; left out if none has"},
            "release": {**TEXT, "description": "its version of vLLM; left out if it is not known"},
            "platform": PLATFORM,
            "working_folder": {**FOLDER, "description": "its working folder; left out if it is not known"},
            "triton_since": {
                "oneOf": [RELEASE, {"const": NEVER}],
                "description": "the first release whose image for CPUs has Triton, or `never`; left out if not known",
            },
            "custom": CUSTOM,
            "env": ENV,
        },
    }
    return {
        "$schema": DIALECT,
        "title": "The cases of images",
        "type": "object",
        "required": ["cases"],
        "additionalProperties": False,
        "properties": {"cases": {"type": "array", "minItems": 1, "items": case}},
    }
