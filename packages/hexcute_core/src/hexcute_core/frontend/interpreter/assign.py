"""name = value: a binding of the trace, a variable of the program, or a tile updated in place.

Which one depends on where the name is bound: inside the current region it is simply bound anew;
bound outside a run-time region it must change what later iterations and code read.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.functions.flow import targets
from hexcute_core.frontend.interpreter.aliases import release
from hexcute_core.frontend.interpreter.engine import Engine
from hexcute_core.frontend.interpreter.frame import Binding, Frame, Lost, Mutable, Pending
from hexcute_core.frontend.interpreter.scope import is_scalar, variable_type, zero
from hexcute_core.frontend.interpreter.settle import settle
from hexcute_core.frontend.interpreter.sharing import holds
from hexcute_core.frontend.language.launch import CudaAttrs
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import (
    LazyTile,
    Tile,
    TileValue,
    copy_of,
    describe,
    new_register,
    store,
)
from hexcute_core.scalar import ScalarBase, as_scalar, cast, promotion
from hexcute_core.scalar.numbers import fits
from hexcute_core.tile import Assign, Fill


def assign(engine: Engine, frame: Frame, target: ast.expr, value: object) -> None:
    """Assigns `value` to a name, a tuple of targets, a subscript or a launch attribute."""
    match target:
        case ast.Name():
            assign_name(engine, frame, target, value)
        case ast.Tuple() | ast.List():
            _unpack(engine, frame, target, value)
        case ast.Subscript():
            _assign_subscript(engine, frame, target, value)
        case ast.Attribute():
            base = engine.evaluate(frame, target.value)
            if not isinstance(base, CudaAttrs):
                raise frame.error(
                    target,
                    f"assignment to attribute `{ast.unparse(target)}`",
                    fix="only hx.attrs.cuda.* may be set in a kernel; use a name instead",
                )
            setattr(base, target.attr, value)
        case _:
            raise frame.error(target, f"`{ast.unparse(target)}` cannot be assigned in a kernel")


def assign_name(engine: Engine, frame: Frame, target: ast.Name, value: object) -> None:
    """Assigns to one name, by the rule of where it is bound."""
    builder, name = engine.builder, target.id
    binding = frame.bindings.get(name)
    if binding is None or isinstance(binding.value, Lost):
        bind(engine, frame, name, value)
        return
    local = binding.region is builder.region
    match binding.value:
        case Mutable(var=var) if not local or _stays(value, var.dtype):
            if not is_scalar(value):
                raise frame.error(
                    target,
                    f"`{name}` holds a run-time {var.dtype} and is assigned {describe(value)}",
                    fix="use another name",
                )
            number = convert(engine, frame, target, value, var.dtype)
            builder.emit(Assign(var, as_scalar(number), False, builder.span))
            frame.bindings[name] = replace(binding, unsure=None)
        case Pending():
            _first(engine, frame, target, value, binding)
        case Tile() as tile if not local and tile.in_registers and isinstance(value, TileValue):
            _update(engine, frame, name, tile, value)
            frame.bindings[name] = replace(frame.bindings[name], unsure=None)
        case _:
            bind(engine, frame, name, value)


def bind(engine: Engine, frame: Frame, name: str, value: object) -> None:
    """Binds `name` in the current region."""
    builder = engine.builder
    kept = settle(builder, value, name)
    frame.bindings[name] = Binding(kept, builder.region, builder.span)


def _stays(value: object, dtype: DType) -> bool:
    """Whether assigning in the variable's own block keeps it: numbers known now are bound anew."""
    return isinstance(value, ScalarBase) and _fits(value.dtype, dtype)


def _first(engine: Engine, frame: Frame, target: ast.Name, value: object, binding: Binding) -> None:
    """The first assignment of a name needed after the region that is being traced."""
    builder, name = engine.builder, target.id
    around = binding.region
    if is_scalar(value):
        var = builder.variable(name, variable_type(value))
        around.block.append(Assign(var, zero(var.dtype), True, builder.span))
        builder.mutable.add(var.name)
        frame.bindings[name] = Binding(Mutable(var), around, binding.span)
        builder.emit(Assign(var, as_scalar(value), False, builder.span))
    elif isinstance(value, LazyTile) or (isinstance(value, Tile) and value.in_registers):
        builder.hint = None
        tile = new_register(value.dtype, value.shape, name)
        around.block.append(Fill(builder.next_id(), tile.ref, zero(tile.dtype), builder.span))
        frame.bindings[name] = Binding(tile, around, binding.span)
        _rebind(engine, name, tile, value)
    else:
        bind(engine, frame, name, value)


def _update(engine: Engine, frame: Frame, name: str, tile: Tile, value: TileValue) -> None:
    """A register tile bound outside a run-time region takes the new value in place."""
    builder = engine.builder
    if (
        not isinstance(value, (Tile, LazyTile))
        or value.shape != tile.shape
        or (value.dtype != tile.dtype)
    ):
        raise builder.error(
            f"`{name}` holds {describe(tile)} and inside {builder.region.describe()} is assigned "
            f"{describe(value)}: shape and type must stay",
            fix=f"use another name, or hx.cast(x, {tile.dtype})",
        )
    if isinstance(value, Tile) and value.ref == tile.ref:
        return
    release(engine.sharing, frame, name, tile)
    _rebind(engine, name, tile, value)


def _rebind(engine: Engine, name: str, tile: Tile, value: TileValue) -> None:
    """Writes `value` into the tile that a name lives in: the name changes, not what others see."""
    with engine.builder.defining():
        store(tile, value)
    if isinstance(value, Tile):
        engine.sharing.relate(tile.tensor.name, value.tensor.name, name)


