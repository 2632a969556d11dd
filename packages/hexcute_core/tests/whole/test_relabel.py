"""bitcast, reshape, transpose: the same bits in the same threads, by other coordinates."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_backend_values import THREADS, T, i32, run, true
from test_packed import values

import hexcute_core as hx
from hexcute_core import dtypes as dt
from hexcute_core import f16, f32, u4, u8, u32
from hexcute_core.arch import Fragment, Mode
from hexcute_core.arch.relabel import Turn
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError, LayoutConflict, VerifyError
from hexcute_core.scalar import mul
from hexcute_core.synthesis.proof.check import check
from hexcute_core.thread import DeclareArray, GlobalPtr, Prim, Regs
from hexcute_core.tile import Relabel
from hexcute_core.tile.visit import operations

m, n, k, p = hx.dims("m n k p")
NUMPY = {"u4": np.uint8, "u2": np.uint8, "i4": np.uint8, "u8": np.uint8, "f16": np.float16,
         "u16": np.uint16, "f32": np.float32, "u32": np.uint32, "f64": np.float64,
         "i64": np.int64}  # fmt: skip


# Layouts


@st.composite
def fragments(draw: st.DrawFn) -> Fragment:
    """A tile of powers of two, its digits dealt to threads and values in any order."""
    shape = tuple(1 << draw(st.integers(0, 3)) for _ in range(draw(st.integers(1, 3))))
    digits = [
        Mode(2, 1 << i, d) for d, extent in enumerate(shape) for i in range(extent.bit_length() - 1)
    ]
    digits = draw(st.permutations(digits))
    cut = draw(st.integers(0, len(digits)))
    thread = [*digits[:cut], *([Mode(2, 0, 0)] if draw(st.booleans()) else [])]
    return Fragment(shape, tuple(thread), tuple(digits[cut:]))


def bits_of(f: Fragment, t: int, order: tuple[int, ...], bits: int) -> list[int]:
    """The bits, row by row, that thread t holds, value by value."""
    shape = tuple(f.shape[d] for d in order)
    out = []
    for v in range(f.values):
        place = f.coord(t, v)
        number = int(np.ravel_multi_index(tuple(place[d] for d in order), shape))
        out += range(number * bits, number * bits + bits)
    return out


@settings(max_examples=150)
@given(fragments(), st.data())
def test_a_turn_keeps_every_threads_bits(f: Fragment, data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(f.shape)))))
    bits, to = (data.draw(st.sampled_from([4, 8, 16, 32])) for _ in range(2))
    total = prod(f.shape) * bits
    if total % to:
        return
    elements, shape = total // to, []
    while elements > 1:
        shape.append(1 << data.draw(st.integers(0, elements.bit_length() - 1)))
        elements //= shape[-1]
    turn = Turn(order, (bits, to), f.shape, tuple(shape) or (1,))
    g = turn.of(f)
    own = [bits_of(f, t, order, bits) for t in range(f.threads)]
    if g is None:
        # Then some thread holds a part of an element.
        assert any(len({b // to for b in held}) * to != len(held) for held in own)
        return
    natural = tuple(range(len(g.shape)))
    for t in range(f.threads):
        assert sorted(bits_of(g, t, natural, to)) == sorted(own[t])
    back = replace(turn, back=True).of(g)
    assert back is not None
    for t in range(f.threads):
        assert sorted(bits_of(back, t, order, bits)) == sorted(own[t])


# Kernels


def cast_of_bits(source: DType, target: DType) -> hx.Kernel:
    """y = the bits of x."""
    rows = 512
    before, after = rows // source.bits, rows // target.bits

    @hx.kernel(cache=False)
    def moved(x: source[m, k], y: target[m, n]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 16)
        hx.attrs.cuda.block_dim = 64
        bm = hx.blockIdx.x * 16
        r = hx.register_tensor(source, (16, before))
        hx.copy(hx.global_view(x[bm:, :], ((16, before), (k, 1))), r)
        hx.copy(hx.bitcast(r, target), hx.global_view(y[bm:, :], ((16, after), (n, 1))))

    return moved


WIDTHS = [("u4", "u8"), ("u8", "u4"), ("u4", "u32"), ("f32", "u4"), ("u2", "u16"), ("u16", "f16"),
          ("f16", "f32"), ("f32", "f16"), ("f64", "f32"), ("u32", "i64"), ("u8", "f64"),
          ("i64", "u8"), ("f32", "u32"), ("u4", "i4")]  # fmt: skip


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("names", WIDTHS, ids="-".join)
def test_bits_are_those_of_memory(names: tuple[str, str], target: str) -> None:
    kernel = cast_of_bits(*(dt.BY_NAME[name] for name in names))
    compiled = kernel.compile(target, verify=True)
    assert compiled.built.cubin and not compiled.solution.inserted
    raw = np.random.default_rng(0).integers(0, 256, (20, 64)).astype(np.uint8)
    x, y = raw.view(NUMPY[names[0]]), np.zeros_like(raw).view(NUMPY[names[1]])
    kernel.simulate(x, y, target=target, compare=True)
    np.testing.assert_array_equal(y.view(np.uint8), raw)


SHAPES = st.sampled_from(
    [((16, 32), (16, 4, 8)), ((16, 32), (512,)), ((12, 40), (12, 5, 8)), ((24, 20), (12, 40)),
     ((4, 8, 16), (32, 16)), ((64,), (8, 8))]
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.randoms(use_true_random=False), st.booleans())
def test_reshapes_and_transposes_are_numpys(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], rng: object, first: bool
) -> None:
    shape, other = shapes
    order = list(range(len(shape if first else other)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    modes = tuple(order)

    def body(a: object) -> object:
        if first:
            return hx.reshape(hx.transpose(a, *modes), other)
        return hx.transpose(hx.reshape(a, other), *modes)

    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    want = x.transpose(modes).reshape(other) if first else x.reshape(other).transpose(modes)
    result = want.shape

    def strides(extents: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(prod(extents[i + 1 :]) for i in range(len(extents)))

    @hx.kernel(cache=False)
    def turned(x: f32[shape], y: f32[result]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, shape)
        hx.copy(hx.global_view(x, (shape, strides(shape))), r)
        hx.copy(body(r), hx.global_view(y, (result, strides(result))))

    y = np.zeros(result, np.float32)
    # Where each of the rows that either side has is whole rows of the next shorter.
    before = x.transpose(modes).shape if first else shape
    ends = sorted({*strides(before), *strides(other)})
    whole = all(b % a == 0 for a, b in itertools.pairwise(ends))
    with warnings.catch_warnings():
        # Some meet in no layout that suits both copies; those are rearranged.
        warnings.simplefilter("ignore", hx.RearrangeWarning)
        try:
            assert turned.compile("sm_80", verify=True).thread
        except LayoutConflict as error:
            assert not whole and "split or join whole modes" in str(error.fix)
            return
        turned.simulate(x, y, target="sm_80", compare=True)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("dtype", [dt.u4, dt.i4, dt.u2, dt.u1], ids=str)
def test_packed_tiles_are_transposed_in_registers(dtype: DType) -> None:
    """A thread holds blocks that are whole bytes both ways."""

    @hx.kernel(cache=False)
    def turned(x: dtype[m, k], y: dtype[n, p]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(dtype, (16, 64))
        hx.copy(hx.global_view(x, ((16, 64), (k, 1))), r)
        hx.copy(hx.transpose(r), hx.global_view(y, ((64, 16), (p, 1))))

    compiled = turned.compile("sm_80", verify=True)
    assert not compiled.solution.inserted and not compiled.solution.shared
    raw = np.random.default_rng(0).integers(0, 256, (16, 8 * dtype.bits)).astype(np.uint8)
    y = np.zeros((64, 2 * dtype.bits), np.uint8)
    turned.simulate(raw, y, target="sm_80", compare=True)
    np.testing.assert_array_equal(values(y, dtype), values(raw, dtype).T)


def test_words_of_weights_are_taken_apart_where_a_product_wants_them() -> None:
    """Words of eight nibbles, low ones first, as the rows of a product's operand: nothing moves."""

    @hx.kernel(cache=False)
    def product(x: u32[m, k], b: f16[n, p], c: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r, rb = hx.register_tensor(u32, (16, 8)), hx.register_tensor(f16, (16, 64))
        hx.copy(hx.global_view(x, ((16, 8), (k, 1))), r)
        hx.copy(hx.global_view(b, ((16, 64), (p, 1))), rb)
        rc = hx.register_tensor(f32, (16, 16))
        hx.fill(rc, 0.0)
        hx.gemm(rc, hx.cast(hx.bitcast(r, u4), f16), rb)
        hx.copy(rc, hx.global_view(c, ((16, 16), (n, 1))))

    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (16, 32)).astype(np.uint8)
    b = rng.integers(-3, 4, (16, 64)).astype(np.float16)
    c = np.zeros((16, 16), np.float32)
    for target in ("sm_80", "sm_90"):
        compiled = product.compile(target, verify=True)
        assert not compiled.solution.inserted and compiled.built.cubin
        product.simulate(raw.view(np.uint32), b, c, target=target, compare=True)
        q = np.stack([raw & 15, raw >> 4], 2).reshape(16, 64)
        np.testing.assert_array_equal(c, q.astype(np.float64) @ b.astype(np.float64).T)


