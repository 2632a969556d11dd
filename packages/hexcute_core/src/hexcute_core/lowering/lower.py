"""lower : Solution -> ThreadProgram; one rule a statement kind."""

from __future__ import annotations

from hexcute_core import thread as th
from hexcute_core.arch import Arch
from hexcute_core.dtypes import i32
from hexcute_core.lowering.arena import build_arena
from hexcute_core.lowering.context import Context
from hexcute_core.lowering.copy import lower_copy
from hexcute_core.lowering.elements import lower_elements, resolve, set_element
from hexcute_core.lowering.elementwise import lower_cast, lower_elementwise, lower_fill
from hexcute_core.lowering.gemm import lower_gemm
from hexcute_core.lowering.reduce import lower_reduce, scratch_bytes
from hexcute_core.scalar import Const
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    If,
    Rearrange,
    Reduce,
    RegisterTensor,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    While,
)
from hexcute_core.unions import assert_never


def lower(solution: Solution, arch: Arch) -> th.ThreadProgram:
    """What every thread of `solution.program` runs."""
    program = solution.program
    graph = build_graph(program)
    scratch = max(
        (
            scratch_bytes(solution.fragments[item.op.src.tensor], item.op.axis,
                          program.tensor(item.op.dst.tensor).dtype)
            for item in graph.ops
            if isinstance(item.op, Reduce)
        ),
        default=0,
    )  # fmt: skip
    ctx = Context(program, solution, graph.facts, build_arena(program, arch, scratch))
    asynchronous = any(plan.row.asynchronous for plan in solution.copies.values())
    body: list[th.Stmt] = []
    for i, stmt in enumerate(program.body):
        if i in ctx.arena.fences:
            body += _fence(stmt, asynchronous)
        body += _lower(ctx, stmt)
    arrays = tuple(
        th.DeclareArray(t.name, t.dtype, ctx.array_size(t))
        for t in program.tensors
        if isinstance(t, RegisterTensor) and t.name in solution.fragments
    )
    return th.ThreadProgram(
        program.name,
        _params(program),
        program.grid_dim,
        program.block_dim,
        ctx.arena.size,
        (*arrays, *ctx.prologue, *body),
        program.min_blocks,
    )


def _fence(stmt: Stmt, asynchronous: bool) -> list[th.Stmt]:
    """Before shared memory changes hands: nothing in flight, everybody here."""
    wait = th.Prim("cp.async.wait", (Const(0, i32),), stmt.span)
    return [*([wait] if asynchronous else []), th.Prim("bar.sync", (), stmt.span)]


def _params(program: TileProgram) -> tuple[th.ThreadParam, ...]:
    aligned = program.promise.aligned
    pointers = [
        th.ThreadParam(p.name, p.dtype, p.shape, pointer=True, aligned=p.name in aligned)
        for p in program.params
    ]
    scalars = [th.ThreadParam(name, dtype) for name, dtype in program.scalars]
    return (*pointers, *scalars, *(th.ThreadParam(s, i32) for s in program.symbols))


def lower_body(ctx: Context, body: tuple[Stmt, ...]) -> tuple[th.Stmt, ...]:
    """The statements of `body`, in order."""
    return tuple(out for stmt in body for out in _lower(ctx, stmt))


def _lower(ctx: Context, stmt: Stmt) -> tuple[th.Stmt, ...]:
    match stmt:
        case Fill():
            return lower_fill(ctx, stmt)
        case Copy():
            return lower_copy(ctx, stmt)
        case Gemm():
            return lower_gemm(ctx, stmt)
        case CastTile():
            return lower_cast(ctx, stmt)
        case Elementwise():
            return lower_elementwise(ctx, stmt)
        case Reduce():
            return lower_reduce(ctx, stmt)
        case Rearrange():
            raise TypeError("rearranges become copies before lowering")
        case ForElements():
            return lower_elements(ctx, stmt, lower_body)
        case SetElement():
            return (set_element(ctx, stmt),)
        case Sync():
            return (th.Prim("bar.sync", (), stmt.span),)
        case AsyncCommit():
            return (th.Prim("cp.async.commit", (), stmt.span),)
        case AsyncWait():
            return (th.Prim("cp.async.wait", (Const(stmt.pending, i32),), stmt.span),)
        case Assign():
            return (th.Assign(stmt.var, resolve(ctx, stmt.value), stmt.declares, stmt.span),)
        case CallStmt():
            return (th.Prim(stmt.name, tuple(resolve(ctx, a) for a in stmt.args), stmt.span),)
        case For():
            body = lower_body(ctx, stmt.body)
            return (
                th.For(stmt.var, stmt.start, stmt.stop, stmt.step, body, stmt.unroll, stmt.span),
            )
        case While():
            return (th.While(stmt.cond, lower_body(ctx, stmt.body), stmt.span),)
        case If():
            cond = resolve(ctx, stmt.cond)
            then, otherwise = lower_body(ctx, stmt.then), lower_body(ctx, stmt.otherwise)
            return (th.If(cond, then, otherwise, stmt.span),)
        case _:
            assert_never(stmt)
