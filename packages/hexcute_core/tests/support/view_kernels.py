"""Copies of one global view along every path, and what numpy says of it.

A `View` is a tensor's shape, an origin and a mode a tile dimension, a list of (extent, step along,
dimension) with the fastest first. `KERNELS` move its tile somewhere and back out, whole and row by
row, through an output tensor of the tile's shape.
"""

from dataclasses import dataclass
from math import gcd, prod

import numpy as np

import hexcute_core as hx
from hexcute_core import i32


@dataclass(frozen=True)
class View:
    shape: tuple[int, int]
    origin: tuple[int, int]
    modes: tuple[tuple[tuple[int, int, int], ...], ...]
    parts: tuple[tuple[int, int], ...] = ()
    """(start, size) of the part that is copied, a mode; all of it where there is none."""

    @property
    def whole(self):
        return tuple(prod(e for e, _, _ in mode) for mode in self.modes)

    @property
    def part(self):
        return self.parts or tuple((0, n) for n in self.whole)

    @property
    def tile(self):
        return tuple(n for _, n in self.part)

    @property
    def unit(self):
        """What the kernel knows to divide the origin's column."""
        return gcd(self.origin[1], 16)

    @property
    def begin(self):
        """The origin as the kernels take it."""
        return self.origin[0], self.origin[1] // self.unit

    @property
    def layout(self):
        """What hx.global_view takes."""
        extents = tuple(tuple(e for e, _, _ in mode) for mode in self.modes)
        steps = tuple(tuple(hx.along(d, s) for _, s, d in mode) for mode in self.modes)
        return extents, steps

    def coordinates(self):
        """[dimension of the tensor][tile coordinate] -> where the element lies."""
        at = [np.full(self.tile, o) for o in self.origin]
        for m, (mode, (start, size)) in enumerate(zip(self.modes, self.part)):
            index = start + np.arange(size).reshape([-1 if i == m else 1 for i in range(2)])
            for k, (extent, step, d) in enumerate(mode):
                digit = index if k == len(mode) - 1 else index % extent
                at[d] = at[d] + digit * step
                index = index // extent
        return at

    def read(self, a):
        """The tile as a copy reads it."""
        at = self.coordinates()
        inside = np.logical_and.reduce([(c >= 0) & (c < n) for c, n in zip(at, self.shape)])
        return np.where(inside, a[tuple(np.where(inside, c, 0) for c in at)], 0).astype(a.dtype)

    def written(self, a, tile, combine=False):
        """`a` after the tile has been copied to it, or added; each element is one of the tile."""
        out, at = a.copy(), self.coordinates()
        inside = np.logical_and.reduce([(c >= 0) & (c < n) for c, n in zip(at, self.shape)])
        places = tuple(c[inside] for c in at)
        out[places] = out[places] + tile[inside] if combine else tile[inside]
        return out


def loads(dtype, view, threads=64):
    """Kernels that read the view, by path: a[shape] -> o[tile]; the origin comes at run time, its
    column in units."""
    rows, columns = view.shape
    height, width = view.tile
    (top, _), (left, _) = view.part
    layout, unit = view.layout, view.unit

    @hx.kernel(cache=False)
    def registers(a: dtype[rows, columns], o: dtype[height, width], y: i32, x: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        r = hx.register_tensor(dtype, (height, width))
        ga = hx.global_view(a[y:, x * unit :], layout)
        hx.copy(ga[top : top + height, left : left + width], r)
        hx.copy(r, hx.global_view(o, ((height, width), (width, 1))))

    @hx.kernel(cache=False)
    def shared(a: dtype[rows, columns], o: dtype[height, width], y: i32, x: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        s = hx.shared_tensor(dtype, (height, width))
        ga = hx.global_view(a[y:, x * unit :], layout)
        hx.copy(ga[top : top + height, left : left + width], s)
        hx.syncthreads()
        hx.copy(s, hx.global_view(o, ((height, width), (width, 1))))

    @hx.kernel(cache=False)
    def pipeline(a: dtype[rows, columns], o: dtype[height, width], y: i32, x: i32):
        hx.attrs.cuda.grid_dim = 1
        ga = hx.global_view(a[y:, x * unit :], layout)
        s = hx.shared_tensor(dtype, (height, width, 2))
        pipe = hx.pipeline(2)
        with hx.warp_groups_producer():
            hx.prefetch(ga[top : top + height, left : left + width])
            with pipe.produce() as slot:
                hx.copy(ga[top : top + height, left : left + width], s[:, :, slot])
        with hx.warp_groups_consumer():
            r = hx.register_tensor(dtype, (height, width))
            with pipe.consume() as slot:
                hx.copy(s[:, :, slot], r)
            hx.copy(r, hx.global_view(o, ((height, width), (width, 1))))

    return {"registers": registers, "shared": shared, "pipeline": pipeline}


def stores(dtype, view, threads=64):
    """Kernels that write the view, by path: o[tile] -> a[shape]."""
    rows, columns = view.shape
    height, width = view.tile
    (top, _), (left, _) = view.part
    layout, unit = view.layout, view.unit

    @hx.kernel(cache=False)
    def registers(a: dtype[rows, columns], o: dtype[height, width], y: i32, x: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        r = hx.register_tensor(dtype, (height, width))
        hx.copy(hx.global_view(o, ((height, width), (width, 1))), r)
        ga = hx.global_view(a[y:, x * unit :], layout)
        hx.copy(r, ga[top : top + height, left : left + width])

    @hx.kernel(cache=False)
    def shared(a: dtype[rows, columns], o: dtype[height, width], y: i32, x: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        s = hx.shared_tensor(dtype, (height, width))
        hx.copy(hx.global_view(o, ((height, width), (width, 1))), s)
        hx.syncthreads()
        ga = hx.global_view(a[y:, x * unit :], layout)
        hx.copy(s, ga[top : top + height, left : left + width])

    return {"registers": registers, "shared": shared}


def adding(dtype, view, threads=64):
    """A kernel that adds o[tile] to the view by TMA."""
    rows, columns = view.shape
    height, width = view.tile
    unit = view.unit

    @hx.kernel(cache=False)
    def reduce(a: dtype[rows, columns], o: dtype[height, width], y: i32, x: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        s = hx.shared_tensor(dtype, (height, width))
        hx.copy(hx.global_view(o, ((height, width), (width, 1))), s)
        hx.syncthreads()
        hx.copy(s, hx.global_view(a[y:, x * unit :], ((height, width), (columns, 1))), reduce="add")

    return reduce
