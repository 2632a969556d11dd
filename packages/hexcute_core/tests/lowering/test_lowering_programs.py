"""What lowering adds to a plan: guards, predicates, exchanges, reductions, register orders."""

import numpy as np
import pytest
import tile_builder
import tile_runs

from hexcute_core.backend import emit
from hexcute_core.dtypes import bf16, f8e4m3, f16, f32, f64, i4, i8, i32, i64, u1, u2, u4, u64
from hexcute_core.errors import NoLayout
from hexcute_core.scalar import Const, Var, maximum
from hexcute_core.thread import For, If, Prim
from hexcute_core.toolchain import compile_cubin


def prims(stmts):
    for s in stmts:
        if isinstance(s, Prim):
            yield s
        elif isinstance(s, For):
            yield from prims(s.body)
        elif isinstance(s, If):
            yield from prims((*s.then, *s.otherwise))


def copy_through_shared(shape, dtype, threads):
    b = tile_builder.TileBuilder(threads=threads)
    a, c = b.tile("a", dtype, *shape), b.tile("c", dtype, *shape)
    s, r = b.shared("s", dtype, *shape), b.register("r", dtype, *shape)
    b.copy(a, s)
    b.settle()
    b.copy(s, r)
    b.copy(r, c)
    return b.program()


@pytest.mark.parametrize("shape", [(96, 80), (176, 48), (48, 24), (80, 96), (229, 8), (24, 229)])
@pytest.mark.parametrize("threads", [32, 96, 128, 160])
@pytest.mark.parametrize("dtype", [f16, f32], ids=str)
def test_thread_counts_that_do_not_divide_the_tile(shape, threads, dtype):
    program = copy_through_shared(shape, dtype, threads)
    if (shape, threads, dtype) == ((176, 48), 32, f32):
        with pytest.raises(NoLayout, match="takes 264 registers of each of 32 threads"):
            tile_runs.run(program)
        return
    found = tile_runs.run(program)
    moved = shape[0] * shape[1] * dtype.bits // 8
    # Extra threads neither fetch nor write a second time.
    assert sum(n for name, n in found.counters.bytes.items() if name.startswith("cp")) in (0, moved)
    assert sum(n for name, n in found.counters.bytes.items() if name.startswith("st.g")) == moved


def test_as_many_threads_work_as_divide_the_tile():
    """96 rows of ten vectors on 128 threads: 120 of them find work, eight vectors each."""
    found = tile_runs.run(copy_through_shared((96, 80), f16, 128))
    plan = next(p for p in found.solution.copies.values() if p.row.asynchronous)
    assert plan.row.bytes == 16 and plan.calls == 8
    assert found.counters.bytes["cp.async.16"] == 96 * 80 * 2


@pytest.mark.parametrize("shape, calls", [((229, 8), 2), ((229, 16), 4), ((3, 229), 6)])
def test_extents_that_no_thread_count_divides_are_overhung(shape, calls):
    """229 rows on 128 threads: two rounds, the second for 101 of them."""
    b = tile_builder.TileBuilder(threads=128)
    a, c = b.tile("a", f16, *shape), b.tile("c", f16, *shape)
    r, s, q = b.register("r", f16, *shape), b.shared("s", f16, *shape), b.register("q", f16, *shape)
    b.copy(a, r)
    b.copy(r, s)
    b.sync()
    b.copy(s, q)
    b.copy(q, c)
    found = tile_runs.run(b.program())
    assert not found.solution.fragments["r"].exact
    assert max(p.calls for p in found.solution.copies.values()) <= calls
    assert sum(found.counters.bytes[x] for x in found.counters.bytes if "st.global" in x) == (
        shape[0] * shape[1] * 2
    )


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [f32, i32, f16], ids=str)
def test_what_lies_beyond_a_tile_is_not_reduced(axis, op, dtype):
    b = tile_builder.TileBuilder(threads=128)
    thin = (1, 8) if axis == 0 else (229, 1)
    a, c = b.tile("a", dtype, 229, 8), b.tile("c", dtype, *thin)
    r, t, negative = (
        b.register("r", dtype, 229, 8), b.register("t", dtype, *thin),
        b.register("negative", dtype, 229, 8),
    )  # fmt: skip
    b.copy(a, r)
    # No value is 0, which is what registers beyond the tile hold.
    b.map(negative, Var("$0", dtype) * 2 + (-9 if op != "min" else 9), r)
    b.reduce(negative, t, axis, op)
    b.copy(t, c)
    tile_runs.run(b.program())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("shape", [(16, 64), (96, 5), (24, 80), (229, 3), (1, 48)])
