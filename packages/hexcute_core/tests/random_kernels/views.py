"""Views of global memory for a tile of a given shape: permuted, strided, split into sub-modes,
broadcast, overlapping, begun before their buffer or reaching beyond it, or of rows that a tile of
numbers names.

Each mode of the tile is a list of sub-modes (extent, dimension, step), first fastest.
"""

from __future__ import annotations

from math import prod

from random_kernels.writer import tensor

HOW = ("plain", "plain", "plain", "permuted", "permuted", "strided", "flat", "split", "split",
       "named", "broadcast", "overlap")  # fmt: skip
ONE_TO_ONE = HOW[:-3]
STARTS = (1, 3, 4, 8, 16, -1, -3, -8)
"""Where a view begins, if not with its buffer."""


def view(w, dtype, shape, output=False, trips=None, how=None):
    """The text of a tile of `shape`: a new view, or a part of one.

    With `trips` = (index, count, text of the count) the view has one more mode, of that many
    tiles, and the index picks one.
    """
    # Atomic updates, which have to find elements apart, say how.
    expands = not output and how is None
    how = how or w.pick(ONE_TO_ONE if output else HOW)
    if how == "named" and w.barrier != "hx.syncthreads()":
        # A role's threads may stand in a slot, where none of them wait for another.
        how = "permuted"
    larger = None
    if trips is None and how == "plain" and w.chance(0.2):
        larger = [w.pick((0, 0, 1, 3, 8)) for _ in shape]
    whole = tuple(e + x for e, x in zip(shape, larger)) if larger else tuple(shape)
    modes, rank = _modes(w, whole, how)
    named = (w.number(0, len(shape) - 1),) if how == "named" else ()
    rows = [_rows(w, shape[m]) for m in named]
    if trips is not None:
        dim = w.number(0, rank - 1)
        step = _span(modes, dim)
        modes.append([(max(trips[1], 1), dim, step)])
    origins, extents = _placed(w, modes, rank, output)
    param = w.name("out" if output else "in"), dtype, expands
    text = _text(w, param, modes, origins, extents, trips, dict(zip(named, rows)))
    if trips is not None:
        return f"{text}[{':, ' * len(shape)}{trips[0]}]"
    if larger and any(larger):
        return f"{text}[{', '.join(_slice(w, e, x) for e, x in zip(shape, larger))}]"
    return text


def _rows(w, count):
    """A shared tensor of so many numbers, there for all threads; some name no row at all."""
    source = view(w, "i32", (count,), how="plain")
    rows = w.rows(count)
    w.line(f"hx.copy({source}, {rows.name})")
    rows.state = "issued" if w.explicit else "written"
    w.reads(rows)
    return rows.name


def _slice(w, extent, spare):
    if not spare and w.chance(0.5):
        return ":"
    start = w.number(0, spare)
    if w.chance(0.3):
        return f"hx.ds({w.scalar(start)}, {extent})"
    return f"{start}:{start + extent}"


def _modes(w, shape, how):
    """The modes of `shape`, and the rank of the buffer."""
    rank = len(shape)
    order = list(range(rank))
    if how == "permuted":
        order = [int(d) for d in w.rng.permutation(rank)]
    if how == "flat":
        # All modes along one dimension, in any order, with gaps or without.
        modes, step = [None] * rank, 1
        for m in (int(d) for d in w.rng.permutation(rank)):
            modes[m] = [(shape[m], 0, step)]
            step *= shape[m] + w.pick((0, 0, 1, 3))
        return modes, 1
    modes = [[(e, order[m], 1)] for m, e in enumerate(shape)]
    m = w.number(0, rank - 1)
    if how == "strided":
        modes[m] = [(shape[m], order[m], w.pick((2, 3, 4)))]
    if how == "broadcast":
        modes[m] = [(shape[m], order[m], 0)]
    if how == "overlap":
        other = w.number(0, rank - 1)
        steps = w.pick((1, 1, 2, 3)), w.pick((1, 2, 3))
        modes[m], modes[other] = (
            [(shape[x], order[other], step)] for x, step in zip((m, other), steps)
        )
    if how == "split":
        parts = [x for x in range(2, shape[m]) if shape[m] % x == 0]
        if parts:
            inner = w.pick(parts)
            outer = shape[m] // inner
            if w.chance(0.3):
                modes[m] = [(inner, order[m], 1), (outer, rank, w.pick((1, 1, 2)))]
                return modes, rank + 1
            gap = w.pick((0, 0, 1, 2))
            steps = w.pick(((1, inner + gap), (outer + gap, 1)))
            modes[m] = [(inner, order[m], steps[0]), (outer, order[m], steps[1])]
    return modes, rank


def _span(modes, dim):
    """How many places of a dimension the modes reach over."""
    return 1 + sum((e - 1) * step for mode in modes for e, d, step in mode if d == dim)


