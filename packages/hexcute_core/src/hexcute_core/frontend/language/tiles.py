"""What a name may stand for in a kernel: a Tile, or a LazyTile not yet given a tensor.

Arithmetic on register tiles builds a LazyTile; it becomes one statement when it is assigned,
passed on or used by another operation, so `acc = acc * x` can write into `acc` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.subscript import ds, mode_extents, static_int, subscript, whole
from hexcute_core.scalar import (
    Element,
    Scalar,
    ScalarBase,
    Var,
    as_scalar,
    binary,
    cast,
    free_vars,
)
from hexcute_core.tile import (
    Arrangement,
    Elementwise,
    Fill,
    GlobalView,
    RegisterTensor,
    SetElement,
    SharedTensor,
    Tensor,
    TileRef,
)

Operator = Callable[..., Any]
_OPERATORS: dict[str, Operator] = {}


def operator(name: str) -> Callable[[Operator], Operator]:
    """Registers what a tile's arithmetic operator `name` builds."""

    def register(function: Operator) -> Operator:
        _OPERATORS[name] = function
        return function

    return register


def _binary(name: str, flip: bool = False) -> Operator:
    def apply(self: object, other: object) -> object:
        return _OPERATORS[name](other, self) if flip else _OPERATORS[name](self, other)

    return apply


class TileValue:
    """The operators that tiles and lazy tiles share; `shape` in elements."""

    __hash__ = object.__hash__
    __add__, __radd__ = _binary("add"), _binary("add", flip=True)
    __sub__, __rsub__ = _binary("sub"), _binary("sub", flip=True)
    __mul__, __rmul__ = _binary("mul"), _binary("mul", flip=True)
    __truediv__, __rtruediv__ = _binary("div"), _binary("div", flip=True)
    __mod__, __rmod__ = _binary("mod"), _binary("mod", flip=True)
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _binary("floordiv", flip=True)
    __and__, __rand__ = _binary("and"), _binary("and", flip=True)
    __or__, __ror__ = _binary("or"), _binary("or", flip=True)
    __xor__, __rxor__ = _binary("xor"), _binary("xor", flip=True)
    __lshift__, __rshift__ = _binary("shl"), _binary("shr")
    __pow__, __rpow__ = _binary("pow"), _binary("pow", flip=True)
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__, __ne__ = _binary("eq"), _binary("ne")

    @property
    def shape(self) -> tuple[int, ...]:
        raise TypeError("a subclass gives the shape")

    def __neg__(self) -> Any:
        return _OPERATORS["neg"](self)

    def __abs__(self) -> Any:
        return _OPERATORS["abs"](self)

    def __bool__(self) -> bool:
        raise FrontendError(
            f"{describe(self)} was used as a truth value", fix="use hx.where(cond, a, b) on tiles"
        )

    def __iter__(self) -> object:
        raise FrontendError(
            f"{describe(self)} cannot be iterated",
            fix="write `for i, j in hx.elements(tile):` to visit its elements",
        )

    def __len__(self) -> int:
        raise FrontendError(f"len() of {describe(self)}", fix="use tile.shape[0]")