@pytest.mark.parametrize("threads", [32, 128, 160])
def test_reductions_know_replicated_values(shape, axis, op, threads):
    b = tile_builder.TileBuilder(threads=threads)
    thin = tuple(1 if d == axis else e for d, e in enumerate(shape))
    a, c = b.tile("a", f32, *shape), b.tile("c", f32, *thin)
    r, t = b.register("r", f32, *shape), b.register("t", f32, *thin)
    b.copy(a, r)
    b.reduce(r, t, axis, op)
    b.copy(t, c)
    tile_runs.run(b.program())


@pytest.mark.parametrize("dtype", [f16, bf16, i8, i32], ids=str)
def test_narrow_sums_are_accumulated_in_32_bits(dtype):
    b = tile_builder.TileBuilder(threads=64)
    a, c = b.tile("a", dtype, 8, 128), b.tile("c", dtype, 8, 1)
    r, t = b.register("r", dtype, 8, 128), b.register("t", dtype, 8, 1)
    b.copy(a, r)
    b.reduce(r, t, 1, "sum")
    b.copy(t, c)
    tile_runs.run(b.program())


def test_a_reduction_within_a_warp_shuffles_and_one_across_warps_meets():
    def barriers(shape, threads):
        b = tile_builder.TileBuilder(threads=threads)
        a, c = b.tile("a", f32, *shape), b.tile("c", f32, shape[0], 1)
        r, t = b.register("r", f32, *shape), b.register("t", f32, shape[0], 1)
        b.copy(a, r)
        b.reduce(r, t, 1)
        b.copy(t, c)
        return tile_runs.run(b.program()).counters.instructions.get("bar.sync", 0)

    assert barriers((32, 128), 128) == 0
    assert barriers((1, 512), 128) > 0


def test_roles_reduce_side_by_side_in_cells_of_their_own():
    """Two roles of one warp group each, both summing across their warps at once."""
    b = tile_builder.TileBuilder(threads=256)
    for first in (0, 128):
        with b.role(first, 128):
            a, c = b.tile(f"a{first}", f32, 1, 512), b.tile(f"c{first}", f32, 1, 1)
            r, t = b.register(f"r{first}", f32, 1, 512), b.register(f"t{first}", f32, 1, 1)
            b.copy(a, r)
            b.reduce(r, t, 1)
            b.copy(t, c)
    found = tile_runs.run(b.program(), target="sm_90")
    assert "bar.named.sync" in found.counters.instructions


def rearranged(layout, shape=(8, 32), threads=32, dtype=f32):
    b = tile_builder.TileBuilder(threads=threads)
    a, c = b.tile("a", dtype, *shape), b.tile("c", dtype, *shape)
    r, q = b.register("r", dtype, *shape), b.register("q", dtype, *shape)
    b.copy(a, r)
    b.rearrange(r, q, layout)
    b.copy(q, c)
    return tile_runs.run(b.program())


def way(found):
    """How the rearrange goes: renamed, shuffles, or shared memory."""
    if not found.solution.exchanges:
        return "shared"
    (plan,) = found.solution.exchanges.values()
    return "shuffles" if plan.shuffles else "renamed"


