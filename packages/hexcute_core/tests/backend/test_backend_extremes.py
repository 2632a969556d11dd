"""Extremes that keep what is no number: `where(isnan(x), x, maximum(x, c))` is one instruction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_backend_values import THREADS, T, i32, run, true

from hexcute_core import dtypes as dt
from hexcute_core.backend import emit
from hexcute_core.errors import MissingDependency
from hexcute_core.scalar import Binary, Cast, Const, Element, Scalar, Select, Unary
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    Prim,
    Regs,
    SetElement,
    Stmt,
    ThreadParam,
    ThreadProgram,
)
from hexcute_core.toolchain import compile_cubin

HOST = """
static float hx_max_or_nan(float a, float b) { return a != a ? a : a > b ? a : b; }
static float hx_min_or_nan(float a, float b) { return a != a ? a : a < b ? a : b; }
"""
X, Y = (Element("x", (i32(i),), dt.f32) for i in range(2))


def body(asked: Scalar, extreme: Scalar) -> list[Stmt]:
    """b[thread] = extreme, or `asked` where that is no number; of a[thread] and what is beside."""
    value = Select(Unary("isnan", asked, dt.boolean), asked, extreme, dt.f32)
    regs = Regs("x", i32(0), (0,), 1, dt.f32)
    return [
        DeclareArray("x", dt.f32, 2),
        Prim("ld.global.4", (regs, GlobalPtr("a", T, dt.f32), true())),
        SetElement("x", i32(1), Cast(T, dt.f32)),
        SetElement("x", i32(0), value),
        Prim("st.global.4", (GlobalPtr("b", T, dt.f32), regs, true())),
    ]


def source(*given: Scalar) -> str:
    params = tuple(ThreadParam(name, dt.f32, (i32(THREADS),), pointer=True) for name in "ab")
    program = ThreadProgram("probe", params, (i32(1),) * 3, THREADS, 0, tuple(body(*given)))
    try:
        text = emit(program, "sm_80").text
        compile_cubin(text, "sm_80")
    except MissingDependency as error:
        pytest.skip(str(error))
    return text


@pytest.mark.parametrize("op", ["min", "max"])
def test_of_a_number_and_a_constant(tmp_path: Path, op: str) -> None:
    given = X, Binary(op, X, Const(2.5, dt.f32), dt.f32)
    assert f"{op}.NaN.f32" in source(*given)
    a = np.linspace(-5, 5, THREADS, dtype=np.float32)
    a[:4] = np.nan, np.inf, -np.inf, -0.0
    b = np.zeros(THREADS, np.float32)
    run(tmp_path, body(*given), {"a": (dt.f32, a), "b": (dt.f32, b)}, HOST)
    np.testing.assert_array_equal(b, {"min": np.minimum, "max": np.maximum}[op](a, np.float32(2.5)))


@pytest.mark.parametrize("op", ["min", "max"])
def test_not_where_the_instruction_would_be_another_number(op: str) -> None:
    """Of no constant, of one that is no number, or where another number is asked for."""
    none, limit = Const(float("nan"), dt.f32), Const(2.5, dt.f32)
    for asked, other in ((X, Y), (X, none), (Y, limit)):
        assert f"{op}.NaN.f32" not in source(asked, Binary(op, X, other, dt.f32))
