"""The search against exhaustive choice, facts against values, costs against counters."""

import math
from itertools import product

import numpy as np
import pytest
import tile_builder
import tile_runs
from scalar_values import value

from hexcute_core.arch import Fragment, Mode, arch
from hexcute_core.dtypes import f16, f32, i32, i64, u32
from hexcute_core.scalar import (
    Binary,
    Const,
    Var,
    add,
    cast,
    cdiv,
    floordiv,
    minimum,
    mod,
    mul,
    select,
)
from hexcute_core.scalar.build import binary, compare, maximum, unary
from hexcute_core.synthesis import synthesize
from hexcute_core.synthesis.buffer import by_bound
from hexcute_core.synthesis.candidates import component_choices
from hexcute_core.synthesis.conflicts import Access, choose, swizzles
from hexcute_core.synthesis.cost import working_warps
from hexcute_core.synthesis.exchange import plan_exchange
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.memory import describe_global
from hexcute_core.synthesis.options import CopyOptions
from hexcute_core.synthesis.parts import begins
from hexcute_core.synthesis.shared import SharedUse, synthesize_shared
from hexcute_core.tile import Assign, Copy, SharedTensor
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.promise import Promise

SM80 = arch("sm_80")


def staged(shape, threads, dtype=f16, turned=False, second=None):
    b = tile_builder.TileBuilder(threads=threads)
    a, c = (
        b.tile("a", dtype, *shape),
        b.tile("c", dtype, *shape, major=(1, 0) if turned else (0, 1)),
    )
    s, r = b.shared("s", dtype, *shape), b.register("r", dtype, *shape)
    b.copy(a, s)
    b.settle()
    if second is not None:
        q = b.register("q", dtype, *shape)
        b.copy(s, q)
        b.copy(q, b.tile("d", dtype, *shape, major=second))
    b.copy(s, r)
    b.copy(r, c)
    return b.program()


def exhaustive(program):
    """The least clocks of every choice of layouts and instructions there is."""
    graph = build_graph(program)
    options = CopyOptions(graph, SM80)
    choices = [component_choices(graph, SM80, c, {}).assignments for c in graph.components]
    copies = [item for item in graph.ops if isinstance(item.op, Copy)]
    best = math.inf
    for combo in product(*choices):
        fragments = {n: f for a in combo for n, f in a.fragments.items()}
        ladders = [options.of(item, fragments).choices for item in copies]
        for picks in product(*ladders):
            total = sum(i.weight * o.bound for i, o in zip(copies, picks))
            if total >= best:
                continue
            best = min(best, total + _conflicts(graph, copies, picks))
    return best


def _conflicts(graph, copies, picks):
    """Clocks that bank conflicts add, infinite where the demands do not meet."""
    extra = 0.0
    for name, tensor in graph.tensors.items():
        if not isinstance(tensor, SharedTensor):
            continue
        uses = []
        for item, option in zip(copies, picks):
            for ref in (item.op.src, item.op.dst):
                if ref.tensor == name:
                    warps = working_warps(option.plan, item.team.threads)
                    at = begins(graph.facts, ref, tensor)
                    weight = item.weight * warps
                    uses.append(SharedUse(item.op.id, ref, at, option.plan, weight))
        layout = synthesize_shared(tensor, uses)
        if isinstance(layout, str):
            return math.inf
        for use in uses:
            waves, least = layout.wavefronts[use.op]
            extra += use.weight * (waves - least)
    return extra