def test_parts_are_relabelled_as_wholes_are() -> None:
    @hx.kernel(cache=False)
    def swapped(x: u8[m, k], y: u8[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r, q = hx.register_tensor(u8, (16, 32, 2)), hx.register_tensor(u4, (16, 64, 2))
        for i in hx.static_range(2):
            hx.copy(hx.global_view(x[:, 32 * i :], ((16, 32), (k, 1))), r[:, :, i])
            q[:, :, i] = hx.bitcast(r[:, :, i], u4)
        for i in hx.static_range(2):
            part = hx.bitcast(q[:, :, 1 - i], u8)
            hx.copy(part, hx.global_view(y[:, 32 * i :], ((16, 32), (k, 1))))

    x = np.random.default_rng(0).integers(0, 256, (16, 64)).astype(np.uint8)
    y = np.zeros_like(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hx.RearrangeWarning)
        swapped.simulate(x, y, target="sm_80", compare=True)
    np.testing.assert_array_equal(y, np.roll(x, 32, 1))


def test_what_needs_other_threads_is_rearranged_and_says_what_it_costs() -> None:
    @hx.kernel(cache=False)
    def symmetric(x: f16[m, m], y: f16[m, m]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f16, (32, 32))
        hx.copy(hx.global_view(x, ((32, 32), (m, 1))), r)
        hx.copy(r + hx.transpose(r), hx.global_view(y, ((32, 32), (m, 1))))

    x = np.random.default_rng(0).integers(-4, 5, (32, 32)).astype(np.float16)
    y = np.zeros_like(x)
    with pytest.warns(hx.RearrangeWarning, match="2048 bytes through shared memory, est. 100 cl"):
        symmetric.simulate(x, y, target="sm_80", compare=True)
    np.testing.assert_array_equal(y, x + x.T)


def test_modes_that_share_no_factors_are_refused() -> None:
    @hx.kernel(cache=False)
    def odd(x: f32[7, 9], y: f32[9, 7]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (7, 9))
        hx.copy(hx.global_view(x, ((7, 9), (9, 1))), r)
        hx.copy(hx.reshape(r, (9, 7)), hx.global_view(y, ((9, 7), (7, 1))))

    with pytest.raises(LayoutConflict, match="does not leave every thread whole") as caught:
        assert odd.compile("sm_80").solution
    assert caught.value.fix == (
        "split or join whole modes, as (12, 40) to (12, 4, 10), or store the tile and "
        "read it in the other shape"
    )


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("hx.bitcast(r, 8)", "expects an element type", "write hx.bitcast(x, u4)"),
        ("hx.bitcast(r, hx.boolean)", "the bits of bool", "cast to an integer or a float first"),
        ("hx.bitcast(r, hx.f64)", "no whole elements", "make the last mode a multiple of 4"),
        ("hx.reshape(r, (16, 5))", "hx.reshape of", "positive extents whose product is 96"),
        ("hx.reshape(r, (16, -1))", "hx.reshape of", "positive extents whose product is 96"),
        ("hx.transpose(r, 0, 0)", "by 0, 0", "name each of the modes 0 to 1 once"),
        ("hx.transpose(r, 1)", "by 1", "name each of the modes 0 to 1 once"),
        ("hx.transpose(x, 0, 0)", "by 0, 0", "name each of the modes 0 to 1 once"),
        ("hx.transpose(y)", "hx.transpose", "hx.copy(tile, registers)"),
    ],
)
def test_refused_at_its_line(tmp_path: Path, text: str, message: str, fix: str) -> None:
    source = (
        "import hexcute_core as hx\n\n\n@hx.kernel(cache=False)\ndef refused(a: hx.f16[16, 6]):\n"
        "    hx.attrs.cuda.grid_dim = 1\n    hx.attrs.cuda.block_dim = 32\n"
        "    r = hx.register_tensor(hx.f16, (16, 6))\n"
        "    x, y = hx.shared_tensor(hx.f16, (16, 6)), hx.global_view(a, ((16, 6), (6, 1)))\n"
        "    hx.fill(r, 0.0)\n"
        f"    t = {text}\n"
    )
    path = tmp_path / "refused.py"
    path.write_text(source)
    scope: dict[str, object] = {"__name__": "refused"}
    exec(compile(source, str(path), "exec"), scope)
    with pytest.raises(FrontendError) as caught:
        assert scope["refused"].compile("sm_80").tile  # type: ignore[attr-defined]
    assert message in caught.value.message and fix in str(caught.value.fix)
    assert caught.value.span is not None and caught.value.span.line == 11


