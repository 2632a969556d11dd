"""stmatrix: 8x8 matrices of 16-bit elements from a warp's registers to rows of shared memory.

`stmatrix.xN[.trans] row, src`: matrix j's row r goes to the address of lane 8j + r. Lane l holds of
each matrix the two elements at row l / 4, columns 2 * (l % 4) + {0, 1}; with .trans those at rows
2 * (l % 4) + {0, 1}, column l / 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.code import Step
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.loads_stores import note_shared
from hexcute_core.simulator.instructions.operands import regs_operand, shared_operand
from hexcute_core.simulator.lanes.values import to_bytes
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

ROW = 16


def store_matrix(stmt: Prim, compiler: StatementCompiler, count: int, transposed: bool) -> Step:
    """One stmatrix."""
    dst, src = shared_operand(stmt, 0), regs_operand(stmt, 1, 4 * count)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        warps = m.warp_mask(name)
        executing = np.arange(m.warps) if warps is None else np.flatnonzero(warps)
        rows = m.all_lanes.reshape(m.warps, 32)[executing][:, : 8 * count].reshape(-1)
        raw = to_bytes(src.read(m, m.active()), src.dtype).view(np.uint16)
        pairs = raw.reshape(m.warps, 32, count, 2)[executing].swapaxes(1, 2)
        matrices = pairs.reshape(-1, count, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        bytes_of_rows = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, ROW)
        address = dst(m, rows)
        cells = m.shared.cells(m, rows, address, ROW, name)
        m.shared.store(m, rows, cells, bytes_of_rows, name)
        m.tally.moved(name, site, len(rows) * ROW)
        note_shared(m, name, rows, address, ROW)

    return run


def instruction(name: str) -> Instruction | None:
    """Matrix stores of one warp."""
    parts = name.split(".")
    if parts[0] != "stmatrix" or len(parts) not in (2, 3) or parts[2:] not in ([], ["trans"]):
        return None
    if parts[1] not in ("x1", "x2", "x4"):
        return None
    count, transposed = int(parts[1][1:]), len(parts) == 3
    return Instruction(
        lambda stmt, compiler: store_matrix(stmt, compiler, count, transposed), shared=ROW
    )