@pytest.mark.parametrize("shape, threads", [((32, 32), 32), ((48, 24), 32), ((64, 32), 64)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("second", [None, (1, 0)])
def test_the_search_finds_what_trying_everything_finds(shape, threads, turned, second):
    program = staged(shape, threads, turned=turned, second=second)
    solution = synthesize(program, SM80)
    assert solution.exact
    assert solution.cost == pytest.approx(exhaustive(program))


def test_combinations_come_in_order_of_their_sum_each_once():
    ladders = [[1.0, 2.0, 7.0], [0.0, 3.0], [2.0, 2.5, 4.0, 9.0]]
    found = list(by_bound(ladders))
    assert len({picks for _, picks in found}) == len(found) == 24
    sums = [bound for bound, _ in found]
    assert sums == sorted(sums)
    for bound, picks in found:
        assert bound == pytest.approx(sum(x[i] for x, i in zip(ladders, picks)))


def test_a_solution_is_the_same_every_time():
    program = staged((64, 64), 128, turned=True)
    first, second = synthesize(program, SM80), synthesize(program, SM80)
    assert first.copies == second.copies and first.fragments == second.fragments
    assert {n: str(s) for n, s in first.shared.items()} == {
        n: str(s) for n, s in second.shared.items()
    }


def random_index(rng, depth):
    """An index expression of the symbols m (a multiple of 8) and n, of blockIdx.x and of a number x
    that may be negative."""
    if depth == 0:
        return (Var("m", i32), Var("n", i32), Var("blockIdx.x", i32), Var("x", i32),
                Const(int(rng.integers(-20, 40)), i32))[int(rng.integers(5))]  # fmt: skip
    a, b = random_index(rng, depth - 1), random_index(rng, depth - 1)
    constant = Const(int(rng.integers(1, 33)), i32)
    return (
        lambda: add(a, b), lambda: mul(a, b), lambda: mul(a, constant),
        lambda: floordiv(a, constant), lambda: mod(a, constant), lambda: minimum(a, b),
        lambda: cdiv(a, constant),
        lambda: select(compare("lt", a, b), a, b), lambda: Binary("and", a, constant, i32),
        lambda: Binary("shl", a, Const(2, i32), i32), lambda: Binary("shr", a, Const(1, i32), i32),
        lambda: binary("sub", a, b), lambda: maximum(a, b), lambda: unary("neg", a),
        lambda: cast(cast(a, u32), i32), lambda: cast(cast(a, i64), i32), lambda: mul(a, -3),
    )[int(rng.integers(17))]()  # fmt: skip


@pytest.mark.parametrize("seed", range(200))
def test_divisors_divide_and_bounds_hold(seed):
    rng = np.random.default_rng(seed)
    builder = tile_builder.TileBuilder(
        symbols=("m", "n"), grid=(7, 1, 1), promise=Promise((("m", 8),), frozenset())
    )
    facts = Facts(builder.program())
    e = random_index(rng, 3)
    divisor, (low, high) = facts.divisor(e), facts.bounds(e)
    for _ in range(20):
        names = {"m": 8 * int(rng.integers(0, 9)), "n": int(rng.integers(0, 60)),
                 "blockIdx.x": int(rng.integers(0, 7)),
                 "x": int(rng.integers(-50, 50))}  # fmt: skip
        got = value(e, names)
        assert got == 0 if divisor == 0 else got % divisor == 0, (str(e), names)
        assert low is None or got >= low, (str(e), names)
        assert high is None or got <= high, (str(e), names)


def test_facts_of_variables_that_are_defined_through_each_other():
    """What one definition contradicts is known of no variable that depends on it."""
    a, b, c, i = (Var(name, i32) for name in "abci")
    builder = tile_builder.TileBuilder(threads=32)
    for var, start in ((a, 0), (b, 8), (c, 16)):
        builder.add(Assign(var, Const(start, i32), True, builder.span()))
    with builder.loop("i", 5):
        builder.add(Assign(a, add(b, 8), False, builder.span()))
        builder.add(Assign(b, add(c, 16), False, builder.span()))
        builder.add(Assign(c, add(mul(i, 4), a), False, builder.span()))
    facts = Facts(builder.program())
    assert [facts.divisor(v) for v in (a, b, c)] == [4, 4, 4]
    assert [facts.bounds(v).low for v in (a, b, c)] == [0, 0, 0]
    builder = tile_builder.TileBuilder(threads=32)
    for var in (a, b):
        builder.add(Assign(var, Const(8, i32), True, builder.span()))
    with builder.loop("i", 5):
        builder.add(Assign(a, b, False, builder.span()))
        builder.add(Assign(b, add(a, -1), False, builder.span()))
    facts = Facts(builder.program())
    assert [facts.bounds(v).low for v in (a, b)] == [None, None]


def test_what_is_known_of_a_tile_of_global_memory():
    def tile(promise, extents, origin=(0, 0), major=(0, 1), symbols=("k",)):
        b = tile_builder.TileBuilder(symbols=symbols, promise=promise)
        b.tile("a", f16, 64, 32, major=major, extents=extents, origin=origin)
        program = b.program()
        ref = b.whole(program.tensor("g_a"))
        return describe_global(program, Facts(program), ref)

    k = Var("k", i32)
    known = Promise((("k", 8),), frozenset({"a"}))
    found = tile(known, (64, k))
    assert (found.contiguous, found.vector, found.order) == (1, 8, (1, 0))
    assert tile(known, (32, k), major=(1, 0)).contiguous == 0
    # A pointer, a row length or an origin that is not known to be aligned narrows the accesses.
    assert tile(Promise((("k", 8),), frozenset()), (64, k)).vector == 1
    assert tile(Promise((), frozenset({"a"})), (64, k)).vector == 1
    assert tile(known, (64, k), origin=(0, 4)).vector == 4
    assert tile(known, (64, k), origin=(3, 0)).vector == 8


@pytest.mark.parametrize("dtype", [f16, f32], ids=str)
@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("turned", [False, True])
def test_predicted_wavefronts_are_those_of_the_lanes(dtype, threads, turned):
    """All warps of one call conflict alike, so one warp's count times theirs is the counter."""
    found = tile_runs.run(staged((64, 64), threads, dtype, turned))
    layout, counted = found.solution.shared["s"], found.counters.wavefronts
    for op, (waves, _) in layout.wavefronts.items():
        plan = found.solution.copies[op]
        assert counted[plan.name] == waves * working_warps(plan, threads)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("seed", range(5))
def test_wavefronts_by_definition(bits, seed):
    """The most different words any bank gives, phase by phase."""
    rng = np.random.default_rng(seed)
    width = int(rng.choice([bits, 32, 64, 128]))
    unit = max(1, width // bits)
    starts = tuple(int(x) * unit for x in rng.integers(0, 4096 // unit, 32))
    candidates = swizzles(max(unit.bit_length() - 1, 0), 4096, bits)
    swizzle, (counted,) = choose([Access(starts, width, 1.0)], bits, candidates)

    def wavefronts(s):
        lanes = min(32, 1024 // max(width, 32))
        total = 0
        for first in range(0, 32, lanes):
            words = set()
            for x in starts[first : first + lanes]:
                begin = s(x) * bits // 32
                words.update(range(begin, begin + max(1, width // 32)))
            banks = [w % 32 for w in words]
            total += max(banks.count(bank) for bank in banks)
        return total

    # A group of banks as wide as an access serves one access a wavefront.
    assert counted.wavefronts == wavefronts(swizzle)
    assert counted.wavefronts == min(wavefronts(s) for s in candidates)


def test_exchanges_are_planned_within_warps_alone():
    f = Fragment((4, 64), (Mode(32, 2, 1),), (Mode(2, 1, 1), Mode(4, 1, 0)))
    reordered = Fragment((4, 64), (Mode(32, 2, 1),), (Mode(4, 1, 0), Mode(2, 1, 1)))
    assert plan_exchange(f, reordered, 32).shuffles == 0
    turned = Fragment((4, 64), (Mode(4, 1, 0), Mode(8, 8, 1)), (Mode(8, 1, 1),))
    plan = plan_exchange(f, turned, 32)
    assert plan.shuffles > 0 and len(plan.crossing) == 1
    two = Fragment((4, 64), (Mode(32, 2, 1), Mode(2, 1, 0)), (Mode(2, 1, 1), Mode(2, 2, 0)))
    other = Fragment((4, 64), (Mode(2, 1, 0), Mode(32, 2, 1)), (Mode(2, 1, 1), Mode(2, 2, 0)))
    assert plan_exchange(two, other, 64) is None
    beyond = Fragment((3, 64), (Mode(32, 2, 1),), (Mode(2, 1, 1), Mode(4, 1, 0)))
    assert plan_exchange(beyond, beyond, 32) is None
