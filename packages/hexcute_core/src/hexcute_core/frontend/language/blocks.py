"""What `with` opens in a kernel: roles, slots, turns. It is the compiler that opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Block:
    """A block of the program; to a type checker, what a `with` statement takes."""

    if TYPE_CHECKING:

        def __enter__(self) -> Any: ...

        def __exit__(self, *raised: object) -> None: ...
