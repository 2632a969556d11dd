"""Raw barriers: one primitive each. Named barriers take numbers from 15 down, roles from 1 up.

Where blocks of a cluster reach into one another, what tells them of it orders their memory: an
arrival waits for what was only started, releases to the cluster, and a wait acquires from it.
"""

from __future__ import annotations

from hexcute_core import thread as th
from hexcute_core.arch import Arch
from hexcute_core.arch.groups import BARRIER_BYTES
from hexcute_core.dtypes import i32
from hexcute_core.errors import LayoutConflict, SourceSpan
from hexcute_core.lowering.asynchronous import landed, told
from hexcute_core.lowering.bulk import lower_bulk_load
from hexcute_core.lowering.context import Context
from hexcute_core.lowering.elements import resolve
from hexcute_core.scalar import Const, Scalar, add, compare, mul
from hexcute_core.tile import (
    BarrierStmt,
    ClusterOp,
    Copy,
    MbarrierOp,
    NamedBarrierOp,
    Role,
    TileProgram,
)
from hexcute_core.unions import assert_never

LAST_BARRIER = 15
"""Named barriers are 1 to 15; 0 is the block's own."""

_ON_MBARRIER = {
    "arrive": "mbarrier.arrive",
    "expect": "mbarrier.expect",
    "wait": "mbarrier.wait",
    "remote": "mbarrier.arrive.cluster",
}
_ORDERING = {"wait": "mbarrier.wait.cluster", "remote": "mbarrier.arrive.cluster.release"}


def mbarrier_bytes(program: TileProgram) -> dict[str, int]:
    """Bytes of shared memory of the raw mbarriers, by their names in the arena."""
    return {_arena_name(b.name): b.size * BARRIER_BYTES for b in program.mbarriers}


def _arena_name(name: str) -> str:
    return f"{name} mbarriers"


def mbarrier(ctx: Context, name: str, index: Scalar) -> th.SharedPtr:
    """The address of mbarrier `index` of `name`."""
    first = ctx.arena.offsets[_arena_name(name)]
    return th.SharedPtr(add(mul(index, BARRIER_BYTES), first))


def init_mbarriers(ctx: Context) -> list[th.Stmt]:
    """What one thread runs at the kernel's start."""
    return [
        th.Prim(
            "mbarrier.init", (mbarrier(ctx, b.name, Const(i, i32)), Const(b.count, i32)), b.span
        )
        for b in ctx.program.mbarriers
        for i in range(b.size)
    ]


def check_named_barriers(program: TileProgram) -> None:
    """Raises LayoutConflict where roles and named barriers need more than the hardware has."""
    roles = sum(isinstance(s, Role) for s in program.body)
    if roles + len(program.named_barriers) > LAST_BARRIER:
        last = program.named_barriers[-1] if program.named_barriers else program
        raise LayoutConflict(
            f"{roles} roles and {len(program.named_barriers)} named barriers, a block has "
            f"{LAST_BARRIER} barriers in all",
            last.span,
            "use fewer named barriers, or mbarriers",
        )


def check_target(program: TileProgram, arch: Arch) -> None:
    """Raises LayoutConflict, located, for what only GPUs with TMA have."""
    if arch.bulk is not None:
        return
    found: list[tuple[str, SourceSpan]] = [("pipelines", p.span) for p in program.pipelines]
    found += [("mbarriers", b.span) for b in program.mbarriers]
    found += [
        ("roles that claim registers", s.span)
        for s in program.body
        if isinstance(s, Role) and s.registers is not None
    ]
    if program.cluster_dim != (1, 1, 1):
        found.append(("clusters", program.span))
    for what, span in found:
        raise LayoutConflict(f"{arch.name} has no {what}", span, 'compile with target="sm_90"')


def lower_barrier(ctx: Context, stmt: BarrierStmt) -> tuple[th.Stmt, ...]:
    """The primitive of a raw barrier's use, run by every thread that gets there."""
    match stmt:
        case MbarrierOp():
            at = mbarrier(ctx, stmt.barrier, resolve(ctx, stmt.index))
            more = () if stmt.value is None else (resolve(ctx, stmt.value),)
            names = _ON_MBARRIER | (_ORDERING if ctx.reached.any else {})
            use = th.Prim(names[stmt.action], (at, *more), stmt.span)
            before = landed(ctx, stmt.span) if ctx.reached.any and stmt.action == "remote" else ()
            return (*before, use, *(told(ctx, stmt.span) if stmt.action == "wait" else ()))
        case NamedBarrierOp():
            declared = [b.name for b in ctx.program.named_barriers]
            number = LAST_BARRIER - declared.index(stmt.barrier)
            threads = ctx.program.named_barrier(stmt.barrier).threads
            operands = (Const(number, i32), Const(threads, i32))
            return (th.Prim(f"bar.named.{stmt.action}", operands, stmt.span),)
        case ClusterOp():
            meet = th.Prim(f"cluster.{stmt.action}", (), stmt.span)
            if stmt.action == "arrive":
                return (*landed(ctx, stmt.span), meet)
            return (meet, *told(ctx, stmt.span))
        case _:
            assert_never(stmt)


def lower_completing(ctx: Context, op: Copy) -> tuple[th.Stmt, ...]:
    """A load by TMA that completes on a raw mbarrier: the team's first thread issues it."""
    assert op.completes is not None
    name, index = op.completes
    boxes = lower_bulk_load(ctx, op, mbarrier(ctx, name, index))
    return (th.If(compare("eq", ctx.lane, 0), boxes, (), op.span),)
