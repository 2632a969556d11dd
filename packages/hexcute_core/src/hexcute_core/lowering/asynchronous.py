"""cp.async: copies that threads only start. The author's waits finish them, in groups; where a
kernel names no group, the next barrier does, of the block or of its cluster.

What threads wrote is fenced by them, once it is written, where TMA or wgmma reads the same bytes
or TMA writes them, be it for another tensor of the arena; what another block wrote, by those whom
it told. So is what threads write to a tensor in global memory that TMA reads or writes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hexcute_core import thread as th
from hexcute_core.dtypes import i32
from hexcute_core.errors import SourceSpan
from hexcute_core.lowering.context import Context
from hexcute_core.scalar import Const
from hexcute_core.tile import (
    AsyncCommit,
    AsyncWait,
    Copy,
    GlobalView,
    Produce,
    SharedTensor,
    Stmt,
    Sync,
)
from hexcute_core.tile.visit import bodies, statements


def proxy_fence(ctx: Context, op: Copy) -> tuple[th.Stmt, ...]:
    """After threads wrote bytes that TMA or wgmma use: make it visible to the async proxy."""
    written = ctx.program.tensor(op.dst.tensor)
    if isinstance(written, GlobalView) and written.param in ctx.async_params:
        return (th.Prim("fence.proxy.global", (), op.span),)
    if not isinstance(written, SharedTensor) or op.dst.tensor not in ctx.async_used:
        return ()
    if op.dst.rank is not None:
        # That block's, which fences when it knows of the write.
        return ()
    if ctx.solution.copies[op.id].row.asynchronous:
        # Not written yet: fenced where it is waited for.
        return ()
    return (th.Prim("fence.proxy", (), op.span),)


def lower_async_wait(ctx: Context, stmt: AsyncWait) -> tuple[th.Stmt, ...]:
    """Until all but the latest groups are there."""
    wait = th.Prim("cp.async.wait", (Const(stmt.pending, i32),), stmt.span)
    return (wait, *_fence(ctx, stmt.span))


def lower_sync(ctx: Context, stmt: Sync) -> tuple[th.Stmt, ...]:
    """The team meets; copies in no group of the author's are finished before."""
    return (*landed(ctx, stmt.span), ctx.barrier(stmt.span))


def landed(ctx: Context, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """Until copies in no group of the author's are there, before others are told of them."""
    grouped = any(isinstance(s, (AsyncCommit, AsyncWait)) for s in statements(ctx.program.body))
    if grouped or not _started(ctx):
        return ()
    return (*finish(ctx, span), *_fence(ctx, span))


def told(ctx: Context, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """After other blocks said what they wrote here: make it visible to the async proxy."""
    read = ctx.reached.written & ctx.async_used
    return (th.Prim("fence.proxy", (), span),) if read else ()


def finish(ctx: Context, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """Until every copy started so far is there; those in no group yet make one."""
    alone = {id(s) for s in _ungrouped(ctx.program.body)}
    commit = th.Prim("cp.async.commit", (), span)
    wait = th.Prim("cp.async.wait", (Const(0, i32),), span)
    return (commit, wait) if any(id(s) in alone for s in _started(ctx)) else (wait,)


def _ungrouped(body: Sequence[Stmt]) -> Iterator[Copy]:
    """Copies that no commit follows in their own block."""
    last = max((i for i, s in enumerate(body) if isinstance(s, AsyncCommit)), default=-1)
    for stmt in body[last + 1 :]:
        if isinstance(stmt, Copy):
            yield stmt
    for stmt in body:
        for part in bodies(stmt):
            yield from _ungrouped(part)


def _fence(ctx: Context, span: SourceSpan) -> tuple[th.Stmt, ...]:
    read = any(op.dst.tensor in ctx.async_used for op in _started(ctx))
    return (th.Prim("fence.proxy", (), span),) if read else ()


def _started(ctx: Context) -> list[Copy]:
    """Copies that are only started where they stand; a pipeline's slot waits for its own."""
    filled = {
        id(s) for p in statements(ctx.program.body) if isinstance(p, Produce) for s in p.body
    }
    return [
        s
        for s in statements(ctx.program.body)
        if isinstance(s, Copy)
        and id(s) not in filled
        and s.id in ctx.solution.copies
        and ctx.solution.copies[s.id].row.asynchronous
    ]
