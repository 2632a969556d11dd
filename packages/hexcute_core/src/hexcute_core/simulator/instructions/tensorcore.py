"""mma.sync and ldmatrix, written from the PTX ISA manual (sections 9.7.14 on warp-level matrices).

With g = lane / 4 and t = lane % 4, element i of a lane's fragment of 16-bit operands of
m16n8k16 is A[g + 8 * (i / 2 % 2)][2t + i % 2 + 8 * (i / 4)] and B[k = 2t + i % 2 + 8 * (i / 2)][g];
C and D hold [g + 8 * (i / 2)][2t + i % 2]. 8-bit and 32-bit operands put 4 and 1 consecutive
elements of k where 16-bit ones put 2: a register is always 4 bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import SimulationError
from hexcute_core.simulator.code import Step
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.loads_stores import note_shared
from hexcute_core.simulator.instructions.operands import regs_operand, shared_operand
from hexcute_core.simulator.lanes.values import Array, from_bytes, storage, truncate_tf32
from hexcute_core.simulator.registers import RegOperand
from hexcute_core.simulator.statements import StatementCompiler
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine

M, N = 16, 8
SHAPES: dict[str, tuple[int, ...]] = {
    "f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "i8": (16, 32), "u8": (16, 32),
    "f8e4m3": (32,), "f8e5m2": (32,),
}  # fmt: skip
"""k of the m16n8 products each operand type has."""


@cache
def fragment_a(k: int, bits: int) -> Array:
    """Index lane * count + i of element (row, column) of A, flattened [16 * k]."""
    step = 32 // bits
    count = M * k // 32
    place = np.empty((M, k), dtype=np.int64)
    for lane in range(32):
        for i in range(count):
            register, part = divmod(i, step)
            row = lane // 4 + 8 * (register % 2)
            column = lane % 4 * step + part + 4 * step * (register // 2)
            place[row, column] = lane * count + i
    return place.reshape(-1)


@cache
def fragment_b(k: int, bits: int) -> Array:
    """Index lane * count + i of element (k, n) of B, flattened [k * 8]."""
    step = 32 // bits
    count = N * k // 32
    place = np.empty((k, N), dtype=np.int64)
    for lane in range(32):
        for i in range(count):
            register, part = divmod(i, step)
            place[lane % 4 * step + part + 4 * step * register, lane // 4] = lane * count + i
    return place.reshape(-1)


@cache
def fragment_c() -> Array:
    """Index lane * 4 + i of element (row, column) of C, flattened [16 * 8]."""
    place = np.empty((M, N), dtype=np.int64)
    for lane in range(32):
        for i in range(4):
            place[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2] = lane * 4 + i
    return place.reshape(-1)


@cache
def _unplace_c() -> Array:
    return np.argsort(fragment_c())


def _types(stmt: Prim) -> tuple[int, DType, DType, DType]:
    """k and the element types of C, A and B from `mma.16x8xK.D.A.B`."""
    parts = stmt.name.split(".")
    known = len(parts) == 5 and all(p in dtypes.BY_NAME for p in parts[2:])
    if known and parts[1].startswith("16x8x") and parts[1][5:].isdigit():
        k = int(parts[1][5:])
        c, a, b = (dtypes.BY_NAME[p] for p in parts[2:])
        accumulator = {"int": "i32", "uint": "i32"}.get(a.kind, "f32")
        if k in SHAPES.get(a.name, ()) and k in SHAPES.get(b.name, ()) and a.bits == b.bits:
            same = a == b or (a.bits == 8 and a.is_float == b.is_float)
            if same and (c.name == accumulator or c == a == dtypes.f16):
                return k, c, a, b
    raise SimulationError(f"the simulator knows no instruction `{stmt.name}`", stmt.span)


def mma(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`mma c, a, b`: c += a * b, products summed in float32 (int32 for integers)."""
    k, c_type, a_type, b_type = _types(stmt)
    c = _fragment(stmt, 0, c_type, M * N // 32)
    a, b = _fragment(stmt, 1, a_type, M * k // 32), _fragment(stmt, 2, b_type, N * k // 32)
    place_a, place_b = fragment_a(k, a_type.bits), fragment_b(k, b_type.bits)
    place_c, unplace_c = fragment_c(), _unplace_c()
    site, name, cell = compiler.site(stmt.span), stmt.name, storage(c_type)

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        m.tally.tensor[name] += 2 * M * N * k * m.running_warps()
        lanes = m.active()
        left = _operand(a.read(m, lanes).reshape(m.warps, -1), place_a, a_type).reshape(-1, M, k)
        right = _operand(b.read(m, lanes).reshape(m.warps, -1), place_b, b_type).reshape(-1, k, N)
        # 32 products of 8-bit integers stay below 2^24: exact in float32.
        product = np.matmul(left, right).reshape(m.warps, -1)
        old = c.read(m, lanes).reshape(m.warps, -1)[:, place_c]
        if c_type.is_float:
            new = (product + old.astype(np.float32)).astype(cell)
        else:
            new = product.astype(np.int32) + old
        c.write(m, new[:, unplace_c].reshape(m.lanes, -1))

    return run


def _fragment(stmt: Prim, index: int, dtype: DType, count: int) -> RegOperand:
    operand = regs_operand(stmt, index)
    if operand.count != count or storage(operand.dtype) != storage(dtype):
        raise SimulationError(
            f"operand {index} of {stmt.name} must be {count} registers of {dtype}, got "
            f"{operand.count} of {operand.dtype}",
            stmt.span,
        )
    return operand


def _operand(cells: Array, place: Array, dtype: DType) -> Array:
    ordered = cells[:, place]
    if dtype.name == "tf32":
        return truncate_tf32(ordered)
    return ordered.astype(np.float32)


def load_matrix(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`ldmatrix.xN[.trans] dst, row`: matrix j's row r starts at the address of lane 8j + r.

    Lane l gets of each 8x8 matrix of 16-bit elements the two at row l / 4, columns
    2 * (l % 4) + {0, 1}; with .trans those at rows 2 * (l % 4) + {0, 1}, column l / 4.
    """
    parts = stmt.name.split(".")
    if (
        len(parts) not in (2, 3)
        or parts[1] not in ("x1", "x2", "x4")
        or parts[2:]
        not in (
            [],
            ["trans"],
        )
    ):
        raise SimulationError(f"the simulator knows no instruction `{stmt.name}`", stmt.span)
    count, transposed = int(parts[1][1:]), len(parts) == 3
    dst, src = regs_operand(stmt, 0, 4 * count), shared_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        warps = m.warp_mask(name)
        rows = m.all_lanes.reshape(m.warps, 32)[:, : 8 * count]
        lanes = (rows if warps is None else rows[warps]).reshape(-1)
        address = src(m, lanes)
        cells = m.shared.cells(m, lanes, address, 16, name)
        raw = m.shared.load(m, lanes, cells, name, many=True)
        m.tally.moved(name, site, len(lanes) * 16)
        note_shared(m, name, lanes, address, 16)
        matrices = np.ascontiguousarray(raw).view(np.uint16).reshape(-1, count, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        # [warp, matrix, row, 4, 2]: lane = row * 4 + quarter holds two elements of each matrix.
        pairs = matrices.reshape(-1, count, 32, 2).swapaxes(1, 2)
        fragment = np.ascontiguousarray(pairs).reshape(-1, 2 * count).view(np.uint8)
        full = np.zeros((m.warps, 32, 4 * count), dtype=np.uint8)
        full[slice(None) if warps is None else warps] = fragment.reshape(-1, 32, 4 * count)
        dst.write(m, from_bytes(full.reshape(m.lanes, -1), dst.dtype))

    return run


def instruction(name: str) -> Instruction | None:
    """Matrix loads and products of one warp."""
    family = name.split(".")[0]
    if family == "ldmatrix":
        return Instruction(load_matrix, shared=16)
    return Instruction(mma) if family == "mma" else None
