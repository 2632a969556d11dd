"""Thread programs of the Hopper GEMM: every element of an instruction's operand is found where its
descriptor says, every box of TMA writes where the layout says, counts and bytes add up."""

import numpy as np
import pytest
import view_kernels
from sm90_reading import (
    WGMMA,
    branch_of,
    canonical,
    locals_of,
    loops_at_zero,
    lowered,
    prims,
    swizzled,
    value,
    walk,
)

import hexcute_core as hx
from hexcute_core import bf16, f8e4m3, f8e5m2, f16, i8, i32, tf32, u8
from hexcute_core.scalar import Const, free_vars
from hexcute_core.thread import If, MatrixDesc, Prim, Regs, SharedPtr
from hexcute_core.tile import Copy
from hexcute_core.tile.visit import statements
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm

M, N, K = 1024, 1024, 512
"""A problem of which block 0 has whole tiles."""

ORDERS = [("k", "k"), ("k", "n"), ("m", "k"), ("m", "n")]
TILES = [
    {"BM": 64, "BN": 64, "BK": 64, "STAGES": 2, "CONSUMERS": 1},
    {"BM": 128, "BN": 96, "BK": 64, "STAGES": 3, "CONSUMERS": 2},
    {"BM": 192, "BN": 48, "BK": 32, "STAGES": 2, "CONSUMERS": 3},
    {"BM": 128, "BN": 256, "BK": 64, "STAGES": 4, "CONSUMERS": 2},
    {"BM": 256, "BN": 128, "BK": 16, "STAGES": 2, "CONSUMERS": 2},
    {"BM": 128, "BN": 264, "BK": 64, "STAGES": 2, "CONSUMERS": 2},
]
TYPES = [
    (f16, "k", "k", 64), (bf16, "m", "n", 64), (tf32, "k", "k", 32), (f8e4m3, "k", "k", 128),
    (f8e5m2, "k", "k", 64), (i8, "k", "k", 128), (u8, "k", "k", 32),
]  # fmt: skip


def constants_id(constants):
    return "x".join(str(constants[name]) for name in ("BM", "BN", "BK"))


def block_zero():
    return {"blockIdx.x": 0, "m": M, "n": N, "k": K}


def coordinate(fragment, thread, register):
    """Tile coordinate of a thread's register, digit by digit."""
    at = [0] * len(fragment.shape)
    for modes, index in ((fragment.thread, thread), (fragment.value, register)):
        for mode in modes:
            at[mode.dim] += index % mode.size * mode.step
            index //= mode.size
    return tuple(at)


def arena_start(low, tensor):
    """The first byte of a buffer that TMA fills: its least address in slot 0."""
    spans = {
        stmt.span
        for stmt in statements(low.solution.program.body)
        if isinstance(stmt, Copy) and stmt.dst.tensor == tensor
    }
    known = {**block_zero(), **loops_at_zero(low.thread), "s": 0}
    loads = [p for p in prims(low.thread, "tma.load") if p.span in spans]
    return min(value(p.operands[0].offset, known) for p in loads)


