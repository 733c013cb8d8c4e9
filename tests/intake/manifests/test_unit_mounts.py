"""Settings of a systemd service that give it other files than the host's: another vLLM may run."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from shipped_images import read_manifest
from tables import table

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

    from policy.errors import RequestFault
    from policy.intake.command_line import Container

TODAY = date(2026, 1, 1)
SERVE = "ExecStart=/usr/bin/vllm serve dense"
ENDING = "decided for vLLM 0.33.0, which may not be the one that runs"


def unit(*lines: str) -> dict[str, str]:
    return {"unit": "\n".join(["[Service]", *lines])}


def engine(*lines: str) -> Container:
    faults: list[RequestFault] = []
    (found,) = read_manifest(unit(*lines), "", faults)
    assert faults == []
    return found


def warnings(ask: Asking, *lines: str) -> list[str]:
    """The warnings that another vLLM may run, without their end."""
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    body = {"manifest": unit(*lines), "model_configs": configs, "vllm_version": "0.33.0"}
    asked = read_request_or_manifest(body, ask.policy.releases, "")
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    found = ask.policy.decide(request, TODAY).warnings
    return [each.removesuffix(f"; {ENDING}") for each in found if each.endswith(ENDING)]


MOUNT = "the mount at `{}` may make another vLLM run"
HIDDEN = "the volumes of `{}` are not shown and may have another vLLM"


@table("name", ["BindPaths", "BindReadOnlyPaths"])
@table(
    ("value", "expected"),
    [
        ("/x:/usr/local/bin", MOUNT.format("/usr/local/bin")),
        ("-/x:/usr/local/bin:rbind", MOUNT.format("/usr/local/bin")),
        ("/a /b:/c '/x y:/usr/bin'", MOUNT.format("/usr/bin")),
        ("/x:/usr/bin/vllm", MOUNT.format("/usr/bin/vllm")),
        ("%h/x:/usr/local/bin", MOUNT.format("/usr/local/bin")),
        ("/x:%h/y", HIDDEN.format("%h/y")),
        (r"/x\:y:/usr/bin", HIDDEN.format(r"/x\:y:/usr/bin")),
        *((value, None) for value in ("/usr/local/bin", "/usr/bin:/usr/bin", "/x:/data", "%h/models", "x", ":", "")),
    ],
)
def test_a_bound_path_may_have_another_vllm(ask: Asking, name: str, value: str, expected: str | None) -> None:
    assert warnings(ask, f"{name}={value}", SERVE) == ([] if expected is None else [expected])


@table(
    ("setting", "path"),
    [
        ("TemporaryFileSystem=/usr/local:ro", "/usr/local"),
        ("TemporaryFileSystem=/usr/local /x", "/usr/local"),
        ("InaccessiblePaths=-/usr/local/bin", "/usr/local/bin"),
        ("InaccessiblePaths=+/usr/local/bin", "/usr/local/bin"),
        ("MountImages=/x.raw:/usr/local:root", "/usr/local"),
        *((setting, None) for setting in ("TemporaryFileSystem=/tmp", "MountImages=/x.raw:/data", "PrivateTmp=yes")),
    ],
)
def test_what_is_mounted_may_hide_the_vllm_of_the_host(ask: Asking, setting: str, path: str | None) -> None:
    assert warnings(ask, setting, SERVE) == ([] if path is None else [MOUNT.format(path)])


def test_an_empty_value_removes_the_mounts_before_it(ask: Asking) -> None:
    assert warnings(ask, "BindPaths=/x:/usr/bin", "BindPaths=", "BindPaths=/x:/data", SERVE) == []


def test_a_program_below_a_mount_may_be_another_vllm(ask: Asking) -> None:
    program = "ExecStart=/opt/x/bin/vllm serve dense"
    expected = ["`/opt/x/bin/vllm` may be a different vLLM from the image's"]
    assert warnings(ask, "BindPaths=/y:/opt/x", program) == expected
    assert warnings(ask, "BindPaths=/y:/opt/z", program) == []


OTHER = "`{}` gives the service other files than the host's, which may have another vLLM"


@table(
    ("lines", "names"),
    [
        *(
            ([f"{name}=/x"], [name])
            for name in ("RootDirectory", "RootImage", "ExtensionImages", "ExtensionDirectories")
        ),
        (["RootDirectory=-/x"], ["RootDirectory"]),
        (["RootDirectory=/x", "ExtensionImages=/y"], ["RootDirectory", "ExtensionImages"]),
        *((lines, []) for lines in (["RootDirectory=/"], ["RootImage=/x", "RootImage="], ["RootImage="], [])),
        (["ExtensionImages=/x", "ExtensionImages="], []),
        (["RootImageOptions=ro"], []),
    ],
)
def test_a_root_of_its_own_may_have_another_vllm(lines: list[str], names: list[str]) -> None:
    assert engine(*lines, SERVE).doubts == [OTHER.format(name) for name in names]


def test_a_container_has_the_files_of_its_image() -> None:
    found = engine("RootDirectory=/x", "BindPaths=/x:/usr/bin", "ExecStart=docker run vllm/vllm-openai:v0.33.0 dense")
    assert (found.doubts, found.mounts, found.installation) == ([], (), None)


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        (["ExecSearchPath=/a:/b"], "/a:/b"),
        (["ExecSearchPath=/a", "ExecSearchPath=/b"], "/a:/b"),
        (["ExecSearchPath=%h/bin"], None),
        (["ExecSearchPath=/a", "Environment=PATH=/c"], "/c"),
    ],
)
def test_the_folders_in_which_systemd_looks_are_the_path(ask: Asking, lines: list[str], path: str | None) -> None:
    assert engine(*lines, SERVE).env["PATH"] == path
    assert warnings(ask, *lines, SERVE) == ["the variable `PATH` may make another vLLM run"]
    assert "PATH" not in engine("ExecSearchPath=/a", "ExecSearchPath=", SERVE).env


def test_a_session_of_pam_may_set_variables() -> None:
    found = engine("PAMName=login", SERVE)
    assert (found.has_hidden_variables, found.notes) == (
        True,
        ["`PAMName` may set variables that the unit does not show"],
    )
    assert engine("PAMName=", SERVE).has_hidden_variables is False
