"""Choices: `a and b`, `a or b`, `b if c else a` give one of their operands, and compute no other.

What Python knows now it decides now. At run time the operand that is chosen is an expression that
the machine computes only where it is wanted; an operand that takes statements of its own, such as a
call of a function with a loop, stands in a branch of the program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from hexcute_core.frontend.interpreter.engine import Engine
from hexcute_core.frontend.interpreter.frame import Frame
from hexcute_core.frontend.interpreter.scope import is_scalar, zero
from hexcute_core.frontend.language.elementwise import ARITHMETIC, logical_not, where
from hexcute_core.frontend.language.tiles import TileValue, describe
from hexcute_core.scalar import Const, Scalar, ScalarBase, as_scalar, binary
from hexcute_core.scalar.author import call_as_author
from hexcute_core.tile import Assign, If


def truth(frame: Frame, node: ast.AST, value: object) -> object:
    """`value` as a condition: a bool known now, or a boolean scalar or tile."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, ScalarBase):
        return value if value.dtype.kind == "bool" else ARITHMETIC["ne"](value, 0)
    if isinstance(value, TileValue):
        return value
    try:
        return call_as_author(bool, (value,), {})
    except TypeError as error:
        raise frame.error(
            node, f"the truth of {describe(value)}: {error}", fix="compare what it holds"
        ) from None


def condition(engine: Engine, frame: Frame, node: ast.expr) -> bool | ScalarBase:
    """The test of an `if` or `while`: a bool known now, or a boolean scalar."""
    if isinstance(node, ast.BoolOp):
        value = _chosen(engine, frame, node, node.values, as_truth=True)
    else:
        value = truth(frame, node, engine.evaluate(frame, node))
    if isinstance(value, TileValue):
        raise frame.error(
            node, f"{describe(value)} as a condition", fix="use hx.where(cond, a, b) on tiles"
        )
    return value if isinstance(value, ScalarBase) else bool(value)


def boolop(engine: Engine, frame: Frame, node: ast.BoolOp) -> object:
    """`a and b and ...`, `a or b or ...`: the first operand that decides, else the last."""
    return _chosen(engine, frame, node, node.values, as_truth=False)


def _chosen(
    engine: Engine, frame: Frame, node: ast.BoolOp, operands: Sequence[ast.expr], as_truth: bool
) -> object:
    """What `operands` give; with `as_truth` only whether it is true."""
    first, *rest = operands
    value = condition(engine, frame, first) if as_truth else engine.evaluate(frame, first)
    if not rest:
        return value
    known = truth(frame, first, value)
    if isinstance(known, TileValue):
        raise frame.error(node, "`and`/`or` on tiles", fix="use & and | on comparisons")
    is_and = isinstance(node.op, ast.And)
    if not isinstance(known, ScalarBase):
        if known != is_and:
            return value
        return _chosen(engine, frame, node, rest, as_truth)
    scalar: Scalar = value  # type: ignore[assignment]
    if not as_truth and scalar.dtype.kind != "bool":
        # It is looked at twice: as a condition and as what is chosen.
        value = scalar = engine.builder.stable(scalar)
        known = truth(frame, first, scalar)
    wanted = as_scalar(known if is_and else logical_not(known))
    test, other = _only_where(
        engine, frame, node, wanted, lambda: _chosen(engine, frame, node, rest, as_truth)
    )
    if as_truth or (_is_boolean(value) and _is_boolean(other)):
        if is_and:
            return binary("land", test, other)
        return binary("lor", known if test is wanted else logical_not(test), other)
    _require_number(frame, node, other)
    return where(test, other, value)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, ScalarBase) and value.dtype.kind == "bool")


def ifexp(engine: Engine, frame: Frame, node: ast.IfExp) -> object:
    """`b if c else a`."""
    test = condition(engine, frame, node.test)
    if isinstance(test, bool):
        return engine.evaluate(frame, node.body if test else node.orelse)
    held, chosen = _only_where(
        engine, frame, node, as_scalar(test), lambda: engine.evaluate(frame, node.body)
    )
    untrue = as_scalar(logical_not(held))
    _, other = _only_where(engine, frame, node, untrue, lambda: engine.evaluate(frame, node.orelse))
    for value in (chosen, other):
        _require_number(frame, node, value)
    return where(held, chosen, other)


def _require_number(frame: Frame, node: ast.expr, value: object) -> None:
    if not isinstance(value, (int, float, ScalarBase, TileValue)):
        raise frame.error(
            node,
            f"the run-time choice `{ast.unparse(node)}` gives {describe(value)}",
            fix="choose between numbers, or write an `if` statement",
        )


def _only_where(
    engine: Engine, frame: Frame, node: ast.expr, test: Scalar, evaluate: Callable[[], object]
) -> tuple[Scalar, object]:
    """The test and the value of an operand; statements that it takes run only where `test` holds.

    Such statements may change what the test reads, so it is held in a variable before them.
    """
    builder = engine.builder
    around = builder.region
    with builder.nested("branch") as region, engine.sharing.region("branch"):
        region.varies = builder.varies(test)
        value = evaluate()
        if not region.block:
            return test, value
        if not is_scalar(value):
            raise frame.error(
                node,
                f"`{ast.unparse(node)}` chooses at run time, and an operand that gives "
                f"{describe(value)} takes statements of its own",
                fix="write an `if` statement",
            )
        held = as_scalar(value)
        var = builder.variable("chosen", held.dtype)
        around.block.append(Assign(var, zero(held.dtype), True, builder.span))
        builder.emit(Assign(var, held, False, builder.span))
    test = builder.stable(test)
    builder.emit(If(test, tuple(region.block), (), builder.span))
    return test, var
