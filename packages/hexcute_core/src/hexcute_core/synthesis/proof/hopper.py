"""Proof of what TMA and wgmma do in a Solution, from the PTX ISA's rules and the layouts' values.

TMA writes a box compactly, innermost dimension first, and XORs the address under a swizzle.
A wgmma descriptor names element (r, k) of an operand of e-byte elements, rows of s bytes, by

    K-major   (r % 8) s + (r / 8) stride + k e                    s = 32, 64, 128
              (r % 8) 16 + (r / 8) stride + (k e / 16) leading + k e % 16     no swizzle
    M-major   (r % R) e + (r / R) leading + (k % 8) s + (k / 8) stride        R = s / e
              (r % R) e + (r / R) stride + (k % 8) 16 + (k / 8) leading       no swizzle

before the swizzle; the layout must put that element there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hexcute_core.arch import Fragment
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import is_const, show
from hexcute_core.synthesis.proof.memory import begins, start_unit
from hexcute_core.synthesis.proof.parts import part_table
from hexcute_core.synthesis.proof.tables import offsets
from hexcute_core.synthesis.solution import BulkPlan, Operand, SharedLayout, Solution, WgmmaPlan
from hexcute_core.tile import Copy, Gemm, GlobalTensor, SharedTensor, TileRef
from hexcute_core.tile.facts import Facts

Coord = tuple[int, ...]

WARP_GROUP = 128
"""Threads that run a wgmma together."""

CORE_ROWS = 8
"""Rows of a core matrix, each of 16 bytes or of a swizzle's span."""

UNIT = 16
"""Bytes that a swizzle moves together; addresses and steps of descriptors count in them."""

ROW = 128
"""Bytes of shared memory under one row number of a swizzle."""

DESCRIBED = 1 << 18
"""Bytes beyond what a descriptor's 14 bits of units can say."""


