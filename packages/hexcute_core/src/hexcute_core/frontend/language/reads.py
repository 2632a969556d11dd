"""x[i, j] with an integer for every dimension: a number that all threads read from memory; and
hx.number(tile): the one number of a tile that has no other.

It becomes a tile of one element, which every thread loads alike, and a variable that holds it: so
it may say where tiles begin, and whether and how often threads do something together. It is read
where it is written, once; outside the tensor it is zero.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from hexcute_core.dtypes import boolean, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.subscript import whole
from hexcute_core.scalar import Element, Scalar, Var, as_scalar
from hexcute_core.tile import (
    Assign,
    Copy,
    ForElements,
    GlobalTensor,
    GlobalView,
    RegisterTensor,
    SubMode,
    TileRef,
)

if TYPE_CHECKING:
    from hexcute_core.frontend.language.tiles import Tile


def read(tensor: GlobalTensor, place: tuple[Scalar, ...]) -> Var:
    """The element of `tensor` at the coordinates `place`, as it is now."""
    builder = current(f"{tensor.name}[i]")
    if tensor.dtype.bits < 8:
        raise FrontendError(
            f"`{tensor.name}` holds {tensor.dtype} elements, and memory is read by bytes",
            fix="copy a tile of whole bytes, or declare the tensor u8 and take the bits of x[i]",
        )
    what = builder.hint or tensor.name
    view = whole(one_element(tensor, place, what))
    cell = RegisterTensor(builder.unique(f"{what}_read"), tensor.dtype, (1,), builder.span)
    builder.add_tensor(cell)
    builder.emit(Copy(builder.next_id(), view, whole(cell), builder.span))
    return number_in(whole(cell), cell, what)


def one_element(tensor: GlobalTensor, place: tuple[Scalar, ...], what: str) -> GlobalView:
    """A view of the element of `tensor` at `place`: one mode of extent 1."""
    builder = current(f"{tensor.name}[i]")
    origin = tuple(builder.stable(at, f"{what}_at") for at in place)
    view = GlobalView(
        builder.unique(f"view_{tensor.name}"), tensor.name, tensor.dtype, origin,
        ((SubMode(as_scalar(1), as_scalar(0), 0),),), builder.span,
    )  # fmt: skip
    builder.add_tensor(view)
    return view


def number_in(ref: TileRef, tensor: RegisterTensor, what: str) -> Var:
    """What the only element of the register tile `ref` of `tensor` is now."""
    builder = current("a number of a tile")
    zero = as_scalar(False if tensor.dtype == boolean else 0, tensor.dtype)
    value = builder.variable(what, tensor.dtype)
    coords = tuple(builder.variable("i", i32) for _ in ref.kept)
    builder.emit(Assign(value, zero, True, builder.span))
    loop = builder.next_id()
    with builder.nested("elements") as region:
        region.coords, region.shape = coords, ref.shape
        held = Element(tensor.name, coords, tensor.dtype)
        builder.emit(Assign(value, held, False, builder.span))
    block = tuple(region.block)
    builder.emit(ForElements(loop, ref, coords, block, builder.span))
    return value


def line(ref: TileRef) -> TileRef:
    """`ref` with a mode at least: where none is kept, its first one."""
    return ref if ref.kept else replace(ref, kept=(0,))


def number(tile: Tile) -> Var:
    """The number of a tile that has only one element, in registers or in memory, which all threads
    of the block, or of the role, read and know: it may begin tiles, bound loops and steer branches
    around what threads do together."""
    from hexcute_core.frontend.language.tileops import tile_of
    from hexcute_core.frontend.language.tiles import describe

    builder = current("hx.number")
    what = builder.hint or "number"
    builder.hint = None
    found = tile_of(tile, "hx.number")
    if prod(found.shape) != 1:
        raise builder.error(
            f"hx.number of {describe(found)}, which has {prod(found.shape)} elements",
            fix="take one of them, as in t[i], or visit them: `for i, j in hx.elements(t):`",
        )
    ref, tensor = line(found.ref), found.tensor
    if isinstance(tensor, RegisterTensor) and prod(tensor.shape) != 1:
        raise builder.error(
            f"hx.number of {describe(found)}, a part of a tile of which each thread holds its own",
            fix="reduce the tile to one element, which all threads hold, as in hx.max(t, 1)",
        )
    if isinstance(tensor, GlobalView) and not found.ref.kept:
        raise builder.error(
            f"hx.number of {describe(found)}", fix="read the parameter itself, as in x[i, j]"
        )
    if not isinstance(tensor, RegisterTensor):
        cell = RegisterTensor(builder.unique(f"{what}_read"), tensor.dtype, ref.shape, builder.span)
        builder.add_tensor(cell)
        builder.emit(Copy(builder.next_id(), ref, whole(cell), builder.span))
        ref, tensor = whole(cell), cell
    return number_in(ref, tensor, what)
