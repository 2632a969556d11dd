"""wgmma: products of a warp group, asynchronous, with operands in shared memory.

Warp w of a group computes rows 16w to 16w + 15 of m64nN. A product is under way when all four
warps have issued it; `wgmma.wait n` goes on when all but the n latest committed groups have
finished, for the whole warp group. Until then the accumulator and an operand in registers are
locked, and shared operands count as being read. Between a thread's last access to a register, even
a read, and a product that uses it there must be a `wgmma.fence`; accumulators of products in flight
need none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.code import Routine, Step, Waits
from hexcute_core.simulator.engines import AsyncOperation
from hexcute_core.simulator.instructions.boxes import CHUNK
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.matrices import MatrixShape
from hexcute_core.simulator.instructions.operands import lanes_of, regs_operand, scalar_operand
from hexcute_core.simulator.instructions.tensorcore import fragment_a
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.state import WARP
from hexcute_core.simulator.lanes.values import Array, storage, truncate_tf32
from hexcute_core.simulator.registers import RegisterArray, RegOperand
from hexcute_core.thread import MatrixDesc, Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

WARPS, ROWS, M = 4, 16, 64
DEPTH_BITS = 256


class Held:
    """Registers that products in flight hold, by the product's number, and how many touches of
    registers there had been at the last fence."""

    def __init__(self, m: Machine) -> None:
        self.locked: list[tuple[int, RegisterArray]] = []
        self.fenced = -1


class Products:
    """The products of one warp group: how many each warp has issued, and what they were."""

    def __init__(self, m: Machine) -> None:
        block = m.blocks[0]
        self.units = [m.world.new_unit("an asynchronous product", block) for _ in range(WARPS)]
        self.issued = [0] * WARPS
        self.committed: list[list[int]] = [[] for _ in range(WARPS)]
        self._what: list[tuple[str, SourceSpan | None]] = []

    def issue(self, m: Machine, warp: int, name: str) -> int:
        """The number of the product that `warp` issues now, from 1."""
        self.issued[warp] += 1
        number = self.issued[warp]
        if number > len(self._what):
            self._what.append((name, m.span))
        elif self._what[number - 1] != (name, m.span):
            other = self._what[number - 1]
            m.stop(
                "divergent instruction",
                f"warp {m.column} issues {name} where another warp of its group issued {other[0]}",
                0,
                "let the four warps of a group issue the same products",
                other[1],
            )
        return number

    @property
    def under_way(self) -> int:
        """Products that all warps have issued."""
        return min(self.issued)


@dataclass
class AtProducts:
    """A warp waits for products of its group."""

    products: Products
    number: int
    span: SourceSpan | None

    def ready(self) -> bool:
        """Whether all warps have issued them: then they finish."""
        return self.products.under_way >= self.number

    def describe(self) -> str:
        """Which warps are behind."""
        late = [str(w) for w, n in enumerate(self.products.issued) if n < self.number]
        return f"waits for product {self.number} of its group, not issued by warps {late} of it"


def group_of(m: Machine) -> tuple[Products, int]:
    """The products of the machine's warp group, and its warp's place in the group."""
    number, warp = divmod(m.column, WARPS)
    if (number + 1) * WARPS * WARP > m.threads:
        m.fail(f"warp {m.column} is not in a whole warp group of 128 threads")
    home = m.home
    if number not in home.products:
        home.products[number] = Products(m)
    return home.products[number], warp


@dataclass(frozen=True)
class Shape:
    """What a product's name says."""

    n: int
    k: int
    d: DType
    a: DType
    b: DType
    a_in_registers: bool
    a_k_major: bool
    b_k_major: bool


def parse(name: str, span: SourceSpan | None) -> Shape:
    """The parts of `wgmma.64xNxK.D.A.B.XY`."""
    parts = name.split(".")
    extents = parts[1].split("x") if len(parts) == 6 else []
    known = len(extents) == 3 and all(p in dtypes.BY_NAME for p in parts[2:5])
    if known and extents[0] == "64" and extents[1].isdigit() and extents[2].isdigit():
        n, k = int(extents[1]), int(extents[2])
        d, a, b = (dtypes.BY_NAME[p] for p in parts[2:5])
        x, y = parts[5][:1], parts[5][1:]
        wide = a.bits == 16 or (x in "rk" and y == "k")
        if n % 8 == 0 and 8 <= n <= 256 and k * a.bits == DEPTH_BITS and a.bits == b.bits and wide:
            return Shape(n, k, d, a, b, x == "r", x == "k", y == "k")
    raise SimulationError(f"the simulator knows no instruction `{name}`", span)


class Operand:
    """A shared operand made ready."""

    def __init__(self, stmt: Prim, index: int, shape: MatrixShape) -> None:
        desc = stmt.operands[index] if index < len(stmt.operands) else None
        if not isinstance(desc, MatrixDesc):
            raise SimulationError(f"operand {index} of {stmt.name} must be a matrix", stmt.span)
        self.shape, self._desc = shape, desc
        self._offset = compile_scalar(desc.offset)

    def read(self, m: Machine, op: AsyncOperation, rows: range, name: str) -> Array:
        """Elements [rows, depth] as the engine reads them, as numbers."""
        start = np.unique(lanes_of(self._offset(m), m.active()))
        if len(start) != 1:
            m.stop("divergent instruction", f"{name}: a matrix's place differs within a warp", 0)
        desc = self._desc
        places = self.shape.chunks(int(start[0]), rows, desc.leading, desc.stride, desc.swizzle)
        lanes = np.zeros(len(places), dtype=np.int64)
        cells = m.shared.cells(op, lanes, places, CHUNK, name)
        raw = m.shared.load_async(op, lanes, cells, name)
        return numbers(self.shape.elements(raw, len(rows)), self.shape.dtype)


