"""The checker finds every kind of mistake in a solution that was right."""

from dataclasses import replace

import pytest
import tile_builder
import tile_runs

from cute_layout import Layout, Swizzle
from hexcute_core.arch import Fragment, Mode
from hexcute_core.dtypes import f16, f32
from hexcute_core.errors import VerifyError
from hexcute_core.scalar import Var
from hexcute_core.synthesis.proof.check import check
from hexcute_core.synthesis.solution import Place


def gemm_solution():
    b = tile_builder.TileBuilder(threads=64)
    a, w, c = b.tile("a", f16, 32, 32), b.tile("w", f16, 32, 32), b.tile("c", f16, 32, 32)
    sa, sb = b.shared("sa", f16, 32, 32), b.shared("sb", f16, 32, 32)
    ra, rb = b.register("ra", f16, 32, 32), b.register("rb", f16, 32, 32)
    rc, rd = b.register("rc", f32, 32, 32), b.register("rd", f16, 32, 32)
    b.copy(a, sa)
    b.copy(w, sb)
    b.settle()
    b.copy(sa, ra)
    b.copy(sb, rb)
    b.fill(rc, 0.0, f32)
    b.gemm(rc, ra, rb)
    b.cast(rc, rd)
    b.copy(rd, c)
    return tile_runs.solve(b.program())


def vector_solution():
    b = tile_builder.TileBuilder(threads=32)
    a, c = b.tile("a", f32, 16, 32), b.tile("c", f32, 16, 32)
    line, top = b.tile("line", f32, 16, 1), b.tile("top", f32, 16, 1)
    r, thin, s = (
        b.register("r", f32, 16, 32),
        b.register("thin", f32, 16, 1),
        b.register("s", f32, 16, 32),
    )
    most = b.register("most", f32, 16, 1)
    b.copy(a, r)
    b.copy(line, thin)
    b.map(s, Var("$0", f32) + Var("$1", f32), r, thin)
    b.reduce(s, most, 1, "max")
    b.copy(s, c)
    b.copy(most, top)
    return tile_runs.solve(b.program())


def rearranged_solution():
    b = tile_builder.TileBuilder(threads=32)
    a, c = b.tile("a", f32, 4, 32), b.tile("c", f32, 4, 32)
    r, q = b.register("r", f32, 4, 32), b.register("q", f32, 4, 32)
    b.copy(a, r)
    b.rearrange(r, q, "(32,4):(4,1)")
    b.copy(q, c)
    found = tile_runs.solve(b.program())
    assert found.exchanges
    return found


def with_copy(solution, **changes):
    """The solution with every copy plan whose fields can take `changes` changed."""
    op, plan = next(
        (i, p)
        for i, p in sorted(solution.copies.items())
        if all(f(p) is not None for f in changes.values())
    )
    new = replace(plan, **{name: f(plan) for name, f in changes.items()})
    return replace(solution, copies={**solution.copies, op: new})


def fragment(solution, name, f):
    return replace(solution, fragments={**solution.fragments, name: f})


def swapped(modes):
    return (modes[1], modes[0], *modes[2:])


def shared(solution, name, **changes):
    layout = replace(solution.shared[name], **changes)
    return replace(solution, shared={**solution.shared, name: layout})


def gemm_plan(solution, **changes):
    ((op, plan),) = solution.gemms.items()
    new = replace(plan, **{name: f(plan) for name, f in changes.items()})
    return replace(solution, gemms={op: new})


def first_loop(loops, **changes):
    return (loops[0]._replace(**changes) if hasattr(loops[0], "_replace") else
            replace(loops[0], **changes), *loops[1:])  # fmt: skip


