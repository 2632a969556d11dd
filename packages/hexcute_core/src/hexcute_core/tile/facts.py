"""What is known of a scalar at compile time: d | e (a divisor) and low <= e <= high (bounds).

Divisors come from constants, launch promises and the definitions of variables; they decide how
many bytes a copy may move. Bounds prove that an edge needs no predicate: the lower one that a tile
does not begin before its tensor, the upper one that it does not reach past it. What a variable that
is defined through others may be is the most that all definitions together bear out: each starts at
the strongest fact, and facts that a definition contradicts are given up until none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, lcm
from typing import NamedTuple

from hexcute_core.scalar import Binary, Cast, Compare, Const, Element, Scalar, Select, Unary, Var
from hexcute_core.scalar.bounds import built_in
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import Assign, For, TileProgram, While
from hexcute_core.tile.visit import statements
from hexcute_core.unions import assert_never

_ANY = 1
# Numbers beyond these are known of nothing that a GPU has; squared again and again they would take
# all memory.
_MOST = 1 << 128
# Rounds of a loop of which nothing is known: a K of 1024 in steps of 32.
UNKNOWN_TRIPS = 32


class Bounds(NamedTuple):
    """`low <= e <= high`; None where nothing is known."""

    low: int | None
    high: int | None


UNKNOWN = Bounds(None, None)
NATURAL = Bounds(0, None)


class Facts:
    """Divisors and bounds of the scalars of one program."""

    def __init__(self, program: TileProgram) -> None:
        self._defs: dict[str, list[Scalar]] = {}
        self._multiples: dict[str, list[int]] = {}
        self._loops: dict[str, list[For]] = {}
        self._promise = program.promise
        self._symbols = frozenset(program.symbols)
        self._scalars = frozenset(name for name, _ in program.scalars)
        self._block_dim = program.block_dim
        self._grid = dict(zip(("blockIdx.x", "blockIdx.y", "blockIdx.z"), program.grid_dim))
        for stmt in statements(program.body):
            if isinstance(stmt, Assign):
                self._defs.setdefault(stmt.var.name, []).append(stmt.value)
                self._multiples.setdefault(stmt.var.name, []).append(stmt.multiple)
            elif isinstance(stmt, For):
                self._loops.setdefault(stmt.var.name, []).append(stmt)
        names = {**self._defs, **self._loops}
        self._bounds: dict[str, Bounds] = {}
        self._natural = frozenset(names)
        while True:
            self._bounds.clear()
            # In the program's order: what a definition reads is known by then.
            found = [n for n in names if n in self._natural and (self._defined_low(n) or 0) >= 0]
            kept = frozenset(found)
            if kept == self._natural:
                break
            self._natural = kept
        self._divisors = dict.fromkeys(names, 0)
        while True:
            divisors = {name: self._defined_divisor(name) for name in names}
            if divisors == self._divisors:
                break
            self._divisors = divisors

    def divisor(self, e: Scalar) -> int:
        """The largest known d >= 0 with d | e; 0 means that e is 0."""
        match e:
            case Const():
                return abs(_number(e)) if e.dtype.is_integer else _ANY
            case Var():
                return self._var_divisor(e.name)
            case Cast():
                if not e.dtype.is_integer or not e.a.dtype.is_integer:
                    return _ANY
                d, held = self.divisor(e.a), self.bounds(e.a)
                # What wraps keeps its powers of two alone.
                return d if _cast(held, e) == held else gcd(d, 1 << e.dtype.bits)
            case Unary(op="neg"):
                return gcd(self.divisor(e.a), 1 << e.dtype.bits)
            case Select():
                return gcd(self.divisor(e.a), self.divisor(e.b))
            case Binary(op="min" | "max" | "mod"):
                return gcd(self.divisor(e.a), self.divisor(e.b))
            case Binary(op="add" | "sub" | "mul"):
                a, b = self.divisor(e.a), self.divisor(e.b)
                exact = _binary(e, self.bounds(e.a), self.bounds(e.b))
                wraps = e.dtype.kind == "uint" and _wraps(exact, e)
                found = a * b if e.op == "mul" else gcd(a, b)
                return gcd(found, 1 << e.dtype.bits if wraps or found >= _MOST else 0)
            case Binary(op="shl", b=Const() as b):
                return self.divisor(e.a) << int(b.value)
            case Binary(op="floordiv" | "cdiv", b=Const() as b):
                whole = self.divisor(e.a)
                return whole // abs(int(b.value)) if b.value and whole % b.value == 0 else _ANY
            case Binary(op="shr", b=Const() as b):
                whole = self.divisor(e.a)
                return whole >> int(b.value) if whole % (1 << int(b.value)) == 0 else _ANY
            case Binary(op="and" | "or" | "xor"):
                a, b = self.divisor(e.a), self.divisor(e.b)
                if 0 in (a, b):
                    return 0 if e.op == "and" else a + b
                # Bits that are zero on the right: of one of both, or of both.
                return max(a & -a, b & -b) if e.op == "and" else gcd(a & -a, b & -b)
            case _:
                return _ANY

    def _var_divisor(self, name: str) -> int:
        if name in self._symbols:
            return self._promise.multiple(name)
        return self._divisors.get(name, _ANY)

    def _defined_divisor(self, name: str) -> int:
        found = 0
        for loop in self._loops.get(name, ()):
            found = gcd(found, self.divisor(loop.start), self.divisor(loop.step))
        for value, multiple in zip(self._defs.get(name, ()), self._multiples.get(name, ())):
            found = gcd(found, lcm(self.divisor(value), multiple))
        return found

    def bounds(self, e: Scalar, known: Mapping[str, Bounds] | None = None) -> Bounds:
        """What constants `e` lies between; `known` are variables that the program does not have."""

        def of(part: Scalar) -> Bounds:
            return self.bounds(part, known)

        match e:
            case Const():
                return Bounds(_number(e), _number(e)) if e.dtype.is_integer else UNKNOWN
            case Var():
                if known is not None and e.name in known:
                    return known[e.name]
                own = self._var_bounds(e.name)
                return NATURAL if own == UNKNOWN and e.dtype.kind == "uint" else own
            case Cast() if e.dtype.is_integer and e.a.dtype.is_integer:
                return _cast(of(e.a), e)
            case Compare():
                return Bounds(0, 1)
            case Select():
                return _hull(of(e.a), of(e.b))
            case Unary(op="neg") if e.dtype.kind == "int":
                return _product(of(e.a), Bounds(-1, -1))
            case Binary() if e.dtype.kind == "int":
                return _binary(e, of(e.a), of(e.b))
            case Binary() if e.dtype.kind == "uint":
                found = _binary(e, of(e.a), of(e.b))
                return NATURAL if _wraps(found, e) else found
            case _:
                return NATURAL if e.dtype.kind == "uint" else UNKNOWN

    def _var_bounds(self, name: str) -> Bounds:
        if name == "threadIdx.x":
            return Bounds(0, self._block_dim - 1)
        if name in self._grid:
            blocks = self.bounds(self._grid[name]).high
            return Bounds(0, None if blocks is None else blocks - 1)
        if name.startswith(("gridDim.", "blockDim.")):
            return Bounds(1, None)
        if name in self._symbols or built_in(name) is not None:
            return NATURAL
        if name not in self._bounds:
            # Until it is known: all that a definition through itself may use.
            self._bounds[name] = Bounds(0 if name in self._natural else None, None)
            self._bounds[name] = self._defined_bounds(name)
        return self._bounds[name]

    def _defined_bounds(self, name: str) -> Bounds:
        loops, defs = self._loops.get(name, []), self._defs.get(name, [])
        if len(loops) + len(defs) != 1:
            return Bounds(0 if name in self._natural else None, None)
        return _counted(self, loops[0]) if loops else self.bounds(defs[0])

    def _defined_low(self, name: str) -> int | None:
        """The least that a definition gives `name`; -1 where one gives no bound."""
        found = [_counted(self, loop) for loop in self._loops.get(name, ())]
        found += [self.bounds(value) for value in self._defs.get(name, ())]
        return min((-1 if b.low is None else b.low for b in found), default=None)

    def may_be_negative(self, e: Scalar) -> bool:
        """Whether `e` is known to reach below 0, or is of unknown sign and computed from a number
        given at launch or read from memory. What comes from indices of blocks and extents alone is
        taken for a place in the tensor."""
        low = self.bounds(e).low
        return low < 0 if low is not None else self._given(e, set())

    def _given(self, e: Scalar, seen: set[str]) -> bool:
        for node in walk(e):
            if isinstance(node, Element):
                return True
            if isinstance(node, Var) and node.name not in seen:
                seen.add(node.name)
                loops = [part for f in self._loops.get(node.name, ()) for part in (f.start, f.stop)]
                sources = [*self._defs.get(node.name, ()), *loops]
                if node.name in self._scalars or any(self._given(s, seen) for s in sources):
                    return True
        return False

    def trips(self, loop: For | While) -> int:
        """Estimated rounds of a loop: exact where its bounds are constant."""
        match loop:
            case For(start=Const() as start, stop=Const() as stop, step=Const() as step):
                return max(0, -(-int(stop.value - start.value) // int(step.value)))
            case For() | While():
                return UNKNOWN_TRIPS
            case _:
                assert_never(loop)


def _counted(facts: Facts, loop: For) -> Bounds:
    """What a loop's counter may be inside it."""
    start, stop, step = (facts.bounds(e) for e in (loop.start, loop.stop, loop.step))
    if step.low is not None and step.low > 0:
        return Bounds(start.low, None if stop.high is None else stop.high - 1)
    if step.high is not None and step.high < 0:
        return Bounds(None if stop.low is None else stop.low + 1, start.high)
    return UNKNOWN


