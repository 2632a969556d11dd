"""What each kind of statement writes, reads, evaluates and contains.

It is said here alone, in closed matches: of a new statement mypy asks it here. Every walk over a
tile program is made of these. `statements` visits all of it, `placed` visits it with what surrounds
each statement, `change` rewrites it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from hexcute_core.scalar import Element, Scalar, Var
from hexcute_core.scalar.visit import walk
from hexcute_core.tile.barriers import (
    ClusterOp,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
)
from hexcute_core.tile.elements import Place, element_tile
from hexcute_core.tile.ir import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    Control,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GemmWait,
    If,
    Nest,
    Prefetch,
    Produce,
    Rearrange,
    Reduce,
    Relabel,
    Role,
    Scan,
    SetElement,
    Simple,
    Stmt,
    Sync,
    TileOp,
    While,
)
from hexcute_core.tile.says import Say
from hexcute_core.tile.tensors import TileRef
from hexcute_core.tile.updates import UpdateElement
from hexcute_core.unions import assert_never

Context = TypeVar("Context")


def results(op: TileOp) -> tuple[TileRef, ...]:
    """The tiles that `op` writes; a gemm adds to its own."""
    match op:
        case Copy() if op.update is not None and op.update.old is not None:
            return (op.dst, op.update.old)
        case Fill() | Copy() | CastTile() | Relabel() | Elementwise() | Reduce() | Rearrange():
            return (op.dst,)
        case Gemm():
            return (op.c,)
        case Scan():
            return op.dsts
        case Prefetch():
            return ()
        case ForElements():
            return _named(op, (place for place, written in elements(op.body) if written))
        case _:
            assert_never(op)


def operands(op: TileOp) -> tuple[TileRef, ...]:
    """The tiles that `op` reads, in the order of its fields, without those it only adds to."""
    match op:
        case Fill():
            return ()
        case Copy():
            compared = None if op.update is None else op.update.compare
            # Numbers that name rows of either side are read as well.
            return (op.src, *_present(compared, op.src.rows, op.dst.rows))
        case Prefetch() | CastTile() | Relabel() | Reduce() | Rearrange():
            return (op.src,)
        case Gemm():
            return (op.a, op.b)
        case Elementwise() | Scan():
            return op.srcs
        case ForElements():
            return _named(op, (place for place, written in elements(op.body) if not written))
        case _:
            assert_never(op)


def with_operands(op: TileOp, refs: tuple[TileRef, ...]) -> TileOp | None:
    """`op` with other operands, or None where a rearrange in front of it would help nobody."""
    match op:
        case Copy() if op.update is not None and op.update.compare is not None:
            return replace(op, src=refs[0], update=replace(op.update, compare=refs[1]))
        case Copy() | CastTile() | Relabel() | Reduce():
            return replace(op, src=refs[0])
        case Gemm():
            return replace(op, a=refs[0], b=refs[1])
        case Elementwise() | Scan():
            return replace(op, srcs=refs)
        case Fill() | Prefetch() | Rearrange() | ForElements():
            # These read no registers, or in any layout, or what they read they also visit.
            return None
        case _:
            assert_never(op)


def _present(*refs: TileRef | None) -> tuple[TileRef, ...]:
    return tuple(ref for ref in refs if ref is not None)


def tiles(op: TileOp) -> tuple[TileRef, ...]:
    """All tiles that `op` touches, its results first. A loop over elements touches the tile that it
    visits, whether or not it reads or writes it, and then others, in the order of its body."""
    if isinstance(op, ForElements):
        named = _named(op, (place for place, _ in elements(op.body)))
        return tuple(dict.fromkeys((op.ref, *named)))
    return (*results(op), *operands(op))


def tensors(op: TileOp) -> tuple[str, ...]:
    """The names of the tensors that `op` touches, each once, in the order of `tiles`."""
    return tuple(dict.fromkeys(ref.tensor for ref in tiles(op)))


def _named(op: ForElements, places: Iterable[Place]) -> tuple[TileRef, ...]:
    """The tiles that a loop over elements walks through as it names `places`, each once."""
    tiles = element_tiles(op)
    return tuple(dict.fromkeys(tiles[place] for place in places))


def element_tiles(op: ForElements) -> dict[Place, TileRef]:
    """The tile that each element belongs to which the loop's body names."""
    out: dict[Place, TileRef] = {}
    for place, _ in elements(op.body):
        ref = element_tile(place, op.coords, op.ref.shape)
        if ref is None:
            raise TypeError(f"`{place[0]}` is indexed by other than the loop's coordinates")
        out[place] = ref
    return out


def repeated_and_written(op: ForElements) -> str | None:
    """A tensor of which the loop writes elements, and reads some in more than one round."""
    named = list(elements(op.body))
    written = {name for (name, _), store in named if store}
    for place, store in named:
        tile = element_tile(place, op.coords, op.ref.shape)
        if not store and tile is not None and tile.shape != op.ref.shape and place[0] in written:
            return place[0]
    return None


