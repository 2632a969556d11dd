"""Byte address in shared memory: S(base(t) + offset(reps)) with S linear over XOR.

Where no bits of the thread, repetition and start parts overlap, the sum is an XOR and the swizzle
distributes: the thread part is swizzled once, the rest are constants that fold into the
instruction (`+`) or cost one XOR each distinct value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import log2
from typing import Any

from cute_layout import Layout, LayoutError, composition
from hexcute_core.arch import Mode
from hexcute_core.arch.linear import unit
from hexcute_core.dtypes import i32
from hexcute_core.lowering.digits import Part, digits, index_in, total
from hexcute_core.scalar import Binary, Const, Scalar, add, floordiv, mul, xor
from hexcute_core.scalar.build import binary
from hexcute_core.synthesis.solution import SharedLayout
from hexcute_core.tile import TileRef
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.teams import Team


def leaves(tree: Any) -> list[int]:
    """Integers of a nested tuple, in order."""
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    return [int(tree)]


class SharedAddress:
    """Addresses of one copy's side in one shared tensor; `element_bytes` is a fraction for types
    narrower than a byte, whose accesses start at whole bytes all the same."""

    def __init__(
        self,
        layout: SharedLayout,
        ref: TileRef,
        element_bytes: float,
        team: Team,
        facts: Facts,
    ) -> None:
        self._layout, self._ref, self._bytes = layout, ref, element_bytes
        self._team, self._facts = team, facts

    def strides(self, modes: Sequence[Mode]) -> list[list[tuple[int, int]]]:
        """m o modes: for each mode, its (size, byte stride) digits in memory."""
        if not modes:
            return []
        shape = self._layout.shape
        sizes = tuple(m.size for m in modes)
        steps = tuple(m.step * unit(shape, self._ref.kept[m.dim]) if m.step else 0 for m in modes)
        whole = composition(self._layout.layout, Layout(sizes, steps))
        parts = [whole[i] for i in range(len(modes))] if len(modes) > 1 else [whole]
        out = []
        for part in parts:
            pairs = zip(leaves(part.shape), leaves(part.stride))
            out.append([(n, self._at(s)) for n, s in pairs])
        return out

    def _at(self, elements: int) -> int:
        """Byte offset of `elements`; a digit that only the run of an access has is no address."""
        return int(elements * self._bytes)

    def thread_parts(self, modes: Sequence[Mode]) -> list[Part]:
        """The thread's share of the address."""
        pairs = [p for mode in self.strides(modes) for p in mode]
        found = digits(index_in(self._team), [n for n, _ in pairs], self._team.threads)
        return [Part(d, n, s) for d, (n, s) in zip(found, pairs) if s]

    def rep_parts(self, modes: Sequence[Mode], loops: Sequence[Scalar]) -> list[Part]:
        """The share of repetition digits given by loop variables."""
        parts = []
        for mode, loop, pairs in zip(modes, loops, self.strides(modes)):
            found = digits(loop, [n for n, _ in pairs], mode.size)
            parts += [Part(d, n, s) for d, (n, s) in zip(found, pairs) if s]
        return parts

    @cached_property
    def _starts(self) -> list[Part] | None:
        """The share of the tile's start; None where a start inside a tiled mode carries into it."""
        parts: list[Part] = []
        for m, start in enumerate(self._ref.starts):
            if isinstance(start, Const) and start.value == 0:
                continue
            mode = self._layout.layout[m]
            extent = self._ref.extents[m] if m in self._ref.kept else 1
            if extent > 1 and self._carries_from(m, start, mode):
                return None
            parts += self._tile_parts(start, extent, mode)
        return parts

    def start_bytes(self) -> Scalar:
        """Bytes of the tile's start, before the swizzle: what hardware adds the rest to, which
        synthesis has seen to."""
        parts: list[Part] = []
        for m, start in enumerate(self._ref.starts):
            extent = self._ref.extents[m] if m in self._ref.kept else 1
            whole = self._facts.divisor(start) % extent == 0 and self._layout.shape[m] % extent == 0
            parts += self._tile_parts(start, extent if whole else 1, self._layout.layout[m])
        return total(parts)

    def _tile_parts(self, start: Scalar, extent: int, mode: Any) -> list[Part]:
        """m(start) for a start that is a multiple of `extent` (any start for an extent of 1)."""
        sizes, strides = leaves(mode.shape), leaves(mode.stride)
        blocks = Layout(tuple(sizes), tuple(strides))
        length = blocks.size
        if isinstance(start, Const):
            return [Part(Const(1, i32), 2, self._at(int(blocks(int(start.value)))))]
        try:
            moved = composition(blocks, Layout(length // extent, extent))
        except LayoutError:
            moved, extent = blocks, 1
        count = length // extent
        pairs = list(zip(leaves(moved.shape), leaves(moved.stride)))
        found = digits(floordiv(start, extent), [n for n, _ in pairs], count)
        return [Part(d, n, self._at(s)) for d, (n, s) in zip(found, pairs)]

    def _carries_from(self, m: int, start: Scalar, mode: Any) -> bool:
        """Whether m(start + x) is not m(start) + m(x) for some x of the tile."""
        extent, length = self._ref.extents[m], self._layout.shape[m]
        known = isinstance(start, Const)
        starts = [int(start.value)] if isinstance(start, Const) else list(range(0, length, extent))
        return (not known and self._facts.divisor(start) % extent != 0) or any(
            mode(s + x) != mode(s) + mode(x) for s in starts for x in range(min(extent, length - s))
        )

    def split(
        self, thread: Sequence[Mode], reps: Sequence[Mode], loops: Sequence[Scalar]
    ) -> tuple[Scalar, list[Scalar], list[Scalar]]:
        """(thread base, XOR terms, added terms) of the byte address.

        The address is `(base ^ xors...) + adds...`; `base` depends on the thread alone. Where
        digits of the tile straddle those of the layout, coordinates are formed, then the layout of
        them.
        """
        try:
            own, repeated = self.thread_parts(thread), self.rep_parts(reps, loops)
        except LayoutError:
            return Const(0, i32), [], [self._by_coordinates(thread, reps, loops)]
        starts = self._starts
        if starts is None or self._carries((*thread, *reps)):
            return Const(0, i32), [], [self._by_coordinates(thread, reps, loops)]
        swizzle = self._layout.swizzle
        if swizzle is None:
            return total(own), [], [p.value for p in (*starts, *repeated)]
        shift = swizzle.shift
        base = swizzle.base + int(log2(self._bytes))
        window = ((1 << swizzle.bits) - 1) << base
        period = 1 << (base + shift + swizzle.bits)

        def low(part: Part) -> int:
            if part.stride % period == 0:
                return 0
            bits = part.bits()
            return int(period - 1 if bits is None else bits & (period - 1))

        swizzled = self._swizzled
        parts = [*own, *starts, *repeated]
        taken, overlap = 0, False
        for part in parts:
            overlap |= bool(taken & low(part))
            taken |= low(part)
        if overlap:
            # Carries may cross the swizzled bits: swizzle the whole sum.
            return Const(0, i32), [], [swizzled(total(parts))]
        others = (*starts, *repeated)
        images = [self._image([low(part)], shift, window) for part in others]
        own_bits = self._image([low(p) for p in own], shift, window)
        xors: list[Scalar] = []
        adds: list[Scalar] = []
        for i, part in enumerate(others):
            used = own_bits
            for image in (*images[:i], *images[i + 1 :]):
                used |= image
            if low(part) == 0:
                adds.append(part.value)
            elif images[i] & used:
                # Bits above the swizzle's period add with carry; only those below may be XORed.
                xors.append(swizzled(binary("and", part.value, period - 1)))
                bits = part.bits()
                if bits is None or bits & ~(period - 1):
                    adds.append(binary("and", part.value, -period))
            else:
                # No other term touches these bits, before the swizzle or after it.
                adds.append(swizzled(part.value))
        return swizzled(total(own)), xors, adds

    def _carries(self, modes: Sequence[Mode]) -> bool:
        """Whether m(x + y) is not m(x) + m(y) for some digits of `modes`: together they leave a
        block of the layout within which each of them stays."""
        for dim, m in enumerate(self._ref.kept):
            layout, extent = self._layout.layout[m], self._ref.extents[m]
            reached = {0: 0}
            for mode in modes:
                if mode.dim != dim or not mode.step:
                    continue
                moved = {x: int(layout(x)) for x in range(0, mode.size * mode.step, mode.step)}
                reached = {
                    at + x: offset + by
                    for at, offset in reached.items()
                    for x, by in moved.items()
                    if at + x < extent
                }
            if any(int(layout(at)) != offset for at, offset in reached.items()):
                return True
        return False

    def _swizzled(self, e: Scalar) -> Scalar:
        """S of a byte address."""
        swizzle = self._layout.swizzle
        if swizzle is None:
            return e
        window = ((1 << swizzle.bits) - 1) << (swizzle.base + int(log2(self._bytes)))
        return xor(e, binary("and", binary("shr", e, swizzle.shift), window))

    def _by_coordinates(
        self, thread: Sequence[Mode], reps: Sequence[Mode], loops: Sequence[Scalar]
    ) -> Scalar:
        """S(m(coordinate)) with no assumption: every coordinate split over its layout's digits."""
        coords: list[Scalar] = list(self._ref.starts)
        moved = digits(index_in(self._team), [m.size for m in thread], self._team.threads)
        for mode, digit in (*zip(thread, moved), *zip(reps, loops)):
            if mode.step:
                d = self._ref.kept[mode.dim]
                coords[d] = add(coords[d], mul(digit, mode.step))
        bits = int(self._bytes * 8)
        offset: Scalar = Const(0, i32)
        for d, coord in enumerate(coords):
            part = self._layout.layout[d]
            sizes, strides = leaves(part.shape), leaves(part.stride)
            for digit, stride in zip(digits(coord, sizes, self._layout.shape[d]), strides):
                offset = add(offset, mul(digit, stride * bits))
        return self._swizzled(floordiv(offset, 8))

    @staticmethod
    def _image(masks: Sequence[int], shift: int, window: int) -> int:
        """Bits that swizzled values with these bits may set."""
        bits = 0
        for mask in masks:
            bits |= mask | ((mask >> shift) & window)
        return bits


def address(base: Scalar, xors: Sequence[Scalar], adds: Sequence[Scalar], arena: int) -> Scalar:
    """`(base ^ xors) + adds + arena`."""
    out = base
    for term in xors:
        out = Binary("xor", out, term, i32) if not isinstance(term, Const) else xor(out, term)
    return add(out, *adds, arena)
