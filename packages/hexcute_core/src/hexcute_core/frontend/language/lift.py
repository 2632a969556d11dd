"""stride -> step@dim: a raw stride of a view as a step along one dimension of its buffer.

With row-major strides s_d = product of the extents after d, a raw stride t is c@d for the
outermost d whose s_d divides t by an integer c. Anything else has no single meaning and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.scalar import Const, Scalar, as_scalar, show
from hexcute_core.scalar.poly import Poly, constant, divide, poly, product, scalar


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


def strides(shape: Sequence[Scalar]) -> tuple[Poly, ...]:
    """Row-major strides of a contiguous buffer, each one monomial."""
    found: list[Poly] = []
    running: Poly = {(): 1}
    for extent in reversed(shape):
        found.append(running)
        running = product(running, poly(extent))
    return tuple(reversed(found))


def lift(
    stride: object, extent: Scalar, shape: Sequence[Scalar], fixed: frozenset[int]
) -> Lifted | Refused:
    """The coordinate step of `stride` for a mode of `extent` steps over a buffer of `shape`.

    `fixed` holds the dimensions that were indexed by an integer, along which nothing may step.
    """
    if isinstance(stride, Along):
        return _along(stride, len(shape), fixed)
    value = poly(stride)
    single = isinstance(extent, Const) and extent.value == 1
    if not value:
        return Lifted(0, 0)
    for dim, unit in enumerate(strides(shape)):
        quotient = divide(value, unit)
        if quotient is None:
            continue
        step = constant(quotient)
        if step is None:
            return _symbolic(stride, scalar(quotient), shape, dim)
        refusal = None if single else _bounds(step, dim, stride, shape, fixed)
        return refusal or Lifted(step, dim)
    return Refused(
        f"stride {_text(stride)} is no multiple of any stride of the buffer: {_strides(shape)}",
        "use a stride that is an integer times one of them",
    )


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


def _symbolic(stride: object, step: Scalar, shape: Sequence[Scalar], dim: int) -> Refused:
    return Refused(
        f"stride {_text(stride)} is ambiguous: over the buffer's strides {_strides(shape)} it "
        f"would be {show(step)} steps of dimension {dim}, which may or may not leave it",
        f"write it as an integer times one of {_strides(shape)}, or say which dimension is meant "
        "with hx.along(dim, step)",
    )


def _bounds(
    step: int, dim: int, stride: object, shape: Sequence[Scalar], fixed: frozenset[int]
) -> Refused | None:
    if dim in fixed:
        return _moved(dim)
    extent = shape[dim]
    if step < 0:
        return Refused(f"stride {_text(stride)} is negative", "start at the low end instead")
    if dim > 0 and isinstance(extent, Const) and step >= extent.value:
        return Refused(
            f"stride {_text(stride)} steps {step} along dimension {dim}, whose extent is only "
            f"{show(extent)}; the buffer's strides are {_strides(shape)}",
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


def _strides(shape: Sequence[Scalar]) -> str:
    return "(" + ", ".join(show(scalar(unit)) for unit in strides(shape)) + ")"
