"""lower : Solution -> ThreadProgram; one rule per statement kind."""

from __future__ import annotations

from collections.abc import Iterable

from hexcute_core import thread as th
from hexcute_core.arch import Arch
from hexcute_core.dtypes import i32
from hexcute_core.errors import LayoutConflict
from hexcute_core.lowering.alive import refuse_crowds
from hexcute_core.lowering.arena import build_arena
from hexcute_core.lowering.asynchronous import lower_async_wait, lower_sync, proxy_fence
from hexcute_core.lowering.barriers import (
    check_named_barriers,
    check_target,
    lower_barrier,
    lower_completing,
    mbarrier_bytes,
)
from hexcute_core.lowering.bulk import lower_bulk_store, lower_prefetch
from hexcute_core.lowering.context import Context
from hexcute_core.lowering.copy import lower_copy
from hexcute_core.lowering.elements import lower_elements, resolve, set_element, written
from hexcute_core.lowering.elementwise import lower_cast, lower_elementwise, lower_fill
from hexcute_core.lowering.exchange import lower_exchange
from hexcute_core.lowering.gemm import lower_gemm
from hexcute_core.lowering.pipeline import (
    lower_end,
    lower_init,
    lower_produce,
    lower_release,
    lower_wait,
    ring_bytes,
    rings,
)
from hexcute_core.lowering.reduce import is_vote, lower_reduce, scratch_bytes
from hexcute_core.lowering.relabel import lower_relabel
from hexcute_core.lowering.roles import handover, lower_roles
from hexcute_core.lowering.scan import lower_scan
from hexcute_core.lowering.scan_plan import plan_scan
from hexcute_core.lowering.started import find_started
from hexcute_core.lowering.stores import find_stores, read_at_end, read_before
from hexcute_core.lowering.updates import (
    lower_update,
    lower_update_element,
    lower_updating,
    share_bytes,
)
from hexcute_core.lowering.wgmma import lower_wgmma
from hexcute_core.scalar import Const, compare
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    ClusterOp,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GemmWait,
    If,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
    Prefetch,
    Produce,
    Rearrange,
    Reduce,
    RegisterTensor,
    Relabel,
    Role,
    Say,
    Scan,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    TileRef,
    UpdateElement,
    While,
)
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.layouts import layout_of
from hexcute_core.tile.teams import by_team, whole_block
from hexcute_core.tile.visit import noticed
from hexcute_core.unions import assert_never


def lower(solution: Solution, arch: Arch) -> th.ThreadProgram:
    """What every thread of `solution.program` runs."""
    program = solution.program
    refuse_crowds(solution, arch)
    scratch = max(
        (
            _scratch(solution, op, team.threads)
            for op, team in by_team(program)
            if isinstance(op, TileOp)
        ),
        default=0,
    )
    check_target(program, arch)
    check_named_barriers(program)
    fixed = {**ring_bytes(program), **mbarrier_bytes(program)}
    arena = build_arena(program, arch, scratch, fixed)
    stores, started = find_stores(program, solution), find_started(program, solution)
    team = whole_block(program)
    ctx = Context(program, solution, Facts(program), arena, team, stores, started)
    ctx.rings.update(rings(program, solution, ctx.async_used))
    body: list[th.Stmt] = []
    for i, stmt in enumerate(program.body):
        if (i, -1) in ctx.arena.fences:
            body += handover(ctx, stmt)
        if isinstance(stmt, Role):
            # A run of roles is one chain of branches, lowered at its first.
            before = program.body[i - 1] if i else None
            if not isinstance(before, Role):
                body += lower_roles(ctx, i, lower_body)
            continue
        body += _lower(ctx, stmt)
    body += read_at_end(ctx, program)
    arrays = tuple(
        th.DeclareArray(t.name, t.dtype, solution.fragments[t.name].values)
        for t in program.tensors
        if isinstance(t, RegisterTensor) and t.name in solution.fragments
    )
    return th.ThreadProgram(
        program.name,
        _params(program),
        program.grid_dim,
        program.block_dim,
        ctx.arena.size,
        (*arrays, *lower_init(ctx), *ctx.prologue, *body, *lower_end(ctx)),
        program.min_blocks,
        tuple(th.TensorMap(name, *key) for key, name in ctx.maps.items()),
        program.cluster_dim,
    )


def _scratch(solution: Solution, op: TileOp, threads: int) -> int:
    """Bytes of shared memory in which a team of `threads` tell each other what an operation
    needs."""
    program = solution.program

    def shared(refs: Iterable[TileRef]) -> int:
        found = ((layout_of(solution.fragments, r), program.tensor(r.tensor).dtype) for r in refs)
        return max((share_bytes(f, t, threads, program.block_dim) for f, t in found), default=0)

    match op:
        case Copy() if op.update is not None:
            return shared(() if op.update.old is None else (op.update.old,))
        case ForElements() if noticed(op.body):
            return shared(written(op))
        case Reduce():
            f, dtype = layout_of(solution.fragments, op.src), program.tensor(op.dst.tensor).dtype
            if threads < program.block_dim and is_vote(op, dtype):
                return 0
            return scratch_bytes(op, f, dtype, program.block_dim)
        case Scan():
            return plan_scan(op, solution.fragments).scratch_bytes(program.block_dim)
        case (
            Fill() | Copy() | Prefetch() | Gemm() | CastTile() | Relabel() | Elementwise()
            | Rearrange() | ForElements()
        ):  # fmt: skip
            return 0
        case _:
            assert_never(op)


