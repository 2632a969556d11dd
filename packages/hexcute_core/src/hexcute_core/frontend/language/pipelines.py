"""Pipelines as a kernel sees them: rings of slots that one role fills and others read.

slot_{n+1} = (slot_n + 1) mod stages, and the round's parity turns where it wraps; both are
variables of the role, so loops of any length work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hexcute_core.dtypes import i32
from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.language.blocks import Block
from hexcute_core.frontend.language.builder import Builder, Region, current
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import describe
from hexcute_core.scalar import (
    Scalar,
    ScalarBase,
    Var,
    add,
    as_scalar,
    compare,
    floordiv,
    mod,
    select,
    xor,
)
from hexcute_core.tile import Assign, Pipeline, PipelineRelease, PipelineWait, Produce, Stmt

MAX_STAGES = 32


@dataclass(frozen=True)
class Cursor:
    """A role's place in a ring: the slot it is at and the parity of its round there."""

    stage: Var
    phase: Var


@dataclass(frozen=True)
class Wait:
    """A wait for a slot: the role that waits, and the order in whose turn it does, if any."""

    role: Region
    order: object
    span: SourceSpan


@dataclass(eq=False)
class Ring:
    """A pipeline as the kernel sees it."""

    pipeline: Pipeline
    cursors: dict[str, Cursor] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    # Where slots are passed over, and whether in a branch.
    skips: list[tuple[SourceSpan, bool]] = field(default_factory=list)

    def produce(self) -> Slot:
        """`with pipe.produce() as s:` fills slot s: waits until it is empty; when the copies
        inside have arrived, it is full."""
        return Slot(self, fills=True)

    def consume(self) -> Slot:
        """`with pipe.consume() as s:` reads slot s: waits until it is full, then frees it."""
        return Slot(self, fills=False)

    def wait(self) -> Scalar:
        """The next slot, once it is full. Free it by `release()`, in the order of waiting."""
        builder = current("pipe.wait()")
        at = self.cursor(builder, "wait")
        role = builder.region.inside("role")
        assert role is not None
        self.waits.append(Wait(role, builder.order, builder.span))
        slot = builder.hold(at.stage, builder.hint or "slot")
        builder.emit(PipelineWait(self.pipeline.name, slot, at.phase, builder.span))
        self.advance(builder, at)
        return slot

    def release(self) -> None:
        """Frees the oldest slot waited for and not freed. Asynchronous gemms that read it must
        have been waited for."""
        builder = current("pipe.release()")
        at = self.cursor(builder, "release")
        builder.emit(PipelineRelease(self.pipeline.name, at.stage, builder.span))
        self.advance(builder, at)

    def skip(self, count: object) -> None:
        """Passes over the next `count` slots, which another role reads: for a pipeline made with
        `readers="one"`, whose readers take turns by `hx.turns`. Every slot waited for must have
        been freed."""
        builder = current("pipe.skip()")
        number = as_scalar(count) if isinstance(count, (int, ScalarBase)) else None
        known = static_int(count)
        if number is None or not number.dtype.is_integer or (known is not None and known < 0):
            raise builder.error(
                f"pipe.skip takes a number of slots, got {describe(count)}",
                fix="write pipe.skip(tiles_k)",
            )
        if self.pipeline.readers != "one":
            raise builder.error(
                f"pipe.skip on `{self.pipeline.name}`, of which every reader reads every slot",
                fix='write hx.pipeline(STAGES, readers="one")',
            )
        self.skips.append((builder.span, builder.region.inside("branch") is not None))
        steps = builder.stable(number, "skipped")
        for use in ("wait", "release"):
            self.advance(builder, self.cursor(builder, use), steps)

    def cursor(self, builder: Builder, use: str) -> Cursor:
        """The variables of this role, declared at its beginning."""
        role = builder.region.inside("role")
        if role is None:
            raise builder.error(
                f"pipe.{use}() outside a role",
                fix="write it in `with hx.warp_groups_producer():` or `..._consumer(...):`",
            )
        if use not in self.cursors:
            stem = f"{self.pipeline.name}_{use}"
            slot, turn = (builder.variable(f"{stem}_{what}", i32) for what in ("slot", "round"))
            for place, var in enumerate((slot, turn)):
                role.block.insert(place, Assign(var, as_scalar(0), True, role.span))
                builder.mutable.add(var.name)
            self.cursors[use] = Cursor(slot, turn)
        return self.cursors[use]

    def advance(self, builder: Builder, at: Cursor, steps: Scalar | None = None) -> None:
        """On by one slot, or by `steps`; the round's parity turns at the ring's end."""
        stages = self.pipeline.stages
        if steps is None:
            last = compare("eq", at.stage, stages - 1)
            turned = select(last, xor(at.phase, 1), at.phase)
            following = select(last, 0, add(at.stage, 1))
        else:
            reached = add(at.stage, steps)
            turned = xor(at.phase, mod(floordiv(reached, stages), 2))
            following = mod(reached, stages)
        builder.emit(Assign(at.phase, turned, False, builder.span))
        builder.emit(Assign(at.stage, following, False, builder.span))


