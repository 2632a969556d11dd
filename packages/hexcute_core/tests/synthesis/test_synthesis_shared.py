"""M = S o m: demands, unification, bijections, one swizzle over all copies."""

from itertools import product

import pytest
import tile_builder
import tile_runs

from cute_layout import PartialLayout, UnificationError, unify
from hexcute_core.arch import Mode, arch
from hexcute_core.dtypes import f16, f32
from hexcute_core.errors import NoLayout, SourceSpan
from hexcute_core.scalar import Const
from hexcute_core.synthesis.shared import SharedUse, constraint, synthesize_shared
from hexcute_core.synthesis.solution import CopyPlan, Rep
from hexcute_core.tile import SharedTensor, TileRef

SPAN = SourceSpan("program.py", 1)
ROWS = {row.name: row for row in arch("sm_80").copies}


def use(op, name, shape, thread, run, reps=(), kept=None):
    kept = kept or tuple(range(len(shape)))
    ref = TileRef("s", (Const(0, tile_builder.i32),) * len(shape), shape, kept)
    width = 1
    for m in run:
        width *= m.size
    plan = CopyPlan(ROWS[name], None, thread, run, reps, (0,), width)
    return SharedUse(op, ref, ((0,),) * len(shape), plan, 1.0)


def offsets(layout):
    """Every element's offset, by coordinate."""
    found = {}
    for c in product(*(range(e) for e in layout.shape)):
        plain = layout.layout(*c)
        found[c] = layout.swizzle(plain) if layout.swizzle is not None else plain
    return found


def test_the_demand_of_a_vector_is_the_papers_partial_layout():
    tensor = SharedTensor("s", f16, (64, 64), SPAN)
    row_major = use(1, "st.shared.16", (64, 64), (Mode(64, 1, 0),), (Mode(8, 1, 0),))
    found = constraint(tensor, row_major.ref, row_major.plan)
    # ((8, 8), 64) : ((1, D1), D2).
    assert str(found.shape) == "((8, 8), 64)"
    assert found.stride[0][0] == 1 and not isinstance(found.stride[0][1], int)


def test_the_papers_unification():
    first = PartialLayout(((8, 8), 64), ((1, None), None))
    later = PartialLayout(((8, 2, 4), 64), ((None, None, 8), None))
    merged = unify(first, later)
    assert merged.shape[0] == (8, 2, 4)
    assert (merged.stride[0][0], merged.stride[0][2]) == (1, 8)
    with pytest.raises(UnificationError):
        unify(PartialLayout((8, 8), (1, None)), PartialLayout((8, 8), (None, 1)))


def test_neither_row_nor_column_major_comes_out_of_unification():
    """A 16-byte run along one dimension; another whose run is two rows of four columns."""
    tensor = SharedTensor("s", f16, (32, 32), SPAN)
    rows = use(1, "ld.shared.8", (32, 32), (Mode(8, 4, 1), Mode(4, 1, 0)), (Mode(4, 1, 1),))
    blocks = use(2, "ld.shared.16", (32, 32), (Mode(8, 4, 1), Mode(4, 2, 0)),
                 (Mode(4, 1, 1), Mode(2, 1, 0)))  # fmt: skip
    layout = synthesize_shared(tensor, [rows, blocks])
    assert not isinstance(layout, str), layout
    table = {c: layout.layout(*c) for c in product(range(32), range(32))}
    assert sorted(table.values()) == list(range(1024))
    # Four along a row, then the row below, then on: rows and columns interleave.
    assert [table[at] - table[0, 0] for at in ((0, 1), (0, 3), (1, 0), (1, 3))] == [1, 3, 4, 7]
    row_major = all(table[i, j] == 32 * i + j for i, j in table)
    column_major = all(table[i, j] == 32 * j + i for i, j in table)
    assert not row_major and not column_major


def test_two_runs_along_different_dimensions_have_no_layout():
    tensor = SharedTensor("s", f16, (32, 32), SPAN)
    found = synthesize_shared(tensor, [
        use(1, "ld.shared.16", (32, 32), (Mode(32, 1, 0),), (Mode(8, 1, 1),)),
        use(2, "ld.shared.16", (32, 32), (Mode(32, 1, 1),), (Mode(8, 1, 0),)),
    ])  # fmt: skip
    assert isinstance(found, str) and "two elements share an offset" in found


@pytest.mark.parametrize("shape", [(96, 80), (176, 48), (24, 24), (229, 8), (8, 229), (5, 7)])
def test_tiles_of_any_size_get_a_bijection(shape):
    first = 1 if shape[1] % 8 == 0 else 0
    width = 8 if shape[first] % 8 == 0 else 1
    run = (Mode(width, 1, first),) if width > 1 else ()
    name = {8: "st.shared.16", 1: "st.shared.2"}[width]
    rest = shape[first] // width
    thread = (Mode(rest, width, first), Mode(shape[1 - first], 1, 1 - first))
    found = synthesize_shared(
        SharedTensor("s", f16, shape, SPAN), [use(1, name, shape, thread, run)]
    )
    assert sorted(offsets(found).values()) == list(range(shape[0] * shape[1]))


