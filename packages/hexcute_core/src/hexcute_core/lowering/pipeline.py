"""Pipelines as mbarriers: slot s has a full barrier and an empty one.

produce  every thread that fills waits for empty[s] (parity of the round before); one expects the
         bytes of the TMA boxes on full[s] and issues them; for the others, each thread arrives: its
         cp.async do when they have landed, while it goes on, and of what it writes itself each warp
         does behind a fence
wait     full[s] (parity of this round); where wgmma or TMA use what cp.async brought, whoever waits
         puts the fence behind it, since the thread that asked for it has gone on; but where other
         fillings come by TMA alone, the thread waits for its cp.async and fences, so that those who
         wait for these do not
release  arrive at empty[s]: one thread per warp group where wgmma alone reads the slot, since
         its wait covers the group; one per warp, which meets before, where threads read it
         themselves, or where it may be released without a product
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from math import prod

from hexcute_core import thread as th
from hexcute_core.arch.groups import BARRIER_BYTES, WARP, WARP_GROUP
from hexcute_core.dtypes import i32
from hexcute_core.errors import SourceSpan
from hexcute_core.lowering.barriers import init_mbarriers
from hexcute_core.lowering.bulk import lower_bulk_load
from hexcute_core.lowering.cluster import groups_of, members
from hexcute_core.lowering.context import Context
from hexcute_core.lowering.copy import lower_copy
from hexcute_core.lowering.digits import THREAD
from hexcute_core.lowering.meeting import released_apart
from hexcute_core.scalar import Call, Const, Scalar, add, binary, compare, mod, mul
from hexcute_core.scalar.visit import walk
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import (
    Assign,
    Copy,
    For,
    If,
    Pipeline,
    PipelineRelease,
    PipelineWait,
    Prefetch,
    Produce,
    Role,
    Stmt,
    TileProgram,
    While,
)
from hexcute_core.tile.teams import Team, by_team
from hexcute_core.tile.visit import operations, results

Lower = Callable[[Context, tuple[Stmt, ...]], tuple[th.Stmt, ...]]


@dataclass(frozen=True)
class Fill:
    """What fills slots: boxes of TMA; cp.async that are only `started`, and arrive by themselves;
    threads, of which each warp arrives when what they wrote is there. `fenced`: whoever waits for a
    slot fences what cp.async brought. `settled`: threads wait for their cp.async, and fence."""

    boxes: bool
    started: bool
    threads: bool
    fenced: bool
    settled: bool

    @property
    def bulk(self) -> bool:
        """Whether TMA alone does."""
        return not (self.started or self.threads)

    def arrivals(self, threads: int) -> int:
        """How often a team of so many threads arrives at a full barrier."""
        if self.bulk:
            return 1
        landed = threads if self.started else 0
        return landed + (threads // WARP if self.threads else 1 if self.boxes else 0)


def _fill(solution: Solution, produced: Iterable[Produce], used: Collection[str]) -> Fill:
    """What fills the slots of a pipeline."""
    boxes, threads, started = False, False, set[str]()
    for op in operations(s for stmt in produced for s in stmt.body):
        if _boxed(solution, op):
            boxes = True
        elif _asynchronous(solution, op):
            started.update(ref.tensor for ref in results(op))
        elif results(op):
            threads = True
    fenced = not started.isdisjoint(used)
    if fenced and any(_boxes_alone(solution, stmt) for stmt in produced):
        return Fill(boxes, started=False, threads=True, fenced=False, settled=True)
    return Fill(boxes, bool(started), threads, fenced, settled=False)


def _boxed(solution: Solution, op: Stmt) -> bool:
    """Whether TMA brings what `op` copies."""
    return isinstance(op, Copy) and op.id in solution.bulk and solution.bulk[op.id].load


def _boxes_alone(solution: Solution, stmt: Produce) -> bool:
    """Whether TMA alone fills the slot here."""
    return all(_boxed(solution, op) or not results(op) for op in operations(stmt.body))


def _asynchronous(solution: Solution, op: Stmt) -> bool:
    """Whether `op` is a copy by cp.async."""
    plan = solution.copies.get(op.id) if isinstance(op, Copy) else None
    return plan is not None and plan.row.asynchronous


@dataclass(frozen=True)
class Ring:
    """A pipeline's barriers: arrivals that fill and empty a slot, by what it is filled, whether its
    readers arrive warp by warp, and the axes along which blocks of a cluster share what fills
    it."""

    pipeline: Pipeline
    filled_by: int
    emptied_by: int
    fill: Fill
    each_warp: bool
    groups: tuple[tuple[int, ...], ...] = ()


def ring_bytes(program: TileProgram) -> dict[str, int]:
    """Bytes of the arena that the barriers of each pipeline take."""
    return {arena_name(p.name): 2 * p.stages * BARRIER_BYTES for p in program.pipelines}


def rings(program: TileProgram, solution: Solution, used: Collection[str]) -> dict[str, Ring]:
    """The barriers of every pipeline of `program`; wgmma or TMA use the shared tensors `used` after
    threads may have written them."""
    found = {}
    apart = released_apart(program, solution.wgmmas)
    for pipeline in program.pipelines:
        produced = [
            (s, t)
            for s, t in by_team(program)
            if isinstance(s, Produce) and s.pipeline == pipeline.name
        ]
        releasing = {
            t for s, t in by_team(program)
            if isinstance(s, PipelineRelease) and s.pipeline == pipeline.name
        }  # fmt: skip
        copies = [c for s, _ in produced for c in operations(s.body) if isinstance(c, Copy)]
        fill = _fill(solution, [s for s, _ in produced], used)
        buffers = {c.dst.tensor for c in copies}
        each = pipeline.name in apart or any(
            isinstance(s, Copy) and s.src.tensor in buffers and s.id not in solution.bulk
            for s, _ in by_team(program)
        )
        groups = groups_of(program, solution, [s for s, _ in produced])
        writers = sum(prod(program.cluster_dim[a] for a in axes) for axes in groups) or 1
        teams = {t for _, t in produced}
        filled = 1 if fill.bulk else sum(fill.arrivals(t.threads) for t in teams)
        arrivals = [t.threads // (WARP if each else WARP_GROUP) for t in releasing]
        # Where roles take turns, one of them empties a slot, each as many threads as the others.
        emptied = sum(arrivals) if pipeline.readers == "all" else arrivals[0]
        emptied *= writers
        found[pipeline.name] = Ring(pipeline, filled, emptied, fill, each, groups)
    return found


def _barrier(ctx: Context, name: str, stage: Scalar, empty: bool) -> th.SharedPtr:
    ring = ctx.rings[name]
    first = ctx.arena.offsets[arena_name(name)]
    first += ring.pipeline.stages * BARRIER_BYTES if empty else 0
    return th.SharedPtr(add(mul(stage, BARRIER_BYTES), first))


def arena_name(pipeline: str) -> str:
    """The name of a pipeline's barriers in the shared arena."""
    return f"{pipeline} barriers"


