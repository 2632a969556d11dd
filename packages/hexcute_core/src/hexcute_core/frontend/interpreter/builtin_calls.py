"""Built-in functions of Python on run-time values: an answer, or a refusal at the call."""

from __future__ import annotations

import ast
import builtins
import functools
import operator
from collections.abc import Callable

from hexcute_core.frontend.interpreter.choices import truth
from hexcute_core.frontend.interpreter.engine import Engine
from hexcute_core.frontend.interpreter.frame import Frame
from hexcute_core.frontend.interpreter.settle import shortened
from hexcute_core.frontend.language.elementwise import (
    ARITHMETIC,
    absolute,
    logical_not,
    maximum,
    minimum,
)
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import TileValue, describe
from hexcute_core.scalar import ScalarBase, binary

Args = tuple[object, ...]
Special = Callable[[Engine, Frame, ast.Call, Args, dict[str, object]], object]


def _items(frame: Frame, node: ast.Call, value: object) -> list[object]:
    """What a built-in goes through."""
    if isinstance(value, (ScalarBase, TileValue)) or not hasattr(value, "__iter__"):
        raise frame.error(
            node, f"`{ast.unparse(node)}` of {describe(value)}", fix="pass a tuple or a list"
        )
    return list(value)


def _folded(function: Callable[[object, object], object], name: str) -> Special:
    def apply(
        engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
    ) -> object:
        if kwargs:
            raise frame.error(
                node,
                f"`{ast.unparse(node)}` with keyword arguments on run-time values",
                fix=f"write it out with hx.where, or as {name}(a, b)",
            )
        values = _items(frame, node, args[0]) if len(args) == 1 else list(args)
        return functools.reduce(_step(engine, function), values)

    return apply


def _sum(
    engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
) -> object:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    values = _items(frame, node, args[0])
    if values and isinstance(start, int) and start == 0:
        start, values = values[0], values[1:]
    return functools.reduce(_step(engine, operator.add), values, start)


def _step(
    engine: Engine, function: Callable[[object, object], object]
) -> Callable[[object, object], object]:
    """`function` of two numbers, whose results may be an operand of the next."""
    return lambda a, b: shortened(engine.builder, function(a, b))


def _truths(is_all: bool) -> Special:
    def apply(
        engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
    ) -> object:
        result: object = is_all
        for value in _items(frame, node, args[0]):
            known = truth(frame, node, value)
            if isinstance(known, TileValue):
                raise frame.error(
                    node, f"`{ast.unparse(node)}` of tiles", fix="use & and | on comparisons"
                )
            result = binary("land" if is_all else "lor", result, known)
        return result

    return apply


def _absolute(
    engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
) -> object:
    return absolute(args[0])


def _power(
    engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
) -> object:
    if len(args) != 2 or kwargs:
        raise frame.error(
            node, f"`{ast.unparse(node)}` on run-time values", fix="write a ** b, or (a ** b) % c"
        )
    return ARITHMETIC["pow"](*args)


def _divmod(
    engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
) -> object:
    return ARITHMETIC["floordiv"](*args), ARITHMETIC["mod"](*args)


def _conversion(kind: Callable[[int], object]) -> Special:
    def apply(
        engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
    ) -> object:
        known = static_int(args[0])
        if known is not None:
            return kind(known)
        raise frame.error(
            node,
            f"`{ast.unparse(node)}` of a run-time value",
            fix="write hx.cast(x, i32), hx.cast(x, f32), or a comparison",
        )

    return apply


def _range(
    engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
) -> object:
    known = [static_int(value) for value in args]
    ints = [value for value in known if value is not None]
    if len(ints) != len(args) or not 1 <= len(ints) <= 3:
        raise frame.error(
            node, "a range with run-time bounds outside a `for`", fix="write `for i in range(n):`"
        )
    return range(*ints)


def _refused(fix: str) -> Special:
    def apply(
        engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
    ) -> object:
        raise frame.error(node, f"`{ast.unparse(node)}` on run-time values", fix=fix)

    return apply


def _operator(name: str) -> Special:
    def apply(
        engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
    ) -> object:
        for value in args:
            if not isinstance(value, (int, float, ScalarBase, TileValue)):
                raise frame.error(
                    node,
                    f"`{ast.unparse(node)}` of {describe(value)}",
                    fix="use numbers, scalars and register tiles",
                )
        return ARITHMETIC[name](*args)

    return apply


def _not(
    engine: Engine, frame: Frame, node: ast.Call, args: Args, kwargs: dict[str, object]
) -> object:
    return logical_not(truth(frame, node, args[0]))


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv",
    "mod": "mod", "pow": "pow", "and_": "and", "or_": "or", "xor": "xor", "lshift": "shl",
    "rshift": "shr", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne",
}  # fmt: skip
_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor",
             "lshift", "rshift")  # fmt: skip
BUILTINS: dict[object, Special] = {
    builtins.min: _folded(minimum, "min"),
    builtins.max: _folded(maximum, "max"),
    builtins.sum: _sum,
    builtins.all: _truths(True),
    builtins.any: _truths(False),
    builtins.abs: _absolute,
    builtins.pow: _power,
    builtins.divmod: _divmod,
    builtins.int: _conversion(int),
    builtins.float: _conversion(float),
    builtins.bool: _conversion(bool),
    builtins.range: _range,
    builtins.round: _refused("write hx.floor(x + 0.5) on floats"),
    builtins.sorted: _refused("write the comparisons out with hx.minimum and hx.maximum"),
    builtins.str: _refused("leave the value out of the text"),
    builtins.repr: _refused("leave the value out of the text"),
    builtins.format: _refused("leave the value out of the text"),
    builtins.hash: _refused("use the value itself"),
    builtins.id: _refused("use the value itself"),
    builtins.complex: _refused("compute with two numbers"),
    builtins.set: _refused("use a tuple or a list"),
    builtins.frozenset: _refused("use a tuple or a list"),
    operator.abs: _absolute,
    operator.not_: _not,
    operator.truth: _conversion(bool),
    operator.index: _conversion(int),
    operator.is_: _refused("compare with =="),
    operator.is_not: _refused("compare with !="),
    **{getattr(operator, name): _operator(op) for name, op in _OPERATORS.items()},
    **{getattr(operator, f"i{n}"): _refused("write the statement `a += b`") for n in _IN_PLACE},
}
