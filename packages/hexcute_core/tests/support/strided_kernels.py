"""Kernels on tensors with strides of their own, and arrays to call them with."""

import numpy as np

import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, d, heads = hx.dims("m n d heads")
sm, sn, s0, s1, sh, th, t0, zero = hx.dims("sm sn s0 s1 sh th t0 zero")

ROWS, COLUMNS = 104, 80


@hx.kernel
def rows(x: f16[m:sm, n:1], y: f16[m, n], *, BM: int = 64, BN: int = 64):
    """y = x, whose rows lie apart."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    r = hx.register_tensor(f16, (BM, BN))
    hx.copy(hx.global_view(x[bm:, bn:], ((BM, BN), (sm, 1))), r)
    hx.copy(r, hx.global_view(y[bm:, bn:], ((BM, BN), (n, 1))))


@hx.kernel
def columns(x: f16[m:1, n:sn], y: f16[m:1, n:s1], *, BM: int = 64, BN: int = 64):
    """y = x, both with columns that follow one another."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    r = hx.register_tensor(f16, (BM, BN))
    hx.copy(hx.global_view(x[bm:, bn:], ((BM, BN), (1, sn))), r)
    hx.copy(r, hx.global_view(y[bm:, bn:], ((BM, BN), (1, s1))))


@hx.kernel
def anyhow(x: f16[m:sm, n:sn], y: f16[m:s0, n:s1], *, BM: int = 64, BN: int = 64):
    """y = x, of which nothing is known."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    r = hx.register_tensor(f16, (BM, BN))
    hx.copy(hx.global_view(x[bm:, bn:], ((BM, BN), (sm, sn))), r)
    hx.copy(r, hx.global_view(y[bm:, bn:], ((BM, BN), (s0, s1))))


@hx.kernel
def staged(x: f16[m:sm, n:1], y: f16[m:s0, n:1], *, BM: int = 64, BN: int = 64):
    """y = x by way of shared memory."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    s = hx.shared_tensor(f16, (BM, BN))
    hx.copy(hx.global_view(x[bm:, bn:], ((BM, BN), (sm, 1))), s)
    hx.syncthreads()
    hx.copy(s, hx.global_view(y[bm:, bn:], ((BM, BN), (s0, 1))))


@hx.kernel
def boxes(x: f16[m:1, n:sn], y: f16[m:1, n:s1]):
    """y = 2 x by TMA in and out, columns innermost."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    gx = hx.global_view(x[bm:, bn:], ((64, 64), (1, sn)))
    sx, sy = hx.shared_tensor(f16, (64, 64, 1)), hx.shared_tensor(f16, (64, 64))
    pipe = hx.pipeline(1)
    with hx.warp_groups_producer(), pipe.produce() as s:
        hx.copy(gx, sx[:, :, s])
    with hx.warp_groups_consumer():
        r = hx.register_tensor(f16, (64, 64))
        with pipe.consume() as s:
            hx.copy(sx[:, :, s], r)
        hx.copy(r * 2.0, sy)
        hx.sync_role()
        hx.copy(sy, hx.global_view(y[bm:, bn:], ((64, 64), (1, s1))))


@hx.kernel
def product(
    a: f16[heads:sh, m:sm, d:1], b: f16[heads:th, n:t0, d:1], c: f32[heads, m, n]
):  # fmt: skip
    """c = a b^T a head; the operands lie as the heads of a packed projection do."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64), heads
    bm, bn, head = hx.blockIdx.x * 64, hx.blockIdx.y * 64, hx.blockIdx.z
    tiles = hx.cdiv(d, 64)
    ga = hx.global_view(a[head, bm:, :], ((64, 64, tiles), (sm, 1, 64)))
    gb = hx.global_view(b[head, bn:, :], ((64, 64, tiles), (t0, 1, 64)))
    sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for _ in range(tiles):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        hx.copy(rc, hx.global_view(c[head, bm:, bn:], ((64, 64), (n, 1))))


