"""`assert_never` for closed unions, on every supported Python."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Marks the branch that mypy proves unreachable; reaching it is a bug of ours."""
    raise TypeError(f"a closed union met an unknown member: {value!r}")
