"""Tensors of elements narrower than a byte: bits that come and go unchanged, and what is refused.

Rows are whole bytes, the first element in the lowest bits; arguments are uint8 or int32 arrays.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hexcute_core as hx
from hexcute_core import dtypes as dt
from hexcute_core import f16, f32, i32, u4
from hexcute_core.driver.simulation import make_arguments
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError, HexcuteError, LaunchError, NoLayout
from hexcute_core.runtime import Signature, SymbolParam, TensorParam, bind, default_divisors
from hexcute_core.runtime.signature import packed_divisors
from hexcute_core.runtime.tensor_maps import map_of
from hexcute_core.scalar import Cast, Const, Var
from hexcute_core.simulator import simulate
from hexcute_core.simulator.findings import FoundError
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    Prim,
    Regs,
    SetElement,
    TensorMap,
    ThreadParam,
    ThreadProgram,
)

PACKED = (dt.u4, dt.i4, dt.u2, dt.i2, dt.u1, dt.i1)
WORDS = (np.uint8, np.int32)
m, k = hx.dims("m k")


def values(raw: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements that rows of bytes hold."""
    bits = np.unpackbits(raw, axis=1, bitorder="little").reshape(len(raw), -1, dtype.bits)
    found = (bits * (1 << np.arange(dtype.bits))).sum(axis=2).astype(np.int64)
    if dtype.kind == "int":
        found -= (found >> (dtype.bits - 1)) << dtype.bits
    return found


def random_bytes(seed: int, rows: int, elements: int, dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, elements * dtype.bits // 8)).astype(np.uint8)


def round_trip(dtype: DType, staged: bool) -> hx.Kernel:
    """y = x as bits and z = x as numbers, by way of registers and, if `staged`, shared memory."""

    @hx.kernel(cache=False)
    def trip(x: dtype[m, k], y: dtype[m, k], z: f16[m, k]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 16), hx.cdiv(k, 64)
        hx.attrs.cuda.block_dim = 64
        bm, bk = hx.blockIdx.x * 16, hx.blockIdx.y * 64
        gx = hx.global_view(x[bm:, bk:], ((16, 64), (k, 1)))
        r = hx.register_tensor(dtype, (16, 64))
        if staged:
            s = hx.shared_tensor(dtype, (16, 64))
            hx.copy(gx, s)
            hx.syncthreads()
            hx.copy(s, r)
        else:
            hx.copy(gx, r)
        hx.copy(r, hx.global_view(y[bm:, bk:], ((16, 64), (k, 1))))
        hx.copy(hx.cast(r, f16), hx.global_view(z[bm:, bk:], ((16, 64), (k, 1))))

    return trip


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_bits_come_and_go_unchanged(dtype: DType, staged: bool, target: str) -> None:
    """Whole tiles move 16 bytes at a time, ragged ones what is known; no nibble outside is written,
    which the simulator, whose arrays end there, would find."""
    kernel = round_trip(dtype, staged)
    for aligned in (True, False):
        assert kernel.compile(target, aligned=aligned, verify=True).thread
    for rows, elements in ((16, 64), (5, 40), (33, 136)):
        for word in WORDS:
            raw = random_bytes(rows, rows, elements, dtype)
            if raw.shape[1] % np.dtype(word).itemsize:
                continue
            x = raw.view(word)
            y, z = np.zeros_like(x), np.zeros((rows, elements), np.float16)
            kernel.simulate(x, y, z, target=target, compare=True)
            np.testing.assert_array_equal(x, y)
            np.testing.assert_array_equal(z, values(raw, dtype))


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 40), st.integers(1, 70), st.sampled_from(PACKED), st.integers(0, 99))
def test_any_number_of_whole_bytes_is_right(rows: int, size: int, dtype: DType, seed: int) -> None:
    """Also where a row is an odd number of bytes."""
    elements = size * 8 // dtype.bits
    x = random_bytes(seed, rows, elements, dtype)
    y, z = np.zeros_like(x), np.zeros((rows, elements), np.float16)
    KERNELS[dtype].simulate(x, y, z, target="sm_80")
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(z, values(x, dtype))


KERNELS = {dtype: round_trip(dtype, False) for dtype in PACKED}


