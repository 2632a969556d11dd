"""The laws of tile operations: spaces, shapes and element types of what they read and write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from hexcute_core.arch.boxes import HINTS, REDUCED
from hexcute_core.arch.updates import ORDERS, UPDATED
from hexcute_core.dtypes import DType, accumulator
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Scalar, Var, free_vars
from hexcute_core.tile.ir import (
    CastTile,
    Copy,
    Elementwise,
    Fill,
    ForElements,
    Gemm,
    Prefetch,
    Rearrange,
    Reduce,
    Relabel,
    Scan,
    Tilewise,
    scan_operands,
)
from hexcute_core.tile.tensors import GlobalView, RegisterTensor, SharedTensor, Tensor, TileRef
from hexcute_core.tile.updates import Update, UpdateElement
from hexcute_core.tile.verify_barriers import Checks, verify_mbarrier
from hexcute_core.unions import assert_never

_SHARED, _REGISTER, _GLOBAL = SharedTensor, RegisterTensor, GlobalView


@dataclass(frozen=True)
class Scope:
    """Variables in sight with their types; `elements` is the loop over elements around, if any."""

    variables: dict[str, DType]
    elements: ForElements | None = None

    def inner(self, *new: Var) -> Scope:
        """The scope of a block: what it declares is not seen outside."""
        return replace(self, variables={**self.variables, **{v.name: v.dtype for v in new}})


class OperationChecks(Checks, Protocol):
    """What the verifier of a program offers here: references and scalars checked in scope."""

    def ref(
        self, ref: TileRef, scope: Scope, span: SourceSpan, *spaces: type[Tensor]
    ) -> Tensor: ...

    def scalar(self, e: Scalar, scope: Scope, span: SourceSpan) -> None: ...

    def index(self, e: Scalar, scope: Scope, span: SourceSpan) -> None: ...

    def condition(self, e: Scalar, scope: Scope, span: SourceSpan) -> None: ...


def verify_operation(
    checks: OperationChecks,
    stmt: Tilewise,
    scope: Scope,
) -> None:
    """Spaces, shapes and types of one tile operation."""
    span = stmt.span
    match stmt:
        case Fill():
            dst = checks.ref(stmt.dst, scope, span, _REGISTER, _SHARED)
            checks.scalar(stmt.value, scope, span)
            checks.need(stmt.value.dtype == dst.dtype, f"a fill of `{dst.name}`", span)
        case Copy():
            src = checks.ref(stmt.src, scope, span)
            dst = checks.ref(stmt.dst, scope, span)
            _same(checks, stmt.src, stmt.dst, span)
            checks.need(src.dtype == dst.dtype, f"a {src.dtype} copied to {dst.dtype}", span)
            apart = type(src) is not type(dst)
            checks.need(apart, f"`{src.name}` and `{dst.name}` share a space", span)
            if stmt.src.rank is not None or stmt.dst.rank is not None:
                held = _REGISTER in (type(src), type(dst))
                checks.need(held, f"`{src.name}` to `{dst.name}` of another block", span)
            if stmt.completes is not None or stmt.reduce is not None:
                steps = stmt.src.rows is None and stmt.dst.rows is None
                checks.need(steps, "TMA of rows that a tile names", span)
            if stmt.update is not None:
                _update(checks, stmt, stmt.update, scope)
            if stmt.completes is not None:
                verify_mbarrier(checks, *stmt.completes, span)
                checks.index(stmt.completes[1], scope, span)
            if stmt.reduce is not None:
                ways = type(src) is _SHARED and type(dst) is _GLOBAL
                checks.need(ways, f"`{src.name}` combined with `{dst.name}`", span)
                known = dst.dtype in REDUCED.get(stmt.reduce, ())
                checks.need(known, f"{dst.dtype} combined by {stmt.reduce}", span)
            if stmt.outside is not None:
                checks.scalar(stmt.outside, scope, span)
                ways = type(src) is _GLOBAL and type(dst) is _REGISTER
                fits = ways and stmt.outside.dtype == dst.dtype
                checks.need(fits, f"`{dst.name}` gets {stmt.outside} for what is outside", span)
            if stmt.hint is not None:
                outside = stmt.hint in HINTS and _GLOBAL in (type(src), type(dst))
                checks.need(outside, f"a copy with the hint {stmt.hint}", span)
        case Prefetch():
            checks.ref(stmt.src, scope, span, _GLOBAL)
            checks.need(stmt.src.rows is None, "a prefetch of rows that a tile names", span)
        case Gemm():
            a, b = (checks.ref(r, scope, span, _REGISTER, _SHARED) for r in (stmt.a, stmt.b))
            checks.ref(stmt.c, scope, span, _REGISTER)
            checks.condition(stmt.accumulate, scope, span)
            own = stmt.a.rank is None and stmt.b.rank is None
            checks.need(own, "a gemm that reads another block's memory", span)
            shapes = stmt.c.shape, stmt.a.shape, stmt.b.shape
            fits = all(len(shape) == 2 for shape in shapes) and (
                shapes[0] == (stmt.a.shape[0], stmt.b.shape[0])
                and stmt.a.shape[1] == stmt.b.shape[1]
            )
            checks.need(fits, f"a gemm of shapes {shapes}", span)
            apart = stmt.c not in (stmt.a, stmt.b)
            checks.need(apart, f"a gemm that reads its result `{stmt.c.tensor}`", span)
            checks.need(a.dtype == b.dtype, f"a gemm of {a.dtype} and {b.dtype}", span)
        case CastTile():
            checks.ref(stmt.src, scope, span, _REGISTER)
            checks.ref(stmt.dst, scope, span, _REGISTER)
            _same(checks, stmt.src, stmt.dst, span)
        case Relabel():
            src = checks.ref(stmt.src, scope, span, _REGISTER)
            dst = checks.ref(stmt.dst, scope, span, _REGISTER)
            every = tuple(sorted(stmt.order)) == tuple(range(len(stmt.src.shape)))
            checks.need(every, f"modes in the order {stmt.order}", span)
            checks.need(stmt.bits == (src.dtype.bits, dst.dtype.bits), f"bits {stmt.bits}", span)
            before, after = (prod(r.shape) * b for r, b in zip((stmt.src, stmt.dst), stmt.bits))
            checks.need(before == after, f"{before} bits as {after}", span)
        case Elementwise():
            _elementwise(checks, stmt, scope)
        case Reduce():
            src = checks.ref(stmt.src, scope, span, _REGISTER)
            dst = checks.ref(stmt.dst, scope, span, _REGISTER)
            shape = list(stmt.src.shape)
            checks.need(0 <= stmt.axis < len(shape), f"a reduce of mode {stmt.axis}", span)
            whole = stmt.keep > 0 and shape[stmt.axis] % stmt.keep == 0
            checks.need(whole, f"a reduce of {shape[stmt.axis]} to {stmt.keep}", span)
            shape[stmt.axis] = stmt.keep
            fits = tuple(shape) == stmt.dst.shape and src.dtype == dst.dtype
            checks.need(fits, f"a reduce of {stmt.src.shape} to {stmt.dst.shape}", span)
        case Scan():
            _scan(checks, stmt, scope)
        case Rearrange():
            src = checks.ref(stmt.src, scope, span, _REGISTER)
            dst = checks.ref(stmt.dst, scope, span, _REGISTER)
            _same(checks, stmt.src, stmt.dst, span)
            checks.need(src.dtype == dst.dtype, f"a rearrange to {dst.dtype}", span)
        case _:
            assert_never(stmt)


def _update(checks: OperationChecks, stmt: Copy, update: Update, scope: Scope) -> None:
    """Registers update memory of this block or the GPU, and what they get are registers alike."""
    span, dst = stmt.span, checks.ref(stmt.dst, scope, stmt.span, _SHARED, _GLOBAL)
    plain = stmt.completes is None and stmt.reduce is None and stmt.hint is None
    checks.need(plain and stmt.outside is None, f"an update of `{dst.name}` by TMA", span)
    checks.need(stmt.dst.rank is None, f"an update of `{dst.name}` of another block", span)
    known = dst.dtype in UPDATED.get(update.op, ()) and update.order in ORDERS
    checks.need(known, f"{dst.dtype} updated by {update.op} {update.order}", span)
    compared = (update.compare is not None) == (update.op == "cas")
    checks.need(compared, f"{update.op} with nothing or with too much to compare", span)
    for ref in (update.old, update.compare):
        if ref is not None:
            held = checks.ref(ref, scope, span, _REGISTER)
            _same(checks, ref, stmt.src, span)
            checks.need(held.dtype == dst.dtype, f"`{held.name}` beside {dst.dtype}", span)


def verify_update_element(checks: OperationChecks, stmt: UpdateElement, scope: Scope) -> None:
    """One element of memory of this block or the GPU, and numbers of its type."""
    dst = checks.ref(stmt.dst, scope, stmt.span, _SHARED, _GLOBAL)
    one = not stmt.dst.kept and stmt.dst.rank is None and stmt.dst.rows is None
    checks.need(one, f"an update of more than one element of `{dst.name}`", stmt.span)
    known = dst.dtype in UPDATED.get(stmt.op, ()) and stmt.order in ORDERS
    checks.need(known, f"{dst.dtype} updated by {stmt.op} {stmt.order}", stmt.span)
    compared = (stmt.compare is not None) == (stmt.op == "cas")
    checks.need(compared, f"{stmt.op} with nothing or with too much to compare", stmt.span)
    for e in (stmt.value, stmt.compare):
        if e is not None:
            checks.scalar(e, scope, stmt.span)
            checks.need(e.dtype == dst.dtype, f"a {e.dtype} beside {dst.dtype}", stmt.span)
    typed = stmt.old is None or stmt.old.dtype == dst.dtype
    checks.need(typed, f"what `{dst.name}` held in another type", stmt.span)


def _elementwise(checks: OperationChecks, stmt: Elementwise, scope: Scope) -> None:
    dst = checks.ref(stmt.dst, scope, stmt.span, _REGISTER)
    places = []
    for number, ref in enumerate(stmt.srcs):
        tensor = checks.ref(ref, scope, stmt.span, _REGISTER)
        places.append(Var(f"${number}", tensor.dtype))
        fits = len(ref.shape) == len(stmt.dst.shape) and all(
            extent in (1, whole) for extent, whole in zip(ref.shape, stmt.dst.shape)
        )
        checks.need(fits, f"{ref.shape} does not broadcast to {stmt.dst.shape}", stmt.span)
        own = ref == stmt.dst or ref.tensor != stmt.dst.tensor
        checks.need(own, f"`{ref.tensor}` read elsewhere than it is written", stmt.span)
    checks.scalar(stmt.expr, scope.inner(*places), stmt.span)
    same = stmt.expr.dtype == dst.dtype
    checks.need(same, f"a {stmt.expr.dtype} result in `{dst.name}` ({dst.dtype})", stmt.span)


def _scan(checks: OperationChecks, stmt: Scan, scope: Scope) -> None:
    span, count = stmt.span, len(stmt.srcs)
    tensors = [checks.ref(r, scope, span, _REGISTER) for r in (*stmt.srcs, *stmt.dsts)]
    named = count >= 1 and len(stmt.dsts) == len(stmt.combine) == count
    checks.need(named, f"a scan of {count} tiles into {len(stmt.dsts)}", span)
    shape = stmt.srcs[0].shape
    for ref in (*stmt.srcs, *stmt.dsts):
        checks.need(ref.shape == shape, f"a scan of shapes {shape} and {ref.shape}", span)
    checks.need(0 <= stmt.axis < len(shape), f"a scan along mode {stmt.axis}", span)
    names = [r.tensor for r in stmt.dsts]
    own = len(set(names)) == count and not set(names) & {r.tensor for r in stmt.srcs}
    checks.need(own, "a scan into a tensor that it reads, or writes twice", span)
    left, right = scan_operands([e.dtype for e in stmt.combine])
    inner = scope.inner(*left, *right)
    for i, e in enumerate(stmt.combine):
        checks.scalar(e, inner, span)
        strange = free_vars(e) - {v.name for v in (*left, *right)}
        checks.need(not strange, f"a scan's `{e}` depends on {sorted(strange)}", span)
        source, result = tensors[i].dtype, tensors[count + i].dtype
        checks.need(source == result, f"a scan of {source} into {result}", span)
        held = (result, accumulator(result))
        checks.need(e.dtype in held, f"a {e.dtype} result in `{names[i]}` ({result})", span)


def _same(checks: OperationChecks, a: TileRef, b: TileRef, span: SourceSpan) -> None:
    checks.need(a.shape == b.shape, f"shapes {a.shape} and {b.shape}", span)
