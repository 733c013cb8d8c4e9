"""The table of images: the files of `images/`, their faults, and which release an image has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from shipped_images import RULES, read_manifest, shipped_images
from tables import table

from policy.checks.check import check, faults_of
from policy.errors import RulesInvalid
from policy.intake.manifests.images import (
    platform,
    serves_its_arguments,
    starts_vllm,
    triton_since,
    version_of,
    working_folder,
)
from policy.intake.manifests.registry import read_manifest as read_with
from policy.rules.catalogue import load
from policy.rules.loader import Sources, read_folder

if TYPE_CHECKING:
    from policy.rules.images import ImageTable

RELEASES = 'known: ["0.23.0"]\ndefault: "0.23.0"\n'
RULE = """
id: always-v2
title: V2
effect: default-v2
why: it is
references: https://example.com
releases: [{vllm: ">=0.23,<0.24", message: V2, when: always}]
"""
ROW: dict[str, Any] = {"id": "one", "names": ["team/one"], "references": "https://example.com/one"}


def sources(images: str, cases: str = "") -> Sources:
    rules = {"releases.yaml": RELEASES, "upstream/default/always-v2.yaml": RULE, "images/one.yaml": images}
    return Sources(rules, {"images/one_test.yaml": cases} if cases else {})


def image_table(*rows: dict[str, Any]) -> ImageTable:
    written = [{**ROW, "id": f"row-{number}", **row} for number, row in enumerate(rows)]
    return load(sources(yaml.safe_dump({"images": written}))).releases.images


def faults(images: str) -> list[str]:
    with pytest.raises(RulesInvalid) as caught:
        load(sources(images))
    return [str(fault) for fault in caught.value.faults]


def rows(*texts: str) -> str:
    return "images:\n" + "".join(
        f"  - {{id: one, names: [team/one], references: https://example.com, {text}}}\n" for text in texts
    )


DIGEST = f"sha256:{'1' * 64}"
GOOD = rows('tags: [{tag: "{release}"}, {tag: v1, release: "0.23.0"}]')
NO_FOLDER = "expected the absolute path of a folder, such as `/workspace`, got"
FAULTS: list[tuple[str, list[str]]] = [
    ("images: []\n", ["images/one.yaml:1:9: expected a list of images, got `[]`"]),
    (
        "rows: []\n",
        [
            "images/one.yaml:1:1: the file of images has no `images`; add it, such as `images: [{id: llm-d-cuda, …}]`",
            "images/one.yaml:1:1: unknown field `rows` in the file of images; legal: `images`",
        ],
    ),
    (
        "images: [{}]\n",
        [
            "images/one.yaml:1:10: the image has no `id`; add it",
            "images/one.yaml:1:10: the image has no `names`; add it, such as `names: [llm-d/llm-d-cuda]`",
            (
                "images/one.yaml:1:10: the image has no `references`; add it, such as "
                "`references: [https://github.com/llm-d/llm-d/releases/tag/v0.8.1]`"
            ),
        ],
    ),
    (
        rows("platform: gpu"),
        [
            (
                "images/one.yaml:2:77: expected one of `cuda`, `rocm`, `cpu`, `xpu`, `tpu`, `out-of-tree`, "
                "`ascend`, `gaudi`, `metal`, `neuron`, `openvino`, `rbln`, `spyre`, `tenstorrent`, got `gpu`; "
                "did you mean `xpu`?"
            )
        ],
    ),
    (
        rows("entry_point: bash"),
        [
            (
                "images/one.yaml:2:80: expected one of `vllm-serve`, `vllm`, `vllm-omni`, `huggingfaceserver`, "
                "`other`, got `bash`"
            )
        ],
    ),
    *(
        (
            rows(f"working_folder: {folder}"),
            [
                f"images/one.yaml:2:83: {NO_FOLDER} `{folder.strip(chr(34))}`",
            ],
        )
        for folder in ("app", '"/app/"', '"/app/../x"', '"/a b"', "//app", "/~/x", '"/$HOME"')
    ),
    (
        rows("working_folder: {gpu: /app, cuda: app}"),
        [
            (
                "images/one.yaml:2:84: unknown field `gpu` in the working folder; legal: `cuda`, `rocm`, `cpu`, `xpu`, "
                "`tpu`, `out-of-tree`, `ascend`, `gaudi`, `metal`, `neuron`, `openvino`, `rbln`, `spyre`, "
                "`tenstorrent`, `unknown`"
            ),
            f"images/one.yaml:2:101: {NO_FOLDER} `app`",
        ],
    ),
    (
        rows('triton_since: "0.23"'),
        ['images/one.yaml:2:81: expected a version of vLLM, got `0.23`; write it as `"0.23.0"`'],
    ),
    (rows('custom: "yes"'), ["images/one.yaml:2:75: expected `true` or `false`, got `yes`"]),
    (
        rows("tags: [{tag: v1}]"),
        [
            'images/one.yaml:2:80: the tag `v1` has no `{release}`; add `release: "0.23.0"`, its version of vLLM',
        ],
    ),
    (
        rows('tags: [{tag: "{release}", release: "0.23.0"}]'),
        ["images/one.yaml:2:80: the tag `{release}` contains the version; remove `release`"],
    ),
    (
        rows("tags: [{tag: v1, release: latest}]"),
        ['images/one.yaml:2:93: expected a version of vLLM, got `latest`; write it as `"0.23.0"`'],
    ),
    (
        rows('tags: [{tag: v1, release: "0.23.0"}, {tag: [v2, v1], release: "0.24.0"}]'),
        ["images/one.yaml:2:110: `v1` is already in the entry at images/one.yaml:2:80; remove one"],
    ),
    (
        rows('tags: [{tag: "*-x", release: "0.23.0"}, {tag: "*-x", release: "0.24.0"}]'),
        ["images/one.yaml:2:113: `*-x` is already in the entry at images/one.yaml:2:80; remove one"],
    ),
    (
        rows('tags: [{tag: "{release}"}, {tag: "{release}", platform: rocm}]'),
        ["images/one.yaml:2:100: `{release}` is already in the entry at images/one.yaml:2:80; remove one"],
    ),
    (
        rows(f'tags: [{{digest: "{DIGEST}", release: "0.23.0"}}, {{digest: "{DIGEST}", release: "0.24.0"}}]'),
        [f"images/one.yaml:2:187: `{DIGEST}` is already in the entry at images/one.yaml:2:83; remove one"],
    ),
    (rows("tags: [{release: 0.23.0}]"), ["images/one.yaml:2:74: the entry has neither `tag` nor `digest`; add one"]),
    (
        rows('tags: [{digest: "sha256:12", release: "0.23.0"}]'),
        ["images/one.yaml:2:83: expected a digest such as `sha256:…` with 64 digits, got `sha256:12`"],
    ),
    (
        rows('tags: [{tag: v1, release: "0.23.0", env: {a: "0", B: 1}}]'),
        [
            "images/one.yaml:2:109: expected the name of a variable, got `a`",
            "images/one.yaml:2:120: expected a string, got `1`; put it in quotes",
        ],
    ),
    (
        rows("title: a").replace("https:", "http:"),
        ["images/one.yaml:2:46: expected a link that begins with `https://`, got `http://example.com`"],
    ),
    (
        rows("title: a", "title: b"),
        ["images/one.yaml:1:1: the id `one` is already used by images/one.yaml; choose another"],
    ),
]


@table(("images", "expected"), FAULTS, ids=[str(number) for number in range(len(FAULTS))])
def test_a_faulty_file_of_images_gives_every_fault_with_its_position(images: str, expected: list[str]) -> None:
    assert faults(images) == expected


NAME_ADVICE = (
    "write the end of the image's name in lower case, without tag, such as `vllm/vllm-openai`; a component between "
    "slashes may have one `*`"
)
TAG_ADVICE = (
    "write a tag, such as `v0.8.0`, or a pattern with one `*`, or with `{release}` in place of vLLM's version: "
    "`v{release}`, `*_vllm_{release}_*`, `{release}{build}`"
)


@table("name", ["Team/one", "/one", "team//one", "a*b*c", "team/*", "*", "one:v1@x", "one {{ .x }}"])
def test_an_invalid_name_is_a_fault(name: str) -> None:
    written = yaml.safe_dump({"images": [{**ROW, "names": [name]}]})
    assert [fault.partition(": ")[2] for fault in faults(written)] == [f"invalid name `{name}`; {NAME_ADVICE}"]


@table(
    "tag",
    [
        "*",
        "a*b*",
        "{release}*",
        "*{release}",
        "v1{release}",
        "{release}x",
        "{release}{release}",
        "{build}",
        "a/b",
        "a b",
    ],
)
def test_an_invalid_tag_is_a_fault(tag: str) -> None:
    release = {} if "{release}" in tag else {"release": "0.23.0"}
    written = yaml.safe_dump({"images": [{**ROW, "tags": [{"tag": tag, **release}]}]})
    assert [fault.partition(": ")[2] for fault in faults(written)] == [f"invalid tag `{tag}`; {TAG_ADVICE}"]


def test_two_rows_cannot_have_the_same_name() -> None:
    written = GOOD + GOOD.partition("\n")[2].replace("id: one", "id: two")
    assert faults(written) == [
        "images/one.yaml:3:5: the name `team/one` is already in the row `one` of images/one.yaml; remove one"
    ]


@pytest.mark.parametrize("version", ["0.23.0", "0.24.0"])
def test_a_digest_has_the_same_version_in_every_row(version: str) -> None:
    """The image of a mirror is the same one; its tags are those of the mirror."""
    one, two = (
        {**ROW, "id": name, "names": [f"{name}/vllm"], "tags": [{"digest": DIGEST, "release": release}]}
        for name, release in (("one", "0.23.0"), ("two", version))
    )
    images = [yaml.safe_dump({"images": [row]}) for row in (one, two)]
    given = sources(images[0])
    given.add("images/two.yaml", images[1])
    if version == "0.23.0":
        assert load(given).releases.images.release_of("two/vllm", None, DIGEST) is not None
        return
    with pytest.raises(RulesInvalid) as caught:
        load(given)
    message = f"the digest `{DIGEST}` has vLLM 0.24.0 here, and 0.23.0 in the row `one` of images/one.yaml; correct one"
    assert [str(fault) for fault in caught.value.faults] == [f"images/two.yaml:2:3: {message}"]


VERSIONS: list[tuple[list[Any], str, str | None]] = [
    ([{"tag": "{release}{build}"}], "v0.23.0", "0.23.0"),
    ([{"tag": "{release}{build}"}], "0.23.0", "0.23.0"),
    ([{"tag": "{release}{build}"}], "0.9.0.1", "0.9.0.1"),
    ([{"tag": "{release}{build}"}], "v0.23.0-cu129", "0.23.0"),
    ([{"tag": "{release}{build}"}], "v0.23.0-fix-2", "0.23.0+fix.2"),
    ([{"tag": "{release}{build}"}], "v0.23.0x", None),
    ([{"tag": "{release}{build}"}], "vv0.23.0", None),
    ([{"tag": "{release}"}], "v0.23.0-cu129", None),
    ([{"tag": "a-{release}"}], "a-0.23.0", "0.23.0"),
    ([{"tag": "a-{release}"}], "0.23.0", None),
    ([{"tag": "*_vllm_{release}_*"}], "rocm6.4.1_vllm_0.9.1_20250702", "0.9.1"),
    ([{"tag": "*_vllm_{release}_*"}], "a_vllm_b_vllm_0.9.1_c", "0.9.1"),
    ([{"tag": "*_vllm_{release}_*"}], "rocm6.4.1_vllm_0.9.1_", None),
    ([{"tag": "{release}-gpu-*"}], "0.11.0-gpu-py312", "0.11.0"),
    ([{"tag": "{release}-gpu-*"}], "0.11-gpu-py312", None),
    ([{"tag": "{release}-gpu-*"}], "0.11.0-gpu-", None),
    ([{"tag": "v1-*", "release": "0.23.0"}], "v1-rc.2", "0.23.0"),
    ([{"tag": "v1-*", "release": "0.23.0"}], "v1", None),
    ([{"tag": ["v1-*", "v1"], "release": "0.23.0"}], "v1", "0.23.0"),
    ([{"tag": "v1-*", "release": "0.23.0"}, {"tag": "v1-b", "release": "0.24.0"}], "v1-b", "0.24.0"),
    ([{"tag": "v1-*", "release": "0.23.0"}, {"tag": "v1-b*", "release": "0.24.0"}], "v1-b2", "0.23.0"),
    ([{"tag": "v1", "release": "0.23.0"}], "V1", None),
    ([{"tag": "{release}{build}"}], "1" * 129, None),
]


@table(("tags", "tag", "version"), VERSIONS)
def test_a_tag_shows_the_release_of_the_first_pattern_that_matches_and_a_listed_tag_its_own(
    tags: list[Any], tag: str, version: str | None
) -> None:
    assert version_of(f"team/one:{tag}", image_table({"tags": tags})).version == version


FOLDERS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "team/one:v1", ""),
    ({"working_folder": "/app"}, "team/one:v1", "/app"),
    ({"working_folder": "/app"}, "TEAM/one", "/app"),
    ({"working_folder": "/app"}, "team/two:v1", ""),
    ({"working_folder": "/"}, "team/one:v1", "/"),
    ({"working_folder": "/app", "tags": [{"tag": "v1", "release": "0.23.0"}]}, "team/one:v1", "/app"),
    ({"working_folder": "/app", "tags": [{"tag": "v1", "release": "0.23.0"}]}, "team/one:v2", "/app"),
    (
        {"working_folder": "/app", "tags": [{"tag": "v1", "release": "0.23.0", "working_folder": "/x"}]},
        "team/one:v1",
        "/x",
    ),
    ({"tags": [{"tag": "{release}", "working_folder": "/x"}]}, "team/one:v0.23.0", "/x"),
    ({"tags": [{"tag": "{release}", "working_folder": "/x"}]}, "team/one:v1", ""),
    ({"working_folder": {"cpu": "/c", "rocm": "/r"}, "platform": "rocm"}, "team/one:v1", "/r"),
    ({"working_folder": {"cpu": "/c", "rocm": "/r"}, "platform": "rocm"}, "team/one:v1-cpu", "/c"),
    ({"working_folder": {"cpu": "/c", "rocm": "/r"}, "platform": "cuda"}, "team/one:v1", ""),
    ({"working_folder": {"cpu": "/c", "rocm": "/r"}}, "team/one:v1", ""),
    ({"working_folder": {"cpu": "/c", "unknown": "/u"}}, "team/one:v1", "/u"),
    ({"working_folder": {"cpu": "/c", "unknown": "/u"}, "platform": "cuda"}, "team/one:v1", ""),
    ({"names": ["team/one-*"], "working_folder": {"cpu": "/c", "rocm": "/r"}}, "team/one-vllm-rocm:v1", "/r"),
]


@table(("row", "image", "folder"), FOLDERS)
def test_the_working_folder_of_an_image_is_that_of_its_tag_else_of_its_platform_or_row(
    row: dict[str, Any], image: str, folder: str
) -> None:
    assert working_folder(image, image_table(row)) == folder


TRITON: list[tuple[dict[str, Any], str, str]] = [
    ({"platform": "cpu"}, "team/one:v1", ""),
    ({"platform": "cpu", "triton_since": "0.23.0"}, "team/one:v1", "0.23.0"),
    ({"platform": "cpu", "triton_since": "0.23.0"}, "team/one:v1-x86_64", "0.23.0"),
    ({"platform": "cpu", "triton_since": "0.23.0"}, "team/one:v1-arm64", "never"),
    ({"platform": "cpu"}, "team/one:v1-AArch64", "never"),
    ({"platform": "cpu", "triton_since": "0.23.0"}, "arm64/team/one:v1", "0.23.0"),
    ({"platform": "cpu", "names": ["team/one-*"], "triton_since": "0.23.0"}, "team/one-arm64:v1", "never"),
    ({"platform": "cpu", "triton_since": "0.23.0"}, "team/vllm-cpu:v1", ""),
    ({"platform": "cpu", "triton_since": "0.23.0"}, "team/vllm-arm64:v1-cpu", "never"),
    ({"platform": "rocm", "triton_since": "0.23.0"}, "team/one:v1-arm64", ""),
    ({"platform": "rocm", "triton_since": "0.23.0"}, "team/one:v1-cpu", "0.23.0"),
]


@table(("row", "image", "release"), TRITON)
def test_an_image_for_cpus_has_triton_from_the_release_of_its_row_on_and_never_on_arm(
    row: dict[str, Any], image: str, release: str
) -> None:
    assert triton_since(image, image_table(row)) == release


NAMES: list[tuple[str, str]] = [
    ("team/one", "row-0"),
    ("one", "row-3"),
    ("docker.io/team/one", "row-0"),
    ("mirror.example:5000/a/b/team/one", "row-0"),
    ("TEAM/One", "row-0"),
    ("team/one-cpu", "row-1"),
    ("team/one-cpu-x", "row-2"),
    ("team/two", ""),
    ("otherteam/one", "row-3"),
    ("registry.example/team/one", "row-4"),
]


@table(("name", "row"), NAMES)
def test_of_several_rows_the_one_with_the_most_specific_name_has_an_image(name: str, row: str) -> None:
    known = image_table(
        {"names": ["team/one"]},
        {"names": ["team/one-cpu"]},
        {"names": ["team/one-*"]},
        {"names": ["one", "one-*"]},
        {"names": ["registry.example/team/one"]},
    )
    assert version_of(f"{name}:v1", known).row == row


DIGEST = "sha256:" + "0" * 64
DOUBT = "the digest of the image `team/one:v1@sha256:11` decides which vLLM runs, and its tag may name another"
DIGESTS: list[tuple[str, str | None, str]] = [
    (f"team/one@{DIGEST}", "0.24.0", ""),
    (f"team/one:v1@{DIGEST}", "0.24.0", ""),
    ("team/one:v1@sha256:11", "0.23.0", DOUBT),
    ("team/one@sha256:11", None, ""),
    ("team/one:v1", "0.23.0", ""),
]


@pytest.mark.parametrize(("image", "version", "doubt"), DIGESTS)
def test_a_known_digest_decides_and_a_tag_beside_an_unknown_one_is_only_likely(
    image: str, version: str | None, doubt: str
) -> None:
    tags = [{"tag": "v1", "release": "0.23.0"}, {"digest": DIGEST, "release": "0.24.0"}]
    found = version_of(image, image_table({"tags": tags}))
    assert (found.version, found.doubt) == (version, doubt)


def test_a_row_gives_the_platform_the_entry_point_and_whether_the_build_is_custom() -> None:
    known = image_table(
        {"platform": "rocm", "entry_point": "vllm-serve", "custom": True, "tags": [{"tag": "{release}"}]},
        {
            "names": ["team/two"],
            "entry_point": "vllm",
            "tags": [{"tag": "v1", "release": "0.23.0", "platform": "cpu"}, {"tag": "v2", "release": "0.24.0"}],
        },
        {"names": ["team/three"]},
    )
    found = version_of("team/one:v0.23.0", known)
    assert (found.version, found.doubt) == (
        "0.23.0",
        "the vLLM in the image `team/one:v0.23.0` is a custom build of 0.23.0",
    )
    images = ("team/one:v0.23.0", "team/two:v1", "team/two:v2-rocm", "team/three:v1", "team/four:v1")
    assert [platform(image, known) for image in images] == ["rocm", "cpu", "rocm", None, None]
    assert [starts_vllm(image, known) for image in images] == [True, True, True, False, False]
    assert [serves_its_arguments(image, known) for image in images] == [True, False, False, False, False]


UNVERSIONED: list[tuple[str, str]] = [
    ("vllm/vllm-openai:latest", "the tag of the image `vllm/vllm-openai:latest` names no release of vLLM"),
    (
        "ghcr.io/llm-d/llm-d-cuda:v0.1.0",
        "the table of images has no release of vLLM for the tag of `ghcr.io/llm-d/llm-d-cuda:v0.1.0` (`llm-d-cuda`)",
    ),
    ("team/vllm:v1", "the tag of the image `team/vllm:v1` names no release of vLLM"),
    ("team/engine:v1", "the tag of the image `team/engine:v1` does not name vLLM's version"),
    (
        "vllm/vllm-openai@sha256:00",
        "the image `vllm/vllm-openai@sha256:00` is named by its digest, which does not show vLLM's version",
    ),
]


@pytest.mark.parametrize(("image", "why"), UNVERSIONED)
def test_an_image_without_a_known_release_says_why(image: str, why: str) -> None:
    assert version_of(image, shipped_images()).unversioned == why


# cases

LACK = "images/one_test.yaml:{}: the cases of the image `one` lack {}; add it"
MISSING: list[tuple[str, list[str]]] = [
    ("", [LACK.format("1:1", "one whose tag matches `{release}`; one; one for a tag of which it knows no release")]),
    (
        "cases: [{image: team/one:v1, row: one, release: 0.23.0}]",
        [LACK.format("1:1", "one whose tag matches `{release}`; one for a tag of which it knows no release")],
    ),
    (
        "cases: [{image: team/one:v2, row: one}]",
        [LACK.format("1:1", "one whose tag matches `{release}`; one with a `release`")],
    ),
    (
        "cases: [{image: team/one:v1, row: two}]",
        ["images/one_test.yaml:1:35: unknown row `two`; name one of `images/`, or leave it out"],
    ),
    (
        "cases: [{row: one}]",
        ["images/one_test.yaml:1:9: the case has no `image`; add it, such as `image: ghcr.io/llm-d/llm-d-cuda:v0.8.1`"],
    ),
]


@pytest.mark.parametrize(("cases", "expected"), MISSING)
def test_every_row_needs_cases(cases: str, expected: list[str]) -> None:
    found = check(sources(GOOD, cases))
    assert [str(fault) for fault in found.faults if fault.path.startswith("images/")] == expected


FAILING = """cases:
  - {image: team/one:0.24.0, row: one, release: "0.23.0"}
  - {image: team/one:latest, platform: cpu}
  - {image: team/one:v2, row: one}
  - {image: team/one:v1, row: one, release: "0.23.0"}
