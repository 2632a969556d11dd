"""Random cases of swizzles, recast, linear layouts and bank conflicts."""

from __future__ import annotations

import random

import layout_reference as ref
from fuzz_registry import Tally, Wrong, check, operation

import cute_layout as cl
from cute_layout import Layout, LayoutError


@operation
def swizzles(rng: random.Random, tally: Tally) -> None:
    bits = rng.randint(0, 3)
    s = cl.Swizzle(bits, rng.randint(0, 4), rng.choice([1, -1]) * rng.randint(bits, 4))
    x = rng.randrange(1 << 14)
    low = s.base + max(0, -s.shift)
    source = s.base + max(0, s.shift)
    moved = x
    for k in range(bits):
        moved ^= (x >> (source + k) & 1) << (low + k)
    check(s(x) == moved and s(moved) == x, s, x)
    check(s(x + s.period) == s(x) + s.period, s, "period")
    inner = ref.random_divisible(rng)
    composed = cl.ComposedLayout(s, rng.choice([0, 0, 8, 3]), inner)
    wanted = [s(composed.offset + v) for v in ref.table(inner)]
    check(cl.offsets(composed) == wanted, composed)
    check(composed.cosize == max(0, *wanted) - min(0, *wanted) + 1 if wanted else True, composed)
    check(cl.parse(str(composed)) == composed, composed, "text")
    other = ref.random_divisible(rng, modes=2, most=16)
    try:
        through = cl.composition(composed, other)
    except LayoutError:
        tally.rejected += 1
        check(not ref.composable(inner, other), composed, "o", other, "exists")
        return
    check(
        cl.offsets(through) == [composed(v) for v in ref.table(other)],
        composed,
        "o",
        other,
        through,
    )


@operation
def recast(rng: random.Random, tally: Tally) -> None:
    a = ref.random_divisible(rng)
    old, new = rng.choice([(8, 16), (16, 8), (16, 128), (4, 8), (32, 16), (8, 8), (64, 8)])
    image = set(ref.table(a))
    try:
        r = cl.recast(a, old, new)
    except LayoutError:
        tally.rejected += 1
        ratio = new // old
        blocks = {v // ratio for v in image}
        whole = image == {b * ratio + k for b in blocks for k in range(ratio)}
        repeats = len(set(ref.table(cl.filter_zeros(a)))) < cl.filter_zeros(a).size
        check(new > old and (not whole or repeats), a, old, new, "exists and was rejected")
        return
    if new <= old:
        ratio = old // new
        check(set(ref.table(r)) == {v * ratio + k for v in image for k in range(ratio)}, a, r)
    else:
        check(set(ref.table(r)) == {v // (new // old) for v in image}, a, old, new, r)


@operation
def conjugates(rng: random.Random, tally: Tally) -> None:
    """Inverses of swizzled bijections."""
    rows, cols = rng.choice([2, 4, 8, 16]), rng.choice([4, 8, 16])
    m = rng.choice([Layout((rows, cols)), Layout((rows, cols), (cols, 1))])
    bits = rng.randint(0, 2)
    s = cl.Swizzle(bits, rng.randint(0, 2), rng.randint(bits, 3))
    composed = cl.ComposedLayout(s, 0, m)
    values = cl.offsets(composed)
    if sorted(values) != list(range(len(values))):
        tally.rejected += 1
        try:
            cl.inverse(composed)
        except LayoutError:
            return
        raise Wrong(f"{composed} is no bijection, yet was inverted")
    back = cl.inverse(composed)
    check([back(v) for v in values] == list(range(len(values))), composed, back)
    check(cl.offsets(back) == [back(v) for v in range(len(values))], back)


@operation
def linear(rng: random.Random, tally: Tally) -> None:
    a = ref.random_divisible(rng)
    if type(a.shape) is not tuple:
        return
    names = [f"in{k}" for k in range(len(a))]
    values = ref.table(a)
    xored = all(
        values[i] ^ values[j] == values[i ^ j] for i in range(len(values)) for j in (1, 2, 4, 8, 16)
        if max(i, j, i ^ j) < len(values)
    )  # fmt: skip
    try:
        f2 = cl.to_linear_layout(a, names)
    except LayoutError:
        tally.rejected += 1
        check(not xored, a, "is linear and was rejected")
        return
    check(xored, a, "is not linear")
    back = cl.from_linear_layout(f2)
    check([m.size for m in back] == [m.size for m in a] and ref.table(back) == values, a, back)
    for i, v in enumerate(values):
        rest, inputs = i, {}
        for name, m in zip(names, a, strict=True):
            inputs[name] = rest % m.size
            rest //= m.size
        check(f2(**inputs) == {"offset": v}, a, "at", i)


@operation
def banks(rng: random.Random, tally: Tally) -> None:
    bits = rng.choice([8, 16, 32])
    rows, cols = rng.choice([8, 16, 32]), rng.choice([32, 64, 128])
    memory = Layout((rows, cols), (cols, 1))
    s = cl.Swizzle(rng.randint(0, 3), rng.randint(2, 4), rng.randint(3, 4))
    buffer = rng.choice([memory, cl.ComposedLayout(s, 0, memory)])
    lanes = rng.choice(
        [Layout((8, 4), (1, rows * 8)), Layout((4, 8), (rows * 8, 1)), Layout(32, 1)]
    )
    n = rng.choice([1, 2, 4, 8])
    access = Layout((lanes.shape, n), (lanes.stride, rows))
    got = cl.bank_conflicts(buffer, access, bits)
    width = got.vector_bits // bits
    wanted = 0
    per_phase = {128: 8, 64: 16}.get(got.vector_bits, 32)
    for v in range(0, n, width):
        for first in range(0, 32, per_phase):
            demand: dict[int, set[int]] = {}
            for t in range(first, first + per_phase):
                for j in range(width):
                    byte = buffer(access(t, v + j)) * bits // 8
                    demand.setdefault(byte // 4 % 32, set()).add(byte // 4)
            wanted += max(len(words) for words in demand.values())
    check(got.wavefronts == wanted, buffer, access, bits, got, "wanted", wanted)
