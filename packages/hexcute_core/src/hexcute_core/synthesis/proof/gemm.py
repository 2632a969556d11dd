"""A gemm's proof: every product a[i, k] b[j, k] that belongs to an accumulator is added once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as cartesian
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexcute_core.errors import VerifyError
from hexcute_core.synthesis.proof.parts import part_table, table
from hexcute_core.synthesis.solution import GemmPlan, Solution
from hexcute_core.tile import Gemm

Table: TypeAlias = NDArray[np.int64]


def check_gemm(solution: Solution, op: Gemm, threads: int) -> None:
    """Each group of threads, for each element of c it holds, adds each of K products once."""
    plan = solution.gemms[op.id]
    row = plan.row
    c, a, b = (part_table(solution, ref, threads, op.span) for ref in (op.c, op.a, op.b))
    m, n = op.c.shape
    k = op.a.shape[1]
    everywhere = np.zeros((m, n), dtype=np.bool_)
    for group in range(threads // row.threads):
        added = np.zeros((m, n, k), dtype=np.int64)
        for regs in _calls(plan):
            _call(plan, (c, a, b), group, regs, added, op)
        held = added.any(axis=2)
        if (added[held] != 1).any():
            raise VerifyError(f"{row.name} does not sum every product once", op.span)
        everywhere |= held
    if not everywhere.all():
        raise VerifyError(f"{row.name} does not compute every element", op.span)


def _calls(plan: GemmPlan) -> Iterator[tuple[int, int, int]]:
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


def _call(
    plan: GemmPlan,
    tables: tuple[Table, Table, Table],
    group: int,
    regs: tuple[int, int, int],
    added: NDArray[np.int64],
    op: Gemm,
) -> None:
    row = plan.row
    im, inn, ik = row.tile
    maps: list[Table] = []
    own = slice(group * row.threads, (group + 1) * row.threads)
    for held, atom, base, pieces, shape in zip(
        tables,
        (row.c, row.a, row.b),
        regs,
        (plan.c_pieces, plan.a_pieces, plan.b_pieces),
        ((im, inn), (im, ik), (inn, ik)),
    ):
        cells = table(atom, row.threads)
        places = held[own][:, base + np.array(pieces)]
        found = np.full((*shape, 2), -1, dtype=np.int64)
        found[cells[..., 0], cells[..., 1]] = places
        if (found[cells[..., 0], cells[..., 1]] != places).any() or (found < 0).any():
            raise VerifyError(f"{row.name} reads one element from two places", op.span)
        maps.append(found)
    c, a, b = maps
    rows, columns = c[..., 0], c[..., 1]
    depth_a, depth_b = a[..., 1], b[..., 1]
    if (
        (rows[:, :, None] != a[:, None, :, 0]).any()
        or (columns[:, :, None] != b[None, :, :, 0]).any()
        or (depth_a[:, None, :] != depth_b[None, :, :]).any()
    ):
        raise VerifyError(f"{row.name} adds products to elements they do not belong to", op.span)
    # Beyond the tile there are no accumulators, and operands are zero along K.
    m, n, k = added.shape
    there = np.broadcast_to(
        ((rows < m) & (columns < n))[:, :, None] & (depth_a < k)[:, None, :], (im, inn, ik)
    )
    at = (rows[:, :, None], columns[:, :, None], depth_a[:, None, :])
    np.add.at(added, tuple(np.broadcast_to(x, there.shape)[there] for x in at), 1)
