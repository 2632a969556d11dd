"""bitcast, reshape, transpose: the bits of a register tile under other coordinates.

Nothing moves between threads: what each holds gets other names. Where the layouts that a kernel
asks for on both sides do not allow that, the compiler rearranges, and says what that costs. A
shared tile that is transposed is the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from hexcute_core.dtypes import DType, boolean, tf32
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tileops import cast, lazy, register_of, tile_of
from hexcute_core.frontend.language.tiles import LazyTile, Tile, describe
from hexcute_core.tile import Relabel, SharedTensor, TileRef


def bitcast(a: object, dtype: DType) -> Any:
    """The bits of `a` as elements of `dtype`, the low bits first along the last mode, whose extent
    changes as the width does: a u8 tile (64, 32) is a u4 tile (64, 64)."""
    builder = current("hx.bitcast")
    if not isinstance(dtype, DType):
        raise builder.error(
            f"hx.bitcast expects an element type, got {describe(dtype)}",
            fix="write hx.bitcast(x, u4)",
        )
    src = register_of(a, "hx.bitcast")
    for t in (src.dtype, dtype):
        if t in (boolean, tf32):
            raise builder.error(
                f"hx.bitcast between {src.dtype} and {dtype}: the bits of {t} mean nothing",
                fix="cast to an integer or a float first",
            )
    if src.dtype == dtype:
        return src
    if src.dtype.bits == dtype.bits and src.dtype.is_integer and dtype.is_integer:
        return cast(src, dtype)
    row = (src.shape[-1] if src.shape else 1) * src.dtype.bits
    if row % dtype.bits:
        raise builder.error(
            f"hx.bitcast of {describe(src)} to {dtype}: rows of {row} bits are no whole elements",
            fix=f"make the last mode a multiple of {dtype.bits // src.dtype.bits}",
        )
    return _relabelled(src, (*src.shape[:-1], row // dtype.bits), dtype, _natural(src), "bits")


def reshape(a: object, shape: object) -> Any:
    """The elements of `a` as a tile of `shape`, row by row, the last mode fastest, as numpy's."""
    builder = current("hx.reshape")
    src = register_of(a, "hx.reshape")
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    extents = [static_int(e) for e in given]
    found = tuple(e for e in extents if e is not None and e >= 1)
    if len(found) < len(extents) or prod(found) != prod(src.shape):
        raise builder.error(
            f"hx.reshape of {describe(src)} to {_text(given)}",
            fix=f"write positive extents whose product is {prod(src.shape)}",
        )
    return _relabelled(src, found, src.dtype, _natural(src), "reshaped")


def transpose(a: object, *order: object) -> Any:
    """`a`, in registers or shared memory, with its modes in another order, reversed where none is
    given: mode i of the result is mode order[i] of `a`."""
    builder = current("hx.transpose")
    shared = isinstance(a, Tile) and isinstance(a.tensor, SharedTensor)
    src = tile_of(a, "hx.transpose") if shared else register_of(a, "hx.transpose")
    natural = _natural(src)
    given = [static_int(i) for i in order] if order else list(reversed(natural))
    found = tuple(i for i in given if i is not None)
    if tuple(sorted(found)) != natural:
        raise builder.error(
            f"hx.transpose of {describe(src)} by {_text(order)}",
            fix=f"name each of the modes 0 to {len(natural) - 1} once",
        )
    if shared:
        return Tile(src.tensor, replace(src.ref, kept=tuple(src.ref.kept[i] for i in found)))
    return _relabelled(src, tuple(src.shape[i] for i in found), src.dtype, found, "turned")


def _text(entries: Sequence[object]) -> str:
    """Numbers known at compile time as they are, anything else by what it is."""
    known = [static_int(e) for e in entries]
    return ", ".join(describe(e) if i is None else str(i) for e, i in zip(entries, known))


def _natural(src: Tile) -> tuple[int, ...]:
    return tuple(range(len(src.shape)))


def _relabelled(
    src: Tile, shape: tuple[int, ...], dtype: DType, order: tuple[int, ...], base: str
) -> Any:
    builder = current("hx.reshape")
    if shape == src.shape and dtype == src.dtype and order == _natural(src):
        return src
    bits = (src.dtype.bits, dtype.bits)

    def emit(dst: TileRef) -> None:
        builder.emit(Relabel(builder.next_id(), dst, src.ref, order, bits, builder.span))

    return lazy(builder, LazyTile(shape, dtype, (src.ref,), emit, base=base))
