"""Experts on several ranks, and tokens too: each token travels to the ranks that have its experts.

    out[t] = sum over ranks r of back_r[t],   back_r[t] = sum over j with ids[t, j] on r of
             gates[t, j] expert(ids[t, j], x[t])

A token goes to a rank once, however many of its experts are there. How many go where is known on
the device alone: every rank has room for `most` tokens of every other, so nothing waits for counts,
and a CUDA graph may hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError
from hexcute_core.unions import assert_never
from hexcute_kernels.moe import moe
from hexcute_kernels.parallel.collectives import exchange, place
from hexcute_kernels.parallel.cuts import uneven
from hexcute_kernels.parallel.weights import Blockwise, Dense, Experts, FourBits

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

Compute = Callable[..., "torch.Tensor"]
"""compute(x, ids, gates, first, second): `moe` of a rank's own experts, ids counted from 0."""


def experts_here(
    x: torch.Tensor, ids: torch.Tensor, gates: torch.Tensor, first: Experts, second: Experts
) -> torch.Tensor:
    """The weighted sums of rows' experts on this rank's GPU, by `moe`: of x (rows, hidden), ids and
    gates (rows, top_k), and the experts' first and second products. Gives (rows, hidden). Raises
    LaunchError for weights that are not of four bits."""
    match first.weight, second.weight:
        case FourBits(w13), FourBits(w2):
            return moe(x, w13, w2, ids, gates)
        case (Dense() | Blockwise() | FourBits()), (Dense() | Blockwise() | FourBits()):
            raise LaunchError(
                "experts of four bits are computed here",
                fix="pass compute=, a function of (x, ids, gates, first, second)",
            )
        case _:
            assert_never(first.weight)


