"""Data comes and goes: global memory to registers and back, directly or through shared memory, in
whole tiles or in parts."""

from __future__ import annotations

from random_kernels.shapes import MOVED
from random_kernels.shapes import shape as draw_shape
from random_kernels.views import view


def load(w, dtype, shape, trips=None):
    """A register tile that holds data of a new tensor."""
    held = w.register(dtype, shape)
    path = w.pick(("direct", "direct", "direct", "staged", "staged", "through", "parts"))
    if path == "direct" or trips is not None:
        source, other = view(w, dtype, shape, trips=trips), ""
        if dtype != "boolean" and w.chance(0.2):
            other = f", outside={w.pick(('1', '3', w.scalar(2)))}"
        w.line(f"hx.copy({source}, {held}{other})")
    elif path == "parts":
        _in_parts(w, dtype, shape, held)
    else:
        stage = part_of_shared(w, dtype, shape)
        source = view(w, dtype, shape)
        fill_shared(w, stage, source, dtype, shape, path == "through")
        w.reads(stage[0])
        w.line(f"hx.copy({stage[1]}, {held})")
    return w.hold(held, dtype, shape)


def fill_shared(w, stage, source, dtype, shape, through):
    """Global memory to a part of a shared tensor, at once or through registers."""
    shared, text = stage
    if through:
        other = w.register(dtype, shape)
        w.line(f"hx.copy({source}, {other})")
        w.writes(shared)
        w.line(f"hx.copy({other}, {text})")
    else:
        w.writes(shared, from_global=True)
        w.line(f"hx.copy({source}, {text})")


def part_of_shared(w, dtype, shape):
    """(shared tensor, text of a part of it of `shape`): a tensor of its own, or any place of a
    larger one, new or old, that nobody needs any more."""
    old = [s for s in w.shared if s.dtype == dtype and len(s.shape) == len(shape)
           and all(e <= f for e, f in zip(shape, s.shape))]  # fmt: skip
    if old and w.chance(0.4):
        shared = w.pick(old)
    else:
        spare = w.pick((0, 0, 0, 1))
        whole = tuple(e + spare * w.pick((0, 1, 2, 3, 8)) for e in shape)
        if w.chance(0.15):
            whole = (*whole, w.number(2, 3))
        shared = w.shared_tensor(dtype, whole)
    return shared, part(w, shared, shape)


def part(w, shared, shape):
    """The text of a part of `shape`."""
    if shared.shape == tuple(shape):
        return shared.name
    entries = []
    for e, f in zip(shape, shared.shape):
        start = w.number(0, f - e)
        text = f"hx.ds({w.scalar(start)}, {e})" if w.chance(0.25) else f"{start}:{start + e}"
        entries.append(":" if e == f and w.chance(0.8) else text)
    if len(shared.shape) > len(shape):
        entries.append(str(w.number(0, shared.shape[-1] - 1)))
    return f"{shared.name}[{', '.join(entries)}]"


def _in_parts(w, dtype, shape, held):
    """A register tile filled part by part: its last mode one by one, or, seldom, cut in two."""
    mode = len(shape) - 1
    extent = shape[mode]
    if 1 < extent <= 4 and len(shape) > 1:
        sizes = [None] * extent
    elif extent % 2 == 0 and w.chance(0.05):
        sizes = [extent // 2] * 2
    else:
        sizes = [extent]
    at = 0
    for size in sizes:
        entry = str(at) if size is None else f"{at}:{at + size}"
        cut = [e for m, e in enumerate(shape) if m != mode or size is not None]
        if size is not None:
            cut[mode] = size
        index = ", ".join(entry if m == mode else ":" for m in range(len(shape)))
        w.line(f"hx.copy({view(w, dtype, tuple(cut))}, {held}[{index}])")
        at += size or 1


def store(w, held, trips=None):
    """A register tile to a new tensor."""
    name, dtype, shape = held.name, held.dtype, held.shape
    path = w.pick(("direct", "direct", "direct", "staged", "reread", "cut"))
    if path in ("staged", "reread") and trips is None:
        shared, text = part_of_shared(w, dtype, shape)
        w.writes(shared)
        w.line(f"hx.copy({name}, {text})")
        w.reads(shared)
        if path == "staged":
            w.line(f"hx.copy({text}, {view(w, dtype, shape, output=True)})")
            return
        name = w.register(dtype, shape)
        w.line(f"hx.copy({text}, {name})")
    if path == "cut" and trips is None and shape[-1] in (2, 3, 4) and len(shape) > 1:
        for i in range(shape[-1]):
            index = ", ".join([":"] * (len(shape) - 1) + [str(i)])
            w.line(f"hx.copy({name}[{index}], {view(w, dtype, shape[:-1], output=True)})")
        return
    w.line(f"hx.copy({name}, {view(w, dtype, shape, output=True, trips=trips)})")


def move(w):
    """Any type, over any path."""
    dtype = w.pick(MOVED)
    shape = draw_shape(w)
    store(w, load(w, dtype, shape))


def shared_parts(w):
    """A shared tensor filled in parts and read in other parts."""
    dtype = w.pick(("f16", "f32", "i8", "i32", "bf16", "i64"))
    rows, columns = w.pick((8, 12, 16, 24, 32)), w.pick((8, 16, 24, 40))
    shared = w.shared_tensor(dtype, (rows, columns))
    if w.chance(0.5):
        cut = w.number(1, rows - 1)
        pieces = [(0, cut), (cut, rows - cut)]
        parts = [((n, columns), f"{shared.name}[{at}:{at + n}]") for at, n in pieces]
    else:
        cut = w.number(1, columns - 1)
        pieces = [(0, cut), (cut, columns - cut)]
        parts = [((rows, n), f"{shared.name}[:, {at}:{at + n}]") for at, n in pieces]
    for shape, text in parts:
        fill_shared(w, (shared, text), view(w, dtype, shape), dtype, shape, w.chance(0.4))
    for _ in range(w.number(1, 2)):
        n, k = w.number(1, rows), w.number(1, columns)
        r, c = w.number(0, rows - n), w.number(0, columns - k)
        held = w.register(dtype, (n, k))
        w.reads(shared)
        w.line(f"hx.copy({shared.name}[{r}:{r + n}, {c}:{c + k}], {held})")
        w.hold(held, dtype, (n, k))
