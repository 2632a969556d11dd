"""How many bytes of tensors are alive, and how many were at most, as torch makes and frees them."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Inside, `now` and `most` count the memory of the tensors that are made, and of `held`."""

    def __init__(self, *held: Any) -> None:
        super().__init__()
        self.now = self.most = 0
        self._users: dict[int, int] = {}
        for tensor in held:
            self._count(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                self._count(tensor)
        return made

    def _count(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        at, size = storage.data_ptr(), storage.nbytes()
        if self._users.setdefault(at, 0) == 0:
            self.now += size
            self.most = max(self.most, self.now)
        self._users[at] += 1
        weakref.finalize(tensor, self._freed, at, size)

    def _freed(self, at: int, size: int) -> None:
        self._users[at] -= 1
        if self._users[at] == 0:
            self.now -= size