def _params(program: TileProgram) -> tuple[th.ThreadParam, ...]:
    aligned, at = program.promise.aligned, program.promise.begin
    pointers = [
        th.ThreadParam(p.name, p.dtype, p.shape, True, p.name in aligned, p.strides, at(p.name))
        for p in program.params
    ]
    scalars = [th.ThreadParam(name, dtype) for name, dtype in program.scalars]
    return (*pointers, *scalars, *(th.ThreadParam(s, i32) for s in program.symbols))


def _say(ctx: Context, stmt: Say) -> tuple[th.Stmt, ...]:
    """One thread of the team, or whoever comes by, or those for whom something does not hold."""
    args = tuple(resolve(ctx, e) for e in stmt.args)
    said = th.Say(stmt.text, args, stmt.holds is not None, stmt.span)
    if stmt.holds is not None:
        return (th.If(resolve(ctx, stmt.holds), (), (said,), stmt.span),)
    first = compare("eq", ctx.lane, 0)
    return (th.If(first, (said,), (), stmt.span),) if stmt.once else (said,)


def lower_body(ctx: Context, body: tuple[Stmt, ...]) -> tuple[th.Stmt, ...]:
    """The statements of `body`, in order."""
    return tuple(out for stmt in body for out in _lower(ctx, stmt))


def _lower(ctx: Context, stmt: Stmt) -> tuple[th.Stmt, ...]:
    return (*read_before(ctx, stmt), *_rule(ctx, stmt))


def _rule(ctx: Context, stmt: Stmt) -> tuple[th.Stmt, ...]:
    match stmt:
        case Fill():
            return lower_fill(ctx, stmt)
        case Copy() if stmt.completes is not None:
            return lower_completing(ctx, stmt)
        case Copy() if stmt.id in ctx.solution.bulk:
            return lower_bulk_store(ctx, stmt)
        case Prefetch():
            return lower_prefetch(ctx, stmt)
        case Copy() if stmt.update is not None:
            return (*lower_update(ctx, stmt), *proxy_fence(ctx, stmt))
        case Copy():
            return (*lower_copy(ctx, stmt), *proxy_fence(ctx, stmt))
        case Gemm() if stmt.id in ctx.solution.wgmmas:
            return lower_wgmma(ctx, stmt)
        case Gemm():
            return lower_gemm(ctx, stmt)
        case GemmWait():
            return (th.Prim("wgmma.wait", (Const(stmt.pending, i32),), stmt.span),)
        case Produce():
            return lower_produce(ctx, stmt, lower_body)
        case PipelineWait():
            return lower_wait(ctx, stmt)
        case PipelineRelease():
            return lower_release(ctx, stmt)
        case Role():
            raise LayoutConflict(
                "a role inside a loop, a branch or another role",
                stmt.span,
                "write the roles one after another at the top of the kernel, their loops inside",
            )
        case CastTile():
            return lower_cast(ctx, stmt)
        case Relabel():
            return lower_relabel(ctx, stmt)
        case Elementwise():
            return lower_elementwise(ctx, stmt)
        case Reduce():
            return lower_reduce(ctx, stmt)
        case Scan():
            return lower_scan(ctx, stmt)
        case Rearrange():
            return lower_exchange(ctx, stmt, ctx.solution.exchanges[stmt.id])
        case ForElements() if noticed(stmt.body):
            return lower_updating(ctx, stmt, lower_body)
        case ForElements():
            return lower_elements(ctx, stmt, lower_body)
        case Say():
            return _say(ctx, stmt)
        case UpdateElement():
            return lower_update_element(ctx, stmt)
        case SetElement():
            return (set_element(ctx, stmt),)
        case Sync():
            return lower_sync(ctx, stmt)
        case AsyncCommit():
            return (th.Prim("cp.async.commit", (), stmt.span),)
        case AsyncWait():
            return lower_async_wait(ctx, stmt)
        case Assign():
            value = resolve(ctx, stmt.value)
            return (th.Assign(stmt.var, value, stmt.declares, stmt.span, stmt.multiple),)
        case CallStmt():
            return (th.Prim(stmt.name, tuple(resolve(ctx, a) for a in stmt.args), stmt.span),)
        case MbarrierOp() | NamedBarrierOp() | ClusterOp():
            return lower_barrier(ctx, stmt)
        case For():
            start, stop, step = (resolve(ctx, e) for e in (stmt.start, stmt.stop, stmt.step))
            body = lower_body(ctx, stmt.body)
            return (th.For(stmt.var, start, stop, step, body, stmt.unroll, stmt.span),)
        case While():
            return (th.While(resolve(ctx, stmt.cond), lower_body(ctx, stmt.body), stmt.span),)
        case If():
            cond = resolve(ctx, stmt.cond)
            then, otherwise = lower_body(ctx, stmt.then), lower_body(ctx, stmt.otherwise)
            return (th.If(cond, then, otherwise, stmt.span),)
        case _:
            assert_never(stmt)