@hx.kernel
def expanded(x: f32[heads:sh, m:sm, n:1], y: f32[heads, m, n]):
    """y = x, whose heads may all be one."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 32), hx.cdiv(n, 64), heads
    hx.attrs.cuda.block_dim = 128
    bm, bn, head = hx.blockIdx.x * 32, hx.blockIdx.y * 64, hx.blockIdx.z
    r = hx.register_tensor(f32, (32, 64))
    hx.copy(hx.global_view(x[head, bm:, bn:], ((32, 64), (sm, 1))), r)
    hx.copy(r, hx.global_view(y[head, bm:, bn:], ((32, 64), (n, 1))))


@hx.kernel
def counted(x: i32[m:sm], bins: i32[n:sn]):
    """bins[x[i]] += 1, one thread at a time, and x is read as numbers."""
    hx.attrs.cuda.grid_dim = m
    hx.attrs.cuda.block_dim = 32
    value = x[hx.blockIdx.x]
    if value >= 0:
        hx.atomic_add(bins, value, 1)


@hx.kernel
def gathered(x: f16[m:sm, n:1], picks: i32[d:s0], y: f16[d, n], *, BM: int = 32):
    """y[i] = x[picks[i]]."""
    hx.attrs.cuda.grid_dim = hx.cdiv(d, BM)
    hx.attrs.cuda.block_dim = 64
    first = hx.blockIdx.x * BM
    numbers, r = hx.register_tensor(i32, (BM,)), hx.register_tensor(f16, (BM, 64))
    hx.copy(hx.global_view(picks[first:], ((BM,), (s0,))), numbers, outside=-1)
    places = hx.shared_tensor(i32, (BM,))
    hx.copy(numbers, places)
    hx.syncthreads()
    hx.copy(hx.global_view(x, ((BM, 64), (places, 1))), r)
    hx.copy(r, hx.global_view(y[first:, :], ((BM, 64), (n, 1))))


def halves(*shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers in f16."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float16)


def pairs() -> dict[str, tuple[hx.Kernel, np.ndarray, np.ndarray, float]]:
    """Kernels y = factor * x, with an x and a y, by what is told apart."""
    packed, gaps = halves(ROWS, 3 * COLUMNS), np.zeros((ROWS, 3 * COLUMNS), np.float16)
    turned, places = halves(COLUMNS, ROWS).T, np.zeros((COLUMNS, ROWS), np.float16).T
    out = np.zeros((ROWS, COLUMNS), np.float16)
    middle = slice(COLUMNS, 2 * COLUMNS)
    return {
        "a part of a packed array": (rows, packed[:, middle], out.copy(), 1.0),
        "a part that begins anywhere": (rows, packed[:, 7 : 7 + COLUMNS], out.copy(), 1.0),
        "rows of odd length": (rows, halves(ROWS, 83)[:, 1:78], out[:, :77].copy(), 1.0),
        "rows the other way": (rows, halves(ROWS, COLUMNS), out.copy(), 1.0),
        "every second row": (rows, halves(2 * ROWS, COLUMNS)[::2], out.copy(), 1.0),
        "one row": (rows, halves(1, COLUMNS), out[:1].copy(), 1.0),
        "a transpose": (columns, turned, places.copy(order="K"), 1.0),
        "a transpose of odd length": (columns, halves(COLUMNS, 107).T[1:104], places[:103], 1.0),
        "every second column": (anyhow, packed[:, : 2 * COLUMNS : 2], gaps[:, middle], 1.0),
        "a transpose to rows": (anyhow, turned, out.copy(), 1.0),
        "in and out by shared memory": (staged, packed[:, middle], gaps[:, 8 : 8 + COLUMNS], 1.0),
        "by boxes": (boxes, turned, places.copy(order="K"), 2.0),
    }


def heads_of(packed: np.ndarray, which: int, count: int, depth: int) -> np.ndarray:
    """Heads [head, token, depth] of a part of a packed projection [token, 3 x head x depth]."""
    parts = packed.reshape(len(packed), 3, count, depth)
    return parts[:, which].transpose(1, 0, 2)