def _fits(source: DType, target: DType) -> bool:
    """Whether a variable of `target` may take a `source` value without an explicit cast."""
    if source.kind == "bool" or target.kind == "bool":
        return source == target
    return (target.is_float and source.is_integer) or promotion.holds(target, source)


def convert(engine: Engine, frame: Frame, node: ast.AST, value: object, dtype: DType) -> ScalarBase:
    """`value` as a scalar of `dtype`, refused where that could lose its value."""
    if not isinstance(value, ScalarBase):
        small = static_int(value)
        if small is not None and (dtype.is_float or (dtype.is_integer and fits(small, dtype))):
            return as_scalar(small, dtype)
        if isinstance(value, float) and dtype.is_float:
            return as_scalar(value, dtype)
    scalar = as_scalar(value)
    if not _fits(scalar.dtype, dtype):
        raise frame.error(
            node,
            f"the {scalar.dtype} value `{scalar}` is assigned to a variable of type {dtype}",
            fix=f"annotate the first assignment (`x: hx.{scalar.dtype} = ...`) or write "
            f"hx.cast(value, {dtype})",
        )
    return cast(scalar, dtype)


def _unpack(engine: Engine, frame: Frame, target: ast.Tuple | ast.List, value: object) -> None:
    if isinstance(value, TileValue) or not isinstance(value, (tuple, list)):
        raise frame.error(
            target,
            f"{describe(value)} cannot be unpacked into `{ast.unparse(target)}`",
            fix="assign a tuple",
        )
    if any(isinstance(element, ast.Starred) for element in target.elts):
        raise frame.error(target, "a starred target", fix="slice the tuple instead")
    if len(value) != len(target.elts):
        raise frame.error(
            target,
            f"{len(value)} values are unpacked into {len(target.elts)} names",
            fix="make the counts agree",
        )
    # As in Python all values exist before the first name changes: `a, b = b, a` swaps.
    kept = [settle(engine.builder, item, _base(t)) for item, t in zip(value, target.elts)]
    for position, item in enumerate(kept):
        before = [n for element in target.elts[:position] for n in targets(element)]
        if any(_overwrites(engine, frame, name, item) for name in before):
            if not isinstance(item, Tile):
                raise frame.error(target, "tiles swapped inside nested tuples", fix="swap names")
            copied = kept[position] = copy_of(item, _base(target.elts[position]))
            engine.sharing.relate(item.tensor.name, copied.tensor.name, before[0])
    for element, item in zip(target.elts, kept):
        assign(engine, frame, element, item)


def _overwrites(engine: Engine, frame: Frame, name: str, item: object) -> bool:
    """Whether assigning to `name` updates, in place, a tile that `item` still refers to."""
    binding = frame.bindings.get(name)
    if binding is None or binding.region is engine.builder.region:
        return False
    return isinstance(binding.value, Tile) and holds(item, binding.value.tensor.name)


def _base(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else "t"


def _assign_subscript(engine: Engine, frame: Frame, target: ast.Subscript, value: object) -> None:
    base = engine.evaluate(frame, target.value)
    index = engine.evaluate(frame, target.slice)
    if isinstance(base, Tile):
        base[index] = value
        return
    if isinstance(base, Param):
        raise frame.error(
            target,
            "assignment to elements of a tensor parameter",
            fix="copy a register tile to a global view: hx.copy(r, hx.global_view(c[i:, :], ...))",
        )
    require_own(engine, frame, target.value, "an item assignment")
    kept = settle(engine.builder, value, _base(target.value))
    key = static_int(index) if isinstance(index, ScalarBase) else index
    if key is None or not isinstance(base, (list, dict)):
        raise frame.error(
            target,
            f"item {index} of {type(base).__name__} cannot be assigned in a kernel",
            fix="index lists by compile-time ints, or use a register tensor",
        )
    try:
        base[key] = kept  # type: ignore[call-overload]
    except (IndexError, TypeError) as error:
        raise frame.error(target, f"{type(error).__name__}: {error}") from None


def require_own(engine: Engine, frame: Frame, base: ast.expr, what: str) -> None:
    """Refuses changing a Python container of code outside the run-time region being traced."""
    region = engine.builder.region
    root = base
    while isinstance(root, (ast.Subscript, ast.Attribute)):
        root = root.value
    binding = frame.bindings.get(root.id) if isinstance(root, ast.Name) else None
    if isinstance(root, ast.Name) and binding is None:
        raise frame.error(
            base,
            f"{what} changes an object that outlives the kernel",
            fix="make the list or dict inside the kernel",
        )
    if region.at_run_time and (binding is None or binding.region is not region):
        raise frame.error(
            base,
            f"{what} changes a Python object inside {region.describe()}, where it would happen "
            "once instead of once per iteration",
            fix="use a variable or a register tensor, or expand the loop with hx.static_range",
        )


def annotated(
    engine: Engine, frame: Frame, node: ast.AnnAssign, dtype: object
) -> FrontendError | None:
    """`x: hx.i64 = 0`: a scalar of that type. Returns what is wrong with the annotation, if any."""
    if not isinstance(node.target, ast.Name) or node.value is None:
        return frame.error(node, "an annotation without a value", fix="write `x: hx.i32 = 0`")
    value = engine.evaluate(frame, node.value, node.target.id)
    if isinstance(dtype, DType):
        if not is_scalar(value):
            return frame.error(
                node,
                f"{describe(value)} is annotated as the scalar type {dtype}",
                fix="annotate scalars only",
            )
        value = _typed(engine, frame, node, value, dtype)
    assign_name(engine, frame, node.target, value)
    return None


def _typed(engine: Engine, frame: Frame, node: ast.AST, value: object, dtype: DType) -> object:
    if isinstance(value, bool) and dtype == dtypes.boolean:
        return as_scalar(value)
    return convert(engine, frame, node, value, dtype)
