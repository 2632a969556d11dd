"""thread.Stmt -> hidet Stmt, blocks in their own scope.

A loop is counted from zero, its variable computed from the count where start or step ask for
it. A long loop that the program does not unroll stays rolled where it runs primitives: the
compiler counts an inline instruction as next to nothing and would unroll a main loop past the
instruction cache. Short ones are left to the compiler.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, TypeGuard

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import data_type, tensor_type

from hexcute_core.backend.hidet import floats, hopper, prims, registers, says, scalars, stamps
from hexcute_core.backend.hidet.chains import Products, chained
from hexcute_core.backend.hidet.halves import Halves, word
from hexcute_core.backend.hidet.packs import Pair, grouped
from hexcute_core.backend.hidet.quotients import made_before
from hexcute_core.backend.hidet.resident import entering, leaving, living, resident_in
from hexcute_core.backend.hidet.scope import RegisterArray, Scope, integer
from hexcute_core.backend.hidet.storage import cell, value_type
from hexcute_core.errors import HexcuteError
from hexcute_core.scalar import Const, Scalar, as_scalar, cast, cdiv, compare, is_const, sub
from hexcute_core.scalar.bounds import bounds
from hexcute_core.scalar.numbers import limits
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    If,
    Prim,
    Say,
    SetElement,
    Stamp,
    Stmt,
    While,
)
from hexcute_core.thread.visit import calls, statements
from hexcute_core.unions import assert_never

SHORT_LOOP = 16
"""Trips up to which the compiler decides about unrolling."""


def emit_block(scope: Scope, body: tuple[Stmt, ...]) -> Any:
    """The statements of `body`, what they declare being theirs alone."""
    with scope.block():
        out: list[Any] = []
        rest = deque(chained(grouped(body)))
        while rest:
            stmt = rest.popleft()
            # A stamp may stand before the wait.
            stamp = rest[0] if rest and isinstance(rest[0], Stamp) else None
            behind = 0 if stamp is None else 1
            wait = rest[behind] if len(rest) > behind else None
            if isinstance(stmt, For) and _multiplies(stmt) and _waits(wait):
                out += _drained_loop(scope, stmt, wait, stamp)
                for _ in range(behind + 1):
                    rest.popleft()
            else:
                out += emit(scope, stmt)
        return hs.SeqStmt(out)


def emit(scope: Scope, stmt: Stmt | Pair | Halves | Products) -> list[Any]:
    """The Hidet statements of one thread statement; errors carry its source line."""
    with scope.at(getattr(stmt, "span", None)):
        try:
            made = _emit(scope, stmt)
            return made if scope.marks is None else [*scope.marks.of(scope.span), *made]
        except HexcuteError:
            raise
        except Exception as error:
            kind = type(stmt).__name__
            raise scope.error(f"the code generator refused this {kind}: {error}") from error


def _emit(scope: Scope, stmt: Stmt | Pair | Halves | Products) -> list[Any]:
    match stmt:
        case Products():
            return hopper.emit_products(scope, stmt.steps)
        case Pair():
            return [_set_pair(scope, stmt)]
        case Halves():
            bits = word(scope, stmt.low, stmt.high)
            return [registers.set_pair(scope, stmt.array, stmt.index, bits)]
        case DeclareArray():
            return [_declare_array(scope, stmt)]
        case SetElement():
            return [_set_element(scope, stmt)]
        case Assign():
            return [_assign(scope, stmt)]
        case Prim():
            return prims.emit(scope, stmt)
        case Say():
            return says.emit(scope, stmt)
        case Stamp():
            return stamps.emit(scope, stmt)
        case For(unroll=True):
            return [_loop(scope, stmt)]
        case For():
            with made_before(scope, stmt) as opening:
                return [*opening, _loop(scope, stmt)]
        case While():
            with made_before(scope, stmt) as opening:
                cond = scalars.condition(scope, stmt.cond)
                return [*opening, hs.WhileStmt(cond, emit_block(scope, stmt.body))]
        case If():
            cond = scalars.condition(scope, stmt.cond)
            then = emit_block(scope, stmt.then)
            otherwise = emit_block(scope, stmt.otherwise) if stmt.otherwise else None
            return [hs.IfStmt(cond, then, otherwise)]
        case _:
            assert_never(stmt)


def _waits(stmt: object) -> TypeGuard[Prim]:
    return isinstance(stmt, Prim) and stmt.name == "wgmma.wait"


def _multiplies(stmt: For) -> bool:
    return calls(stmt.body, "wgmma.commit")


def _drained_loop(scope: Scope, loop: For, wait: Prim, stamp: Stamp | None) -> list[Any]:
    """A loop of asynchronous products and the wait behind it, which only its trips make needed,
    a `stamp` between.

    Where the accumulators of a loop that ran meet those of one that did not, ptxas wants the
    products finished: otherwise it serializes them all.
    """
    arrays = resident_in(scope, loop, wait)
    with living(scope, arrays):
        noted = [] if stamp is None else emit(scope, stamp)
        run = [*emit(scope, loop), *noted, *emit(scope, wait)]
    trips = _trips(loop)
    if not isinstance(trips, Const):
        ran = scalars.condition(scope, compare("lt", loop.start, loop.stop))
        busy = id(loop) in scope.products.busy
        waited = emit(scope, wait) if busy else []
        otherwise = hs.SeqStmt([*noted, *waited]) if noted or waited else None
        run = [hs.IfStmt(ran, hs.SeqStmt(run), otherwise)]
    return [*entering(scope, arrays), *run, *leaving(scope, arrays)]


def _declare_array(scope: Scope, stmt: DeclareArray) -> Any:
    entry = cell(stmt.dtype)
    size = max(-(-stmt.size // entry.elements), 1)
    var = he.Var(stmt.array, tensor_type(entry.type, [size]))
    scope.arrays[stmt.array] = RegisterArray(var, stmt.dtype, entry, size)
    return hs.DeclareStmt(var)


def _set_element(scope: Scope, stmt: SetElement) -> Any:
    array = scope.array(stmt.array)
    value = scalars.emit(scope, stmt.value)
    value = scalars.convert(scope, value, stmt.value.dtype, array.dtype)
    index = scalars.index_of(scope, stmt.index)
    return registers.set_element(scope, stmt.array, index, value)


def _set_pair(scope: Scope, pair: Pair) -> Any:
    low, high = scalars.emit(scope, pair.low), scalars.emit(scope, pair.high)
    bits = floats.pair_from_f32(scope, low, high, pair.dtype)
    return registers.set_pair(scope, pair.array, pair.index, bits)


def _assign(scope: Scope, stmt: Assign) -> Any:
    value = scalars.emit(scope, stmt.value)
    value = scalars.convert(scope, value, stmt.value.dtype, stmt.var.dtype)
    if not stmt.declares:
        return hs.AssignStmt(scope.variable(stmt.var.name), value)
    var = he.Var(stmt.var.name, value_type(stmt.var.dtype))
    scope.variables[stmt.var.name] = var
    scope.known.pop(stmt.var.name, None)
    return hs.DeclareStmt(var, value)


def _loop(scope: Scope, loop: For) -> Any:
    # Bounds of a narrower type are no further apart in the variable's than they are.
    start, stop, step = (cast(e, loop.var.dtype) for e in (loop.start, loop.stop, loop.step))
    stmt = replace(loop, start=start, stop=stop, step=step)
    trips = _trips(stmt)
    far = _far(scope, stmt)
    extent = _many(scope, stmt) if far else scalars.emit(scope, trips)
    var = he.Var(stmt.var.name, value_type(stmt.var.dtype))
    with scope.block():
        count, opening = var, []
        if far:
            wide = data_type(f"u{var.type.name}")
            count = he.Var(f"{stmt.var.name}_count", wide)
            first, by = (he.Cast(scalars.emit(scope, e), wide) for e in (start, step))
            value = he.Cast(he.Add(first, he.Multiply(count, by)), var.type)
            opening = [hs.DeclareStmt(var, value)]
        elif not (is_const(stmt.start, 0) and is_const(stmt.step, 1)):
            count = he.Var(f"{stmt.var.name}_count", var.type)
            first, by = scalars.emit(scope, start), scalars.emit(scope, step)
            opening = [hs.DeclareStmt(var, he.Add(first, he.Multiply(count, by)))]
        scope.variables[stmt.var.name] = var
        least, most = bounds(start, scope.known)[0], bounds(stop, scope.known)[1]
        rises = isinstance(step, Const) and step.value > 0
        scope.known.pop(stmt.var.name, None)
        if rises:
            scope.known[stmt.var.name] = least, max(least, most - 1)
        body = hs.SeqStmt([*opening, *emit_block(scope, stmt.body).seq])
    counted = hs.ForStmt(count, integer(1), body, attr=_unrolling(stmt, trips))
    # ForStmt would run its simplifier over the extent, which is folded already.
    counted.extent = extent
    if not far:
        return counted
    # The C++ compiler would divide for it again before each trip.
    many = he.Var(f"{stmt.var.name}_trips", count.type)
    counted.extent = many
    return hs.SeqStmt([hs.DeclareStmt(many, extent), counted])


def _far(scope: Scope, stmt: For) -> bool:
    """Whether start and stop may be further apart than numbers of their type are large."""
    (first, last), (least, most) = (bounds(e, scope.known) for e in (stmt.start, stmt.stop))
    low, high = limits(stmt.var.dtype)
    return stmt.var.dtype.kind == "int" and (least - last < low or most - first > high)


def _many(scope: Scope, stmt: For) -> Any:
    """The trips of a loop whose ends are far apart: all of them are an unsigned number."""
    wide = data_type(f"u{value_type(stmt.var.dtype).name}")
    zero, one = he.Constant(0, wide), he.Constant(1, wide)
    start, stop = scalars.emit(scope, stmt.start), scalars.emit(scope, stmt.stop)
    step = he.Cast(scalars.emit(scope, stmt.step), wide)
    between = he.Sub(he.Sub(he.Cast(stop, wide), he.Cast(start, wide)), one)
    return he.IfThenElse(he.LessThan(start, stop), he.Add(he.Div(between, step), one), zero)


def _trips(stmt: For) -> Scalar:
    """ceil((stop - start) / step); at most zero where stop <= start."""
    return as_scalar(cdiv(sub(stmt.stop, stmt.start), stmt.step))


def _unrolling(stmt: For, trips: Scalar) -> Any:
    if stmt.unroll:
        return hs.ForStmtAttr(unroll=True)
    short = isinstance(trips, Const) and trips.value <= SHORT_LOOP
    if short or not any(isinstance(s, Prim) for s in statements(stmt.body)):
        return hs.ForStmtAttr()
    return hs.ForStmtAttr(unroll=True, unroll_factor=1)
