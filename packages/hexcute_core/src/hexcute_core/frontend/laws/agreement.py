"""Where a tile lies, and whether it is moved at all, is one answer for all threads: neither its
origin and starts differ among them, nor the conditions and bounds around it.

differing = threadIdx, elements of tiles, and every variable assigned from what differs, or under a
condition that does. A register tile of one element is held by all threads alike, so what is read
from it differs only where threads have set it to numbers of their own. The set grows until a pass
over the program adds nothing: the beginning of a loop's body sees what its end assigns.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import get_args

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.scalar import Call, Element, Scalar, Var, show
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    ClusterOp,
    ForElements,
    GemmWait,
    GlobalView,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
    Produce,
    RegisterTensor,
    Role,
    Say,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    UpdateElement,
)
from hexcute_core.tile.ir import Nest, TileOp
from hexcute_core.tile.visit import (
    bodies,
    operands,
    results,
    scalars,
    statements,
    tiles,
    variables,
)
from hexcute_core.unions import assert_never

_THREAD = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_TOGETHER = (
    *get_args(TileOp), Sync, AsyncCommit, AsyncWait, GemmWait, Produce, PipelineWait,
    PipelineRelease,
)  # fmt: skip
"""What all threads of a block, or of a role, do together."""


def check_agreement(program: TileProgram) -> None:
    """Raises FrontendError, located, where a tile lies elsewhere for each thread, or threads do
    something together with numbers in which they differ, or that not all of them reach."""
    differing = _Differing(program)
    _check_reached(program.body, differing, None)
    for stmt in statements(program.body):
        for ref in tiles(stmt) if isinstance(stmt, TileOp) else ():
            tensor = program.tensor(ref.tensor)
            places: list[tuple[str, Scalar, SourceSpan]] = []
            if isinstance(tensor, GlobalView):
                places += [(f"dimension {d}", e, tensor.span) for d, e in enumerate(tensor.origin)]
            places += [(f"mode {m}", e, stmt.span) for m, e in enumerate(ref.starts)]
            for where, start, span in places:
                if differing.has(start):
                    raise FrontendError(
                        f"{where} of `{ref.tensor}` starts at {show(start)}, which differs between "
                        "threads: a tile is moved by all of them, and lies in one place",
                        span=span,
                        fix="start it at what the block or the role agrees on: indices of the "
                        "block, loop counters, or the element of a register tile that has only one",
                    )
        for number in _common(stmt):
            if differing.has(number):
                raise FrontendError(
                    f"`{show(number)}` differs between threads, which do this together",
                    span=stmt.span,
                    fix="use it inside `for i, j in hx.elements(tile):`, or take what the block or "
                    "the role agrees on",
                )


def _common(stmt: Stmt) -> tuple[Scalar, ...]:
    """The numbers of a statement that threads run together, on one tile or one slot."""
    if isinstance(stmt, ForElements):
        return ()
    if isinstance(stmt, TileOp):
        return scalars(stmt)
    if isinstance(stmt, Say):
        return scalars(stmt) if stmt.once else ()
    return scalars(stmt) if isinstance(stmt, (Produce, PipelineWait, PipelineRelease)) else ()


def _check_reached(body: Iterable[Stmt], differing: _Differing, around: Stmt | None) -> None:
    """Refuses what all threads do together in `body`, where threads may differ in running it for
    the sake of `around`. The builder has seen what differs up to there; a loop's end tells what
    differs at its beginning."""
    for stmt in body:
        if around is not None and isinstance(stmt, _TOGETHER):
            raise FrontendError(
                f"a tile operation or barrier inside the statement at line {around.span.line}, "
                "whose condition depends on the thread: all threads that run it must reach it",
                span=stmt.span,
                fix="move it out, or make the condition depend on the block or the role alone",
            )
        if isinstance(stmt, Nest) and not isinstance(stmt, ForElements):
            apart = any(differing.has(e) for e in scalars(stmt))
            for inner in bodies(stmt):
                _check_reached(inner, differing, stmt if apart else around)


class _Differing:
    """Names of variables, and of register tiles of one element, in which threads may differ."""

    def __init__(self, program: TileProgram) -> None:
        self._names = set(_THREAD)
        self._single = {
            t.name
            for t in program.tensors
            if isinstance(t, RegisterTensor) and prod(t.shape) == 1
        }
        # Of the elements of other tensors it does not matter who put them there.
        self._spread = {t.name for t in program.tensors} - self._single
        count = 0
        while count != len(self._names):
            count = len(self._names)
            self._follow(program.body, False)

    def has(self, e: Scalar) -> bool:
        """Whether threads may differ in `e`."""
        return any(self._differs(node) for node in walk(e))

    def _differs(self, node: Scalar) -> bool:
        match node:
            case Var():
                return node.name in self._names
            case Element():
                return node.array not in self._single or node.array in self._names
            case Call():
                return node.name == "elect"
            case _:
                return False

    def _follow(self, body: Iterable[Stmt], apart: bool) -> None:
        """Adds what `body` makes differ; `apart` where threads may run it in different ways."""
        for stmt in body:
            match stmt:
                case Assign():
                    self._set((stmt.var.name,), apart or self.has(stmt.value))
                case UpdateElement():
                    self._set((v.name for v in variables(stmt)), True)
                case SetElement():
                    self._set((stmt.tensor,), apart or self.has(stmt.value))
                case ForElements():
                    alone = stmt.ref.tensor in self._single
                    self._set((v.name for v in stmt.coords), not alone)
                    self._follow(stmt.body, apart or not alone)
                case _ if isinstance(stmt, TileOp):
                    read = any(ref.tensor in self._names for ref in operands(stmt))
                    differs = read or any(self.has(e) for e in scalars(stmt))
                    self._set((ref.tensor for ref in results(stmt)), differs)
                case _ if isinstance(stmt, Nest):
                    differs = not isinstance(stmt, Role) and any(map(self.has, scalars(stmt)))
                    self._set((v.name for v in variables(stmt)), differs)
                    for inner in bodies(stmt):
                        self._follow(inner, apart or differs)
                case (
                    Sync() | AsyncCommit() | AsyncWait() | CallStmt() | GemmWait() | PipelineWait()
                    | PipelineRelease() | MbarrierOp() | NamedBarrierOp() | ClusterOp() | Say()
                ):  # fmt: skip
                    # These assign nothing.
                    pass
                case _:
                    assert_never(stmt)

    def _set(self, names: Iterable[str], differ: bool) -> None:
        self._names.update(n for n in names if differ and n not in self._spread)
