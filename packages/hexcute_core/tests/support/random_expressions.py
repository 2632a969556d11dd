"""Random expressions of the language with what they mean, and kernels that compute many of them.

An expression mixes register tiles of every type, scalars of the launch, typed constants and Python
numbers, under all operators, casts and functions. It avoids two things: a product of f32 or f64
that is added there, which a GPU may round once instead of twice, and a division by zero.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from expression_values import (
    CELLS,
    COMPARISONS,
    ERRORS,
    EXACT_FUNCTIONS,
    FLOATS,
    FUNCTIONS,
    INTEGERS,
    SUB_BYTE,
    Cells,
    bits,
    calculated,
    close,
    converted,
    meeting,
    rounded,
    shifted,
    span,
    wrapped,
)

import hexcute_core as hx

LANES = 64
STORED = tuple(t for t in CELLS if t != "boolean")
SCALARS = ("i8", "u8", "i16", "i32", "u32", "i64", "u64", "f16", "f32", "f64")
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 1e30, -1e30, float("inf"), float("nan"))


@dataclass(frozen=True)
class Expression:
    """Text of the language, its type, and its cells. `tile` where it is one element a lane, else
    one number; `product` where it is a product of f32 or f64; `error` is what it may be off by."""

    text: str
    dtype: str
    cells: Cells
    tile: bool
    product: bool = False
    error: float = 0.0


def inputs(seed: int) -> dict[str, Cells]:
    """Cells of the tiles `a_TYPE`, `b_TYPE` and of the scalars `s_TYPE`, ends of types included."""
    rng = random.Random(seed)
    found: dict[str, Cells] = {}
    for t in STORED:
        for name in ("a", "b"):
            found[f"{name}_{t}"] = [_number(rng, t) for _ in range(LANES)]
    for t in SCALARS:
        found[f"s_{t}"] = [_number(rng, t, finite=True)] * LANES
    return found


def _number(rng: random.Random, t: str, finite: bool = False) -> Any:
    if t in FLOATS:
        kinds = (rng.choice(_SPECIAL), rng.uniform(-4, 4), rng.uniform(-300, 300))
        value = rounded([rng.choice(kinds)], t)[0]
        return value if not finite or abs(value) <= 60000 else 1.5
    low, high = span(t)
    small = min(high, max(low, rng.randint(-9, 9)))
    return rng.choice((low, high, small, small, rng.randint(low, high)))


class Maker:
    """Draws expressions over the cells of `inputs`."""

    def __init__(self, seed: int, known: dict[str, Cells], narrow: bool = True) -> None:
        self.rng = random.Random(seed)
        self.known = known
        self.types = [t for t in STORED if narrow or not t.startswith("f8")]

    def root(self) -> Expression:
        """An expression whose type a tensor can have; one in eight is a function with an error."""
        if self.rng.random() < 0.125:
            return self._approximate()
        e = self.make(self.rng.randint(1, 4))
        return self.cast(e, "i32") if e.dtype in SUB_BYTE else e

    def make(self, depth: int) -> Expression:
        """An expression of at most `depth` operators above one another."""
        if depth <= 0:
            return self._leaf()
        makers = (self._binary,) * 6 + (self._compare, self._cast, self._unary, self._where)
        return self.rng.choice(makers)(depth - 1)

    def _leaf(self) -> Expression:
        t = self.rng.choice(self.types)
        kind = self.rng.random()
        if kind < 0.6:
            name = f"{self.rng.choice('ab')}_{t}"
            return Expression(name, t, self.known[name], True)
        if kind < 0.8:
            t = self.rng.choice(SCALARS)
            return Expression(f"s_{t}", t, self.known[f"s_{t}"], False)
        value = _number(self.rng, self.rng.choice(("i16", "f32", "i8", t)))
        text = f"float('{value}')" if isinstance(value, float) else repr(value)
        return Expression(f"hx.cast({text}, {t})", t, converted([value] * LANES, t), False)

    def cast(self, e: Expression, t: str) -> Expression:
        """`e` as one of type `t`."""
        if e.dtype == t:
            return e
        return Expression(f"hx.cast({e.text}, {t})", t, converted(e.cells, t), e.tile)

    def _cast(self, depth: int) -> Expression:
        narrow = [t for t in FLOATS if t in self.types]
        return self.cast(self.make(depth), self.rng.choice((*INTEGERS, *narrow, "boolean")))

    def _unary(self, depth: int) -> Expression:
        e = self.make(depth)
        if e.dtype in FLOATS:
            op = self.rng.choice(("-", "abs", "isnan", *EXACT_FUNCTIONS))
            return self.real_unary(op, e)
        op = self.rng.choice(("-", "~", "abs"))
        return self.whole_unary(op, e)

    def real_unary(self, op: str, e: Expression) -> Expression:
        """-x, abs(x), hx.isnan(x), hx.floor(x) or hx.ceil(x) of floats."""
        if op == "isnan":
            return Expression(f"hx.isnan({e.text})", "boolean", [x != x for x in e.cells], e.tile)
        if op in EXACT_FUNCTIONS:
            cells = [float(x) for x in EXACT_FUNCTIONS[op](np.array(e.cells))]
            return Expression(f"hx.{op}({e.text})", e.dtype, cells, e.tile)
        cells = [-x if op == "-" else abs(x) for x in e.cells]
        text = f"(-{e.text})" if op == "-" else f"abs({e.text})"
        return Expression(text, e.dtype, cells, e.tile, e.product)

    def whole_unary(self, op: str, e: Expression) -> Expression:
        """-x, ~x or abs(x) of integers; of conditions in i32, but for ~."""
        if e.dtype == "boolean" and op == "~":
            return Expression(f"(~{e.text})", "boolean", [not x for x in e.cells], e.tile)
        t = "i32" if e.dtype == "boolean" else e.dtype
        number = {"-": lambda x: -int(x), "~": lambda x: ~int(x), "abs": lambda x: abs(int(x))}[op]
        text = f"abs({e.text})" if op == "abs" else f"({op}{e.text})"
        return Expression(text, t, [wrapped(number(x), t) for x in e.cells], e.tile)

    def _pair(self, depth: int) -> tuple[Expression, Expression, str]:
        """Two expressions and the type in which they meet."""
        a, b = self.make(depth), self.make(self.rng.randint(0, depth))
        t = meeting(a.dtype, b.dtype)
        if t is None:
            b, t = self.cast(b, a.dtype), a.dtype
        if a.tile or b.tile or self.rng.random() < 0.6:
            return a, b, t
        return self._tile(a.dtype), b, t

    def _tile(self, t: str) -> Expression:
        if t in STORED:
            return Expression(f"a_{t}", t, self.known[f"a_{t}"], True)
        return self.cast(Expression("a_i32", "i32", self.known["a_i32"], True), t)

    def _literal(self, t: str) -> Expression:
        """A Python number beside an operand of type `t`."""
        value = _number(self.rng, t)
        if isinstance(value, float):
            return Expression(f"float('{value}')", t, [value] * LANES, False)
        return Expression(f"({value})", t, [value] * LANES, False)

    def _binary(self, depth: int) -> Expression:
        a, b, t = self._pair(depth)
        if self.rng.random() < 0.25 and t != "boolean" and t == a.dtype:
            b = self._literal(t)
        if t in FLOATS:
            ops = ["hx.minimum", "hx.maximum", "*", "**"]
            plain = t not in ("f32", "f64") or not (a.product or b.product)
            op = self.rng.choice(ops + ["+", "-"] * 3 if plain else ops)
        elif t == "boolean":
            op = self.rng.choice(("&", "|", "^", "+", "-", "*", "hx.minimum", "hx.maximum"))
        else:
            op = self.rng.choice(
                ("+", "-", "*", "//", "%", "hx.cdiv", "&", "|", "^", "<<", ">>", "**",
                 "hx.minimum", "hx.maximum")
            )  # fmt: skip
        if op in ("<<", ">>"):
            return self.shift(op, a, b)
        if op == "**":
            a = self.cast(a, t)
            return self.power(a, self.rng.randint(1, 4) if t in FLOATS else self.rng.randint(0, 7))
        return self.binary(op, a, b, t)

    def shift(self, op: str, a: Expression, b: Expression) -> Expression:
        """`a op b` in the type of `a`."""
        t = "i32" if a.dtype == "boolean" else a.dtype
        if t in FLOATS or b.dtype in FLOATS:
            a, b, t = self.cast(a, "i32"), self.cast(b, "i32"), "i32"
        count = self.rng.randint(-2, bits(t) + 2)
        if self.rng.random() < 0.5 and not b.tile:
            b = Expression(f"({count})", "i32", [count] * LANES, False)
        cells = [shifted(op == "<<", int(x), int(n), t) for x, n in zip(a.cells, b.cells)]
        return Expression(f"({a.text} {op} {b.text})", t, cells, a.tile or b.tile)

    def power(self, a: Expression, n: int) -> Expression:
        """`a ** n`."""
        t = a.dtype if a.dtype != "boolean" else "i32"
        cells = calculated("**", converted(a.cells, t), [n] * LANES, t)
        return Expression(f"({a.text} ** {n})", t, cells, a.tile, t in ("f32", "f64"))

    def binary(self, op: str, a: Expression, b: Expression, t: str) -> Expression:
        """`a op b`, which meet in `t`."""
        if t == "boolean" and op in "+-*":
            t = "i32"
        x, y = converted(a.cells, t), converted(b.cells, t)
        if op in ("//", "%", "hx.cdiv") and 0 in y:
            b = self._without_zero(self.cast(b, t))
            y = b.cells
        text = f"{op}({a.text}, {b.text})" if op[0] == "h" else f"({a.text} {op} {b.text})"
        product = op == "*" and t in ("f32", "f64")
        return Expression(text, t, calculated(op, x, y, t), a.tile or b.tile, product)

    def _without_zero(self, e: Expression) -> Expression:
        """`e`, which has zeros, with another number in their place."""
        other = span(e.dtype)[0] or 1
        if not e.tile:
            return Expression(f"hx.cast({other}, {e.dtype})", e.dtype, [other] * LANES, False)
        text = f"hx.where({e.text} == 0, hx.cast({other}, {e.dtype}), {e.text})"
        return Expression(text, e.dtype, [x or other for x in e.cells], True)

    def _compare(self, depth: int) -> Expression:
        a, b, t = self._pair(depth)
        if self.rng.random() < 0.3 and a.dtype in INTEGERS:
            far = self.rng.choice((2**40, -1, 300, -(2**70), 0, span(a.dtype)[1]))
            b, t = Expression(f"({far})", "whole", [far] * LANES, False), "whole"
        op = self.rng.choice(tuple(COMPARISONS))
        return self.compare(op, a, b, t)

    def compare(self, op: str, a: Expression, b: Expression, t: str) -> Expression:
        """`a op b` as a condition."""
        x, y = (e.cells if t == "whole" else converted(e.cells, t) for e in (a, b))
        cells = [COMPARISONS[op](p, q) for p, q in zip(x, y)]
        return Expression(f"({a.text} {op} {b.text})", "boolean", cells, a.tile or b.tile)

    def _where(self, depth: int) -> Expression:
        condition = self._compare(min(depth, 1))
        a, b, t = self._pair(depth)
        x, y = converted(a.cells, t), converted(b.cells, t)
        cells = [p if c else q for c, p, q in zip(condition.cells, x, y)]
        return Expression(
            f"hx.where({condition.text}, {a.text}, {b.text})", t, cells,
            condition.tile or a.tile or b.tile, a.product or b.product,
        )  # fmt: skip

    def _approximate(self) -> Expression:
        t = self.rng.choice([t for t in FLOATS if t in self.types])
        return self.approximate(self.rng.choice((*FUNCTIONS, "/")), t)

    def approximate(self, name: str, t: str) -> Expression:
        """A function with an error, of moderate arguments."""
        leaf = self._tile(t)
        within = [min(max(abs(x), 2.0**-6), 32.0) if x == x else 2.0**-6 for x in leaf.cells]
        text = f"hx.minimum(hx.maximum(abs({leaf.text}), {2.0**-6}), 32.0)"
        if name == "/":
            other = self.known[f"b_{t}"]
            cells = calculated("/", other, within, t)
            return Expression(f"(b_{t} / {text})", t, cells, True, error=ERRORS[t])
        cells = rounded(FUNCTIONS[name](np.array(within)), t)
        return Expression(f"hx.{name}({text})", t, cells, True, error=ERRORS[t])


def draw(seed: int, count: int, known: dict[str, Cells], narrow: bool = True) -> list[Expression]:
    """`count` random expressions; `narrow` with 8-bit floats among them."""
    maker = Maker(seed, known, narrow)
    return [maker.root() for _ in range(count)]


def _used(expressions: Sequence[Expression], name: str) -> bool:
    return any(name in e.text for e in expressions)


def kernel_of(expressions: Sequence[Expression], known: dict[str, Cells]) -> tuple[Any, list[str]]:
    """A kernel that computes all of them, and the names of its parameters: the inputs it reads,
    then `o_TYPE` with the results of each type one behind the other."""
    read = [name for name in known if _used(expressions, name)]
    types = sorted({e.dtype for e in expressions})
    params = [
        f"{name}: {name[2:]}" if name[0] == "s" else f"g_{name}: {name[2:]}[{LANES}]"
        for name in read
    ]
    params += [f"o_{t}: {t}[{LANES * sum(e.dtype == t for e in expressions)}]" for t in types]
    lines = [f"def kernel({', '.join(params)}):", "hx.attrs.cuda.grid_dim = 1",
             f"hx.attrs.cuda.block_dim = {LANES}"]  # fmt: skip
    for name in (n for n in read if n[0] != "s"):
        lines.append(f"{name} = hx.register_tensor({name[2:]}, ({LANES},))")
        lines.append(f"hx.copy(hx.global_view(g_{name}, (({LANES},), (1,))), {name})")
    rows = dict.fromkeys(types, 0)
    for number, e in enumerate(expressions):
        lines.append(f"r{number} = hx.register_tensor({e.dtype}, ({LANES},))")
        lines.append(f"r{number}[:] = {e.text}" if e.tile else f"hx.fill(r{number}, {e.text})")
        at = f"o_{e.dtype}[{rows[e.dtype] * LANES}:]"
        lines.append(f"hx.copy(r{number}, hx.global_view({at}, (({LANES},), (1,))))")
        rows[e.dtype] += 1
    text = "\n    ".join(lines) + "\n"
    file = f"<expressions {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"__name__": __name__, "hx": hx}
    scope |= {name: getattr(hx, name) for name in (*CELLS, *SUB_BYTE)}
    exec(compile(text, file, "exec"), scope)
    return hx.kernel(scope["kernel"], cache=False), [*read, *(f"o_{t}" for t in types)]


def arguments(
    expressions: Sequence[Expression], known: dict[str, Cells], names: Sequence[str]
) -> list[Any]:
    """Arrays and numbers for the kernel of `expressions`."""
    found: list[Any] = []
    for name in names:
        t = name[2:]
        if name[0] == "o":
            count = LANES * sum(e.dtype == t for e in expressions)
            found.append(np.zeros(count, CELLS[t]))
        else:
            cells = known[name]
            wide = np.float64 if t in FLOATS else CELLS[t]
            found.append(cells[0] if name[0] == "s" else np.array(cells, wide).astype(CELLS[t]))
    return found


def wrong(
    expressions: Sequence[Expression], names: Sequence[str], left: Sequence[Any]
) -> list[tuple[str, Cells, Cells]]:
    """(text, got, wanted) of the expressions that came out otherwise in the arrays `left`."""
    results = {n[2:]: array for n, array in zip(names, left, strict=True) if n[0] == "o"}
    rows = dict.fromkeys(results, 0)
    found = []
    for e in expressions:
        part = results[e.dtype][rows[e.dtype] * LANES :][:LANES]
        rows[e.dtype] += 1
        kind = float if e.dtype in FLOATS else int
        got = [kind(x) for x in part]
        wanted = [kind(x) for x in e.cells]
        if not close(got, wanted, e.error):
            pairs = [(x, y) for x, y in zip(got, wanted) if not close([x], [y], e.error)][:4]
            found.append((e.text, [x for x, _ in pairs], [y for _, y in pairs]))
    return found
