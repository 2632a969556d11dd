"""Products one after the other -> one inline asm for all.

The accumulators are operands of every product, and they are many: the C++ compiler's time grows
with the square of an asm's operands, and with the number of asms. The products are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hexcute_core.backend.hidet.halves import Halves
from hexcute_core.backend.hidet.packs import Pair
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const
from hexcute_core.thread import Prim, Stmt

PRODUCT = "wgmma.64x"
"""What the names of asynchronous products begin with."""


@dataclass(frozen=True)
class Products:
    """c += a * b^T for every step, in order, by one instruction; whether a step ignores what its c
    holds is known, or the same for all of which it is not."""

    steps: tuple[Prim, ...]

    @property
    def span(self) -> SourceSpan | None:
        """Where the first was written."""
        return self.steps[0].span


def chained(body: Iterable[Stmt | Pair | Halves]) -> Iterator[Stmt | Pair | Halves | Products]:
    """The statements of `body`, every run of products as one."""
    steps: list[Prim] = []
    for stmt in body:
        if steps and not _continues(steps, stmt):
            yield Products(tuple(steps))
            steps = []
        if isinstance(stmt, Prim) and stmt.name.startswith(PRODUCT):
            steps.append(stmt)
        else:
            yield stmt
    if steps:
        yield Products(tuple(steps))


def _continues(steps: list[Prim], stmt: Stmt | Pair | Halves) -> bool:
    """Whether `stmt` is one more of `steps`."""
    if not isinstance(stmt, Prim) or stmt.name != steps[0].name:
        return False
    accumulate = {step.operands[3] for step in (*steps, stmt)}
    return len([e for e in accumulate if not isinstance(e, Const)]) <= 1