def lower_init(ctx: Context) -> tuple[th.Stmt, ...]:
    """One thread initialises all barriers; nobody, in the whole cluster, goes on before they are
    visible."""
    body = init_mbarriers(ctx)
    for name, ring in ctx.rings.items():
        for stage in range(ring.pipeline.stages):
            for count, empty in ((ring.filled_by, False), (ring.emptied_by, True)):
                where = _barrier(ctx, name, Const(stage, i32), empty)
                operands = (where, Const(count, i32))
                body.append(th.Prim("mbarrier.init", operands, ring.pipeline.span))
    if not body:
        return ()
    body.append(th.Prim("fence.mbarrier", ()))
    meet: tuple[str, ...] = ("bar.sync",)
    if ctx.program.cluster_dim != (1, 1, 1):
        meet = ("cluster.arrive", "cluster.wait")
    return (th.If(compare("eq", THREAD, 0), tuple(body)), *(th.Prim(name, ()) for name in meet))


def lower_end(ctx: Context) -> tuple[th.Stmt, ...]:
    """Where blocks of a cluster write into one another, none leaves before all are done."""
    if not any(ring.groups for ring in ctx.rings.values()):
        return ()
    return (th.Prim("cluster.arrive", ()), th.Prim("cluster.wait", ()))


def lower_produce(ctx: Context, stmt: Produce, lower: Lower) -> tuple[th.Stmt, ...]:
    """Fills a slot, see the module: statements in their order; boxes last, or before the last
    copies by cp.async, which take the threads' time."""
    ring = ctx.rings[stmt.pipeline]
    full = _barrier(ctx, stmt.pipeline, stmt.stage, empty=False)
    empty = _barrier(ctx, stmt.pipeline, stmt.stage, empty=True)
    first = compare("eq", ctx.lane, 0)
    wait: th.Stmt = th.Prim("mbarrier.wait", (empty, binary("xor", stmt.phase, 1)), stmt.span)
    if ring.fill.bulk and not ctx.alone:
        # The slot waits for nobody but the thread that fills it: others, left behind by two rounds,
        # would mistake a later phase for theirs.
        wait = th.If(first, (wait,), (), stmt.span)
    out: list[th.Stmt] = [wait]
    boxes: list[Copy] = []
    ahead = len(out)
    for part in stmt.body:
        bulk = ctx.solution.bulk.get(part.id) if isinstance(part, Copy) else None
        if isinstance(part, Copy) and bulk is not None and bulk.load:
            boxes.append(part)
        elif isinstance(part, Copy) and part.id in ctx.solution.copies:
            out += lower_copy(ctx, part)
        else:
            out += lower(ctx, (part,))
            ahead = len(out)
    issue: list[th.Stmt] = []
    if boxes:
        total = sum(ctx.solution.bulk[c.id].bytes for c in boxes)
        issue.append(th.Prim("mbarrier.expect", (full, Const(total, i32)), stmt.span))
        for c in boxes:
            issue += lower_bulk_load(ctx, c, full)
    if ring.fill.bulk:
        return (*out, *(issue if ctx.alone else (th.If(first, tuple(issue), (), stmt.span),)))
    if ring.fill.started:
        out.append(th.Prim("cp.async.mbarrier", (full,), stmt.span))
    if ring.fill.settled and any(_asynchronous(ctx.solution, s) for s in operations(stmt.body)):
        out.append(th.Prim("cp.async.commit", (), stmt.span))
        out.append(th.Prim("cp.async.wait", (Const(0, i32),), stmt.span))
    arrive: tuple[th.Stmt, ...] = (th.Prim("mbarrier.arrive", (full,), stmt.span),)
    if ring.fill.threads:
        if not _boxes_alone(ctx.solution, stmt):
            out.append(th.Prim("fence.proxy", (), stmt.span))
        if issue:
            arrive = (th.If(first, tuple(issue), arrive, stmt.span),)
        return (*out, *_for_warp(ctx, arrive, stmt.span))
    if ring.fill.boxes:
        out.insert(ahead, th.If(first, tuple(issue) or arrive, (), stmt.span))
    return tuple(out)


