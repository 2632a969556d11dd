"""Tensors for a call, on any device of torch: random ones of the kind that an operator gets, or on
"meta" ones without data."""

from __future__ import annotations

from typing import Any

from hexcute_core.errors import LaunchError, MissingDependency
from hexcute_core.runtime.torch_link import INSTALL
from hexcute_kernels.moe.packing import packed_shape

Value = int | float | bool | str | None

class Maker:
    """Makes tensors on a device of torch, always the same from the same seed."""

    def __init__(self, device: str, seed: int = 0) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingDependency(
                f"arguments of these sizes are tensors of torch: {error}", fix=INSTALL
            ) from error

        self.torch, self.device = torch, device
        self.empty = device == "meta"
        self._random = None if self.empty else torch.Generator(device).manual_seed(seed)

    def dtype(self, name: Value) -> Any:
        found = getattr(self.torch, str(name), None)
        if not isinstance(found, self.torch.dtype):
            raise LaunchError(f"{name!r} is no type of torch's", fix="write dtype=float16")
        return found

    def normal(self, *shape: int, dtype: Value = "float16", scale: float = 1.0) -> Any:
        kind = self.dtype(dtype)
        if self.empty:
            return self.torch.empty(shape, dtype=kind, device=self.device)
        drawn = self.torch.randn(shape, device=self.device, generator=self._random) * scale
        return drawn.to(kind)

    def positive(self, *shape: int, dtype: Value = "float32") -> Any:
        drawn = self.normal(*shape, dtype=dtype)
        return drawn if self.empty else drawn.abs()

    def below(self, end: int, *shape: int, dtype: Value = "int32") -> Any:
        """Whole numbers from 0 to end - 1."""
        how = {"dtype": self.dtype(dtype), "device": self.device}
        return self.torch.randint(end, shape, generator=self._random, **how)

    def first(self, count: int) -> Any:
        """The whole numbers from 0 on."""
        return self.torch.arange(count, dtype=self.torch.int32, device=self.device)

    def ascending(self, parts: int, end: int) -> Any:
        """Where so many parts of about one length begin, and the last ends."""
        return self.first(parts + 1) if self.empty else self.first(parts + 1) * end // parts

    def matrix(self, rows: int, columns: int, by_columns: bool, dtype: Value, *batch: int) -> Any:
        """Of rows x columns; `by_columns`, a column's elements are neighbours."""
        if by_columns:
            return self.normal(*batch, columns, rows, dtype=dtype).mT
        return self.normal(*batch, rows, columns, dtype=dtype)

    def packed(self, k: int, n: int, group: int, *batch: int) -> Any:
        """Weights of four bits."""
        if self.empty:
            return self.below(256, *batch, *packed_shape(k, n, group), dtype="uint8")
        from hexcute_kernels.moe.packing import pack

        groups = (*batch, k // group, n)
        q = self.below(16, *batch, k, n, dtype="uint8")
        scale = self.positive(*groups, dtype="float16") / 16
        return pack(q, scale, self.below(16, *groups, dtype="uint8"))