@dataclass(frozen=True)
class Slot(Block):
    """What `with pipe.produce()` and `with pipe.consume()` open."""

    ring: Ring
    fills: bool

    def enter(self, builder: Builder) -> Scalar:
        """The slot's number."""
        return self.ring.cursor(builder, "produce").stage if self.fills else self.ring.wait()

    def leave(self, builder: Builder, block: tuple[Stmt, ...]) -> None:
        """Fills the slot with what `block` copies, or frees it."""
        if not self.fills:
            self.ring.release()
            return
        at = self.ring.cursor(builder, "produce")
        name = self.ring.pipeline.name
        builder.emit(Produce(name, at.stage, at.phase, block, builder.span))
        self.ring.advance(builder, at)


def pipeline(stages: int, readers: str = "all") -> Ring:
    """A ring of `stages` slots between roles; index shared tensors of that many slots by the slot
    numbers it hands out. Its barriers, bytes and phases are derived.

    `readers` "all": every role that waits reads every slot. "one": a single role reads each and
    passes over the others' by `skip`.
    """
    builder = current("hx.pipeline")
    count = static_int(stages)
    if count is None or not 1 <= count <= MAX_STAGES:
        raise builder.error(
            f"a pipeline has 1 to {MAX_STAGES} stages, known at compile time; got {stages}",
            fix="write hx.pipeline(STAGES) with a compile-time constant",
        )
    if readers not in ("all", "one"):
        raise builder.error(
            f"the readers of a pipeline's slot are {readers!r}", fix='use "all" or "one"'
        )
    if builder.region.at_run_time:
        raise builder.error(
            f"hx.pipeline inside {builder.region.describe()}", fix="make it at the kernel's top"
        )
    each: Literal["all", "one"] = "one" if readers == "one" else "all"
    made = Pipeline(builder.take_hint("pipe"), count, builder.span, each)
    builder.pipelines.append(made)
    ring = Ring(made)
    builder.rings.append(ring)
    return ring


def check_passing(rings: Iterable[Ring]) -> None:
    """Raises FrontendError, located, where a reader may take an earlier round of a slot for its
    own.

    A barrier tells a round from the one before it, by its parity. What was passed over must be over
    when its slot is waited for again; in turns it is, for the readers before have waited for it.
    """
    for ring in rings:
        name, roles = ring.pipeline.name, {id(wait.role) for wait in ring.waits}
        if len(roles) == 1:
            for span, branch in ring.skips:
                if not branch:
                    raise FrontendError(
                        f"nobody reads the slots of `{name}` that are passed over: a single role "
                        "reads it",
                        span=span,
                        fix="read them by `with pipe.consume()`, or in a role of their own",
                    )
        for wait in ring.waits if ring.skips and len(roles) > 1 else ():
            if wait.order is None or wait.order is not ring.waits[0].order:
                raise FrontendError(
                    f"the readers of `{name}` pass over one another's slots, and this wait stands "
                    "in no turn of theirs: it may take an earlier round of the slot for its own",
                    span=wait.span,
                    fix="read in turns: order = hx.turns(2) at the kernel's top, and `with "
                    "order.turn(i):` around it, for every reader of the pipeline",
                )
