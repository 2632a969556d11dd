"""Divisors that calls are specialised on: of masks."""

from __future__ import annotations

import pytest

from hexcute_core.runtime import Signature, SymbolParam, TensorParam, default_divisors


@pytest.mark.parametrize(("beside", "divisor"), [("f16", 8), ("f32", 4), ("i8", 16), (None, 16)])
def test_a_mask_asks_for_no_more_than_what_it_is_beside(beside: str | None, divisor: int) -> None:
    mask = TensorParam("kept", "bool", ("m", "n"))
    other = TensorParam("x", beside or "bool", ("m", "n"))
    symbols = (SymbolParam("m"), SymbolParam("n"))
    params = (mask,) if beside is None else (mask, other)
    assert default_divisors(Signature("masked", params, symbols)) == {"n": divisor}
