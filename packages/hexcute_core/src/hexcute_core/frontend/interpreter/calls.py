"""Calls: functions of the language add to the program, functions of the author are traced in place,
and Python itself runs calls that no run-time value enters.

What is not written in Python (built-ins, methods of lists, classes) is run by Python on run-time
values too, where these give an answer of their own or refuse; the functions it is given are traced.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import traceback
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType

from hexcute_core.errors import FrontendError, HexcuteError, SourceSpan
from hexcute_core.frontend.functions.source import function_source
from hexcute_core.frontend.interpreter.arguments import misfit
from hexcute_core.frontend.interpreter.assign import bind, require_own
from hexcute_core.frontend.interpreter.builtin_calls import BUILTINS
from hexcute_core.frontend.interpreter.choices import condition
from hexcute_core.frontend.interpreter.engine import Engine
from hexcute_core.frontend.interpreter.expressions import is_run_time
from hexcute_core.frontend.interpreter.frame import Frame
from hexcute_core.frontend.interpreter.settle import settle
from hexcute_core.frontend.language.device import DeviceFunction
from hexcute_core.frontend.language.helpers import behind, of_run_time
from hexcute_core.frontend.language.loops import loop_range
from hexcute_core.scalar.author import call_as_author

MAX_DEPTH = 64
_MUTATORS = (
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update",
    "setdefault", "popitem", "add", "discard",
)  # fmt: skip


_FUNCTIONS = (
    FunctionType, MethodType, DeviceFunction, functools.partial, functools._lru_cache_wrapper
)  # fmt: skip


class ReturnValue(Exception):
    """`return value` of the function being traced."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


def iteration(engine: Engine, frame: Frame, node: ast.expr) -> object:
    """What a `for` iterates over; `range(...)` written there, or chosen there by what is known
    while tracing, may have run-time bounds."""
    if isinstance(node, ast.IfExp):
        test = condition(engine, frame, node.test)
        if isinstance(test, bool):
            return iteration(engine, frame, node.body if test else node.orelse)
    if isinstance(node, ast.Call) and engine.evaluate(frame, node.func) is builtins.range:
        args, kwargs = _arguments(engine, frame, node)
        if kwargs:
            raise frame.error(node, "range with keyword arguments", fix="write range(n)")
        return loop_range(engine.builder, "range", tuple(args))
    return engine.evaluate(frame, node)


def call(engine: Engine, frame: Frame, node: ast.Call) -> object:
    """The value of a call expression."""
    hint = engine.builder.hint
    callee = engine.evaluate(frame, node.func)
    args, kwargs = _arguments(engine, frame, node)
    engine.builder.hint = hint
    if not callable(callee):
        raise frame.error(
            node, f"`{ast.unparse(node.func)}` is not a function", fix="call a function"
        )
    if _is_language(callee):
        _check_arguments(frame, node, callee, args, kwargs)
        return callee(*args, **kwargs)
    owner = getattr(callee, "__self__", None)
    owned = isinstance(owner, (list, dict, set))
    if owned and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
        require_own(engine, frame, node.func.value, f"`{ast.unparse(node.func)}`")
    return run(engine, frame, node, callee, tuple(args), kwargs)


def _arguments(
    engine: Engine, frame: Frame, node: ast.Call
) -> tuple[list[object], dict[str, object]]:
    plain = [a.value if isinstance(a, ast.Starred) else a for a in node.args]
    nodes = [*plain, *(keyword.value for keyword in node.keywords)]
    values = engine.evaluate_all(frame, nodes)
    args: list[object] = []
    for written, value in zip(node.args, values):
        if not isinstance(written, ast.Starred):
            args.append(value)
        elif hasattr(value, "__iter__") and not is_run_time(value):
            args.extend(value)
        else:
            raise frame.error(written, "`*` of something not a tuple or list", fix="pass a tuple")
    kwargs: dict[str, object] = {}
    for keyword, value in zip(node.keywords, values[len(node.args) :]):
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
            kwargs.update(value)
        else:
            raise frame.error(keyword.value, "`**` of something not a dict", fix="pass a dict")
    return args, kwargs


def _is_language(callee: object) -> bool:
    function = callee.__func__ if isinstance(callee, MethodType) else callee
    module = getattr(function, "__module__", None) or ""
    return isinstance(function, FunctionType) and module.startswith("hexcute_core.")


