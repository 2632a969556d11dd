"""`Described`: a tensor without data, as a launch would see it on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Described:
    """What a binder asks of a tensor, answered from one that need not hold data (torch's "meta"):
    its shape, type and order are `tensor`'s, its memory is aligned and on GPU 0."""

    tensor: Any

    @property
    def shape(self) -> Any:
        return self.tensor.shape

    @property
    def dtype(self) -> Any:
        return self.tensor.dtype

    def is_contiguous(self) -> bool:
        return bool(self.tensor.is_contiguous())

    def stride(self) -> tuple[int, ...]:
        return tuple(self.tensor.stride())

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return 0
