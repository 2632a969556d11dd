"""Roles that run one text but for numbers become one role, which asks for its number.

    if in role 0: f(8, x) else: f(16, x + 64)   ->   n = role; f(8 + 8 n, n == 0 ? x : x + 64)

Warp groups that take turns are written as roles of their own. Machine code that each has to itself
takes as many times the room in the instruction cache; as one text it is fetched once for all.
Roles that differ otherwise than in numbers, addresses and names of their own stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import reduce
from math import gcd
from typing import Any

from hexcute_core.dtypes import DType, i32
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
    add,
    cast,
    compare,
    floordiv,
    mul,
    select,
    sub,
)
from hexcute_core.scalar.expr import ScalarBase
from hexcute_core.scalar.numbers import fits
from hexcute_core.scalar.visit import children, rebuild, substitute, walk
from hexcute_core.thread.ir import (
    Assign,
    DeclareArray,
    For,
    If,
    Prim,
    Regs,
    Stmt,
    ThreadProgram,
)
from hexcute_core.thread.visit import statements
from hexcute_core.unions import assert_never

THREAD = Var("threadIdx.x", i32)
_FIRST = Call("shfl.idx", (THREAD, Const(0, i32)), i32)
"""The first thread of a warp, which is in the same role as all of them."""
_FREE = ("bar.named.sync", "bar.named.arrive", "bar.named.any")
"""Primitives whose plain numbers may be known in the run alone."""


class _Apart(Exception):
    """The texts differ in more than numbers."""


@dataclass(frozen=True)
class _Branch:
    """What the threads [first, last) run."""

    first: int
    last: int
    body: tuple[Stmt, ...]


def as_one(program: ThreadProgram) -> ThreadProgram:
    """`program` with roles that stand side by side and run one text made one."""
    # What the lowering computes once has a name, these numbers too.
    threads = {THREAD.name}
    for place, stmt in enumerate(program.body):
        if isinstance(stmt, Assign) and stmt.value in (THREAD, _FIRST):
            threads.add(stmt.var.name)
        branches = _branches(stmt, program.block_dim, threads)
        if len(branches) > 2:
            chain = _chain(_joined(branches, program))
            body = (*program.body[:place], *chain, *program.body[place + 1 :])
            return replace(program, body=body)
    return program


def _branches(stmt: Stmt, block_dim: int, threads: set[str]) -> list[_Branch]:
    """The roles of a chain of conditions on the thread's number, in order."""
    found: list[_Branch] = []
    first, rest = 0, tuple[Stmt, ...]((stmt,))
    while len(rest) == 1 and isinstance(rest[0], If):
        bounds = _bounds(rest[0].cond, threads)
        if bounds is None or bounds[0] != first:
            break
        found.append(_Branch(*bounds, rest[0].then))
        first, rest = bounds[1], rest[0].otherwise
    if found and rest and first < block_dim:
        found.append(_Branch(first, block_dim, rest))
    return found if found and found[-1].last == block_dim else []


def _bounds(cond: Scalar, threads: set[str]) -> tuple[int, int] | None:
    """First and last, exclusive, of the threads for which a role's condition holds."""
    low, high = None, cond
    if isinstance(cond, Binary) and cond.op == "land":
        low, high = cond.a, cond.b
    ends = [_bound(low, "ge", threads), _bound(high, "lt", threads)]
    first = 0 if low is None else ends[0]
    return None if first is None or ends[1] is None else (first, ends[1])


def _bound(cond: Scalar | None, op: str, threads: set[str]) -> int | None:
    if not isinstance(cond, Compare) or cond.op != op:
        return None
    low, high = cond.a, cond.b
    known = isinstance(low, Var) and low.name in threads and isinstance(high, Const)
    return int(high.value) if known and isinstance(high, Const) else None


def _chain(branches: Sequence[_Branch]) -> tuple[Stmt, ...]:
    chain = branches[-1].body
    for branch in reversed(branches[:-1]):
        inside = compare("lt", THREAD, branch.last)
        chain = (If(inside, branch.body, chain),)
    return chain


