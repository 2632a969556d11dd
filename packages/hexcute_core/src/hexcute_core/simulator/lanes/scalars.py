"""compile(e) = a function from a machine to the value of `e` on every lane.

An expression is translated once; running it costs one numpy call a node, or plain Python
arithmetic where all operands are the same for every lane. Lanes that do not execute compute
too, what they get is never stored; only where a lane may fail or lanes talk does it matter who
computes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hexcute_core.dtypes import DType, boolean
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Element,
    Scalar,
    Select,
    Unary,
    Var,
)
from hexcute_core.scalar.inline import MEANT, text_of
from hexcute_core.scalar.visit import may_fail
from hexcute_core.simulator.lanes.arithmetic import (
    COMPARE,
    MOST_PRODUCTS,
    binary_function,
    power_function,
    unary_function,
)
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import Array, Value, broadcast, convert, storage, wrap_int
from hexcute_core.simulator.lanes.warp import CALLS
from hexcute_core.unions import assert_never

Evaluate = Callable[[LaneState], Value]


def compile_scalar(e: Scalar) -> Evaluate:
    """The evaluator of `e`; SimulationError for a call that has no meaning here."""
    match e:
        case Const():
            constant = constant_value(e.value, e.dtype)
            return lambda m: constant
        case Var():
            return _variable(e.name)
        case Unary():
            return _unary(e)
        case Binary():
            return _binary(e)
        case Compare():
            return _compare(e)
        case Select():
            return _select(e)
        case Cast():
            inner, source, target = compile_scalar(e.a), e.a.dtype, e.dtype
            return lambda m: convert(inner(m), source, target)
        case Element():
            return _element(e)
        case Call():
            return _call(e)
        case _:
            assert_never(e)


def constant_value(value: int | float | bool, dtype: DType) -> Value:
    """A Python constant as the value all lanes share."""
    if dtype.kind == "bool":
        return bool(value)
    if dtype.is_integer:
        return wrap_int(int(value), dtype)
    return convert(np.float64(value), dtype, dtype)


def _variable(name: str) -> Evaluate:
    def run(m: LaneState) -> Value:
        try:
            return m.vars[name]
        except KeyError:
            m.fail(f"variable {name} has no value")

    return run


SPECIAL = {
    "exp": 1, "exp2": 1, "log": 1, "log2": 1, "sqrt": 1, "rsqrt": 1, "rcp": 1, "tanh": 1,
    "sin": 1, "cos": 1, "div": 1, "pow": 2,
}  # fmt: skip
"""Operations of the special-function unit that each of these takes on floats."""


def _special(name: str, run: Evaluate) -> Evaluate:
    """`run`, counted."""
    amount = SPECIAL[name]

    def counted(m: LaneState) -> Value:
        m.count_special(name, amount)
        return run(m)

    return counted


def _unary(e: Unary) -> Evaluate:
    operand, apply = compile_scalar(e.a), unary_function(e.op, e.a.dtype, e.dtype)

    def run(m: LaneState) -> Value:
        return apply(operand(m))

    return _special(e.op, run) if e.op in SPECIAL else run


def _binary(e: Binary) -> Evaluate:
    a, b = compile_scalar(e.a), compile_scalar(e.b)
    if e.op in ("land", "lor") and may_fail(e.b):
        return _short_circuit(e.op, a, b)
    n = e.b.value if e.op == "pow" and isinstance(e.b, Const) else 0
    if e.dtype.is_float and n in range(1, MOST_PRODUCTS + 1):
        product = power_function(int(n), e.dtype)
        return lambda m: product(a(m))
    # Logical operators take booleans and give booleans; the others work in their own type.
    apply = binary_function(e.op, e.dtype)
    run: Evaluate
    if isinstance(e.b, Const):
        second = constant_value(e.b.value, e.b.dtype)
        run = lambda m: apply(m, a(m), second)  # noqa: E731
    else:
        run = lambda m: apply(m, a(m), b(m))  # noqa: E731
    return _special(e.op, run) if e.op in SPECIAL and e.dtype.is_float else run


def _compare(e: Compare) -> Evaluate:
    a, b, apply = compile_scalar(e.a), compile_scalar(e.b), COMPARE[e.op]

    def run(m: LaneState) -> Value:
        result: Value = apply(a(m), b(m))
        return result if isinstance(result, np.ndarray) else bool(result)

    return run


def _select(e: Select) -> Evaluate:
    condition, a, b = compile_scalar(e.cond), compile_scalar(e.a), compile_scalar(e.b)
    cell = storage(e.dtype)
    apart = may_fail(e.a) or may_fail(e.b)

    def run(m: LaneState) -> Value:
        picked = condition(m)
        if not isinstance(picked, np.ndarray):
            return a(m) if picked else b(m)
        if apart:
            left, right = _under(m, picked, a), _under(m, ~picked, b)
            return np.where(picked, left, right).astype(cell, copy=False)
        return np.where(picked, a(m), b(m)).astype(cell, copy=False)

    return run


def _under(m: LaneState, condition: Array, run: Evaluate) -> Value:
    """The value as only the lanes compute it for which `condition` holds."""
    before = m.mask
    m.mask = condition if before is None else before & condition
    try:
        return run(m)
    finally:
        m.mask = before


def _short_circuit(op: str, a: Evaluate, b: Evaluate) -> Evaluate:
    """`a and b`, `a or b` where it matters who computes b: the lanes for which a decides nothing
    compute it, no others."""

    def run(m: LaneState) -> Value:
        first = a(m)
        if not isinstance(first, np.ndarray):
            return b(m) if bool(first) == (op == "land") else bool(first)
        known = broadcast(first, boolean, m.lanes).astype(np.bool_)
        second = _under(m, known if op == "land" else ~known, b)
        joined: Array = known & second if op == "land" else known | second
        return joined

    return run


def _element(e: Element) -> Evaluate:
    array, indices = e.array, [compile_scalar(i) for i in e.indices]
    if len(indices) == 1:
        (only,) = indices
        return lambda m: m.element(array, (only(m),))
    return lambda m: m.element(array, tuple(index(m) for index in indices))


def _call(e: Call) -> Evaluate:
    if e.name.startswith(MEANT):
        return compile_scalar(e.args[-1])
    maker = CALLS.get(e.name)
    if maker is None and text_of(e.name) is not None:
        raise SimulationError(
            f"the simulator has no meaning for the instructions `{text_of(e.name)}`",
            fix="say what they compute, hx.ptx(..., meaning=expression), or run it on a GPU",
        )
    if maker is None:
        raise SimulationError(
            f"the simulator has no meaning for `{e.name}`",
            fix=f"use one of {', '.join(sorted(CALLS))}, or run this kernel on a GPU",
        )
    apply, arguments = maker(e.dtype), [compile_scalar(a) for a in e.args]
    return lambda m: apply(m, *[argument(m) for argument in arguments])
