"""Turns: roles that take their turn one after the other, round and round, by named barriers.

Barrier i is where role i waits and the role before it arrives when its turn ends; the first turn
is given to role 0 by the last role, at its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.language.blocks import Block
from hexcute_core.frontend.language.builder import Builder, Region, current
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.tile import NamedBarrier, NamedBarrierOp

MAX_TURNS = 8


@dataclass(eq=False)
class Turns:
    """An order among `count` roles."""

    name: str
    count: int
    span: SourceSpan
    roles: dict[int, Region] = field(default_factory=dict)

    def turn(self, number: object) -> Turn:
        """`with order.turn(i):` waits for turn `i`, and gives the turn on when the block ends."""
        builder = current("order.turn()")
        known = static_int(number)
        if known is None or not 0 <= known < self.count:
            raise builder.error(
                f"turn {number} of `{self.name}`, which has {self.count}",
                fix=f"use a number from 0 to {self.count - 1}, known at compile time",
            )
        return Turn(self, known)

    def barrier(self, number: int) -> str:
        """The named barrier at which turn `number` is waited for."""
        return f"{self.name}_{number % self.count}"

    def join(self, builder: Builder, number: int) -> None:
        """Notes that the role being traced takes turn `number`."""
        role = builder.region.inside("role")
        if role is None:
            raise builder.error(
                "a turn outside a role", fix="write it in `with hx.warp_groups_consumer():`"
            )
        for other, region in self.roles.items():
            if (other == number) != (region is role):
                raise builder.error(
                    f"turn {number} of `{self.name}` taken by the role at line {role.span.line}, "
                    f"turn {other} by the one at line {region.span.line}",
                    fix="give each role a number of its own",
                )
        if number not in self.roles:
            self.roles[number] = role
            if number == self.count - 1 > 0:
                first = NamedBarrierOp("arrive", self.barrier(0), role.span)
                role.block.insert(0, first)


@dataclass(frozen=True)
class Turn(Block):
    """What `with order.turn(i)` opens."""

    turns: Turns
    number: int

    def enter(self, builder: Builder) -> None:
        """Waits for the turn."""
        self.turns.join(builder, self.number)
        if builder.order is not None:
            raise builder.error("a turn inside a turn", fix="end the one before the other begins")
        builder.order = self.turns
        if self.turns.count > 1:
            builder.emit(NamedBarrierOp("sync", self.turns.barrier(self.number), builder.span))

    def leave(self, builder: Builder) -> None:
        """Gives the turn to the next role."""
        builder.order = None
        if self.turns.count > 1:
            following = self.turns.barrier(self.number + 1)
            builder.emit(NamedBarrierOp("arrive", following, builder.span))


def turns(count: int) -> Turns:
    """An order among `count` roles: `with order.turn(i):` in role i runs after the same in role
    i - 1, role 0's first, and so on round after round. As many rounds in each, or one more in the
    first roles. One role alone waits for nobody."""
    builder = current("hx.turns")
    known = static_int(count)
    if known is None or not 1 <= known <= MAX_TURNS:
        raise builder.error(
            f"turns are taken by 1 to {MAX_TURNS} roles, known at compile time; got {count}",
            fix="write hx.turns(2)",
        )
    if builder.region.at_run_time:
        raise builder.error(
            f"hx.turns inside {builder.region.describe()}", fix="make it at the kernel's top"
        )
    made = Turns(builder.take_hint("turns"), known, builder.span)
    builder.turns.append(made)
    return made


def barriers_of(orders: list[Turns]) -> list[NamedBarrier]:
    """The named barriers behind all turns, once the roles that take them are traced.

    Raises FrontendError, located, where a turn is nobody's.
    """
    made = []
    for order in orders:
        for number in set(range(order.count)) - order.roles.keys():
            raise FrontendError(
                f"nobody takes turn {number} of `{order.name}`: the others would wait for it",
                span=order.span,
                fix=f"write `with {order.name}.turn({number}):` in a role of its own",
            )
        for number in range(order.count if order.count > 1 else 0):
            meeting = order.roles[number], order.roles[(number - 1) % order.count]
            threads = sum(region.threads for region in meeting)
            made.append(NamedBarrier(order.barrier(number), threads, order.span))
    return made
