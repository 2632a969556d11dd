"""stride -> step@dim: a raw stride of a view as a step along one dimension of its buffer.

With row-major strides s_d = product of the extents after d, a raw stride t is c@d for the
outermost d whose s_d divides t by an integer c. Where a buffer has strides of its own, it is c@d
for the least integer c = t / s_d. Anything else has no single meaning and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.scalar import Const, Scalar, as_scalar, show
from hexcute_core.scalar.poly import Poly, constant, divide, poly, product, scalar
from hexcute_core.tile import GlobalTensor


@dataclass(frozen=True)
class Along:
    """A stride given as a coordinate step: `step` elements along dimension `dim`, or a tile of
    coordinates."""

    dim: int
    step: object = 1


@dataclass(frozen=True)
class Lifted:
    step: int
    dim: int


@dataclass(frozen=True)
class Refused:
    """Why a stride could not be lifted; `fix` is what to write instead."""

    reason: str
    fix: str


def strides(buffer: GlobalTensor) -> tuple[Poly, ...]:
    """The strides of a buffer, each at most one monomial: its own, or row-major ones."""
    shape = buffer.shape
    if buffer.strides:
        return tuple(poly(stride) for stride in buffer.strides)
    found: list[Poly] = []
    running: Poly = {(): 1}
    for extent in reversed(shape):
        found.append(running)
        running = product(running, poly(extent))
    return tuple(reversed(found))


def lift(
    stride: object, extent: Scalar, buffer: GlobalTensor, fixed: frozenset[int]
) -> Lifted | Refused:
    """The coordinate step of `stride` for a mode of `extent` steps over `buffer`.

    `fixed` holds the dimensions that were indexed by an integer, along which nothing may step.
    """
    if isinstance(stride, Along):
        return _along(stride, len(buffer.shape), fixed)
    value = poly(stride)
    single = isinstance(extent, Const) and extent.value == 1
    if not value:
        return Lifted(0, 0)
    units = enumerate(strides(buffer))
    quotients = {dim: divide(value, unit) for dim, unit in units if unit}
    steps = {dim: q for dim, q in quotients.items() if q is not None}
    if buffer.strides:
        steps = _least(steps, fixed)
    for dim, quotient in steps.items():
        step = constant(quotient)
        if step is None:
            return _symbolic(stride, scalar(quotient), buffer, dim)
        if buffer.strides and len(steps) > 1:
            return _shared(stride, buffer, tuple(steps))
        refusal = None if single else _bounds(step, dim, stride, buffer, fixed)
        return refusal or Lifted(step, dim)
    return Refused(
        f"stride {_text(stride)} is no multiple of any stride of the buffer: {_strides(buffer)}",
        "use a stride that is an integer times one of them",
    )


def _least(steps: dict[int, Poly], fixed: frozenset[int]) -> dict[int, Poly]:
    """Those with the least constant steps, where there are any, along dimensions without an integer
    before others: no order of the dimensions says which stride is the longer one."""
    known = {dim: step for dim, q in steps.items() if (step := constant(q)) is not None}
    known = {dim: step for dim, step in known.items() if dim not in fixed} or known
    least = min((abs(step) for step in known.values()), default=0)
    return {dim: steps[dim] for dim, step in known.items() if abs(step) == least} or steps


def _along(stride: Along, rank: int, fixed: frozenset[int]) -> Lifted | Refused:
    if not 0 <= stride.dim < rank:
        return Refused(
            f"the buffer has no dimension {stride.dim}", f"name a dimension from 0 to {rank - 1}"
        )
    if stride.dim in fixed:
        return _moved(stride.dim)
    step = static_int(stride.step)
    if step is None:
        return Refused(
            f"hx.along of dimension {stride.dim} takes a step known at compile time, got "
            f"{stride.step!r}",
            "write hx.along(dim, step) with an int, or with a shared tile of i32",
        )
    return Lifted(step, stride.dim)


def _symbolic(stride: object, step: Scalar, buffer: GlobalTensor, dim: int) -> Refused:
    return Refused(
        f"stride {_text(stride)} is ambiguous: over the buffer's strides {_strides(buffer)} it "
        f"would be {show(step)} steps of dimension {dim}, which may or may not leave it",
        f"write it as an integer times one of {_strides(buffer)}, or say which dimension is meant "
        "with hx.along(dim, step)",
    )


def _shared(stride: object, buffer: GlobalTensor, dims: tuple[int, ...]) -> Refused:
    return Refused(
        f"stride {_text(stride)} is ambiguous: of the buffer's strides {_strides(buffer)} those of "
        f"the dimensions {dims[0]} and {dims[1]} are the same",
        "say which dimension is meant with hx.along(dim, step)",
    )


def _bounds(
    step: int, dim: int, stride: object, buffer: GlobalTensor, fixed: frozenset[int]
) -> Refused | None:
    if dim in fixed:
        return _moved(dim)
    extent = buffer.shape[dim]
    if step < 0:
        return Refused(f"stride {_text(stride)} is negative", "start at the low end instead")
    inner = dim > 0 and not buffer.strides
    if inner and isinstance(extent, Const) and step >= extent.value:
        return Refused(
            f"stride {_text(stride)} steps {step} along dimension {dim}, whose extent is only "
            f"{show(extent)}; the buffer's strides are {_strides(buffer)}",
            "use a multiple of a larger stride of the buffer",
        )
    return None


def _moved(dim: int) -> Refused:
    return Refused(
        f"the layout steps along dimension {dim}, which was indexed by an integer",
        f"start dimension {dim} with a slice `start:` instead",
    )


def _text(stride: object) -> str:
    return show(as_scalar(stride))


def _strides(buffer: GlobalTensor) -> str:
    return "(" + ", ".join(show(scalar(unit)) for unit in strides(buffer)) + ")"
