"""Warp groups with roles: `with hx.warp_groups_producer(...)` and `..._consumer(...)` give their
blocks to warp groups of their own, side by side, in the order they are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hexcute_core.arch.groups import WARP_GROUP
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.language.blocks import Block
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.scalar import Call
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import Assign, ClusterOp, Role, Stmt, Sync

"""Threads of a warp group."""

MAX_GROUPS = 8

REGISTERS = 65536
"""Registers a block of roles has, all of a multiprocessor's."""

MAX_REGISTERS = 256
"""Registers of a thread, as they are handed out: in steps of 8."""


@dataclass(frozen=True)
class RoleContext(Block):
    """What `with` opens: a role of `groups` warp groups."""

    kind: Literal["producer", "consumer"]
    groups: int
    registers: int | None

    @property
    def threads(self) -> int:
        return self.groups * WARP_GROUP


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
    if count is None or not 1 <= count <= MAX_GROUPS:
        raise builder.error(
            f"a role has 1 to {MAX_GROUPS} warp groups, known at compile time; got {groups}",
            fix=f"write hx.warp_groups_{kind}(2)",
        )
    claimed = None if registers is None else static_int(registers)
    if registers is not None and (
        claimed is None or claimed % 8 or not 24 <= claimed <= MAX_REGISTERS
    ):
        raise builder.error(
            f"registers per thread go from 24 to {MAX_REGISTERS} in steps of 8, got {registers}",
            fix="use 24 or 40 for a producer, 232 or 240 for two consumers",
        )
    return RoleContext(kind, count, claimed)


def enter_role(builder: Builder) -> None:
    """Refuses a role anywhere but at the kernel's top, next to the roles before it; pipelines
    start afresh in it."""
    if builder.region is not builder.top:
        raise builder.error(
            f"a role inside {builder.region.describe()}",
            fix="write the roles one after another at the kernel's top, their loops inside",
        )
    block = builder.top.block
    places = [i for i, stmt in enumerate(block) if isinstance(stmt, Role)]
    if places:
        between = block[places[-1] + 1 :]
        for stmt in between:
            if not _only_computes(stmt):
                raise FrontendError(
                    "a statement between two roles, which run side by side",
                    span=stmt.span,
                    fix="write it before the first role, or in one of them",
                )
        # Scalars computed between roles belong to all threads: before the first role.
        block[places[0] :] = [*between, *block[places[0] : places[-1] + 1]]
    for ring in builder.rings:
        ring.cursors.clear()


def _only_computes(stmt: Stmt) -> bool:
    """Whether `stmt` names a value without an effect."""
    return (
        isinstance(stmt, Assign)
        and stmt.declares
        and not any(isinstance(node, Call) for node in walk(stmt.value))
    )


def leave_role(builder: Builder, context: RoleContext, block: tuple[Stmt, ...]) -> None:
    """Gives `block` to the next warp groups."""
    first = sum(r.threads for r in builder.roles)
    role = Role(context.kind, first, context.threads, context.registers, block, builder.span)
    builder.roles.append(role)
    builder.emit(role)


def role_threads(builder: Builder) -> int | None:
    """Threads of all roles, or None where the kernel has none."""
    return sum(r.threads for r in builder.roles) or None


def check_roles(builder: Builder, block_dim: int, min_blocks: int | None) -> None:
    """Roles make up the whole block, their registers fit, and nothing needs registers after."""
    roles = builder.roles
    if not roles:
        return
    threads = sum(r.threads for r in roles)
    if threads != block_dim:
        listed = " + ".join(str(r.threads) for r in roles)
        raise FrontendError(
            f"the roles have {threads} threads ({listed}), the block {block_dim}",
            span=roles[-1].span,
            fix=f"set hx.attrs.cuda.block_dim = {threads}, or leave it out",
        )
    claims = [r for r in roles if r.registers is not None]
    if not claims:
        return
    _check_registers(roles, block_dim, min_blocks or 1)
    after = builder.top.block[builder.top.block.index(roles[-1]) + 1 :]
    for stmt in after:
        if not isinstance(stmt, (Sync, ClusterOp)) and not _only_computes(stmt):
            raise FrontendError(
                "a statement after roles that gave registers away",
                span=stmt.span,
                fix="write it in a role, or leave the roles' registers= out",
            )


def _check_registers(roles: list[Role], block_dim: int, blocks: int) -> None:
    """The claims fit the pool: what the launch gives the whole block, where so many `blocks` are to
    fit a multiprocessor. More would hang silently."""
    share = min(REGISTERS // blocks // block_dim // 8 * 8, MAX_REGISTERS)
    pool = share * block_dim
    needed = sum((r.registers or share) * r.threads for r in roles)
    if needed <= pool:
        return
    parts = " + ".join(f"{r.threads} x {r.registers or share}" for r in roles)
    greedy = max(roles, key=lambda r: (r.registers or 0) * r.threads)
    rest = needed - (greedy.registers or 0) * greedy.threads
    fits = (pool - rest) // greedy.threads // 8 * 8
    beside = f", {blocks} to a multiprocessor," if blocks > 1 else ""
    raise FrontendError(
        f"the roles need {needed} registers ({parts}), a block of {block_dim} threads{beside} has "
        f"{pool}: {share} per thread",
        span=greedy.span,
        fix=f"claim registers={fits} here"
        if fits >= 24
        else "give registers away in other roles first: registers=24 or 40 in the producer",
    )
