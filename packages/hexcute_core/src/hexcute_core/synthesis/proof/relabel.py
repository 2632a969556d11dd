"""Proof of a relabelling: the bits of each element that a thread holds are bits that it holds."""

from __future__ import annotations

from math import prod

import numpy as np

from hexcute_core.errors import VerifyError
from hexcute_core.synthesis.proof.parts import part_table
from hexcute_core.synthesis.proof.tables import Table, inside
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import Relabel


def check_relabel(solution: Solution, op: Relabel, threads: int) -> None:
    """Raises VerifyError where a thread does not hold all bits of an element of the result, or
    nobody holds an element."""
    unit = min(op.bits)
    need, have = (part_table(solution, ref, threads, op.span) for ref in (op.dst, op.src))
    # The number, row by row, that each element of src has once its modes are in order.
    turned = np.arange(prod(op.src.shape)).reshape(op.src.shape).transpose(op.order).reshape(-1)
    place = np.empty_like(turned)
    place[turned] = np.arange(len(turned))
    held: set[int] = set()
    before, after = (bits // unit for bits in op.bits)
    for t in range(threads):
        wanted = _units(need[t][inside(need[t], op.dst.shape)], op.dst.shape, None, after)
        own = _units(have[t][inside(have[t], op.src.shape)], op.src.shape, place, before)
        missing = np.setdiff1d(wanted, own)
        if len(missing):
            raise VerifyError(
                f"thread {t} needs bits {int(missing[0]) * unit} of `{op.src.tensor}`, row by row, "
                "and does not hold them",
                op.span,
            )
        held.update(wanted.tolist())
    if len(held) != prod(op.dst.shape) * after:
        raise VerifyError(f"nobody holds all of `{op.dst.tensor}`", op.span)


def _units(coords: Table, shape: tuple[int, ...], place: Table | None, per: int) -> Table:
    """The units of bits that elements at `coords` are made of."""
    number = np.ravel_multi_index(tuple(coords.reshape(-1, len(shape)).T), shape)
    number = number if place is None else place[number]
    found: Table = (number[:, None] * per + np.arange(per)).reshape(-1)
    return found
