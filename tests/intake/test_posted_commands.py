"""Command lines of old posts, of blogs, issues and manuals, read as each release's own parser reads them."""

from __future__ import annotations

import shlex

import pytest

from bench.unseen.commands import RELEASES, is_equal, refusal, rows, said_by_parser

QUICK = ("0.19.0", "0.24.0", "0.33.0")
MIN_COMMANDS = 100


def test_there_are_enough_commands_each_with_its_source() -> None:
    commands = [row["command"] for row in rows()]
    assert len(set(commands)) == len(commands) >= MIN_COMMANDS
    assert all(shlex.split(command) for command in commands)
    assert all(row["source"].startswith("https://") for row in rows())


@pytest.mark.parametrize(
    "release",
    [pytest.param(release, marks=[] if release in QUICK else pytest.mark.slow) for release in RELEASES],
)
def test_a_command_is_accepted_or_refused_as_by_the_release_s_own_parser(release: str) -> None:
    answers = [(row["command"], said_by_parser(row, release), refusal(row["command"], release)) for row in rows()]
    assert [answer for answer in answers if not is_equal(*answer[1:], release)] == []
    refused = [answer for answer in answers if answer[1] is not None]
    assert (0 < len(refused) < len(answers), all(ours is not None for _, _, ours in refused)) == (True, True)
