"""hx.reduce(tiles, d, f): a mode reduced by a function of the author's = the last place of a scan.

Whoever holds the last place of the mode tells the others: of the scan's bits all but those are
zeros, and their sum is theirs, for every type and every bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hexcute_core import dtypes
from hexcute_core.frontend.language import tileops
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.elementwise import where
from hexcute_core.frontend.language.iota import iota
from hexcute_core.frontend.language.relabel import bitcast
from hexcute_core.frontend.language.scans import scan
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tileops import cast, register_of
from hexcute_core.tile.ir import ReduceOp


def reduce(
    a: object, d: int, op: ReduceOp | Callable[..., object] = "sum", keep: int = 1
) -> Any:
    """`a` reduced along mode `d`, which stays with extent 1. `op` is "sum", "max" or "min", where
    with `keep` that many places stay: place x is what stands at x, x + keep, x + 2 keep, ...
    combined. Or it is a function of scalars, as `hx.scan` takes it, which must be associative and
    need not be commutative: `op(l, r)` of a tile, `op(l0, ..., ln-1, r0, ..., rn-1)` of a tuple of
    tiles of one shape, reduced together.

    Raises FrontendError as `hx.sum` and `hx.scan` do."""
    if isinstance(op, str) or not callable(op):
        return tileops.reduce(a, d, op, keep)
    if static_int(keep) != 1:
        raise current("hx.reduce").error(
            f"hx.reduce by a function with keep={keep}",
            fix='reduce the whole mode, or by "sum", "max" or "min"',
        )
    several = isinstance(a, (tuple, list))
    scanned = scan(a, d, op)
    found = tuple(_last(tile, d) for tile in (scanned if several else (scanned,)))
    return found if several else found[0]


def _last(scanned: object, d: int) -> Any:
    """The last place of mode `d`, for all threads."""
    tile = register_of(scanned, "hx.reduce")
    dtype, axis = tile.dtype, (static_int(d) or 0) % len(tile.shape)
    along = tuple(extent if mode == axis else 1 for mode, extent in enumerate(tile.shape))
    last = iota(along, axis) == tile.shape[axis] - 1
    if dtype.kind == "bool":
        return tileops.sum(where(last, tile, False), axis) != 0
    if not dtype.is_float:
        return tileops.sum(where(last, tile, 0), axis)
    # A sum of floats has no sign of zero, and makes other bits of NaN.
    bits = bitcast(tile, dtypes.BY_NAME[f"u{dtype.bits}"])
    return bitcast(cast(tileops.sum(where(last, bits, 0), axis), bits.dtype), dtype)
