"""Loads that the blocks of a cluster share: which are, how they add up, and the numbers."""

import cluster_kernels as ck
import numpy as np
import pytest
from sm90_reading import prims, value

import hexcute_core as hx
from hexcute_core import i32
from hexcute_core.synthesis.solution import Multicast
from hexcute_core.tile import Copy
from hexcute_core.tile.visit import statements

m = hx.dims("m")


def run(kernel, shape, schedules=2, **constants):
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.full((m, n), 7, np.float16)
    compiled = kernel.compile("sm_90", verify=True, **constants)
    report = compiled.simulate(a, b, c, schedules=schedules)
    assert not report.findings
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    return compiled, report


def shared_loads(compiled):
    """How the loads of each operand are shared, by the tensor they fill."""
    ops = {s.id: s for s in statements(compiled.solution.program.body) if isinstance(s, Copy)}
    return {ops[i].dst.tensor: how for i, how in compiled.solution.multicasts.items()}


@pytest.mark.parametrize("k", [0, 64, 72, 256])
@pytest.mark.parametrize("stages", [1, 3])
def test_blocks_in_a_row_share_b(k, stages):
    compiled, report = run(ck.in_rows, (128, 64, k), STAGES=stages)
    assert shared_loads(compiled) == {"sb": Multicast((0,), 2, 0, 32)}
    used = report.counters.instructions
    assert used.get("tma.load.multicast", 0) == used.get("tma.load", 0) == 2 * -(-k // 64)


def test_ragged_tiles_and_more_than_one_cluster():
    run(ck.in_rows, (300, 136, 136))


def test_four_blocks_share():
    compiled, _ = run(ck.in_rows, (256, 64, 128), X=4)
    assert shared_loads(compiled) == {"sb": Multicast((0,), 4, 0, 16)}


def test_threads_that_read_a_slot_free_it_in_all_blocks():
    run(ck.in_rows, (128, 64, 200), REGISTERS=True)


@pytest.mark.parametrize("k", [64, 200])
def test_blocks_in_a_square_share_both(k):
    compiled, _ = run(ck.in_squares, (128, 128, k))
    assert shared_loads(compiled) == {
        "sa": Multicast((1,), 2, 0, 32),
        "sb": Multicast((0,), 2, 0, 32),
    }


def test_blocks_along_y_alone():
    compiled, _ = run(ck.in_squares, (64, 128, 128), X=1)
    assert shared_loads(compiled) == {"sa": Multicast((1,), 2, 0, 32)}


@pytest.mark.parametrize("shape", [(128, 64, 64), (384, 128, 136)])
def test_clusters_that_stay(shape):
    compiled, _ = run(ck.staying, shape)
    assert shared_loads(compiled) == {"sb": Multicast((0,), 2, 0, 32)}


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("constants", [{}, {"ALIKE": False}, {"WRITES": True}], ids=str)
def test_where_memory_says_what_to_load(constants, added):
    """A number read at one place is one for all blocks, and so is what such numbers add up to,
    unless the kernel writes the parameter."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, 200)).astype(np.float16) for rows in (128, 256))
    c = np.full((128, 256), 7, np.float16)
    compiled = ck.from_a_table.compile("sm_90", verify=True, ADDED=added, **constants)
    order = np.array([2, 0, 3, 1], np.int32)
    assert not compiled.simulate(order, a, b, c, schedules=2).findings
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert shared_loads(compiled) == ({} if constants else {"sb": Multicast((0,), 2, 0, 32)})


def test_blocks_out_of_step_share_nothing():
    compiled, _ = run(ck.out_of_step, (192, 64, 128))
    assert shared_loads(compiled) == {}
    assert "tma.load.multicast: the blocks of a cluster load different tiles" in compiled.explain(
        rejected=None
    )
    assert not prims(compiled.thread, "tma.load.multicast")


def test_parts_that_are_no_whole_swizzles():
    """64 rows in 16 parts would be 4 rows each; in 8, eight of them."""
    compiled = ck.in_rows.compile("sm_90", X=8)
    assert shared_loads(compiled) == {"sb": Multicast((0,), 8, 0, 8)}


def test_arrivals_masks_and_the_end():
    """A slot is emptied by the readers of every block that writes into it; each block writes its
    part into all of its group, which the mask names."""
    thread = ck.in_squares.compile("sm_90", verify=True).thread
    counts = sorted({value(p.operands[1], {}) for p in prims(thread, "mbarrier.init")})
    assert counts == [1, 4], "two blocks along each axis, one warp group each"
    masks = {}
    for prim in prims(thread, "tma.load.multicast"):
        for x in range(2):
            for y in range(2):
                place = {"blockIdx.x": x, "blockIdx.y": y}
                masks.setdefault(prim.operands[1].name[0], {})[x, y] = value(
                    prim.operands[3], place
                )
    # Ranks count x first: block (x, y) is number x + 2 y.
    assert masks["a"] == {(x, y): 0b0101 << x for x in range(2) for y in range(2)}
    assert masks["b"] == {(x, y): 0b0011 << 2 * y for x in range(2) for y in range(2)}
    told = {
        (x, y): sorted(
            value(p.operands[1], {"blockIdx.x": x, "blockIdx.y": y})
            for p in prims(thread, "mbarrier.arrive.cluster")
        )
        for x in range(2)
        for y in range(2)
    }
    assert told == {
        (x, y): sorted([x, x + 2, 2 * y, 2 * y + 1]) for x in range(2) for y in range(2)
    }
    assert [s.name for s in thread.body[-2:]] == ["cluster.arrive", "cluster.wait"]


def test_explained():
    text = ck.in_rows.compile("sm_90").explain()
    assert "tma.load.multicast x1, 8192 bytes, box 64x64, swizzle 128" in text
    assert "of which a block loads 32 for 2 blocks" in text


@hx.kernel(cache=False)
def parting(out: i32[m], *, WAITS: bool = True, MEETS: bool = False):
    """Each block of two arrives at the other's mbarrier, and ends."""
    hx.attrs.cuda.grid_dim, hx.attrs.cuda.block_dim, hx.attrs.cuda.cluster_dim = m, 128, 2
    met = hx.mbarrier(1)
    if hx.threadIdx.x == 0:
        met.arrive(rank=1 - hx.cluster_rank())
    if WAITS:
        met.wait(0)
    r = hx.register_tensor(i32, (1,))
    hx.fill(r, 1)
    hx.copy(r, hx.global_view(out[hx.blockIdx.x :], ((1,), (1,))))
    if MEETS:
        hx.cluster_sync()


@pytest.mark.parametrize("constants", [{}, {"WAITS": False, "MEETS": True}])
def test_a_block_may_end_once_it_knows_who_came(constants):
    out = np.zeros(4, np.int32)
    report = parting.compile("sm_90", **constants).simulate(out, schedules=3)
    assert not report.findings and out.tolist() == [1] * 4


def test_a_block_must_not_end_while_another_reaches_into_it():
    """Under every schedule, also where the arrival happened to come in time."""
    compiled = parting.compile("sm_90", WAITS=False)
    for seed in range(4):
        report = compiled.simulate(np.zeros(4, np.int32), seed=seed, check=False)
        assert {f.kind for f in report.findings} == {"use before wait"}
        told = [str(f) for f in report.findings]
        assert all("has ended" in t or "ends while mbarrier.arrive.cluster" in t for t in told)
        assert all("hx.cluster_sync()" in t for t in told)
