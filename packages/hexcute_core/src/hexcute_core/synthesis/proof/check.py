"""An independent proof of a Solution: every equation evaluated, thread by thread, value by value.

Nothing here calls the solver or the layout algebra's composition and inverse. Copies are replayed
from the meaning of their instruction, gemms from the products they sum, shared layouts from their
values. Tables are numpy arrays [thread, value, dimension].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian
from math import prod

import numpy as np

from hexcute_core.arch import CopyRow
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.synthesis.proof.gemm import check_gemm
from hexcute_core.synthesis.proof.hopper import check_boxes, check_bulk, check_wgmma
from hexcute_core.synthesis.proof.memory import check_global_runs, check_shared_runs
from hexcute_core.synthesis.proof.named import check_named
from hexcute_core.synthesis.proof.parts import part_table
from hexcute_core.synthesis.proof.relabel import check_relabel
from hexcute_core.synthesis.proof.tables import Table, calls, digits, inside, offsets
from hexcute_core.synthesis.proof.updates import check_update
from hexcute_core.synthesis.solution import CopyPlan, Exchange, SharedLayout, Solution
from hexcute_core.tile import (
    CastTile,
    Copy,
    Elementwise,
    Fill,
    ForElements,
    Gemm,
    GlobalView,
    Prefetch,
    Rearrange,
    Reduce,
    RegisterTensor,
    Relabel,
    Scan,
    SharedTensor,
    TileProgram,
    TileRef,
)
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.teams import by_team
from hexcute_core.tile.visit import results, tiles
from hexcute_core.unions import assert_never


def check(solution: Solution) -> None:
    """Raises VerifyError, located, at the first equation that does not hold."""
    program = solution.program
    for name, layout in solution.shared.items():
        _bijection(program, name, layout)
    check_named(solution)
    facts = Facts(program)
    for op, team in by_team(program):
        if isinstance(op, TileOp):
            _operation(solution, facts, op, team.threads)


def _operation(solution: Solution, facts: Facts, op: TileOp, threads: int) -> None:
    _own(solution, op)
    match op:
        case Copy() if op.id in solution.bulk:
            check_bulk(solution, facts, op)
        case Prefetch() if op.id in solution.bulk:
            check_boxes(solution.bulk[op.id], op.src, op.span)
        case Copy() if op.reduce is not None:
            raise VerifyError(f"nothing combines `{op.src.tensor}` by {op.reduce}", op.span)
        case Copy() if op.id in solution.copies:
            _copy(solution, facts, op, threads)
        case Copy() if not {op.src.tensor, op.dst.tensor} <= set(solution.fragments):
            raise VerifyError(f"nothing carries `{op.src.tensor}` to `{op.dst.tensor}`", op.span)
        case Copy() | CastTile():
            _alike(solution, op.src, op.dst, op.span, threads)
        case Relabel():
            check_relabel(solution, op, threads)
        case Elementwise():
            for src in op.srcs:
                _alike(solution, src, op.dst, op.span, threads)
        case Reduce():
            _reduced(solution, op, threads)
        case Scan():
            # Threads hold the same elements of all operands: each scans what it holds.
            for src, dst in cartesian(op.srcs, op.dsts):
                _alike(solution, src, dst, op.span, threads)
                _alike(solution, dst, src, op.span, threads)
        case Gemm() if op.id in solution.wgmmas:
            check_wgmma(solution, facts, op)
        case Gemm() if op.id in solution.gemms:
            check_gemm(solution, op, threads)
        case Rearrange() if op.id in solution.exchanges:
            _exchanged(solution, op, solution.exchanges[op.id], threads)
        case ForElements():
            _covers(solution, op.ref, op.span, threads)
            # A thread finds the elements of the other tensors among its own.
            for ref in tiles(op)[1:]:
                _alike(solution, ref, op.ref, op.span, threads)
                if ref.shape == op.ref.shape:
                    _alike(solution, op.ref, ref, op.span, threads)
        case Fill() if op.dst.tensor in solution.fragments:
            _covers(solution, op.dst, op.span, threads)
        case Prefetch():
            # Without a plan it does nothing, and means nothing.
            pass
        case Gemm() | Rearrange() | Fill():
            raise VerifyError(f"nothing makes `{results(op)[0].tensor}`", op.span)
        case _:
            assert_never(op)


def _own(solution: Solution, op: TileOp) -> None:
    """Only a copy of threads may touch another block's memory."""
    if isinstance(op, Copy) and op.id in solution.copies:
        return
    for ref in tiles(op):
        if ref.rank is not None:
            raise VerifyError(f"`{ref.tensor}` of another block is no operand here", op.span)




