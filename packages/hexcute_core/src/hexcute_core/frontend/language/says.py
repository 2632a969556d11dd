"""hx.printf and hx.device_assert: what a running kernel says, and where it ends.

Where threads act together, a text is said once for the block or the role; in code of single threads
by whoever comes by, in a loop over elements once for each.
"""

from __future__ import annotations

from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.tiles import TileValue, describe
from hexcute_core.scalar import Scalar, ScalarBase, as_scalar, compare
from hexcute_core.scalar.formats import pieces, takes
from hexcute_core.tile import Say


def printf(text: str, *values: object) -> None:
    """Prints `text`, known at compile time, with `values` in place of its conversions, as C does:
    `hx.printf("tile %d: %f\\n", i, x)`. Integers go by %d, %i, %u, %x, %X and %o, floats by %f, %e
    and %g, whatever their width. On a GPU it comes when the device is synchronised; simulating
    gives it as `report.printed`.
    """
    builder = current("hx.printf")
    if not isinstance(text, str) or "\0" in text:
        raise builder.error(
            f"hx.printf takes a text first, got {describe(text)}",
            fix='write hx.printf("tile %d\\n", i)',
        )
    wanted = [piece.letter for piece in pieces(text) if piece.letter]
    if len(wanted) != len(values):
        raise builder.error(
            f"hx.printf of a text with {len(wanted)} conversions got {len(values)} values",
            fix="give a value for each",
        )
    numbers = [_number(builder, letter, value) for letter, value in zip(wanted, values)]
    once = not builder.apart
    for e in numbers:
        if once and builder.varies(e):
            raise builder.error(
                f"hx.printf of `{e}`, in which threads differ, where they act together: one of "
                "them speaks for all",
                fix="do it in `for i, j in hx.elements(tile):`, or under a condition of single "
                "threads, such as `if hx.threadIdx.x < 4:`",
            )
    builder.emit(Say(text, tuple(numbers), None, once, builder.span))


def _number(builder: Builder, letter: str, value: object) -> Scalar:
    if isinstance(value, TileValue):
        raise builder.error(
            f"hx.printf of {describe(value)}",
            fix="print its elements in `for i, j in hx.elements(tile):`, or hx.number(tile) of a "
            "tile of one",
        )
    if not isinstance(value, (bool, int, float, ScalarBase)):
        raise builder.error(
            f"hx.printf of {describe(value)}", fix="put what is known now into the text"
        )
    number = as_scalar(value)
    if not takes(letter, number.dtype):
        other = "%f" if number.dtype.is_float else "%d"
        raise builder.error(
            f"hx.printf of the {number.dtype} `{number}` by %{letter}", fix=f"write {other}"
        )
    return number


def device_assert(condition: object, message: str = "") -> None:
    """Ends the kernel in an error wherever `condition` does not hold, in every thread for itself:
    a GPU says `message` and where, and the launch fails; simulating it is a finding, located
    here."""
    builder = current("hx.device_assert")
    if isinstance(condition, TileValue):
        raise builder.error(
            f"hx.device_assert of {describe(condition)}",
            fix="assert of its elements, in `for i, j in hx.elements(tile):`",
        )
    if not isinstance(condition, (bool, int, ScalarBase)) or not isinstance(message, str):
        raise builder.error(
            f"hx.device_assert of {describe(condition)}, {describe(message)}",
            fix='write hx.device_assert(i < n, "why")',
        )
    holds = as_scalar(condition)
    if not isinstance(condition, ScalarBase):
        if not condition:
            raise builder.error(
                f"hx.device_assert never holds: {message or condition}",
                fix="change the compile-time constants, or write it under the condition meant",
            )
        return
    holds = holds if holds.dtype.kind == "bool" else compare("ne", holds, 0)
    builder.emit(Say(message.replace("\0", ""), (), holds, False, builder.span))
