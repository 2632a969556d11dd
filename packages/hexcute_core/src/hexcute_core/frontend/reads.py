"""x[i, j] with an integer for every dimension: a number that all threads read from memory.

It becomes a tile of one element, which every thread loads alike, and a variable that holds it: so
it may say where tiles begin, and whether and how often threads do something together. It is read
where it is written, once; outside the tensor it is zero.
"""

from __future__ import annotations

from hexcute_core.dtypes import boolean, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.builder import current
from hexcute_core.frontend.subscript import whole
from hexcute_core.scalar import Element, Scalar, Var, as_scalar
from hexcute_core.tile import (
    Assign,
    Copy,
    ForElements,
    GlobalTensor,
    GlobalView,
    RegisterTensor,
    SubMode,
)


def read(tensor: GlobalTensor, place: tuple[Scalar, ...]) -> Var:
    """The element of `tensor` at the coordinates `place`, as it is now."""
    builder = current(f"{tensor.name}[i]")
    if tensor.dtype.bits < 8:
        raise FrontendError(
            f"`{tensor.name}` holds {tensor.dtype} elements, and memory is read by bytes",
            fix="copy a tile of whole bytes, or declare the tensor u8 and take the bits of x[i]",
        )
    what = builder.hint or tensor.name
    origin = tuple(builder.stable(at, f"{what}_at") for at in place)
    view = GlobalView(
        builder.unique(f"view_{tensor.name}"), tensor.name, tensor.dtype, origin,
        ((SubMode(as_scalar(1), as_scalar(0), 0),),), builder.span,
    )  # fmt: skip
    cell = RegisterTensor(builder.unique(f"{what}_read"), tensor.dtype, (1,), builder.span)
    builder.add_tensor(view)
    builder.add_tensor(cell)
    builder.emit(Copy(builder.next_id(), whole(view), whole(cell), builder.span))
    zero = as_scalar(False if tensor.dtype == boolean else 0, tensor.dtype)
    value, index = builder.variable(what, tensor.dtype), builder.variable("i", i32)
    builder.emit(Assign(value, zero, True, builder.span))
    number = builder.next_id()
    with builder.nested("elements") as region:
        region.coords, region.shape = (index,), (1,)
        held = Element(cell.name, (index,), tensor.dtype)
        builder.emit(Assign(value, held, False, builder.span))
    block = tuple(region.block)
    builder.emit(ForElements(number, whole(cell), (index,), block, builder.span))
    return value