def _number(e: Const) -> int:
    """An integer constant; in an unsigned type it is counted from zero."""
    return int(e.value) % 2**e.dtype.bits if e.dtype.kind == "uint" else int(e.value)


def _wraps(exact: Bounds, e: Binary) -> bool:
    """Whether an unsigned operation may leave its type, if its numbers were without end."""
    low, high = exact
    return low is None or low < 0 or high is None or high >= 2**e.dtype.bits


def _cast(a: Bounds, e: Cast) -> Bounds:
    """`a` where the type holds all of it, else what the type holds."""
    low = 0 if e.dtype.kind == "uint" else -(2 ** (e.dtype.bits - 1))
    high = low + 2**e.dtype.bits - 1
    source = e.a.dtype
    fits = source.bits < e.dtype.bits or (source.bits == e.dtype.bits and source.kind == "int")
    if a.low is not None and a.low >= low and (fits or (a.high is not None and a.high <= high)):
        return a
    return Bounds(0, None) if e.dtype.kind == "uint" else UNKNOWN


def _binary(e: Binary, a: Bounds, b: Bounds) -> Bounds:
    """Bounds of an operation on integers; quotients round down."""
    positive = b.low is not None and b.low == b.high and b.low > 0
    by = b.low if positive and b.low is not None else 1
    natural = a.low is not None and a.low >= 0
    match e.op:
        case "add":
            return Bounds(_plus(a.low, b.low), _plus(a.high, b.high))
        case "sub":
            return Bounds(_plus(a.low, _minus(b.high)), _plus(a.high, _minus(b.low)))
        case "mul":
            return _product(a, b)
        case "min":
            lows, highs = _known(a.low, b.low), _known(a.high, b.high)
            return Bounds(min(lows) if len(lows) == 2 else None, min(highs, default=None))
        case "max":
            lows, highs = _known(a.low, b.low), _known(a.high, b.high)
            return Bounds(max(lows, default=None), max(highs) if len(highs) == 2 else None)
        case "and" if positive:
            return Bounds(0, by)
        case "mod" if positive:
            top = by - 1 if a.high is None else min(by - 1, max(a.high, 0))
            return Bounds(0, top if natural else by - 1)
        case "floordiv" if positive:
            return Bounds(_quotient(a.low, by), _quotient(a.high, by))
        case "shr" if b.low is not None and b.low == b.high:
            return Bounds(*(None if x is None else x >> b.low for x in a))
        case "shl" if b.low is not None and b.low == b.high:
            return Bounds(*(None if x is None else x << b.low for x in a))
        case "cdiv" if positive:
            low, high = _minus(_quotient(_minus(a.low), by)), _minus(_quotient(_minus(a.high), by))
            return Bounds(low, high)
        case "mod" if b.low is not None and b.low > 0:
            # The sign is the divisor's.
            return Bounds(0, None if b.high is None else b.high - 1)
        case "floordiv" if natural and b.low is not None and b.low > 0:
            return Bounds(0, a.high)
        case "or" | "xor" if natural and b.low is not None and b.low >= 0:
            return NATURAL
        case _:
            return UNKNOWN


def _product(a: Bounds, b: Bounds) -> Bounds:
    if None not in (*a, *b):
        ends = [x * y for x in a for y in b if x is not None and y is not None]
        low, high = min(ends), max(ends)
        return Bounds(low if low > -_MOST else None, high if high < _MOST else None)
    naturals = all(x.low is not None and x.low >= 0 for x in (a, b))
    if naturals:
        return Bounds(min((a.low or 0) * (b.low or 0), _MOST), None)
    return UNKNOWN


def _hull(a: Bounds, b: Bounds) -> Bounds:
    lows, highs = _known(a.low, b.low), _known(a.high, b.high)
    low, high = min(lows, default=None), max(highs, default=None)
    return Bounds(low if len(lows) == 2 else None, high if len(highs) == 2 else None)


def _known(*ends: int | None) -> list[int]:
    return [end for end in ends if end is not None]


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _minus(a: int | None) -> int | None:
    return None if a is None else -a


def _quotient(a: int | None, by: int) -> int | None:
    return None if a is None else a // by
