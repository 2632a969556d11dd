"""Products whose weight is cut over the ranks of a process group.

    ColumnParallel   y_r = x w_r^T           x whole, results cut along n; or gathered to all of y
    RowParallel      y = sum_r x_r w_r^T     x cut along k as the weight is, results whole

A ColumnParallel layer and a RowParallel one behind it exchange once: y_r is x_r of the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexcute_core.errors import LaunchError
from hexcute_kernels.parallel.collectives import all_gather, all_reduce, place
from hexcute_kernels.parallel.cuts import merged
from hexcute_kernels.parallel.products import Product, product
from hexcute_kernels.parallel.weights import Shard

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class ColumnParallel:
    """y_r = x w_r^T: every rank has all of x and makes its columns of y.

    shard: of this rank, cut along "n". group: the ranks' process group. gather: whether each rank
    gets all of y, the columns in the whole weight's order. product: what computes x w^T here.

    Raises LaunchError where shard and group do not fit; a call, what `product` raises and
    PeerError.
    """

    shard: Shard
    group: ProcessGroup
    gather: bool = False
    product: Product = product

    def __post_init__(self) -> None:
        _check("ColumnParallel", "n", self.shard, self.group)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(.., n / ranks), or (.., n) where gathered, of x (.., k)."""
        y = self.product(x, self.shard.weight)
        return _whole(y, self.shard, self.group) if self.gather else y


@dataclass(frozen=True)
class RowParallel:
    """y = sum over ranks of x_r w_r^T, on every rank.

    shard: of this rank, cut along "k". group: the ranks' process group. split: whether calls pass
    all of x, of which a rank takes its part; else they pass the part. product: what computes
    x w^T here.

    The parts of the sum are rounded to y's type before they are added, in that type: an error of up
    to ranks roundings. Raises LaunchError where shard and group do not fit; a call, what `product`
    raises and PeerError.
    """

    shard: Shard
    group: ProcessGroup
    split: bool = False
    product: Product = product

    def __post_init__(self) -> None:
        _check("RowParallel", "k", self.shard, self.group)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(.., n) of x (.., k / ranks), or of x (.., k) where it is split."""
        part = _own(x, self.shard) if self.split else x
        return all_reduce(self.product(part, self.shard.weight), self.group)


def _check(name: str, dim: str, shard: Shard, group: ProcessGroup) -> None:
    if shard.dim != dim:
        raise LaunchError(
            f"{name} takes a weight cut along {dim!r}, got one cut along {shard.dim!r}",
            fix=f"pass shard(weight, rank, ranks, {dim!r})",
        )
    rank, ranks = place(group)
    if (shard.rank, shard.ranks) != (rank, ranks):
        raise LaunchError(
            f"{name}: the weight is of rank {shard.rank} of {shard.ranks}, this process is rank "
            f"{rank} of {ranks} in its group",
            fix=f"pass shard(weight, {rank}, {ranks}, {dim!r})",
        )


def _whole(y: torch.Tensor, shard: Shard, group: ProcessGroup) -> torch.Tensor:
    """All columns, in the whole weight's order: each of its parts is cut over all ranks."""
    import torch as torch_module

    sizes = [size // shard.ranks for size in shard.parts]
    by_rank = [piece.split(sizes, -1) for piece in all_gather(y, group)]
    return torch_module.cat([piece for part in zip(*by_rank) for piece in part], -1)


def _own(x: torch.Tensor, shard: Shard) -> torch.Tensor:
    """This rank's part of x (.., k). Raises LaunchError where x is not all of it."""
    import torch as torch_module

    k = sum(shard.parts)
    if x.dim() == 0 or x.shape[-1] != k:
        raise LaunchError(f"RowParallel takes all of x (.., {k}) to split, got {tuple(x.shape)}")
    ranges = merged("k", shard.parts, shard.rank, shard.ranks)
    return torch_module.cat([x[..., first:last] for first, last in ranges], -1)