def check_bulk(solution: Solution, facts: Facts, op: Copy) -> None:
    """Every element of every box lies where TMA writes it. Raises VerifyError, located."""
    plan = solution.bulk[op.id]
    inward = isinstance(solution.program.tensor(op.dst.tensor), SharedTensor)
    meant = "tma.load" if inward else "tma.store"
    if plan.name != (meant if op.reduce is None else f"tma.reduce.{op.reduce}"):
        raise VerifyError(f"{plan.name} is not what the copy says", op.span)
    ref = op.dst if inward else op.src
    layout = solution.shared[ref.tensor]
    bits = solution.program.tensor(ref.tensor).dtype.bits
    _swizzles(layout, plan.span, bits, op.span)
    check_boxes(plan, ref, op.span)
    unit = start_unit(solution.program, facts, op.src if inward else op.dst)
    if unit * bits % (UNIT * 8):
        raise VerifyError(
            f"{plan.name} may begin at any multiple of {unit} elements of a row", op.span
        )
    _rows_of_memory(solution.program.param(plan.param), facts, op.span)
    extents = [plan.box[d] for d in plan.dims]
    inner_first = sorted(range(len(extents)), key=lambda d: -plan.dims[d])
    atom = CORE_ROWS * max(plan.span, 16)
    begins_at = _begins(facts, layout, ref, atom * 8 // bits, op.span)
    for start in _starts(plan, len(extents)):
        first = _plain(layout, ref, start)
        if any((at + first) * bits % (atom * 8) for at in begins_at):
            raise VerifyError(f"{plan.name}: the box at {start} is not aligned", op.span)
        for inside in product(*(range(e) for e in extents)):
            compact, stride = 0, 1
            for d in inner_first:
                compact += inside[d] * stride
                stride *= extents[d]
            at = tuple(s + i for s, i in zip(start, inside))
            if _plain(layout, ref, at) != first + compact:
                raise VerifyError(f"{plan.name} writes element {at} elsewhere", op.span)


def _rows_of_memory(param: GlobalTensor, facts: Facts, span: SourceSpan) -> None:
    """The strides between rows are multiples of 16 bytes, whatever they are at run time. Raises
    VerifyError, located."""
    outer = [s for s, e in zip(param.strides, param.shape) if not is_const(e, 1)]
    steps = [s for s in outer if not is_const(s, 1)] if param.strides else [*param.shape[1:]][-1:]
    for step in steps:
        if facts.divisor(step) * param.dtype.bits % (UNIT * 8):
            raise VerifyError(f"rows of `{param.name}` begin at any {show(step)}", span)


def check_boxes(plan: BulkPlan, ref: TileRef, span: SourceSpan) -> None:
    """The boxes cover tile `ref`, each element once. Raises VerifyError, located."""
    extents = [plan.box[d] for d in plan.dims]
    reached = sorted(
        tuple(s + i for s, i in zip(start, inside))
        for start in _starts(plan, len(extents))
        for inside in product(*(range(e) for e in extents))
    )
    if reached != sorted(product(*(range(e) for e in ref.shape))):
        raise VerifyError(f"{plan.name} does not cover the tile", span)


def _starts(plan: BulkPlan, rank: int) -> list[Coord]:
    starts = [(0,) * rank]
    for rep in plan.reps:
        moved = []
        for i in range(rep.size):
            for s in starts:
                moved.append((*s[: rep.dim], s[rep.dim] + i * rep.step, *s[rep.dim + 1 :]))
        starts = moved
    return starts


def _swizzles(layout: SharedLayout, span: int, bits: int, where: SourceSpan) -> None:
    """The layout moves what lies at a byte address as hardware does under a swizzle of `span`
    bytes: the number of the 16-byte unit in its row of 128 bytes is XORed with the row's number,
    as far as it counts the units of a span. Raises VerifyError, located."""
    plain = offsets(replace(layout, swizzle=None)) * bits
    moved = plain ^ (plain // (ROW * 8) % (span // UNIT) * (UNIT * 8))
    if (offsets(layout) * bits != moved).any():
        raise VerifyError(f"{layout} is not swizzled by spans of {span} bytes", where)


def _plain(layout: SharedLayout, ref: TileRef, at: Coord) -> int:
    """Element offset before the swizzle."""
    whole = [0] * len(layout.shape)
    for m, c in zip(ref.kept, at):
        whole[m] = c
    return int(layout.layout(*whole))


def _begins(
    facts: Facts, layout: SharedLayout, ref: TileRef, atom: int, span: SourceSpan
) -> set[int]:
    """How far into `atom` elements the part may begin. Raises VerifyError, located, where it is not
    the tensor's beginning moved."""
    moved = {0}
    for m, (start, extent, size) in enumerate(zip(ref.starts, ref.extents, layout.shape)):
        mode = layout.layout[m]
        places = begins(facts, start, size - extent + 1)
        if any(mode(p + i) != mode(p) + mode(i) for p in places if p for i in range(extent)):
            raise VerifyError(f"`{ref.tensor}`: the part crosses the blocks of {layout}", span)
        moved = {(at + int(mode(p))) % atom for at in moved for p in places}
    return moved


def check_wgmma(solution: Solution, facts: Facts, op: Gemm) -> None:
    """The products summed into c[i, j] are a[i, k] b[j, k] for every k, each once."""
    plan = solution.wgmmas[op.id]
    (m, n), k = op.c.shape, op.a.shape[1]
    _, width, depth = plan.row.tile
    (gm, gn), (rm, rn, rk) = plan.groups, plan.repeats
    if (gm * rm * 64, gn * rn * width, rk * depth) != (m, n, k):
        raise VerifyError(f"{plan.row.name('kk')} does not cover {m}x{n}x{k}", op.span)
    for side, ref, rows, groups, repeats in (
        ("a", op.a, 64, gm, rm), ("b", op.b, width, gn, rn)
    ):  # fmt: skip
        operand = solution.operands.get((op.id, side))
        if operand is not None:
            firsts = [g * (ref.shape[0] // groups) + r * rows
                      for g in range(groups) for r in range(repeats)]  # fmt: skip
            places = [(r, s * depth) for r in firsts for s in range(rk)]
            _operand(solution, facts, op, ref, operand, places)
    _registers(solution, plan, op.c, plan.row.c, plan.c_pieces, plan.c_strides,
               (64, width), (rm, rn), op)  # fmt: skip
    if plan.a_in_registers:
        _registers(solution, plan, op.a, plan.row.a, plan.a_pieces, plan.a_strides,
                   (64, depth), (rm, rk), op)  # fmt: skip


def _operand(
    solution: Solution,
    facts: Facts,
    op: Gemm,
    ref: TileRef,
    operand: Operand,
    starts: list[tuple[int, int]],
) -> None:
    layout = solution.shared[ref.tensor]
    dtype = solution.program.tensor(ref.tensor).dtype
    size = dtype.bits // 8
    _swizzles(layout, operand.span, dtype.bits, op.span)
    steps = _steps(layout, ref, operand, size)
    if any(step % UNIT or not 0 <= step < DESCRIBED for step in steps):
        raise VerifyError(f"`{ref.tensor}`: no descriptor says {steps} bytes", op.span)
    atom = CORE_ROWS * operand.span
    begins_at = _begins(facts, layout, ref, atom // size, op.span)
    for row, k in starts:
        first = _plain(layout, ref, (row, k)) * size
        for within in ((at * size + first) % atom for at in begins_at):
            inside = operand.major == "k" and within < operand.span and within % 16 == 0
            if within and not inside:
                raise VerifyError(
                    f"`{ref.tensor}`: the operand at {(row, k)} splits a core", op.span
                )
        for r, s in product(range(operand.rows), range(operand.depth)):
            want = first + _described(operand, steps, size, r, s)
            if _plain(layout, ref, (row + r, k + s)) * size != want:
                raise VerifyError(
                    f"`{ref.tensor}`: the descriptor misses element {(row + r, k + s)}", op.span
                )


def _steps(layout: SharedLayout, ref: TileRef, operand: Operand, size: int) -> tuple[int, int]:
    """(leading, stride) bytes: from the first core matrix to the next in either direction; 0 where
    an instruction reads no other."""
    run = operand.span // size
    along_k, along_rows = (CORE_ROWS, run) if operand.major == "m" else (run, CORE_ROWS)
    first = _plain(layout, ref, (0, 0))
    rows, k = (
        (_plain(layout, ref, at) - first) * size if there else 0
        for at, there in (
            ((along_rows % operand.rows, 0), along_rows < operand.rows),
            ((0, along_k % operand.depth), along_k < operand.depth),
        )
    )
    # Along K a swizzled row goes on; along M the two change places without a swizzle.
    swizzled = operand.span > UNIT
    if operand.major == "k":
        return (0 if swizzled else k), rows
    return (rows, k) if swizzled else (k, rows)


def _described(operand: Operand, steps: tuple[int, int], size: int, r: int, k: int) -> int:
    """Byte offset of element (r, k) by the descriptor's rule."""
    leading, stride = steps
    span = operand.span
    if operand.major == "k":
        rows = r % CORE_ROWS * span + r // CORE_ROWS * stride
        if span == 16:
            return rows + k * size // 16 * leading + k * size % 16
        return rows + k * size
    run = span // size
    if span == 16:
        leading, stride = stride, leading
    return r % run * size + r // run * leading + k % CORE_ROWS * span + k // CORE_ROWS * stride


def _registers(
    solution: Solution,
    plan: WgmmaPlan,
    ref: TileRef,
    atom: Fragment,
    pieces: tuple[int, ...],
    strides: tuple[int, int],
    tile: tuple[int, int],
    repeats: tuple[int, int],
    op: Gemm,
) -> None:
    """Each register of an instruction holds the element that the instruction means."""
    gm, gn = plan.groups
    held = part_table(solution, ref, WARP_GROUP * gm * gn, op.span)
    across = tile[1] == plan.row.tile[1] and atom is plan.row.c
    for group in range(gm * gn):
        low = (group % gm * (ref.shape[0] // gm),
               group // gm * (ref.shape[1] // gn) if across else 0)  # fmt: skip
        for x, y in product(range(repeats[0]), range(repeats[1])):
            base = x * strides[0] + y * strides[1]
            for lane, v in product(range(WARP_GROUP), range(atom.values)):
                i, j = atom.coord(lane, v)
                want = (low[0] + x * tile[0] + i, low[1] + y * tile[1] + j)
                have = tuple(map(int, held[group * WARP_GROUP + lane, base + pieces[v]]))
                if have != want:
                    raise VerifyError(
                        f"{plan.row.name('kk')} takes {want} from the register of {have}", op.span
                    )
