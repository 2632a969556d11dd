"""Format strings of printf: the text between conversions, and the argument that each one takes.

`%[flags][width][.precision]X` takes an integer for X of d, i, u, x, X and o, a float for f, F, e,
E, g and G; `%%` is a percent sign. How wide a number is, its type says, so there is no `l` or `ll`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError

INTEGERS, FLOATS = "diuxXo", "fFeEgG"
_CONVERSION = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)([a-zA-Z%]?)")


@dataclass(frozen=True)
class Piece:
    """Text as it is, or a conversion: its flags, width and precision, and its letter."""

    text: str
    letter: str = ""


def pieces(text: str) -> tuple[Piece, ...]:
    """`text` taken apart. Raises FrontendError for what is no conversion."""
    out: list[Piece] = []
    at = 0
    for found in _CONVERSION.finditer(text):
        out.append(Piece(text[at : found.start()]))
        at = found.end()
        how, letter = found.groups()
        if letter == "%" and not how:
            out.append(Piece("%"))
        elif not letter or letter not in INTEGERS + FLOATS:
            raise FrontendError(
                f"hx.printf has no conversion {found.group()}",
                fix=f"write one of {', '.join('%' + c for c in INTEGERS + FLOATS)}, or %% for a "
                "percent sign",
            )
        else:
            out.append(Piece(how, letter))
    out.append(Piece(text[at:]))
    return tuple(p for p in out if p.text or p.letter)


def takes(letter: str, dtype: DType) -> bool:
    """Whether a conversion shows numbers of `dtype`."""
    return (letter in FLOATS) == dtype.is_float


def said(text: str, values: list[tuple[int | float, DType]]) -> str:
    """`text` with its conversions replaced by `values`."""
    left = iter(values)
    out = []
    for piece in pieces(text):
        if not piece.letter:
            out.append(piece.text)
            continue
        value, dtype = next(left)
        if piece.letter in FLOATS:
            out.append(f"%{piece.text}{piece.letter}" % float(value))
            continue
        number, bits = int(value), max(32, dtype.bits)
        if piece.letter not in "di":
            # As the bits of what C is handed.
            number %= 1 << bits
        out.append(f"%{piece.text}{piece.letter}" % number)
    return "".join(out)
