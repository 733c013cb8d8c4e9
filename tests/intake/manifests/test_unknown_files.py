"""Files of unknown kinds: commands that start vLLM in them, and what is said of a file that shows none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest, shipped_images
from tables import table

from policy.errors import RequestInvalid
from policy.request.request import is_bare_manifest, read_request

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container
    from policy.policy import Policy

NOTE = "the kind of this file is not known; what runs the command is not considered"


def read(document: object) -> list[Container]:
    faults: list[RequestFault] = []
    containers = read_manifest(document, "", faults)
    assert faults == []
    return containers


@table(
    ("document", "found"),
    [
        ({"server_cmd": "vllm serve a/b -tp 2"}, [("server_cmd", ["bash", "-c", "vllm serve a/b -tp 2"])]),
        (
            {"jobs": [{"run": "pip install x\nvllm serve a/b"}]},
            [("jobs[0].run", ["bash", "-c", "pip install x\nvllm serve a/b"])],
        ),
        (
            {"cmd": ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "a/b"]},
            [("cmd", ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "a/b"])],
        ),
        (
            {"a": {"b": "A=$X vllm serve c/d"}, "e": "vllm serve f/g"},
            [("e", ["bash", "-c", "vllm serve f/g"]), ("a.b", ["bash", "-c", "A=$$X vllm serve c/d"])],
        ),
        (
            {"cmd": "vllm serve a/b\n    --enable-dbo\n    -tp 2\n"},
            [("cmd", ["bash", "-c", "vllm serve a/b     --enable-dbo     -tp 2\n"])],
        ),
        (
            {"cmd": "vllm serve a/b\n  -sc\n  '{}'\n"},
            [("cmd", ["bash", "-c", "vllm serve a/b   -sc   '{}'\n"])],
        ),
        (
            {"cmd": "vllm serve a/b \\\n  -tp 2\nsleep 1"},
            [("cmd", ["bash", "-c", "vllm serve a/b \\\n  -tp 2\nsleep 1"])],
        ),
        (
            {"cmd": "vllm serve a/b\n  --served-model-name\n  'a b'\n"},
            [("cmd", ["bash", "-c", "vllm serve a/b   --served-model-name   'a b'\n"])],
        ),
        (
            {"cmd": "vllm serve a/b\n  -sc \n  {}\n"},
            [("cmd", ["bash", "-c", "vllm serve a/b   -sc    {}\n"])],
        ),
        *(
            ({"cmd": script}, [("cmd", ["bash", "-c", script.replace("$", "$$")])])
            for script in (
                "set -e\n{ vllm serve a/b; }",
                "set -e\n'vllm' serve a/b",
                'export V=0\n"vllm" serve a/b',
                'cd /x\n{ "vllm" serve a/b; }',
                'sleep 1\n"$V" serve a/b; vllm serve c/d',
            )
        ),
        ({"about": "Run vllm serve MODEL and wait"}, []),
        ({"about": "what `vllm serve` does"}, []),
        ({"test": "curl http://vllm:8000", "x": ["vllm", "bench", "serve"]}, []),
        ({"off": {"enabled": False, "cmd": "vllm serve a/b"}}, []),
    ],
)
def test_a_command_of_vllm_in_a_file_of_an_unknown_kind(
    document: dict[str, Any], found: list[tuple[str, list[str]]]
) -> None:
    assert is_bare_manifest(document, shipped_images()) or not found
    containers = read(document) if found else []
    assert [(each.path, each.words, each.notes) for each in containers] == [(*each, [NOTE]) for each in found]


def test_more_texts_than_the_limit_are_a_fault() -> None:
    faults: list[RequestFault] = []
    read_manifest({"a": ["x"], "texts": {str(at): "Run vllm serve MODEL" for at in range(1025)}}, "", faults)
    assert [fault.message for fault in faults] == ["more than 1024 texts that may start vLLM; give fewer at a time"]


def test_a_command_that_is_a_template_has_to_be_rendered() -> None:
    (found,) = read({"cmd": "vllm serve {{ model }}"})
    assert found.problem.startswith("this command may start vLLM, and it is a template; render it")


@table(
    ("document", "expected"),
    [
        ({"deployment": {"replicas": 2}, "engine": {"image": "vllm/vllm-openai:v0.24.0"}}, True),
        ({"deployment": [{"cmd": "vllm serve a/b"}], "test": 1}, True),
        ({"environment": {"node": "x"}, "cmd": "vllm serve a/b"}, True),
        ({"deployment": {"args": ["a/b"]}, "vllm_verison": "vllm serve"}, False),
        ({"facts": {}, "cmd": "vllm serve a/b"}, False),
        ({"environment": {"platform": "cpu"}, "cmd": "vllm serve a/b"}, False),
        ({"deployment": "vllm serve a/b"}, False),
        ({"deployment": {"replicas": 2}, "engine": {"image": "nginx"}}, False),
    ],
)
def test_a_file_may_have_a_field_that_requests_have_too(document: dict[str, Any], *, expected: bool) -> None:
    assert is_bare_manifest(document, shipped_images()) is expected


def test_a_file_of_another_kind_is_one_fault_and_not_one_for_each_of_its_fields(policy: Policy) -> None:
    with pytest.raises(RequestInvalid) as error:
        read_request({"a": 1, "b": 2, "c": 3, "d": 4}, policy.releases)
    first, second = error.value.faults
    assert (first.pointer, second.pointer) == ("", "")
    assert first.message.startswith("expected a request with `facts`, `deployment` or `manifest`, or a manifest")
    assert "or another kind of file listed in docs/manifests.md" in first.message
    assert first.message.endswith("got the fields `a`, `b`, `c` and others")
