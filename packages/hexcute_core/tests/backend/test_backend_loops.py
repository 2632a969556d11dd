"""Loops of the emitted C++ run as often as Python's, whatever the distance of their ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_backend_values import THREADS, T, i32, run, true

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Cast, Var, add, compare, floordiv, mod, sub
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    Stmt,
)


@pytest.mark.parametrize("known", [True, False], ids=["known", "at run time"])
@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        (-(2**31), 2**31 - 1, 2**30), (2**31 - 1, -(2**31), 1), (-(2**31), 2**31 - 1, 2**31 - 1),
        (2**31 - 6, 2**31 - 1, 2), (-(2**31), 3 - 2**31, 1), (1, 2**31 - 1, 2**29), (5, 5, 1),
        (1, -(2**31), 1), (-9, 9, 4),
    ],
)  # fmt: skip
def test_loops_between_ends_that_are_far_apart(
    tmp_path: Path, start: int, stop: int, step: int, known: bool
) -> None:
    """The distance of two numbers of a type may be none of it."""
    s, i, a, b = (Var(name) for name in ("s", "i", "a", "b"))
    ends: list[Stmt] = [
        Assign(v, sub(i32(end), 0) if known else sub(add(i32(end), T), T), True)
        for v, end in ((a, start), (b, stop))
    ]
    low, high = (i32(start), i32(stop)) if known else (a, b)
    body: list[Stmt] = [
        *ends,
        Assign(s, i32(0), declares=True),
        For(i, low, high, i32(step), (Assign(s, add(s, add(i, 1)), declares=False),)),
        DeclareArray("out", dt.i32, 1),
        SetElement("out", i32(0), s),
        Prim(
            "st.global.4", (GlobalPtr("o", T, dt.i32), Regs("out", i32(0), (0,), 1, dt.i32), true())
        ),
    ]
    out = np.zeros(THREADS, np.int32)
    run(tmp_path, body, {"o": (dt.i32, out)})
    total = sum(x + 1 for x in range(start, stop, step))
    assert (out == np.int64(total).astype(np.int32)).all()


@pytest.mark.parametrize("t", [dt.i8, dt.u8, dt.i16, dt.u16], ids=str)
def test_loops_between_ends_of_a_narrow_type(tmp_path: Path, t: dt.DType) -> None:
    """The variable is of 32 bits, and so are the trips: up over the type's width, down none."""
    s, i = Var("s"), Var("i")
    low, high = (0, 2**t.bits - 1) if t.kind == "uint" else (-(2 ** (t.bits - 1)), 2**7 - 1)
    # T - T is not known when the program is compiled.
    ends = [Cast(sub(add(i32(end), T), T), t) for end in (low, high)]
    body: list[Stmt] = [
        Assign(s, i32(0), declares=True),
        For(i, ends[0], ends[1], i32(1), (Assign(s, add(s, 1), declares=False),)),
        For(i, ends[1], ends[0], i32(1), (Assign(s, add(s, -7), declares=False),)),
        DeclareArray("out", dt.i32, 1),
        SetElement("out", i32(0), s),
        Prim(
            "st.global.4", (GlobalPtr("o", T, dt.i32), Regs("out", i32(0), (0,), 1, dt.i32), true())
        ),
    ]
    out = np.zeros(THREADS, np.int32)
    run(tmp_path, body, {"o": (dt.i32, out)})
    assert (out == high - low).all()


@pytest.mark.parametrize("divisor", [7, -4, 0])
@pytest.mark.parametrize("trips", [0, 3])
def test_a_loop_divides_once_by_what_it_does_not_change(
    tmp_path: Path, trips: int, divisor: int
) -> None:
    """The first loop divides alike in all rounds, the second by a variable that it changes; a loop
    without rounds, or whose rounds do not come to it, divides by nothing, not by zero either."""
    far = 0 if divisor else trips
    s, i, j, x, d = (Var(name) for name in ("s", "i", "j", "x", "d"))
    at_run_time = sub(T, T)
    steady, changing = floordiv(sub(T, 50), d), mod(x, d)
    first = Assign(s, add(s, add(add(steady, mod(steady, add(d, 3))), i)), declares=False)
    second = (
        Assign(s, add(s, changing), declares=False),
        Assign(x, add(x, 11), declares=False),
    )
    end = add(i32(trips), at_run_time)
    body: list[Stmt] = [
        Assign(d, add(i32(divisor), at_run_time), declares=True),
        Assign(x, add(T, i32(1)), declares=True),
        Assign(s, i32(0), declares=True),
        For(i, i32(0), end, i32(1), (If(compare("ge", i, far), (first,)),)),
        For(j, i32(0), end, i32(1), (If(compare("ge", j, far), second),)),
        DeclareArray("out", dt.i32, 1),
        SetElement("out", i32(0), s),
        Prim(
            "st.global.4", (GlobalPtr("o", T, dt.i32), Regs("out", i32(0), (0,), 1, dt.i32), true())
        ),
    ]
    out = np.zeros(THREADS, np.int32)
    run(tmp_path, body, {"o": (dt.i32, out)})
    want = []
    for t in range(THREADS):
        total, value = 0, t + 1
        for r in range(far, trips):
            q = (t - 50) // divisor
            total += q + q % (divisor + 3) + r + value % divisor
            value += 11
        want.append(total)
    assert out.tolist() == want
    text = (tmp_path / "k.cpp").read_text()
    before = text.index("for (", text.index("hexcute_host"))
    assert text.count("int quotient_") == 2 == text.count("int quotient_", 0, before)