def sums(dtype: DType) -> hx.Kernel:
    """y = x, c = sums of rows: boxes of TMA in and out."""

    @hx.kernel(cache=False)
    def summed(x: dtype[m, k], y: dtype[m, k], c: f32[m, 1]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
        bm, tiles = hx.blockIdx.x * 64, hx.cdiv(k, 256)
        gx = hx.global_view(x[bm:, :], ((64, 256, tiles), (k, 1, 256)))
        gy = hx.global_view(y[bm:, :], ((64, 256, tiles), (k, 1, 256)))
        s, o = hx.shared_tensor(dtype, (64, 256, 2)), hx.shared_tensor(dtype, (64, 256))
        pipe = hx.pipeline(2)
        with hx.warp_groups_producer():
            for i in range(tiles):
                with pipe.produce() as slot:
                    hx.copy(gx[:, :, i], s[:, :, slot])
        with hx.warp_groups_consumer():
            total = hx.register_tensor(f32, (64, 1))
            hx.fill(total, 0.0)
            for i in range(tiles):
                r = hx.register_tensor(dtype, (64, 256))
                with pipe.consume() as slot:
                    hx.copy(s[:, :, slot], r)
                total += hx.sum(hx.cast(r, f32), 1)
                hx.sync_role()
                hx.copy(r, o)
                hx.sync_role()
                hx.copy(o, gy[:, :, i])
            hx.copy(total, hx.global_view(c[bm:, :], ((64, 1), (1, 1))))

    return summed


@pytest.mark.parametrize("dtype", [dt.u4, dt.i4, dt.u2, dt.u1], ids=str)
def test_tma_moves_packed_elements_as_bytes(dtype: DType) -> None:
    kernel = sums(dtype)
    compiled = kernel.compile("sm_90", verify=True)
    text = compiled.explain(rejected=0)
    assert "tma.load" in text and "tma.store" in text and compiled.built.cubin
    boxes = re.search(r"tma.load x(\d+), \d+ bytes, box 64x(\d+)", text)
    assert boxes is not None
    count, elements = map(int, boxes.groups())
    assert count * elements == 256
    assert compiled.thread.maps[0].box == (64, elements * dtype.bits // 8)
    for rows, elements in ((64, 256), (70, 896)):
        raw = random_bytes(3, rows, elements, dtype)
        for word in WORDS:
            x = raw.view(word)
            y, c = np.zeros_like(x), np.zeros((rows, 1), np.float32)
            kernel.simulate(x, y, c, compare=True, schedules=2)
            np.testing.assert_array_equal(x, y)
            np.testing.assert_array_equal(c[:, 0], values(raw, dtype).sum(axis=1))


def test_a_tensor_map_of_packed_elements_is_one_of_bytes() -> None:
    signature = Signature("f", (TensorParam("q", "u4", ("n", "k")),),
                          (SymbolParam("n"), SymbolParam("k")))  # fmt: skip
    asked = []

    class Driver:
        def tensor_map(self, *args: object) -> bytes:
            asked.append(args)
            return b""

    encode = map_of(TensorMap("q_map", "q", (64, 32), 32), signature, Driver())  # type: ignore[arg-type]
    encode((4096, 100, 192))
    assert asked == [("u8", 4096, [96, 100], [96], (32, 64), 32)]


SIGNATURE = Signature(
    "gemm",
    (TensorParam("a", "f16", ("m", "k")), TensorParam("q", "u4", ("n", "k"))),
    (SymbolParam("m"), SymbolParam("n"), SymbolParam("k")),
)


def test_extents_count_elements_and_rows_are_whole_bytes() -> None:
    a = np.zeros((3, 64), np.float16)
    for word, columns in ((np.uint8, 32), (np.int32, 8)):
        bound = bind(SIGNATURE, (a, np.zeros((5, columns), word)))
        assert bound.symbols == {"m": 3, "n": 5, "k": 64}
    assert default_divisors(SIGNATURE) == {"k": 32}
    assert packed_divisors(SIGNATURE) == {"k": 2}


@pytest.mark.parametrize(
    ("columns", "dtype", "words"),
    [
        (63, np.uint8, ("[n, k] with k = 63", "dimension 1 is 64")),
        (64, np.float16, ("uint8 or int32", "got float16", "lowest bits")),
        (64, np.int8, ("uint8 or int32", "got int8")),
    ],
)
def test_arguments_that_do_not_hold_the_elements_are_told_apart(
    columns: int, dtype: type, words: tuple[str, ...]
) -> None:
    a = np.zeros((3, columns), np.float16)
    with pytest.raises(LaunchError) as caught:
        bind(SIGNATURE, (a, np.zeros((5, 32), dtype)))
    assert all(word in str(caught.value) for word in words), caught.value


def test_rows_that_end_inside_a_byte_are_refused_where_they_are_declared() -> None:
    with pytest.raises(FrontendError, match="12 bits, which are no whole bytes") as caught:

        @hx.kernel
        def odd(x: u4[m, 3]):
            hx.attrs.cuda.grid_dim = 1

    assert caught.value.span is not None and "multiple of 2" in str(caught.value.fix)


def test_made_up_arguments_are_whole_bytes() -> None:
    x, _, z = make_arguments(KERNELS[u4].signature, {"m": 3, "k": 62}, 0)
    assert (x.shape, x.dtype, z.shape) == ((3, 31), np.uint8, (3, 62))
    with pytest.raises(LaunchError, match="rows of 63 elements of u4") as caught:
        make_arguments(KERNELS[u4].signature, {"m": 3, "k": 63}, 0)
    assert caught.value.fix == "write --shape with a last extent that is a multiple of 2"


def tile_at(start: int, extent: int, step: int = 1) -> hx.Kernel:
    @hx.kernel(cache=False)
    def moved(x: u4[m, k], y: u4[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(u4, (16, extent))
        hx.copy(hx.global_view(x[:, start:], ((16, extent), (k, step))), r)
        hx.copy(r, hx.global_view(y[:, start:], ((16, extent), (k, step))))

    return moved


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("start", "extent", "step"), [(1, 32, 1), (0, 3, 1), (0, 16, 2)])
def test_a_tile_that_begins_or_ends_inside_a_byte_is_refused(
    start: int, extent: int, step: int, target: str
) -> None:
    """Two threads would write one byte."""
    with pytest.raises(NoLayout, match="whole number of bytes") as caught:
        assert tile_at(start, extent, step).compile(target).solution
    assert caught.value.span is not None


def test_a_part_of_whole_bytes_leaves_its_neighbours_alone() -> None:
    raw = random_bytes(7, 16, 24, u4)
    y = random_bytes(8, 16, 24, u4)
    before = values(y, u4)
    tile_at(6, 4).simulate(raw, y, target="sm_80", compare=True)
    before[:, 6:10] = values(raw, u4)[:, 6:10]
    np.testing.assert_array_equal(values(y, u4), before)


def test_one_packed_number_is_not_read_alone() -> None:
    @hx.kernel(cache=False)
    def number(x: u4[m, k], y: i32[m, k]):
        hx.attrs.cuda.grid_dim = x[0, 0]

    with pytest.raises(HexcuteError, match="read by bytes") as caught:
        assert number.compile("sm_80").tile
    assert caught.value.fix == (
        "copy a tile of whole bytes, or declare the tensor u8 and take the bits of x[i]"
    )


def test_two_threads_that_write_one_byte_race() -> None:
    """Each with a nibble of its own, as no kernel of the language does."""
    thread, zero = Var("threadIdx.x", i32), Const(0, i32)
    place = GlobalPtr("x", thread & Const(~1, i32), u4)
    body = (
        DeclareArray("r", u4, 2),
        SetElement("r", zero, Const(1, u4)),
        SetElement("r", Const(1, i32), Cast(thread, u4)),
        Prim("st.global.1", (place, Regs("r", zero, (0,), 2, u4), Const(True, dt.boolean))),
    )
    params = (ThreadParam("x", u4, (Const(32, i32),), pointer=True, aligned=True),)
    one = Const(1, i32)
    program = ThreadProgram("k", params, (one, one, one), 32, 0, body)
    with pytest.raises(FoundError, match="race"):
        simulate(program, {"x": np.zeros(16, np.uint8)}, {})
