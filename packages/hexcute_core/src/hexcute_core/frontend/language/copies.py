"""hx.copy and hx.prefetch: tiles moved between memories, and what TMA can do besides.

Each checks spaces, shapes and element types, then writes one statement of the tile program.
"""

from __future__ import annotations

from collections.abc import Iterable

from hexcute_core.arch.boxes import HINTS, REDUCED, Hint, Reduction
from hexcute_core.frontend.language.barriers import completion
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.tileops import tile_of
from hexcute_core.frontend.language.tiles import (
    LazyTile,
    Tile,
    TileValue,
    describe,
    number_of,
    store,
)
from hexcute_core.scalar import Scalar
from hexcute_core.tile import Copy, GlobalView, Prefetch, SharedTensor


def copy(
    src: object,
    dst: object,
    mbarrier: object = None,
    reduce: object = None,
    hint: object = None,
    outside: object = None,
) -> None:
    """dst[...] = src[...]: moves a tile between global memory, shared memory and registers, or from
    registers to registers.

    Shapes and element types must be equal. Elements of a global source outside the buffer read as
    zero; those of a global destination are not written. With an `mbarrier`, a copy from global to
    shared memory goes by TMA, returns at once and completes its bytes there. With `reduce`, "add",
    "min" or "max", a shared tile is combined with what global memory holds, by TMA alone. `hint`,
    "evict_first" or "evict_last", says when bytes that TMA moves leave L2. `outside`, a number,
    is what registers get in place of zero where a view leaves its tensor.
    """
    builder = current("hx.copy")
    if isinstance(dst, LazyTile):
        raise builder.error(
            f"hx.copy writes into {describe(dst)}, a temporary", fix="name a tensor to copy into"
        )
    a, b = tile_of(src, "hx.copy"), tile_of(dst, "hx.copy")
    if a.shape != b.shape or a.dtype != b.dtype:
        wrong = "shapes" if a.shape != b.shape else "element types"
        raise builder.error(
            f"hx.copy between different {wrong}: {describe(a)} to {describe(b)}",
            fix="take equal parts of both tiles"
            if a.shape != b.shape
            else f"write hx.copy(hx.cast(x, {b.dtype}), y) with x in registers",
        )
    other = None if outside is None else _outside(builder, a, b, outside)
    if a.in_registers and b.in_registers:
        _plain(builder, a, b, mbarrier, reduce, hint)
        store(b, a)
        return
    if type(a.tensor) is type(b.tensor):
        raise builder.error(
            f"hx.copy cannot move {describe(a)} to {describe(b)} directly",
            fix="use two copies through a register tensor",
        )
    if (a.ref.rank is not None or b.ref.rank is not None) and not (
        a.in_registers or b.in_registers
    ):
        raise builder.error(
            f"hx.copy cannot move {describe(a)} to {describe(b)} directly: only threads reach into "
            "another block",
            fix="use two copies through a register tensor",
        )
    builder.emit(
        Copy(
            builder.next_id(),
            a.ref,
            b.ref,
            builder.span,
            None if mbarrier is None else _completes(builder, a, b, mbarrier),
            None if reduce is None else _reduction(builder, a, b, reduce),
            None if hint is None else _hint(builder, a, b, hint),
            other,
        )
    )


def _plain(
    builder: Builder, a: Tile, b: Tile, mbarrier: object, reduce: object, hint: object
) -> None:
    """Refuses what a copy between registers has no use for."""
    if mbarrier is not None:
        _completes(builder, a, b, mbarrier)
    if reduce is not None:
        _reduction(builder, a, b, reduce)
    if hint is not None:
        _hint(builder, a, b, hint)


def prefetch(view: object) -> None:
    """Starts bringing a global view's tile into L2, by TMA; the kernel means the same without.

    Where TMA cannot address the view, nothing happens: `explain()` says why.
    """
    builder = current("hx.prefetch")
    tile = tile_of(view, "hx.prefetch")
    if not isinstance(tile.tensor, GlobalView):
        raise builder.error(
            f"hx.prefetch brings global memory into L2, got {describe(tile)}",
            fix="pass a global view or a part of one",
        )
    if tile.ref.rows is not None:
        raise builder.error(
            f"hx.prefetch is TMA's, and the rows of {describe(tile)} are named by a tile",
            fix="leave it out, or copy the tile earlier",
        )
    builder.emit(Prefetch(builder.next_id(), tile.ref, builder.span))


