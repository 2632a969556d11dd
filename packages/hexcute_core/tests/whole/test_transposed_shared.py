"""hx.transpose of a shared tile: the same memory, its modes in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.tile.printer import show_program

m, n, k = hx.dims("m n k")
RNG = np.random.default_rng(3)


def whole_numbers(*shape: int) -> Any:
    return RNG.integers(-3, 4, shape).astype(np.float16)


@hx.kernel
def turned(x: f16[m, n], y: f16[n, m], *, WRITTEN: bool = False):
    """y = x^T by way of shared memory, turned where it is written or where it is read."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 32)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 32
    s = hx.shared_tensor(f16, (32, 64, 2) if WRITTEN else (64, 32, 2))
    slot = hx.blockIdx.x % 2
    there = hx.transpose(s[:, :, slot]) if WRITTEN else s[:, :, slot]
    hx.copy(hx.global_view(x[bm:, bn:], ((64, 32), (n, 1))), there)
    hx.syncthreads()
    r = hx.register_tensor(f16, (32, 64))
    hx.copy(s[:, :, slot] if WRITTEN else hx.transpose(s[:, :, slot]), r)
    hx.copy(r, hx.global_view(y[bn:, bm:], ((32, 64), (m, 1))))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("sizes", [(128, 64), (104, 40), (70, 33)])
def test_a_tile_is_turned_on_its_way(target: str, written: bool, sizes: tuple[int, int]) -> None:
    x = whole_numbers(*sizes)
    y = np.full(sizes[::-1], np.nan, np.float16)
    aligned = all(size % 8 == 0 for size in sizes)
    kernel = turned.compile(target, verify=True, aligned=aligned, WRITTEN=written)
    kernel.simulate(x, y)
    assert np.array_equal(y, x.T)


@hx.kernel
def twice_used(q: f16[m, k], x: f16[n, k], o: f32[m, 64], *, BN: int = 64, COLUMNS: int = 128):
    """o = (q x^T) x[:, :64]: keys that are values too, read both ways from one buffer."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    bm, tiles = hx.blockIdx.x * 64, hx.cdiv(n, BN)
    gq = hx.global_view(q[bm:, :], ((64, COLUMNS), (k, 1)))
    gx = hx.global_view(x, ((BN, COLUMNS, tiles), (k, 1, BN * k)))
    s_q, s_x = hx.shared_tensor(f16, (64, COLUMNS)), hx.shared_tensor(f16, (BN, COLUMNS, 2))
    first, pipe = hx.pipeline(1), hx.pipeline(2)
    with hx.warp_groups_producer():
        with first.produce():
            hx.copy(gq, s_q)
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(gx[:, :, i], s_x[:, :, s])
    with hx.warp_groups_consumer():
        ro = hx.register_tensor(f32, (64, 64))
        hx.fill(ro, 0.0)
        first.wait()
        for _ in range(tiles):
            with pipe.consume() as s:
                rs = hx.register_tensor(f32, (64, BN))
                hx.gemm(rs, s_q, s_x[:, :, s], accumulate=False)
                hx.gemm(ro, hx.cast(rs, f16), hx.transpose(s_x[:, :64, s]))
        first.release()
        hx.copy(ro, hx.global_view(o[bm:, :], ((64, 64), (64, 1))))


def test_wgmma_reads_one_buffer_both_ways() -> None:
    q, x = whole_numbers(60, 128), whole_numbers(150, 128)
    o = np.full((60, 64), np.nan, np.float32)
    kernel = twice_used.compile("sm_90", verify=True)
    kernel.simulate(q, x, o)
    a, b = q.astype(np.float32), x.astype(np.float32)
    assert np.array_equal(o, (a @ b.T).astype(np.float16).astype(np.float32) @ b[:, :64])
    assert "tma.load" in kernel.explain() and "modes 1, 0" in show_program(kernel.tile)


@hx.kernel
def turned_a(a: f16[k, m], b: f16[n, k], c: f32[m, n]):
    """c = a^T b^T, of which a part of the turned tile is the first operand."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    s_a, s_b = hx.shared_tensor(f16, (32, 128)), hx.shared_tensor(f16, (16, 32))
    hx.copy(hx.global_view(a, ((32, 128), (m, 1))), s_a)
    hx.copy(hx.global_view(b, ((16, 32), (k, 1))), s_b)
    hx.syncthreads()
    for part in hx.static_range(2):
        rc = hx.register_tensor(f32, (64, 16))
        hx.gemm(rc, hx.transpose(s_a)[64 * part : 64 * part + 64, :], s_b, accumulate=False)
        hx.copy(rc, hx.global_view(c[64 * part :, :], ((64, 16), (n, 1))))


def test_the_first_operand_may_be_turned() -> None:
    a, b = whole_numbers(32, 128), whole_numbers(16, 32)
    c = np.full((128, 16), np.nan, np.float32)
    turned_a.compile("sm_90", verify=True).simulate(a, b, c)
    assert np.array_equal(c, a.T.astype(np.float32) @ b.T.astype(np.float32))


@hx.kernel
def by_element(y: i32[3, 4], z: i32[1]):
    """Fills, updates and reads a turned tile, whole and by element."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    s = hx.shared_tensor(i32, (4, 3))
    t, r = hx.transpose(s), hx.register_tensor(i32, (3, 4))
    hx.fill(t, 5)
    hx.syncthreads()
    hx.atomic_add(t, hx.iota((3, 4), 1))
    hx.syncthreads()
    hx.atomic_add(t, (2, 3), 10)
    hx.syncthreads()
    hx.copy(t, r)
    hx.copy(r, hx.global_view(y, ((3, 4), (4, 1))))
    hx.atomic_xchg(z, 0, hx.number(t[2, 3]))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_elements_have_the_turned_coordinates(target: str) -> None:
    y, z = np.zeros((3, 4), np.int32), np.zeros(1, np.int32)
    by_element.compile(target, verify=True).simulate(y, z)
    want = np.tile(np.arange(5, 9), (3, 1))
    want[2, 3] += 10
    assert np.array_equal(y, want) and z[0] == 18


@hx.kernel
def from_beside(x: f32[2, 64], y: f32[2, 64]):
    """Each block of a cluster writes the other's tile, turned."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = 2
    hx.attrs.cuda.block_dim = 64
    rank = hx.cluster_rank()
    s, r = hx.shared_tensor(f32, (8, 8)), hx.register_tensor(f32, (8, 8))
    hx.copy(hx.global_view(x[rank, :], ((8, 8), (8, 1))), r)
    hx.copy(r, s)
    hx.cluster_sync()
    hx.copy(hx.transpose(hx.remote(s, 1 - rank)), r)
    hx.copy(r, hx.global_view(y[rank, :], ((8, 8), (8, 1))))
    hx.cluster_sync()


def test_another_blocks_tile_may_be_turned() -> None:
    x = RNG.normal(size=(2, 64)).astype(np.float32)
    y = np.zeros_like(x)
    from_beside.compile("sm_90", verify=True).simulate(x, y)
    assert np.array_equal(y.reshape(2, 8, 8), x[::-1].reshape(2, 8, 8).transpose(0, 2, 1))
