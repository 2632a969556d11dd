"""What is known of integer variables along one path: an interval, or a pipeline's slot.

[a, b] op [c, d] bounds every x op y with x in [a, b], y in [c, d]; None is no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hexcute_core.scalar import Binary, Cast, Compare, Const, Scalar, Select, Unary, Var
from hexcute_core.scalar.poly import difference

Interval: TypeAlias = tuple["int | None", "int | None"]
UNKNOWN: Interval = (None, None)


@dataclass(frozen=True)
class SlotNumber:
    """The slot of `pipeline` that was waited for `since` waits before the latest one."""

    pipeline: str
    since: int


Known: TypeAlias = "Interval | SlotNumber"
Env: TypeAlias = Mapping[str, Known]


def interval(e: Scalar, env: Env) -> Interval:
    """Bounds of an integer scalar."""
    match e:
        case Const(value=int(value)):
            return int(value), int(value)
        case Var():
            known = env.get(e.name, UNKNOWN)
            return (0, None) if isinstance(known, SlotNumber) else known
        case Cast():
            return interval(e.a, env)
        case Binary(op="add"):
            (a, b), (c, d) = interval(e.a, env), interval(e.b, env)
            return _plus(a, c), _plus(b, d)
        case Binary(op="sub"):
            (a, b), (c, d) = interval(e.a, env), interval(e.b, env)
            return _plus(a, _minus(d)), _plus(b, _minus(c))
        case Binary(op="mod", b=Const(value=int(value))) if value > 0:
            return 0, int(value) - 1
        case Select():
            return hull(interval(e.a, env), interval(e.b, env))
        case _:
            return UNKNOWN


def decide(e: Scalar, env: Env) -> bool | None:
    """Whether a condition holds, where that is certain."""
    match e:
        case Const():
            return bool(e.value)
        case Compare():
            known = difference(e.a, e.b) if e.a.dtype.is_integer else None
            (a, b), (c, d) = interval(e.a, env), interval(e.b, env)
            low, high = (known, known) if known is not None else (
                _plus(a, _minus(d)), _plus(b, _minus(c))
            )  # fmt: skip
            return _compared(e.op, low, high)
        case Unary(op="not"):
            inner = decide(e.a, env)
            return None if inner is None else not inner
        case Binary(op="land"):
            sides = decide(e.a, env), decide(e.b, env)
            return False if False in sides else None if None in sides else True
        case Binary(op="lor"):
            sides = decide(e.a, env), decide(e.b, env)
            return True if True in sides else None if None in sides else False
        case _:
            return None


def _compared(op: str, low: int | None, high: int | None) -> bool | None:
    """Whether `x op 0` for x in [low, high]."""
    below = high is not None and high < 0
    above = low is not None and low > 0
    at_most = high is not None and high <= 0
    at_least = low is not None and low >= 0
    yes, no = {
        "lt": (below, at_least),
        "le": (at_most, above),
        "gt": (above, at_most),
        "ge": (at_least, below),
        "eq": (at_most and at_least, below or above),
        "ne": (below or above, at_most and at_least),
    }[op]
    return True if yes else False if no else None


def hull(a: Interval, b: Interval) -> Interval:
    """The interval that holds both."""
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return low, high


def join(a: Env, b: Env) -> dict[str, Known]:
    """What holds on both paths."""
    out: dict[str, Known] = {}
    for name in a.keys() & b.keys():
        x, y = a[name], b[name]
        if x == y:
            out[name] = x
        elif not isinstance(x, SlotNumber) and not isinstance(y, SlotNumber):
            out[name] = hull(x, y)
    return out


def widen(old: Env, new: Env) -> dict[str, Known]:
    """What holds on both paths, with every bound that moved given up: chains of it end."""
    out = join(old, new)
    for name, known in out.items():
        before = old[name]
        if not isinstance(known, SlotNumber) and not isinstance(before, SlotNumber):
            low = known[0] if known[0] == before[0] else None
            high = known[1] if known[1] == before[1] else None
            out[name] = (low, high)
    return out


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _minus(a: int | None) -> int | None:
    return None if a is None else -a
