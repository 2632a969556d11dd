"""cp.async: copies that threads only start. The author's waits finish them, in groups; where a
kernel names no group, the next barrier does, of the block or of its cluster.

A thread fences what it wrote where TMA or wgmma reads the same bytes, or TMA writes them, also if
they now belong to another tensor of the arena. For data that another block wrote, the threads that
it notified execute the fence. The same holds for tensors in global memory that TMA accesses.
"""

from __future__ import annotations

from hexcute_core import thread as th
from hexcute_core.dtypes import i32
from hexcute_core.errors import SourceSpan
from hexcute_core.lowering.context import Context
from hexcute_core.scalar import Const
from hexcute_core.tile import AsyncWait, Copy, GlobalView, SharedTensor, Sync


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
    if ctx.started.grouped or not ctx.started.copies:
        return ()
    return (*finish(ctx, span), *_fence(ctx, span))


def told(ctx: Context, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """After other blocks said what they wrote here: make it visible to the async proxy."""
    read = ctx.reached.written & ctx.async_used
    return (th.Prim("fence.proxy", (), span),) if read else ()


def finish(ctx: Context, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """Until every copy started so far is there; those in no group yet make one."""
    commit = th.Prim("cp.async.commit", (), span)
    wait = th.Prim("cp.async.wait", (Const(0, i32),), span)
    return (commit, wait) if ctx.started.alone else (wait,)


def _fence(ctx: Context, span: SourceSpan) -> tuple[th.Stmt, ...]:
    read = any(op.dst.tensor in ctx.async_used for op in ctx.started.copies)
    return (th.Prim("fence.proxy", (), span),) if read else ()
