"""Roles: one chain of branches over the thread index, each with its registers and its barrier."""

from __future__ import annotations

from collections.abc import Callable

from hexcute_core import thread as th
from hexcute_core.dtypes import i32
from hexcute_core.errors import LayoutConflict
from hexcute_core.lowering.asynchronous import finish
from hexcute_core.lowering.barriers import LAST_BARRIER
from hexcute_core.lowering.context import Context
from hexcute_core.lowering.digits import THREAD
from hexcute_core.lowering.pipeline import single_threaded
from hexcute_core.lowering.stores import handed_over_before, read_at_end
from hexcute_core.scalar import Call, Const, Scalar, compare, land
from hexcute_core.tile import Role, Stmt
from hexcute_core.tile.teams import Team

Lower = Callable[[Context, tuple[Stmt, ...]], tuple[th.Stmt, ...]]

REGISTERS = 65536
"""Registers of a multiprocessor, which a block of warp-specialised roles has to itself."""


def lower_roles(ctx: Context, at: int, lower: Lower) -> tuple[th.Stmt, ...]:
    """The roles from statement `at` of the kernel on, side by side."""
    roles: list[Role] = []
    for stmt in ctx.program.body[at:]:
        if not isinstance(stmt, Role):
            break
        roles.append(stmt)
    if len(roles) > LAST_BARRIER:
        raise LayoutConflict(f"{len(roles)} roles, at most {LAST_BARRIER}", roles[-1].span)
    threads = ctx.program.block_dim
    thread = _thread(ctx, roles)
    branches = [_role(ctx, at + i, role, threads, lower) for i, role in enumerate(roles)]
    chain = branches[-1]
    if roles[-1].first + roles[-1].threads < threads:
        chain = (th.If(_inside(roles[-1], thread), chain, (), roles[-1].span),)
    for role, branch in reversed(list(zip(roles[:-1], branches))):
        chain = (th.If(_inside(role, thread), branch, chain, role.span),)
    return chain


_MOST = 256
"""Registers a role may claim for each thread, one of which is not a register."""


def _thread(ctx: Context, roles: list[Role]) -> Scalar:
    """What a thread's role is chosen by: its number, or that of its warp's first thread, told by
    one lane. So the compiler knows that a warp stays together, and keeps what is the same for all
    of it, descriptors too, in uniform registers; where roles claim registers it knows already."""
    if all(role.registers is not None for role in roles):
        return THREAD
    return ctx.once(Call("shfl.idx", (THREAD, Const(0, i32)), i32))


def _inside(role: Role, thread: Scalar) -> Scalar:
    low = compare("ge", thread, role.first) if role.first else None
    high = compare("lt", thread, role.first + role.threads)
    return high if low is None else land(low, high)


def _role(ctx: Context, at: int, role: Role, threads: int, lower: Lower) -> tuple[th.Stmt, ...]:
    claim: list[th.Stmt] = []
    # A launch gives every thread the same share; a role gives back or takes more. Of 256 it could
    # do neither: a thread has 255 then, and a GPU faults on giving back to more than there are.
    share = REGISTERS // (ctx.program.min_blocks or 1) // threads // 8 * 8
    if role.registers is not None and not role.registers == _MOST <= share:
        change = "inc" if role.registers > share else "dec"
        operand = (Const(role.registers, i32),)
        claim.append(th.Prim(f"setmaxnreg.{change}", operand, role.span))
    body: list[th.Stmt] = []
    alone = single_threaded(ctx, role)
    with ctx.acting(Team(role.first, role.threads), barrier_of(ctx, at), alone) as prologue:
        for j, stmt in enumerate(role.body):
            if (at, j) in ctx.arena.fences:
                body += handover(ctx, stmt)
            body += lower(ctx, (stmt,))
        body += read_at_end(ctx, role)
    whole: tuple[th.Stmt, ...] = (*prologue, *body)
    if alone:
        whole = (th.If(compare("eq", THREAD, role.first), whole, (), role.span),)
    return (*claim, *whole)


def handover(ctx: Context, stmt: Stmt) -> list[th.Stmt]:
    """Before shared memory changes hands at `stmt`: nothing in flight, the whole team here."""
    asynchronous = any(plan.row.asynchronous for plan in ctx.solution.copies.values())
    finished = finish(ctx, stmt.span) if asynchronous else ()
    return [*finished, *handed_over_before(ctx, stmt), ctx.barrier(stmt.span)]


def barrier_of(ctx: Context, at: int) -> int:
    """The named barrier of the role at statement `at`: roles are numbered from 1."""
    return 1 + sum(isinstance(s, Role) for s in ctx.program.body[:at])