"""


def test_a_failing_case_prevents_the_rules_from_being_loaded() -> None:
    shipped = read_folder(RULES)
    rules = {**shipped.rules, "images/one.yaml": GOOD}
    assert faults_of(Sources(rules, {**shipped.cases, "images/one_test.yaml": FAILING}), None) == [
        (
            "images/one_test.yaml:2:1: the case `team/one:0.24.0` fails at 0.23.0: "
            "`release` is `0.24.0`, expected `0.23.0`"
        ),
        (
            "images/one_test.yaml:3:1: the case `team/one:latest` fails at no release: `row` is `one`, expected none; "
            "`platform` is none, expected `cpu`"
        ),
    ]


# what engines get

RAY = "rayproject/ray-llm:2.58.0-py312-cu130"


def engine(image: str, **more: Any) -> dict[str, Any]:
    container = {"image": image, "command": ["vllm", "serve", "a/b"], **more}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}


def test_variables_of_the_image_count_unless_the_manifest_sets_them() -> None:
    (found,) = read_manifest(engine(RAY), "", [])
    assert (found.env, found.notes) == (
        {"VLLM_USE_V2_MODEL_RUNNER": "0"},
        [f"the image `{RAY}` sets `VLLM_USE_V2_MODEL_RUNNER=0` (`ray-llm`)"],
    )
    (found,) = read_manifest(engine(RAY, env=[{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]), "", [])
    assert (found.env, found.notes) == ({"VLLM_USE_V2_MODEL_RUNNER": "1"}, [])


def test_a_version_that_is_installed_replaces_that_of_the_image() -> None:
    script = "pip install vllm==0.33.0 && vllm serve a/b"
    (found,) = read_manifest(engine("ghcr.io/llm-d/llm-d-cuda:v0.8.1", command=["sh", "-c", script]), "", [])
    assert (found.vllm_version, found.version_row, found.installation) == ("0.33.0", "", None)


def test_a_variable_of_the_image_may_change_where_a_command_installs() -> None:
    script = "pip install vllm==0.33.0 && vllm serve a/b"
    document = engine("team/one:v1", command=["sh", "-c", script])
    for name, version in (("PIP_TARGET", "0.23.0"), ("PIP_INDEX_URL", "0.33.0")):
        images = image_table({"tags": [{"tag": "v1", "release": "0.23.0", "env": {name: "/x"}}]})
        (found,) = read_with(document, "", [], images)
        assert found.vllm_version == version
