"""Atomic updates: of a tile by the registers that hold another, and of one element by one thread.

op(old, new) is the sum, the smaller, the greater, the bits of both, `new` ("exch"), or `new` where
`old` equals what is compared with ("cas"). No other update comes between the read and the write of
one element; updates of different elements follow one another in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hexcute_core.arch.updates import MemoryOrder, UpdateOp
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Scalar, Var
from hexcute_core.tile.tensors import TileRef

UpdateScope: TypeAlias = Literal["block", "gpu"]
"""The threads to which an update is atomic, and which its order concerns."""


@dataclass(frozen=True)
class Update:
    """How a copy from registers updates what it would write: dst[x] = op(dst[x], src[x]).

    `old` gets what dst held, zero outside its tensor; `compare` is what "cas" compares with. Both
    are register tiles like src.
    """

    op: UpdateOp
    order: MemoryOrder = "relaxed"
    scope: UpdateScope = "gpu"
    old: TileRef | None = None
    compare: TileRef | None = None


@dataclass(frozen=True)
class UpdateElement:
    """A single thread's update of the element that `dst`, of no modes, names: it may stand under
    conditions in which threads differ, and in a loop over elements, once for each of them.

    `old` becomes what was there, zero outside the tensor, where nothing happens.
    """

    op: UpdateOp
    dst: TileRef
    value: Scalar
    compare: Scalar | None
    old: Var | None
    order: MemoryOrder
    scope: UpdateScope
    span: SourceSpan
