"""copy(a, b): every plan's equation against function tables, and the paper's worked example."""

from itertools import product

import pytest

from cute_layout import Layout
from hexcute_core.arch import Fragment, Mode, arch
from hexcute_core.arch.linear import from_linear, modes_to_layout, to_linear
from hexcute_core.synthesis.coalesced import coalesced, vector_that_spreads
from hexcute_core.synthesis.copies import Rejection, memory_copies, register_copies
from hexcute_core.synthesis.memory import GlobalTile
from hexcute_core.synthesis.solution import CopyPlan

SM80 = arch("sm_80")
# g = ((4,8),(2,2,2)):((32,1),(16,8,256)) over a 16x32 tile.
G = Fragment(
    (16, 32), (Mode(4, 2, 1), Mode(8, 1, 0)), (Mode(2, 1, 1), Mode(2, 8, 0), Mode(2, 16, 1))
)


def digits(index, modes, rank):
    out = [0] * rank
    for m in modes:
        out[m.dim] += index % m.size * m.step
        index //= m.size
    return tuple(out)


def plans(g, bits=16, load=True, memory=None):
    return [c for c in register_copies(SM80, g, bits, memory, load) if not isinstance(c, Rejection)]


def by_name(found, name):
    return next(c for c in found if c.name == name)


def test_the_paper_example_of_ldmatrix():
    assert to_linear(G) == Layout((4, 8, 2, 2, 2), (32, 1, 16, 8, 256))
    plan = by_name(plans(G), "ldmatrix.x4")
    # g o q^-1 = ((8,2,2),(2,4)):((1,8,256),(16,32)): row 17, column 5 is element (1, 21).
    rows = modes_to_layout(plan.thread, G.shape)
    columns = modes_to_layout(plan.run, G.shape)
    expected = Layout(((8, 2, 2), (2, 4)), ((1, 8, 256), (16, 32)))
    assert all(rows(r) + columns(c) == expected(r, c) for r in range(32) for c in range(8))
    assert rows(17) + columns(5) == 337
    assert digits(17, plan.thread, 2)[0] + digits(5, plan.run, 2)[0] == 1
    assert digits(17, plan.thread, 2)[1] + digits(5, plan.run, 2)[1] == 21


def moves(plan, threads, rank):
    """(thread, register) -> tile coordinate, from what the PTX manual says of the instruction."""
    table = {}
    registers = [p + w for p in plan.pieces for w in range(plan.width)]
    for picks in product(*(range(r.size) for r in plan.reps)):
        reg = sum(p * r.reg for p, r in zip(picks, plan.reps))
        move = [0] * rank
        for p, r in zip(picks, plan.reps):
            move[r.dim] += p * r.step
        for t in range(threads):
            for i, register in enumerate(registers):
                if plan.row.access == "vector":
                    lane, column = t, i
                else:
                    matrix, w = divmod(i, plan.width)
                    row, word = divmod(t % 32, 4)
                    column = word * plan.width + w
                    if plan.name.endswith("trans"):
                        row, column = 2 * word + w, row
                    lane = t - t % 32 + 8 * matrix + row
                at = [digits(lane, plan.thread, rank), digits(column, plan.run, rank), move]
                table[t, reg + register] = tuple(map(sum, zip(*at)))
    return table


FRAGMENTS = [
    G,
    # f_A of mma.16x8x16, two rows of warps, 2 x 2 repetitions.
    Fragment(
        (64, 32),
        (Mode(4, 2, 1), Mode(8, 1, 0), Mode(2, 32, 0)),
        (Mode(2, 1, 1), Mode(2, 8, 0), Mode(2, 8, 1), Mode(2, 16, 0), Mode(2, 16, 1)),
    ),
    # The same with words along rows.
    Fragment(
        (32, 16),
        (Mode(4, 2, 0), Mode(8, 1, 1)),
        (Mode(2, 1, 0), Mode(2, 8, 0), Mode(2, 8, 1), Mode(2, 16, 0)),
    ),
    coalesced((32, 64), (1, 0), 8, 64),
    coalesced((48, 24), (0, 1), 4, 32),
    coalesced((96, 80), (1, 0), 8, 128),
    coalesced((5, 7), (1, 0), 1, 32),
]


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("load", [True, False])
@pytest.mark.parametrize("g", FRAGMENTS, ids=str)
def test_a_plan_moves_each_register_from_the_element_it_stands_for(g, load, bits):
    found = plans(g, bits, load)
    assert found, "scalar accesses always fit"
    for plan in found:
        table = moves(plan, g.threads, len(g.shape))
        assert len(table) == g.threads * g.values, plan.name
        for (t, v), place in table.items():
            assert g.coord(t, v) == place, (plan.name, t, v)


