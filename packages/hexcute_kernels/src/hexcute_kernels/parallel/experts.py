"""Experts on several ranks, and tokens on all of them, or each on one.

    out[t] = sum over ranks r of part_r[t],   part_r[t] = sum over j with ids[t, j] on r of
             gates[t, j] expert(ids[t, j], x[t])

Where all ranks have all tokens, as after attention that is cut by heads, parts are added up over
the ranks. Where each has tokens of its own, they travel to the ranks that have their experts: to a
rank once, however many of its experts are there. How many go where is known on the device alone:
every rank has room for `most` tokens of every other, so nothing waits for counts, and a CUDA graph
may hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexcute_core.errors import LaunchError
from hexcute_core.unions import assert_never
from hexcute_kernels.moe import moe
from hexcute_kernels.parallel.collectives import all_reduce, exchange, place
from hexcute_kernels.parallel.cuts import uneven
from hexcute_kernels.parallel.rooms import Form, Routes
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


def choices(
    ids: torch.Tensor, gates: torch.Tensor, first: int, here: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Expert numbers as a rank counts its own `here`, from number `first` on, and their gates: both
    (rows, top_k). Where an expert is another rank's: one that the row has here, whose weights are
    read in any case, or number 0, with a gate of 0.

    ids: (rows, top_k), int32, of all experts; gates: of that shape, float32.
    """
    import torch as torch_module

    numbers = ids - first
    mine = (numbers >= 0) & (numbers < here)
    one = (numbers * mine).amax(-1, keepdim=True)
    return torch_module.where(mine, numbers, one), gates * mine


def _check_stacks(name: str, group: ProcessGroup, first: Experts, second: Experts) -> None:
    """Raises LaunchError where a rank's stacks are not its own of all."""
    rank, ranks = place(group)
    for which, stack in (("first", first), ("second", second)):
        start, end = uneven("experts", stack.count, rank, ranks, empty=True)
        if (stack.first, stack.here) != (start, end - start):
            raise LaunchError(
                f"{name}: {which} has {stack.here} experts from number {stack.first} on, rank "
                f"{rank} of {ranks} has {end - start} from {start} on, of {stack.count}",
                fix=f"pass shard_experts(weight, {rank}, {ranks}, empty=True)",
            )
    if first.count != second.count:
        raise LaunchError(f"{name}: first is of {first.count} experts, second of {second.count}")


def _check_rows(name: str, x: torch.Tensor, ids: torch.Tensor, gates: torch.Tensor) -> None:
    tokens = x.shape[0] if x.dim() == 2 else -1
    if tokens < 0 or ids.dim() != 2 or ids.shape[0] != tokens or gates.shape != ids.shape:
        raise LaunchError(
            f"{name} takes x (tokens, hidden), ids and gates (tokens, top_k), got "
            f"{tuple(x.shape)}, {tuple(ids.shape)} and {tuple(gates.shape)}"
        )
    types = str(ids.dtype), str(gates.dtype)
    if types != ("torch.int32", "torch.float32"):
        raise LaunchError(
            f"{name} takes ids in int32 and gates in float32, got {types[0]} and {types[1]}"
        )


@dataclass(frozen=True)
class SummedExperts:
    """A mixture of experts of ranks that have all tokens, alike, and experts of their own.

    first, second: what `shard_experts` gives of both stacks for this rank. group: the ranks'
    process group. compute: what computes a rank's own experts. choose: `choices`, or what is
    quicker.

    Choices of other ranks are computed as well, with gates of 0. Raises LaunchError where stacks
    and group do not fit; a call, what `compute` raises, and PeerError.
    """

    first: Experts
    second: Experts
    group: ProcessGroup
    compute: Compute = experts_here
    choose: Callable[..., tuple[torch.Tensor, torch.Tensor]] = choices

    def __post_init__(self) -> None:
        _check_stacks("SummedExperts", self.group, self.first, self.second)

    def __call__(
        self,
        x: torch.Tensor,
        ids: torch.Tensor,
        gates: torch.Tensor,
        beside: Callable[[], torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """(tokens, hidden) in x's type, on every rank: each rank's part in that type, added up.

        x: (tokens, hidden); ids: (tokens, top_k), int32, of all experts, each from 0 to their
        number - 1; gates: of that shape, float32. beside: this rank's part of what is added, as of
        a shared expert that is cut by rows.
        """
        _check_rows("SummedExperts", x, ids, gates)
        import torch as torch_module

        part = torch_module.zeros_like(x)
        if self.first.here:
            own = self.choose(ids, gates, self.first.first, self.first.here)
            part = self.compute(x, *own, self.first, self.second)
        return all_reduce(part if beside is None else part + beside(), self.group)


@dataclass(frozen=True)
class ExpertParallel:
    """A mixture of experts whose ranks have experts and tokens of their own.

    first, second: what `shard_experts` gives of both stacks for this rank. group: the ranks'
    process group. most: of how many tokens a rank has room, the same on all ranks: a call may have
    fewer, or none. compute: what computes a rank's own experts.

    Rooms that are not filled are computed as well, with gates of 0, by the rank's first expert, and
    choices of other ranks. Raises LaunchError where stacks and group do not fit; a call, where
    tokens are more than `most`, what `compute` raises, and PeerError.
    """

    first: Experts
    second: Experts
    group: ProcessGroup
    most: int
    compute: Compute = experts_here

    def __post_init__(self) -> None:
        _check_stacks("ExpertParallel", self.group, self.first, self.second)
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
        _check_rows("ExpertParallel", x, ids, gates)
        if x.shape[0] > self.most:
            raise LaunchError(
                f"ExpertParallel has room for {self.most} tokens of a rank, got {x.shape[0]}",
                fix="let most be the largest number of tokens that any rank has",
            )
        routes, form = self._routes(ids), Form.of(x, ids)
        travelling = exchange(routes.filled(form.joined(x, ids, gates)), self.group)
        more = None if beside is None else beside()
        back = exchange(self._computed(form, travelling()), self.group)()
        total = routes.summed(back, x.shape[0])
        return (total if more is None else total + more.float()).to(x.dtype)

    def _routes(self, ids: torch.Tensor) -> Routes:
        import torch as torch_module

        _, ranks = place(self.group)
        each, more = divmod(self.first.count, ranks)
        # As `uneven` counts, on the device: a graph holds no copy of the host's numbers.
        numbers = torch_module.arange(ranks, dtype=torch_module.int32, device=ids.device)
        firsts = numbers * each + numbers.clamp(max=more)
        # Ranks without an expert begin where the next one does, so the last of them is found.
        owners = torch_module.searchsorted(firsts, ids, right=True) - 1
        chosen = (owners.unsqueeze(0) == numbers[:, None, None]).any(-1)
        return Routes(chosen, chosen.cumsum(1) - 1, self.most)

    def _computed(self, form: Form, there: torch.Tensor) -> torch.Tensor:
        """What came from every rank, (ranks, most, ..), after this rank's experts."""
        import torch as torch_module

        ranks, most, _ = there.shape
        x, ids, gates = form.taken(there.flatten(0, 1))
        if self.first.here == 0:
            made = torch_module.zeros_like(x)
        else:
            own = choices(ids, gates, self.first.first, self.first.here)
            made = self.compute(x, *own, self.first, self.second)
        return made.view(ranks, most, -1)
