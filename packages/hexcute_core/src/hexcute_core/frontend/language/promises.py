"""hx.multiple_of(x, 8): the author knows a divisor of a number that the compiler cannot work out.

It becomes a variable of which that is known. Where the number is known at launch, launches that
break the promise are refused; elsewhere simulating finds it, and a GPU is not asked.
"""

from __future__ import annotations

from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import TileValue, describe
from hexcute_core.scalar import ScalarBase, as_scalar, free_vars
from hexcute_core.tile import Assign

LARGEST = 1 << 30


def multiple_of(value: object, divisor: int) -> object:
    """`value`, an integer, of which `divisor` is known to be a divisor from here on: how far it
    moves an address decides how many bytes a copy may move at once. Raises FrontendError where a
    number that is known breaks it."""
    builder = current("hx.multiple_of")
    number = static_int(divisor)
    if number is None or not 1 <= number <= LARGEST:
        raise builder.error(
            f"hx.multiple_of by {describe(divisor)}, which is no int from 1 to 2^30 known at "
            "compile time",
            fix="write hx.multiple_of(first, 8)",
        )
    if isinstance(value, TileValue) or not isinstance(value, (int, ScalarBase)):
        raise builder.error(
            f"hx.multiple_of of {describe(value)}",
            fix="promise it of an integer: a scalar parameter, a number from memory, or what is "
            "computed with them",
        )
    known, given = static_int(value), as_scalar(value)
    if known is not None and known % number:
        raise builder.error(
            f"hx.multiple_of({known}, {number}), which it is not",
            fix="promise a number that divides it, or none",
        )
    if known is not None or number == 1:
        return value
    if not given.dtype.is_integer:
        raise builder.error(
            f"hx.multiple_of of the {given.dtype} `{given}`", fix="promise it of an integer"
        )
    held = builder.variable(builder.hint or "whole", given.dtype)
    builder.emit(Assign(held, given, True, builder.span, number))
    if free_vars(given) <= builder.uniform | builder.of_symbols.keys():
        builder.of_symbols[held.name] = given
    return held
