"""Layouts that the author gave to rearranged tensors: CuTe notation -> Fragment."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cute_layout import Layout, LayoutError
from hexcute_core.arch import Fragment
from hexcute_core.errors import LayoutConflict
from hexcute_core.synthesis.linear import from_linear
from hexcute_core.synthesis.rewrite import statements
from hexcute_core.tile import Rearrange, TileProgram


def forced_layouts(program: TileProgram) -> Mapping[str, Fragment]:
    """Fragments that the author gave to rearranged tensors."""
    return {
        op.dst.tensor: _parse(op, program.block_dim)
        for op in statements(program.body)
        if isinstance(op, Rearrange) and op.layout is not None
    }


def _parse(op: Rearrange, threads: int) -> Fragment:
    shape = op.dst.shape
    try:
        layout = Layout.parse(str(op.layout))
        thread, value = (from_linear(layout[i], shape) for i in (0, 1))
    except (LayoutError, IndexError, ValueError) as error:
        raise LayoutConflict(
            f"rearrange to {op.layout!r}: not a thread-value layout ({error})",
            op.span,
            "write ((threads...),(values...)):((strides...),(strides...)) over the tile's "
            "colexicographic index",
        ) from error
    if thread is not None and value is not None:
        found = Fragment(shape, tuple(m for p in thread for m in p),
                         tuple(m for p in value for m in p))  # fmt: skip
        if found.threads == threads and found.covers():
            return found
    raise LayoutConflict(
        f"rearrange to {op.layout}: not a layout of {prod(shape)} elements of a "
        f"{'x'.join(map(str, shape))} tile over {threads} threads",
        op.span,
        "every element must be held, by threads of the block",
    )
