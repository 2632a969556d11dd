"""gemm(c, a, b) with operands in shared memory, by a warp group.

C is tiled by the instruction as in `gemm`; its M and N digits say which rows of A and B every
warp group reads. An operand in shared memory is described to the instruction, not distributed
(`operands` says what that demands of its layout); A may come from registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod

from hexcute_core.arch import Arch, Fragment, Mode, WgmmaRow
from hexcute_core.arch.groups import WARP_GROUP
from hexcute_core.arch.registers import locate, same_threads
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.solution import WgmmaPlan
from hexcute_core.tile import Gemm, RegisterTensor, TileRef

"""Threads of a warp group."""

WORKING_REGISTERS = 32
"""Registers a thread needs beside its accumulator, or ptxas serializes wgmma (C7512)."""


@dataclass(frozen=True)
class WgmmaAnchor:
    """Fragments under one instruction and arrangement of warp groups along (M, N); `a` is None
    where A lies in shared memory."""

    row: WgmmaRow
    groups: tuple[int, int]
    c: Fragment
    a: Fragment | None

    def placed(self, op: Gemm) -> tuple[tuple[TileRef, Fragment, Fragment], ...]:
        """(tile, its fragment in the instruction's order, its layout) of `op`'s registers."""
        held = [(op.c, self.c, self.c)]
        if self.a is not None:
            held.append((op.a, self.a, self.a))
        return tuple(held)

    def __str__(self) -> str:
        return f"{self.row.name('kk')} groups {self.groups[0]}x{self.groups[1]}"


def wgmma_rows(arch: Arch, a: str, b: str, c: str) -> tuple[WgmmaRow, ...]:
    """Instructions for these element types, widest N first."""
    rows = [
        row
        for row in arch.wgmmas
        if (row.a_dtype.name, row.b_dtype.name, row.c_dtype.name) == (a, b, c)
    ]
    return tuple(sorted(rows, key=lambda row: -row.tile[1]))


def wgmma_anchors(
    rows: tuple[WgmmaRow, ...],
    m: int,
    n: int,
    k: int,
    threads: int,
    forced: tuple[int, int] | None,
    a_in_registers: bool,
) -> Iterator[WgmmaAnchor]:
    """Every arrangement of the team's warp groups with the widest instruction that tiles it, those
    that split M first: they share B and keep A's rows apart."""
    groups = threads // WARP_GROUP
    shapes = [(gm, groups // gm) for gm in range(groups, 0, -1) if groups % gm == 0]
    for gm, gn in shapes:
        if forced is not None and (gm, gn) != forced:
            continue
        if threads % WARP_GROUP or m % (gm * 64) or n % gn:
            continue
        for row in rows:
            _, width, depth = row.tile
            if n // gn % width == 0 and k % depth == 0:
                yield _anchor(row, m, n, k, (gm, gn), a_in_registers)
                break


def _anchor(
    row: WgmmaRow, m: int, n: int, k: int, groups: tuple[int, int], a_in_registers: bool
) -> WgmmaAnchor:
    (gm, gn), (_, width, depth) = groups, row.tile
    c = Fragment(
        (m, n),
        (*row.c.thread, Mode(gm, m // gm, 0), Mode(gn, n // gn, 1)),
        (*row.c.value, Mode(m // gm // 64, 64, 0), Mode(n // gn // width, width, 1)),
    )
    a = None
    if a_in_registers:
        a = Fragment(
            (m, k),
            (*row.a.thread, Mode(gm, m // gm, 0), Mode(gn, 0, 0)),
            (*row.a.value, Mode(m // gm // 64, 64, 0), Mode(k // depth, depth, 1)),
        )
    return WgmmaAnchor(row, groups, _tidy(c), None if a is None else _tidy(a))


def _tidy(f: Fragment) -> Fragment:
    return Fragment(
        f.shape,
        tuple(x for x in f.thread if x.size > 1),
        tuple(x for x in f.value if x.size > 1),
    )


def shared_anchors(
    graph: Graph, arch: Arch, component: Component, op: Gemm
) -> tuple[WgmmaAnchor, ...]:
    """The anchors of a gemm whose B, and perhaps A, lies in shared memory.

    Raises NoLayout, located, where there is none.
    """
    a, b, c = (graph.tensors[ref.tensor].dtype for ref in (op.a, op.b, op.c))
    rows = wgmma_rows(arch, a.name, b.name, c.name)
    if not rows:
        kinds = sorted({f"{r.a_dtype} x {r.b_dtype} -> {r.c_dtype}" for r in arch.wgmmas})
        raise NoLayout(
            f"{arch.name} cannot multiply {a} x {b} -> {c} from shared memory",
            op.span,
            f"there are {', '.join(kinds)}"
            if kinds
            else "copy the operands to register tensors first, or compile for sm_90",
        )
    (m, n), k = op.c.shape, op.a.shape[1]
    threads = component.team.threads
    accumulator = graph.tensors[op.c.tensor]
    assert isinstance(accumulator, RegisterTensor)
    held = prod(accumulator.shape) * c.bits // 32 // threads
    budget = (component.team.registers or arch.registers_per_thread) - WORKING_REGISTERS
    if held > budget:
        raise NoLayout(
            f"the accumulator of {'x'.join(map(str, accumulator.shape))} takes {held} registers a "
            f"thread on {threads} threads, {budget} are left for it",
            op.span,
            "use a smaller tile or more warp groups",
        )
    found = tuple(wgmma_anchors(rows, m, n, k, threads, op.warps, graph.is_register(op.a)))
    if not found:
        raise NoLayout(
            f"no wgmma tiles a gemm of {m}x{n}x{k} on {threads} threads: "
            f"{_misfit(rows, m, n, k, threads, op.warps)}",
            op.span,
            f"take M a multiple of 64 per warp group, K of {rows[0].tile[2]}, N of 8 (16 from 32 "
            "on for integers), or split N by warps=(along M, along N)",
        )
    return found


def _misfit(
    rows: tuple[WgmmaRow, ...], m: int, n: int, k: int, threads: int, forced: tuple[int, int] | None
) -> str:
    """The first dimension in which no arrangement of the warp groups fits."""
    groups, depth = threads // WARP_GROUP, rows[0].tile[2]
    if threads % WARP_GROUP:
        return f"they are no whole warp groups of {WARP_GROUP}"
    if forced is not None and forced[0] * forced[1] != groups:
        return f"warps={forced} takes {forced[0] * forced[1]} warp groups, there are {groups}"
    if k % depth:
        return f"K of {k} is no multiple of the instruction's {depth}"
    if m % 64:
        return f"M of {m} is no multiple of the instruction's 64"
    along = forced[0] if forced is not None else gcd(groups, m // 64)
    if m % (64 * along):
        return f"M of {m} is not {along} times a multiple of 64"
    share = n // (groups // along) if n % (groups // along) == 0 else n / (groups // along)
    return f"an N of {share} a warp group is no multiple of the instruction's 8 or more"


def plan_wgmma(anchor: WgmmaAnchor, c: Fragment, a: Fragment | None, k: int) -> WgmmaPlan | str:
    """The plan of `anchor` on the actual fragments, or the reason why they do not fit it."""
    row = anchor.row
    _, width, depth = row.tile
    gm, gn = anchor.groups
    (m, n) = c.shape
    for name, want, have in (("c", anchor.c, c), ("a", anchor.a, a)):
        if want is not None and have is not None and not same_threads(want, have):
            return f"{name} needs {want} for {row.name('kk')}, but is {have}"
    c_pieces = _pieces(row.c, c)
    a_pieces = () if a is None else _pieces(row.a, a)
    strides = [_stride(c, 64, 0, m // gm // 64), _stride(c, width, 1, n // gn // width)]
    if a is not None:
        strides += [_stride(a, 64, 0, m // gm // 64), _stride(a, depth, 1, k // depth)]
    if c_pieces is None or a_pieces is None or None in strides:
        return f"the registers do not hold the fragments of {row.name('kk')}"
    known = [s or 0 for s in strides] + [0, 0]
    return WgmmaPlan(
        row,
        anchor.groups,
        (m // gm // 64, n // gn // width, k // depth),
        (known[0], known[1]),
        c_pieces,
        (known[2], known[3]),
        a_pieces,
    )


def _pieces(atom: Fragment, have: Fragment) -> tuple[int, ...] | None:
    """Register of each value of the instruction's operand."""
    offsets = [0]
    for digit in atom.value:
        parts = locate(have, digit)
        if parts is None:
            return None
        for size, stride in parts:
            offsets = [o + d * stride for d in range(size) for o in offsets]
    return tuple(offsets)


def _stride(have: Fragment, step: int, dim: int, size: int) -> int | None:
    """Register stride of a repetition; 0 where there is none, None where it is not one stride."""
    parts = locate(have, Mode(size, step, dim))
    if parts is None or len(parts) > 1:
        return None
    return parts[0][1] if parts else 0
