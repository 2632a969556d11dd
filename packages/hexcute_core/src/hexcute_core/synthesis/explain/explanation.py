"""explanation : Solution -> what a reader wants to know of it, as plain values.

Text, JSON and HTML are three ways to show the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from hexcute_core.arch import Arch
from hexcute_core.errors import SourceSpan
from hexcute_core.synthesis.compute_cost import cast_way
from hexcute_core.synthesis.explain.bound import bounds
from hexcute_core.synthesis.explain.machine import Machine
from hexcute_core.synthesis.explain.narrow import narrow
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.held import Held, held
from hexcute_core.synthesis.solution import CopyPlan, Solution, kind, subject
from hexcute_core.synthesis.timeline import block_clocks
from hexcute_core.tile import (
    CastTile,
    Copy,
    ForElements,
    Gemm,
    GlobalView,
    Prefetch,
    Rearrange,
    RegisterTensor,
    SharedTensor,
    SubMode,
)
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.ir import Computation, TileOp
from hexcute_core.tile.layouts import layout_of
from hexcute_core.unions import assert_never


@dataclass(frozen=True)
class TensorEntry:
    """A tensor with its layout; `values` are the elements a thread holds, 0 in memory."""

    name: str
    space: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    values: int


@dataclass(frozen=True)
class OperationEntry:
    """An operation with its instruction: `calls` a thread (or block, for TMA), `bytes` of one
    call, bank `conflicts` of a block's calls once, `clocks` of one block with all loops."""

    where: str
    kind: str
    text: str
    instruction: str
    calls: int
    bytes: int
    conflicts: int | None
    clocks: float
    detail: str


@dataclass(frozen=True)
class RejectedEntry:
    """A candidate that lost, and why."""

    subject: str
    candidate: str
    reason: str
    where: str


@dataclass(frozen=True)
class NarrowEntry:
    """A copy that moves `bytes` at once for a thread, of `possible` ones, why, and what would widen
    it."""

    where: str
    text: str
    bytes: int
    possible: int
    reason: str
    remedy: str


@dataclass(frozen=True)
class HeldEntry:
    """Where the tiles of these threads fill most `registers`, of those `claimed` where the role
    says how many; the `tiles` with their registers."""

    threads: str
    where: str
    registers: int
    claimed: int | None
    tiles: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Explanation:
    """Everything; clocks are those of one block, loops included: `bounds` how long it keeps each
    unit of its multiprocessor busy, of which `bound` is the longest."""

    kernel: str
    target: str
    threads: int
    tensors: tuple[TensorEntry, ...]
    operations: tuple[OperationEntry, ...]
    clocks_by_kind: Mapping[str, float]
    clocks: float
    estimate: float
    bounds: Mapping[str, float]
    bound: str
    exact: bool
    held: tuple[HeldEntry, ...]
    machine: Machine | None
    warnings: tuple[str, ...]
    narrow: tuple[NarrowEntry, ...]
    rejected: tuple[RejectedEntry, ...]


def explanation(solution: Solution, arch: Arch, machine: Machine | None = None) -> Explanation:
    """What `solution` is and why, and what became of it in `machine` code."""
    most, busy = held(solution), bounds(solution)
    operations = tuple(_operations(solution, arch))
    by_kind: dict[str, float] = {}
    for entry in operations:
        by_kind[entry.kind] = by_kind.get(entry.kind, 0.0) + entry.clocks
    return Explanation(
        kernel=solution.program.name,
        target=arch.name,
        threads=solution.program.block_dim,
        tensors=tuple(_tensors(solution)),
        operations=operations,
        clocks_by_kind=by_kind,
        clocks=solution.cost,
        estimate=block_clocks(solution),
        bounds=busy,
        bound=max(busy, key=lambda unit: busy[unit]),
        exact=solution.exact,
        held=tuple(_held(h) for h in most),
        machine=machine,
        warnings=(*rearrange_warnings(solution), *spill_warnings(machine, most)),
        narrow=tuple(
            NarrowEntry(_where(n.span), n.text, n.bytes, n.possible, n.reason, n.remedy)
            for n in narrow(solution, Facts(solution.program))
        ),
        rejected=tuple(
            RejectedEntry(r.subject, r.candidate, r.reason, _where(r.span))
            for r in solution.rejected
        ),
    )