def _joined(branches: list[_Branch], program: ThreadProgram) -> list[_Branch]:
    """The branches, as many of them as can be one at a time."""
    out: list[_Branch] = []
    at = 0
    while at < len(branches):
        ends = range(len(branches), at, -1)
        tried = ((end, _one(branches[at:end], program)) for end in ends)
        end, made = next((end, made) for end, made in tried if made is not None)
        out.append(made)
        at = end
    return out


def _one(run: list[_Branch], program: ThreadProgram) -> _Branch | None:
    """The branches of `run` as one, None where they are not one text."""
    if len(run) == 1:
        return run[0]
    first, size = run[0].first, run[0].last - run[0].first
    if any(branch.last - branch.first != size for branch in run):
        return None
    number = Var(_unused(program), i32)
    arrays = {s.array: (s.dtype, s.size) for s in program.body if isinstance(s, DeclareArray)}
    try:
        body = _Join(number, len(run), arrays).body([branch.body for branch in run])
    except _Apart:
        return None
    place = floordiv(sub(THREAD, first), size)
    # One lane tells its warp, by which ptxas knows that all lanes agree.
    told = Assign(number, Call("shfl.idx", (place, Const(0, i32)), i32), True)
    return _Branch(first, run[-1].last, (told, *body))


def _unused(program: ThreadProgram) -> str:
    """A name that no variable of the program has."""
    taken = {s.var.name for s in statements(program.body) if isinstance(s, Assign | For)}
    name = "role_number"
    while name in taken:
        name += "_"
    return name