def _placed(w, modes, rank, output):
    """Where the view begins in each dimension, as texts, and the buffer's extents."""
    origins, extents = [], []
    for d in range(rank):
        span = _span(modes, d)
        start = 0 if w.chance(0.65) else w.pick(STARTS)
        room = span + start + (0 if w.chance(0.65) else w.pick((1, 2, 5, 8, 16, -1, -2, -5, -8)))
        text = str(start)
        # A negative constant counts from the end, or seems to.
        if start < 0 or (start and w.chance(0.4)):
            text = _promised(w, w.scalar(start), start)
        elif start == 0 and w.chance(0.1):
            text = _promised(w, w.scalar(0), 0)
        elif w.numbers and not output and w.chance(0.15):
            text = w.pick(w.numbers)
        if len(w.grid) > d and w.grid[d] > 1:
            step = span + w.pick((0, 0, 0, 1))
            room += step * (w.grid[d] - 1)
            text = f"hx.blockIdx.{'xyz'[d]} * {step}" + (f" + {text}" if start else "")
        origins.append(text)
        extents.append(max(room, 1))
    for d in range(rank, len(w.grid)):
        # Blocks that no dimension tells apart have one each of the first.
        if w.grid[d] > 1:
            step = extents[0] + 1
            origins[0] = f"{origins[0]} + hx.blockIdx.{'xyz'[d]} * {step}"
            extents[0] += step * (w.grid[d] - 1)
    return origins, extents


def _promised(w, text, start):
    """`text`, of which a divisor is promised now and then."""
    divisors = [d for d in (2, 3, 4, 8, 16) if start % d == 0]
    if not divisors or w.own.random() < 0.6:
        return text
    return f"hx.multiple_of({text}, {int(w.own.choice(divisors))})"


def _text(w, param, modes, origins, extents, trips, rows):
    """Declares the parameter, of a name, a type, and whether it may be expanded, writes the view,
    and gives its name; `rows` are the tiles that name the places of modes."""
    param, dtype, expands = param
    names = [w.extent(e) for e in extents]
    if len(extents) < 3 and w.chance(0.08):
        # A dimension that is indexed by an integer.
        at = w.number(0, len(extents))
        names.insert(at, str(w.pick((2, 3))))
        origins = [*origins[:at], "1", *origins[at:]]
        extents = [*extents[:at], int(names[at]), *extents[at:]]
        modes = [[(e, d + (d >= at), step) for e, d, step in mode] for mode in modes]
        fixed = {at}
    else:
        fixed = set()
    strides = _strides(w, dtype, extents, expands)
    w.params[param] = tensor(dtype, names, [text for text, _ in strides])
    starts = [o if d in fixed else f"{o}:" for d, o in enumerate(origins)]
    base = param
    if fixed or any(o != "0" for o in origins):
        base = f"{param}[{', '.join(s if s != '0:' else ':' for s in starts)}]"
    shape, stride = [], []
    for i, mode in enumerate(modes):
        counts = [str(e) for e, _, _ in mode]
        if trips is not None and i == len(modes) - 1:
            counts = [trips[2]]
        steps = [
            _own_stride(w, d, step, strides) if strides else _stride(w, d, step, names, extents)
            for _, d, step in mode
        ]
        if i in rows:
            first = mode[0][1] == min({*range(len(extents))} - fixed)
            bare = first and w.chance(0.5)
            steps = [rows[i] if bare else f"hx.along({mode[0][1]}, {rows[i]})"]
        single = len(mode) == 1
        shape.append(counts[0] if single else f"({', '.join(counts)})")
        stride.append(steps[0] if single else f"({', '.join(steps)})")
    name = w.name("g")
    comma = "," if len(shape) == 1 else ""
    w.line(
        f"{name} = hx.global_view({base}, "
        f"(({', '.join(shape)}{comma}), ({', '.join(stride)}{comma})))"
    )
    return name


def _strides(w, dtype, extents, expands):
    """Strides of the parameter's own as texts and numbers, or none: its dimensions in any order,
    with gaps between them, one of them expanded where that may be."""
    if dtype in ("u1", "u2", "u4", "i1", "i2", "i4") or not w.own.random() < 0.2:
        return []
    order = [int(d) for d in w.own.permutation(len(extents))]
    if w.own.random() < 0.5:
        order.sort(reverse=True)
    found, reach = [0] * len(extents), 1 if w.own.random() < 0.8 else 2
    for d in order:
        if d != order[0] and w.own.random() < 0.4:
            reach = -(-reach // 16) * 16
        found[d] = reach
        reach = reach * extents[d] + int(w.own.choice((0, 0, 1, 8)))
    if expands and w.own.random() < 0.15:
        found[int(w.own.integers(len(extents)))] = 0
    texts = []
    for stride in found:
        # A stride of 1 says that elements are neighbours.
        if w.own.random() < (0.9 if stride == 1 else 0.3):
            texts.append(str(stride))
            continue
        texts.append(w.name("m"))
        w.symbols.append(texts[-1])
        w.sizes[texts[-1]] = stride
    return list(zip(texts, found))


def _own_stride(w, dim, step, strides):
    """As `_stride`, of strides that the parameter has of its own: the least number of steps is
    meant."""
    if step == 0:
        return "0"
    text, unit = strides[dim]
    others = [s for d, (_, s) in enumerate(strides) if d != dim and s]
    clear = unit and all(step * unit % s or step * unit // s > step for s in others)
    if not clear or w.own.random() < 0.5:
        return f"hx.along({dim}, {step})" if step != 1 else f"hx.along({dim})"
    return " * ".join(([str(step)] if step != 1 else []) + [text])


def _stride(w, dim, step, names, extents):
    """A step along a dimension as text: a stride where that has one meaning, or named."""
    clear = dim == 0 or (step < extents[dim] and prod(extents[dim:]) > 1)
    if step == 0:
        return "0"
    if not clear or w.chance(0.25):
        return f"hx.along({dim}, {step})" if step != 1 else f"hx.along({dim})"
    factors = ([str(step)] if step != 1 else []) + [n for n in names[dim + 1 :] if n != "1"]
    return " * ".join(factors) or "1"
