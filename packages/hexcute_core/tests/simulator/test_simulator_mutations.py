"""The pipelined kernels of the repository: each barrier and wait is needed, none is missing."""

from functools import cache

import numpy as np
import pytest
from mutations import mutants

from hexcute_core import bf16, f16, f32
from hexcute_core.driver.simulation import compare_with_tile_program
from hexcute_core.simulator import simulate
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.tile import AsyncCommit, AsyncWait, Sync
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm

ORDERS = [(a, b) for a in "km" for b in "kn"]
SIZES = {"m": 64, "n": 64, "k": 256}
RAGGED = {"m": 72, "n": 56, "k": 88}
CONSTANTS = {"BM": 64, "BN": 64, "BK": 32, "WARPS": 4}


@cache
def compiled(dtype, orders, stages):
    return pipelined_gemm(dtype, *orders).compile("sm_80", **CONSTANTS, STAGES=stages)


def operands(dtype, orders, sizes):
    rng = np.random.default_rng(4)
    rows, columns, depth = sizes["m"], sizes["n"], sizes["k"]
    shapes = [
        (rows, depth) if orders[0] == "k" else (depth, rows),
        (columns, depth) if orders[1] == "k" else (depth, columns),
    ]
    a, b = (rng.integers(-3, 4, shape).astype(storage(dtype)) for shape in shapes)
    return a, b, np.zeros((rows, columns), dtype=storage(dtype))


def product(a, b, orders):
    left, right = a.astype(np.float32), b.astype(np.float32)
    return (left if orders[0] == "k" else left.T) @ (right.T if orders[1] == "k" else right)


def clean(dtype, orders, stages, sizes, schedules):
    a, b, c = operands(dtype, orders, sizes)
    report = compiled(dtype, orders, stages).simulate(a, b, c, schedules=schedules)
    np.testing.assert_array_equal(c, product(a, b, orders).astype(c.dtype))
    assert report.deterministic


@pytest.mark.parametrize("orders", ORDERS)
def test_no_report_on_the_kernel_as_it_is(orders):
    clean(f16, orders, 3, SIZES, schedules=3)


@pytest.mark.parametrize("stages", [2, 4])
def test_no_report_with_other_depths_and_ragged_sizes(stages):
    clean(bf16, ("k", "k"), stages, RAGGED, schedules=2)


@pytest.mark.fuzz
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("dtype", [f16, bf16])
def test_no_report_over_fifty_schedules(dtype, orders, stages):
    clean(dtype, orders, stages, SIZES, schedules=50)


def written(stmts):
    """The places where the author wrote a wait or a barrier."""
    for stmt in stmts:
        if isinstance(stmt, (AsyncCommit, AsyncWait, Sync)):
            yield stmt.span
        for name in ("body", "then", "otherwise"):
            yield from written(getattr(stmt, name, ()))


def every_deletion_is_reported(dtype, orders, stages, seed=0):
    kernel = compiled(dtype, orders, stages)
    a, b, c = operands(dtype, orders, SIZES)
    needed, idle = [], []
    for program, gone in mutants(kernel.thread):
        arrays = {"a": a, "b": b, "c": c}
        report = simulate(program, arrays, SIZES, check=False, seed=seed)
        assert all(f.span is not None for f in report.findings)
        both = [f for f in report.findings if f.other is not None]
        assert bool(both) == bool(report.findings), [str(f) for f in report.findings]
        (needed if both else idle).append(gone)
    assert {"bar.sync", "cp.async.wait", "cp.async.commit"} <= {gone.name for gone in needed}
    # Where shared memory changes hands the compiler waits for copies of its own accord; with two
    # stages the author's last wait has left none.
    assert not {gone.span for gone in idle} & set(written(kernel.tile.body))
    assert [gone.name for gone in idle] == (["cp.async.wait"] if stages == 2 else [])


@pytest.mark.parametrize("orders", ORDERS)
def test_each_deletion_of_a_barrier_or_a_wait_is_reported(orders):
    every_deletion_is_reported(f16, orders, 3)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("dtype", [f16, bf16])
def test_each_deletion_is_reported_under_any_schedule(dtype, orders, stages, seed):
    every_deletion_is_reported(dtype, orders, stages, seed)


HOPPER = {"m": 136, "n": 72, "k": 328}
HOPPER_TILE = {"BM": 128, "BN": 64, "STAGES": 3}


@cache
def hopper(dtype, orders, consumers):
    kernel = warp_specialized_gemm(dtype, *orders, f32)
    return kernel.compile("sm_90", **HOPPER_TILE, CONSUMERS=consumers)


def clean_hopper(dtype, orders, consumers, schedules):
    a, b, _ = operands(dtype, orders, HOPPER)
    c = np.full((HOPPER["m"], HOPPER["n"]), np.nan, dtype=np.float32)
    compiled = hopper(dtype, orders, consumers)
    report, wrong = compare_with_tile_program(compiled, (a, b, c), schedules=schedules)
    assert not wrong
    assert report.deterministic
    np.testing.assert_array_equal(c, product(a, b, orders))


