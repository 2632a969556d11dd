"""gemm(c, a, b): along M `f_c o p_C^-1 ~ f_a o p_A^-1`, along N c with b, along K a with b.

`gemm_anchors` tiles C with an instruction and solves A and B: M digits of C appear in A, N
digits in B, and K digits appear in both. The order of the digits along each axis is ours to
choose, so axes are also offered in orders that let a thread move a contiguous run. `plan_gemm`
turns three fragments into register offsets, or says why they do not fit the equation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product as cartesian

from hexcute_core.arch import Arch, Fragment, MmaRow, Mode, product
from hexcute_core.arch.registers import locate, same_threads
from hexcute_core.synthesis.solution import GemmLoop, GemmPlan
from hexcute_core.tile import Gemm, TileRef

WORD_BITS = 32


@dataclass(frozen=True)
class Orders:
    """Lengths of the contiguous runs, in elements, that each axis may be ordered for."""

    k: tuple[int, ...] = ()
    m: tuple[int, ...] = ()
    n: tuple[int, ...] = ()


NATURAL = Orders()


@dataclass(frozen=True)
class GemmAnchor:
    """Fragments of C, A and B under one instruction, arrangement and order of the axes.

    `runs` are the contiguous runs along (M, N, K), 0 for the instruction's own order. Value
    digits stand in the instruction's order, its repetitions behind them; registers may hold them
    in any order: `layouts` has the one that keeps runs together.
    """

    row: MmaRow
    groups: tuple[int, int]
    runs: tuple[int, int, int]
    c: Fragment
    a: Fragment
    b: Fragment

    def placed(self, op: Gemm) -> tuple[tuple[TileRef, Fragment, Fragment], ...]:
        """(tile, its fragment in the instruction's order, its layout) of `op`'s registers."""
        return tuple(zip((op.c, op.a, op.b), (self.c, self.a, self.b), self.layouts))

    @cached_property
    def layouts(self) -> tuple[Fragment, Fragment, Fragment]:
        """(c, a, b) as registers hold them."""
        m, n, k = self.runs
        a, b, c = self.a, self.b, self.c
        if k:
            a, b = _run_first(a, 1), _run_first(b, 1)
        # Operands of an instruction are words: values that share one must stay side by side.
        if (m or n) and self.row.c_dtype.bits >= WORD_BITS:
            c = _run_first(c, 1 if n else 0)
        return c, a, b

    def __str__(self) -> str:
        runs = [f"{axis} in runs of {r}" for axis, r in zip("MNK", self.runs) if r]
        return f"{self.row.name} warps {self.groups[0]}x{self.groups[1]} {' '.join(runs)}".strip()


def _run_first(f: Fragment, dim: int) -> Fragment:
    """`f` with its values along `dim` in memory order before the others."""
    along = sorted((x for x in f.value if x.dim == dim), key=lambda x: x.step)
    return Fragment(f.shape, f.thread, (*along, *(x for x in f.value if x.dim != dim)))


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
    row: MmaRow,
    m: int,
    n: int,
    k: int,
    threads: int,
    forced: tuple[int, int] | None,
    orders: Orders = NATURAL,
    padded: bool = False,
) -> Iterator[GemmAnchor]:
    """Every arrangement of the block's instruction groups, least operand traffic first.

    With `forced`, that (along M, along N) arrangement alone. Groups that the tile has no room for
    repeat the work of others. Yields nothing where the instruction does not tile (m, n, k), unless
    its last tiles are `padded`: what they have beyond the tile is no element of it, and zero along
    K.
    """
    im, inn, ik = row.tile
    if threads % row.threads or ((m % im or n % inn or k % ik) and not padded):
        return
    shape = m, n, k
    m, n, k = -(-m // im) * im, -(-n // inn) * inn, -(-k // ik) * ik
    groups = threads // row.threads
    for gm, gn in _arrangements(m // im, n // inn, groups, forced):
        for runs in cartesian(
            (0, *(r for r in orders.m if r > 1 and m // gm % (im * r) == 0)),
            (0, *(r for r in orders.n if r > 1 and n // gn % (inn * r) == 0)),
            (0, *_k_runs(row, k, orders.k)),
        ):
            found = _anchor(row, m, n, k, (gm, gn), groups, runs)
            yield found if shape == (m, n, k) else _cut(found, *shape)


def _cut(anchor: GemmAnchor, m: int, n: int, k: int) -> GemmAnchor:
    """`anchor` of a tile that ends within its instructions' tiles."""
    c, a, b = (
        Fragment(shape, f.thread, f.value)
        for f, shape in ((anchor.c, (m, n)), (anchor.a, (m, k)), (anchor.b, (n, k)))
    )
    return replace(anchor, c=c, a=a, b=b)


def _arrangements(
    m_tiles: int, n_tiles: int, groups: int, forced: tuple[int, int] | None
) -> list[tuple[int, int]]:
    """(along M, along N) for as many groups as find work."""
    fitting = [
        (gm, gn)
        for gm in range(1, groups + 1)
        for gn in range(1, groups // gm + 1)
        if m_tiles % gm == 0 and n_tiles % gn == 0
    ]
    if forced is not None:
        return [s for s in fitting if s == forced]
    most = max((gm * gn for gm, gn in fitting), default=0)
    shapes = [s for s in fitting if s[0] * s[1] == most]
    return sorted(shapes, key=lambda s: (m_tiles // s[0] + n_tiles // s[1], s[0]))


def _k_runs(row: MmaRow, k: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Runs along K, longest first, that are longer than what a thread holds side by side."""
    own = product(x for x in row.a.value if x.dim == 1)
    lanes = product(x for x in row.a.thread if x.dim == 1)
    if row.threads == 1 or own != product(x for x in row.b.value if x.dim == 1):
        return ()
    return tuple(
        run
        for run in sorted(wanted, reverse=True)
        if run > own // 2 and run % own == 0 and k % (run * lanes) == 0
    )


def _anchor(
    row: MmaRow,
    m: int,
    n: int,
    k: int,
    groups: tuple[int, int],
    present: int,
    runs: tuple[int, int, int],
) -> GemmAnchor:
    im, inn, ik = row.tile
    gm, gn = groups
    spare, rest = divmod(present, gm * gn)
    extra = (Mode(spare, 0, 0),) if rest == 0 else ()
    m_run, n_run, k_run = runs
    m_scale, m_reps = _stretched(im, m // gm // im, m_run, 0)
    n_scale, n_reps = _stretched(inn, n // gn // inn, n_run, 0)
    c_atom = _scaled(_scaled(row.c, 0, m_scale), 1, n_scale)
    a_atom, b_atom = _scaled(row.a, 0, m_scale), _scaled(row.b, 0, n_scale)
    k_reps: tuple[Mode, ...] = (Mode(k // ik, ik, 1),)
    if k_run:
        a_atom, k_reps = _rerun(a_atom, k, k_run)
        b_atom, _ = _rerun(b_atom, k, k_run)
    c = Fragment(
        (m, n),
        (*c_atom.thread, Mode(gm, m // gm, 0), Mode(gn, n // gn, 1), *extra),
        (*c_atom.value, *m_reps, *(Mode(x.size, x.step, 1) for x in n_reps)),
    )
    a = Fragment(
        (m, k),
        (*a_atom.thread, Mode(gm, m // gm, 0), Mode(gn, 0, 0), *extra),
        (*a_atom.value, *m_reps, *k_reps),
    )
    b = Fragment(
        (n, k),
        (*b_atom.thread, Mode(gm, 0, 0), Mode(gn, n // gn, 0), *extra),
        (*b_atom.value, *n_reps, *k_reps),
    )
    return GemmAnchor(row, groups, runs, _tidy(c), _tidy(a), _tidy(b))


def _stretched(tile: int, reps: int, run: int, dim: int) -> tuple[int, tuple[Mode, ...]]:
    """(scale of the instruction's own steps, repetitions): `run` of them stand side by side, the
    instruction's rows between them."""
    if not run:
        return 1, (Mode(reps, tile, dim),)
    return run, (Mode(run, 1, dim), Mode(reps // run, tile * run, dim))


def _scaled(atom: Fragment, dim: int, scale: int) -> Fragment:
    def modes(xs: tuple[Mode, ...]) -> tuple[Mode, ...]:
        return tuple(Mode(x.size, x.step * scale, x.dim) if x.dim == dim else x for x in xs)

    return atom if scale == 1 else Fragment(atom.shape, modes(atom.thread), modes(atom.value))


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


def plan_gemm(anchor: GemmAnchor, c: Fragment, a: Fragment, b: Fragment) -> GemmPlan | str:
    """The plan of `anchor` on the actual fragments, or the reason why they do not fit it."""
    for name, want, have in (("c", anchor.c, c), ("a", anchor.a, a), ("b", anchor.b, b)):
        if want.values != have.values or not same_threads(want, have):
            return f"{name} needs {want} for {anchor.row.name}, but is {have}"
    row = anchor.row
    pieces = []
    for atom, want, have, bits in (
        (row.c, anchor.c, c, row.c_dtype.bits),
        (row.a, anchor.a, a, row.a_dtype.bits),
        (row.b, anchor.b, b, row.b_dtype.bits),
    ):
        found = _pieces(want.value[: _own(atom)], have)
        if found is None or not _words(found, bits):
            return f"the registers {have} do not hold the fragment {want} of {row.name}"
        pieces.append(found)
    loops: dict[str, tuple[GemmLoop, ...]] = {}
    sides = {
        "m": ((anchor.c, c, row.c, 0), (anchor.a, a, row.a, 0)),
        "n": ((anchor.c, c, row.c, 1), (anchor.b, b, row.b, 0)),
        "k": ((anchor.a, a, row.a, 1), (anchor.b, b, row.b, 1)),
    }
    for axis, (first, second) in sides.items():
        ones, twos = _reps(*first), _reps(*second)
        together = None if ones is None or twos is None else _zip(ones, twos)
        if together is None:
            return f"the operands of {row.name} do not repeat alike along {axis.upper()}"
        loops[axis] = together
    return GemmPlan(
        row,
        anchor.groups,
        loops["m"],
        loops["n"],
        loops["k"],
        a_pieces=pieces[1],
        b_pieces=pieces[2],
        c_pieces=pieces[0],
    )


def _own(atom: Fragment) -> int:
    """Value digits of one call."""
    return sum(1 for x in atom.value if x.size > 1)


def _pieces(digits: tuple[Mode, ...], have: Fragment) -> tuple[int, ...] | None:
    """Register offset of each value of an instruction's operand, in the instruction's order."""
    offsets = [0]
    for digit in digits:
        parts = locate(have, digit)
        if parts is None:
            return None
        for size, stride in parts:
            offsets = [o + d * stride for d in range(size) for o in offsets]
    return tuple(offsets)


def _words(pieces: tuple[int, ...], bits: int) -> bool:
    """Whether the values of every 32-bit operand of an instruction are consecutive registers."""
    word = max(1, WORD_BITS // bits)
    return len(pieces) % word == 0 and all(
        piece == pieces[v - v % word] + v % word and (piece - v) % word == 0
        for v, piece in enumerate(pieces)
    )


def _reps(want: Fragment, have: Fragment, atom: Fragment, dim: int) -> list[tuple[int, int]] | None:
    """(size, register stride) of every repetition of the instruction along `dim`."""
    out: list[tuple[int, int]] = []
    for digit in want.value[_own(atom) :]:
        if digit.dim == dim:
            parts = locate(have, digit)
            if parts is None:
                return None
            out += parts
    return out


def _zip(ones: list[tuple[int, int]], twos: list[tuple[int, int]]) -> tuple[GemmLoop, ...] | None:
    """Both operands' repetitions, cut until their sizes agree."""
    out: list[GemmLoop] = []
    first, second = list(ones), list(twos)
    while first and second:
        (n, x), (m, y) = first.pop(0), second.pop(0)
        size = min(n, m)
        if n % size or m % size:
            return None
        out.append(GemmLoop(size, x, y))
        if n > size:
            first.insert(0, (n // size, x * size))
        if m > size:
            second.insert(0, (m // size, y * size))
    return None if first or second else tuple(out)
