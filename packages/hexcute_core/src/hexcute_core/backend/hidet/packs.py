"""Two computations that fill neighbouring narrow elements -> one instruction for both.

| elements | by |
|---|---|
| f16, bf16 | cvt.rn.f16x2.f32, cvt.rn.bf16x2.f32 |
| f8e4m3, f8e5m2 | cvt.rn.satfinite.e4m3x2.f32, .e5m2x2 |

converts two f32; arithmetic of 16 bits is in `halves.py`.

`grouped` finds them in a block: in runs of element writes, and in unrolled loops of nothing but
such writes, which it expands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hexcute_core import dtypes
from hexcute_core.backend.hidet.accesses import split_constant
from hexcute_core.backend.hidet.halves import Halves, alike, computed
from hexcute_core.backend.hidet.registers import divided
from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Cast, Const, Element, Scalar, substitute
from hexcute_core.scalar.visit import walk
from hexcute_core.thread import For, SetElement, Stmt

PACKED = (dtypes.f16, dtypes.bf16, dtypes.f8e4m3, dtypes.f8e5m2)
_MOST = 512
"""Writes that a loop nest is expanded to at most."""


@dataclass(frozen=True)
class Pair:
    """array[index], array[index + 1] = low, high: f32 values converted, the index even."""

    array: str
    dtype: DType
    index: Scalar
    low: Scalar
    high: Scalar
    span: SourceSpan | None


def grouped(body: Sequence[Stmt]) -> Iterator[Stmt | Pair | Halves]:
    """The statements of `body`, computations of neighbours as pairs."""
    run: list[SetElement] = []
    for stmt in body:
        writes = _writes(stmt)
        if run and (not writes or writes[0].array != run[0].array):
            yield from _paired(run)
            run = []
        run += writes
        if not writes:
            yield stmt
    yield from _paired(run)


def _converted(write: SetElement) -> Scalar | None:
    """The f32 value that `write` rounds, where it does no more and does not read its array."""
    match write.value:
        case Cast(a=value) if value.dtype == dtypes.f32 and write.value.dtype in PACKED:
            own = (isinstance(e, Element) and e.array == write.array for e in walk(value))
            return None if any(own) else value
        case _:
            return None


def _shares(write: SetElement) -> bool:
    """Whether `write` could share an instruction with a neighbour's."""
    if _converted(write) is not None:
        return True
    own = (isinstance(e, Element) and e.array == write.array for e in walk(write.value))
    return computed(write.value) and not any(own)


def _writes(stmt: Stmt) -> list[SetElement]:
    """Such a write, or all that an unrolled nest of one means where that makes pairs, else none."""
    sizes: list[For] = []
    inner: Stmt = stmt
    while isinstance(inner, For) and inner.unroll and len(inner.body) == 1:
        sizes.append(inner)
        inner = inner.body[0]
    if not isinstance(inner, SetElement) or not _shares(inner):
        return []
    out: list[Mapping[str, Scalar]] = [{}]
    for loop in sizes:
        trips = _trips(loop)
        if trips is None or len(out) * len(trips) > _MOST:
            return []
        here = [Const(i, loop.var.dtype) for i in trips]
        out = [{**values, loop.var.name: i} for values in out for i in here]
    writes = [
        replace(
            inner,
            index=substitute(inner.index, values),
            value=substitute(inner.value, values),
        )
        for values in out
    ]
    pays = not sizes or any(isinstance(w, (Pair, Halves)) for w in _paired(writes))
    return writes if pays else []


def _trips(loop: For) -> range | None:
    match loop.start, loop.stop, loop.step:
        case Const(value=start), Const(value=stop), Const(value=step):
            return range(int(start), int(stop), int(step))
        case _:
            return None


def _paired(run: list[SetElement]) -> Iterator[Stmt | Pair | Halves]:
    """One array's writes, neighbours as pairs where their places are comparable."""
    places = [split_constant(write.index) for write in run]
    base = places[0][0] if places else None
    offsets = {offset for _, offset in places}
    comparable = all(rest == base for rest, _ in places) and len(offsets) == len(run)
    if base is None or not comparable or divided(base, 2) is None:
        yield from run
        return
    at = {offset: write for (_, offset), write in zip(places, run, strict=True)}
    for offset in sorted(offsets):
        low, high = at.get(offset - offset % 2), at.get(offset - offset % 2 + 1)
        both = None if low is None or high is None else _pair(low, high)
        if both is None:
            yield at[offset]
        elif offset % 2 == 0:
            yield both


def _pair(low: SetElement, high: SetElement) -> Pair | Halves | None:
    first, second = _converted(low), _converted(high)
    if first is not None and second is not None:
        return Pair(low.array, low.value.dtype, low.index, first, second, low.span)
    if alike(low.value, high.value):
        return Halves(low.array, low.index, low.value, high.value, low.span)
    return None
