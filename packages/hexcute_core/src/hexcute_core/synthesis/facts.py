"""What is known of a scalar at compile time: d | e (a divisor) and e <= u (an upper bound).

Divisors come from constants, launch promises and the definitions of variables; they decide how
many bytes a copy may move. Bounds prove that an edge needs no predicate.
"""

from __future__ import annotations

from math import gcd

from hexcute_core.scalar import Binary, Cast, Compare, Const, Scalar, Select, Var
from hexcute_core.tile import Assign, For, TileProgram, While
from hexcute_core.tile.visit import statements

_ANY = 1
# Rounds of a loop of which nothing is known: a K of 1024 in steps of 32.
UNKNOWN_TRIPS = 32


class Facts:
    """Divisors and bounds of the scalars of one program."""

    def __init__(self, program: TileProgram) -> None:
        self._defs: dict[str, list[Scalar]] = {}
        self._loops: dict[str, For] = {}
        self._promise = program.promise
        self._symbols = frozenset(program.symbols)
        self._block_dim = program.block_dim
        self._grid = dict(zip(("blockIdx.x", "blockIdx.y", "blockIdx.z"), program.grid_dim))
        for stmt in statements(program.body):
            if isinstance(stmt, Assign):
                self._defs.setdefault(stmt.var.name, []).append(stmt.value)
            elif isinstance(stmt, For):
                self._loops[stmt.var.name] = stmt
        self._divisors: dict[str, int] = {}
        self._bounds: dict[str, int | None] = {}

    def divisor(self, e: Scalar) -> int:
        """The largest known d >= 0 with d | e; 0 means that e is 0."""
        match e:
            case Const():
                return abs(int(e.value)) if e.dtype.is_integer else _ANY
            case Var():
                return self._var_divisor(e.name)
            case Cast():
                return self.divisor(e.a) if e.dtype.is_integer else _ANY
            case Select():
                return gcd(self.divisor(e.a), self.divisor(e.b))
            case Binary(op="add" | "sub" | "min" | "max" | "mod"):
                return gcd(self.divisor(e.a), self.divisor(e.b))
            case Binary(op="mul"):
                return self.divisor(e.a) * self.divisor(e.b)
            case Binary(op="shl", b=Const() as b):
                return self.divisor(e.a) << int(b.value)
            case Binary(op="floordiv", b=Const() as b):
                whole = self.divisor(e.a)
                return whole // int(b.value) if b.value and whole % b.value == 0 else _ANY
            case Binary(op="shr", b=Const() as b):
                whole = self.divisor(e.a)
                return whole >> int(b.value) if whole % (1 << int(b.value)) == 0 else _ANY
            case Binary(op="and", b=Const() as b):
                low = int(b.value) & -int(b.value)
                return gcd(self.divisor(e.a), low) if low else 0
            case _:
                return _ANY

    def _var_divisor(self, name: str) -> int:
        if name in self._symbols:
            return self._promise.multiple(name)
        if name not in self._divisors:
            # A variable defined through itself starts at "divisible by anything" and shrinks.
            self._divisors[name] = 0
            while True:
                found = self._from_definitions(name)
                if found == self._divisors[name]:
                    break
                self._divisors[name] = found
        return self._divisors[name]

    def _from_definitions(self, name: str) -> int:
        found = 0
        loop = self._loops.get(name)
        if loop is not None:
            found = gcd(self.divisor(loop.start), self.divisor(loop.step))
        elif name not in self._defs:
            return _ANY
        for value in self._defs.get(name, ()):
            found = gcd(found, self.divisor(value))
        return found

    def upper(self, e: Scalar) -> int | None:
        """A constant u with e <= u, for e >= 0, or None."""
        match e:
            case Const():
                return int(e.value)
            case Var():
                return self._var_upper(e.name)
            case Cast():
                return self.upper(e.a)
            case Compare():
                return 1
            case Binary(op="add" | "mul"):
                a, b = self.upper(e.a), self.upper(e.b)
                if a is None or b is None:
                    return None
                return a + b if e.op == "add" else a * b
            case Binary(op="and" | "mod", b=Const() as b):
                return int(b.value) - (e.op == "mod")
            case Binary(op="min"):
                known = [u for u in (self.upper(e.a), self.upper(e.b)) if u is not None]
                return min(known, default=None)
            case Binary(op="floordiv", b=Const() as b):
                a = self.upper(e.a)
                return None if a is None or b.value <= 0 else a // int(b.value)
            case Binary(op="shr", b=Const() as b):
                a = self.upper(e.a)
                return None if a is None else a >> int(b.value)
            case _:
                return None

    def _var_upper(self, name: str) -> int | None:
        if name == "threadIdx.x":
            return self._block_dim - 1
        if name in self._grid:
            blocks = self.upper(self._grid[name])
            return None if blocks is None else blocks - 1
        if name not in self._bounds:
            self._bounds[name] = None
            loop, defs = self._loops.get(name), self._defs.get(name, [])
            if loop is not None and not defs:
                stop = self.upper(loop.stop)
                self._bounds[name] = None if stop is None else max(stop - 1, 0)
            elif loop is None and len(defs) == 1:
                self._bounds[name] = self.upper(defs[0])
        return self._bounds[name]

    def trips(self, loop: For | While) -> int:
        """Estimated rounds of a loop: exact where its bounds are constant."""
        match loop:
            case For(start=Const() as start, stop=Const() as stop, step=Const() as step):
                return max(0, -(-int(stop.value - start.value) // int(step.value)))
            case For() | While():
                return UNKNOWN_TRIPS
