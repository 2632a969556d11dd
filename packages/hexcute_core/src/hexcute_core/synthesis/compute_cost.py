"""Clocks of what threads compute: `warps * values * clocks per warp instruction`.

A multiprocessor starts 128 simple 32-bit operations per clock, 16 special functions and 32 lanes of
a shuffle: CUDA C++ Programming Guide, "Arithmetic Instructions", compute capability 8.x and 9.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hexcute_core.arch import Arch, Fragment, Mode, product
from hexcute_core.arch.conversions import Conversion, conversion
from hexcute_core.arch.groups import WARP
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
from hexcute_core.scalar.expr import BinaryOp, UnaryOp
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import (
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    Prefetch,
    Rearrange,
    Reduce,
    Relabel,
    Scan,
    Stmt,
    Tensor,
    While,
)
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.layouts import folded, layout_of
from hexcute_core.tile.visit import bodies, scalars
from hexcute_core.unions import assert_never

SIMPLE = 0.25
SPECIAL = 2.0
SHUFFLE = 1.0
# A division is a reciprocal and a few steps of refinement.
DIVISION = 4.0
# A function of CUDA's library on its full range is some thirty operations.
LIBRARY = 8.0
# A store and a load of a word per lane, and what is left of two barriers when all warps are there.
EXCHANGE = 2.0
BARRIERS = 60.0
# From an operation to the next that needs its result, and to what a shuffle tells.
DEPENDENT = 4.0
SHUFFLE_LATENCY = 24.0


def scalar_clocks(e: Scalar) -> float:
    """Clocks of one warp that evaluates `e` once."""
    return sum(_node_clocks(node) for node in walk(e))


def _node_clocks(e: Scalar) -> float:
    match e:
        case Unary():
            return _unary_clocks(e.op)
        case Binary():
            return _binary_clocks(e.op)
        case Compare() | Select() | Cast():
            return SIMPLE
        case Call():
            return SHUFFLE
        case Const() | Var() | Element():
            return 0.0
        case _:
            assert_never(e)


def _unary_clocks(op: UnaryOp) -> float:
    match op:
        case "neg" | "not" | "inv" | "abs" | "floor" | "ceil" | "isnan":
            return SIMPLE
        case "exp" | "exp2" | "log" | "log2" | "sqrt" | "rsqrt" | "rcp":
            return SPECIAL
        case "tanh" | "sin" | "cos" | "erf":
            return LIBRARY
        case _:
            assert_never(op)


def _binary_clocks(op: BinaryOp) -> float:
    match op:
        case (
            "add" | "sub" | "mul" | "min" | "max" | "and" | "or" | "xor" | "shl" | "shr" | "land"
            | "lor"
        ):  # fmt: skip
            return SIMPLE
        case "div" | "floordiv" | "cdiv" | "mod":
            return DIVISION
        case "pow":
            return LIBRARY
        case _:
            assert_never(op)


def compute_clocks(
    op: TileOp,
    fragments: Mapping[str, Fragment],
    facts: Facts,
    warps: float,
    way: Conversion | None = None,
) -> float | None:
    """Clocks of one block for `op`, once; None for operations that copies and gemms pay for. `way`
    is how a cast converts two values, where it converts two at a time."""
    match op:
        case Fill() if op.dst.tensor in fragments:
            return warps * layout_of(fragments, op.dst).values * SIMPLE
        case CastTile():
            each = SIMPLE if way is None else way.simple * SIMPLE / 2
            return warps * layout_of(fragments, op.dst).values * each
        case Relabel():
            # What lies in words of its own is renamed; the rest is cut out and put together.
            f = layout_of(fragments, op.dst)
            return 0.0 if op.bits[0] == op.bits[1] else warps * f.values * op.bits[1] / 32 * SIMPLE
        case Elementwise():
            return warps * layout_of(fragments, op.dst).values * max(SIMPLE, scalar_clocks(op.expr))
        case Reduce():
            return _reduce_clocks(op, layout_of(fragments, op.src), warps)
        case Scan():
            return _scan_clocks(op, layout_of(fragments, op.dsts[0]), warps)
        case ForElements():
            return warps * layout_of(fragments, op.ref).values * _body_clocks(op.body, facts)
        case Fill() | Copy() | Prefetch() | Gemm() | Rearrange():
            return None
        case _:
            assert_never(op)


def special_functions(
    op: Elementwise | ForElements, fragments: Mapping[str, Fragment], facts: Facts, warps: float
) -> float:
    """How often warps of one block ask the special-function units, once."""
    match op:
        case Elementwise():
            return warps * layout_of(fragments, op.dst).values * _specials(op.expr)
        case ForElements():
            each = _body_total(op.body, facts, lambda stmt: sum(map(_specials, scalars(stmt))))
            return warps * layout_of(fragments, op.ref).values * each
        case _:
            assert_never(op)


def _specials(e: Scalar) -> float:
    """Nodes of `e` that are special functions."""
    return sum(isinstance(n, Unary) and _unary_clocks(n.op) == SPECIAL for n in walk(e))


def cast_way(tensors: Mapping[str, Tensor], arch: Arch, op: TileOp) -> Conversion | None:
    """How `op` converts two values, where it is a cast that converts two at a time."""
    if not isinstance(op, CastTile):
        return None
    source, target = (tensors[ref.tensor].dtype for ref in (op.src, op.dst))
    return conversion(arch.capability, source, target)


def _reduce_clocks(op: Reduce, whole: Fragment, warps: float) -> float:
    f, axis = folded(op, whole)
    kept = product(m for m in f.value if m.dim != axis)
    inside, across, place = 1, 1, 1
    for m in f.thread:
        if m.step and m.dim == axis:
            near = min(m.size, max(1, WARP // place))
            inside *= near
            across *= -(-m.size // near)
        place *= m.size
    total = warps * (f.values * SIMPLE + kept * (inside - 1).bit_length() * (SHUFFLE + SIMPLE))
    if across > 1:
        total += warps * kept * across * EXCHANGE + BARRIERS
    return total


def _scan_clocks(op: Scan, f: Fragment, warps: float) -> float:
    """Each thread scans its runs; what they come to is scanned across lanes, warps and the runs of
    a thread, and what comes before a run is combined with every value of it. Long runs wait for
    one value after the other."""
    combine, moved = sum(max(SIMPLE, scalar_clocks(e)) for e in op.combine), len(op.combine)
    digits: list[tuple[Mode, int]] = []
    place = 1
    for m in f.thread:
        if m.step and m.dim == op.axis:
            digits.append((m, place))
        place *= m.size
    along = [m for m in f.value if m.dim == op.axis]
    first = min((m.step for m, _ in digits), default=op.srcs[0].shape[op.axis])
    run = product(m for m in along if m.step < first)
    runs = f.values // run
    total = f.values * combine * (2 if digits else 1)
    chain = run * DEPENDENT
    exchanged = False
    for m, place in digits:
        near = min(m.size, max(1, WARP // place))
        steps = (near - 1).bit_length()
        total += runs * steps * (combine + moved * SHUFFLE)
        chain += steps * (SHUFFLE_LATENCY + DEPENDENT)
        if m.size > near:
            exchanged = True
            total += runs * -(-m.size // near) * (combine + moved * EXCHANGE) + BARRIERS / warps
    told = moved * (EXCHANGE if exchanged else SHUFFLE)
    total += sum(runs * (2 * combine + told) for m in along if m.step > first)
    return max(warps * total, chain)


def _body_clocks(body: Iterable[Stmt], facts: Facts) -> float:
    """Clocks of one warp for statements of thread-level code: its lanes take both sides of a
    branch, and all rounds of a loop."""
    return _body_total(body, facts, lambda stmt: SIMPLE + sum(map(scalar_clocks, scalars(stmt))))


def _body_total(body: Iterable[Stmt], facts: Facts, of: Callable[[Stmt], float]) -> float:
    """The sum of `of` over statements, each as often as it runs."""
    total = 0.0
    for stmt in body:
        once = of(stmt) + sum(_body_total(part, facts, of) for part in bodies(stmt))
        total += once * facts.trips(stmt) if isinstance(stmt, For | While) else once
    return total
