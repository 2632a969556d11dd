"""Races around atomic updates, planted one at a time: each is found, at its line, under every seed,
and the kernel without it is clean."""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any

import atomic_kernels as ak
import numpy as np
import pytest
from mutations import mutants

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.errors import SimulationError
from hexcute_core.simulator import simulate

m, n, k = hx.dims("m n k")
SEEDS = [0, 1, 2, 5]
TARGETS = ["sm_80", "sm_90"]


def lines(report: Any) -> set[tuple[str, str]]:
    """What was found, and at which statement."""
    return {
        (f.kind, linecache.getline(f.span.file, f.span.line).strip()) for f in report.findings
    }


@hx.kernel(cache=False)
def queue(x: f32[m, n], taken: i32[1], y: f32[m, n], *, BN: int = 64):
    """y = 2 x, row by row, by blocks that take rows from a counter."""
    hx.attrs.cuda.grid_dim = 2
    hx.attrs.cuda.block_dim = 64
    row = hx.atomic_add(taken, 0, 1)
    while row < m:
        r = hx.register_tensor(f32, (1, BN))
        hx.copy(hx.global_view(x[row:, :], ((1, BN), (n, 1))), r)
        hx.copy(r * 2.0, hx.global_view(y[row:, :], ((1, BN), (n, 1))))
        row = hx.atomic_add(taken, 0, 1)


def queued() -> tuple[dict[str, Any], dict[str, int]]:
    x = np.arange(5 * 64, dtype=np.float32).reshape(5, 64)
    return {"x": x, "taken": np.zeros(1, np.int32), "y": np.zeros_like(x)}, {"m": 5, "n": 64}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_barrier_of_a_queue_is_needed(target: str, seed: int) -> None:
    """That before the number is told, whose cell others may still read, and that behind it."""
    thread = queue.compile(target, aligned=False).thread
    arrays, sizes = queued()
    simulate(thread, arrays, sizes, seed=seed)
    assert np.array_equal(arrays["y"], 2 * arrays["x"])
    found = 0
    for number, (program, gone) in enumerate(mutants(thread)):
        assert gone.name == "bar.sync"
        if number == 0:
            # Nobody reads the cell before the first number is told.
            continue
        arrays, sizes = queued()
        try:
            report = simulate(program, arrays, sizes, seed=seed, check=False)
        except SimulationError:
            found += 1
            continue
        kinds = {finding.kind for finding in report.findings}
        assert kinds & {"race", "divergent barrier", "deadlock", "uninitialised read"}, number
        found += 1
    assert found == 3


@cache
def by_hand(barrier: bool) -> Any:
    """A queue whose author tells the number himself: one thread takes it, the others read it."""

    @hx.kernel(cache=False)
    def kernel(taken: i32[1], y: i32[k, 64]):
        hx.attrs.cuda.grid_dim = k
        hx.attrs.cuda.block_dim = 64
        s = hx.shared_tensor(i32, (1,))
        hx.fill(s, 0)
        hx.syncthreads()
        if hx.threadIdx.x == 0:
            place = hx.atomic_add(taken, 0, 1)
            hx.atomic_xchg(s, 0, place)
        if barrier:
            hx.syncthreads()
        place = hx.number(s)
        r = hx.register_tensor(i32, (1, 64))
        hx.fill(r, place)
        hx.copy(r, hx.global_view(y[place:, :], ((1, 64), (64, 1))))

    return kernel


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_barrier_after_a_broadcast_by_hand(seed: int) -> None:
    y = np.zeros((3, 64), np.int32)
    by_hand(True).compile("sm_80", aligned=False).simulate(np.zeros(1, np.int32), y, seed=seed)
    assert np.array_equal(y, np.repeat(np.arange(3), 64).reshape(3, 64))
    report = by_hand(False).compile("sm_80", aligned=False).simulate(
        np.zeros(1, np.int32), y, seed=seed, check=False
    )
    assert ("race", "place = hx.number(s)") in lines(report)


