"""Neighbours of 16 bits that are computed alike share words, with the values of single ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_backend_values import NUMPY, THREADS, T, i32, ml_dtypes, run, true

from hexcute_core import dtypes as dt
from hexcute_core.backend import emit
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Binary, Cast, Const, Element, Scalar, Var, add, mul, sub
from hexcute_core.thread import (
    DeclareArray,
    For,
    GlobalPtr,
    Prim,
    Regs,
    SetElement,
    Stmt,
    ThreadParam,
    ThreadProgram,
)

HOST = """
static unsigned hx_both(h16 (*f)(h16, h16), unsigned a, unsigned b) {
  return f(a, b) | (unsigned)f(a >> 16, b >> 16) << 16;
}
static unsigned hx_add_f16x2(unsigned a, unsigned b) { return hx_both(hx_add_f16, a, b); }
static unsigned hx_sub_f16x2(unsigned a, unsigned b) { return hx_both(hx_sub_f16, a, b); }
static unsigned hx_mul_f16x2(unsigned a, unsigned b) { return hx_both(hx_mul_f16, a, b); }
static h16 hx_fma_bf16(h16 a, h16 b, h16 c) {
  double x = bits<float>(a << 16), y = bits<float>(b << 16), z = bits<float>(c << 16);
  return hx_f32_to_bf16((float)fma(x, y, z));
}
static unsigned hx_fma_bf16x2(unsigned a, unsigned b, unsigned c) {
  return hx_fma_bf16(a, b, c) | (unsigned)hx_fma_bf16(a >> 16, b >> 16, c >> 16) << 16;
}
static unsigned hx_and_or(unsigned a, unsigned b, unsigned c) { return (a & b) | c; }
"""
"""What the host has for instructions on both halves."""
COUNT = 16
P = Var("i")


def u16(value: int) -> Const:
    return Const(value, dt.u16)


def at(array: str, index: Scalar, dtype: DType) -> Element:
    return Element(array, (index,), dtype)


Q, X = at("q", P, dt.u16), at("x", P, dt.f16)
FIRST = at("x", i32(3), dt.f16)
Y, FOURTH = at("x", P, dt.bf16), at("x", i32(3), dt.bf16)
BF16 = ml_dtypes.bfloat16


def bits(a: Scalar, op: str, b: Scalar) -> Scalar:
    return Binary(op, a, b, dt.u16)  # type: ignore[arg-type]


def nibble(place: int) -> Scalar:
    return bits(bits(Q, "shr", i32(4 * place)), "and", u16(15))


def halved(function: str) -> dict[str, int]:
    return {f"hx_{function}_f16x2(": COUNT // 2}


# A value of h[i], what numpy makes of q and x, and how often which function is called.
CASES = {
    "weights": (
        mul(sub(Cast(nibble(2), dt.f16), X), FIRST),
        lambda q, x: ((q >> 8 & 15).astype(np.float16) - x) * x[:, 3:4],
        {"hx_sub_f16x2(": COUNT, "hx_mul_f16x2(": COUNT // 2, "hx_and_or(": COUNT // 2},
    ),
    "weights in bf16": (
        mul(sub(Cast(add(nibble(2), u16(128)), dt.bf16), Y), FOURTH),
        lambda q, x: ((128 + (q >> 8 & 15)).astype(BF16) - x) * x[:, 3:4],
        {"hx_fma_bf16x2(": COUNT, "hx_and_or(": COUNT // 2, "hx_f32_to_bf16": 0},
    ),
    "weights whose zero is nothing in bf16": (
        add(Cast(nibble(1), dt.bf16), Y),
        lambda q, x: (q >> 4 & 15).astype(BF16) + x,
        {"hx_fma_bf16x2(": COUNT, "hx_and_or(": COUNT // 2},
    ),
    "products and constants of bf16": (
        sub(mul(Y, Const(-0.3, dt.bf16)), Const(0.0, dt.bf16)),
        lambda q, x: x * BF16(-0.3) - BF16(0),
        {"hx_fma_bf16x2(": COUNT},
    ),
    "too large for a difference in bf16": (
        Cast(bits(Q, "shr", i32(8)), dt.bf16),
        lambda q, x: (q >> 8).astype(BF16),
        {"hx_fma_bf16x2(": 0},
    ),
    "sums": (add(X, Const(0.5, dt.f16)), lambda q, x: x + np.float16(0.5), halved("add")),
    "bytes": (
        Cast(bits(Q, "shr", i32(8)), dt.f16),
        lambda q, x: (q >> 8).astype(np.float16),
        halved("sub"),
    ),
    "too large for a difference": (
        Cast(bits(Q, "shr", i32(4)), dt.f16),
        lambda q, x: (q >> 4).astype(np.float16),
        {"hx_sub_f16x2(": 0},
    ),
    "words": (
        bits(bits(bits(Q, "shr", i32(3)), "xor", u16(0x5A5A)), "or", u16(1)),
        lambda q, x: (q >> 3 ^ 0x5A5A) | 1,
        {"] = ": COUNT // 2},
    ),
    "turned": (
        add(at("x", sub(i32(COUNT - 1), P), dt.f16), X),
        lambda q, x: x[:, ::-1] + x,
        {"hx_add_f16x2(": 0},
    ),
}  # fmt: skip


def statements(value: Scalar) -> list[Stmt]:
    write = SetElement("h", P, value)
    return [
        DeclareArray("h", value.dtype, COUNT),
        For(P, i32(0), i32(COUNT), i32(1), (write,), unroll=True),
    ]


def moved(name: str, global_: str, dtype: DType, load: bool) -> list[Stmt]:
    out: list[Stmt] = [DeclareArray(name, dtype, COUNT)] if load else []
    for p in range(COUNT):
        regs = Regs(name, i32(p), (0,), 1, dtype)
        there = GlobalPtr(global_, add(mul(T, COUNT), p), dtype)
        operands = (regs, there, true()) if load else (there, regs, true())
        out.append(Prim("ld.global.2" if load else "st.global.2", operands))
    return out


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_single_ones(tmp_path: Path, name: str) -> None:
    value, meant, _ = CASES[name]
    kind = dt.bf16 if "bf16" in name else dt.f16
    rng = np.random.default_rng(0)
    q = rng.integers(0, 1 << 16, (THREADS, COUNT)).astype(np.uint16)
    x = (rng.normal(size=(THREADS, COUNT)) * 9).astype(NUMPY[kind])
    x[:, 5], x[:, 6], x[0, 7] = 0.0, -0.0, np.inf
    want = meant(q, x)
    got = np.zeros(THREADS * COUNT, want.dtype)
    body = [
        *moved("q", "src", dt.u16, True),
        *moved("x", "numbers", kind, True),
        *statements(value),
        *moved("h", "dst", value.dtype, False),
    ]
    arrays = {
        "src": (dt.u16, q.reshape(-1)),
        "numbers": (kind, x.reshape(-1)),
        "dst": (value.dtype, got),
    }
    run(tmp_path, body, arrays, HOST)
    got = got.reshape(THREADS, COUNT)
    if kind == dt.bf16 and want.dtype == BF16:
        assert np.array_equal(np.signbit(got), np.signbit(want))
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("name", CASES)
def test_neighbours_share_words(name: str) -> None:
    value, _, calls = CASES[name]
    kind = dt.bf16 if "bf16" in name else dt.f16
    arrays: list[Stmt] = [DeclareArray("q", dt.u16, COUNT), DeclareArray("x", kind, COUNT)]
    params = (ThreadParam("dst", dt.f16, (i32(64),), pointer=True),)
    body = (*arrays, *statements(value))
    source = emit(ThreadProgram("p", params, (i32(1),) * 3, 32, 0, body), "sm_80").text
    text = source[source.index("__global__") :]
    assert {call: text.count(call) for call in calls} == calls


def test_what_reads_its_own_array_stays_single() -> None:
    value = add(at("h", P, dt.f16), X)
    body = (DeclareArray("x", dt.f16, COUNT), *statements(value))
    params = (ThreadParam("dst", dt.f16, (i32(64),), pointer=True),)
    text = emit(ThreadProgram("p", params, (i32(1),) * 3, 32, 0, body), "sm_80").text
    assert "f16x2" not in text