@dataclass(frozen=True)
class ExpertParallel:
    """A mixture of experts whose ranks have experts and tokens of their own.

    first, second: what `shard_experts` gives of both stacks for this rank. group: the ranks'
    process group. most: of how many tokens a rank has room, the same on all ranks: a call may have
    fewer, or none. compute: what computes a rank's own experts.

    Rooms that are not filled are computed as well, with gates of 0, by the rank's first expert.
    Raises LaunchError where stacks and group do not fit; a call, where tokens are more than `most`,
    what `compute` raises, and PeerError.
    """

    first: Experts
    second: Experts
    group: ProcessGroup
    most: int
    compute: Compute = experts_here

    def __post_init__(self) -> None:
        rank, ranks = place(self.group)
        for name, stack in (("first", self.first), ("second", self.second)):
            start, end = uneven("experts", stack.count, rank, ranks, empty=True)
            if (stack.first, stack.here) != (start, end - start):
                raise LaunchError(
                    f"ExpertParallel: {name} has {stack.here} experts from number {stack.first} "
                    f"on, rank {rank} of {ranks} has {end - start} from {start} on, of "
                    f"{stack.count}",
                    fix=f"pass shard_experts(weight, {rank}, {ranks}, empty=True)",
                )
        if self.first.count != self.second.count:
            raise LaunchError(
                f"ExpertParallel: first is of {self.first.count} experts, second of "
                f"{self.second.count}"
            )
        if self.most < 1:
            raise LaunchError(
                f"ExpertParallel: most is a number of tokens from 1 on, got {self.most}"
            )

    def __call__(
        self,
        x: torch.Tensor,
        ids: torch.Tensor,
        gates: torch.Tensor,
        beside: Callable[[], torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """(tokens, hidden) in x's type: of this rank's tokens, summed in float32 and rounded once.

        x: (tokens, hidden); ids: (tokens, top_k), int32, of all experts, each from 0 to their
        number - 1; gates: of that shape, float32. beside: computed while tokens travel, as a shared
        expert is, and added.
        """
        self._check(x, ids, gates)
        routes = self._routes(ids)
        rooms = [routes.filled(t) for t in (x, *self._own(ids, gates, routes))]
        travelling = [exchange(room, self.group) for room in rooms]
        more = None if beside is None else beside()
        there = [wait() for wait in travelling]
        back = exchange(self._computed(*there), self.group)()
        total = routes.summed(back, x.shape[0])
        return (total if more is None else total + more.float()).to(x.dtype)

    def _check(self, x: torch.Tensor, ids: torch.Tensor, gates: torch.Tensor) -> None:
        tokens = x.shape[0] if x.dim() == 2 else -1
        if tokens < 0 or ids.dim() != 2 or ids.shape[0] != tokens or gates.shape != ids.shape:
            raise LaunchError(
                "ExpertParallel takes x (tokens, hidden), ids and gates (tokens, top_k), got "
                f"{tuple(x.shape)}, {tuple(ids.shape)} and {tuple(gates.shape)}"
            )
        types = str(ids.dtype), str(gates.dtype)
        if types != ("torch.int32", "torch.float32"):
            raise LaunchError(
                f"ExpertParallel takes ids in int32 and gates in float32, got {types[0]} and "
                f"{types[1]}"
            )
        if tokens > self.most:
            raise LaunchError(
                f"ExpertParallel has room for {self.most} tokens of a rank, got {tokens}",
                fix="let most be the largest number of tokens that any rank has",
            )

    def _routes(self, ids: torch.Tensor) -> Routes:
        import torch as torch_module

        _, ranks = place(self.group)
        each, more = divmod(self.first.count, ranks)
        # As `uneven` counts, on the device: a graph holds no copy of the host's numbers.
        numbers = torch_module.arange(ranks, dtype=torch_module.int32, device=ids.device)
        firsts = numbers * each + numbers.clamp(max=more)
        # Ranks without an expert begin where the next one does, so the last of them is found.
        owners = torch_module.searchsorted(firsts, ids, right=True) - 1
        goes = owners.unsqueeze(0) == numbers[:, None, None]
        chosen = goes.any(-1)
        return Routes(goes, chosen, chosen.cumsum(1) - 1, firsts, self.most)

    def _own(
        self, ids: torch.Tensor, gates: torch.Tensor, routes: Routes
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Expert numbers as each rank counts its own, (ranks, tokens, top_k), and gates; where an
        expert is another rank's, one that the token has there, whose weights are read in any case,
        with a gate of 0."""
        numbers = (ids.unsqueeze(0) - routes.firsts[:, None, None]) * routes.goes
        one = numbers.amax(-1, keepdim=True) * ~routes.goes
        return numbers + one, gates.unsqueeze(0) * routes.goes

    def _computed(self, x: torch.Tensor, ids: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
        """What came from every rank, (ranks, most, ..), after this rank's experts."""
        import torch as torch_module

        if self.first.here == 0:
            return torch_module.zeros_like(x)
        rows = [t.flatten(0, 1) for t in (x, ids, gates)]
        return self.compute(*rows, self.first, self.second).view(x.shape)


@dataclass(frozen=True, eq=False)
class Routes:
    """Where tokens go: `goes` (ranks, tokens, top_k), which choices are which rank's; `chosen`
    (ranks, tokens), and `rooms`, the place of a token among those that go there; `firsts`, the
    number of each rank's first expert; `most`, rooms of a rank."""

    goes: Any
    chosen: Any
    rooms: Any
    firsts: Any
    most: int

    def filled(self, t: torch.Tensor) -> torch.Tensor:
        """Rooms (ranks, most, columns) of rows (tokens, columns), the same for all ranks, or
        (ranks, tokens, columns); zeros where nobody is."""
        ranks, tokens = self.chosen.shape
        rows = t.expand(ranks, tokens, t.shape[-1])
        # A room more, for those who do not go, which is left out again.
        rooms = self.rooms.masked_fill(~self.chosen, self.most)
        made = t.new_zeros((ranks, self.most + 1, t.shape[-1]))
        made.scatter_(1, rooms.unsqueeze(-1).expand_as(rows), rows)
        return made[:, : self.most].contiguous()

    def summed(self, back: torch.Tensor, tokens: int) -> torch.Tensor:
        """(tokens, columns), float32: the sum of what came back to each token."""
        rooms = self.rooms.clamp(min=0).unsqueeze(-1)
        rows = back.gather(1, rooms.expand(-1, tokens, back.shape[-1])).float()
        return (rows * self.chosen.unsqueeze(-1)).sum(0)