def test_the_cheapest_rearrange():
    # r is ((8,4),(4,2)) over (columns of four, rows): thread 8 * i + j holds rows i, i + 4.
    assert way(rearranged("((8,4),(4,2)):((32,1),(8,4))")) == "renamed"
    # Values in another register order are the same layout.
    assert way(rearranged("((8,4),(2,4)):((32,1),(4,8))")) == "renamed"
    # Pairs of lanes trade halves.
    assert way(
        rearranged(
            "((8,4),(2,4)):((16,1),(4,8))".replace("(2,4)):", "(2,2,2)):").replace(
                "(4,8))", "(8,4,128))"
            )
        )
    ) in ("shuffles", "shared")
    assert way(rearranged(None)) == "renamed"
    # Across warps there is shared memory alone.
    found = rearranged("((2,32),4):((128,1),32)", (1, 256), 64)
    assert way(found) == "shared" and found.counters.instructions["bar.sync"] > 0


@pytest.mark.parametrize("layout", [
    "((4,8),(2,4)):((8,32),(4,1))", "(32,8):(8,1)", "((8,4),8):((1,8),32)",
    "((2,16),(2,4)):((4,16),(8,1))",
])  # fmt: skip
def test_any_layout_may_be_asked_for(layout):
    rearranged(layout)
    rearranged(layout, dtype=f16)


@pytest.mark.parametrize("dtype", [i64, u64, f64], ids=str)
def test_elements_of_64_bits_shuffle_in_two_instructions(dtype):
    narrow, wide = (rearranged("((8,4),8):((1,8),32)", dtype=t) for t in (f32, dtype))
    for found, words in ((narrow, 1), (wide, 2)):
        (plan,) = found.solution.exchanges.values()
        assert way(found) == "shuffles"
        assert found.counters.instructions["shfl.idx"] == words * plan.shuffles
    machine = compile_cubin(emit(wide.thread, "sm_80").text, "sm_80")
    assert machine.cubin


def test_a_layout_that_is_none_is_refused_where_it_was_written():
    from hexcute_core.errors import LayoutConflict

    for layout, said in (("(32,4):(8,1)", "every element"), ("nonsense", "thread-value layout")):
        with pytest.raises(LayoutConflict) as caught:
            rearranged(layout)
        assert said in str(caught.value) and caught.value.span.file == tile_builder.FILE