class Tile(TileValue):
    """A rectangular part of a tensor. Subscripts give smaller parts; `t[...] = x` writes."""

    def __init__(self, tensor: Tensor, ref: TileRef) -> None:
        self.tensor = tensor
        self.ref = ref

    def __repr__(self) -> str:
        return f"<{describe(self)}>"

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ref.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the tile, as a load of it brings."""
        bits = self.dtype.bits
        for extent in self.shape:
            bits *= extent
        return -(-bits // 8)

    @property
    def is_whole(self) -> bool:
        """Whether this is all of its tensor."""
        return self.ref == whole(self.tensor)

    @property
    def in_registers(self) -> bool:
        return isinstance(self.tensor, RegisterTensor)

    def __getitem__(self, index: object) -> Any:
        element = self._element(index)
        if element is not None:
            builder = current("t[i, j]")
            read = Element(self.tensor.name, element, self.dtype)
            return builder.hold(read, "t") if builder.native else read
        return Tile(self.tensor, subscript(self.ref, index))

    def __setitem__(self, index: object, value: object) -> None:
        builder = current("t[...] = x")
        if not self.in_registers:
            raise builder.error(
                f"assignment to a part of {describe(self)}", fix="write hx.copy(x, t[...])"
            )
        element = self._element(index, written=True)
        if element is None:
            store(Tile(self.tensor, subscript(self.ref, index)), value)
            return
        if isinstance(value, TileValue):
            raise builder.error(
                f"{describe(value)} assigned to one element of `{self.tensor.name}`",
                fix="assign a scalar here, or whole tiles outside the loop over elements",
            )
        written = number_of(value, self.dtype)
        builder.emit(SetElement(self.tensor.name, element, written, builder.span))

    def _element(self, index: object, written: bool = False) -> tuple[Scalar, ...] | None:
        """The coordinates where `index` names one element of a register tensor, else None."""
        entries = index if isinstance(index, tuple) else (index,)
        scalars = all(isinstance(e, (int, ScalarBase)) for e in entries)
        if not self.in_registers or not scalars or len(entries) != len(self.ref.kept):
            return None
        builder = current("t[i, j]")
        around = builder.region.inside("elements")
        if around is None:
            raise builder.error(
                f"one element of the register tile `{self.tensor.name}` is read or written here, "
                "but each thread holds only its own elements",
                fix="do it inside `for i, j in hx.elements(tile):`",
            )
        coords, left = tuple(as_scalar(entry) for entry in entries), list(around.coords)
        # With as many indices as coordinates, one that is no coordinate repeats along its mode.
        repeats = len(coords) == len(left) == len(self.ref.extents) and not written
        cut: list[object] = []
        for place, entry in enumerate(coords):
            walked = bool(left) and entry == (around.coords[place] if repeats else left[0])
            known = static_int(entry)
            start = entry if known is None or known >= 0 else known + self.shape[place]
            cut.append(slice(None) if walked else ds(start, 1) if repeats else entry)
            left = left[walked or repeats :]
        part = subscript(self.ref, tuple(cut))
        walked_by = {var.name for var in around.coords}
        varies = any(builder.varies(s) or free_vars(s) & walked_by for s in part.starts)
        fits = part.shape == around.shape or (
            repeats and all(own in (1, n) for own, n in zip(part.shape, around.shape))
        )
        if left or not fits or varies:
            raise builder.error(
                f"{describe(self)} is indexed by ({', '.join(map(str, coords))}) in a loop over "
                f"the elements of a tile {around.shape}",
                fix="index tiles of that shape by the loop's own coordinates, in order, and modes "
                "that they have beside by integers that are the same in all threads; so may modes "
                "be that repeat, where an element is only read",
            )
        own = iter(around.coords)
        along = {mode: next(own) for mode in part.kept}
        still = {mode for mode, entry in zip(part.kept, cut) if repeats and entry != slice(None)}
        return tuple(
            binary("add", start, along[mode]) if mode in along and mode not in still else start
            for mode, start in enumerate(part.starts)
        )


class LazyTile(TileValue):
    """A register tile that one statement will compute; `emit(dst)` writes that statement.

    `srcs` are the tiles it reads and `expr` the scalars, for as long as it is lazy.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        srcs: tuple[TileRef, ...],
        emit: Callable[[TileRef], None],
        expr: Scalar | None = None,
        base: str = "t",
    ) -> None:
        self._shape, self.dtype, self.srcs = shape, dtype, srcs
        self.emit, self.expr, self.base = emit, expr, base

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def __getitem__(self, index: object) -> Any:
        return materialize(self)[index]

    @property
    def reads(self) -> frozenset[str]:
        """Names of the tensors and variables whose change would change the result."""
        scalars = [s for ref in self.srcs for s in ref.starts] + (
            [self.expr] if self.expr is not None else []
        )
        names = frozenset(ref.tensor for ref in self.srcs)
        return names.union(*(free_vars(s) for s in scalars))

    def may_write(self, dst: TileRef) -> bool:
        """Whether writing `dst` element by element leaves what is still to be read untouched."""
        same = [ref for ref in self.srcs if ref.tensor == dst.tensor]
        return all(ref == dst for ref in same) and (not same or self.expr is not None)


