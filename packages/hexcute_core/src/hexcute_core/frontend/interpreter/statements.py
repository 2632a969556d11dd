"""Simple statements: assignment, augmented assignment, calls, assert, return."""

from __future__ import annotations

import ast

from hexcute_core.dtypes import DType
from hexcute_core.frontend.interpreter.assign import annotated, assign, assign_name
from hexcute_core.frontend.interpreter.calls import ReturnValue
from hexcute_core.frontend.interpreter.choices import condition
from hexcute_core.frontend.interpreter.control import (
    branch,
    for_loop,
    leave,
    while_loop,
    with_block,
)
from hexcute_core.frontend.interpreter.engine import Engine, StmtHandler
from hexcute_core.frontend.interpreter.expressions import combine
from hexcute_core.frontend.interpreter.frame import Frame
from hexcute_core.frontend.interpreter.settle import settle
from hexcute_core.frontend.language.pipelines import Slot
from hexcute_core.frontend.language.roles import RoleContext
from hexcute_core.frontend.language.tiles import LazyTile, Tile, describe, store
from hexcute_core.frontend.language.turns import Turn
from hexcute_core.scalar import Call
from hexcute_core.tile import CallStmt


def _assign(engine: Engine, frame: Frame, node: ast.Assign) -> None:
    first = node.targets[0]
    value: object
    pair = _pair(first, node.value)
    if pair is not None:
        value = tuple(engine.evaluate_all(frame, pair[1], [_hint(t) for t in pair[0]]))
    else:
        value = engine.evaluate(frame, node.value, _hint(first))
    if len(node.targets) > 1:
        # `a = b = x + y`: both names are to share one tile.
        value = settle(engine.builder, value, _hint(first) or "t")
    for target in node.targets:
        assign(engine, frame, target, value)


def _pair(target: ast.expr, value: ast.expr) -> tuple[list[ast.expr], list[ast.expr]] | None:
    """`a, b = x(), y()`: targets and values where each value can be named after its target."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return None
    named = all(isinstance(element, ast.Call) for element in value.elts)
    return (target.elts, value.elts) if named else None


def _hint(target: ast.expr) -> str | None:
    return target.id if isinstance(target, ast.Name) else None


def _augmented(engine: Engine, frame: Frame, node: ast.AugAssign) -> None:
    match node.target:
        case ast.Name() as name:
            current = frame.lookup(ast.copy_location(ast.Name(name.id, ast.Load()), name))
            _writable(frame, node, current)
            value = engine.evaluate(frame, node.value)
            result = combine(engine, frame, node, node.op, current, value)
            if isinstance(current, Tile):
                store(current, result)
            else:
                assign_name(engine, frame, name, result)
        case ast.Subscript() as target:
            base = engine.evaluate(frame, target.value)
            index = engine.evaluate(frame, target.slice)
            if not isinstance(base, Tile):
                load = ast.Subscript(target.value, target.slice, ast.Load())
                old = engine.evaluate(frame, ast.copy_location(load, target))
                value = engine.evaluate(frame, node.value)
                assign(engine, frame, target, combine(engine, frame, node, node.op, old, value))
                return
            part = base[index]
            _writable(frame, node, part)
            value = engine.evaluate(frame, node.value)
            result = combine(engine, frame, node, node.op, part, value)
            if isinstance(part, Tile):
                store(part, result)
            else:
                base[index] = result
        case _:
            raise frame.error(
                node, f"`{ast.unparse(node)}`", fix="use a name or a part of a register tile"
            )


def _writable(frame: Frame, node: ast.AugAssign, value: object) -> None:
    if isinstance(value, Tile) and not value.in_registers:
        raise frame.error(
            node,
            f"arithmetic in place on {describe(value)}",
            fix="copy it to a register tensor, compute there, and copy it back",
        )


def _annotated(engine: Engine, frame: Frame, node: ast.AnnAssign) -> None:
    dtype = engine.evaluate(frame, node.annotation)
    if isinstance(dtype, str):
        dtype = engine.evaluate(frame, ast.parse(dtype, mode="eval").body)
    wrong = annotated(engine, frame, node, dtype if isinstance(dtype, DType) else None)
    if wrong is not None:
        raise wrong


def _expression(engine: Engine, frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return
    value = engine.evaluate(frame, node.value)
    if isinstance(value, LazyTile):
        raise frame.error(
            node,
            f"the result of `{ast.unparse(node.value)}` is not used",
            fix="assign it to a name; tile operations give new tiles",
        )
    if isinstance(value, (RoleContext, Slot, Turn)):
        opened = " as s" if isinstance(value, Slot) else ""
        raise frame.error(
            node,
            f"`{ast.unparse(node.value)}` does nothing by itself: it is opened by `with`",
            fix=f"write `with {ast.unparse(node.value)}{opened}:`",
        )
    if isinstance(value, Call):
        engine.builder.emit(CallStmt(value.name, value.args, engine.builder.span))


def _assert(engine: Engine, frame: Frame, node: ast.Assert) -> None:
    test = condition(engine, frame, node.test)
    if not isinstance(test, bool):
        raise frame.error(
            node,
            f"assert on the run-time condition `{test}`",
            fix="assert compile-time constants only",
        )
    if not test:
        text = f"`{ast.unparse(node.test)}` does not hold"
        message = text if node.msg is None else str(engine.evaluate(frame, node.msg))
        raise frame.error(
            node, f"assertion failed: {message}", fix="change the compile-time constants"
        )


def _return(engine: Engine, frame: Frame, node: ast.Return) -> None:
    if engine.builder.region is not frame.region:
        raise frame.error(
            node,
            f"`return` inside {engine.builder.region.describe()}",
            fix="assign the result to a variable and return it at the end of the function",
        )
    raise ReturnValue(None if node.value is None else engine.evaluate(frame, node.value))


def _pass(engine: Engine, frame: Frame, node: ast.Pass) -> None:
    return


STATEMENTS: dict[type[ast.stmt], StmtHandler] = {
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.AnnAssign: _annotated,
    ast.Expr: _expression,
    ast.Assert: _assert,
    ast.Return: _return,
    ast.Pass: _pass,
    ast.For: for_loop,
    ast.While: while_loop,
    ast.If: branch,
    ast.With: with_block,
    ast.Break: leave,
    ast.Continue: leave,
}