def rearrange_warnings(solution: Solution) -> Iterator[str]:
    """What the author should know of inserted rearranges: both lines, the cost, the fix."""
    for inserted in solution.inserted:
        exchange = solution.exchanges.get(inserted.op)
        if exchange is not None:
            how, cost = exchange.name, solution.op_cost[inserted.op]
        else:
            buffer = f"rearranged_{inserted.op}"
            tensor = solution.program.tensor(buffer)
            assert isinstance(tensor, SharedTensor)
            how = f"{prod(tensor.shape) * tensor.dtype.bits // 8} bytes through shared memory"
            cost = sum(
                solution.op_cost[item.op.id]
                for item in build_graph(solution.program).ops
                if isinstance(item.op, Copy) and buffer in (item.op.src.tensor, item.op.dst.tensor)
            )
        yield (
            f"{inserted.target}: `{inserted.tensor}`, from {inserted.source}, is rearranged here: "
            f"{how}, est. {cost:.0f} clocks per block; the same warps=(m, n) on the gemms of both "
            "lines may avoid it, hx.rearrange(...) says that it is meant"
        )


def spill_warnings(machine: Machine | None, most: Sequence[Held]) -> Iterator[str]:
    """What the author should know where a thread's registers, or its arrays, lie in memory."""
    if machine is None or not machine.spilled + machine.local:
        return
    where = "" if not most else f"{most[0].span}: "
    what = f"{machine.spilled} bytes of a thread's registers spill to local memory"
    if not machine.spilled:
        what = f"{machine.local} bytes of a thread's arrays lie in local memory"
    tiles = ""
    if most:
        full = most[0]
        tiles = f"; its tiles fill {filled(full)} registers ({listed(full.tiles)}) here"
    yield f"{where}{what}{tiles}; smaller tiles, or fewer at a time, would fit"


def filled(h: Held | HeldEntry) -> str:
    """How many registers tiles fill, of those that are claimed."""
    return f"{h.registers}" if h.claimed is None else f"{h.registers} of {h.claimed}"


def listed(tiles: Sequence[tuple[str, int]]) -> str:
    """Tiles with their registers."""
    return ", ".join(f"{name} {size}" for name, size in tiles)


def _held(h: Held) -> HeldEntry:
    threads = f"{h.first} to {h.first + h.threads - 1}"
    return HeldEntry(threads, _where(h.span), h.registers, h.claimed, h.tiles)


def _where(span: SourceSpan | None) -> str:
    return "" if span is None else f"{Path(span.file).name}:{span.line}"


def _tensors(solution: Solution) -> Iterator[TensorEntry]:
    for t in solution.program.tensors:
        match t:
            case GlobalView():
                dims = ", ".join(_mode(m, i == t.named) for i, m in enumerate(t.modes))
                yield TensorEntry(t.name, "global", str(t.dtype), (), f"({dims}) of {t.param}", 0)
            case SharedTensor():
                if t.name in solution.shared:
                    layout = str(solution.shared[t.name])
                    yield TensorEntry(t.name, "shared", str(t.dtype), t.shape, layout, 0)
            case RegisterTensor():
                f = solution.fragments.get(t.name)
                if f is not None:
                    name, dtype = t.name, str(t.dtype)
                    yield TensorEntry(name, "register", dtype, t.shape, str(f), f.values)


def _mode(mode: tuple[SubMode, ...], named: bool) -> str:
    parts = [f"{s.extent}:{'rows' if named else s.step}@{s.dim}" for s in mode]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _operations(solution: Solution, arch: Arch) -> Iterator[OperationEntry]:
    for item in build_graph(solution.program).ops:
        entry = _operation(solution, arch, item.op, solution.op_cost.get(item.op.id, 0.0))
        if entry is not None:
            yield entry