@pytest.mark.parametrize("dtype", [u4, i4, u2, u1, f8e4m3], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_narrow_types_move_wide_and_are_cast_where_they_are(dtype, shared):
    """Wide accesses on both sides, and no exchange before the cast."""
    b = tile_builder.TileBuilder(threads=64)
    shape = (64, 128)
    a, c = b.tile("a", dtype, *shape), b.tile("c", f16, *shape)
    r, wide = b.register("r", dtype, *shape), b.register("wide", f16, *shape)
    if shared:
        s = b.shared("s", dtype, *shape)
        b.copy(a, s)
        b.settle()
        b.copy(s, r)
    else:
        b.copy(a, r)
    b.cast(r, wide)
    b.copy(wide, c)
    found = tile_runs.run(b.program())
    plans = [plan for _, plan in sorted(found.solution.copies.items())]
    assert plans[-1].row.bytes == 16
    if shared:
        assert plans[0].row.bytes == 16
    assert not found.solution.exchanges


@pytest.mark.parametrize("dtype", [u4, u2, u1, i8], ids=str)
def test_narrow_types_transpose_in_registers(dtype):
    b = tile_builder.TileBuilder(threads=32)
    shape = (64, 64)
    a, c = b.tile("a", dtype, *shape), b.tile("c", dtype, *shape, major=(1, 0))
    s, r = b.shared("s", dtype, *shape), b.register("r", dtype, *shape)
    b.copy(a, s)
    b.settle()
    b.copy(s, r)
    b.copy(r, c)
    tile_runs.run(b.program())


def test_a_narrow_tile_inside_a_byte_is_refused():
    b = tile_builder.TileBuilder(threads=32)
    a, c = b.tile("a", u4, 16, 3, extents=(16, 4)), b.tile("c", f16, 16, 3)
    r, wide = b.register("r", u4, 16, 3), b.register("wide", f16, 16, 3)
    b.copy(a, r)
    line = b.line
    b.cast(r, wide)
    b.copy(wide, c)
    with pytest.raises(NoLayout, match="whole number of bytes") as caught:
        tile_runs.run(b.program())
    assert caught.value.span.line == line


def test_shared_memory_may_be_filled():
    b = tile_builder.TileBuilder(threads=64)
    c = b.tile("c", f16, 24, 40)
    s, r = b.shared("s", f16, 24, 40), b.register("r", f16, 24, 40)
    b.fill(s, 3.0, f16)
    b.sync()
    b.copy(s, r)
    b.copy(r, c)
    assert (tile_runs.run(b.program()).outputs["c"] == 3).all()


def test_what_writes_nothing_is_removed():
    b = tile_builder.TileBuilder(threads=64)
    a, c = b.tile("a", f16, 32, 32), b.tile("c", f16, 32, 32)
    r, q, s = b.register("r", f16, 32, 32), b.register("q", f16, 32, 32), b.shared("s", f16, 32, 32)
    dead = b.register("dead", f16, 32, 1)
    b.copy(a, r)
    b.map(q, Var("$0", f16) + Var("$1", f16), r, r)
    b.reduce(q, dead, 1)
    b.copy(q, s)
    b.copy(r, c)
    found = tile_runs.run(b.program())
    assert set(found.solution.fragments) == {"r"} and not found.solution.shared
    assert [p.name for p in prims(found.thread.body)] == ["ld.global.16", "st.global.16"]


def test_a_ragged_edge_is_predicated_and_nothing_outside_is_touched():
    b = tile_builder.TileBuilder(threads=64, symbols=("m", "n"))
    extents = (b.symbol("m"), b.symbol("n"))
    a, c = b.tile("a", f16, 32, 32, extents=extents), b.tile("c", f16, 32, 32, extents=extents)
    s, r = b.shared("s", f16, 32, 32), b.register("r", f16, 32, 32)
    b.copy(a, s)
    b.settle()
    b.copy(s, r)
    b.copy(r, c)
    for m, n in ((32, 32), (17, 5), (1, 1), (31, 33)):
        tile_runs.run(b.program(), {"m": m, "n": n})


def test_copies_of_one_layout_are_loops_over_registers():
    b = tile_builder.TileBuilder(threads=32)
    a, c = b.tile("a", i32, 8, 16), b.tile("c", i32, 8, 16)
    r, q = b.register("r", i32, 8, 16), b.register("q", i32, 8, 16)
    b.copy(a, r)
    b.map(q, maximum(Var("$0", i32), Const(0, i32)), r)
    b.copy(q, c)
    found = tile_runs.run(b.program())
    assert (found.outputs["c"] == np.maximum(found.outputs["a"], 0)).all()


@pytest.mark.parametrize("shape", [(4, 32), (1, 256), (48, 80)], ids=str)
def test_sums_of_64_bits_go_through_shared_memory(shape):
    """A shuffle moves 32 bits."""
    b = tile_builder.TileBuilder(threads=64)
    r, s = b.register("r", i64, *shape), b.register("s", i64, shape[0], 1)
    b.copy(b.tile("a", i64, *shape), r)
    b.reduce(r, s, 1)
    b.copy(s, b.tile("c", i64, shape[0], 1))
    found = tile_runs.run(b.program())
    np.testing.assert_array_equal(found.outputs["c"], found.outputs["a"].sum(1, keepdims=True))
    assert not any(name.startswith("shfl") for name in found.counters.instructions)
