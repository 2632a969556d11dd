"""f : (t, v) -> tile coordinate, written as modes `size:step@dim`.

A `Fragment` is a CuTe thread-value layout with coordinate-valued strides: thread t and value v
are split into digits (first mode fastest) and each digit moves `step` along one tile dimension.
A step of 0 replicates: several threads hold the same element. Digits may reach beyond the tile
where its extents do not suit the threads; what lies there is no element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple


class Mode(NamedTuple):
    """`size:step@dim`."""

    size: int
    step: int
    dim: int

    def __str__(self) -> str:
        return f"{self.size}:{self.step}@{self.dim}" if self.step else f"{self.size}:0"


def overhang(shape: Sequence[int], modes: Iterable[Mode]) -> tuple[int, ...]:
    """Dimensions along which digits over `modes` reach beyond `shape`."""
    reach = [0] * len(shape)
    for m in modes:
        if m.step:
            reach[m.dim] += (m.size - 1) * m.step
    return tuple(d for d, extent in enumerate(shape) if reach[d] >= extent)


def product(modes: Iterable[Mode]) -> int:
    """Number of index values that `modes` span."""
    return prod(m.size for m in modes)


@dataclass(frozen=True)
class Fragment:
    """A tile of `shape` spread over threads and values; see the module's equation."""

    shape: tuple[int, ...]
    thread: tuple[Mode, ...]
    value: tuple[Mode, ...]

    @cached_property
    def threads(self) -> int:
        return product(self.thread)

    @cached_property
    def values(self) -> int:
        """Elements each thread holds."""
        return product(self.value)

    def coord(self, t: int, v: int) -> tuple[int, ...]:
        """Tile coordinate of value `v` of thread `t`."""
        out = [0] * len(self.shape)
        for index, modes in ((t, self.thread), (v, self.value)):
            for m in modes:
                out[m.dim] += (index % m.size) * m.step
                index //= m.size
        return tuple(out)

    def table(self) -> list[list[tuple[int, ...]]]:
        """`table[t][v]`: every coordinate, by evaluation."""
        return [[self.coord(t, v) for v in range(self.values)] for t in range(self.threads)]

    @cached_property
    def exact(self) -> bool:
        """Whether every value of every thread is an element of the tile."""
        return not overhang(self.shape, (*self.thread, *self.value))

    def covers(self) -> bool:
        """Whether every tile element is held by some thread, no thread holds one twice, and none
        holds anything else."""
        rows = self.table()
        everything = {c for row in rows for c in row}
        return len(everything) == prod(self.shape) and all(
            len(set(row)) == self.values for row in rows
        )

    def project(self, dims: tuple[int, ...], shape: tuple[int, ...]) -> Fragment:
        """The fragment with `dims` collapsed to extent 1 (steps along them become 0; such value
        modes vanish), over tile `shape`."""
        thread = tuple(Mode(m.size, 0, 0) if m.dim in dims else m for m in self.thread)
        value = tuple(m for m in self.value if m.dim not in dims)
        return Fragment(shape, thread, value)

    def fold(self, dim: int, keep: int) -> Fragment | None:
        """The same places with dimension `dim` cut in two: its coordinate modulo `keep`, and, as
        the last dimension, how often `keep` goes into it. None where a digit straddles the cut."""
        groups: list[tuple[Mode, ...]] = []
        for modes in (self.thread, self.value):
            cut: list[Mode] = []
            for m in modes:
                low = keep // m.step if m.step and m.dim == dim and m.step < keep else 0
                if m.dim != dim or not m.step or low >= m.size:
                    cut.append(m)
                elif m.step >= keep and m.step % keep == 0:
                    cut.append(Mode(m.size, m.step // keep, len(self.shape)))
                elif low and keep % m.step == 0 and m.size % low == 0:
                    cut += [Mode(low, m.step, dim), Mode(m.size // low, 1, len(self.shape))]
                else:
                    return None
            groups.append(tuple(cut))
        shape = tuple(keep if d == dim else n for d, n in enumerate(self.shape))
        return Fragment((*shape, -(-self.shape[dim] // keep)), *groups)

    def text(self) -> str:
        """CuTe notation, `((4,8),(2,2)):((2@1,1@0),(1@1,8@0))`."""

        def group(parts: list[str]) -> str:
            return parts[0] if len(parts) == 1 else f"({','.join(parts)})"

        def size(modes: tuple[Mode, ...]) -> str:
            return group([str(m.size) for m in modes] or ["1"])

        def step(modes: tuple[Mode, ...]) -> str:
            return group([f"{m.step}@{m.dim}" if m.step else "0" for m in modes] or ["0"])

        return f"({size(self.thread)},{size(self.value)}):({step(self.thread)},{step(self.value)})"

    def __str__(self) -> str:
        return self.text()


def simplify(modes: Iterable[Mode]) -> tuple[Mode, ...]:
    """The same function with size-1 modes dropped and adjacent modes merged where they chain."""
    out: list[Mode] = []
    for m in modes:
        if m.size == 1:
            continue
        if out:
            last = out[-1]
            both_zero = last.step == 0 and m.step == 0
            chained = last.step and m.dim == last.dim and m.step == last.step * last.size
            if both_zero or chained:
                out[-1] = Mode(last.size * m.size, last.step, last.dim)
                continue
        out.append(Mode(m.size, m.step, m.dim if m.step else 0))
    return tuple(out)


def split(modes: Iterable[Mode], sizes: Iterable[int]) -> tuple[Mode, ...] | None:
    """`modes` cut so that their sizes are `sizes` followed by whatever is left, or None.

    Used to bring a layout's digits onto an instruction's digits.
    """
    rest = [m for m in modes if m.size > 1]
    out: list[Mode] = []
    for size in sizes:
        if size == 1:
            out.append(Mode(1, 0, 0))
            continue
        if not rest or rest[0].size % size:
            return None
        head = rest.pop(0)
        out.append(Mode(size, head.step, head.dim))
        if head.size > size:
            rest.insert(0, Mode(head.size // size, head.step * size, head.dim))
    return tuple(out + rest)