@dataclass
class _Join:
    """Makes one text of `count`, whose `number` says which of them runs; of each, `names` has what
    its variables are called in the first, and `held` what its arrays are: no two of them alike."""

    number: Var
    count: int
    arrays: dict[str, tuple[DType, int]]
    names: list[dict[str, str]] = field(default_factory=list)
    held: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = [{} for _ in range(self.count)]
        self.held = [{} for _ in range(self.count)]

    def body(self, bodies: Sequence[tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """One block; an arrival at a barrier may stand in some of them alone."""
        out: list[Stmt] = []
        places = [0] * self.count
        while any(at < len(body) for at, body in zip(places, bodies)):
            now = [b[at] if at < len(b) else None for at, b in zip(places, bodies)]
            arrivals = [_arrives(s) for s in now]
            if any(arrivals) and not all(arrivals):
                for i, stmt in enumerate(now):
                    if arrivals[i] and stmt is not None:
                        out.append(If(compare("eq", self.number, i), (stmt,)))
                        places[i] += 1
                continue
            out.append(self.node(now))
            places = [at + 1 for at in places]
        return tuple(out)

    def node(self, parts: Sequence[Any]) -> Any:
        """One statement, operand or field of all."""
        one = parts[0]
        if isinstance(one, ScalarBase) and all(isinstance(p, ScalarBase) for p in parts):
            return self.scalar(parts)
        if any(type(p) is not type(one) for p in parts):
            raise _Apart
        if isinstance(one, tuple):
            if len({len(p) for p in parts}) != 1:
                raise _Apart
            return tuple(self.node(each) for each in zip(*parts))
        if not is_dataclass(one) or isinstance(one, type):
            if any(p != one for p in parts):
                raise _Apart
            return one
        if isinstance(one, DeclareArray):
            _declare(self.held, [p.array for p in parts])
        if isinstance(one, For) or (isinstance(one, Assign) and one.declares):
            _declare(self.names, [p.var.name for p in parts])
        return replace(one, **{
            f.name: self.part(one, f.name, [getattr(p, f.name) for p in parts])
            for f in fields(one)
        })  # fmt: skip

    def part(self, one: Any, name: str, values: list[Any]) -> Any:
        """Field `name` of statements or operands of the kind of `one`."""
        if name in ("span", "op"):
            return values[0]
        if name in ("body", "then", "otherwise"):
            return self.body(values)
        if name == "array":
            return self.array(values)
        if name == "multiple":
            return reduce(gcd, values)
        unrolled = isinstance(one, For) and one.unroll and name in ("start", "stop", "step")
        index = (isinstance(one, Regs) and name == "offset") or name == "index"
        if name == "var" or unrolled or index:
            return self.same(values)
        joined = self.node(values)
        if isinstance(one, Prim) and name == "operands" and one.name not in _FREE:
            for before, after in zip(values[0], joined):
                if isinstance(before, Const) and before != after:
                    raise _Apart
        return joined

    def array(self, names: list[str]) -> str:
        """The first's name of an array that each has to itself."""
        for held, name in zip(self.held, names):
            if name not in held and name != names[0]:
                kind = self.arrays.get(name)
                if kind is None or kind != self.arrays.get(names[0]):
                    raise _Apart
            held.setdefault(name, names[0])
            # Two arrays of a role are not one of the first.
            if [own for own, first in held.items() if first == names[0]] != [name]:
                raise _Apart
        return names[0]

    def same(self, parts: Sequence[Scalar]) -> Scalar:
        """What has to be known before the run: as in the first, or apart."""
        joined = self.scalar(parts)
        if type(joined) is not type(parts[0]) or any(node == self.number for node in walk(joined)):
            raise _Apart
        return joined

    def scalar(self, parts: Sequence[Scalar]) -> Scalar:
        """One expression of all, by the role's number where they differ."""
        one = parts[0]
        if any(_head(p) != _head(one) for p in parts):
            return self.pick(parts)
        if isinstance(one, Var):
            own = [self.names[i].get(p.name) for i, p in enumerate(parts) if isinstance(p, Var)]
            same = all(p == one or name == one.name for p, name in zip(parts, own))
            return one if same else self.pick(parts)
        below = list(zip(*map(children, parts)))
        if isinstance(one, Element):
            array = self.array([p.array for p in parts if isinstance(p, Element)])
            return Element(array, tuple(map(self.same, below)), one.dtype)
        if not below:
            # By their text: 0.0 equals -0.0.
            return one if all(repr(p) == repr(one) for p in parts) else self.pick(parts)
        joined = iter([self.scalar(each) for each in below])
        return rebuild(one, lambda _: next(joined))

    def pick(self, parts: Sequence[Scalar]) -> Scalar:
        """Each role's own, by its number."""
        dtype = parts[0].dtype
        if any(p.dtype != dtype for p in parts):
            raise _Apart
        numbers = [int(p.value) for p in parts if isinstance(p, Const) and dtype.is_integer]
        if len(numbers) == self.count:
            step = numbers[1] - numbers[0]
            even = all(n == numbers[0] + i * step for i, n in enumerate(numbers))
            if even and all(fits(n, i32) for n in (*numbers, step, numbers[-1] - numbers[0])):
                return cast(add(numbers[0], mul(self.number, step)), dtype)
        own = [self.renamed(p, i) for i, p in enumerate(parts)]
        chosen = own[-1]
        for i in reversed(range(self.count - 1)):
            chosen = select(compare("eq", self.number, i), own[i], chosen)
        return chosen

    def renamed(self, e: Scalar, role: int) -> Scalar:
        """An expression of a role by the first's names: plain numbers alone."""
        nodes = list(walk(e))
        if any(isinstance(node, (Call, Element)) for node in nodes):
            raise _Apart
        known = self.names[role]
        own = {
            v.name: replace(v, name=known[v.name])
            for v in nodes
            if isinstance(v, Var) and v.name in known
        }
        return substitute(e, own)


def _declare(known: list[dict[str, str]], names: list[str]) -> None:
    """From here on the first calls `names` by its own; what it called so before is gone."""
    for called, name in zip(known, names):
        for old in [own for own, first in called.items() if first == names[0]]:
            del called[old]
        called[name] = names[0]


def _head(e: Scalar) -> tuple[object, ...]:
    """What two expressions have in common that differ in what is below, or in a constant."""
    match e:
        case Unary() | Binary() | Compare():
            return type(e), e.dtype, e.op
        case Call():
            return type(e), e.dtype, e.name, len(e.args)
        case Const() | Var() | Select() | Cast() | Element():
            return type(e), e.dtype
        case _:
            assert_never(e)


def _arrives(stmt: Stmt | None) -> bool:
    return isinstance(stmt, Prim) and stmt.name == "bar.named.arrive"