@cache
def counted(barrier: bool) -> Any:
    """How many numbers of a block are odd, counted in shared memory."""

    @hx.kernel(cache=False)
    def kernel(x: i32[64], y: i32[1]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        r, s = hx.register_tensor(i32, (64,)), hx.shared_tensor(i32, (1,))
        hx.copy(hx.global_view(x, ((64,), (1,))), r)
        hx.fill(s, 0)
        hx.syncthreads()
        for (i,) in hx.elements(r):
            if r[i] % 2 == 1:
                hx.atomic_add(s, 0, 1)
        if barrier:
            hx.syncthreads()
        total = hx.register_tensor(i32, (1,))
        hx.copy(s, total)
        hx.copy(total, hx.global_view(y, ((1,), (1,))))

    return kernel


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sum_of_threads_read_without_a_barrier(seed: int) -> None:
    x, y = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    counted(True).compile("sm_80").simulate(x, y, seed=seed)
    assert y[0] == 32
    report = counted(False).compile("sm_80").simulate(x, y, seed=seed, check=False)
    assert ("race", "hx.copy(s, total)") in lines(report)


@cache
def watched(plain: bool) -> Any:
    """Blocks add to a number, and look at it, atomically or not."""

    @hx.kernel(cache=False)
    def kernel(y: i32[1], z: i32[k]):
        hx.attrs.cuda.grid_dim = k
        hx.attrs.cuda.block_dim = 32
        hx.atomic_add(y, 0, 1)
        seen = y[0] if plain else hx.atomic_or(y, 0, 0)
        r = hx.register_tensor(i32, (1,))
        hx.fill(r, seen)
        hx.copy(r, hx.global_view(z[hx.blockIdx.x :], ((1,), (1,))))

    return kernel


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plain_read_beside_updates(seed: int) -> None:
    y, z = np.zeros(1, np.int32), np.zeros(3, np.int32)
    watched(False).compile("sm_80", aligned=False).simulate(y, z, seed=seed)
    assert y[0] == 3 and z.max() == 3
    report = watched(True).compile("sm_80", aligned=False).simulate(y, z, seed=seed, check=False)
    found = {line for kind, line in lines(report) if kind == "race"}
    looked = "seen = y[0] if plain else hx.atomic_or(y, 0, 0)"
    assert found and found <= {looked, "hx.atomic_add(y, 0, 1)"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_scope_that_is_too_narrow(target: str, seed: int) -> None:
    """Of one block alone the block's scope is right."""
    x = np.arange(150, dtype=np.int32) % 16
    kernel = ak.histogram.compile(target, aligned=False, BLOCK=True)
    assert "red.global.add.i32.cta" in {p.row.name for p in kernel.solution.copies.values()}
    report = kernel.simulate(x, np.zeros(16, np.int32), seed=seed, check=False)
    (found,) = {f.fix for f in report.findings}
    assert found.startswith('widen the scope of both: scope="gpu"')
    assert {kind for kind, _ in lines(report)} == {"race"}
    y = np.zeros(16, np.int32)
    kernel.simulate(x[:64], y, seed=seed)
    assert np.array_equal(y, np.bincount(x[:64], minlength=16))


@cache
def last(order: str, scope: str = "gpu") -> Any:
    """y = the sum over blocks of x: the block that counts itself last adds up what all left."""

    @hx.kernel(cache=False)
    def kernel(x: f32[k, 64], w: f32[k, 64], done: i32[1], y: f32[1, 64]):
        hx.attrs.cuda.grid_dim = k
        hx.attrs.cuda.block_dim = 64
        b = hx.blockIdx.x
        r, total = hx.register_tensor(f32, (1, 64)), hx.register_tensor(f32, (1, 64))
        hx.copy(hx.global_view(x[b:, :], ((1, 64), (64, 1))), r)
        hx.copy(r, hx.global_view(w[b:, :], ((1, 64), (64, 1))))
        if hx.atomic_add(done, 0, 1, order=order, scope=scope) == k - 1:
            hx.fill(total, 0.0)
            for i in range(k):
                hx.copy(hx.global_view(w[i:, :], ((1, 64), (64, 1))), r)
                total += r
            hx.copy(total, hx.global_view(y, ((1, 64), (64, 1))))

    return kernel


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("order", "scope"),
    [("relaxed", "gpu"), ("acquire", "gpu"), ("release", "gpu"), ("acq_rel", "block")],
)
def test_the_last_block_needs_all_of_its_order(
    order: str, scope: str, target: str, seed: int
) -> None:
    x = np.arange(3 * 64, dtype=np.float32).reshape(3, 64)
    arrays = x, np.zeros_like(x), np.zeros(1, np.int32), np.zeros((1, 64), np.float32)
    last("acq_rel").compile(target, aligned=False).simulate(*arrays, seed=seed)
    assert np.array_equal(arrays[3][0], x.sum(0))
    arrays = x, np.zeros_like(x), np.zeros(1, np.int32), np.zeros((1, 64), np.float32)
    wrong = last(order, scope).compile(target, aligned=False)
    report = wrong.simulate(*arrays, seed=seed, check=False)
    assert "race" in {kind for kind, _ in lines(report)}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_synchronises_the_last_block_is_needed(seed: int) -> None:
    """What all threads of a block wrote is handed on by the barrier before the counter, the number
    by the one behind its cell. Of the other two one lies before the only use of the cell, one
    orders nobody whom that barrier has not ordered."""
    thread = last("acq_rel").compile("sm_90", aligned=False).thread
    needed = set()
    for number, (program, gone) in enumerate(mutants(thread)):
        assert gone.name == "bar.sync"
        x = np.arange(3 * 64, dtype=np.float32).reshape(3, 64)
        arrays = {
            "x": x, "w": np.zeros_like(x), "done": np.zeros(1, np.int32),
            "y": np.zeros((1, 64), np.float32),
        }  # fmt: skip
        report = simulate(program, arrays, {"k": 3}, seed=seed, check=False)
        if report.findings:
            needed.add(number)
    assert needed == {0, 2}
