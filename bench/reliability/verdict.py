"""The expectations of a check, and those that failed.

Owns the line that is printed for each expectation.
"""

from __future__ import annotations

failed: list[str] = []


def expect(holds: bool, expectation: str) -> None:  # noqa: FBT001
    """Print whether an expectation holds, and record it if it does not."""
    print(f"{'ok  ' if holds else 'FAIL'}  {expectation}", flush=True)
    if not holds:
        failed.append(expectation)
