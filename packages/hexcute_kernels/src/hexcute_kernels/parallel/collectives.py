"""What crosses ranks: sums and pieces, through a process group of torch.distributed.

A collective that does not come to its end, because another rank has died, hangs or calls something
else, is a PeerError, after at most the group's timeout where its backend reports it to the caller.
All ranks pass tensors of one shape and type: torch compares them where the environment says
TORCH_DISTRIBUTED_DEBUG=DETAIL, and otherwise need not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hexcute_core.errors import HexcuteError, LaunchError

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


class PeerError(HexcuteError):
    """An exchange between ranks did not come to its end; what torch said follows."""


def place(group: ProcessGroup) -> tuple[int, int]:
    """This process's rank in a group, and how many ranks it has. Raises LaunchError where there is
    no such group, or the process is not in it."""
    import torch.distributed as distributed

    try:
        rank, ranks = distributed.get_rank(group), distributed.get_world_size(group)
    except (RuntimeError, ValueError) as error:
        raise LaunchError(
            f"there is no such process group: {error}",
            fix="call torch.distributed.init_process_group first, and pass a group of it",
        ) from error
    if rank < 0:
        raise LaunchError(
            "this process is not in the process group",
            fix="build parallel layers on the ranks of their group alone",
        )
    return rank, ranks


def all_reduce(tensor: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
    """The sum over all ranks, in the place of `tensor`, or of a copy where it is not row-major.
    Raises PeerError."""
    import torch.distributed as distributed

    total = tensor
    if place(group)[1] > 1:
        total = tensor.contiguous()
        with _exchange("a sum", group):
            distributed.all_reduce(total, group=group)
    return total


def all_gather(tensor: torch.Tensor, group: ProcessGroup) -> list[torch.Tensor]:
    """The tensors of all ranks, alike in shape, in the ranks' order. Raises PeerError."""
    import torch as torch_module
    import torch.distributed as distributed

    ranks = place(group)[1]
    if ranks == 1:
        return [tensor]
    pieces = [torch_module.empty_like(tensor).contiguous() for _ in range(ranks)]
    with _exchange("a gathering", group):
        distributed.all_gather(pieces, tensor.contiguous(), group=group)
    return pieces


def exchange(rooms: torch.Tensor, group: ProcessGroup) -> Callable[[], torch.Tensor]:
    """Sends rooms[r] to rank r, of all ranks alike in shape. The call that it gives waits for what
    the others sent, by the ranks' order, and raises PeerError."""
    import torch as torch_module
    import torch.distributed as distributed

    ranks = place(group)[1]
    if ranks == 1:
        return lambda: rooms
    came = torch_module.empty_like(rooms)
    with _exchange("an exchange", group):
        work = distributed.all_to_all_single(came, rooms, group=group, async_op=True)

    def wait() -> torch.Tensor:
        with _exchange("an exchange", group):
            work.wait()
        return came

    return wait


@contextmanager
def _exchange(what: str, group: Any) -> Iterator[None]:
    rank, ranks = place(group)
    try:
        yield
    except RuntimeError as error:
        raise PeerError(
            f"{what} over {ranks} ranks did not come to its end on rank {rank}: another rank has "
            f"died, hangs, or calls something else. torch says: {error}",
            fix="look for the first error in the output of the other ranks, and start all of them "
            "anew: a group does not recover",
        ) from error
