"""Walking scalar expressions: children, rebuilding with new children, substitution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hexcute_core.scalar import build
from hexcute_core.scalar.expr import (
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
from hexcute_core.unions import assert_never


def children(e: Scalar) -> tuple[Scalar, ...]:
    match e:
        case Const() | Var():
            return ()
        case Unary() | Cast():
            return (e.a,)
        case Binary() | Compare():
            return (e.a, e.b)
        case Select():
            return (e.cond, e.a, e.b)
        case Element():
            return e.indices
        case Call():
            return e.args
        case _:
            assert_never(e)


def rebuild(e: Scalar, f: Callable[[Scalar], Scalar]) -> Scalar:
    """`e` with every child replaced by `f(child)`, folding again on the way."""
    match e:
        case Const() | Var():
            return e
        case Unary():
            return build.unary(e.op, f(e.a), e.dtype)
        case Cast():
            return build.cast(f(e.a), e.dtype)
        case Binary():
            return build.binary(e.op, f(e.a), f(e.b))
        case Compare():
            return build.compare(e.op, f(e.a), f(e.b))
        case Select():
            return build.select(f(e.cond), f(e.a), f(e.b))
        case Element():
            return Element(e.array, tuple(f(i) for i in e.indices), e.dtype)
        case Call():
            return Call(e.name, tuple(f(a) for a in e.args), e.dtype)
        case _:
            assert_never(e)


def substitute(e: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """`e` with variables replaced by name."""
    if isinstance(e, Var):
        return values.get(e.name, e)
    return rebuild(e, lambda child: substitute(child, values))


def walk(e: Scalar) -> Iterator[Scalar]:
    """`e` and everything below it, parents first."""
    waiting = [e]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children(node))


def free_vars(e: Scalar) -> frozenset[str]:
    """Names of the variables in `e`."""
    return frozenset(node.name for node in walk(e) if isinstance(node, Var))


def is_const(e: object, value: int | float | bool | None = None) -> bool:
    """Whether `e` is a constant node (equal to `value`, where given)."""
    return isinstance(e, Const) and (value is None or e.value == value)


def conditional(e: Scalar) -> tuple[Scalar, ...]:
    """The children of `e` that a thread computes under a condition alone: branches of a select,
    the right side of `land` and `lor`."""
    match e:
        case Select():
            return (e.a, e.b)
        case Binary(op="land" | "lor"):
            return (e.b,)
        case _:
            return ()


def between_lanes(e: Scalar) -> Call | None:
    """A call in `e` that all lanes of a warp must make together, if there is one."""
    calls = (node for node in walk(e) if isinstance(node, Call))
    return next((c for c in calls if c.name.startswith(("shfl.", "vote."))), None)


def may_fail(e: Scalar) -> bool:
    """Whether computing `e` where it is not wanted may be an error: a division by what may be
    zero, an element that may not be there, a call."""
    return any(
        isinstance(node, (Element, Call))
        or (
            isinstance(node, Binary)
            and node.op in ("floordiv", "cdiv", "mod")
            and node.dtype.is_integer
            and not (isinstance(node.b, Const) and node.b.value != 0)
        )
        for node in walk(e)
    )