def test_the_matrix_loads_that_fit_are_found():
    found = plans(FRAGMENTS[1])
    # K-major memory: rows of the matrices run along K; M-major: along M, transposed on the way.
    straight, turned = by_name(found, "ldmatrix.x4"), by_name(found, "ldmatrix.x4.trans")
    assert (straight.calls, {m.dim for m in straight.run}) == (4, {1})
    assert (turned.calls, {m.dim for m in turned.run}) == (4, {0})


def test_a_refused_instruction_says_why():
    refused = {c.name: c.reason for c in register_copies(SM80, FRAGMENTS[-1], 16, None, True)
               if isinstance(c, Rejection)}  # fmt: skip
    assert "consecutive elements" in refused["ld.shared.16"]
    assert "ld.shared.1" not in refused, "half an element is no candidate"


@pytest.mark.parametrize("shape", [(128, 32), (96, 80), (176, 48), (24, 24), (229, 8), (7, 5)])
@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_copies_between_memories_cover_the_tile(shape, order):
    first = order[0]
    vector = 8
    while shape[first] % vector:
        vector //= 2
    memory = GlobalTile(tuple((Mode(e, 1, d),) for d, e in enumerate(shape)), first, vector, order)
    found = list(memory_copies(SM80, shape, 16, memory, 128, load=True))
    good = [c for c in found if not isinstance(c, Rejection)]
    assert max(p.row.bytes for p in good) == 2 * vector
    for plan in good:
        run = 1
        for m in plan.run:
            run *= m.size
        reached = {
            tuple(map(sum, zip(digits(t, plan.thread, 2), digits(i, plan.run, 2),
                               *(tuple(p * r.step if d == r.dim else 0 for d in range(2))
                                 for p, r in zip(picks, plan.reps)))))
            for t in range(128)
            for i in range(run)
            for picks in product(*(range(r.size) for r in plan.reps))
        }  # fmt: skip
        # What is reached beyond the tile is left alone when the program runs.
        within = {c for c in reached if all(i < e for i, e in zip(c, shape))}
        assert within == set(product(range(shape[0]), range(shape[1])))


def test_values_side_by_side_in_registers_may_be_side_by_side_in_shared_memory():
    found = [p for p in plans(FRAGMENTS[1]) if p.name == "ld.shared.16"]
    assert [str(m) for m in found[0].run] == ["2:1@1", "2:8@0", "2:8@1"]
    # Global memory has its own order.
    memory = GlobalTile(((Mode(64, 1, 0),), (Mode(32, 1, 1),)), 1, 8, (1, 0))
    assert max(p.row.bytes for p in plans(FRAGMENTS[1], memory=memory)) == 4


@pytest.mark.parametrize("start, widest", [(0, 16), (8, 16), (4, 8), (1, 2)])
def test_runs_never_begin_inside_another_wherever_the_tile_starts(start, widest):
    g = coalesced((32, 64), (1, 0), 8, 64)
    found = [c for c in register_copies(SM80, g, 16, None, True, (0, start))
             if isinstance(c, CopyPlan) and c.row.access == "vector" and
             all(m.dim == 1 for m in c.run)]  # fmt: skip
    assert max(c.row.bytes for c in found) == widest


def test_a_vector_wider_than_memory_allows_is_refused_with_the_reason():
    memory = GlobalTile(((Mode(16, 1, 0),), (Mode(16, 1, 1),)), 1, 2, (1, 0))
    found = {c.name: c for c in memory_copies(SM80, (16, 16), 16, memory, 32, load=True)}
    assert "2 are known" in found["cp.async.16"].reason
    assert found["cp.async.4"].row.bytes == 4


@pytest.mark.parametrize("shape", [(128, 64), (96, 80), (48, 24), (3, 229)])
@pytest.mark.parametrize("threads", [32, 96, 128, 384])
def test_coalesced_covers_and_gives_consecutive_threads_consecutive_vectors(shape, threads):
    widest = vector_that_spreads(shape, (1, 0), 8 if shape[1] % 8 == 0 else 1, threads)
    f = coalesced(shape, (1, 0), widest, threads)
    assert f.covers()
    if f.thread[0].dim == 1:
        assert f.thread[0].step == widest


def test_digits_of_a_linear_layout_come_back_as_modes():
    shape = (6, 10)
    modes = (Mode(2, 3, 0), Mode(5, 2, 1), Mode(4, 0, 0))
    (back,) = from_linear(Layout(((2, 5, 4),), ((3, 12, 0),)), shape)
    assert back == modes
    # A digit that runs off a dimension's end goes on along the next.
    ((first, second),) = from_linear(Layout((12,), (1,)), shape)
    assert (first, second) == (Mode(6, 1, 0), Mode(2, 1, 1))
    # 9 steps of 2 in rows of 6 would stop inside a row: no modes say that.
    assert from_linear(Layout((4,), (2,)), (6, 10)) is None
