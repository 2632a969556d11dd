"""Atomic updates beside TMA, roles and clusters: what threads update is fenced, what TMA has
written is there when a counter says so, and every role learns what one of them took from a queue.
"""

from __future__ import annotations

import numpy as np
import pytest
from mutations import mutants

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.simulator import simulate
from hexcute_core.thread.visit import calls

m, k = hx.dims("m k")
SHAPE = (64, 64)


def whole(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


@hx.kernel(cache=False)
def lent(x: f32[64, 64], y: f32[64, 64], z: f32[64, 64]):
    """y = x, z = x + 1, by a shared tile that TMA stores while threads want to update it."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    r, s = hx.register_tensor(f32, (64, 64)), hx.shared_tensor(f32, (64, 64))
    hx.copy(hx.global_view(x, ((64, 64), (64, 1))), r)
    hx.copy(r, s)
    hx.syncthreads()
    hx.copy(s, hx.global_view(y, ((64, 64), (64, 1))))
    hx.syncthreads()
    for i, j in hx.elements(r):
        hx.atomic_add(s, (j, i), 1.0)
    hx.syncthreads()
    hx.copy(s, hx.global_view(z, ((64, 64), (64, 1))))


def test_threads_update_what_tma_stores() -> None:
    kernel = lent.compile("sm_90", verify=True)
    x, y, z = whole(SHAPE), np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    kernel.simulate(x, y, z, schedules=4, compare=True)
    assert np.array_equal(y, x)
    assert np.array_equal(z, x + 1)
    assert calls(kernel.thread.body, "tma.store")


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_waits_and_fences_around_it_are_needed(seed: int) -> None:
    """All but the last wait, behind which nothing is written."""
    found = []
    for program, gone in mutants(lent.compile("sm_90").thread):
        arrays = {name: np.zeros(SHAPE, np.float32) for name in "xyz"}
        if simulate(program, arrays, {}, seed=seed, check=False).findings:
            found.append(gone.name)
    assert found.count("fence.proxy") == 2
    assert found.count("bar.sync") == 3
    assert found.count("tma.wait.read") >= 1


@hx.kernel(cache=False)
def mixed(x: f32[64, 64], y: f32[64, 64]):
    """y = 2 x + 1: added by threads, by TMA, then read and written."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    r, s = hx.register_tensor(f32, (64, 64)), hx.shared_tensor(f32, (64, 64))
    hx.copy(hx.global_view(x, ((64, 64), (64, 1))), r)
    view = hx.global_view(y, ((64, 64), (64, 1)))
    hx.atomic_add(view, r)
    hx.copy(r, s)
    hx.syncthreads()
    hx.copy(s, view, reduce="add")
    hx.syncthreads()
    hx.copy(view, r)
    hx.syncthreads()
    hx.copy(r + 1.0, view)


def test_threads_and_tma_add_to_one_tensor() -> None:
    x, y = whole(SHAPE), np.zeros(SHAPE, np.float32)
    mixed.compile("sm_90", verify=True).simulate(x, y, schedules=4, compare=True)
    assert np.array_equal(y, 2 * x + 1)


@hx.kernel(cache=False)
def stored_parts(x: f32[64, 64], w: f32[3, 64, 64], done: i32[1], y: f32[64, 64]):
    """y = the sum of the parts x + b that TMA has stored for every block b, by the last of them."""
    hx.attrs.cuda.grid_dim = 3
    hx.attrs.cuda.block_dim = 128
    b, r, part = hx.blockIdx.x, hx.register_tensor(f32, (64, 64)), hx.register_tensor(f32, (64, 64))
    s = hx.shared_tensor(f32, (64, 64))
    hx.copy(hx.global_view(x, ((64, 64), (64, 1))), r)
    hx.copy(r + hx.cast(b, f32), s)
    hx.syncthreads()
    hx.copy(s, hx.global_view(w[b, :, :], ((64, 64), (64, 1))))
    if hx.atomic_add(done, 0, 1, order="acq_rel") == 2:
        hx.fill(r, 0.0)
        for p in range(3):
            hx.copy(hx.global_view(w[p, :, :], ((64, 64), (64, 1))), part)
            r += part
        hx.copy(r, hx.global_view(y, ((64, 64), (64, 1))))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_release_waits_for_what_tma_stores(seed: int) -> None:
    kernel = stored_parts.compile("sm_90", verify=True)
    assert calls(kernel.thread.body, "tma.store")
    x, y = whole(SHAPE), np.zeros(SHAPE, np.float32)
    kernel.simulate(x, np.zeros((3, *SHAPE), np.float32), np.zeros(1, np.int32), y, seed=seed)
    assert np.array_equal(y, 3 * x + 3)
    for program, gone in mutants(kernel.thread):
        if gone.name == "tma.wait":
            arrays = {
                "x": x, "w": np.zeros((3, *SHAPE), np.float32), "done": np.zeros(1, np.int32),
                "y": y,
            }  # fmt: skip
            report = simulate(program, arrays, {}, seed=seed, check=False)
            assert report.findings


def told(clustered: bool, grid: int = 2):
    """c = the sums of 64 columns each of a, 64 rows at a time: the producer takes the number of a
    tile, and two roles learn it, each for half of the rows."""

    @hx.device
    def half(a_tiles, c, sa, number, pipe, tell, me):
        with tell.consume() as s:
            tile = hx.number(number[:, s])
        while tile < hx.cdiv(m, 64):
            total = hx.register_tensor(f32, (32, 64))
            hx.fill(total, 0.0)
            for _ in range(a_tiles):
                r = hx.register_tensor(f16, (32, 64))
                with pipe.consume() as s:
                    hx.copy(sa[me * 32 : me * 32 + 32, :, s], r)
                total += hx.cast(r, f32)
            hx.copy(total, hx.global_view(c[tile * 64 + me * 32 :, :], ((32, 64), (64, 1))))
            with tell.consume() as s:
                tile = hx.number(number[:, s])

    @hx.kernel(cache=False)
    def kernel(a: f16[m, k], taken: i32[1], c: f32[m, 64]):
        if clustered:
            hx.attrs.cuda.cluster_dim = 2
        hx.attrs.cuda.grid_dim = grid
        tiles = hx.cdiv(k, 64)
        sa, number = hx.shared_tensor(f16, (64, 64, 3)), hx.shared_tensor(i32, (1, 2))
        pipe, tell = hx.pipeline(3), hx.pipeline(2)
        with hx.warp_groups_producer():
            tile = hx.atomic_add(taken, 0, 1)
            while tile < hx.cdiv(m, 64):
                with tell.produce() as s:
                    hx.fill(number[:, s], tile)
                ga = hx.global_view(a[tile * 64 :, :], ((64, 64, tiles), (k, 1, 64)))
                for i in range(tiles):
                    with pipe.produce() as s:
                        hx.copy(ga[:, :, i], sa[:, :, s])
                tile = hx.atomic_add(taken, 0, 1)
            with tell.produce() as s:
                hx.fill(number[:, s], tile)
        with hx.warp_groups_consumer():
            half(tiles, c, sa, number, pipe, tell, 0)
        with hx.warp_groups_consumer():
            half(tiles, c, sa, number, pipe, tell, 1)

    return kernel


@pytest.mark.parametrize("clustered", [False, True], ids=["blocks", "clusters"])
def test_every_role_is_told(clustered: bool) -> None:
    """Blocks of a cluster take tiles of their own, so their loads are not shared."""
    kernel = told(clustered).compile("sm_90", verify=True)
    a, c = whole((300, 136), np.float16), np.zeros((300, 64), np.float32)
    taken = np.zeros(1, np.int32)
    kernel.simulate(a, taken, c, schedules=3, compare=True)
    padded = np.zeros((300, 192), np.float32)
    padded[:, :136] = a
    assert np.array_equal(c, padded.reshape(300, 3, 64).sum(1))
    assert taken[0] == 5 + 2
    assert not kernel.solution.multicasts


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_barrier_that_tells_the_producer_is_needed(seed: int) -> None:
    """Of the queue's own barriers, the one before the first number orders nobody."""
    thread = told(False, 1).compile("sm_90").thread
    found = []
    for program, gone in mutants(thread):
        if gone.name != "bar.named.sync":
            continue
        arrays = {
            "a": np.zeros((130, 64), np.float16), "taken": np.zeros(1, np.int32),
            "c": np.zeros((130, 64), np.float32),
        }  # fmt: skip
        report = simulate(program, arrays, {"m": 130, "k": 64}, seed=seed, check=False)
        found.append(bool(report.findings))
    assert found == [False, True, True, True]
