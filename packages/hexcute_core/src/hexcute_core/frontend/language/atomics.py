"""Atomic updates: hx.atomic_add(view, tile) of a tile, hx.atomic_add(x, (i, j), value) of one
element; both give what was there.

Where threads act together, in a block or a role, an element is updated once, whoever holds the
number, and all of them know what was there. In code of single threads, a loop over elements or a
branch in which threads differ, whoever comes by updates: the loop once for each element.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from hexcute_core.arch.updates import ORDERS, UPDATED, MemoryOrder, UpdateOp
from hexcute_core.dtypes import DType
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.reads import line, number_in, one_element
from hexcute_core.frontend.language.subscript import static_int, subscript, whole
from hexcute_core.frontend.language.tileops import register_of, tile_of
from hexcute_core.frontend.language.tiles import Tile, TileValue, describe, number_of
from hexcute_core.scalar import Scalar, ScalarBase, as_scalar, show
from hexcute_core.tile import (
    Copy,
    Fill,
    GlobalView,
    RegisterTensor,
    SharedTensor,
    SubMode,
    Sync,
    TileRef,
    Update,
    UpdateElement,
    UpdateScope,
)

_NAMES: dict[UpdateOp, str] = {"exch": "xchg"}
_SCOPES: tuple[UpdateScope, ...] = ("gpu", "block")


def atomic_add(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """target[...] += given, atomically, element by element; gives what was there before.

    `hx.atomic_add(view, tile)` updates a tile of global or shared memory by a register tile, or a
    number, of its shape and type; what was there is a register tile, zero outside the tensor.
    `hx.atomic_add(x, (i, j), value)` updates one element of a tensor parameter or of a shared tile:
    once for the block or the role, all of whose threads then know the number that was there; in
    code of single threads each thread does, or each element of the loop. `order` is "relaxed",
    "acquire", "release" or "acq_rel", `scope` "gpu" or "block".
    """
    return _atomic("add", target, given, order, scope)


def atomic_min(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """As `atomic_add`, of integers: the smaller of both stays."""
    return _atomic("min", target, given, order, scope)


def atomic_max(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """As `atomic_add`, of integers: the greater of both stays."""
    return _atomic("max", target, given, order, scope)


def atomic_and(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """As `atomic_add`, of the bits of integers: those stay that are set in both."""
    return _atomic("and", target, given, order, scope)


def atomic_or(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """As `atomic_add`, of the bits of integers: those are set that are set in either."""
    return _atomic("or", target, given, order, scope)


def atomic_xor(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """As `atomic_add`, of the bits of integers: those are set that are set in one of both."""
    return _atomic("xor", target, given, order, scope)


def atomic_xchg(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """As `atomic_add`, of integers and f32: what is given takes the place of what was there."""
    return _atomic("exch", target, given, order, scope)


def atomic_cas(target: object, *given: object, order: str = "relaxed", scope: str = "gpu") -> Any:
    """Compares and swaps integers: `hx.atomic_cas(view, compare, tile)` and `hx.atomic_cas(x, (i,),
    compare, value)` put the last where what was there equals `compare`; see `atomic_add`."""
    return _atomic("cas", target, given, order, scope)


def _atomic(
    op: UpdateOp, target: object, given: tuple[object, ...], order: object, scope: object
) -> object:
    what = f"hx.atomic_{_NAMES.get(op, op)}"
    builder = current(what)
    name = builder.hint or "old"
    builder.hint = None
    made = Update(op, _order(builder, what, order), _scope(builder, what, scope))
    values = 2 if op == "cas" else 1
    if len(given) == values:
        return _of_tiles(builder, what, name, made, target, given)
    if len(given) == values + 1:
        return _of_element(builder, what, name, made, target, given[0], given[1:])
    more = "compare, " if op == "cas" else ""
    raise builder.error(
        f"{what} got {len(given) + 1} arguments",
        fix=f"write {what}(view, {more}tile), or {what}(x, (i, j), {more}value)",
    )


def _order(builder: Builder, what: str, order: object) -> MemoryOrder:
    for known in ORDERS:
        if order == known:
            return known
    listed = ", ".join(f'"{known}"' for known in ORDERS)
    raise builder.error(f"{what} has no order={order!r}", fix=f"write one of {listed}")


def _scope(builder: Builder, what: str, scope: object) -> UpdateScope:
    for known in _SCOPES:
        if scope == known:
            return known
    raise builder.error(f"{what} has no scope={scope!r}", fix='write scope="gpu" or scope="block"')


def _check_type(builder: Builder, what: str, op: UpdateOp, dtype: DType, of: str) -> None:
    if dtype not in UPDATED[op]:
        raise builder.error(
            f"{what} of {of}: there is no such update of {dtype}",
            fix=f"use one of {', '.join(map(str, UPDATED[op]))}",
        )


def _of_tiles(
    builder: Builder,
    what: str,
    name: str,
    made: Update,
    target: object,
    given: tuple[object, ...],
) -> Tile:
    """dst[x] = op(dst[x], src[x]), as a copy of registers that updates."""
    if isinstance(target, Param):
        raise builder.error(
            f"{what} of {describe(target)} by {describe(given[-1])}: which of its elements?",
            fix=f"update a tile of it, {what}(hx.global_view(x[i:, j:], (shape, stride)), tile), "
            f"or one element, {what}(x, (i, j), value)",
        )
    dst = _memory(builder, what, target)
    _check_type(builder, what, made.op, dst.dtype, describe(dst))
    values = [_registers(builder, what, dst, value) for value in given]
    old = RegisterTensor(builder.unique(name), dst.dtype, dst.shape, builder.span)
    builder.add_tensor(old)
    _update(builder, made, dst.ref, values, old)
    return Tile(old, whole(old))


def _memory(builder: Builder, what: str, target: object) -> Tile:
    dst = tile_of(target, what)
    if dst.in_registers:
        raise builder.error(
            f"{what} of {describe(dst)}, which no other thread can reach",
            fix="update a global view or a shared tensor; registers are changed by t += x",
        )
    if dst.ref.rank is not None:
        raise builder.error(
            f"{what} of {describe(dst)}: only the block's own shared memory is updated",
            fix="copy it to registers, or let its own block update it",
        )
    return dst


def _registers(builder: Builder, what: str, dst: Tile, value: object) -> TileRef:
    """A register tile like `dst`: the one given, or one filled with the number given."""
    if not isinstance(value, TileValue):
        filled = number_of(value, dst.dtype)
        made = RegisterTensor(builder.unique("given"), dst.dtype, dst.shape, builder.span)
        builder.add_tensor(made)
        builder.emit(Fill(builder.next_id(), whole(made), filled, builder.span))
        return whole(made)
    src = register_of(value, what)
    if src.shape != dst.shape or src.dtype != dst.dtype:
        wrong = "shapes" if src.shape != dst.shape else "element types"
        raise builder.error(
            f"{what} of different {wrong}: {describe(dst)} by {describe(src)}",
            fix="take equal parts of both tiles"
            if src.shape != dst.shape
            else f"write {what}(view, hx.cast(x, {dst.dtype}))",
        )
    return src.ref


def _update(
    builder: Builder, made: Update, dst: TileRef, values: list[TileRef], old: RegisterTensor
) -> None:
    """The copy, and the barriers that make its order one of all threads that take part: what any of
    them did before is released, what follows in any of them has acquired."""
    compare = values[0] if len(values) > 1 else None
    if made.order in ("release", "acq_rel"):
        builder.emit(Sync(builder.span))
    update = replace(made, old=whole(old), compare=compare)
    builder.emit(Copy(builder.next_id(), values[-1], dst, builder.span, update=update))
    if made.order in ("acquire", "acq_rel"):
        builder.emit(Sync(builder.span))


def _of_element(
    builder: Builder,
    what: str,
    name: str,
    made: Update,
    target: object,
    index: object,
    given: tuple[object, ...],
) -> Scalar:
    param, place = _place(builder, what, target, index)
    _check_type(builder, what, made.op, param.dtype, describe(param))
    for value in given:
        if isinstance(value, TileValue):
            raise builder.error(
                f"{what} of one element by {describe(value)}",
                fix=f"give a number, hx.number(tile) of a tile of one, or update a tile by a tile: "
                f"{what}(view, tile)",
            )
    values = [number_of(value, param.dtype) for value in given]
    if builder.apart:
        return _alone(builder, what, name, made, param, place, values)
    for e in (*place, *values):
        if builder.varies(e):
            raise builder.error(
                f"{what} with `{e}`, in which threads differ, where they act together: it happens "
                "once for all of them",
                fix="do it in `for i, j in hx.elements(tile):`, once for each element, or under a "
                "condition of single threads, such as `if hx.threadIdx.x < 32:`",
            )
    if isinstance(param, Param):
        at = _coordinates(param, place)
        dst = whole(one_element(param.tensor, at, f"{param.tensor.name}_updated"))
    else:
        held = tuple(builder.stable(e, f"{name}_at") for e in place)
        dst = line(subscript(param.ref, held))
    cells = [
        RegisterTensor(builder.unique(f"{name}_{kind}"), param.dtype, dst.shape, builder.span)
        for kind in ("compared", "given", "cell")[2 - len(values) :]
    ]
    for cell in cells:
        builder.add_tensor(cell)
    for cell, value in zip(cells, values):
        builder.emit(Fill(builder.next_id(), whole(cell), value, builder.span))
    _update(builder, made, dst, [whole(cell) for cell in cells[:-1]], cells[-1])
    return number_in(whole(cells[-1]), cells[-1], name)


def _place(
    builder: Builder, what: str, target: object, index: object
) -> tuple[Param | Tile, tuple[Scalar, ...]]:
    """`target`, of which one element may be named, and the integers that name it."""
    view = isinstance(target, Tile) and isinstance(target.tensor, GlobalView)
    if view or not isinstance(target, (Param, Tile)):
        raise builder.error(
            f"{what} of one element of {describe(target)}",
            fix=f"name it by the tensor parameter, {what}(x, (i, j), value), or in a shared tensor",
        )
    if isinstance(target, Tile):
        _memory(builder, what, target)
    free = len(target.origin) - len(target.fixed) if isinstance(target, Param) else (
        len(target.ref.kept)
    )  # fmt: skip
    entries = index if isinstance(index, tuple) else (index,)
    numbers = all(isinstance(e, (int, ScalarBase)) and not isinstance(e, bool) for e in entries)
    place = tuple(as_scalar(e) for e in entries) if numbers else ()
    if len(place) != free or any(not e.dtype.is_integer for e in place):
        raise builder.error(
            f"{what} of the element {index!r} of {describe(target)}",
            fix=f"name it by {free} integers, one per dimension, as in {what}(x, (i, j), value)",
        )
    if isinstance(target, Param):
        _check_known(builder, what, target, place)
    return target, place


def _check_known(builder: Builder, what: str, param: Param, place: tuple[Scalar, ...]) -> None:
    """Refuses constants that name no element, or one only as Python counts from the end."""
    free = [d for d in range(len(param.origin)) if d not in param.fixed]
    for d, e in zip(free, place):
        known, extent = static_int(e), static_int(param.tensor.shape[d])
        start = static_int(param.origin[d])
        if known is None:
            continue
        if known < 0:
            raise builder.error(
                f"{what} of the constant {known} along dimension {d} of `{param.tensor.name}`, "
                "which may be meant from its end",
                fix=f"write {show(param.tensor.shape[d])} - {-known} for the last ones",
            )
        if start is not None and extent is not None and start + known >= extent:
            raise builder.error(
                f"{what} of the constant {known} along dimension {d} of `{param.tensor.name}`, "
                f"whose extent is {extent}",
                fix=f"name one of its {extent}",
            )


def _coordinates(param: Param, place: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Where the element lies in the whole tensor."""
    numbers = iter(place)
    return tuple(
        start if d in param.fixed else as_scalar(start) + next(numbers)
        for d, start in enumerate(param.origin)
    )