def describe(value: object) -> str:
    """`f16 register tile `ra` (128, 32)`: a value as error messages name it."""
    match value:
        case Tile():
            kind = {GlobalView: "global", SharedTensor: "shared", RegisterTensor: "register"}
            place = kind[type(value.tensor)]
            where = "" if value.ref.rank is None else f" of block {value.ref.rank}"
            return f"{value.dtype} {place} tile `{value.ref.tensor}` {_shape(value)}{where}"
        case LazyTile():
            return f"{value.dtype} register tile {_shape(value)}"
        case Param():
            return f"the tensor parameter `{value.tensor.name}`"
        case ScalarBase():
            return f"the run-time {value.dtype} `{value}`"
        case _:
            return f"{type(value).__name__} {value!r}"


def _shape(value: TileValue) -> str:
    return f"({', '.join(str(extent) for extent in value.shape)})"


def new_register(
    dtype: DType, shape: tuple[int, ...], base: str, arranged: Arrangement | None = None
) -> Tile:
    """A fresh register tensor, named after the variable it is assigned to where there is one."""
    builder = current("register_tensor")
    tensor = RegisterTensor(builder.take_hint(base), dtype, shape, builder.span, arranged)
    builder.add_tensor(tensor)
    return Tile(tensor, whole(tensor))


def materialize(value: LazyTile | Tile) -> Tile:
    """`value` as a tile that has a tensor; a lazy one is computed into a fresh one."""
    if isinstance(value, Tile):
        return value
    dst = new_register(value.dtype, value.shape, value.base)
    with current("arithmetic on tiles").defining():
        value.emit(dst.ref)
    return dst


def copy_of(value: Tile, base: str) -> Tile:
    """A fresh register tensor that holds what `value` holds now."""
    dst = new_register(value.dtype, value.shape, base)
    with current("a copy").defining():
        move(value, dst)
    return dst


def move(src: Tile, dst: Tile) -> None:
    """dst = src, element by element."""
    builder = current("assignment")
    source = Var("$0", src.dtype)
    builder.emit(Elementwise(builder.next_id(), dst.ref, (src.ref,), source, builder.span))


def number_of(value: object, dtype: DType) -> Scalar:
    """What fills an element of `dtype`: a number that the type has, or a scalar converted to it.

    Raises FrontendError for a number that would change.
    """
    if isinstance(value, float) and dtype.is_integer:
        raise FrontendError(
            f"the float {value} fills an element of type {dtype}",
            fix=f"write an integer, or hx.cast({value}, {dtype})",
        )
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return as_scalar(value, dtype) if known else cast(as_scalar(value), dtype)


def store(dst: Tile, value: object) -> None:
    """dst[...] = value, in place: a scalar fills, a tile must have dst's shape and type."""
    builder = current("assignment")
    if not isinstance(value, TileValue):
        filled = number_of(value, dst.dtype)
        builder.emit(Fill(builder.next_id(), dst.ref, filled, builder.span))
        return
    if not isinstance(value, (Tile, LazyTile)) or not _in_registers(value):
        raise builder.error(
            f"{describe(value)} assigned to {describe(dst)}", fix="write hx.copy(src, dst)"
        )
    if value.shape != dst.shape or value.dtype != dst.dtype:
        raise builder.error(
            f"{describe(value)} assigned in place to {describe(dst)}: shape and type must agree",
            fix=f"use hx.cast(x, {dst.dtype}) or another name",
        )
    if isinstance(value, LazyTile) and value.may_write(dst.ref):
        value.emit(dst.ref)
    elif not (isinstance(value, Tile) and value.ref == dst.ref):
        source = materialize(value)
        # What is read and what is written may overlap: all of it is read before.
        move(copy_of(source, "t") if source.ref.tensor == dst.ref.tensor else source, dst)


def _in_registers(value: TileValue) -> bool:
    return isinstance(value, LazyTile) or (isinstance(value, Tile) and value.in_registers)


def require_static(tile: Tile) -> None:
    """Refuses a tile with a mode whose extent is known only at run time."""
    extents = mode_extents(tile.tensor)
    for position, mode in enumerate(tile.ref.kept):
        if extents[mode] is None and tile.ref.extents[mode] == 0:
            raise current("a tile").error(
                f"mode {position} of `{tile.tensor.name}` has an extent known only at run time",
                fix=f"index it by an integer, as in {tile.tensor.name}[..., i]",
            )