def elements(body: Iterable[Stmt]) -> Iterator[tuple[Place, bool]]:
    """Every element that `body` names, and whether it is written there."""
    for stmt in statements(body):
        indices: tuple[Scalar, ...] = ()
        if isinstance(stmt, SetElement):
            yield (stmt.tensor, stmt.coords), True
            indices = stmt.coords
        for e in (*scalars(stmt), *indices):
            for node in walk(e):
                if isinstance(node, Element):
                    yield (node.array, node.indices), False


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks of statements that `stmt` contains."""
    match stmt:
        case ForElements() | For() | While() | Produce() | Role():
            return (stmt.body,)
        case If():
            return (stmt.then, stmt.otherwise)
        case _ if isinstance(stmt, TileOp | Simple):
            return ()
        case _:
            assert_never(stmt)


def _around(stmt: Control, changed: Callable[[Iterable[Stmt]], tuple[Stmt, ...]]) -> Stmt:
    """`stmt` with every block of statements that it contains changed."""
    match stmt:
        case For() | While() | Produce() | Role():
            return replace(stmt, body=changed(stmt.body))
        case If():
            return replace(stmt, then=changed(stmt.then), otherwise=changed(stmt.otherwise))
        case _:
            assert_never(stmt)


def scalars(stmt: Stmt) -> tuple[Scalar, ...]:
    """The scalars that `stmt` evaluates itself: where its tiles begin among them, but not what the
    statements in its bodies evaluate, nor the coordinates by which an element is named."""
    if isinstance(stmt, TileOp):
        return (*_own_scalars(stmt), *(e for ref in tiles(stmt) for e in ref_scalars(ref)))
    match stmt:
        case Assign() | SetElement():
            return (stmt.value,)
        case CallStmt():
            return stmt.args
        case For():
            return (stmt.start, stmt.stop, stmt.step)
        case While() | If():
            return (stmt.cond,)
        case Produce() | PipelineWait():
            return (stmt.stage, stmt.phase)
        case PipelineRelease():
            return (stmt.stage,)
        case Say():
            return stmt.args if stmt.holds is None else (*stmt.args, stmt.holds)
        case UpdateElement():
            compared = () if stmt.compare is None else (stmt.compare,)
            return (*ref_scalars(stmt.dst), stmt.value, *compared)
        case MbarrierOp():
            return (stmt.index,) if stmt.value is None else (stmt.index, stmt.value)
        case (
            Sync() | AsyncCommit() | AsyncWait() | GemmWait() | Role() | NamedBarrierOp()
            | ClusterOp()
        ):  # fmt: skip
            return ()
        case _:
            assert_never(stmt)


def _own_scalars(op: TileOp) -> tuple[Scalar, ...]:
    match op:
        case Fill():
            return (op.value,)
        case Copy():
            completes = () if op.completes is None else (op.completes[1],)
            return completes if op.outside is None else (*completes, op.outside)
        case Gemm():
            return (op.accumulate,)
        case Elementwise():
            return (op.expr,)
        case Scan():
            return op.combine
        case Prefetch() | CastTile() | Relabel() | Reduce() | Rearrange() | ForElements():
            return ()
        case _:
            assert_never(op)


def variables(stmt: Stmt) -> tuple[Var, ...]:
    """The variables to which `stmt` itself gives values."""
    match stmt:
        case Assign() | For():
            return (stmt.var,)
        case ForElements():
            return stmt.coords
        case UpdateElement():
            return () if stmt.old is None else (stmt.old,)
        case _ if isinstance(stmt, TileOp):
            return ()
        case While() | If() | Produce() | Role():
            return ()
        case (
            Sync() | AsyncCommit() | AsyncWait() | CallStmt() | SetElement() | GemmWait()
            | PipelineWait() | PipelineRelease() | MbarrierOp() | NamedBarrierOp() | ClusterOp()
            | Say()
        ):  # fmt: skip
            return ()
        case _:
            assert_never(stmt)


def ref_scalars(ref: TileRef) -> tuple[Scalar, ...]:
    """The scalars that say where a tile begins, and in which block of the cluster it lies."""
    return ref.starts if ref.rank is None else (*ref.starts, ref.rank)


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement of `body`, each before those that it contains."""
    return (stmt for stmt, _ in placed(body, None, _nowhere))


def updates(body: Iterable[Stmt]) -> Iterator[UpdateElement]:
    """What single threads update in `body`, in loops over elements as well."""
    return (stmt for stmt in statements(body) if isinstance(stmt, UpdateElement))


def noticed(body: Iterable[Stmt]) -> bool:
    """Whether single threads do in `body` what is to be done once for an element: they update
    memory, or print."""
    prints = (isinstance(stmt, Say) and stmt.holds is None for stmt in statements(body))
    return any(updates(body)) or any(prints)


def operations(body: Iterable[Stmt]) -> Iterator[TileOp]:
    """Every operation of `body`, in order."""
    return (stmt for stmt in statements(body) if isinstance(stmt, TileOp))


def placed(
    body: Iterable[Stmt], around: Context, enter: Callable[[Nest, Context], Context]
) -> Iterator[tuple[Stmt, Context]]:
    """Every statement of `body` with what surrounds it: `around` at the top, and
    `enter(stmt, context of stmt)` in the bodies of `stmt`."""
    # Generators inside generators would hand each statement up through all that contain it.
    blocks = [(iter(body), around)]
    while blocks:
        block, around = blocks[-1]
        stmt = next(block, None)
        if stmt is None:
            blocks.pop()
            continue
        yield stmt, around
        if isinstance(stmt, Nest):
            blocks.append((chain.from_iterable(bodies(stmt)), enter(stmt, around)))


def _nowhere(stmt: Nest, around: None) -> None:
    return None


def change(body: Iterable[Stmt], f: Callable[[Stmt], Iterable[Stmt]]) -> tuple[Stmt, ...]:
    """`body` with every operation, and every other statement that contains none, replaced by `f`
    of it. A loop over elements is an operation: `f` is given all of it."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Control):
            out.append(_around(stmt, lambda part: change(part, f)))
        else:
            out += f(stmt)
    return tuple(out)
