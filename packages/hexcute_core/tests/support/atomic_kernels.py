"""Kernels that update memory atomically, made of an operation and an element type."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hexcute_core as hx
from hexcute_core import i32
from hexcute_core.arch.updates import UPDATED
from hexcute_core.dtypes import DType

m, n, k = hx.dims("m n k")
UPDATES: dict[str, Callable[..., Any]] = {
    "add": hx.atomic_add, "min": hx.atomic_min, "max": hx.atomic_max, "and": hx.atomic_and,
    "or": hx.atomic_or, "xor": hx.atomic_xor, "exch": hx.atomic_xchg, "cas": hx.atomic_cas,
}  # fmt: skip
CASES = [(op, dtype) for op, types in UPDATED.items() for dtype in types]
"""Every operation with every type that it has."""
FREE = [(op, dtype) for op, dtype in CASES if op not in ("exch", "cas")]
"""Those whose result does not depend on the order."""


@functools.cache
def tiled(op: str, dtype: DType, shared: bool = False, returns: bool = True) -> Any:
    """y = op(y, x) tile by tile, every block for itself; old = what y was, where asked for. Swaps
    put x where y is 1."""
    update = UPDATES[op]

    @hx.kernel(cache=False)
    def kernel(x: dtype[m, n], y: dtype[m, n], old: dtype[m, n], *, BM: int = 16, BN: int = 32):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
        hx.attrs.cuda.block_dim = 64
        bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
        r = hx.register_tensor(dtype, (BM, BN))
        hx.copy(hx.global_view(x[bm:, bn:], ((BM, BN), (n, 1))), r)
        view = hx.global_view(y[bm:, bn:], ((BM, BN), (n, 1)))
        target = view
        if shared:
            target, held = hx.shared_tensor(dtype, (BM, BN)), hx.register_tensor(dtype, (BM, BN))
            hx.copy(view, held)
            hx.copy(held, target)
            hx.syncthreads()
        was = update(target, 1, r) if op == "cas" else update(target, r)
        if shared:
            hx.syncthreads()
            hx.copy(target, held)
            hx.copy(held, view)
        if returns:
            hx.copy(was, hx.global_view(old[bm:, bn:], ((BM, BN), (n, 1))))

    return kernel


@functools.cache
def gathered(op: str, dtype: DType, blocks: int = 3) -> Any:
    """y = op(y, x) for x of every block: all of them update one tile, which has fewer elements
    than a block has threads."""
    update = UPDATES[op]

    @hx.kernel(cache=False)
    def kernel(x: dtype[k, 4, 16], y: dtype[4, 16]):
        hx.attrs.cuda.grid_dim = k
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(dtype, (4, 16))
        hx.copy(hx.global_view(x[hx.blockIdx.x, :, :], ((4, 16), (16, 1))), r)
        update(hx.global_view(y, ((4, 16), (16, 1))), r)

    return kernel


@functools.cache
def each(op: str, dtype: DType, shared: bool = False) -> Any:
    """y[at[i]] = op(y[at[i]], x[i]) for every i whose place y has; old[i] = what was there. Swaps
    put x where y is 1. One block, of more threads than there are elements."""
    update = UPDATES[op]

    @hx.kernel(cache=False)
    def kernel(x: dtype[m], at: i32[m], y: dtype[n], old: dtype[m], *, BM: int = 32, BN: int = 16):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        r, o = hx.register_tensor(dtype, (BM,)), hx.register_tensor(dtype, (BM,))
        places = hx.register_tensor(i32, (BM,))
        hx.copy(hx.global_view(x, ((BM,), (1,))), r)
        hx.copy(hx.global_view(at, ((BM,), (1,))), places, outside=-1)
        target = y
        if shared:
            view = hx.global_view(y, ((BN,), (1,)))
            target, held = hx.shared_tensor(dtype, (BN,)), hx.register_tensor(dtype, (BN,))
            hx.copy(view, held)
            hx.copy(held, target)
            hx.syncthreads()
        for (i,) in hx.elements(r):
            if op == "cas":
                o[i] = update(target, places[i], 1, r[i])
            else:
                o[i] = update(target, places[i], r[i])
        if shared:
            hx.syncthreads()
            hx.copy(target, held)
            hx.copy(held, view)
        hx.copy(o, hx.global_view(old, ((BM,), (1,))))

    return kernel


@functools.cache
def once(op: str, dtype: DType, shared: bool = False) -> Any:
    """y[0] = op(y[0], x[0]), once for each of k blocks; old[b] = what block b found. Swaps put x
    where y is 1."""
    update = UPDATES[op]

    @hx.kernel(cache=False)
    def kernel(x: dtype[1], y: dtype[1], old: dtype[k]):
        hx.attrs.cuda.grid_dim = k
        hx.attrs.cuda.block_dim = 96
        given = x[0]
        if shared:
            s, held = hx.shared_tensor(dtype, (2,)), hx.register_tensor(dtype, (2,))
            hx.fill(held, y[0])
            hx.copy(held, s)
            hx.syncthreads()
            was = update(s, 1, 1, given) if op == "cas" else update(s, 1, given)
            hx.syncthreads()
            last = hx.number(s[1])
            found = hx.register_tensor(dtype, (1,))
            hx.fill(found, last)
            hx.copy(found, hx.global_view(y, ((1,), (1,))))
        else:
            was = update(y, 0, 1, given) if op == "cas" else update(y, 0, given)
        r = hx.register_tensor(dtype, (1,))
        hx.fill(r, was)
        hx.copy(r, hx.global_view(old[hx.blockIdx.x :], ((1,), (1,))))

    return kernel


@hx.kernel(cache=False)
def scattered(x: i32[m, n], rows: i32[m], y: i32[k, n], *, BM: int = 32, BN: int = 32):
    """y[rows[i]] += x[i], for rows that y has, some of them several times."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 64
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    numbers, s = hx.register_tensor(i32, (BM,)), hx.shared_tensor(i32, (BM,))
    hx.copy(hx.global_view(rows[bm:], ((BM,), (1,))), numbers, outside=-1)
    hx.copy(numbers, s)
    r = hx.register_tensor(i32, (BM, BN))
    hx.copy(hx.global_view(x[bm:, bn:], ((BM, BN), (n, 1))), r)
    hx.syncthreads()
    hx.atomic_add(hx.global_view(y[:, bn:], ((BM, BN), (s, 1))), r)


@hx.kernel(cache=False)
def histogram(x: i32[m], y: i32[16], *, BM: int = 64, BLOCK: bool = False):
    """y[v] += how often v is in x: counted in shared memory, then added up."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 128
    r = hx.register_tensor(i32, (BM,))
    hx.copy(hx.global_view(x[hx.blockIdx.x * BM :], ((BM,), (1,))), r, outside=-1)
    bins, t = hx.shared_tensor(i32, (16,)), hx.register_tensor(i32, (16,))
    hx.fill(bins, 0)
    hx.syncthreads()
    for (i,) in hx.elements(r):
        hx.atomic_add(bins, r[i], 1)
    hx.syncthreads()
    hx.copy(bins, t)
    hx.atomic_add(hx.global_view(y, ((16,), (1,))), t, scope="block" if BLOCK else "gpu")