def lower_wait(ctx: Context, stmt: PipelineWait) -> tuple[th.Stmt, ...]:
    """Until the slot is full, and its bytes are there for all who use them."""
    full = _barrier(ctx, stmt.pipeline, stmt.stage, empty=False)
    wait = th.Prim("mbarrier.wait", (full, stmt.phase), stmt.span)
    fence = th.Prim("fence.proxy", (), stmt.span)
    return (wait, fence) if ctx.rings[stmt.pipeline].fill.fenced else (wait,)


def lower_release(ctx: Context, stmt: PipelineRelease) -> tuple[th.Stmt, ...]:
    """The slot may be filled again as far as this team is concerned."""
    empty = _barrier(ctx, stmt.pipeline, stmt.stage, empty=True)
    ring = ctx.rings[stmt.pipeline]
    arrive: tuple[th.Stmt, ...] = tuple(
        th.Prim("mbarrier.arrive.cluster", (empty, rank), stmt.span)
        for axes in ring.groups
        for rank in members(ctx.program, axes)
    ) or (th.Prim("mbarrier.arrive", (empty,), stmt.span),)
    if ring.each_warp:
        return _for_warp(ctx, arrive, stmt.span)
    leader = compare("eq", mod(ctx.once(ctx.lane), WARP_GROUP), 0)
    return (th.If(leader, arrive, (), stmt.span),)


def _for_warp(ctx: Context, body: tuple[th.Stmt, ...], span: SourceSpan) -> tuple[th.Stmt, ...]:
    """One lane does it when all lanes of its warp have come here: arrivals at one barrier follow
    one another."""
    leader = compare("eq", mod(ctx.once(ctx.lane), WARP), 0)
    return th.Prim("bar.warp.sync", (), span), th.If(leader, body, (), span)


def single_threaded(ctx: Context, role: Role) -> bool:
    """Whether one thread can run the role: it fills slots by TMA and does nothing else."""
    fills = [s for s, t in by_team(ctx.program) if t == Team(role.first, role.threads)]
    return any(isinstance(s, Produce) for s in fills) and all(
        ctx.rings[s.pipeline].fill.bulk if isinstance(s, Produce) else not _needs_team(ctx, s)
        for s in fills
    )


def _needs_team(ctx: Context, stmt: Stmt) -> bool:
    if isinstance(stmt, Copy):
        return stmt.id not in ctx.solution.bulk
    if isinstance(stmt, Assign):
        return any(isinstance(node, Call) for node in walk(stmt.value))
    return not isinstance(stmt, (For, If, While, Role, Prefetch))
