"""Errors show where, what and how to mend it, and cross process borders whole."""

from __future__ import annotations

import pickle

import pytest

from hexcute_core import errors
from hexcute_core.errors import HexcuteError, SourceSpan

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HexcuteError)
]


def test_the_message_stands_between_place_and_fix() -> None:
    assert str(HexcuteError("no")) == "no"
    assert str(HexcuteError("no", SourceSpan("k.py", 3, 8))) == "k.py:3: no"
    error = HexcuteError("no", SourceSpan("k.py", 3), fix="write yes")
    assert str(error) == "k.py:3: no\n  fix: write yes"


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling(kind: type[HexcuteError]) -> None:
    error = kind("no", SourceSpan("k.py", 3, 8), "write yes")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (again.message, again.span, again.fix) == (error.message, error.span, error.fix)


def test_spans_are_ordered_by_place() -> None:
    assert sorted([SourceSpan("b", 1), SourceSpan("a", 2, 1), SourceSpan("a", 2)]) == [
        SourceSpan("a", 2),
        SourceSpan("a", 2, 1),
        SourceSpan("b", 1),
    ]
