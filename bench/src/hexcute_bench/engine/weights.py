"""Random weights of the models, one layer of each kind, and copies of it for all layers.

    FourBits   W = (q - zero) * scale      q, zero uint8 0..15, [k, n] and [k/group, n], scale f16
    Eight      W = w * scale               w e4m3 [n, k], scale f32 [n/128, k/128]
    Stacks     W13 and W2 of experts       of four bits, or of 16

What adds to the residual is drawn small (`gain`), as trained models have it: a token's row then
keeps the direction that its embedding gave it, and tokens do not all go to the same experts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Union

from hexcute_bench.cases.fp8 import BLOCK
from hexcute_bench.errors import BenchError


@dataclass(frozen=True, eq=False)
class FourBits:
    """q [.., k, n], scale and zero [.., k/group, n]; stacks have the experts in front."""

    q: Any
    scale: Any
    zero: Any

    @property
    def group(self) -> int:
        """How many numbers along k share a scale."""
        return int(self.q.shape[-2] // self.scale.shape[-2])


@dataclass(frozen=True, eq=False)
class Eight:
    """w [n, k] in e4m3, a float32 scale for each 128 x 128 block."""

    w: Any
    scale: Any


@dataclass(frozen=True, eq=False)
class Stacks:
    """Both weights of all experts: of four bits, or tensors (experts, 2 width, hidden) and
    (experts, hidden, width)."""

    first: Any
    second: Any


Raw = Union[FourBits, Eight, Stacks, Any]


class Draw:
    """Random tensors on a device from one seed: the same on every rank, and for every system."""

    def __init__(self, device: Any, seed: int = 0) -> None:
        import torch

        self.torch, self.device = torch, device
        meta = torch.device(device).type == "meta"
        self._generator = None if meta else torch.Generator(device).manual_seed(seed)

    def normal(self, *shape: int, dtype: Any = None, gain: float = 1.0) -> Any:
        """Normal numbers of this deviation."""
        made = self.torch.empty(shape, dtype=dtype, device=self.device)
        return made.normal_(0.0, gain, generator=self._generator)

    def tensor(self, n: int, k: int, dtype: Any, gain: float = 1.0) -> Any:
        """[n, k], of which products of unit rows are `gain` wide."""
        return self.normal(n, k, dtype=dtype, gain=gain / math.sqrt(k))

    def tensors(self, count: int, n: int, k: int, dtype: Any, gain: float = 1.0) -> Any:
        """The same of a stack."""
        return self.normal(count, n, k, dtype=dtype, gain=gain / math.sqrt(k))

    def four(self, *batch: int, k: int, n: int, group: int, gain: float = 1.0) -> FourBits:
        """Weights of four bits, of which products of unit rows are about `gain` wide."""
        spread = self._uniform(*batch, k // group, n)
        # The difference of two such numbers of four bits is 6.5 wide.
        scale = (spread + 0.5) * (gain / (6.5 * math.sqrt(k)))
        return FourBits(
            self._nibbles(*batch, k, n), scale.to(self.torch.float16),
            self._nibbles(*batch, k // group, n),
        )  # fmt: skip

    def eight(self, n: int, k: int, gain: float = 1.0) -> Eight:
        """Weights of eight bits, of which products of unit rows are about `gain` wide."""
        w = self.normal(n, k).mul_(64.0).clamp_(-448.0, 448.0).to(self.torch.float8_e4m3fn)
        spread = self._uniform(-(-n // BLOCK), -(-k // BLOCK))
        return Eight(w, (spread + 0.5) * (gain / (64.0 * math.sqrt(k))))

    def _uniform(self, *shape: int) -> Any:
        made = self.torch.empty(shape, device=self.device)
        return made.uniform_(0.0, 1.0, generator=self._generator)

    def _nibbles(self, *shape: int) -> Any:
        made = self.torch.empty(shape, dtype=self.torch.uint8, device=self.device)
        return made.random_(0, 16, generator=self._generator)


def four_bits(weight: FourBits) -> Any:
    """The weights [.., k, n] as float32."""
    group = weight.group
    scale, zero = (
        t.float().repeat_interleave(group, -2) for t in (weight.scale, weight.zero)
    )
    return (weight.q.float() - zero) * scale


def eight_bits(weight: Eight) -> Any:
    """The weights [n, k] as float32."""
    n, k = weight.w.shape
    scale = weight.scale.repeat_interleave(BLOCK, 0)[:n].repeat_interleave(BLOCK, 1)[:, :k]
    return weight.w.float() * scale


def cut(weight: Raw, dim: str, ranges: list[tuple[int, int]]) -> Raw:
    """The parts of a weight along "n" or "k", one behind the other."""
    match weight:
        case FourBits():
            group = weight.group
            axis, step = (-1, 1) if dim == "n" else (-2, group)
            parts = {
                name: _ranges(t, axis, ranges, step if name != "q" else 1)
                for name, t in vars(weight).items()
            }
            return FourBits(**parts)
        case Eight(w, scale):
            axis = -2 if dim == "n" else -1
            taken = _ranges(w.view(_bytes()), axis, ranges).view(w.dtype)
            return Eight(taken, _ranges(scale, axis, ranges, BLOCK))
        case Stacks():
            raise BenchError("experts are cut by their number, or each of their weights")
        case _:
            return _ranges(weight, -2 if dim == "n" else -1, ranges)


def map_tensors(thing: Any, change: Callable[[Any], Any]) -> Any:
    """The same with every tensor in it changed: of sequences, mappings and dataclasses too."""
    if isinstance(thing, (tuple, list)):
        return type(thing)(map_tensors(each, change) for each in thing)
    if isinstance(thing, Mapping):
        return {name: map_tensors(each, change) for name, each in thing.items()}
    if is_dataclass(thing) and not isinstance(thing, type):
        changed = {f.name: map_tensors(getattr(thing, f.name), change) for f in fields(thing)}
        return replace(thing, **changed)
    return change(thing) if hasattr(thing, "clone") else thing


def copied(thing: Any) -> Any:
    """The same numbers in memory of their own: a layer that reads them reads them from there."""
    return map_tensors(thing, lambda tensor: tensor.clone())


def size(thing: Any) -> int:
    """Bytes of all tensors in it."""
    total = 0

    def count(tensor: Any) -> Any:
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    map_tensors(thing, count)
    return total


def _ranges(tensor: Any, axis: int, ranges: list[tuple[int, int]], step: int = 1) -> Any:
    import torch

    parts = [tensor.narrow(axis, a // step, -(-b // step) - a // step) for a, b in ranges]
    return torch.cat(parts, axis).contiguous()


def _bytes() -> Any:
    import torch

    return torch.uint8
