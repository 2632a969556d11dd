"""Expressions: Python values stay Python values, run-time operands build scalars and tiles."""

from __future__ import annotations

import ast
import difflib
import inspect
import operator
from collections.abc import Callable, Iterable
from types import FunctionType

from hexcute_core.frontend.functions.authors import is_author_code
from hexcute_core.frontend.functions.symbols import Symbol
from hexcute_core.frontend.interpreter.choices import boolop, condition, ifexp, truth
from hexcute_core.frontend.interpreter.engine import Engine, ExprHandler
from hexcute_core.frontend.interpreter.frame import Binding, Frame
from hexcute_core.frontend.interpreter.settle import shortened
from hexcute_core.frontend.language.barriers import Mbarriers
from hexcute_core.frontend.language.elementwise import ARITHMETIC, invert, logical_not, negate
from hexcute_core.frontend.language.helpers import of_run_time
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import TileValue, describe
from hexcute_core.scalar import Const, ScalarBase, Var, binary
from hexcute_core.scalar.author import call_as_author

_PYTHON: dict[type[ast.AST], tuple[str, Callable[..., object]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod),
    ast.Pow: ("pow", operator.pow),
    ast.BitAnd: ("and", operator.and_),
    ast.BitOr: ("or", operator.or_),
    ast.BitXor: ("xor", operator.xor),
    ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("shr", operator.rshift),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
}


def is_run_time(value: object) -> bool:
    """Whether `value` is known only when the program runs."""
    return isinstance(value, (ScalarBase, TileValue))


def combine(
    engine: Engine, frame: Frame, node: ast.AST, op: ast.AST, a: object, b: object
) -> object:
    """`a op b` for a binary or comparison operator."""
    if type(op) not in _PYTHON:
        return _special(frame, node, op, a, b)
    name, function = _PYTHON[type(op)]
    if name in ARITHMETIC and (is_run_time(a) or is_run_time(b)):
        for value in (a, b):
            if not is_run_time(value) and not isinstance(value, (bool, int, float)):
                raise frame.error(
                    node,
                    f"operands of `{ast.unparse(node)}`: {describe(a)} and {describe(b)}",
                    fix="use numbers, scalars and register tiles",
                )
        return ARITHMETIC[name](a, b)
    numbers = _is_number(a) and _is_number(b) and (is_run_time(a) or is_run_time(b))
    if isinstance(op, (ast.Is, ast.IsNot)) and numbers:
        raise frame.error(
            node,
            f"`{ast.unparse(node)}`: which object a run-time value is means nothing",
            fix="compare with ==",
        )
    try:
        return call_as_author(function, (a, b), {})
    except (TypeError, ValueError, ArithmeticError) as error:
        raise frame.error(node, f"`{ast.unparse(node)}`: {error}") from None


def _is_number(value: object) -> bool:
    return is_run_time(value) or isinstance(value, (bool, int, float))


def _special(frame: Frame, node: ast.AST, op: ast.AST, a: object, b: object) -> object:
    if isinstance(op, ast.MatMult):
        raise frame.error(node, "the operator `@`", fix="write hx.gemm(c, a, b)")
    container = not is_run_time(a) and not is_run_time(b)
    if isinstance(op, (ast.In, ast.NotIn)) and container:
        try:
            found = call_as_author(operator.contains, (b, a), {})
        except TypeError as error:
            raise frame.error(node, f"`{ast.unparse(node)}`: {error}") from None
        return found if isinstance(op, ast.In) else not found
    raise frame.error(
        node, f"`{ast.unparse(node)}` on run-time values", fix="compare with == and `or`"
    )


def _constant(engine: Engine, frame: Frame, node: ast.Constant) -> object:
    return node.value


def _name(engine: Engine, frame: Frame, node: ast.Name) -> object:
    return frame.lookup(node)


def _attribute(engine: Engine, frame: Frame, node: ast.Attribute) -> object:
    base = engine.evaluate(frame, node.value)
    getter = inspect.getattr_static(type(base), node.attr, None)
    fget = getter.fget if isinstance(getter, property) else None
    inline = engine.builder.inline
    written = isinstance(fget, FunctionType) and is_author_code(fget)
    if written and inline is not None and of_run_time(base, fget):
        return inline(fget, (base,), {})  # type: ignore[arg-type]
    try:
        value: object = call_as_author(getattr, (base, node.attr), {})
    except AttributeError:
        near = difflib.get_close_matches(node.attr, dir(base), n=1)
        raise frame.error(
            node,
            f"`{ast.unparse(node.value)}` has no attribute `{node.attr}`",
            fix=f"did you mean `{near[0]}`?" if near else None,
        ) from None
    return Var(value.name, value.dtype) if isinstance(value, Symbol) else value


def _binop(engine: Engine, frame: Frame, node: ast.BinOp) -> object:
    a, b = engine.evaluate_all(frame, [node.left, node.right])
    return shortened(engine.builder, combine(engine, frame, node, node.op, a, b))


def _unary(engine: Engine, frame: Frame, node: ast.UnaryOp) -> object:
    value = engine.evaluate(frame, node.operand)
    if is_run_time(value):
        match node.op:
            case ast.USub():
                return negate(value)
            case ast.Not():
                return logical_not(truth(frame, node.operand, value))
            case ast.Invert():
                return invert(value)
            case _:
                return value
    try:
        match node.op:
            case ast.USub():
                return -value  # type: ignore[operator]
            case ast.Not():
                return not value
            case ast.Invert():
                return ~value  # type: ignore[operator]
            case _:
                return +value  # type: ignore[operator]
    except TypeError as error:
        raise frame.error(node, f"`{ast.unparse(node)}`: {error}") from None