@pytest.mark.parametrize("rows, depth, threads", [(32, 128, 32), (128, 32, 128), (128, 32, 64)])
def test_ldmatrix_trans_on_an_m_major_tile_has_no_conflicts(rows, depth, threads):
    b = tile_builder.TileBuilder(threads=threads)
    a, c = b.tile("a", f16, rows, depth, major=(1, 0)), b.tile("c", f32, rows, 16)
    sa, sb = b.shared("sa", f16, rows, depth), b.shared("sb", f16, 16, depth)
    gb = b.tile("b", f16, 16, depth)
    ra, rb, rc = (
        b.register("ra", f16, rows, depth),
        b.register("rb", f16, 16, depth),
        b.register("rc", f32, rows, 16),
    )
    b.copy(a, sa)
    b.copy(gb, sb)
    b.settle()
    b.copy(sa, ra)
    b.copy(sb, rb)
    b.fill(rc, 0.0, f32)
    b.gemm(rc, ra, rb)
    b.copy(rc, c)
    found = tile_runs.run(b.program())
    names = [plan.name for _, plan in sorted(found.solution.copies.items())]
    assert names[:3] == ["cp.async.16", "cp.async.16", "ldmatrix.x4.trans"]
    assert names[3] in ("ldmatrix.x4", "ld.shared.16")
    for layout in found.solution.shared.values():
        assert all(have == least for have, least in layout.wavefronts.values())
    # The lanes agree: as many wavefronts as 128 bytes a clock need.
    for name in names[2:4]:
        assert found.counters.wavefronts[name] * 128 == found.counters.bytes[name]


@pytest.mark.parametrize("source", [(0, 1), (1, 0)])
@pytest.mark.parametrize("target", [(0, 1), (1, 0)])
def test_copying_through_shared_memory_moves_16_bytes_without_conflicts(source, target):
    b = tile_builder.TileBuilder(threads=128)
    a, c = b.tile("a", f16, 128, 128, major=source), b.tile("c", f16, 128, 128, major=target)
    s, r = b.shared("s", f16, 128, 128), b.register("r", f16, 128, 128)
    b.copy(a, s)
    b.settle()
    b.copy(s, r)
    b.copy(r, c)
    found = tile_runs.run(b.program())
    first, _, last = (plan for _, plan in sorted(found.solution.copies.items()))
    assert first.row.bytes == last.row.bytes == 16
    waves = found.solution.shared["s"].wavefronts
    assert all(have == least for have, least in waves.values())


def test_wavefronts_of_the_cost_model_are_those_of_the_lanes():
    b = tile_builder.TileBuilder(threads=32)
    a, c = b.tile("a", f32, 32, 32), b.tile("c", f32, 32, 32, major=(1, 0))
    s, r, q = b.shared("s", f32, 32, 32), b.register("r", f32, 32, 32), b.register("q", f32, 32, 32)
    b.copy(a, r)
    b.copy(r, s)
    b.sync()
    b.copy(s, q)
    b.copy(q, c)
    found = tile_runs.run(b.program())
    plans = found.solution.copies
    layout = found.solution.shared["s"]
    for op, (waves, _) in layout.wavefronts.items():
        assert found.counters.wavefronts[plans[op].name] == waves


@pytest.mark.parametrize("at", [0, 16, 24, 31, 48])
def test_a_slice_may_begin_anywhere(at):
    """Nothing is known of the start, so no access is wider than an element."""
    b = tile_builder.TileBuilder(threads=32, symbols=("at",))
    a, c = b.tile("a", f16, 64, 32, major=(1, 0)), b.tile("c", f16, 16, 32, major=(1, 0))
    s, r = b.shared("s", f16, 64, 32), b.register("r", f16, 16, 32)
    b.copy(a, s)
    b.settle()
    b.copy(b.part(s, (b.symbol("at"), 16), None), r)
    b.copy(r, c)
    found = tile_runs.run(b.program(), {"at": at})
    plans = [plan for _, plan in sorted(found.solution.copies.items())]
    assert plans[0].row.bytes == 16
    assert all(m.dim == 1 for m in plans[1].run)


def test_a_block_with_too_much_shared_memory_is_told_the_resource():
    b = tile_builder.TileBuilder(threads=512)
    a, c = b.tile("a", f32, 256, 256), b.tile("c", f32, 256, 256)
    s, r = b.shared("s", f32, 256, 256), b.register("r", f32, 256, 256)
    b.copy(a, s)
    b.settle()
    b.copy(s, r)
    b.copy(r, c)
    with pytest.raises(NoLayout, match="262144 bytes of shared memory"):
        tile_runs.run(b.program())


def test_reps_do_not_change_the_demand():
    tensor = SharedTensor("s", f16, (64, 64), SPAN)
    plain = use(1, "ld.shared.16", (64, 64), (Mode(64, 1, 0),), (Mode(8, 1, 1),))
    repeated = use(2, "ld.shared.16", (64, 64), (Mode(64, 1, 0),), (Mode(8, 1, 1),),
                   (Rep(8, 8, 1, 8),))  # fmt: skip
    assert len({str(constraint(tensor, u.ref, u.plan)) for u in (plain, repeated)}) == 1
