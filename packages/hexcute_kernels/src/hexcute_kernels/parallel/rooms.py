"""What a token takes along to another rank, and the rooms there: tensors whose shapes say nothing
of how many go where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Form:
    """How a token's numbers, of `dtype`, its `top_k` experts and their gates travel as one row, of
    words of `unit`."""

    top_k: int
    dtype: Any
    unit: Any

    @classmethod
    def of(cls, x: torch.Tensor, ids: torch.Tensor) -> Form:
        """That of rows and their numbers."""
        import torch as torch_module

        size = x.shape[1] * x.element_size()
        words = {0: torch_module.int32, 2: torch_module.int16}
        return cls(ids.shape[1], x.dtype, words.get(size % 4, torch_module.uint8))

    def joined(self, *parts: torch.Tensor) -> torch.Tensor:
        """(tokens, words) of x, ids and gates."""
        import torch as torch_module

        return torch_module.cat([part.contiguous().view(self.unit) for part in parts], 1)

    def taken(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x, ids and gates of such rows."""
        import torch as torch_module

        numbers = self.top_k * 4 // rows.element_size()
        sizes = rows.shape[1] - 2 * numbers, numbers, numbers
        dtypes = self.dtype, torch_module.int32, torch_module.float32
        x, ids, gates = (
            part.contiguous().view(dtype) for part, dtype in zip(rows.split(sizes, 1), dtypes)
        )
        return x, ids, gates


@dataclass(frozen=True, eq=False)
class Routes:
    """Where tokens go: `chosen` (ranks, tokens), and `rooms`, the place of a token among those that
    go there; `most`, rooms of a rank."""

    chosen: Any
    rooms: Any
    most: int

    def filled(self, t: torch.Tensor) -> torch.Tensor:
        """Rooms (ranks, most, columns) of rows (tokens, columns); zeros where nobody is."""
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