def _index(coords: Table, shape: Sequence[int]) -> Table:
    """Coordinates as one number each."""
    out = np.zeros(coords.shape[:-1], dtype=np.int64)
    for d, extent in enumerate(shape):
        out = out * extent + coords[..., d]
    return out


def _covers(solution: Solution, ref: TileRef, span: SourceSpan, threads: int) -> None:
    table = part_table(solution, ref, threads, span)
    held = inside(table, ref.shape)
    flat = [_index(row[ok], ref.shape) for row, ok in zip(table, held)]
    doubled = any(len(np.unique(row)) != len(row) for row in flat)
    if doubled or not _whole(np.concatenate(flat), ref.shape):
        f = solution.fragments[ref.tensor]
        raise VerifyError(f"`{ref.tensor}`: {f} does not cover its tile", span)


def _whole(flat: Table, shape: Sequence[int]) -> bool:
    """Whether the numbers are those of all elements of a tile and no others."""
    return np.array_equal(np.unique(flat), np.arange(prod(shape)))


def _bijection(program: TileProgram, name: str, layout: SharedLayout) -> None:
    tensor = program.tensor(name)
    assert isinstance(tensor, SharedTensor)
    if not _whole(offsets(layout).reshape(-1), tensor.shape):
        raise VerifyError(f"`{name}`: {layout} is not a bijection", tensor.span)


def _copy(solution: Solution, facts: Facts, op: Copy, threads: int) -> None:
    plan, program = solution.copies[op.id], solution.program
    moved = plan.row.src, (plan.second or plan.row).dst
    meant = tuple(_scope(program, ref) for ref in (op.src, op.dst))
    if moved != meant:
        raise VerifyError(f"{plan.name} moves {moved}, the copy goes {meant}", op.span)
    check_update(plan, op, program)
    alike = () if op.update is None else (op.update.old, op.update.compare)
    for ref in (ref for ref in alike if ref is not None):
        # A thread compares with, and gets back, the elements that it updates.
        _alike(solution, ref, op.src, op.span, threads)
        _alike(solution, op.src, ref, op.span, threads)
    for ref in (op.src, op.dst):
        tensor = program.tensor(ref.tensor)
        if isinstance(tensor, RegisterTensor):
            _covers(solution, ref, op.span, threads)
            _registers(plan, part_table(solution, ref, threads, op.span), op)
        elif isinstance(tensor, SharedTensor):
            check_shared_runs(facts, plan, solution.shared[ref.tensor], ref, op, threads)
        else:
            check_global_runs(program, facts, plan, ref, op, threads)
    rank = len(op.dst.shape)
    run = digits(np.arange(prod(m.size for m in plan.run)), plan.run, rank)
    starts = digits(np.arange(threads), plan.thread, rank)
    coords = np.concatenate(
        [(starts[:, None] + run + move).reshape(-1, rank) for move, _ in calls(plan, rank)]
    )
    reached = _index(coords[inside(coords, op.dst.shape)], op.dst.shape)
    if not _whole(reached, op.dst.shape):
        raise VerifyError(f"{plan.name} does not cover the tile", op.span)


def _scope(program: TileProgram, ref: TileRef) -> str:
    """Where a side of a copy lies, in the words of an instruction's row."""
    match program.tensor(ref.tensor):
        case GlobalView():
            return "global"
        case SharedTensor():
            return "shared" if ref.rank is None else "remote"
        case RegisterTensor():
            return "register"


def _registers(plan: CopyPlan, table: Table, op: Copy) -> None:
    """Every register element must hold the tile element that memory has at its address."""
    threads, values, rank = table.shape
    places = _moved(plan, threads, rank)
    registers = np.array([p + w for p in plan.pieces for w in range(plan.width)])
    done = np.zeros(values, dtype=np.int64)
    for move, reg in calls(plan, rank):
        have, want = table[:, reg + registers], places + move
        done[reg + registers] += 1
        wrong = np.argwhere((have != want).any(axis=2))
        if len(wrong):
            t, i = (int(x) for x in wrong[0])
            raise VerifyError(
                f"{plan.name}: thread {t} moves element {tuple(want[t, i])} to the register of "
                f"{tuple(have[t, i])}",
                op.span,
            )
    if (done != 1).any():
        raise VerifyError(f"{plan.name} does not move every register once", op.span)


