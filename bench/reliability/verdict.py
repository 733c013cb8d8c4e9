"""What was expected and did not come to be.

Owns the line that is printed for each expectation.
"""

from __future__ import annotations

failed: list[str] = []


def expect(holds: bool, what: str) -> None:  # noqa: FBT001
    """It is printed whether it holds, and remembered where it does not."""
    print(f"{'ok  ' if holds else 'FAIL'}  {what}", flush=True)
    if not holds:
        failed.append(what)