def _alone(
    builder: Builder,
    what: str,
    name: str,
    made: Update,
    target: Param | Tile,
    place: tuple[Scalar, ...],
    values: list[Scalar],
) -> Scalar:
    """The update by whoever comes by."""
    around = builder.region.inside("elements")
    if around is not None and prod(around.shape) == 1:
        raise builder.error(
            f"{what} in {around.describe()}, over a tile of one element, which all threads hold",
            fix="write it outside: there it happens once, and all threads know what was there",
        )
    if isinstance(target, Param):
        tensor = target.tensor
        free = [d for d in range(len(target.origin)) if d not in target.fixed]
        modes = tuple((SubMode(tensor.shape[d], as_scalar(1), d),) for d in free)
        origin = tuple(builder.stable(e, f"{tensor.name}_at") for e in target.origin)
        # All of a tensor whose every dimension is fixed has one element.
        view = GlobalView(
            builder.unique(f"view_{tensor.name}"), tensor.name, tensor.dtype, origin, modes,
            builder.span,
        )  # fmt: skip
        builder.add_tensor(view)
        dst = TileRef(view.name, place, (1,) * len(free), ())
    else:
        assert isinstance(target.tensor, SharedTensor)
        dst = subscript(target.ref, place)
    old = builder.variable(name, target.dtype)
    compare = values[0] if len(values) > 1 else None
    builder.emit(
        UpdateElement(
            made.op, dst, values[-1], compare, old, made.order, made.scope, builder.span
        )
    )
    return old
