"""gemm(c, a, b): along M `f_c o p_C^-1 ~ f_a o p_A^-1`, along N c with b, along K a with b.

`gemm_anchors` tiles C with an instruction and solves A and B: M digits of C appear in A, N
digits in B, and K digits appear in both in one order that is ours to choose, so it is also
offered in the order that lets a thread load a contiguous run along K. `plan_gemm` turns three
fragments into register offsets, or says why they do not fit the equation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hexcute_core.arch import Arch, Fragment, MmaRow, Mode, product
from hexcute_core.synthesis.solution import GemmLoop, GemmPlan


@dataclass(frozen=True)
class GemmAnchor:
    """Fragments of C, A and B under one instruction, arrangement and K order.

    Value digits stand in the instruction's order, its repetitions behind them. Registers may hold
    them in any order: `layouts` has the one that keeps a contiguous run of K together.
    """

    row: MmaRow
    groups: tuple[int, int]
    k_order: str
    c: Fragment
    a: Fragment
    b: Fragment

    @property
    def layouts(self) -> tuple[Fragment, Fragment, Fragment]:
        """(c, a, b) as registers hold them."""
        if self.k_order == "natural":
            return self.c, self.a, self.b
        return self.c, _run_first(self.a), _run_first(self.b)


def _run_first(f: Fragment) -> Fragment:
    """`f` with its values along K in memory order before the others."""
    along = sorted((x for x in f.value if x.dim == 1), key=lambda x: x.step)
    return Fragment(f.shape, f.thread, (*along, *(x for x in f.value if x.dim != 1)))


def mma_rows(arch: Arch, a: str, b: str, c: str) -> tuple[MmaRow, ...]:
    """Instructions for these element types, most multiply-adds a clock a warp first."""
    rows = [
        row
        for row in arch.mmas
        if (row.a_dtype.name, row.b_dtype.name, row.c_dtype.name) == (a, b, c)
    ]

    def rate(row: MmaRow) -> float:
        m, n, k = row.tile
        return m * n * k / row.threads / row.timing.issue

    return tuple(sorted(rows, key=rate, reverse=True))


def gemm_anchors(
    row: MmaRow, m: int, n: int, k: int, threads: int, forced: tuple[int, int] | None
) -> Iterator[GemmAnchor]:
    """Every arrangement of the block's instruction groups, least operand traffic first.

    With `forced`, that (along M, along N) arrangement alone. Yields nothing where the
    instruction does not tile (m, n, k).
    """
    im, inn, ik = row.tile
    if threads % row.threads or m % im or n % inn or k % ik:
        return
    groups = threads // row.threads
    shapes = [
        (gm, groups // gm)
        for gm in range(1, groups + 1)
        if groups % gm == 0 and m % (gm * im) == 0 and n % (groups // gm * inn) == 0
    ]
    if forced is not None:
        shapes = [s for s in shapes if s == forced]
    shapes.sort(key=lambda s: (m // s[0] + n // s[1], s[0]))
    for gm, gn in shapes:
        for order in ("natural", *_vector_orders(row, k)):
            yield _anchor(row, m, n, k, (gm, gn), order)


def _vector_orders(row: MmaRow, k: int) -> tuple[str, ...]:
    """K orders that give each thread a contiguous run of 16 or 8 bytes."""
    own = product(x for x in row.a.value if x.dim == 1)
    lanes = product(x for x in row.a.thread if x.dim == 1)
    if row.threads == 1 or own != product(x for x in row.b.value if x.dim == 1):
        return ()
    found = []
    for size in (16, 8):
        run = size * 8 // row.a_dtype.bits
        if run > own // 2 and run % own == 0 and k % (run * lanes) == 0:
            found.append(f"run{run}")
    return tuple(found)


def _anchor(row: MmaRow, m: int, n: int, k: int, groups: tuple[int, int], order: str) -> GemmAnchor:
    im, inn, ik = row.tile
    gm, gn = groups
    m_rep, n_rep, k_rep = m // gm // im, n // gn // inn, k // ik
    m_warp, n_warp = Mode(gm, m // gm, 0), Mode(gn, n // gn, 0)
    m_reps, n_reps = Mode(m_rep, im, 0), Mode(n_rep, inn, 0)
    c = Fragment(
        (m, n),
        (*row.c.thread, m_warp, Mode(gn, n // gn, 1)),
        (*row.c.value, m_reps, Mode(n_rep, inn, 1)),
    )
    a_atom, b_atom = row.a, row.b
    k_reps: tuple[Mode, ...] = (Mode(k_rep, ik, 1),)
    if order != "natural":
        a_atom, k_reps = _rerun(row.a, k, int(order[3:]))
        b_atom, _ = _rerun(row.b, k, int(order[3:]))
    a = Fragment((m, k), (*a_atom.thread, m_warp, Mode(gn, 0, 0)), (*a_atom.value, m_reps, *k_reps))
    b = Fragment((n, k), (*b_atom.thread, Mode(gm, 0, 0), n_warp), (*b_atom.value, n_reps, *k_reps))
    return GemmAnchor(row, groups, order, _tidy(c), _tidy(a), _tidy(b))


def _rerun(atom: Fragment, k: int, run: int) -> tuple[Fragment, tuple[Mode, ...]]:
    """`atom` with K digits reordered: value digits first, then repetitions up to `run`, then
    lanes, then the remaining repetitions."""
    lanes = product(x for x in atom.thread if x.dim == 1)
    value, step = [], 1
    for x in atom.value:
        value.append(Mode(x.size, step, 1) if x.dim == 1 else x)
        step *= x.size if x.dim == 1 else 1
    inner = run // step
    thread, lane_step = [], run
    for x in atom.thread:
        thread.append(Mode(x.size, lane_step, 1) if x.dim == 1 else x)
        lane_step *= x.size if x.dim == 1 else 1
    outer = k // (run * lanes)
    reps = (Mode(inner, step, 1), Mode(outer, run * lanes, 1))
    return Fragment(atom.shape, tuple(thread), tuple(value)), reps


def _tidy(f: Fragment) -> Fragment:
    """Size-1 modes dropped; modes are not merged, so the digits stay those of the instruction."""
    return Fragment(
        f.shape,
        tuple(x for x in f.thread if x.size > 1),
        tuple(x for x in f.value if x.size > 1),
    )


def locate(f: Fragment, digit: Mode) -> int | None:
    """Register stride of value digit `digit` in `f`: moving by its step once moves this many
    registers; None where `f` does not have that digit among its values."""
    stride = 1
    for x in f.value:
        if x.dim == digit.dim and x.step and digit.step % x.step == 0:
            ratio = digit.step // x.step
            if x.size % (ratio * digit.size) == 0:
                return stride * ratio
        stride *= x.size
    return None


def same_threads(f: Fragment, g: Fragment) -> bool:
    """Whether both spread threads alike (equal functions of t at v = 0)."""
    return f.threads == g.threads and all(f.coord(t, 0) == g.coord(t, 0) for t in _digits(f))


def _digits(f: Fragment) -> list[int]:
    """Thread indices that together determine a digit-wise linear function: powers and digits."""
    points, stride = [0], 1
    while stride < f.threads:
        points.append(stride)
        stride *= 2
    stride = 1
    for x in f.thread:
        points += [stride * d for d in range(x.size)]
        stride *= x.size
    return points


def plan_gemm(anchor: GemmAnchor, c: Fragment, a: Fragment, b: Fragment) -> GemmPlan | str:
    """The plan of `anchor` on the actual fragments, or the reason why they do not fit it."""
    for name, want, have in (("c", anchor.c, c), ("a", anchor.a, a), ("b", anchor.b, b)):
        if want.values != have.values or not same_threads(want, have):
            return f"{name} needs {want} for {anchor.row.name}, but is {have}"
    row = anchor.row
    pieces = []
    for atom, want, have in ((row.c, anchor.c, c), (row.a, anchor.a, a), (row.b, anchor.b, b)):
        count = sum(1 for x in atom.value if x.size > 1)
        found = _pieces(want.value[:count], have)
        if found is None:
            return f"the registers {have} do not hold the fragment {want} of {row.name}"
        pieces.append(found)
    loops: dict[str, list[GemmLoop]] = {"m": [], "n": [], "k": []}
    sides = {
        "m": ((anchor.c, c, row.c, 0), (anchor.a, a, row.a, 0)),
        "n": ((anchor.c, c, row.c, 1), (anchor.b, b, row.b, 0)),
        "k": ((anchor.a, a, row.a, 1), (anchor.b, b, row.b, 1)),
    }
    for axis, (first, second) in sides.items():
        ones, twos = _reps(*first), _reps(*second)
        if ones is None or twos is None or [s for s, _ in ones] != [s for s, _ in twos]:
            return f"the operands of {row.name} do not repeat alike along {axis.upper()}"
        loops[axis] = [GemmLoop(s, x, y) for (s, x), (_, y) in zip(ones, twos)]
    return GemmPlan(
        row,
        anchor.groups,
        tuple(loops["m"]),
        tuple(loops["n"]),
        tuple(loops["k"]),
        a_pieces=pieces[1],
        b_pieces=pieces[2],
        c_pieces=pieces[0],
    )


def _pieces(digits: tuple[Mode, ...], have: Fragment) -> tuple[int, ...] | None:
    """Register offset of each value of an instruction's operand, in the instruction's order."""
    offsets = [0]
    for digit in digits:
        stride = locate(have, digit)
        if stride is None:
            return None
        offsets = [o + d * stride for d in range(digit.size) for o in offsets]
    return tuple(offsets)


def _reps(want: Fragment, have: Fragment, atom: Fragment, dim: int) -> list[tuple[int, int]] | None:
    """(size, register stride) of every repetition of the instruction along `dim`."""
    count = sum(1 for x in atom.value if x.size > 1)
    out = []
    for digit in want.value[count:]:
        if digit.dim == dim:
            stride = locate(have, digit)
            if stride is None:
                return None
            out.append((digit.size, stride))
    return out