def _operation(
    solution: Solution, arch: Arch, op: TileOp, clocks: float
) -> OperationEntry | None:
    where = _where(op.span)
    match op:
        case Gemm():
            return _gemm(solution, op, where, clocks)
        case Copy() if op.id in solution.bulk:
            plan = solution.bulk[op.id]
            box = "x".join(map(str, plan.box))
            detail = f"box {box}, swizzle {plan.span if plan.span > 16 else 0}"
            text = subject(op)
            name, shared = plan.name, solution.multicasts.get(op.id)
            if shared is not None:
                name += ".multicast"
                detail += f", of which a block loads {shared.rows} for {shared.blocks} blocks"
            detail += "" if op.hint is None else f", {op.hint}"
            return OperationEntry(
                where, "copy", text, name, plan.calls, plan.bytes, None, clocks, detail
            )
        case Prefetch():
            return _prefetch(solution, op, where, clocks)
        case Copy() if op.id in solution.copies:
            return _copy(solution, solution.copies[op.id], op, where, clocks)
        case Rearrange() if op.id in solution.exchanges:
            name = solution.exchanges[op.id].name
            return OperationEntry(where, kind(op), subject(op), name, 1, 0, None, clocks, "")
        case _ if isinstance(op, Computation | Copy | Rearrange | ForElements):
            if clocks == 0.0:
                return None
            way = cast_way({t.name: t for t in solution.program.tensors}, arch, op)
            if isinstance(op, CastTile) and way is not None:
                pairs = -(-layout_of(solution.fragments, op.dst).values // 2)
                return OperationEntry(
                    where, kind(op), subject(op), way.name, pairs, 0, None, clocks, "of two values"
                )
            return OperationEntry(where, kind(op), subject(op), "", 0, 0, None, clocks, "")
        case _:
            assert_never(op)


def _copy(
    solution: Solution, plan: CopyPlan, op: Copy, where: str, clocks: float
) -> OperationEntry:
    conflicts = None
    for ref in (op.src, op.dst):
        layout = solution.shared.get(ref.tensor)
        if layout is not None:
            waves, least = layout.wavefronts[op.id]
            conflicts = waves - least
    detail = "" if op.hint is None else f"{op.hint} ignored: only TMA takes a hint"
    return OperationEntry(
        where, kind(op), subject(op), plan.name, plan.calls, plan.row.bytes, conflicts, clocks,
        detail,
    )


def _prefetch(solution: Solution, op: Prefetch, where: str, clocks: float) -> OperationEntry:
    plan, text = solution.bulk.get(op.id), subject(op)
    if plan is None:
        said = (r for r in solution.rejected if (r.subject, r.span) == (text, op.span))
        reason = next(said).reason
        return OperationEntry(where, "prefetch", text, "nothing", 0, 0, None, clocks, reason)
    detail = f"box {'x'.join(map(str, plan.box))}"
    return OperationEntry(
        where, "prefetch", text, plan.name, plan.calls, plan.bytes, None, clocks, detail
    )


def _gemm(solution: Solution, op: Gemm, where: str, clocks: float) -> OperationEntry:
    text = subject(op)
    if op.id in solution.wgmmas:
        plan = solution.wgmmas[op.id]
        sides = [solution.operands.get((op.id, side)) for side in "ab"]
        majors = "".join("r" if s is None else s.major for s in sides)
        detail = f"warp groups {plan.groups[0]}x{plan.groups[1]}"
        name, calls = plan.row.name(majors), prod(plan.repeats)
        return OperationEntry(where, "gemm", text, name, calls, 0, None, clocks, detail)
    gemm = solution.gemms[op.id]
    calls = prod(level.size for level in (*gemm.m, *gemm.n, *gemm.k))
    detail = f"warps {gemm.groups[0]}x{gemm.groups[1]}"
    detail += ", its operands turned" if gemm.row.turned else ""
    return OperationEntry(where, "gemm", text, gemm.row.name, calls, 0, None, clocks, detail)
