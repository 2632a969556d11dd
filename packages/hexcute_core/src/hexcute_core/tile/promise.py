"""Promise: what a specialised kernel may assume of its launches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """What a specialisation may rely on.

    `multiples[s]` divides symbol s; `aligned` names the parameters whose pointers are 16-byte
    aligned; `wide` asks for 64-bit offsets into global memory. `apart` names parameters with
    strides of their own whose elements share no memory; of a traced program those it writes.
    `begins` are bytes, 8 or 4, that pointers of parameters that are not aligned are multiples of.
    """

    multiples: tuple[tuple[str, int], ...] = ()
    aligned: frozenset[str] = frozenset()
    wide: bool = False
    apart: frozenset[str] = frozenset()
    begins: tuple[tuple[str, int], ...] = ()

    def begin(self, param: str) -> int:
        """Of how many bytes a multiple the pointer of `param` is known to be, 16 at most; 1 where
        nothing is promised but that its elements are at places of theirs."""
        return 16 if param in self.aligned else dict(self.begins).get(param, 1)

    def multiple(self, symbol: str) -> int:
        """The known divisor of `symbol`, 1 where nothing is promised."""
        return dict(self.multiples).get(symbol, 1)
