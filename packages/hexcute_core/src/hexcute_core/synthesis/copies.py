"""copy(a, b): `f o p^-1 = g o q^-1` for each instruction (p, q) that may carry the copy.

For registers on one side, g is known and the memory side is `f = g o q^-1 o p`: which tile
coordinate each thread's contiguous run starts at. Between two memories the distribution is free
and follows the global side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cute_layout import Layout, composition, right_inverse
from hexcute_core.arch import Arch, CopyRow, Fragment, Mode, product
from hexcute_core.arch.linear import from_linear, to_linear
from hexcute_core.synthesis import nested
from hexcute_core.synthesis.coalesced import overhanging
from hexcute_core.synthesis.memory import GlobalTile
from hexcute_core.synthesis.solution import CopyPlan, Rep


@dataclass(frozen=True)
class Rejection:
    """An instruction that cannot carry a copy, with the reason."""

    name: str
    reason: str


Candidate = CopyPlan | Rejection


def register_copies(
    arch: Arch,
    g: Fragment,
    bits: int,
    memory: GlobalTile | None,
    load: bool,
    starts: tuple[int, ...] = (),
    remote: bool = False,
    rows: Sequence[CopyRow] | None = None,
    wishes: tuple[tuple[Mode, ...], ...] = (),
) -> Iterator[Candidate]:
    """Plans between registers spread as `g` and memory: global (`memory` given) or shared, another
    block's where it is `remote`.

    `starts` are known divisors of where a shared tile begins, by dimension (0: at the origin);
    `rows` are the instructions, those that copy where nothing else is meant; `wishes` the digits of
    the tile that other copies would have one after another there.
    """
    scope = "global" if memory is not None else "remote" if remote else "shared"
    src, dst = (scope, "register") if load else ("register", scope)
    for row in arch.copies if rows is None else rows:
        if (row.src, row.dst) != (src, dst):
            continue
        if row.access == "matrix":
            if row.element_bits == bits:
                yield _aligned(_matrix(row, g), starts)
        else:
            yield from (_aligned(c, starts) for c in _vector(row, g, bits, memory, wishes))


def _aligned(candidate: Candidate, starts: tuple[int, ...]) -> Candidate:
    """`candidate`, unless a run of it may begin inside another because of where the tile starts."""
    if isinstance(candidate, CopyPlan):
        for m in candidate.run:
            if m.dim < len(starts) and starts[m.dim] % (m.step * m.size):
                return Rejection(
                    candidate.name,
                    f"the tile starts at a multiple of {starts[m.dim]} along dimension {m.dim}, "
                    f"its runs take {m.step * m.size}",
                )
    return candidate


def memory_copies(
    arch: Arch,
    shape: tuple[int, ...],
    bits: int,
    memory: GlobalTile,
    threads: int,
    load: bool,
    starts: tuple[int, ...] = (),
) -> Iterator[Candidate]:
    """Plans between global memory and shared memory: asynchronous rows, then load and store;
    `starts` as for `register_copies`."""
    src, dst = ("global", "shared") if load else ("shared", "global")
    rows = [row for row in arch.copies if row.access == "vector"]
    pairs: list[tuple[CopyRow, CopyRow | None]] = [
        (row, None) for row in rows if (row.src, row.dst) == (src, dst)
    ]
    loads = {r.bytes: r for r in rows if (r.src, r.dst) == (src, "register")}
    stores = {r.bytes: r for r in rows if (r.src, r.dst) == ("register", dst)}
    pairs += [(loads[n], stores[n]) for n in sorted(loads, reverse=True) if n in stores]
    for row, second in pairs:
        name = row.name if second is None else f"{row.name} + {second.name}"
        vector = row.bytes * 8 // bits
        if vector < 1:
            continue
        if row.bytes * 8 % bits:
            yield Rejection(name, f"{row.bytes} bytes is not a whole number of elements")
        elif vector > memory.vector:
            yield Rejection(name, _too_wide(vector, memory))
        else:
            f = overhanging(shape, memory.order, vector, threads) if not memory.run else None
            f = f or nested.spread(shape, memory, vector, threads)
            if f is None:
                yield Rejection(name, "the view's digits do not divide among the threads")
                continue
            count = next(i for i in range(len(f.value) + 1) if product(f.value[:i]) == vector)
            run, reps = f.value[:count], f.value[count:]
            stride, out = vector, []
            for mode in reps:
                out.append(Rep(mode.size, mode.step, mode.dim, stride))
                stride *= mode.size
            yield _aligned(CopyPlan(row, second, f.thread, run, tuple(out), (0,), vector), starts)


def _too_wide(vector: int, memory: GlobalTile) -> str:
    if not memory.digits:
        return "no dimension of the tile is contiguous in global memory"
    return (
        f"needs {vector} aligned contiguous elements, {memory.vector} are known "
        "(pointer alignment, row length, origin and tile extent)"
    )


def _vector(
    row: CopyRow,
    g: Fragment,
    bits: int,
    memory: GlobalTile | None,
    wishes: tuple[tuple[Mode, ...], ...],
) -> Iterator[Candidate]:
    count = row.bytes * 8 // bits
    if count < 1:
        return
    if row.bytes * 8 % bits:
        yield Rejection(row.name, f"{row.bytes} bytes is not a whole number of elements")
        return
    if count == 1:
        yield _plan_vector(row, g, [])
        return
    if memory is not None and count > memory.vector:
        yield Rejection(row.name, _too_wide(count, memory))
        return
    found: list[CopyPlan] = []
    for f, run in _runs(g, count, memory, wishes):
        plan = _plan_vector(row, f, run)
        # A run that the tile's edge cuts is none.
        whole = all(g.shape[m.dim] % (m.step * m.size) == 0 for m in plan.run)
        if whole and plan not in found:
            found.append(plan)
    yield from found
    if not found:
        yield Rejection(
            row.name,
            f"no thread of {g} holds {count} consecutive elements side by side",
        )


Run = list[tuple[int, int]]
"""(index of a value mode, part of its size) for each digit of a contiguous run, fastest first."""


def _runs(
    g: Fragment, count: int, memory: GlobalTile | None, wishes: tuple[tuple[Mode, ...], ...]
) -> Iterator[tuple[Fragment, Run]]:
    """Ways for a thread to hold `count` elements that memory has side by side, with `g` as its
    digits are cut for it. Global memory says along which digits; in shared memory any may be
    neighbours: those of one dimension, those of the registers, or those of a wish."""
    if memory is not None:
        ways = [memory.digits] if memory.digits else []
    else:
        ways = [(Mode(count, 1, dim),) for dim in sorted({m.dim for m in g.value})]
    for way in (*ways, *wishes):
        f = g if len(way) == 1 and way[0].step == 1 else nested.cut(g, way)
        begins = nested.first(way, count)
        along = None if begins is None else _run_along(f, begins)
        if along is not None:
            yield f, along
    if memory is None:
        packed = _run_in_order(g, count)
        if packed is not None:
            yield g, packed


def _run_in_order(g: Fragment, count: int) -> Run | None:
    """The first `count` values in register order."""
    chosen: Run = []
    for i, m in enumerate(g.value):
        part = min(m.size, count)
        if m.size % part or count % part:
            return None
        if part > 1:
            chosen.append((i, part))
        count //= part
        if count == 1:
            return chosen
    return None


def _run_along(g: Fragment, digits: Sequence[Mode]) -> Run | None:
    """Value digits that make a run of the digits of a tile."""
    chosen: Run = []
    for size, first, dim in digits:
        step, end = first, first * size
        while step < end:
            found = (i for i, m in enumerate(g.value) if m.dim == dim and m.step == step)
            index = next(found, None)
            if index is None:
                return None
            part = min(g.value[index].size, end // step)
            if g.value[index].size % part or end % (step * part):
                return None
            chosen.append((index, part))
            step *= part
    return chosen


def _plan_vector(row: CopyRow, g: Fragment, chosen: Run) -> CopyPlan:
    parts = dict(chosen)
    found: dict[int, tuple[Mode, int]] = {}
    reps: list[Rep] = []
    stride = 1
    for i, m in enumerate(g.value):
        part = parts.get(i, 1)
        if part > 1:
            found[i] = (Mode(part, m.step, m.dim), stride)
        if m.size > part:
            reps.append(Rep(m.size // part, m.step * part, m.dim, stride * part))
        stride *= m.size
    run = [found[i] for i, _ in chosen]
    offsets = [0]
    for mode, reg in run:
        offsets = [o + d * reg for d in range(mode.size) for o in offsets]
    pieces, width = _pieces(offsets)
    return CopyPlan(row, None, g.thread, tuple(m for m, _ in run), tuple(reps), pieces, width)


def _pieces(offsets: list[int]) -> tuple[tuple[int, ...], int]:
    """`offsets` as starts of equally long runs of consecutive registers."""
    width = 1
    while width < len(offsets) and offsets[width] == offsets[width - 1] + 1:
        width += 1
    while any(
        offsets[i : i + width] != list(range(offsets[i], offsets[i] + width))
        for i in range(0, len(offsets), width)
    ):
        width -= 1
    return tuple(offsets[::width]), width


def _matrix(row: CopyRow, g: Fragment) -> Candidate:
    """ldmatrix, stmatrix: `f = g o q^-1 o p` over the instruction's tile."""
    p, q = row.p, row.q
    assert p is not None and q is not None
    lanes = q.threads
    if not g.exact:
        return Rejection(row.name, f"{g} reaches beyond the tile, a matrix would as well")
    picked = _pick_lanes(g, lanes)
    word = q.value[0].size if q.value else 1
    values = _pick_values(g, word, q.values)
    if picked is None or values is None:
        return Rejection(row.name, f"{g} does not hold the instruction's registers")
    warp, others = picked
    if row.dst != "register" and any(m.step == 0 for m in warp):
        return Rejection(row.name, f"lanes of {g} hold the same elements, each would be a row")
    selected, regs, reps = values
    part = Fragment(g.shape, warp, selected)
    f = from_linear(composition(to_linear(part), _rows_to_registers(row)), g.shape)
    if f is None or any(m.step == 0 for part in f[len(p.thread) :] for m in part):
        return Rejection(row.name, f"{g} scatters the instruction's rows")
    rows_modes, run_modes = f[: len(p.thread)], f[len(p.thread) :]
    run = tuple(m for part_modes in run_modes for m in part_modes)
    thread = (*(m for part_modes in rows_modes for m in part_modes), *others)
    pieces, width = regs[::word], word
    return CopyPlan(row, None, thread, run, reps, pieces, width)


