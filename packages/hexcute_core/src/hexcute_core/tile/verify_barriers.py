"""The laws of pipelines and raw barriers: they are the program's, indices and counts fit."""

from __future__ import annotations

from typing import Protocol

from hexcute_core.arch.groups import WARP
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Scalar
from hexcute_core.tile.barriers import (
    BarrierStmt,
    ClusterOp,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
)
from hexcute_core.tile.ir import Produce, Role, TileProgram
from hexcute_core.unions import assert_never

MAX_ARRIVALS = 2**20 - 1


class Checks(Protocol):
    """What the verifier of a program offers its parts; indices are checked in scope."""

    program: TileProgram

    def need(self, holds: bool, message: str, span: SourceSpan) -> None: ...


def declared_names(program: TileProgram) -> list[str]:
    """The names of the program's pipelines and barriers."""
    names = [p.name for p in program.pipelines] + [b.name for b in program.mbarriers]
    return names + [b.name for b in program.named_barriers]


def verify_declarations(checks: Checks) -> None:
    """Stages, arrivals, sizes and threads of the program's pipelines and barriers."""
    program = checks.program
    for p in program.pipelines:
        checks.need(p.stages >= 1, f"`{p.name}` has {p.stages} slots", p.span)
    for b in program.mbarriers:
        fits = 1 <= b.count <= MAX_ARRIVALS and b.size >= 1
        checks.need(fits, f"`{b.name}`: {b.size} mbarriers of {b.count} arrivals", b.span)
    for named in program.named_barriers:
        fits = named.threads % WARP == 0 and 0 < named.threads <= program.block_dim
        checks.need(fits, f"`{named.name}` has {named.threads} threads", named.span)


def verify_slot(checks: Checks, stmt: Produce | PipelineWait | PipelineRelease) -> None:
    """A use of a pipeline's slot names a pipeline and, where known, one of its slots."""
    found = next((p for p in checks.program.pipelines if p.name == stmt.pipeline), None)
    checks.need(found is not None, f"no pipeline `{stmt.pipeline}`", stmt.span)
    if found is not None and isinstance(stmt.stage, Const):
        inside = 0 <= stmt.stage.value < found.stages
        checks.need(inside, f"slot {stmt.stage.value} of `{found.name}`", stmt.span)


def verify_role(checks: Checks, stmt: Role) -> None:
    """A role stands at the kernel's top, its threads are the block's and no other role's."""
    body, last = checks.program.body, stmt.first + stmt.threads
    inside = 0 <= stmt.first < last <= checks.program.block_dim
    checks.need(inside, f"a role of threads {stmt.first} to {last}", stmt.span)
    checks.need(any(s is stmt for s in body), "a role inside another statement", stmt.span)
    others = [s for s in body if isinstance(s, Role) and s is not stmt]
    apart = all(last <= s.first or s.first + s.threads <= stmt.first for s in others)
    checks.need(apart, "two roles share threads", stmt.span)


def verify_mbarrier(checks: Checks, name: str, index: Scalar, span: SourceSpan) -> None:
    """`name` has an mbarrier `index`, as far as it is known."""
    found = next((b for b in checks.program.mbarriers if b.name == name), None)
    checks.need(found is not None, f"no mbarrier `{name}`", span)
    if found is not None and isinstance(index, Const):
        checks.need(0 <= index.value < found.size, f"mbarrier {index.value} of `{name}`", span)


def verify_barrier(checks: Checks, stmt: BarrierStmt) -> None:
    """A raw barrier's use has what its action needs."""
    match stmt:
        case MbarrierOp():
            verify_mbarrier(checks, stmt.barrier, stmt.index, stmt.span)
            given = stmt.value is not None and stmt.value.dtype.is_integer
            wanted = stmt.action != "arrive"
            fits = given if wanted else stmt.value is None
            checks.need(fits, f"{stmt.action} of `{stmt.barrier}` with {stmt.value}", stmt.span)
        case NamedBarrierOp():
            known = stmt.barrier in {b.name for b in checks.program.named_barriers}
            checks.need(known, f"no named barrier `{stmt.barrier}`", stmt.span)
        case ClusterOp():
            pass
        case _:
            assert_never(stmt)


def scalars_of(stmt: BarrierStmt) -> tuple[Scalar, ...]:
    """The scalars a raw barrier's use evaluates."""
    if not isinstance(stmt, MbarrierOp):
        return ()
    return (stmt.index,) if stmt.value is None else (stmt.index, stmt.value)
