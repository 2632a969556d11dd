"""An independent proof of a Solution: every equation evaluated, thread by thread, value by value.

Nothing here calls the solver or the layout algebra's composition and inverse. Copies are replayed
from the meaning of their instruction, gemms from the products they sum, shared layouts from their
values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from math import prod

from hexcute_core.arch import Fragment, Mode
from hexcute_core.errors import VerifyError
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.solution import CopyPlan, GemmPlan, SharedLayout, Solution
from hexcute_core.tile import (
    CastTile,
    Copy,
    Elementwise,
    Gemm,
    Reduce,
    RegisterTensor,
    SharedTensor,
    TileProgram,
    TileRef,
)

Coord = tuple[int, ...]


def check(solution: Solution) -> None:
    """Raises VerifyError, located, at the first equation that does not hold."""
    program = solution.program
    for name, layout in solution.shared.items():
        _bijection(program, name, layout)
    for name, f in solution.fragments.items():
        if not f.covers():
            raise VerifyError(f"`{name}`: {f} does not cover its tile", program.tensor(name).span)
    for item in build_graph(program).ops:
        op = item.op
        match op:
            case Copy() if op.id in solution.copies:
                _copy(solution, op)
            case Copy() | CastTile():
                _alike(solution, op.src, op.dst, op)
            case Elementwise():
                for src in op.srcs:
                    _alike(solution, src, op.dst, op)
            case Reduce():
                _reduced(solution, op)
            case Gemm():
                _gemm(solution, op)
            case _:
                pass


def _digits(index: int, modes: Sequence[Mode], rank: int) -> Coord:
    out = [0] * rank
    for m in modes:
        out[m.dim] += (index % m.size) * m.step
        index //= m.size
    return tuple(out)


def _plus(a: Coord, b: Coord) -> Coord:
    return tuple(x + y for x, y in zip(a, b))


def _calls(plan: CopyPlan, rank: int) -> Iterator[tuple[Coord, int]]:
    """(tile move, register offset) of every call."""
    for picks in cartesian(*(range(r.size) for r in plan.reps)):
        move, reg = [0] * rank, 0
        for pick, rep in zip(picks, plan.reps):
            move[rep.dim] += pick * rep.step
            reg += pick * rep.reg
        yield tuple(move), reg


def _offset(layout: SharedLayout, coord: Coord) -> int:
    plain = int(layout.layout(*coord))
    return plain if layout.swizzle is None else int(layout.swizzle(plain))


def _bijection(program: TileProgram, name: str, layout: SharedLayout) -> None:
    tensor = program.tensor(name)
    assert isinstance(tensor, SharedTensor)
    seen = {_offset(layout, c) for c in cartesian(*(range(e) for e in tensor.shape))}
    if seen != set(range(prod(tensor.shape))):
        raise VerifyError(f"`{name}`: {layout} is not a bijection", tensor.span)


def _copy(solution: Solution, op: Copy) -> None:
    plan, program = solution.copies[op.id], solution.program
    for ref in (op.src, op.dst):
        tensor = program.tensor(ref.tensor)
        if isinstance(tensor, RegisterTensor):
            _registers(plan, solution.fragments[ref.tensor], program, op)
        elif isinstance(tensor, SharedTensor):
            _contiguous(plan, solution.shared[ref.tensor], ref, tensor, program, op)
    rank = len(op.dst.shape)
    reached = {
        _plus(_plus(_digits(t, plan.thread, rank), move), _digits(i, plan.run, rank))
        for t in range(program.block_dim)
        for move, _ in _calls(plan, rank)
        for i in range(prod(m.size for m in plan.run))
    }
    if reached != set(cartesian(*(range(e) for e in op.dst.shape))):
        raise VerifyError(f"{plan.name} does not cover the tile", op.span)


def _registers(plan: CopyPlan, f: Fragment, program: TileProgram, op: Copy) -> None:
    """Every register element must hold the tile element that memory has at its address."""
    rank = len(f.shape)
    for t in range(program.block_dim):
        for move, reg in _calls(plan, rank):
            for index, place in _moved(plan, t, rank):
                have = f.coord(t, reg + index)
                want = _plus(move, place)
                if have != want:
                    raise VerifyError(
                        f"{plan.name}: thread {t} moves element {want} to the register of {have}",
                        op.span,
                    )


def _moved(plan: CopyPlan, t: int, rank: int) -> Iterator[tuple[int, Coord]]:
    """(register, tile coordinate) of the elements one call gives thread `t`."""
    registers = [p + w for p in plan.pieces for w in range(plan.width)]
    if plan.row.access == "vector":
        start = _digits(t, plan.thread, rank)
        for i, register in enumerate(registers):
            yield register, _plus(start, _digits(i, plan.run, rank))
        return
    # PTX "ldmatrix": lane 8*i + r gives row r of matrix i; lane l receives row l / 4, word l % 4
    # of each matrix, or with .trans column l / 4, rows 2 * (l % 4) and the next.
    lane, warp = t % 32, t - t % 32
    word = plan.width
    trans = plan.row.name.endswith(".trans")
    for i in range(len(plan.pieces)):
        for w in range(word):
            row, column = lane // 4, word * (lane % 4) + w
            if trans:
                row, column = 2 * (lane % 4) + w, lane // 4
            start = _digits(warp + 8 * i + row, plan.thread, rank)
            yield plan.pieces[i] + w, _plus(start, _digits(column, plan.run, rank))


def _contiguous(
    plan: CopyPlan,
    layout: SharedLayout,
    ref: TileRef,
    tensor: SharedTensor,
    program: TileProgram,
    op: Copy,
) -> None:
    """A call's run must lie in consecutive, aligned offsets of shared memory."""
    rank, run = len(ref.shape), prod(m.size for m in plan.run)
    for t in range(program.block_dim):
        for move, _ in _calls(plan, rank):
            start = _plus(_digits(t, plan.thread, rank), move)
            offsets = []
            for i in range(run):
                inside = _plus(start, _digits(i, plan.run, rank))
                whole = [0] * len(tensor.shape)
                for m, c in zip(ref.kept, inside):
                    whole[m] = c
                offsets.append(_offset(layout, tuple(whole)))
            if offsets != list(range(offsets[0], offsets[0] + run)) or offsets[0] % run:
                raise VerifyError(
                    f"{plan.name} at {start} is not {run} aligned elements of {layout}", op.span
                )