@pytest.mark.parametrize("orders", ORDERS)
def test_no_report_on_the_warp_specialized_kernel(orders):
    clean_hopper(f16, orders, 2, schedules=3)


@pytest.mark.fuzz
@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("dtype", [f16, bf16])
def test_no_report_on_the_warp_specialized_kernel_over_fifty_schedules(dtype, orders, consumers):
    clean_hopper(dtype, orders, consumers, schedules=50)


def every_hopper_deletion_is_reported(orders, consumers, seed):
    sizes = {"m": 128, "n": 64, "k": 512}
    a, b, _ = operands(f16, orders, sizes)
    kernel = hopper(f16, orders, consumers)
    kinds, idle = {}, []
    for program, gone in mutants(kernel.thread):
        arrays = {"a": a, "b": b, "c": np.zeros((128, 64), dtype=np.float32)}
        report = simulate(program, arrays, sizes, check=False, seed=seed)
        kinds.setdefault(gone.name, set()).update(f.kind for f in report.findings)
        if not report.findings:
            idle.append(gone)
    # Where shared memory changes hands the compiler lets the role meet of its own accord; the
    # wait for its products has already told a role of one warp group that all four warps are done.
    assert not {gone.span for gone in idle} & set(written(kernel.tile.body))
    assert [gone.name for gone in idle] == (["bar.named.sync"] if consumers == 1 else [])
    assert kinds["fence.proxy"] == {"missing fence"}
    assert kinds["wgmma.fence"] == {"missing fence"}
    assert kinds["fence.mbarrier"] == {"missing fence"}
    assert "deadlock" in kinds["mbarrier.arrive"]
    assert kinds["tma.wait.read"] == {"use before wait"}
    return kinds


def test_each_deletion_from_the_warp_specialized_kernel_is_reported():
    kinds = every_hopper_deletion_is_reported(("k", "k"), 2, seed=0)
    assert {"mbarrier.wait", "wgmma.wait", "bar.named.sync", "tma.commit"} <= set(kinds)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("orders", ORDERS)
def test_each_hopper_deletion_is_reported_under_any_schedule(orders, consumers, seed):
    every_hopper_deletion_is_reported(orders, consumers, seed)


# Kernels whose blocks stay, whose warp groups take turns, whose blocks share loads: several tiles
# a block, more slots than the ring has.
STAYING = {
    "persistent": ({"BM": 128, "SCHEDULE": "persistent"}, {"m": 384, "n": 256, "k": 200}),
    "pingpong": ({"BM": 64, "SCHEDULE": "pingpong"}, {"m": 192, "n": 320, "k": 200}),
    "cluster": ({"BM": 128, "CLUSTER_M": 2}, {"m": 256, "n": 64, "k": 512}),
    "staying cluster": (
        {"BM": 128, "CLUSTER_N": 2, "SCHEDULE": "persistent"}, {"m": 256, "n": 384, "k": 200}
    ),
    "cluster in turns": (
        {"BM": 64, "CLUSTER_M": 2, "SCHEDULE": "pingpong"}, {"m": 384, "n": 192, "k": 200}
    ),
}  # fmt: skip


def staying(name):
    constants, sizes = STAYING[name]
    kernel = warp_specialized_gemm(f16, "k", "k", f32)
    return kernel.compile("sm_90", BN=64, STAGES=3, **constants), sizes


def clean_staying(name, schedules):
    compiled, sizes = staying(name)
    a, b, _ = operands(f16, ("k", "k"), sizes)
    c = np.full((sizes["m"], sizes["n"]), np.nan, dtype=np.float32)
    assert compiled.simulate(a, b, c, schedules=schedules).deterministic
    np.testing.assert_array_equal(c, product(a, b, ("k", "k")))


def every_staying_deletion_is_reported(name, seed):
    compiled, sizes = staying(name)
    a, b, _ = operands(f16, ("k", "k"), sizes)
    idle = []
    for program, gone in mutants(compiled.thread):
        arrays = {"a": a, "b": b, "c": np.zeros((sizes["m"], sizes["n"]), dtype=np.float32)}
        if not simulate(program, arrays, sizes, check=False, seed=seed).findings:
            idle.append(gone)
    assert not idle


def test_each_deletion_from_a_cluster_is_reported():
    every_staying_deletion_is_reported("cluster", 0)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", STAYING)
def test_each_deletion_from_blocks_that_stay_is_reported(name, seed):
    every_staying_deletion_is_reported(name, seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", STAYING)
def test_no_report_on_blocks_that_stay_over_fifty_schedules(name):
    clean_staying(name, schedules=50)
