"""The laws of roles and pipelines, checked on the whole tile program once it is traced.

A register tile is held by the threads of one role. A pipeline is filled by one role, in copies
that stand directly in its slot, and every role that waits for its slots frees them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.tile import (
    Copy,
    Fill,
    For,
    ForElements,
    If,
    Pipeline,
    PipelineRelease,
    PipelineWait,
    Produce,
    RegisterTensor,
    Role,
    SharedTensor,
    TileProgram,
    While,
)
from hexcute_core.tile.accesses import touched
from hexcute_core.tile.ir import Nest
from hexcute_core.tile.visit import placed
from hexcute_core.unions import assert_never


def check_laws(program: TileProgram) -> None:
    """Raises FrontendError, located, at the first statement that breaks a law."""
    uses = {p.name: _Uses() for p in program.pipelines}
    holders: dict[str, _Holder] = {}
    registers = {t.name for t in program.tensors if isinstance(t, RegisterTensor)}
    for stmt, around in placed(program.body, _Around(), _enter):
        role, slot = around.role, around.slot
        for name in sorted(touched(stmt) & registers):
            _hold(holders, name, role, stmt.span)
        if isinstance(stmt, Produce):
            uses[stmt.pipeline].fills.append((stmt, role))
        elif isinstance(stmt, PipelineWait):
            uses[stmt.pipeline].waits.append((stmt, role))
        elif isinstance(stmt, PipelineRelease):
            uses[stmt.pipeline].frees.append((stmt, role))
        elif isinstance(stmt, Copy) and slot is not None and not any(stmt is s for s in slot.body):
            _check_nested(program, stmt, slot)
    for barrier in program.named_barriers:
        if barrier.threads > program.block_dim:
            raise FrontendError(
                f"a named barrier of {barrier.threads} threads in a block of {program.block_dim}",
                span=barrier.span,
                fix="count the threads that meet there, those that only arrive included",
            )
    for pipeline in program.pipelines:
        _check_pipeline(program, pipeline, uses[pipeline.name])


@dataclass(frozen=True)
class _Holder:
    """The role (None: the whole block) that first touched a register tile, and where."""

    role: Role | None
    span: SourceSpan


@dataclass
class _Uses:
    """Statements on a pipeline, each with its role."""

    fills: list[tuple[Produce, Role | None]] = field(default_factory=list)
    waits: list[tuple[PipelineWait, Role | None]] = field(default_factory=list)
    frees: list[tuple[PipelineRelease, Role | None]] = field(default_factory=list)


@dataclass(frozen=True)
class _Around:
    """The role that a statement stands in, and the slot being filled there."""

    role: Role | None = None
    slot: Produce | None = None


def _enter(stmt: Nest, around: _Around) -> _Around:
    match stmt:
        case Role():
            return replace(around, role=stmt)
        case Produce():
            return replace(around, slot=stmt)
        case For() | While() | If() | ForElements():
            return around
        case _:
            assert_never(stmt)


def _hold(holders: dict[str, _Holder], name: str, role: Role | None, span: SourceSpan) -> None:
    first = holders.setdefault(name, _Holder(role, span))
    if first.role is role:
        return

    def who(r: Role | None) -> str:
        return "the whole block" if r is None else f"the {r.kind} at line {r.span.line}"

    raise FrontendError(
        f"the register tile `{name}` is used by {who(role)}, but since line {first.span.line} it "
        f"is spread over the threads of {who(first.role)}",
        span=span,
        fix="use a tile of its own in each role, and pass data on through shared memory",
    )


def _check_nested(program: TileProgram, stmt: Copy, slot: Produce) -> None:
    if not isinstance(program.tensor(stmt.dst.tensor), SharedTensor):
        return
    raise FrontendError(
        f"a copy into the slot of `{slot.pipeline}` inside run-time control flow: how many bytes "
        "arrive must be known",
        span=stmt.span,
        fix="copy directly in `with pipe.produce()`, in loops over hx.static_range",
    )


def _check_pipeline(program: TileProgram, pipeline: Pipeline, uses: _Uses) -> None:
    name = pipeline.name
    if not uses.fills or not uses.waits:
        what = "filled" if uses.waits else "read" if uses.fills else "used"
        raise FrontendError(
            f"the pipeline `{name}` is never {what}",
            span=pipeline.span,
            fix="fill its slots by pipe.produce() in one role, and read them by pipe.consume(), or "
            "pipe.wait() and pipe.release(), in others",
        )
    first, filler = uses.fills[0]
    for produce, role in uses.fills:
        if role is not filler:
            raise FrontendError(
                f"`{name}` is filled by two roles, the other one at line {first.span.line}",
                span=produce.span,
                fix="make a pipeline for each",
            )
        shared = (s for s in produce.body if isinstance(s, (Copy, Fill)))
        if not any(isinstance(program.tensor(s.dst.tensor), SharedTensor) for s in shared):
            raise FrontendError(
                f"nothing is copied into the slot of `{name}`",
                span=produce.span,
                fix="copy to shared memory in `with pipe.produce() as s:`, as in sa[:, :, s]",
            )
    readers = [(s.span, r) for s, r in uses.waits] + [(s.span, r) for s, r in uses.frees]
    for span, role in readers:
        if role is filler:
            raise FrontendError(
                f"`{name}` is filled and read by the same role, which would wait for itself",
                span=span,
                fix="read it in a warp_groups_consumer of its own",
            )
    for free, role in uses.frees:
        if not any(r is role for _, r in uses.waits):
            raise FrontendError(
                f"a slot of `{name}` is freed by a role that never waits for one",
                span=free.span,
                fix="call pipe.wait() before pipe.release(), or use `with pipe.consume()`",
            )
    for wait, role in uses.waits:
        if not any(r is role for _, r in uses.frees):
            raise FrontendError(
                f"the slots of `{name}` are never freed by the role that waits here: they would "
                "not be filled again",
                span=wait.span,
                fix="call pipe.release() when the slot has been read, or use `with pipe.consume()`",
            )
    if pipeline.readers == "one" and len({id(r) for _, r in uses.waits}) > 1:
        sizes = {r.threads for _, r in uses.waits if r is not None}
        if len(sizes) > 1:
            raise FrontendError(
                f"the roles that take turns at the slots of `{name}` have different numbers of "
                "threads",
                span=pipeline.span,
                fix="give them equally many warp groups",
            )
