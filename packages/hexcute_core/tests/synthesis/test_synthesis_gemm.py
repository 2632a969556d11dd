"""gemm(c, a, b): the layouts an instruction asks for, and the plans on the layouts there are."""

from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, f64, i64
from hexcute_core.arch import Fragment, Mode, arch
from hexcute_core.arch.registers import locate, register_map, same_threads
from hexcute_core.synthesis.gemm import GemmAnchor, Orders, gemm_anchors, mma_rows, plan_gemm

SM80 = arch("sm_80")


def row(a="f16", b="f16", c="f32"):
    return mma_rows(SM80, a, b, c)[0]


def sums(plan, threads, c, a, b):
    """How often each product a[i, k] b[j, k] lands in c[i, j], from the instruction's own map."""
    counted = Counter()
    atoms = [
        [(lane, v, atom.coord(lane, v)) for lane in range(atom.threads) for v in range(atom.values)]
        for atom in (plan.row.c, plan.row.a, plan.row.b)
    ]
    # Instructions share values of a fragment: each is looked up once.
    places = [cache(f.coord) for f in (c, a, b)]
    for group in range(threads // plan.row.threads):
        for m, n, k in product(*(_offsets(axis) for axis in (plan.m, plan.n, plan.k))):
            regs = (m[0] + n[0], m[1] + k[0], n[1] + k[1])
            maps = []
            for place, atom, base, pieces in zip(
                places, atoms, regs, (plan.c_pieces, plan.a_pieces, plan.b_pieces)
            ):
                maps.append({
                    at: place(group * plan.row.threads + lane, base + pieces[v])
                    for lane, v, at in atom
                })  # fmt: skip
            for i, j, q in product(*(range(extent) for extent in plan.row.tile)):
                (ci, cj), (ai, ak), (bj, bk) = maps[0][i, j], maps[1][i, q], maps[2][j, q]
                assert (ci, cj, ak) == (ai, bj, bk)
                counted[ci, cj, ak] += 1
    return counted


def _offsets(loops):
    out = [(0, 0)]
    for level in loops:
        out = [
            (x + p * level.first, y + p * level.second) for p in range(level.size) for x, y in out
        ]
    return out


def test_f_a_from_a_gemm_anchor():
    """One warp, 32x16 by 32: C tiled by the instruction, A's M digits are C's, K digits follow."""
    anchor = next(gemm_anchors(row(), 32, 16, 32, 32, None))
    assert str(anchor.c) == "((4,8),(2,2,2,2)):((2@1,1@0),(1@1,8@0,16@0,8@1))"
    assert str(anchor.a) == "((4,8),(2,2,2,2,2)):((2@1,1@0),(1@1,8@0,8@1,16@0,16@1))"
    assert str(anchor.b) == "((4,8),(2,2,2,2)):((2@1,1@0),(1@1,8@1,8@0,16@1))"


def test_warps_along_m_replicate_b():
    anchor = next(x for x in gemm_anchors(row(), 64, 16, 16, 128, (4, 1)))
    assert anchor.b.thread[-1] == Mode(4, 0, 0)
    assert anchor.c.thread[-1] == anchor.a.thread[-1] == Mode(4, 16, 0)


TYPES = [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("i8", "i32"),
         ("u8", "i32"), ("f32", "f32")]  # fmt: skip


@pytest.mark.parametrize("operand, result", TYPES)
@pytest.mark.parametrize("m, n, k, threads", [(32, 16, 64, 32), (32, 48, 32, 64), (96, 16, 32, 96)])
def test_every_anchor_sums_every_product_once(operand, result, m, n, k, threads):
    orders = Orders((16, 8, 4), (2, 4), (2, 4))
    found = list(gemm_anchors(row(operand, operand, result), m, n, k, threads, None, orders))
    assert found
    for anchor in found:
        c, a, b = anchor.layouts
        plan = plan_gemm(anchor, c, a, b)
        assert not isinstance(plan, str), plan
        counted = sums(plan, threads, c, a, b)
        assert len(counted) == m * n * k and set(counted.values()) == {1}, anchor


def test_registers_may_stand_in_another_order():
    """P of attention: the A operand is the C layout of the gemm before, values in C's order."""
    first = next(gemm_anchors(row(), 64, 32, 16, 128, (4, 1)))
    anchor = next(x for x in gemm_anchors(row(), 64, 16, 32, 128, (4, 1)) if x.runs == (0, 0, 0))
    p = Fragment((64, 32), first.c.thread, first.c.value)
    assert p != anchor.a
    plan = plan_gemm(anchor, anchor.c, p, anchor.b)
    counted = sums(plan, 128, anchor.c, p, anchor.b)
    assert len(counted) == 64 * 16 * 32 and set(counted.values()) == {1}


def test_other_threads_do_not_fit():
    anchor = next(gemm_anchors(row(), 64, 32, 16, 128, (4, 1)))
    other = next(gemm_anchors(row(), 64, 32, 16, 128, (1, 4)))
    reason = plan_gemm(anchor, other.c, anchor.a, anchor.b)
    assert isinstance(reason, str) and reason.startswith("c needs")


def test_registers_that_do_not_hold_the_fragment_are_refused():
    anchor: GemmAnchor = next(gemm_anchors(row(), 32, 32, 16, 32, None))
    value = (Mode(4, 1, 1), Mode(8, 4, 1))
    wrong = Fragment((32, 32), anchor.c.thread, value)
    assert isinstance(plan_gemm(anchor, wrong, anchor.a, anchor.b), str)


@pytest.mark.parametrize(
    "m, n, k, threads", [(24, 8, 16, 32), (32, 12, 16, 32), (32, 8, 24, 32), (32, 8, 16, 48)]
)
def test_what_the_instruction_does_not_tile_has_no_anchor(m, n, k, threads):
    assert not list(gemm_anchors(row(), m, n, k, threads, None))


def test_a_forced_arrangement_is_the_only_one():
    assert {x.groups for x in gemm_anchors(row(), 64, 64, 16, 128, (2, 2))} == {(2, 2)}
    assert not list(gemm_anchors(row(), 64, 64, 16, 128, (3, 1)))


def test_the_faster_instruction_comes_first():
    from dataclasses import replace

    slow = replace(row(), name="slow", timing=replace(row().timing, issue=1000.0))
    table = replace(SM80, mmas=(slow, *SM80.mmas))
    assert [r.name for r in mma_rows(table, "f16", "f16", "f32")] == [row().name, "slow"]


def test_locate_finds_a_digit_inside_a_longer_one():
    f = Fragment((64, 1), (), (Mode(2, 32, 0), Mode(32, 1, 0)))
    assert locate(f, Mode(4, 2, 0)) == ((4, 4),)
    assert locate(f, Mode(2, 32, 0)) == ((2, 1),)
    assert locate(f, Mode(64, 1, 0)) == ((32, 2), (2, 1))
    assert locate(f, Mode(4, 16, 0)) == ((2, 32), (2, 1))
    assert locate(f, Mode(3, 1, 0)) is None
    assert locate(f, Mode(2, 1, 1)) is None


def test_groups_without_work_repeat_that_of_others():
    """48x24 on four warps: three find a tile along M or N, the fourth does what the first does."""
    found = list(gemm_anchors(row(), 48, 24, 16, 128, None))
    assert {x.groups for x in found} == {(1, 3), (3, 1)}
    for anchor in found:
        assert anchor.c.threads == 96
        assert anchor.c.coord(96 + 5, 0) == anchor.c.coord(5, 0)
    (one,) = gemm_anchors(row(), 16, 8, 16, 128, None)
    assert one.c.thread[-1] == Mode(4, 0, 0)


@pytest.mark.parametrize("dtype, cells", [(i64, np.int64), (f64, np.float64)])
def test_a_product_leaves_in_a_type_of_64_bits(dtype, cells):
    @hx.kernel(cache=False)
    def kernel(a: f16[16, 16], b: f16[8, 16], c: dtype[16, 8]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        ra, rb = hx.register_tensor(f16, (16, 16)), hx.register_tensor(f16, (8, 16))
        rc = hx.register_tensor(f32, (16, 8))
        hx.copy(hx.global_view(a, ((16, 16), (16, 1))), ra)
        hx.copy(hx.global_view(b, ((8, 16), (16, 1))), rb)
        hx.fill(rc, 0.0)
        hx.gemm(rc, ra, rb)
        hx.copy(hx.cast(rc, dtype), hx.global_view(c, ((16, 8), (8, 1))))

    a, b = (np.arange(n * 16).reshape(n, 16).astype(np.float16) % 7 - 3 for n in (16, 8))
    c = np.zeros((16, 8), cells)
    kernel.compile("sm_80", verify=True).simulate(a, b, c)
    assert np.array_equal(c, a.astype(cells) @ b.astype(cells).T)


def test_layouts_that_differ_in_register_order_alone_are_one():
    f = Fragment((8, 8), (Mode(8, 1, 0),), (Mode(8, 1, 1),))
    g = Fragment((8, 8), (Mode(2, 1, 0), Mode(4, 2, 0)), (Mode(2, 4, 1), Mode(4, 1, 1)))
    assert same_threads(f, g)
    digits = register_map(f, g)
    for v in range(8):
        w, rest = 0, v
        for size, _, second in digits:
            w += rest % size * second
            rest //= size
        assert f.coord(3, v) == g.coord(3, w)
    other = Fragment((8, 8), (Mode(8, 1, 1),), (Mode(8, 1, 0),))
    assert not same_threads(f, other) and register_map(f, other) is None
