"""A model over several GPUs: which part of a weight a rank has, and the sums over them.

Weights are drawn whole, from one seed, on every rank, and cut before they are packed, so that every
system can be cut alike; sums go through the process group.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

from hexcute_bench.engine.weights import Eight, FourBits, Raw, cut

W = TypeVar("W")
LIMIT = timedelta(seconds=60)
"""After which an exchange is given up: another rank has ended."""


@dataclass(frozen=True)
class Ranks:
    """Number `rank` of `count`, and the group that they exchange in; none where there is one.
    `spread`: experts are cut by their number, not by their width; tokens travel to them
    ("exchange"), or all ranks have all tokens and add up what comes of them ("sum")."""

    rank: int = 0
    count: int = 1
    group: Any = None
    spread: str = ""

    def columns(self, weight: W, *parts: int) -> W:
        """A rank's results of a weight: of each of the matrices, so many columns wide, that lie
        side by side in it."""
        return self._cut(weight, "n", parts)

    def rows(self, weight: W, *parts: int) -> W:
        """A rank's terms of the sums of a weight; results are to be summed over all ranks."""
        return self._cut(weight, "k", parts)

    def _cut(self, weight: W, dim: str, parts: Sequence[int]) -> W:
        from hexcute_kernels.parallel.cuts import merged

        if self.count == 1:
            return weight
        block = _block(weight, dim)
        # A part is of the kind of the whole.
        return cast(W, cut(weight, dim, list(merged(dim, parts, self.rank, self.count, block))))

    def sum(self, x: Any) -> Any:
        """The sum over all ranks, in place."""
        from hexcute_kernels.parallel.collectives import all_reduce

        return x if self.count == 1 else all_reduce(x, self.group)

    def gathered(self, x: Any) -> Any:
        """The columns of all ranks, side by side."""
        import torch

        from hexcute_kernels.parallel.collectives import all_gather

        return x if self.count == 1 else torch.cat(all_gather(x, self.group), -1)

    def stacked(self, x: Any) -> Any:
        """The rows of all ranks, one below the other."""
        import torch

        from hexcute_kernels.parallel.collectives import all_gather

        return x if self.count == 1 else torch.cat(all_gather(x, self.group))

    def agreed(self, number: int) -> int:
        """The largest of the ranks' numbers: how often all of them do what they do together."""
        import torch
        from torch import distributed

        if self.count == 1:
            return number
        backend = distributed.get_backend(self.group)
        place = "cuda" if backend == "nccl" else "cpu"
        largest = torch.tensor([number], device=place)
        distributed.all_reduce(largest, distributed.ReduceOp.MAX, group=self.group)
        return int(largest)


def _block(weight: Raw, dim: str) -> int:
    """What a weight is not cut within."""
    match weight:
        case FourBits():
            return 64 if dim == "n" else 128
        case Eight():
            return 128
        case _:
            return 1


ALONE = Ranks()


@functools.cache
def started(count: int, spread: str = "") -> Ranks:
    """The ranks that torchrun started, each with its GPU, in a group of NCCL; one alone needs
    none."""
    import torch
    from torch import distributed

    if count == 1:
        return ALONE
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not distributed.is_initialized():
        distributed.init_process_group("nccl", timeout=LIMIT)
    return Ranks(distributed.get_rank(), count, distributed.group.WORLD, spread)
