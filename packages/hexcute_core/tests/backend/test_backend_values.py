"""The emitted C++ computes what numpy computes: one thread's code run on the host.

The text is compiled by the host's compiler; the one-instruction functions, which the host cannot
assemble, are replaced by their meaning written out in C++. Packing, conversions, operators and
loops are the generator's own text.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.backend import emit
from hexcute_core.dtypes import DType
from hexcute_core.errors import MissingDependency
from hexcute_core.scalar import (
    Binary,
    Cast,
    Compare,
    Const,
    Element,
    Scalar,
    Select,
    Unary,
    Var,
    add,
    mul,
    sub,
)
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
    ThreadParam,
    ThreadProgram,
    While,
)

ml_dtypes = pytest.importorskip("ml_dtypes")

GXX = shutil.which("g++")
THREADS = 64
NUMPY: dict[DType, Any] = {
    dt.f16: np.float16, dt.bf16: ml_dtypes.bfloat16, dt.f32: np.float32, dt.f64: np.float64,
    dt.i8: np.int8, dt.u8: np.uint8, dt.i16: np.int16, dt.u16: np.uint16, dt.i32: np.int32,
    dt.u32: np.uint32, dt.i64: np.int64, dt.u64: np.uint64,
}  # fmt: skip
T = Var("threadIdx.x")

PRELUDE = """
#include <cmath>
#include <cstring>
#include <algorithm>
#include <limits>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __syncthreads()
using std::min; using std::max;
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
template <class T, class S> static T bits(S s) { T t; memcpy(&t, &s, sizeof t); return t; }
static float __uint_as_float(unsigned u) { return bits<float>(u); }
static unsigned __float_as_uint(float f) { return bits<unsigned>(f); }
static float __int_as_float(int i) { return bits<float>(i); }
typedef unsigned short h16;
static float hx_f16_to_f32(h16 h) { return (float)bits<_Float16>(h); }
static h16 hx_f32_to_f16(float f) { return bits<h16>((_Float16)f); }
static h16 hx_f32_to_bf16(float f) {
  unsigned u = bits<unsigned>(f);
  return f != f ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
static unsigned hx_f32_to_f16x2(float up, float low) {
  return hx_f32_to_f16(low) | (unsigned)hx_f32_to_f16(up) << 16;
}
static unsigned hx_f32_to_bf16x2(float up, float low) {
  return hx_f32_to_bf16(low) | (unsigned)hx_f32_to_bf16(up) << 16;
}
static h16 hx_add_f16(h16 a, h16 b) { return hx_f32_to_f16(hx_f16_to_f32(a) + hx_f16_to_f32(b)); }
static h16 hx_sub_f16(h16 a, h16 b) { return hx_f32_to_f16(hx_f16_to_f32(a) - hx_f16_to_f32(b)); }
static h16 hx_mul_f16(h16 a, h16 b) { return hx_f32_to_f16(hx_f16_to_f32(a) * hx_f16_to_f32(b)); }
static h16 hx_max_f16(h16 a, h16 b) { return hx_f16_to_f32(a) > hx_f16_to_f32(b) ? a : b; }
static h16 hx_min_bf16(h16 a, h16 b) {
  return bits<float>(a << 16) < bits<float>(b << 16) ? a : b;
}
template <class T, class F> static T whole(F x) {
  if (x != x) return 0;
  if (x <= (F)std::numeric_limits<T>::min()) return std::numeric_limits<T>::min();
  if (x >= (F)std::numeric_limits<T>::max()) return std::numeric_limits<T>::max();
  return (T)x;
}
static int hx_f32_to_i32(float x) { return whole<int>(x); }
static unsigned hx_f32_to_u32(float x) { return whole<unsigned>(x); }
static long long hx_f32_to_i64(float x) { return whole<long long>(x); }
static unsigned long long hx_f32_to_u64(float x) { return whole<unsigned long long>(x); }
static int hx_f64_to_i32(double x) { return whole<int>(x); }
static unsigned hx_f64_to_u32(double x) { return whole<unsigned>(x); }
static long long hx_f64_to_i64(double x) { return whole<long long>(x); }
static unsigned long long hx_f64_to_u64(double x) { return whole<unsigned long long>(x); }
static float hx_exp2(float x) { return exp2f(x); }
static float hx_log2(float x) { return log2f(x); }
static float hx_rsqrt(float x) { return 1 / sqrtf(x); }
static float hx_sqrt(float x) { return sqrtf(x); }
static float hx_rcp(float x) { return 1 / x; }
static float hx_div(float a, float b) { return a / b; }
template <class W> static void hx_load(W& d, void* p, int n) { d = 0; memcpy(&d, p, n); }
template <class W> static void hx_store(void* p, W s, int n) { memcpy(p, &s, n); }
#define MEMORY(N, W, T) \\
  static void hx_ld_global_##N##_##T(W& d, void* p) { hx_load(d, p, N); } \\
  static void hx_st_global_##N##_##T(void* p, W s) { hx_store(p, s, N); } \\
  static void hx_st_global_##N##_##T##_if(void* p, W s, bool ok) { if (ok) hx_store(p, s, N); }
MEMORY(1, unsigned, uint32) MEMORY(2, unsigned, uint32) MEMORY(4, unsigned, uint32)
MEMORY(4, int, int32) MEMORY(4, float, float32) MEMORY(8, double, float64)
MEMORY(8, long long, int64) MEMORY(8, unsigned long long, uint64)
static void hx_ld_global_8_uint32(unsigned& a, unsigned& b, void* p) {
  memcpy(&a, p, 4); memcpy(&b, (char*)p + 4, 4);
}
static void hx_st_global_8_uint32(void* p, unsigned a, unsigned b) {
  memcpy(p, &a, 4); memcpy((char*)p + 4, &b, 4);
}
static void hx_st_global_8_int32(void* p, int a, int b) {
  memcpy(p, &a, 4); memcpy((char*)p + 4, &b, 4);
}
"""


def i32(value: int) -> Const:
    return Const(value, dt.i32)


def true() -> Const:
    return Const(True, dt.boolean)


def run(
    tmp_path: Path, body: list[Stmt], arrays: dict[str, Any], host: str = "", target: str = "sm_80"
) -> None:
    """Runs `body` for every thread on the host, on the arrays in place; `host` is more C++."""
    if GXX is None:
        pytest.skip("no host C++ compiler")
    params = tuple(
        ThreadParam(name, d, (i32(len(a)),), pointer=True) for name, (d, a) in arrays.items()
    )
    program = ThreadProgram("host", params, (i32(1),) * 3, THREADS, 0, tuple(body))
    try:
        source = emit(program, target)
    except MissingDependency as error:
        pytest.skip(str(error))
    # What is one instruction the host cannot assemble.
    function = re.compile(r"static __device__ .*?\n}\n", re.S)
    text = function.sub(lambda f: "" if "asm" in f[0] else f[0], source.text)
    signature = re.search(rf"{source.entry}\((.*?)\)", text)
    assert signature is not None
    kinds = [part.rsplit("* __restrict__", 1)[0].strip() for part in signature[1].split(",")]
    args = ", ".join(f"({kind}*)p[{i}]" for i, kind in enumerate(kinds))
    driver = (
        f'extern "C" void drive(void** p) {{ for (unsigned t = 0; t < {THREADS}; ++t) '
        f"{{ threadIdx.x = t; {source.entry}({args}); }} }}\n"
    )
    (tmp_path / "k.cpp").write_text(PRELUDE + host + text + driver)
    subprocess.run(
        [GXX, "-std=c++17", "-O1", "-w", "-fno-strict-aliasing", "-shared", "-fPIC",
         "-o", str(tmp_path / "k.so"), str(tmp_path / "k.cpp")],
        check=True, timeout=120,
    )  # fmt: skip
    drive = ctypes.CDLL(str(tmp_path / "k.so")).drive
    drive((ctypes.c_void_p * len(params))(*(a.ctypes.data for _, a in arrays.values())))


@dataclass(frozen=True)
class Case:
    """`expr` over variables a and b of type `source`, wanted in `target`."""

    name: str
    source: DType
    target: DType
    expr: Any
    wanted: Any
    rtol: float = 0.0


def _case(name: str, t: DType, expr: Any, wanted: Any, to: DType | None = None, rtol: float = 0):
    return Case(f"{name}_{t}", t, to or t, expr, wanted, rtol)


def _cases() -> list[Case]:
    out = []
    for t in (dt.f16, dt.bf16, dt.f32, dt.f64):
        for op, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            out.append(_case(op, t, lambda a, b, op=op, t=t: Binary(op, a, b, t), f))
        out.append(_case("neg", t, lambda a, b, t=t: Unary("neg", a, t), lambda a, b: -a))
        out.append(_case("abs", t, lambda a, b, t=t: Unary("abs", a, t), lambda a, b: np.abs(a)))
        # In f32 exp(x) is exp2 of the rounded x * log2(e): its error grows with x.
        close = {dt.f16: 1e-3, dt.bf16: 8e-3, dt.f32: 4e-6, dt.f64: 1e-12}[t]
        for op, f in (("exp", np.exp), ("tanh", np.tanh), ("floor", np.floor)):
            out.append(
                _case(op, t, lambda a, b, op=op, t=t: Unary(op, a, t),
                      lambda a, b, f=f: f(a.astype(np.float64)), rtol=close)
            )  # fmt: skip
        out.append(
            _case("div", t, lambda a, b, t=t: Binary("div", a, b, t),
                  lambda a, b: a.astype(np.float64) / b.astype(np.float64), rtol=close)
        )  # fmt: skip
        out.append(
            _case("lt", t, lambda a, b, t=t: Select(Compare("lt", a, b), a, b, t), np.minimum)
        )
    out.append(_case("max", dt.f16, lambda a, b: Binary("max", a, b, dt.f16), np.maximum))
    out.append(_case("min", dt.bf16, lambda a, b: Binary("min", a, b, dt.bf16), np.minimum))
    integers = (dt.i8, dt.u8, dt.i16, dt.u16, dt.i32, dt.u32, dt.i64, dt.u64)
    for t in integers:
        for op, f in (
            ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("xor", np.bitwise_xor),
            ("min", np.minimum), ("max", np.maximum),
        ):  # fmt: skip
            out.append(_case(op, t, lambda a, b, op=op, t=t: Binary(op, a, b, t), f))
        out.append(_case("inv", t, lambda a, b, t=t: Unary("inv", a, t), lambda a, b: ~a))
        shift = Const(3, t)
        out.append(
            _case("shl", t, lambda a, b, t=t, s=shift: Binary("shl", a, s, t), lambda a, b: a << 3)
        )
        out.append(
            _case("shr", t, lambda a, b, t=t, s=shift: Binary("shr", a, s, t), lambda a, b: a >> 3)
        )
    for s in NUMPY:
        for t in NUMPY:
            if s != t:
                out.append(
                    _case(f"to_{t}", s, lambda a, b, t=t: Cast(a, t),
                          lambda a, b, s=s, t=t: _converted(a, s, t), to=t)
                )  # fmt: skip
    return out


def _converted(a: np.ndarray, s: DType, t: DType) -> np.ndarray:
    """Floats to integers truncate and saturate; integers wrap."""
    if t.is_float:
        # f64 and integers reach the narrow floats through f32.
        return a.astype(np.float64).astype(np.float32 if t.bits <= 32 else np.float64)
    if s.is_float:
        a = np.trunc(a.astype(np.float64)).astype(np.int64)
        # The inputs are small: no limit of a 64-bit type is near.
        info = np.iinfo(NUMPY[t])
        a = np.clip(a, info.min, min(info.max, 2**62))
    return a.astype(NUMPY[t])


def _inputs(t: DType, rng: np.random.Generator) -> np.ndarray:
    if t.is_float:
        values = rng.uniform(-30, 30, THREADS)
        values[:4] = (1, -1, 0.5, -2.5)
        return values.astype(NUMPY[t])
    # Small enough that a narrow float holds them without overflow, wide enough to wrap bytes.
    low = -60 if t.kind == "int" else 0
    return rng.integers(low, 120, THREADS).astype(NUMPY[t])


def test_operators_and_conversions(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    arrays: dict[str, tuple[DType, np.ndarray]] = {}
    body: list[Stmt] = []
    for t in NUMPY:
        for name in ("a", "b"):
            arrays[f"{name}_{t}"] = (t, _inputs(t, rng))
            array = f"r{name}_{t}"
            body.append(DeclareArray(array, t, 1))
            regs = Regs(array, i32(0), (0,), 1, t)
            body.append(
                Prim(f"ld.global.{t.bits // 8}", (regs, GlobalPtr(f"{name}_{t}", T, t), true()))
            )
    cases = _cases()
    for k, case in enumerate(cases):
        a, b = (Element(f"r{n}_{case.source}", (i32(0),), case.source) for n in "ab")
        out = f"o{k}"
        arrays[out] = (case.target, np.zeros(THREADS, NUMPY[case.target]))
        body.append(DeclareArray(out + "r", case.target, 1))
        body.append(SetElement(out + "r", i32(0), case.expr(a, b)))
        size = case.target.bits // 8
        regs = Regs(out + "r", i32(0), (0,), 1, case.target)
        body.append(Prim(f"st.global.{size}", (GlobalPtr(out, T, case.target), regs, true())))
    run(tmp_path, body, arrays)
    for k, case in enumerate(cases):
        a, b = (arrays[f"{n}_{case.source}"][1] for n in "ab")
        with np.errstate(all="ignore"):
            wanted = np.asarray(case.wanted(a, b)).astype(NUMPY[case.target])
        got = arrays[f"o{k}"][1]
        if case.rtol:
            got, wanted = got.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(got, wanted, rtol=case.rtol, err_msg=case.name)
        else:
            np.testing.assert_array_equal(got, wanted, err_msg=case.name)


@pytest.mark.parametrize("t", [dt.f16, dt.i8, dt.u8, dt.i4, dt.u4, dt.i2, dt.u2, dt.i1, dt.u1])
def test_packed_arrays_hold_every_element(tmp_path: Path, t: DType) -> None:
    """Elements written in an order of their own come back, neighbours untouched."""
    size, i = 24, Var("i")
    value = sub(mul(Var("j"), 5), 7)
    body: list[Stmt] = [
        DeclareArray("packed", t, size),
        DeclareArray("whole", dt.i32, size),
        For(i, i32(0), i32(size), i32(1), (SetElement("packed", i, Cast(i, t)),)),
        For(i, i32(0), i32(size), i32(1), (
            Assign(Var("j"), Binary("mod", mul(i, 7), i32(size), dt.i32), True),
            SetElement("packed", Var("j"), Cast(value, t)),
        ), unroll=True),
        For(i, i32(0), i32(size), i32(1), (
            SetElement("whole", i, Cast(Element("packed", (i,), t), dt.i32)),
        )),
        *(
            Prim("st.global.4", (
                GlobalPtr("out", add(mul(T, size), k), dt.i32),
                Regs("whole", i32(0), (k,), 1, dt.i32), true(),
            ))
            for k in range(size)
        ),
    ]  # fmt: skip
    out = np.zeros((THREADS, size), np.int32)
    run(tmp_path, body, {"out": (dt.i32, out)})
    values = np.arange(size) * 5 - 7
    if t == dt.f16:
        wanted = values
    elif t.kind == "uint":
        wanted = values % 2**t.bits
    else:
        wanted = (values + 2 ** (t.bits - 1)) % 2**t.bits - 2 ** (t.bits - 1)
    np.testing.assert_array_equal(out, np.broadcast_to(wanted, out.shape))


def test_accesses_narrower_than_a_word(tmp_path: Path) -> None:
    """Pieces that do not fill words are gathered and scattered element by element."""
    t = dt.f16
    body: list[Stmt] = [
        DeclareArray("x", t, 8),
        *(
            Prim("ld.global.2", (
                Regs("x", i32(k), (0,), 1, t), GlobalPtr("a", add(mul(T, 4), k), t), true(),
            ))
            for k in range(4)
        ),
        # The halves of one 8-byte store lie apart, in no word of their own.
        Prim("st.global.8", (
            GlobalPtr("b", mul(T, 4), t), Regs("x", i32(0), (3, 1, 0, 2), 1, t), true(),
        )),
    ]  # fmt: skip
    a = np.arange(THREADS * 4).reshape(-1, 4).astype(np.float16)
    b = np.zeros_like(a)
    run(tmp_path, body, {"a": (t, a), "b": (t, b)})
    np.testing.assert_array_equal(b, a[:, [3, 1, 0, 2]])


def test_control_flow(tmp_path: Path) -> None:
    """Loops with start and step, an empty range, while, if and scopes."""
    i, s = Var("i"), Var("s")

    def bump(e: Scalar) -> Assign:
        return Assign(s, add(s, e), declares=False)

    body: list[Stmt] = [
        Assign(s, i32(0), declares=True),
        For(i, i32(3), T, i32(4), (bump(i),)),
        For(i, i32(5), i32(2), i32(1), (bump(i32(1000)),)),
        For(i, i32(10), i32(30), i32(7), (bump(i),), unroll=True),
        Assign(Var("w"), i32(100), declares=True),
        While(Compare("gt", Var("w"), T), (
            Assign(Var("w"), sub(Var("w"), 9), declares=False),
            bump(i32(1)),
        )),
        If(Compare("lt", T, i32(20)), (bump(i32(-500)),), (bump(i32(500)),)),
        DeclareArray("out", dt.i32, 1),
        SetElement("out", i32(0), s),
        Prim("st.global.4", (
            GlobalPtr("o", T, dt.i32), Regs("out", i32(0), (0,), 1, dt.i32),
            Compare("ne", T, i32(13)),
        )),
    ]  # fmt: skip
    out = np.full(THREADS, -1, np.int32)
    run(tmp_path, body, {"o": (dt.i32, out)})
    for t in range(THREADS):
        w, count = 100, 0
        while w > t:
            w, count = w - 9, count + 1
        wanted = sum(range(3, t, 4)) + sum(range(10, 30, 7)) + count
        wanted += -500 if t < 20 else 500
        assert out[t] == (-1 if t == 13 else wanted), t
