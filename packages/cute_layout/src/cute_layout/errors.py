"""Every refusal of the algebra is a `LayoutError`, and carries a witness where one exists.

A witness is a short text that proves the refusal, such as ``i=5: A(B(i))=8, R(i)=7``.
"""

from __future__ import annotations

__all__ = [
    "CongruenceError",
    "DivisibilityError",
    "DomainError",
    "LayoutError",
    "NotInjectiveError",
    "ParseError",
    "UnificationError",
    "UnsupportedError",
]


class LayoutError(ValueError):
    """A layout operation that has no right answer for its operands.

    Attributes:
        witness: the point that proves the refusal, or the empty string.
    """

    def __init__(self, message: str, *, witness: str = "") -> None:
        super().__init__(f"{message} [{witness}]" if witness else message)
        self.witness = witness


class CongruenceError(LayoutError):
    """Two trees (shapes, strides, coordinates) do not have the profile they must share."""


class DivisibilityError(LayoutError):
    """No layout equals the wanted function, because an extent does not divide."""


class NotInjectiveError(LayoutError):
    """The operation needs distinct values, and two coordinates share one."""


class DomainError(LayoutError):
    """A coordinate, mode or value lies outside the domain of what it was given to."""


class UnificationError(LayoutError):
    """Partial layouts that no single layout satisfies."""


class UnsupportedError(LayoutError):
    """The question is well posed, and this library does not decide it."""


class ParseError(LayoutError):
    """Text that is not a layout."""
