"""KubeAI's Model: the files that its controller writes into one ConfigMap."""

from __future__ import annotations

from typing import Any

from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.kubeai import SAME_PLACE


def model(*files: tuple[str, str]) -> dict[str, Any]:
    """A Model with files, each with its path and its content."""
    spec = {
        "engine": "VLLM",
        "url": "hf://dense",
        "image": "vllm/vllm-openai:v0.33.0",
        "files": [{"path": path, "content": content} for path, content in files],
    }
    return {"apiVersion": "kubeai.org/v1", "kind": "Model", "metadata": {"name": "m"}, "spec": spec}


@table(
    ("files", "contents", "doubts"),
    [
        ([("/x/a", "1"), ("/y/a", "2")], {"/x/a": "1", "/y/a": "2"}, []),
        ([("/x/a", "1"), ("/x_a", "2")], {"/x/a": "2", "/x_a": "2"}, []),
        ([("/x_a", "1"), ("/x/a", "2")], {"/x/a": "2", "/x_a": "2"}, []),
        ([("/x/a", "1"), ("/x/./a", "2")], {"/x/a": "1", "/x/./a": "2"}, [SAME_PLACE.format("`/x/./a`")]),
        ([("/x/a", "1"), ("/x//a", "2")], {"/x/a": "1", "/x//a": "2"}, [SAME_PLACE.format("`/x//a`")]),
        ([("/x/a", "1"), ("/x/a", "1")], {"/x/a": "1"}, [SAME_PLACE.format("`/x/a`")]),
    ],
)
def test_files_of_one_key_have_the_last_content_and_those_of_one_place_are_in_doubt(
    files: list[tuple[str, str]], contents: dict[str, str], doubts: list[str]
) -> None:
    (engine,) = read_manifest(model(*files), "", [])
    assert (engine.files, engine.doubts) == (contents, doubts)
