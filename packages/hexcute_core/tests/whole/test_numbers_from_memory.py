"""Numbers that a block reads from memory say how often its tile operations and barriers run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import boolean, f16, f32, i32, i64, u8

m, n, t = hx.dims("m n t")


@hx.device
def number(x, at):
    """x[at], by a tile of one element."""
    cell, value = hx.register_tensor(i32, (1,)), 0
    hx.copy(hx.global_view(x[at:], ((1,), (1,))), cell)
    for (i,) in hx.elements(cell):
        value = cell[i]
    return value


@hx.kernel(cache=False)
def ragged(x: f32[m, n], starts: i32[t], y: f32[m, n], *, SHARED: bool = False):
    """y[z] = the sum of rows starts[z] to starts[z + 1] - 1 of x, left alone where there is none;
    twice as much where the first of them is odd."""
    hx.attrs.cuda.grid_dim = t - 1
    hx.attrs.cuda.block_dim = 64
    z = hx.blockIdx.x
    row, end = number(starts, z), number(starts, z + 1)
    if row >= end:
        return
    total = hx.register_tensor(f32, (4, 64))
    hx.fill(total, 0.0)
    odd = row % 2 == 1
    while row < end:
        r = hx.register_tensor(f32, (4, 64))
        rows = hx.global_view(x[row:, :], ((4, 64), (n, 1)))
        if SHARED:
            s = hx.shared_tensor(f32, (4, 64))
            hx.copy(rows, s)
            hx.syncthreads()
            hx.copy(s, r)
            hx.syncthreads()
        else:
            hx.copy(rows, r)
        for i, j in hx.elements(r):
            if row + i >= end:
                r[i, j] = 0.0
        total += r
        row += 4
    if odd:
        total *= 2.0
    hx.copy(hx.sum(total, 0), hx.global_view(y[z:, :], ((1, 64), (n, 1))))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_loops_and_branches_by_numbers_from_memory(target: str, shared: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (23, 50)).astype(np.float32)
    starts = np.array([0, 3, 3, 12, 13, 23], np.int32)
    y = np.full_like(x, 7.0)
    compiled = ragged.compile(target, aligned=False, verify=True, SHARED=shared)
    compiled.simulate(x, starts, y, compare=True)
    want = np.full_like(x, 7.0)
    for z, (first, end) in enumerate(itertools.pairwise(starts)):
        if first < end:
            want[z] = x[first:end].sum(0) * (1 + first % 2)
    assert np.array_equal(y, want)


@hx.kernel(cache=False)
def pages(x: f32[m, 4, n], table: i32[t, 3], length: i32[t], y: f32[t, n]):
    """y[z] = the sum of the first length[z] rows of the pages table[z] of x, by a producer that
    reads which they are."""
    hx.attrs.cuda.grid_dim = t
    z = hx.blockIdx.x
    rows = length[z]
    count = hx.cdiv(rows, 4)
    held = hx.shared_tensor(f32, (4, 32, 2))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        for i in range(count):
            page = table[z, i]
            with pipe.produce() as s:
                hx.copy(hx.global_view(x[page, :, :], ((4, 32), (n, 1))), held[:, :, s])
    with hx.warp_groups_consumer():
        total = hx.register_tensor(f32, (1, 32))
        hx.fill(total, 0.0)
        for i in range(count):
            r = hx.register_tensor(f32, (4, 32))
            with pipe.consume() as s:
                hx.copy(held[:, :, s], r)
            for j, c in hx.elements(r):
                if i * 4 + j >= rows:
                    r[j, c] = 0.0
            total += hx.sum(r, 0)
        hx.copy(total, hx.global_view(y[z:, :], ((1, 32), (n, 1))))


@pytest.mark.parametrize("width", [32, 23])
def test_a_producer_reads_which_page_it_loads(width: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, (6, 4, width)).astype(np.float32)
    table = rng.integers(0, 6, (4, 3)).astype(np.int32)
    length = np.array([12, 0, 5, 8], np.int32)
    y = np.full((4, width), 7.0, np.float32)
    compiled = pages.compile("sm_90", aligned=width == 32, verify=True)
    report = compiled.simulate(x, table, length, y, schedules=2)
    assert ("tma.load" in report.counters.instructions) is (width == 32)
    want = [x[table[z]].reshape(-1, width)[:rows].sum(0) for z, rows in enumerate(length)]
    assert np.array_equal(y, want)


@pytest.mark.parametrize(
    "dtype, cells", [(f32, np.float32), (f16, np.float16), (u8, np.uint8), (i64, np.int64),
                     (boolean, np.bool_)],
)  # fmt: skip
def test_a_number_of_any_type_is_read(dtype: hx.DType, cells: type) -> None:
    @hx.kernel(cache=False)
    def second(x: dtype[m, n], y: f32[m]):  # type: ignore[valid-type]
        hx.attrs.cuda.grid_dim = m + 1
        hx.attrs.cuda.block_dim = 32
        z = hx.blockIdx.x
        r = hx.register_tensor(f32, (1,))
        # Row m lies outside: it reads as zero, and is not stored.
        hx.fill(r, hx.cast(x[z, 2], f32) + hx.cast(x[z + 1, 0], f32))
        hx.copy(r, hx.global_view(y[z:], ((1,), (1,))))

    x = np.arange(12).reshape(3, 4).astype(cells)
    y = np.zeros(3, np.float32)
    compiled = second.compile("sm_80", aligned=False, verify=True)
    compiled.simulate(x, y, compare=True)
    assert np.array_equal(y, x[:, 2].astype(np.float32) + np.append(x[1:, 0], [0]))
    assert len(compiled.built.cubin) > 0


def test_a_number_is_read_where_it_is_written() -> None:
    @hx.kernel(cache=False)
    def twice(x: i32[m], y: i32[m]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        before = x[1]
        r = hx.register_tensor(i32, (2,))
        hx.fill(r, 7)
        hx.syncthreads()
        hx.copy(r, hx.global_view(x, ((2,), (1,))))
        hx.syncthreads()
        hx.fill(r, before * 100 + x[1])
        hx.copy(r, hx.global_view(y, ((2,), (1,))))

    x, y = np.array([1, 2], np.int32), np.zeros(2, np.int32)
    twice.compile("sm_80", aligned=False).simulate(x, y, compare=True)
    assert y.tolist() == [207, 207]


def test_all_threads_read_the_same() -> None:
    @hx.kernel(cache=False)
    def own(x: i32[m], y: i32[m]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i32, (32,))
        hx.fill(r, x[hx.threadIdx.x])
        hx.copy(r, hx.global_view(y, ((32,), (1,))))

    @hx.kernel(cache=False)
    def inside(x: i32[m], y: i32[m]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i32, (32,))
        for (i,) in hx.elements(r):
            r[i] = x[i]
        hx.copy(r, hx.global_view(y, ((32,), (1,))))

    with pytest.raises(hx.errors.FrontendError, match="differs between threads") as caught:
        _ = own.compile("sm_80").tile
    assert "what the block or the role agrees on" in (caught.value.fix or "")
    with pytest.raises(hx.errors.FrontendError, match="a tile operation or barrier inside"):
        _ = inside.compile("sm_80").tile


@hx.kernel(cache=False)
def everywhere(x: f16[4, 4], b: boolean[4], y: f32[4]):
    """Numbers of tiles of one element, wherever they lie."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 64
    s, r = hx.shared_tensor(f16, (2, 2)), hx.register_tensor(f16, (2, 2))
    hx.copy(hx.global_view(x, ((2, 2), (4, 1))), r)
    hx.copy(r, s)
    hx.syncthreads()
    element, part = hx.number(s[1, 0]), hx.number(s[0:1, 1:2])
    outside = hx.number(hx.global_view(x[2:, 3:], ((1, 1), (4, 1))))
    most = hx.number(hx.max(hx.max(r, 0), 1))
    given = hx.register_tensor(f32, (4,))
    hx.fill(given, 0.0)
    for (i,) in hx.elements(given):
        chosen = element if i == 0 else part if i == 1 else outside if i == 2 else most
        given[i] = hx.cast(chosen, f32)
    if hx.number(hx.global_view(b[1:], ((1,), (1,)))):
        given += 100.0
    hx.copy(given, hx.global_view(y, ((4,), (1,))))


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_the_number_of_a_tile_of_one_element(target: str, odd: bool) -> None:
    x, y = np.arange(16, dtype=np.float16).reshape(4, 4), np.zeros(4, np.float32)
    told = np.array([1, odd, 1, 1], bool)
    everywhere.compile(target, verify=True).simulate(x, told, y, compare=True)
    assert np.array_equal(y, np.array([4, 1, 11, 5]) + 100 * odd)