# The proof, and the machine


def test_a_layout_that_holds_other_bits_is_not_proved() -> None:
    solution = cast_of_bits(u8, u4).compile("sm_80").solution
    check(solution)
    (op,) = (o for o in operations(solution.program.body) if isinstance(o, Relabel))
    f = solution.fragments[op.dst.tensor]
    assert len(f.thread) > 1
    turned = replace(f, thread=tuple(reversed(f.thread)))
    fragments = {**solution.fragments, op.dst.tensor: turned}
    with pytest.raises(VerifyError, match="needs bits"):
        check(replace(solution, fragments=fragments))


MOVES = """
template <class D, class S> static void one(D& d, S s) { d = bits<D>(s); }
template <class S> static void joined(double& d, S a, S b) {
  d = bits<double>(bits<unsigned>(a) | (unsigned long long)bits<unsigned>(b) << 32);
}
template <class D> static void parted(D& a, D& b, double s) {
  unsigned long long u = bits<unsigned long long>(s);
  a = bits<D>((unsigned)u); b = bits<D>((unsigned)(u >> 32));
}
#define hx_mov_uint32_uint32 one
#define hx_mov_float32_uint32 one
#define hx_mov_uint32_float32 one
#define hx_mov_float64_uint32 joined
#define hx_mov_float64_float32 joined
#define hx_mov_uint32_float64 parted
#define hx_mov_float32_float64 parted
"""
"""What `mov.b32` and `mov.b64` do."""


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.permutations(("u4", "f16", "f32", "f64"), 2))
)
def test_registers_hold_the_bits(tmp_path: Path, source: str, target: str) -> None:
    of, to = dt.BY_NAME[source], dt.BY_NAME[target]
    counts = [64 // of.bits, 64 // to.bits]
    wide = {4: "ld.global.4", 16: "ld.global.4", 32: "ld.global.4", 64: "ld.global.8"}
    body = [DeclareArray("a", of, counts[0]), DeclareArray("b", to, counts[1])]
    for name, dtype, count, array, load in (("a", of, counts[0], "x", True),
                                            ("b", to, counts[1], "y", False)):  # fmt: skip
        step = max(1, 32 // dtype.bits)
        if not load:
            regs = [Regs(n, i32(0), (0,), c, d)
                    for n, c, d in (("b", counts[1], to), ("a", counts[0], of))]  # fmt: skip
            body.append(Prim("mov.8", tuple(regs)))
        for i in range(0, count, step):
            there = GlobalPtr(array, mul(T, count) + i32(i), dtype)
            held = Regs(name, i32(i), (0,), step, dtype)
            prim = wide[dtype.bits] if load else wide[dtype.bits].replace("ld", "st")
            body.append(Prim(prim, (held, there, true()) if load else (there, held, true())))
    raw = np.random.default_rng(0).integers(0, 256, (THREADS, 8)).astype(np.uint8)
    out = np.zeros_like(raw)
    run(tmp_path, body, {"x": (of, raw), "y": (to, out)}, MOVES)
    np.testing.assert_array_equal(out, raw)
