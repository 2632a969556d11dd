"""Elementwise operations: d[x] = f(a[x], b[x], ...), extent-1 dimensions broadcast.

The same functions take scalars (giving a scalar) and Python numbers (giving a Python number).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.tiles import (
    LazyTile,
    Tile,
    TileValue,
    describe,
    materialize,
    operator,
)
from hexcute_core.scalar import (
    Scalar,
    Var,
    as_scalar,
    binary,
    compare,
    select,
    substitute,
    unary,
)
from hexcute_core.scalar.expr import BinaryOp, CompareOp, UnaryOp
from hexcute_core.scalar.fold import extreme
from hexcute_core.tile import Elementwise, TileRef

Combine = Callable[..., Scalar]
MathFunction = Callable[[object], Any]
_BINARY: tuple[BinaryOp, ...] = (
    "add", "sub", "mul", "div", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "pow",
)  # fmt: skip
_COMPARE: tuple[CompareOp, ...] = ("lt", "le", "gt", "ge", "eq", "ne")


def elementwise(combine: Combine, operands: Sequence[object]) -> object:
    """`combine` applied element by element; at least one operand is a tile."""
    builder = current("arithmetic on tiles")
    srcs: list[TileRef] = []
    # A Python number keeps adapting to the tile's type, so it goes in as it is.
    nodes: list[object] = []
    shape = broadcast([o.shape for o in operands if isinstance(o, TileValue)], operands)
    for operand in operands:
        if not isinstance(operand, (Tile, LazyTile)):
            nodes.append(operand)
            continue
        # What repeats along a dimension is computed once, not again for every element.
        nodes.append(_node(operand if operand.shape == shape else materialize(operand), srcs))
    expr = combine(*nodes)

    def emit(dst: TileRef) -> None:
        builder.emit(Elementwise(builder.next_id(), dst, tuple(srcs), expr, builder.span))

    result = LazyTile(shape, expr.dtype, tuple(srcs), emit, expr)
    return materialize(result) if builder.native else result


def _node(operand: Tile | LazyTile, srcs: list[TileRef]) -> Scalar:
    """The scalar that stands for `operand`, whose tiles are added to `srcs`."""
    if isinstance(operand, LazyTile) and operand.expr is not None:
        tensors = current("arithmetic on tiles").tensors
        values: dict[str, Scalar] = {
            f"${i}": Var(f"${_source(ref, srcs)}", tensors[ref.tensor].dtype)
            for i, ref in enumerate(operand.srcs)
        }
        return substitute(operand.expr, values)
    tile = materialize(operand)
    if not tile.in_registers:
        raise FrontendError(
            f"arithmetic on {describe(tile)}, which is not in registers",
            fix="copy it to a register tensor first: hx.copy(tile, hx.register_tensor(...))",
        )
    return Var(f"${_source(tile.ref, srcs)}", tile.dtype)


def _source(ref: TileRef, srcs: list[TileRef]) -> int:
    if ref not in srcs:
        srcs.append(ref)
    return srcs.index(ref)


def broadcast(shapes: Sequence[tuple[int, ...]], operands: Sequence[object]) -> tuple[int, ...]:
    """The common shape: equal ranks, extents equal or 1."""
    if len({len(shape) for shape in shapes}) == 1:
        merged = tuple(max(extents) for extents in zip(*shapes))
        if all(e in (1, m) for shape in shapes for e, m in zip(shape, merged)):
            return merged
    tiles = [describe(o) for o in operands if isinstance(o, TileValue)]
    raise current("arithmetic on tiles").error(
        f"shapes do not broadcast: {' with '.join(tiles)}",
        fix="make the ranks equal and each extent equal or 1: hx.reshape(t, (BM, 1, BN)) gives a"
        " tile the mode it lacks (reductions keep theirs)",
    )


def apply(combine: Combine, *operands: object) -> object:
    """`combine` on scalars, or element by element where an operand is a tile."""
    if any(isinstance(operand, TileValue) for operand in operands):
        return elementwise(combine, operands)
    return combine(*operands)


def arithmetic(op: BinaryOp) -> Callable[[object, object], object]:
    """The binary operator `op` on tiles and scalars."""

    def combine(a: object, b: object) -> Scalar:
        return binary(op, a, b)

    return lambda a, b: apply(combine, a, b)


def comparison(op: CompareOp) -> Callable[[object, object], object]:
    """The comparison `op` on tiles and scalars."""

    def combine(a: object, b: object) -> Scalar:
        return compare(op, a, b)

    return lambda a, b: apply(combine, a, b)


ARITHMETIC: dict[str, Callable[[object, object], object]] = {
    **{op: arithmetic(op) for op in _BINARY},
    **{op: comparison(op) for op in _COMPARE},
}
for _name, _function in ARITHMETIC.items():
    operator(_name)(_function)


def _math(
    op: UnaryOp, on_numbers: Callable[[float], float], any_type: bool = False
) -> MathFunction:
    def combine(a: object) -> Scalar:
        value = as_scalar(a)
        if not any_type and not value.dtype.is_float:
            raise FrontendError(
                f"hx.{op} of the {value.dtype} `{value}`", fix="cast it first: hx.cast(x, f32)"
            )
        return unary(op, value)

    def function(a: object) -> object:
        if isinstance(a, (int, float)):
            try:
                return on_numbers(a)
            except (ValueError, OverflowError, ZeroDivisionError) as error:
                raise FrontendError(f"hx.{op}({a}): {error}") from None
        return apply(combine, a)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{op}(a), element by element on a tile; a scalar or number gives one."
    return function


def minimum(a: object, b: object) -> Any:
    """The smaller of a and b, element by element on tiles; a number rather than NaN."""
    return _extreme("min", a, b)


def maximum(a: object, b: object) -> Any:
    """The larger of a and b, element by element on tiles; a number rather than NaN."""
    return _extreme("max", a, b)


def clamp(a: object, low: object, high: object) -> Any:
    """a, but no less than `low` and no more than `high`, element by element on tiles; NaN gives
    `low`."""
    return minimum(maximum(a, low), high)


def _extreme(op: Literal["min", "max"], a: object, b: object) -> object:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if isinstance(a, float) or isinstance(b, float):
            return extreme(op, float(a), float(b))
        return min(a, b) if op == "min" else max(a, b)
    return apply(lambda x, y: binary(op, x, y), a, b)


def cdiv(a: object, b: object) -> Any:
    """a / b rounded up, whatever the signs, element by element on tiles; an int for two ints.

    Raises FrontendError for floats and a divisor of zero.
    """
    if isinstance(b, int) and b == 0:
        raise FrontendError(f"hx.cdiv of {describe(a)} by zero", fix="divide by another number")
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return apply(lambda x, y: binary("cdiv", x, y), a, b)


def where(cond: object, a: object, b: object) -> Any:
    """`a` where `cond` holds, else `b`; both are evaluated. Tiles broadcast, scalars give one."""
    if isinstance(cond, bool):
        return a if cond else b
    return apply(select, cond, a, b)


def negate(a: object) -> Any:
    """-a, element by element."""
    return apply(lambda x: unary("neg", x), a)


def invert(a: object) -> Any:
    """~a, element by element."""
    return apply(lambda x: unary("inv", x), a)


def logical_not(a: object) -> Any:
    """not a, element by element."""
    return apply(lambda x: unary("not", x), a)


exp = _math("exp", math.exp)
exp2 = _math("exp2", lambda a: 2.0**a)
log = _math("log", math.log)
log2 = _math("log2", math.log2)
sqrt = _math("sqrt", math.sqrt)
rsqrt = _math("rsqrt", lambda a: 1.0 / math.sqrt(a))
rcp = _math("rcp", lambda a: 1.0 / a)
tanh = _math("tanh", math.tanh)
sin = _math("sin", math.sin)
cos = _math("cos", math.cos)
erf = _math("erf", math.erf)
floor = _math("floor", lambda a: float(math.floor(a)))
ceil = _math("ceil", lambda a: float(math.ceil(a)))
absolute = _math("abs", abs, any_type=True)


def isnan(a: object) -> Any:
    """Whether a is not a number, element by element on tiles."""
    if isinstance(a, (int, float)):
        return math.isnan(a)
    return apply(lambda x: unary("isnan", x), a)


operator("neg")(negate)
operator("abs")(lambda a: apply(lambda x: unary("abs", x), a))