def _compare(engine: Engine, frame: Frame, node: ast.Compare) -> object:
    values = engine.evaluate_all(frame, [node.left, *node.comparators])
    result: object = True
    for op, a, b in zip(node.ops, values, values[1:]):
        held = combine(engine, frame, node, op, a, b)
        if len(node.ops) == 1:
            return held
        if isinstance(held, TileValue):
            raise frame.error(node, "a chained comparison of tiles", fix="compare in steps with &")
        if not is_run_time(held) and not held:
            return False
        result = held if result is True else binary("land", result, held)
    return result


def _subscript(engine: Engine, frame: Frame, node: ast.Subscript) -> object:
    base, index = engine.evaluate_all(frame, [node.value, node.slice])
    if isinstance(base, (TileValue, Param, Mbarriers)):
        return base[index]  # type: ignore[index]
    key = static_int(index) if isinstance(index, ScalarBase) else index
    if key is None:
        raise frame.error(
            node,
            f"{type(base).__name__} `{ast.unparse(node.value)}` indexed by the run-time `{index}`",
            fix="index Python objects by compile-time values (hx.static_range gives them)",
        )
    try:
        value: object = call_as_author(operator.getitem, (base, key), {})
    except (TypeError, IndexError, KeyError) as error:
        raise frame.error(node, f"`{ast.unparse(node)}`: {type(error).__name__}: {error}") from None
    return value


def _slice(engine: Engine, frame: Frame, node: ast.Slice) -> object:
    parts = (node.lower, node.upper, node.step)
    values = [None if part is None else engine.evaluate(frame, part) for part in parts]
    known = [static_int(v) if isinstance(v, Const) else v for v in values]
    return slice(*known)


def _elements(engine: Engine, frame: Frame, nodes: list[ast.expr]) -> list[object]:
    plain = [n.value if isinstance(n, ast.Starred) else n for n in nodes]
    found: list[object] = []
    for node, value in zip(nodes, engine.evaluate_all(frame, plain)):
        if isinstance(node, ast.Starred):
            if is_run_time(value) or not isinstance(value, Iterable):
                raise frame.error(node, f"`*` of {describe(value)}", fix="unpack a tuple or list")
            found.extend(value)
        else:
            found.append(value)
    return found


def _tuple(engine: Engine, frame: Frame, node: ast.Tuple) -> object:
    return tuple(_elements(engine, frame, node.elts))


def _list(engine: Engine, frame: Frame, node: ast.List) -> object:
    return _elements(engine, frame, node.elts)


def _dict(engine: Engine, frame: Frame, node: ast.Dict) -> object:
    if any(key is None for key in node.keys):
        raise frame.error(node, "`**` in a dict", fix="write the entries out")
    keys = [engine.evaluate(frame, key) for key in node.keys if key is not None]
    values = engine.evaluate_all(frame, node.values)
    for key in keys:
        if is_run_time(key):
            raise frame.error(
                node,
                f"a dict key known only at run time: {describe(key)}",
                fix="choose by hx.select, or index by what hx.static_range gives",
            )
    return call_as_author(dict, (zip(keys, values),), {})


def _joined(engine: Engine, frame: Frame, node: ast.JoinedStr) -> object:
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = engine.evaluate(frame, part.value)
            if is_run_time(value):
                raise frame.error(
                    part,
                    f"`{ast.unparse(node)}`: the text of {describe(value)}",
                    fix="leave the value out of the text",
                )
            spec = "" if part.format_spec is None else engine.evaluate(frame, part.format_spec)
            try:
                parts.append(format(value, str(spec)))
            except (TypeError, ValueError) as error:
                raise frame.error(node, f"`{ast.unparse(node)}`: {error}") from None
        else:
            parts.append(str(engine.evaluate(frame, part)))
    return "".join(parts)


def _comprehension(engine: Engine, frame: Frame, node: ast.ListComp | ast.GeneratorExp) -> object:
    """`[f(x) for x in xs if c]` over Python values, expanded now; its names stay its own."""
    results: list[object] = []
    before = dict(frame.bindings)

    def level(depth: int) -> None:
        if depth == len(node.generators):
            results.append(engine.evaluate(frame, node.elt))
            return
        generator = node.generators[depth]
        items = engine.evaluate(frame, generator.iter)
        if is_run_time(items) or not hasattr(items, "__iter__"):
            raise frame.error(
                generator.iter,
                f"a comprehension over {describe(items)}",
                fix="iterate over compile-time values, or write a `for` loop",
            )
        for item in items:
            _bind_target(engine, frame, generator.target, item)
            tests = (condition(engine, frame, test) for test in generator.ifs)
            if all(_known(frame, node, test) for test in tests):
                level(depth + 1)

    level(0)
    frame.bindings.clear()
    frame.bindings.update(before)
    return results


def _known(frame: Frame, node: ast.AST, test: object) -> bool:
    if not isinstance(test, bool):
        raise frame.error(
            node,
            "a comprehension filtered by a run-time condition",
            fix="write a `for` and an `if`",
        )
    return test


def _bind_target(engine: Engine, frame: Frame, target: ast.expr, value: object) -> None:
    if isinstance(target, ast.Name):
        frame.bindings[target.id] = Binding(value, engine.builder.region, engine.builder.span)
    elif isinstance(target, ast.Tuple) and isinstance(value, (tuple, list)):
        if len(value) != len(target.elts):
            raise frame.error(target, f"{len(value)} values for {len(target.elts)} names")
        for element, item in zip(target.elts, value):
            _bind_target(engine, frame, element, item)
    else:
        raise frame.error(target, f"`{ast.unparse(target)}` in a comprehension", fix="use a name")


EXPRESSIONS: dict[type[ast.expr], ExprHandler] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binop,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: boolop,
    ast.IfExp: ifexp,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Dict: _dict,
    ast.JoinedStr: _joined,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}
