"""Random scans: operations, types, axes, both ways, of one tile or of pairs, alone or behind a
product, a map or a rearrange.

`random_scan(seed)` is a program for sm_89; results that are whole numbers are exact in any order.
"""

from __future__ import annotations

from random_programs import COMPUTED, Case, Maker

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Var, maximum


def _pairs(m):
    """The selective scan's combination, on integers that wrap."""
    b, dtype = m.builder, m.pick((dt.i32, dt.i8, dt.i64))
    shape = m.shape(4096)
    srcs = [m.load(dtype, shape) for _ in range(2)]
    dsts = [m.register(dtype, shape) for _ in range(2)]
    b.scan(srcs, dsts, m.pick((0, 1)), _recurrence, m.chance(0.5))
    for ref in dsts[m.pick((0, 1)) :]:
        m.store(ref, dtype)


def _recurrence(al, bl, ar, br):
    return al * ar, ar * bl + br


def _single(m):
    """One tile, perhaps mapped, rearranged or reduced before, perhaps scanned both ways."""
    b, dtype = m.builder, m.pick((*COMPUTED, dt.i64))
    ref = m.load(dtype, m.shape(4096))
    step = m.pick(("none", "map", "rearrange"))
    if step != "none":
        made = m.register(dtype, ref.shape)
        if step == "map":
            b.map(made, maximum(Var("$0", dtype), Var("$1", dtype)), ref, ref)
        else:
            b.rearrange(ref, made)
        ref = made
    for _ in range(m.pick((1, 1, 2))):
        made = m.register(dtype, ref.shape)
        b.cumulate(ref, made, m.pick((0, 1)), m.pick(("add", "max", "min")), m.chance(0.5))
        ref = made
    m.store(ref, dtype)


def _product(m):
    """A product's result, scanned where it is."""
    b = m.builder
    rows, columns, depth = m.pick((16, 48, 64)), m.pick((8, 32, 48, 80)), m.pick((16, 32))
    left, right = m.load(dt.f16, (rows, depth)), m.load(dt.f16, (columns, depth))
    total, made = (m.register(dt.f32, (rows, columns)) for _ in range(2))
    b.fill(total, 0.0, dt.f32)
    b.gemm(total, left, right)
    b.cumulate(total, made, m.pick((0, 1)), m.pick(("add", "max")), m.chance(0.5))
    m.store(made, dt.f32)


KINDS = (_pairs, _single, _single, _product)


def random_scan(seed):
    """The program of `seed`."""
    maker, kind = Maker(seed), KINDS[seed % len(KINDS)]
    kind(maker)
    return Case(maker.program(), maker.sizes, maker.arrays, kind.__name__)