GEMM_MISTAKES = {
    "a thread digit of an operand": lambda s: fragment(
        s, "ra", replace(s.fragments["ra"], thread=swapped(s.fragments["ra"].thread))
    ),
    "the order of an operand's registers": lambda s: fragment(
        s, "rb", replace(s.fragments["rb"], value=swapped(s.fragments["rb"].value))
    ),
    "pieces of an operand": lambda s: gemm_plan(s, a_pieces=lambda p: swapped(p.a_pieces)),
    "pieces of the accumulator": lambda s: gemm_plan(
        s, c_pieces=lambda p: (p.c_pieces[2], p.c_pieces[1], p.c_pieces[0], *p.c_pieces[3:])
    ),
    "a loop cut short": lambda s: gemm_plan(
        s, k=lambda p: first_loop(p.k, size=p.k[0].size - 1)
    ),
    "a loop's register stride": lambda s: gemm_plan(
        s, k=lambda p: first_loop(p.k, second=p.k[0].second + 1)
    ),
    "a cast between other threads": lambda s: fragment(
        s, "rd", replace(s.fragments["rd"], thread=swapped(s.fragments["rd"].thread))
    ),
    "a repetition left out": lambda s: with_copy(s, reps=lambda p: p.reps[1:] if p.reps else None),
    "a repetition's step": lambda s: with_copy(
        s, reps=lambda p: (replace(p.reps[0], step=p.reps[0].step * 2), *p.reps[1:])
        if p.reps else None
    ),
    "threads in another order": lambda s: with_copy(
        s, thread=lambda p: swapped(p.thread) if p.row.dst == "register" else None
    ),
    "a layout that is no bijection": lambda s: shared(s, "sa", layout=Layout((32, 32), (1, 1))),
    "a layout that tears runs": lambda s: shared(s, "sa", layout=Layout((32, 32), (1, 32)),
                                                 swizzle=None),
    "a swizzle that tears runs": lambda s: shared(s, "sa", swizzle=Swizzle(2, 0, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", GEMM_MISTAKES)
def test_a_mistake_in_a_gemm_is_found(name):
    good = gemm_solution()
    check(good)
    with pytest.raises(VerifyError) as caught:
        check(GEMM_MISTAKES[name](good))
    assert caught.value.span is not None


VECTOR_MISTAKES = {
    "a broadcast operand of other threads": lambda s: fragment(
        s, "thin", Fragment((16, 1), (Mode(16, 1, 0), Mode(2, 0, 0)), ())
    ),
    "a reduction into other elements": lambda s: fragment(
        s, "most", Fragment((16, 1), (Mode(16, 1, 0), Mode(2, 0, 0)), ())
    ),
    "a tile that is not covered": lambda s: fragment(
        s, "s", replace(s.fragments["s"], value=s.fragments["s"].value[:-1])
    ),
    "an element held twice": lambda s: fragment(
        s, "s", replace(s.fragments["s"], value=(*s.fragments["s"].value, Mode(2, 0, 0)))
    ),
}


@pytest.mark.parametrize("name", VECTOR_MISTAKES)
def test_a_mistake_between_tiles_is_found(name):
    good = vector_solution()
    with pytest.raises(VerifyError):
        check(VECTOR_MISTAKES[name](good))


def test_a_mistake_in_a_rearrange_is_found():
    good = rearranged_solution()
    ((op, plan),) = good.exchanges.items()
    for i, move in enumerate(plan.moves):
        wrong = move._replace(src=Place(move.src.lane, move.src.stride * 2))
        changed = replace(plan, moves=(*plan.moves[:i], wrong, *plan.moves[i + 1 :]))
        with pytest.raises(VerifyError):
            check(replace(good, exchanges={op: changed}))


def test_lanes_of_other_warps_are_out_of_reach():
    b = tile_builder.TileBuilder(threads=64)
    a, c = b.tile("a", f32, 1, 256), b.tile("c", f32, 1, 256)
    r, q = b.register("r", f32, 1, 256), b.register("q", f32, 1, 256)
    b.copy(a, r)
    b.rearrange(r, q, "((2,32),4):((128,1),32)")
    b.copy(q, c)
    solution = tile_runs.solve(b.program())
    assert not solution.exchanges, "shared memory it must be"
    assert "rearranged_2" in solution.shared
