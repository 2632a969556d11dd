"""Warp groups with roles, and the pipelines between them.

`with hx.warp_groups_producer(...)` and `with hx.warp_groups_consumer(...)` give their block to warp
groups of their own, in the order they are written. A pipeline's slot and round are counted in
variables of each role, so loops of any length work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hexcute_core.dtypes import i32
from hexcute_core.frontend.builder import Builder, current
from hexcute_core.frontend.subscript import static_int
from hexcute_core.scalar import Scalar, Var, as_scalar, compare, select
from hexcute_core.tile import Assign, Pipeline, PipelineRelease, PipelineWait, Produce, Role, Stmt

GROUP = 128
"""Threads of a warp group."""

REGISTERS = 65536
"""Registers a block of roles has, all of a multiprocessor's."""


@dataclass(frozen=True)
class RoleContext:
    """What `with` opens: a role of `groups` warp groups."""

    kind: Literal["producer", "consumer"]
    groups: int
    registers: int | None


def warp_groups_producer(groups: int = 1, registers: int | None = None) -> RoleContext:
    """The block of `groups` warp groups that fill pipelines. `registers` a thread are kept of
    those the launch gave (24 to 256, in steps of 8)."""
    return _role("producer", groups, registers)


def warp_groups_consumer(groups: int = 1, registers: int | None = None) -> RoleContext:
    """The block of `groups` warp groups that empty pipelines. `registers` a thread are claimed
    (24 to 256, in steps of 8)."""
    return _role("consumer", groups, registers)


def _role(kind: Literal["producer", "consumer"], groups: object, registers: object) -> RoleContext:
    builder = current(f"hx.warp_groups_{kind}")
    count = static_int(groups)
    if count is None or not 1 <= count <= 8:
        raise builder.error(
            f"a role has 1 to 8 warp groups, known at compile time; got {groups}",
            fix=f"write hx.warp_groups_{kind}(2)",
        )
    claimed = None if registers is None else static_int(registers)
    if registers is not None and (claimed is None or claimed % 8 or not 24 <= claimed <= 256):
        raise builder.error(
            f"registers a thread go from 24 to 256 in steps of 8, got {registers}",
            fix="use 24 or 40 for a producer, 232 or 240 for two consumers",
        )
    return RoleContext(kind, count, claimed)


@dataclass
class Cursor:
    """A role's place in a ring: the slot it is at and the parity of its round there."""

    stage: Var
    phase: Var


@dataclass(eq=False)
class Ring:
    """A pipeline as the kernel sees it."""

    pipeline: Pipeline
    cursors: dict[str, Cursor] = field(default_factory=dict)

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
        slot = builder.hold(at.stage, "slot")
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
            made = Cursor(slot, turn)
            for place, var in enumerate((made.stage, made.phase)):
                role.block.insert(place, Assign(var, as_scalar(0), True, role.span))
                builder.mutable.add(var.name)
            self.cursors[use] = made
        return self.cursors[use]

    def advance(self, builder: Builder, at: Cursor) -> None:
        """On to the next slot; the round's parity turns at the ring's end."""
        last = compare("eq", at.stage, self.pipeline.stages - 1)
        turned = select(last, at.phase ^ 1, at.phase)
        builder.emit(Assign(at.phase, turned, False, builder.span))
        following = select(compare("eq", at.stage, self.pipeline.stages - 1), 0, at.stage + 1)
        builder.emit(Assign(at.stage, following, False, builder.span))


@dataclass(frozen=True)
class Slot:
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


def pipeline(stages: int) -> Ring:
    """A ring of `stages` slots between roles; index shared tensors of that many slots by the slot
    numbers it hands out. Its barriers, bytes and phases are derived."""
    builder = current("hx.pipeline")
    count = static_int(stages)
    if count is None or not 1 <= count <= 32:
        raise builder.error(
            f"a pipeline has 1 to 32 stages, known at compile time; got {stages}",
            fix="write hx.pipeline(STAGES) with a compile-time constant",
        )
    if builder.region.at_run_time:
        raise builder.error(
            f"hx.pipeline inside {builder.region.describe()}", fix="make it at the kernel's top"
        )
    made = Pipeline(builder.take_hint("pipe"), count, builder.span)
    builder.pipelines.append(made)
    ring = Ring(made)
    builder.rings.append(ring)
    return ring


def enter_role(builder: Builder) -> None:
    """Refuses a role anywhere but at the kernel's top; its cursors start afresh."""
    if builder.region is not builder.top:
        raise builder.error(
            f"a role inside {builder.region.describe()}",
            fix="write the roles one after another at the kernel's top, their loops inside",
        )
    for ring in builder.rings:
        ring.cursors.clear()


def leave_role(builder: Builder, context: RoleContext, block: tuple[Stmt, ...]) -> None:
    """Gives `block` to the next warp groups."""
    first = sum(r.threads for r in builder.roles)
    threads = context.groups * GROUP
    role = Role(context.kind, first, threads, context.registers, block, builder.span)
    builder.roles.append(role)
    builder.emit(role)


def check_roles(builder: Builder, block_dim: int) -> None:
    """Roles make up the whole block, and their registers fit."""
    roles = builder.roles
    if not roles:
        return
    threads = sum(r.threads for r in roles)
    builder.span = roles[-1].span
    if threads != block_dim:
        raise builder.error(
            f"the roles have {threads} threads, the block {block_dim}",
            fix=f"set hx.attrs.cuda.block_dim = {threads}",
        )
    share = REGISTERS // block_dim // 8 * 8
    claimed = sum((r.registers or share) * r.threads for r in roles)
    if claimed > REGISTERS:
        parts = " + ".join(f"{r.threads} x {r.registers or share}" for r in roles)
        raise builder.error(
            f"the roles claim {claimed} registers ({parts}), a block has {REGISTERS}",
            fix="lower registers=, of the producer first",
        )