def _alike(
    solution: Solution, src: TileRef, dst: TileRef, op: CastTile | Copy | Elementwise
) -> None:
    """Thread t must hold, for each of its elements of dst, the element of src it needs."""
    f, g = solution.fragments[dst.tensor], solution.fragments[src.tensor]
    for t in range(f.threads):
        held = {g.coord(t, v) for v in range(g.values)}
        for v in range(f.values):
            at = f.coord(t, v)
            need = tuple(0 if s == 1 else c for c, s in zip(at, src.shape))
            if need not in held:
                raise VerifyError(
                    f"thread {t} needs element {need} of `{src.tensor}` and does not hold it",
                    op.span,
                )


def _reduced(solution: Solution, op: Reduce) -> None:
    f, g = solution.fragments[op.src.tensor], solution.fragments[op.dst.tensor]
    for t in range(f.threads):
        want = {
            tuple(0 if d == op.axis else c for d, c in enumerate(f.coord(t, v)))
            for v in range(f.values)
        }
        if want != {g.coord(t, v) for v in range(g.values)}:
            raise VerifyError(f"thread {t} reduces {want} into other elements", op.span)


def _gemm(solution: Solution, op: Gemm) -> None:
    """The products summed into c[i, j] must be a[i, k] b[j, k] for every k, each once."""
    plan = solution.gemms[op.id]
    c, a, b = (solution.fragments[r.tensor] for r in (op.c, op.a, op.b))
    groups = solution.program.block_dim // plan.row.threads
    done: dict[Coord, int] = {}
    for group in range(groups):
        for regs in _gemm_calls(plan):
            _gemm_call(plan, (c, a, b), group, regs, done, op)
    m, n = op.c.shape
    k = op.a.shape[1]
    if len(done) != m * n * k or any(count != 1 for count in done.values()):
        raise VerifyError(f"{plan.row.name} does not sum every product once", op.span)


def _gemm_calls(plan: GemmPlan) -> Iterator[tuple[int, int, int]]:
    """(c, a, b) register offsets of every instruction."""
    levels = [*((x, "m") for x in plan.m), *((x, "n") for x in plan.n), *((x, "k") for x in plan.k)]
    for picks in cartesian(*(range(level.size) for level, _ in levels)):
        c = a = b = 0
        for pick, (level, axis) in zip(picks, levels):
            if axis == "m":
                c, a = c + pick * level.first, a + pick * level.second
            elif axis == "n":
                c, b = c + pick * level.first, b + pick * level.second
            else:
                a, b = a + pick * level.first, b + pick * level.second
        yield c, a, b


def _gemm_call(
    plan: GemmPlan,
    fragments: tuple[Fragment, Fragment, Fragment],
    group: int,
    regs: tuple[int, int, int],
    done: dict[Coord, int],
    op: Gemm,
) -> None:
    row = plan.row
    maps: list[dict[Coord, Coord]] = []
    for f, atom, base, pieces in zip(
        fragments, (row.c, row.a, row.b), regs, (plan.c_pieces, plan.a_pieces, plan.b_pieces)
    ):
        found: dict[Coord, Coord] = {}
        for lane in range(row.threads):
            for v in range(atom.values):
                place = f.coord(group * row.threads + lane, base + pieces[v])
                if found.setdefault(atom.coord(lane, v), place) != place:
                    raise VerifyError(f"{row.name} reads one element from two places", op.span)
        maps.append(found)
    c, a, b = maps
    im, inn, ik = row.tile
    for i, j, k in cartesian(range(im), range(inn), range(ik)):
        (ci, cj), (ai, ak), (bj, bk) = c[i, j], a[i, k], b[j, k]
        if ci != ai or cj != bj or ak != bk:
            raise VerifyError(
                f"{row.name} adds a[{ai}, {ak}] * b[{bj}, {bk}] to c[{ci}, {cj}]", op.span
            )
        key = (ci, cj, ak)
        done[key] = done.get(key, 0) + 1