def check_descriptors(low, slot):
    """All operands of all products of all warp groups, element by element."""
    solution, thread = low.solution, low.thread
    (plan,) = solution.wgmmas.values()
    starts = {name: arena_start(low, name) for name in ("sa", "sb")}
    threads = thread.block_dim - 128
    consumers = branch_of(thread, 128)
    products = [s for s in walk(consumers) if getattr(s, "name", "").startswith("wgmma.64x")]
    waited = next(s.var.name for s in walk(consumers) if "pipe_wait_slot" in str(
        getattr(s, "value", "")) and s.declares)  # fmt: skip
    steps_seen = {}
    covered = set()
    for group in range(threads // 128):
        first_thread = {"threadIdx.x": 128 * (group + 1), waited: slot}
        known = locals_of(thread, **block_zero(), **first_thread)
        for prim in products:
            n, k, _, a_type, _, a_major, b_major = WGMMA.fullmatch(prim.name).groups()
            c, a, b, accumulate = prim.operands
            assert isinstance(c, Regs) and accumulate == Const(True, accumulate.dtype)
            # Thread 0 of a warp group holds the first row and column of its product.
            first = value(c.offset, known) + c.pieces[0]
            row, column = coordinate(solution.fragments["rc"], 128 * group, first)
            step = steps_seen.get((group, first), 0)
            steps_seen[group, first] = step + 1
            depth = step * int(k)
            covered.add((group, row, column, depth))
            sides = (("sa", a, a_major, 64, row), ("sb", b, b_major, int(n), column))
            for name, desc, major, rows, at in sides:
                assert isinstance(desc, MatrixDesc)
                assert low.dtype(name).name == a_type
                size = low.dtype(name).bits // 8
                start = value(desc.offset, known)
                assert start % 16 == 0
                for r in range(rows):
                    for x in range(int(k)):
                        offset = canonical(r, x, major, size, desc.leading, desc.stride,
                                           desc.swizzle)  # fmt: skip
                        read = swizzled(start + offset, desc.swizzle)
                        lies = starts[name] + low.element(name, at + r, depth + x, slot)
                        assert read == lies, (name, r, x, desc)
    shape = solution.program.tensor("sa").shape[0], solution.program.tensor("sb").shape[0]
    depth = solution.program.tensor("sa").shape[1]
    width = plan.row.tile[1]
    assert {(r, c, d) for _, r, c, d in covered} == {
        (r, c, d)
        for r in range(0, shape[0], 64)
        for c in range(0, shape[1], width)
        for d in range(0, depth, plan.row.tile[2])
    }, "the products cover the tile, each part once"
    assert len(covered) == len(products) * threads // 128


def check_boxes(low, orders, slot):
    """Every element of every box: TMA writes it compactly, innermost dimension first, swizzled."""
    thread = low.thread
    maps = {m.name: m for m in thread.maps}
    for tensor, param, order in (("sa", "a", orders[0]), ("sb", "b", orders[1])):
        size = low.dtype(tensor).bits // 8
        start = arena_start(low, tensor)
        rows, depth, _ = low.solution.program.tensor(tensor).shape
        written = {}
        for prim in prims(thread, "tma.load"):
            box = maps[prim.operands[1].name]
            if box.param != param:
                continue
            for place in repeats(thread, prim):
                known = locals_of(thread, **{**block_zero(), "i": 0, "s": slot, **place})
                first = value(prim.operands[0].offset, known)
                corner = [value(e, known) for e in prim.operands[1].coords]
                assert first % (8 * max(box.swizzle, 16)) == 0, "the swizzle starts at the box"
                assert box.box[1] * size <= (box.swizzle or 512) and max(box.box) <= 256
                for y in range(box.box[0]):
                    for x in range(box.box[1]):
                        at = corner[0] + y, corner[1] + x
                        row, k = at if order == "k" else at[::-1]
                        to = swizzled(first + (y * box.box[1] + x) * size, box.swizzle)
                        assert to == start + low.element(tensor, row, k, slot)
                        assert (row, k) not in written, "an element comes once"
                        written[row, k] = to
        assert set(written) == {(r, x) for r in range(rows) for x in range(depth)}


def repeats(thread, prim):
    """The values of the unrolled loops around a box."""
    loops = []

    def find(body, around):
        for stmt in body:
            if stmt is prim:
                loops.extend(around)
            inner = [*around, stmt] if getattr(stmt, "unroll", False) else around
            for name in ("body", "then", "otherwise"):
                find(getattr(stmt, name, ()), inner)

    find(thread.body, [])
    places = [{}]
    for loop in loops:
        steps = range(int(loop.start.value), int(loop.stop.value), int(loop.step.value))
        places = [{**p, loop.var.name: i} for p in places for i in steps]
    return places


@pytest.mark.parametrize("orders", ORDERS, ids="".join)
@pytest.mark.parametrize("constants", TILES[:-1], ids=constants_id)
def test_operands_lie_where_descriptors_and_boxes_say(constants, orders):
    low = lowered(warp_specialized_gemm(f16, *orders), **constants)
    slot = constants["STAGES"] - 1
    check_boxes(low, orders, slot)
    check_descriptors(low, slot)


def test_a_tile_of_more_rows_than_a_box_holds():
    low = lowered(warp_specialized_gemm(f16), **TILES[-1])
    assert {m.box for m in low.thread.maps if m.param == "b"} == {(88, 64)}
    check_boxes(low, ("k", "k"), 1)
    check_descriptors(low, 1)


@pytest.mark.parametrize("dtype, a_major, b_major, depth", TYPES, ids=lambda x: str(x))
def test_operands_of_every_type(dtype, a_major, b_major, depth):
    kernel = warp_specialized_gemm(dtype, a_major, b_major)
    low = lowered(kernel, BM=128, BN=80 if dtype.bits > 8 else 96, BK=depth, STAGES=2)
    check_boxes(low, (a_major, b_major), 1)
    check_descriptors(low, 1)


def inits(thread):
    """Arrivals of every mbarrier, by its address."""
    return {
        value(p.operands[0].offset, {}): value(p.operands[1], {})
        for p in prims(thread, "mbarrier.init")
    }


def addresses(thread, name, slot_variable):
    """The mbarriers that primitives `name` use, for slots 0 and 1."""
    found = set()
    for prim in prims(thread, name):
        (variable,) = [v for v in variables(prim.operands[0]) if v.startswith(slot_variable)]
        found.add(tuple(value(prim.operands[0].offset, {variable: s}) for s in (0, 1)))
    return found


def variables(pointer):
    return free_vars(pointer.offset)


@pytest.mark.parametrize("constants", TILES, ids=constants_id)
def test_arrivals_and_bytes(constants):
    low = lowered(warp_specialized_gemm(f16), **constants)
    thread, stages = low.thread, constants["STAGES"]
    counts = inits(thread)
    assert len(counts) == 2 * stages and all(at % 8 == 0 for at in counts)
    ((full, next_full),) = addresses(thread, "mbarrier.expect", "pipe_produce")
    waits = prims(thread, "mbarrier.wait")
    empties = [w for w in waits if "produce" in str(variables(w.operands[0]))]
    (empty_wait,) = empties
    (slot,) = variables(empty_wait.operands[0])
    empty = value(empty_wait.operands[0].offset, {slot: 0})
    assert next_full - full == 8, "slot by slot"
    assert {counts[full + 8 * s] for s in range(stages)} == {1}, "one thread announces the bytes"
    assert {counts[empty + 8 * s] for s in range(stages)} == {constants["CONSUMERS"]}
    ((released, _),) = addresses(thread, "mbarrier.arrive", "pipe_release")
    assert released == empty
    (expect,) = prims(thread, "mbarrier.expect")
    maps = {m.name: m for m in thread.maps}
    boxes = 0
    for prim in prims(thread, "tma.load"):
        box = maps[prim.operands[1].name].box
        boxes += len(repeats(thread, prim)) * box[0] * box[1] * 2
        assert value(prim.operands[2].offset, {slot: 0}) == full
    whole = (constants["BM"] + constants["BN"]) * constants["BK"] * 2
    assert value(expect.operands[1], {}) == boxes == whole


def test_one_thread_of_a_group_frees_a_slot_that_wgmma_alone_reads():
    low = lowered(warp_specialized_gemm(f16), BM=128, BN=64, STAGES=2)
    arrive = prims(low.thread, "mbarrier.arrive")[0]
    guards = [s for s in walk(low.thread.body) if isinstance(s, If) and arrive in s.then]
    (guard,) = guards
    freeing = [
        t
        for t in range(128, 384)
        if value(guard.cond, locals_of(low.thread, **{"threadIdx.x": t, "blockIdx.x": 0}))
    ]
    assert freeing == [128, 256]


def test_threads_that_fill_a_slot_arrive_warp_by_warp():
    """Without alignment there is no TMA: four arrivals, no bytes, written before the barrier."""
    compiled = warp_specialized_gemm(f16).compile(
        "sm_90", aligned=False, verify=True, BM=64, BN=64, STAGES=2, CONSUMERS=1
    )
    thread = compiled.thread
    assert not prims(thread, "mbarrier.expect") and not prims(thread, "tma.load")
    assert sorted(inits(thread).values()) == [1, 1, 4, 4]
    names = [p.name for p in walk(branch_of(thread, 0)) if hasattr(p, "operands")]
    arrive = names.index("mbarrier.arrive")
    assert names[arrive - 2] == "fence.proxy", "what threads wrote is read by wgmma"
    assert names[arrive - 1] == "bar.warp.sync", "one lane arrives for its warp"
    assert any(name.startswith("st.shared") for name in names[:arrive])


def test_copies_that_threads_only_start_arrive_by_themselves():
    """Eight bytes at a time there is no TMA. Threads read the slots, so nobody waits for a fence:
    each thread's copies arrive, and so does each warp that has read."""
    view = view_kernels.View((20, 64), (9, 60), (((16, 1, 0),), ((64, 1, 1),)))
    thread = view_kernels.loads(f16, view)["pipeline"].compile("sm_90", verify=True).thread
    names = [s.name for s in walk(thread.body) if isinstance(s, Prim)]
    started = names.index("cp.async.mbarrier")
    assert any(name.startswith("cp.async.8") for name in names[:started])
    assert not {"cp.async.wait", "fence.proxy"} & {*names}
    assert names.count("mbarrier.arrive") == 1 and "mbarrier.expect" not in names
    assert sorted(inits(thread).values()) == [4, 4, 128, 128]


def test_boxes_are_asked_for_before_what_threads_copy():
    """Rows that numbers name take the threads' time; TMA works meanwhile."""

    def mixed(a: f16[64, 64], b: f16[64, 64], c: f16[64, 64]):
        hx.attrs.cuda.grid_dim = 1
        rows, pipe = hx.shared_tensor(i32, (64,)), hx.pipeline(2)
        sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
        with hx.warp_groups_producer():
            hx.copy(hx.iota((64,), 0), rows)
            hx.sync_role()
            with pipe.produce() as s:
                hx.copy(hx.global_view(a, ((64, 64), (rows, 1))), sa[:, :, s])
                hx.copy(hx.global_view(b, ((64, 64), (64, 1))), sb[:, :, s])
        with hx.warp_groups_consumer():
            r, other = hx.register_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
            with pipe.consume() as s:
                hx.copy(sa[:, :, s], r)
                hx.copy(sb[:, :, s], other)
            hx.copy(r + other, hx.global_view(c, ((64, 64), (64, 1))))

    compiled = hx.kernel(mixed, cache=False).compile("sm_90", verify=True)
    names = [s.name for s in walk(compiled.thread.body) if isinstance(s, Prim)]
    order = [names.index(x) for x in ("mbarrier.expect", "tma.load", "cp.async.16")]
    assert order == sorted(order)
    a = np.arange(64 * 64, dtype=np.float16).reshape(64, 64) % 32
    c = np.zeros_like(a)
    assert not compiled.simulate(a, a + 1, c, schedules=4).findings
    np.testing.assert_array_equal(c, 2 * a + 1)


def test_pointers_of_barriers_are_inside_the_arena():
    low = lowered(warp_specialized_gemm(f16), BM=64, BN=64, STAGES=3, CONSUMERS=1)
    for prim in prims(low.thread, "mbarrier.init"):
        pointer = prim.operands[0]
        assert isinstance(pointer, SharedPtr)
        assert 0 <= value(pointer.offset, {}) <= low.thread.shared_bytes - 8
