"""TMA stores, reductions too: issued and left to run; TMA has read a buffer before it may change.

The team's first thread, which issues the boxes, waits until all have been read: where the team
alone writes such a buffer, before the last meeting ahead of a write; where others, or TMA, write it
as well, before the team meets, signals, frees or fills a slot; at the end in any case. Where the
kernel reads or writes the same tensor otherwise, it waits until all have been written as well, and
before whatever it does that others see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hexcute_core import thread as th
from hexcute_core.dtypes import i32
from hexcute_core.errors import SourceSpan
from hexcute_core.lowering.context import Context
from hexcute_core.scalar import Const, compare
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    ClusterOp,
    Copy,
    For,
    GemmWait,
    GlobalView,
    If,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
    Produce,
    Role,
    Say,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    UpdateElement,
    While,
)
from hexcute_core.tile.ir import Control, TileOp
from hexcute_core.tile.teams import Team, by_team, inner_team, whole_block
from hexcute_core.tile.visit import results, tiles, updates
from hexcute_core.unions import assert_never


@dataclass
class Stores:
    """Statements, by identity, `before` which and roles and programs at the end of which a store
    may not have been read; teams whose buffers others, or TMA, write as well are `lenders`; after
    those of `due`, and before the next meeting, the team may write such a buffer."""

    issued: frozenset[int]
    lenders: frozenset[Team]
    due: frozenset[int]
    # Whether what TMA stores is used again in this kernel.
    used_again: bool = False
    before: set[int] = field(default_factory=set)
    at_end: set[int] = field(default_factory=set)

    def settled_by(self, stmt: Stmt, team: Team) -> bool:
        """Whether `team` waits for its stores before `stmt`."""
        match stmt:
            case ClusterOp():
                return True
            case Sync() | MbarrierOp() | NamedBarrierOp():
                return self.used_again or team in self.lenders or id(stmt) in self.due
            case PipelineRelease() | Produce():
                return team in self.lenders
            case Copy():
                return stmt.completes is not None and team in self.lenders
            case _ if isinstance(stmt, TileOp):
                return False
            case (
                For() | While() | If() | Role() | AsyncCommit() | AsyncWait() | Assign()
                | CallStmt() | SetElement() | GemmWait() | PipelineWait() | UpdateElement()
                | Say()
            ):  # fmt: skip
                return False
            case _:
                assert_never(stmt)

    def follow(self, body: Iterable[Stmt], team: Team, unread: bool) -> bool:
        """Notes where stores may be unread, on any path through `body`; whether they are after it,
        if they are before it where `unread` is set."""
        for stmt in body:
            if unread:
                self.before.add(id(stmt))
                unread = not self.settled_by(stmt, team)
            if isinstance(stmt, TileOp):
                unread |= stmt.id in self.issued
            elif isinstance(stmt, Control):
                unread = self._inside(stmt, team, unread)
        return unread

    def _inside(self, stmt: Control, team: Team, unread: bool) -> bool:
        match stmt:
            case Produce():
                return self.follow(stmt.body, team, unread)
            case Role():
                if self.follow(stmt.body, Team(stmt.first, stmt.threads), False):
                    self.at_end.add(id(stmt))
                return unread
            case For() | While():
                # What one iteration leaves, the next one finds. Loops are nested: to go through a
                # body again that finds nothing new would double the work at every level.
                left = self.follow(stmt.body, team, unread)
                if left and not unread:
                    self.follow(stmt.body, team, True)
                return unread or left
            case If():
                ways = [self.follow(b, team, unread) for b in (stmt.then, stmt.otherwise)]
                return any(ways)
            case _:
                assert_never(stmt)


def _overwritten(
    body: Sequence[Stmt], buffers: frozenset[str], after: bool, due: set[int]
) -> bool:
    """Adds to `due` the statements of `body` after which one of `buffers` may be written before
    the team meets again, if it may be after `body` where `after` is set; whether it may be in it
    before the first meeting."""
    for stmt in reversed(body):
        if after:
            due.add(id(stmt))
        match stmt:
            case Sync():
                after = False
            case For() | While():
                # Again only where more is due, as in `Stores._inside`.
                found = _overwritten(stmt.body, buffers, after, due)
                if found and not after:
                    _overwritten(stmt.body, buffers, True, due)
                after |= found
            case If():
                ways = [
                    _overwritten(way, buffers, after, due) for way in (stmt.then, stmt.otherwise)
                ]
                after = any(ways)
            case Produce():
                after = _overwritten(stmt.body, buffers, after, due)
            case _ if isinstance(stmt, TileOp):
                after |= any(ref.tensor in buffers for ref in results(stmt))
                after |= any(inner.dst.tensor in buffers for inner in updates((stmt,)))
            case UpdateElement():
                after |= stmt.dst.tensor in buffers
            case (
                Role() | AsyncCommit() | AsyncWait() | Assign() | CallStmt() | SetElement()
                | GemmWait() | PipelineWait() | PipelineRelease() | MbarrierOp() | NamedBarrierOp()
                | ClusterOp() | Say()
            ):  # fmt: skip
                continue
            case _:
                assert_never(stmt)
    return after


def find_stores(program: TileProgram, solution: Solution) -> Stores:
    """The TMA stores of `program`, and where they matter."""
    placed = list(by_team(program))
    ops = [(stmt, team) for stmt, team in placed if isinstance(stmt, TileOp)]
    alone = [(stmt, team) for stmt, team in placed if isinstance(stmt, UpdateElement)]
    sources: dict[Team, set[str]] = {}
    issued = set()
    for op, team in ops:
        plan = solution.bulk.get(op.id)
        if isinstance(op, Copy) and plan is not None and not plan.load:
            issued.add(op.id)
            sources.setdefault(team, set()).add(op.src.tensor)
    lenders = (
        lender
        for lender, names in sources.items()
        for op, team in ops
        if any(ref.tensor in names for ref in results(op))
        and (team != lender or op.id in solution.bulk)
    )
    lending = {
        lender
        for lender, names in sources.items()
        if any(stmt.dst.tensor in names and team != lender for stmt, team in alone)
    }
    stored = {solution.bulk[i].param for i in issued}
    ways = {
        (tensor.param, op.id in issued, op.reduce)
        for op, _ in ops
        if isinstance(op, Copy)
        for tensor in (program.tensor(ref.tensor) for ref in tiles(op))
        if isinstance(tensor, GlobalView)
    }
    ways |= {
        (tensor.param, False, None)
        for tensor in (program.tensor(stmt.dst.tensor) for stmt, _ in alone)
        if isinstance(tensor, GlobalView)
    }
    due: set[int] = set()
    for team, names in sources.items():
        roles = [s for s in program.body if isinstance(s, Role) and inner_team(s, team) == team]
        for body in [role.body for role in roles] or [program.body]:
            _overwritten(body, frozenset(names), False, due)
    again = any(sum(param == name for param, _, _ in ways) > 1 for name in stored)
    found = Stores(frozenset(issued), frozenset(lenders) | lending, frozenset(due), again)
    if found.follow(program.body, whole_block(program), False):
        found.at_end.add(id(program))
    return found


def read_before(ctx: Context, stmt: Stmt) -> tuple[th.Stmt, ...]:
    """What must come before `stmt` where it may let others, or TMA, write a buffer being stored."""
    if not ctx.stores.settled_by(stmt, ctx.team):
        return ()
    return handed_over_before(ctx, stmt)


def handed_over_before(ctx: Context, stmt: Stmt) -> tuple[th.Stmt, ...]:
    """What must come before a barrier that is put in front of `stmt`."""
    name = "tma.wait" if ctx.stores.used_again else "tma.wait.read"
    return _wait(ctx, name, stmt.span) if id(stmt) in ctx.stores.before else ()


def read_at_end(ctx: Context, whole: Role | TileProgram) -> tuple[th.Stmt, ...]:
    """What must come at the end of a role or of the program."""
    return _wait(ctx, "tma.wait.read", whole.span) if id(whole) in ctx.stores.at_end else ()


def _wait(ctx: Context, name: str, span: SourceSpan) -> tuple[th.Stmt, ...]:
    wait = th.Prim(name, (Const(0, i32),), span)
    return (th.If(compare("eq", ctx.lane, 0), (wait,), (), span),)