def numbers(cells: Array, dtype: DType) -> Array:
    """Cells as the Tensor Core sees them, in float32."""
    if dtype.name == "tf32":
        return truncate_tf32(cells)
    return cells.astype(np.float32)


def product(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`wgmma c, a, b, accumulate`."""
    compiler.require_agents()
    s = parse(stmt.name, stmt.span)
    c = regs_operand(stmt, 0)
    if c.count != s.n // 2 or storage(c.dtype) != storage(s.d):
        raise SimulationError(f"{stmt.name} takes {s.n // 2} {s.d} per thread", stmt.span)
    a: RegOperand | Operand
    if s.a_in_registers:
        a = regs_operand(stmt, 1)
    else:
        a = Operand(stmt, 1, MatrixShape(M, s.k, s.a, s.a_k_major))
    b = Operand(stmt, 2, MatrixShape(s.n, s.k, s.b, s.b_k_major))
    accumulate, site, name = scalar_operand(stmt, 3), compiler.site(stmt.span), stmt.name
    place_a = fragment_a(s.k, s.a.bits)

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        m.tally.tensor[name] += 2 * ROWS * s.n * s.k
        products, warp = group_of(m)
        number = products.issue(m, warp, name)
        column = 2 * len(m.home.agents) + m.column
        op = AsyncOperation(m, m.all_lanes, products.units[warp], number, column)
        adds = bool(np.all(lanes_of(accumulate(m), m.all_lanes)))
        array, columns = _fenced(m, c, name)
        if isinstance(a, RegOperand):
            held, used = _fenced(m, a, name)
            cells = a.held(m, m.active())
            held.lock((number, 1), m.all_lanes, used, True, site)
            left = numbers(cells.reshape(1, -1)[:, place_a], s.a).reshape(ROWS, s.k)
        else:
            left = a.read(m, op, range(warp * ROWS, (warp + 1) * ROWS), name)
        right = b.read(m, op, range(s.n), name)
        total = left @ right.T
        old = array.cells[:, columns]
        if adds:
            if not array.written[:, columns].all():
                m.report("uninitialised read", f"{name} adds to registers never written", 0)
            total = total + _tile(old, s.n).astype(total.dtype)
        array.cells[:, columns] = _fragment(total, s.n).astype(old.dtype)
        array.written[:, columns] = True
        array.lock((number, 0), m.all_lanes, columns, False, site)
        m.state(Held).locked.append((number, array))
        if isinstance(a, RegOperand):
            m.state(Held).locked.append((number, held))
        op.finish()

    return run


def _fenced(m: Machine, regs: RegOperand, name: str) -> tuple[RegisterArray, slice | Array]:
    """The registers of an operand, which must have been fenced since threads touched them."""
    array, columns = regs.resolve(m)
    late = array.stamp[columns] > m.state(Held).fenced
    if late.any():
        place = m.sites[int(array.sites[columns][late][0])]
        m.report(
            "missing fence",
            f"{name} uses registers {array.name} that were touched after the last wgmma.fence, at "
            f"{place or 'an unknown line'}",
            0,
            "execute wgmma.fence between that access and the product",
            place,
        )
    return array, columns


def _tile(cells: Array, n: int) -> Array:
    """Accumulator registers [32, n / 2] as the rows [16, n] of a warp."""
    lanes = cells.reshape(8, 4, n // 8, 2, 2)
    tile: Array = lanes.transpose(3, 0, 2, 1, 4).reshape(ROWS, n)
    return tile


def _fragment(tile: Array, n: int) -> Array:
    """The inverse of `_tile`."""
    rows = tile.reshape(2, 8, n // 8, 4, 2)
    cells: Array = rows.transpose(1, 3, 2, 0, 4).reshape(WARP, n // 2)
    return cells


def fence(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`wgmma.fence`."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        m.state(Held).fenced = m.touches

    return run


def commit(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`wgmma.commit`."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        products, warp = group_of(m)
        products.committed[warp].append(products.issued[warp])

    return run


def wait(stmt: Prim, compiler: StatementCompiler) -> Routine:
    """`wgmma.wait n`."""
    compiler.require_agents()
    pending, site, name = scalar_operand(stmt, 0), compiler.site(stmt.span), stmt.name

    def start(m: Machine) -> Waits:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        products, warp = group_of(m)
        groups = products.committed[warp]
        keep = int(lanes_of(pending(m), m.all_lanes)[0])
        if len(groups) <= keep:
            return
        number = groups[len(groups) - keep - 1]
        yield AtProducts(products, number, m.span)
        for unit in products.units:
            m.agent_clock.learn(unit, number)
        held = m.state(Held)
        for n, array in held.locked:
            if n <= number:
                array.unlock((n, 0))
                array.unlock((n, 1))
        held.locked = [(n, array) for n, array in held.locked if n > number]

    return Routine(start)


def instruction(name: str) -> Instruction | None:
    """Products of warp groups."""
    if name.startswith("wgmma.64x"):
        return Instruction(product, shared=CHUNK)
    found = {"wgmma.fence": fence, "wgmma.commit": commit}.get(name)
    if found is not None:
        return Instruction(found)
    return Instruction(wait) if name == "wgmma.wait" else None