def _completes(builder: Builder, a: Tile, b: Tile, mbarrier: object) -> tuple[str, Scalar]:
    """The mbarrier of a load by TMA."""
    completes = completion(mbarrier)
    loads = isinstance(a.tensor, GlobalView) and isinstance(b.tensor, SharedTensor)
    if not loads:
        raise builder.error(
            f"hx.copy of {describe(a)} to {describe(b)} completes on no mbarrier",
            fix="only copies from global to shared memory do",
        )
    _steps(builder, a, "mbarrier")
    if builder.region.inside("produce") is not None:
        raise builder.error(
            "a copy into a pipeline's slot completes on the pipeline's own barrier",
            fix="leave mbarrier= out, or copy outside `with pipe.produce()`",
        )
    return completes


def _reduction(builder: Builder, a: Tile, b: Tile, reduce: object) -> Reduction:
    """How TMA combines shared tile `a` with global tile `b`."""
    found = next((op for op in REDUCED if op == reduce), None)
    if found is None:
        raise builder.error(
            f"hx.copy combines by {_listed(REDUCED)}, got reduce={reduce!r}",
            fix=f"write one of {_listed(REDUCED)}, or combine in registers",
        )
    if not (isinstance(a.tensor, SharedTensor) and isinstance(b.tensor, GlobalView)):
        raise builder.error(
            f"hx.copy combines shared memory with global memory, got {describe(a)} to "
            f"{describe(b)}",
            fix=f"write hx.atomic_{found}(view, tile), or copy to a shared tensor, let the threads "
            f'meet by {_meeting(builder)}, then write hx.copy(shared, view, reduce="{found}")'
            if isinstance(b.tensor, GlobalView)
            else "combine in registers, or leave reduce= out",
        )
    _steps(builder, b, "reduce")
    if b.dtype not in REDUCED[found]:
        raise builder.error(
            f"TMA does not combine {b.dtype} by {found}: {describe(b)}",
            fix=f"use one of {', '.join(map(str, REDUCED[found]))}",
        )
    return found


def _steps(builder: Builder, view: Tile, word: str) -> None:
    """Refuses rows that a tile names where TMA alone would do."""
    if view.ref.rows is not None:
        raise builder.error(
            f"{word}= is TMA's, which moves rows that lie one after another, and those of "
            f"{describe(view)} are named by a tile",
            fix=f"leave {word}= out: threads move such rows",
        )


def _outside(builder: Builder, a: Tile, b: Tile, value: object) -> Scalar:
    """What registers `b` get where the view `a` leaves its tensor."""
    if not (isinstance(a.tensor, GlobalView) and b.in_registers):
        raise builder.error(
            f"outside= of hx.copy of {describe(a)} to {describe(b)}: what is copied to shared "
            "memory reads as zero there, and nothing else has an outside",
            fix="copy a global view to registers, hx.copy(view, r, outside=-1), and those on",
        )
    if isinstance(value, TileValue):
        raise builder.error(
            f"outside= is one number for all elements, got {describe(value)}",
            fix="write a number, or hx.where(inside, r, tile) afterwards",
        )
    return number_of(value, b.dtype)


def _hint(builder: Builder, a: Tile, b: Tile, hint: object) -> Hint:
    """When what is moved leaves L2."""
    found = next((known for known in HINTS if known == hint), None)
    if found is None:
        raise builder.error(
            f"hx.copy has no hint={hint!r}", fix=f"write one of {_listed(HINTS)}, or leave it out"
        )
    if not any(isinstance(tile.tensor, GlobalView) for tile in (a, b)):
        raise builder.error(
            f"hint= speaks of L2, which hx.copy of {describe(a)} to {describe(b)} does not touch",
            fix="leave hint= out",
        )
    return found


def _meeting(builder: Builder) -> str:
    return "hx.syncthreads()" if builder.region.inside("role") is None else "hx.sync_role()"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