def _check_arguments(
    frame: Frame,
    node: ast.AST,
    callee: Callable[..., object],
    args: list[object],
    kwargs: dict[str, object],
) -> None:
    name = callee.__name__ if isinstance(callee, MethodType) else f"hx.{callee.__name__}"
    wrong = misfit(inspect.signature(callee), name, args, kwargs)
    if wrong is not None:
        raise frame.error(node, f"{name}: {wrong[0]}", fix=wrong[1])


def _inline_at(
    engine: Engine,
    frame: Frame,
    node: ast.Call,
    fn: FunctionType,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    outer, frame.call = frame.call, node
    try:
        return inline(engine, frame, fn, args, kwargs)
    finally:
        frame.call = outer


def inline(
    engine: Engine,
    frame: Frame,
    fn: FunctionType,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """Traces the body of `fn` here, its parameters bound to the arguments."""
    builder = engine.builder
    if frame.depth() >= MAX_DEPTH:
        raise builder.error(
            f"calls of device functions nest deeper than {MAX_DEPTH} at `{fn.__name__}`",
            fix="end the recursion on a compile-time condition",
        )
    source = function_source(fn)
    signature = inspect.signature(fn, follow_wrapped=False)
    wrong = misfit(signature, fn.__name__, args, kwargs)
    if wrong is not None:
        raise builder.error(f"`{fn.__name__}`: {wrong[0]}", fix=wrong[1])
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    inner = Frame(source, builder.region, caller=frame)
    for name, value in bound.arguments.items():
        bind(engine, inner, name, value)
    outer, engine.frame = engine.frame, inner
    native, builder.native = builder.native, 0
    try:
        engine.execute(inner, source.node.body)
    except ReturnValue as returned:
        return returned.value
    finally:
        engine.frame, builder.native = outer, native
    return None


def run(
    engine: Engine,
    frame: Frame,
    node: ast.Call,
    callee: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """The value of a call: of a function that is traced, or of what Python runs now."""
    builder = engine.builder
    fn, all_args, all_kwargs = behind(callee, args, kwargs)
    is_device = isinstance(callee, DeviceFunction)
    if isinstance(fn, FunctionType) and not is_device and _is_language(fn):
        return fn(*all_args, **all_kwargs)
    if isinstance(fn, FunctionType):
        if is_device or of_run_time(fn, *all_args, *all_kwargs.values()):
            builder.hint = None
            return _inline_at(engine, frame, node, fn, all_args, all_kwargs)
        return _python(engine, frame, node, callee, args, kwargs)
    special = BUILTINS.get(fn) if isinstance(fn, (BuiltinFunctionType, type)) else None
    at_run_time = of_run_time(*all_args, *all_kwargs.values())
    if special is not None and at_run_time:
        return special(engine, frame, node, all_args, all_kwargs)
    if at_run_time:
        traced = functools.partial(_traced, engine, frame, node)
        args = tuple(traced(value) for value in args)
        kwargs = {name: traced(value) for name, value in kwargs.items()}
    builder.hint = None
    kept = tuple(settle(builder, value, "t") for value in args)
    named = {name: settle(builder, value, name) for name, value in kwargs.items()}
    return _python(engine, frame, node, callee, kept, named)


def _traced(engine: Engine, frame: Frame, node: ast.Call, value: object) -> object:
    """A function given to what Python runs, so that it is traced when that calls it."""
    if not callable(value) or not isinstance(value, _FUNCTIONS):
        return value
    return lambda *args, **kwargs: run(engine, engine.frame or frame, node, value, args, kwargs)


def _python(
    engine: Engine,
    frame: Frame,
    node: ast.Call,
    callee: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """Runs Python code now, its errors reported at the user's line."""
    builder = engine.builder
    builder.hint = None
    builder.native += 1
    try:
        return call_as_author(callee, args, kwargs)
    except HexcuteError as error:
        if error.span is None or error.span == builder.span:
            error.span = _deepest(error) or builder.span
        raise
    except Exception as error:
        where = _deepest(error)
        at = f" at {where}" if where is not None and where.file != frame.source.file else ""
        raise FrontendError(
            f"`{ast.unparse(node.func)}` raised {type(error).__name__}: {error}{at}",
            span=where if where is not None and not at else builder.span,
            fix="Python runs it while tracing, on the arguments shown at the call",
        ) from None
    finally:
        builder.native -= 1


def _deepest(error: BaseException) -> SourceSpan | None:
    """The innermost line of user code that `error` passed through."""
    own = __name__.split(".", 1)[0]
    found: SourceSpan | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.split(".", 1)[0] != own:
            found = SourceSpan(frame.f_code.co_filename, line)
    return found
