"""Narrow elements as f16 and bf16: every bit pattern at every place, two at a time and alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from machine_code import opcodes_of
from test_backend_values import NUMPY, THREADS, T, i32, run, true
from test_packed import values

import hexcute_core as hx
from hexcute_core import dtypes as dt
from hexcute_core.arch.conversions import CONVERSIONS, conversion
from hexcute_core.backend import emit
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError
from hexcute_core.scalar import Binary, Cast, Const, Element, Scalar, Var, add, mul
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

ml_dtypes = pytest.importorskip("ml_dtypes")

HOST = """
static unsigned hx_prmt(unsigned a, unsigned b, unsigned s) {
  unsigned long long both = a | (unsigned long long)b << 32;
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) d |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return d;
}
static unsigned hx_and_xor(unsigned a, unsigned b, unsigned c) { return (a & b) ^ c; }
static double hx_wide(h16 x, bool brain) {
  return brain ? bits<float>((unsigned)x << 16) : hx_f16_to_f32(x);
}
static h16 hx_fma(h16 a, h16 b, h16 c, bool brain) {
  float exact = (float)(hx_wide(a, brain) * hx_wide(b, brain) + hx_wide(c, brain));
  return brain ? hx_f32_to_bf16(exact) : hx_f32_to_f16(exact);
}
static unsigned hx_fmas(unsigned a, unsigned b, unsigned c, bool brain) {
  return hx_fma(a, b, c, brain) | (unsigned)hx_fma(a >> 16, b >> 16, c >> 16, brain) << 16;
}
static unsigned hx_fma_f16x2(unsigned a, unsigned b, unsigned c) { return hx_fmas(a, b, c, false); }
static unsigned hx_fma_bf16x2(unsigned a, unsigned b, unsigned c) { return hx_fmas(a, b, c, true); }
static unsigned hx_sub_f16x2(unsigned a, unsigned b) {
  return hx_sub_f16(a, b) | (unsigned)hx_sub_f16(a >> 16, b >> 16) << 16;
}
static unsigned hx_mul_f16x2(unsigned a, unsigned b) {
  return hx_mul_f16(a, b) | (unsigned)hx_mul_f16(a >> 16, b >> 16) << 16;
}
static h16 hx_of_f8(unsigned b, int fraction, int bias) {
  unsigned e = b >> fraction & ((1 << (7 - fraction)) - 1), m = b & ((1 << fraction) - 1);
  bool last = e == (1u << (7 - fraction)) - 1;
  double x = e ? ldexp(1 + m / (double)(1 << fraction), e - bias) : ldexp(m, 1 - bias - fraction);
  if (fraction == 2 && last) x = m ? NAN : INFINITY;
  if (fraction == 3 && last && m == 7) x = NAN;
  return hx_f32_to_f16(b & 128 ? -x : x);
}
static unsigned hx_f8e4m3_to_f16(h16 p) {
  return hx_of_f8(p & 255, 3, 7) | (unsigned)hx_of_f8(p >> 8, 3, 7) << 16;
}
static unsigned hx_f8e5m2_to_f16(h16 p) {
  return hx_of_f8(p & 255, 2, 15) | (unsigned)hx_of_f8(p >> 8, 2, 15) << 16;
}
"""
"""What the host has for one instruction on both halves."""
SOURCES = (dt.u4, dt.i4, dt.u2, dt.i2, dt.u1, dt.i1, dt.u8, dt.i8, dt.f8e4m3, dt.f8e5m2)
TARGETS = (dt.f16, dt.bf16)
WORDS = 4
# Each byte value at each place of a word.
BYTES = np.array([[(w + 67 * p) % 256 for p in range(4)] for w in range(256)], np.uint8)
P = Var("i")


def numbers(raw: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.is_float:
        kind = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}[dtype.name]
        return raw.view(kind).astype(np.float32)
    return values(raw, dtype)


def half_apart(i: int, count: int) -> int:
    """Neighbours from different words."""
    return i // 2 + i % 2 * (count // 2)


def sixteen_bits_apart(i: int, count: int, bits: int) -> int:
    """Neighbours whose bits are where those of halves are."""
    per, block = 16 // bits, 32 // bits
    return i // block * block + i % block // 2 + i % 2 * per


ORDERS: dict[str, Callable[[int, int, int], int]] = {
    "in order": lambda i, count, bits: i,
    "turned": lambda i, count, bits: count - 1 - i,
    "half apart": lambda i, count, bits: half_apart(i, count),
    "16 bits apart": sixteen_bits_apart,
}


# Of integers the text is the same for every GPU.
CASES = [
    (source, to, target)
    for source in SOURCES
    for to in TARGETS
    for target in ("sm_80", *(["sm_90"] if source.is_float else []))
]


def converted(
    tmp_path: Path, source: DType, to: DType, target: str, *writes: list[Stmt]
) -> list[np.ndarray]:
    """What each of `writes` leaves in h, of `to`, from the elements of q; a row a thread."""
    count = WORDS * 32 // source.bits
    body: list[Stmt] = [DeclareArray("q", source, count), DeclareArray("h", to, count)]
    per = 32 // source.bits
    for w in range(WORDS):
        there = GlobalPtr("src", add(mul(T, count), w * per), source)
        regs = Regs("q", i32(w * per), (0,), per, source)
        body.append(Prim("ld.global.4", (regs, there, true())))
    arrays = {"src": (source, BYTES)}
    for n, some in enumerate(writes):
        body += some
        arrays[f"dst{n}"] = to, np.zeros((THREADS, count), NUMPY[to])
        for p in range(count):
            there = GlobalPtr(f"dst{n}", add(mul(T, count), p), to)
            body.append(Prim("st.global.2", (there, Regs("h", i32(p), (0,), 1, to), true())))
    run(tmp_path, body, arrays, HOST, target)
    return [array for _, array in list(arrays.values())[1:]]


def element(index: int | Scalar, dtype: DType) -> Scalar:
    return Element("q", (i32(index) if isinstance(index, int) else index,), dtype)


@pytest.mark.parametrize(("source", "to", "target"), CASES, ids=str)
def test_every_pattern_is_exact(tmp_path: Path, source: DType, to: DType, target: str) -> None:
    """In pairs of any order, and in a loop that stays one, where neighbours are not seen."""
    count = WORDS * 32 // source.bits
    orders = [[find(i, count, source.bits) for i in range(count)] for find in ORDERS.values()]
    assert all(sorted(places) == list(range(count)) for places in orders)
    writes: list[list[Stmt]] = [
        [SetElement("h", i32(i), Cast(element(p, source), to)) for i, p in enumerate(places)]
        for places in orders
    ]
    single = SetElement("h", P, Cast(element(P, source), to))
    writes.append([For(P, i32(0), i32(count), i32(1), (single,))])
    found = converted(tmp_path, source, to, target, *writes)
    want = numbers(BYTES.reshape(THREADS, -1), source)
    for places, got in zip((*orders, list(range(count))), found, strict=True):
        np.testing.assert_array_equal(got.astype(np.float32), want[:, places])


@pytest.mark.parametrize("to", TARGETS, ids=str)
@pytest.mark.parametrize(("shift", "mask"), [(0, 15), (4, 15), (2, 7), (3, 1), (0, 127), (1, 63)])
def test_bits_cut_out_of_bytes_are_fields(tmp_path: Path, to: DType, shift: int, mask: int) -> None:
    count = WORDS * 4

    def part(i: int) -> Scalar:
        moved = Binary("shr", element(i, dt.u8), i32(shift), dt.u8) if shift else element(i, dt.u8)
        return Cast(Binary("and", moved, Const(mask, dt.u8), dt.u8), to)

    writes = [SetElement("h", i32(i), part(i)) for i in range(count)]
    text = emitted(writes, dt.u8, to, count)
    assert text.count("hx_and_xor(") == count // 2
    (got,) = converted(tmp_path, dt.u8, to, "sm_80", writes)
    want = BYTES.reshape(THREADS, -1) >> shift & mask
    np.testing.assert_array_equal(got.astype(np.float32), want)


def emitted(writes: list[Stmt], source: DType, to: DType, count: int) -> str:
    body = (DeclareArray("q", source, count), DeclareArray("h", to, count), *writes)
    params = (ThreadParam("dst", to, (i32(64),), pointer=True),)
    source_ = emit(ThreadProgram("p", params, (i32(1),) * 3, 32, 0, body), "sm_80").text
    return source_[source_.index("__global__") :]


def test_sixteen_bits_apart_need_no_permutation() -> None:
    writes = [
        SetElement("h", i32(i), Cast(element(sixteen_bits_apart(i, 32, 4), dt.u4), dt.f16))
        for i in range(32)
    ]
    text = emitted(writes, dt.u4, dt.f16, 32)
    # Of the pairs in a word, those of the lower bytes are in place.
    assert (text.count("hx_and_xor("), text.count("hx_prmt(")) == (16, 8)


m, k = hx.dims("m k")


def cast_kernel(source: DType, to: DType) -> hx.Kernel:
    @hx.kernel(cache=False)
    def widen(x: source[m, k], y: to[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(source, (16, 64))
        hx.copy(hx.global_view(x, ((16, 64), (k, 1))), r)
        hx.copy(hx.cast(r, to), hx.global_view(y, ((16, 64), (k, 1))))

    return widen


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("to", TARGETS, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_casts_are_priced_and_made_as_the_table_says(source: DType, to: DType, target: str) -> None:
    """No unit for conversions but where the table names its instruction."""
    compiled = cast_kernel(source, to).compile(target)
    capability = {"sm_80": (8, 0), "sm_90": (9, 0)}[target]
    way = conversion(capability, source, to)
    assert way is not None
    # Half of 32 values a thread, at a quarter of a clock an operation.
    (line,) = (s for s in compiled.explain(rejected=0).splitlines() if " cast cast" in s)
    assert f"{way.name} x16" in line and line.split()[-1] == str(way.simple * 4)
    codes = Counter(op.split(".")[0] for op in opcodes_of(compiled.sass()))
    assert not {"I2F", "I2FP", "F2F", "I2I"} & set(codes), codes
    if source.bits < 8:
        assert codes["LOP3"] >= 16 and codes["HFMA2"] == 16 and codes["PRMT"] >= 4
    elif source.is_integer:
        assert codes["PRMT"] >= 16 and codes["HADD2"] + codes["FADD"] >= 16
    if "cvt" not in way.name:
        assert "F2FP" not in codes


def test_every_way_is_the_cheapest_of_some_gpu() -> None:
    found = {
        conversion(since, source, to)
        for since in ((8, 0), (8, 9))
        for source in SOURCES
        for to in TARGETS
    }
    assert found == set(CONVERSIONS)


def test_casts_to_8_bit_floats_are_refused_before_sm_89() -> None:
    with pytest.raises(FrontendError, match="no conversion from wider floats to f8e4m3"):
        assert cast_kernel(dt.f16, dt.f8e4m3).compile("sm_80").tile
