"""DeepSeek's experts by their number: each rank has some of them whole.

All ranks have all tokens, as attention that is cut by heads leaves them. Either each takes its
share of the rows, sends them to the ranks of their experts, and gives what came of them to all; or
each adds up its own experts of all tokens, its part of the shared one too, and the sum is over the
ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hexcute_bench.engine.ranks import Ranks
from hexcute_bench.engine.weights import Stacks, map_tensors


@dataclass(frozen=True, eq=False)
class _Count:
    """What parallel layers ask of weights that they do not compute with themselves: how many."""

    w: Any


def own_experts(stacks: Stacks, ranks: Ranks) -> Stacks:
    """A rank's experts of raw stacks."""
    from hexcute_kernels.parallel.cuts import uneven

    count = stacks.first.scale.shape[0]
    start, end = uneven("experts", count, ranks.rank, ranks.count)
    part: Stacks = map_tensors(stacks, lambda tensor: tensor[start:end].clone())
    return part


class SpreadExperts:
    """The layer: `experts` are of `count`, those of this rank packed by `ops`."""

    def __init__(self, ranks: Ranks, count: int, ops: Any) -> None:
        self._ranks, self._count, self._ops = ranks, count, ops

    def __call__(self, x: Any, w: dict[str, Any], route: Any, shared: Any) -> Any:
        """(tokens, hidden) of x on every rank. route(rows): experts and gates; shared(rows), where
        sums are exchanged a rank's part of it."""
        import torch

        from hexcute_kernels.parallel import ExpertParallel, Experts, SummedExperts
        from hexcute_kernels.parallel.cuts import uneven

        ranks, ops = self._ranks, self._ops
        start, end = uneven("experts", self._count, ranks.rank, ranks.count)
        here: Any = _Count(torch.empty(end - start, 0))
        part = Experts(here, start, self._count)

        def compute(rows: Any, ids: Any, gates: Any, *parts: Any) -> Any:
            return ops.experts(rows, w["experts"], ids.contiguous(), gates.contiguous())

        if ranks.spread == "sum":
            summed = SummedExperts(part, part, ranks.group, compute, ops.own_choices)
            ids, gates = route(x)
            return summed(x, ids, gates, lambda: shared(x))
        tokens = x.shape[0]
        most = -(-tokens // ranks.count)
        # As many rows on every rank, the last ones perhaps of zeros.
        padded = torch.nn.functional.pad(x, (0, 0, 0, most * ranks.count - tokens))
        rows = padded[ranks.rank * most :][:most].contiguous()
        layer = ExpertParallel(part, part, ranks.group, most, compute)
        ids, gates = route(rows)
        made = layer(rows, ids, gates, lambda: shared(rows))
        return ranks.stacked(made)[:tokens].contiguous()