def _moved(plan: CopyPlan, threads: int, rank: int) -> Table:
    """[thread, register of a call] -> tile coordinate that one call moves there."""
    count = len(plan.pieces) * plan.width
    t, i = np.arange(threads)[:, None], np.arange(count)[None, :]
    if plan.row.access == "vector":
        return digits(t + 0 * i, plan.thread, rank) + digits(i + 0 * t, plan.run, rank)
    lanes, columns = _sources(plan.row)
    own = t // len(lanes) * len(lanes) + lanes[t % len(lanes), i]
    column = columns[t % len(lanes), i]
    return digits(own, plan.thread, rank) + digits(column, plan.run, rank)


def _sources(row: CopyRow) -> tuple[Table, Table]:
    """For each lane and register of a matrix row: the lane whose address the element lies at, and
    its column there."""
    p, q = row.p, row.q
    assert p is not None and q is not None
    given: dict[tuple[int, ...], tuple[int, int]] = {}
    for lane in reversed(range(p.threads)):
        for column in range(p.values):
            given[p.coord(lane, column)] = (lane, column)
    found = [[given[q.coord(lane, v)] for v in range(q.values)] for lane in range(q.threads)]
    table = np.array(found, dtype=np.int64)
    return table[..., 0], table[..., 1]


def _alike(solution: Solution, src: TileRef, dst: TileRef, span: SourceSpan, threads: int) -> None:
    """Thread t must hold, for each of its elements of dst, the element of src it needs."""
    _covers(solution, dst, span, threads)
    need, have = (part_table(solution, ref, threads, span) for ref in (dst, src))
    wanted, held = inside(need, dst.shape), inside(have, src.shape)
    for d, extent in enumerate(src.shape):
        if extent == 1:
            need[..., d] = 0
    for t in range(threads):
        want = _index(need[t][wanted[t]], src.shape)
        missing = np.setdiff1d(want, _index(have[t][held[t]], src.shape))
        if len(missing):
            raise VerifyError(
                f"thread {t} needs element {np.unravel_index(int(missing[0]), src.shape)} of "
                f"`{src.tensor}` and does not hold it",
                span,
            )


def _reduced(solution: Solution, op: Reduce, threads: int) -> None:
    _covers(solution, op.src, op.span, threads)
    _covers(solution, op.dst, op.span, threads)
    table = part_table(solution, op.src, threads, op.span)
    # A thread may hold nothing of a row that it helps to reduce: it learns the result all the same.
    table[..., op.axis] %= op.keep
    into = part_table(solution, op.dst, threads, op.span)
    wanted, held = inside(table, op.dst.shape), inside(into, op.dst.shape)
    for t in range(threads):
        want, have = (
            _index(x[t][ok[t]], op.dst.shape) for x, ok in ((table, wanted), (into, held))
        )
        if not np.array_equal(np.unique(want), np.unique(have)):
            raise VerifyError(f"thread {t} reduces into elements that are not its own", op.span)


def _exchanged(solution: Solution, op: Rearrange, plan: Exchange, threads: int) -> None:
    """Every destination value must be the source value that the digits name, in the same warp."""
    source, target = (part_table(solution, ref, threads, op.span) for ref in (op.src, op.dst))
    t = np.arange(threads)
    values = [m for m in plan.moves if not m.dst.lane]
    own = sum((t // place % n * place for n, place in plan.own), np.zeros_like(t))
    for picks in cartesian(*(range(m.size) for m in values)):
        lane, register, index = own.copy(), np.zeros_like(t), 0
        chosen = dict(zip(map(id, values), picks))
        for m in plan.moves:
            digit = chosen[id(m)] if id(m) in chosen else t // m.dst.stride % m.size
            index += 0 if m.dst.lane else int(digit) * m.dst.stride
            if m.src.lane:
                lane = lane + digit * m.src.stride
            else:
                register = register + digit * m.src.stride
        # The hardware asks a lane of the own warp, whatever the number says above it.
        asked = t - t % 32 + lane % 32
        if (register >= source.shape[1]).any() or index >= target.shape[1]:
            raise VerifyError("the rearrange names registers that there are not", op.span)
        if (source[asked, register] != target[:, index]).any():
            raise VerifyError(f"value {index} of the rearrange is another element", op.span)
