"""hx.remote(tile, rank) = the same tile in the shared memory of block `rank` of the cluster.

Who reads what was written there, and when a block may end, is the author's to order: by the
cluster's barrier, or by arrivals at the other block's mbarriers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.launch import told
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tileops import tile_of
from hexcute_core.frontend.language.tiles import Tile, describe
from hexcute_core.scalar import Scalar, ScalarBase, as_scalar
from hexcute_core.tile import SharedTensor, TileProgram
from hexcute_core.tile.remote import slots_reached

_WHAT = "hx.remote"


def remote(tile: object, rank: object) -> Tile:
    """Shared tile `tile`, or a part of one, as block `rank` of the cluster has it.

    `rank` is a block's number in the cluster, x fastest, as `hx.cluster_rank()` gives it: an int
    or a scalar on which all threads agree. The result is copied to and from registers, or filled.
    Raises `FrontendError`, located, without a cluster, for a tile that is not in this block's
    shared memory, and for a rank that no block of the cluster has.
    """
    builder = current(_WHAT)
    own = tile_of(tile, _WHAT)
    if not isinstance(own.tensor, SharedTensor):
        raise builder.error(
            f"{_WHAT} reaches into shared memory, got {describe(own)}",
            fix="copy it to a shared tensor, and let the other block read that",
        )
    if own.ref.rank is not None:
        raise builder.error(
            f"{_WHAT} of {describe(own)}, which is another block's already",
            fix=f"pass the block's own tile: {_WHAT}({own.tensor.name}, rank)",
        )
    return Tile(own.tensor, replace(own.ref, rank=_rank(builder, rank)))


def _rank(builder: Builder, rank: object) -> Scalar:
    """The number of a block of the cluster."""
    blocks = prod(told(builder, "cluster_dim"))
    if blocks == 1:
        raise builder.error(
            f"{_WHAT} in a kernel without a cluster",
            fix="set hx.attrs.cuda.cluster_dim = 2, or more, at the top of the kernel",
        )
    number = isinstance(rank, (int, ScalarBase)) and not isinstance(rank, bool)
    scalar = as_scalar(rank) if number else None
    if scalar is None or not scalar.dtype.is_integer:
        raise builder.error(
            f"{_WHAT} takes the number of a block, got {describe(rank)}",
            fix=f"write {_WHAT}(tile, 0), or an integer of hx.cluster_rank()",
        )
    known = static_int(rank)
    if known is not None and not 0 <= known < blocks:
        raise builder.error(
            f"block {known} of a cluster of {blocks}", fix=f"use a rank from 0 to {blocks - 1}"
        )
    if builder.varies(scalar):
        raise builder.error(
            f"the rank {scalar} depends on the thread: a tile lies in one block",
            fix="make it depend on the block or the role alone",
        )
    return builder.stable(scalar, "rank")


def check_remote(program: TileProgram) -> None:
    """Raises FrontendError, located, where another block's slot of a pipeline is touched."""
    for tensor, pipeline, span in slots_reached(program):
        raise FrontendError(
            f"`{tensor}` of another block is a slot of the pipeline `{pipeline}`, which changes "
            "hands within its own block alone",
            span=span,
            fix="copy what the other block needs to a shared tensor of its own, and let the "
            "cluster meet: hx.cluster_sync()",
        )
