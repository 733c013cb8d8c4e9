"""Which known release decides for a version."""

from __future__ import annotations

from datetime import date

import pytest
from tables import table

from policy.rules.releases import InvalidVersion, Releases, Resolution, UnknownRelease, series, spans, why_presumed

KNOWN = ("0.20.0", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0", "0.25.1", "0.33.0")
RELEASES = Releases(KNOWN, "0.23.0")


def test_without_a_version_the_default_release_decides() -> None:
    assert RELEASES.resolve(None) == Resolution("0.23.0", verified=True, defaulted=True)


@table(
    ("version", "decided_as", "verified"),
    [
        ("0.23.0", "0.23.0", True),
        ("v0.23.0", "0.23.0", True),
        ("V0.23.0", "0.23.0", True),
        (" 0.23.0 ", "0.23.0", True),
        ("0.23", "0.23.0", True),
        ("0.23.0.0", "0.23.0", True),
        ("0.23.0+cu128", "0.23.0", True),
        ("0.23.0+rocm700", "0.23.0", True),
        ("0.23.0+cpu", "0.23.0", True),
        ("v0.23.0+cu128.abc", "0.23.0", False),
        ("0.23.0+a.b", "0.23.0", False),
        ("0.23.0+mypatch", "0.23.0", False),
        ("0.23.0+g0123456.d20270131", "0.23.0", False),
        ("0.23.0+1", "0.23.0", False),
        ("0.24.1", "0.24.0", False),
        ("0.24.0rc1", "0.24.0", False),
        ("0.24.0.dev5+g1234", "0.24.0", False),
        ("0.24.0.post1", "0.24.0", False),
        ("0.20.1", "0.20.0", False),
        ("0.20.2", "0.20.2", True),
        ("0.20.3", "0.20.2", False),
        ("0.20.2rc1", "0.20.2", False),
        ("0.22.1", "0.22.1", True),
        ("0.22.99", "0.22.1", False),
        ("0.25.1.post2", "0.25.1", False),
        ("0.33.7", "0.33.0", False),
    ],
)
def test_a_version_is_decided_as_a_release_of_its_series(version: str, decided_as: str, verified: bool) -> None:  # noqa: FBT001  # a table's column
    assert RELEASES.resolve(version) == Resolution(decided_as, verified=verified, defaulted=False)


DATED = Releases(KNOWN, "0.23.0", published={"0.24.0": date(2026, 6, 30), "0.25.0": date(2026, 7, 11)})


@table(
    ("version", "decided_as"),
    [
        ("0.1.dev1+g51f799c1a.d20260702", "0.24.0"),
        ("0.1.dev14+g51f799c1a.d20260708", "0.25.0"),
        ("0.1.dev1+g51f799c1a.d20260708.precompiled", "0.25.0"),
        ("v0.1.dev1+g51f799c1a.d20200101", "0.24.0"),
        ("0.1.dev1+g51f799c1a.d20290101", "0.25.0"),
        ("0.1.dev1+g51f799c1a.d20261301", "0.23.0"),
        ("0.1.dev1+g51f799c1a.precompiled", "0.23.0"),
        ("0.1.dev1", "0.23.0"),
        ("0.0.0.dev0", "0.23.0"),
    ],
)
@table("nearest", [False, True])
def test_a_build_without_tags_is_decided_by_its_day(version: str, decided_as: str, nearest: bool) -> None:  # noqa: FBT001
    assert DATED.resolve(version, nearest=nearest) == Resolution(decided_as, verified=False, defaulted=False)
    assert why_presumed(version)


def test_without_days_a_build_without_tags_is_decided_as_the_default_release() -> None:
    assert RELEASES.resolve("0.1.dev1+g51f799c1a.d20260702").decided_as == "0.23.0"


@pytest.mark.parametrize("version", ["0.1", "0.1.0", "1!0.1.dev1", "0.2.dev1"])
def test_another_old_version_is_still_unknown(version: str) -> None:
    with pytest.raises(UnknownRelease):
        DATED.resolve(version)


def test_a_version_before_the_first_known_patch_is_decided_as_that_patch() -> None:
    assert Releases(("0.20.2", "0.21.0"), "0.21.0").resolve("0.20.1") == Resolution(
        "0.20.2", verified=False, defaulted=False
    )


@table("version", ["0.19.9", "0.34.0", "1.0", "0", "0.26.0", "2024.1.1", "0.34.0rc1", "1!0.23.0"])
def test_a_version_outside_the_known_series_is_unknown(version: str) -> None:
    with pytest.raises(UnknownRelease) as raised:
        RELEASES.resolve(version)
    assert str(raised.value) == f"unknown release `{version}`; known releases: 0.20.0 to 0.33.0"


@table(
    ("version", "decided_as"),
    [
        ("0.19.9", "0.20.0"),
        ("0.1", "0.20.0"),
        ("0.34.0", "0.33.0"),
        ("1.0", "0.33.0"),
        ("0.34.0rc1", "0.33.0"),
        ("0.26.3", "0.25.1"),
        ("0.24.9", "0.24.0"),
    ],
)
def test_with_nearest_the_closest_release_decides_unverified(version: str, decided_as: str) -> None:
    assert RELEASES.resolve(version, nearest=True) == Resolution(decided_as, verified=False, defaulted=False)


def test_a_known_release_is_verified_even_with_nearest() -> None:
    assert RELEASES.resolve("0.23.0", nearest=True) == Resolution("0.23.0", verified=True, defaulted=False)


@table(
    "version",
    [
        "",
        " ",
        "latest",
        "0.23.x",
        "0.23-",
        "0,23",
        "0.23.0 0.24.0",
        "１.０x",
        "9" * 65,
        "0." * 40 + "1",
        "\0",
        "\ud800",
    ],
)
def test_an_invalid_version_is_refused_with_the_legal_form(version: str) -> None:
    with pytest.raises(InvalidVersion, match=r"^invalid version `.*`; write it as `0\.23\.0` or `v0\.23\.0`$"):
        RELEASES.resolve(version)


def test_another_default_is_resolved_to_a_known_release() -> None:
    other = RELEASES.with_default("v0.24.5")
    assert (other.known, other.default, other.resolve(None)) == (
        KNOWN,
        "0.24.0",
        Resolution("0.24.0", verified=True, defaulted=True),
    )


@pytest.mark.parametrize(("version", "error"), [("0.99.0", UnknownRelease), ("newest", InvalidVersion)])
def test_an_unknown_or_invalid_default_is_an_error(version: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        RELEASES.with_default(version)


@pytest.mark.parametrize(("version", "expected"), [("0.23.0", (0, 23)), ("1", (1, 0)), ("0.23.1rc1", (0, 23))])
def test_a_series_is_the_first_two_numbers(version: str, expected: tuple[int, int]) -> None:
    assert series(version) == expected


@table(
    ("releases", "text"),
    [
        ([], ""),
        (["b"], "b"),
        (["a", "b"], "a to b"),
        (["a", "c"], "a, c"),
        (["e", "d", "a", "b"], "a to b, d to e"),
        (["a", "b", "c", "d", "e"], "a to e"),
        (["e"], "e"),
    ],
)
def test_releases_are_written_as_ranges(releases: list[str], text: str) -> None:
    assert spans(releases, ("a", "b", "c", "d", "e")) == text
    assert spans(releases, ("a", "b", "c", "d", "e"), "…") == text.replace(" to ", "…")