@lru_cache(maxsize=256)
def _rows_to_registers(row: CopyRow) -> Layout:
    """`q^-1 o p`: from (lane of a row's address, column) to (lane, register) that receives it."""
    p, q = row.p, row.q
    assert p is not None and q is not None
    found: Layout = composition(right_inverse(to_linear(q)), to_linear(p))
    return found


def _pick_lanes(g: Fragment, lanes: int) -> tuple[tuple[Mode, ...], tuple[Mode, ...]] | None:
    """Thread modes of `g` split at `lanes`."""
    head: list[Mode] = []
    count = 1
    rest = list(g.thread)
    while count < lanes and rest:
        m = rest.pop(0)
        need = lanes // count
        take = min(m.size, need)
        if m.size % take or lanes % (count * take):
            return None
        head.append(Mode(take, m.step, m.dim))
        if m.size > take:
            rest.insert(0, Mode(m.size // take, m.step * take, m.dim))
        count *= take
    return (tuple(head), tuple(rest)) if count == lanes else None


def _pick_values(
    g: Fragment, word: int, total: int
) -> tuple[tuple[Mode, ...], tuple[int, ...], tuple[Rep, ...]] | None:
    """The first value digits of `g` that fill one call: `word` from the first mode, then
    whatever follows in register order; with the registers of the call and the repetitions."""
    selected: list[Mode] = []
    regs, reps = [0], []
    left, stride = total, 1
    first = True
    for m in g.value:
        need = word if first else left
        take = min(m.size, need) if left > 1 else 1
        if first and (m.size < word or m.size % word):
            return None
        if left > 1 and (m.size % take or left % take):
            return None
        if take > 1:
            selected.append(Mode(take, m.step, m.dim))
            regs = [r + d * stride for d in range(take) for r in regs]
            left //= take
        rest = m.size // take
        if rest > 1 and first and left > 1:
            # The first mode is longer than a word: what is left of it serves the matrices.
            more = min(rest, left)
            if rest % more or left % more:
                return None
            selected.append(Mode(more, m.step * take, m.dim))
            regs = [r + d * stride * take for d in range(more) for r in regs]
            left //= more
            take *= more
            rest //= more
        if rest > 1:
            reps.append(Rep(rest, m.step * take, m.dim, stride * take))
        stride *= m.size
        first = False
    if left != 1:
        return None
    return tuple(selected), tuple(regs), tuple(reps)
