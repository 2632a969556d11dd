"""Atomic updates: of tiles in global and shared memory, of one element for each of a tile, and of
one element a block, whose number then steers what follows.

An update that names its scope is one whose old values nobody asks for, so any number of blocks may
meet in it; what others give is drawn for places that one statement of one block updates.
"""

from __future__ import annotations

from random_kernels.movement import load
from random_kernels.views import view

UPDATED = {
    "add": ("f16", "f32", "f32", "i32", "i32", "u32", "i64", "f64"),
    "min": ("i32", "u32", "i64"), "max": ("i32", "u32", "i64"),
    "and": ("i32", "u32", "i64"), "or": ("i32", "u32", "i64"), "xor": ("i32", "u32", "i64"),
    "xchg": ("i32", "f32", "i64"), "cas": ("i32", "i64"),
}  # fmt: skip
FREE = tuple(op for op in UPDATED if op not in ("xchg", "cas"))
"""Those whose result does not depend on the order."""
MEETING = ("plain", "permuted", "strided", "split", "named", "broadcast", "overlap")


def _given(w, op, dtype, shape):
    """What an update is given, as text: tiles, or numbers in place of some."""
    held = load(w, dtype, shape).name
    new = held if w.chance(0.8) else str(w.number(0, 3))
    return f"{w.number(0, 2)}, {new}" if op == "cas" else new


def _shape(w):
    return w.pick([s for s in w.shapes if len(s) <= 2] or [(8, 16)])


def tile(w):
    """A tile of global memory: of one's own, whose old values are held, or one where all meet."""
    asked = w.chance(0.4)
    op = w.pick(list(UPDATED) if asked else FREE)
    dtype, shape = w.pick(UPDATED[op]), _shape(w)
    given = _given(w, op, dtype, shape)
    if asked:
        target, name = view(w, dtype, shape, output=True), w.name("r")
        order = w.pick(("", ', order="relaxed"', ', order="acq_rel"'))
        w.line(f"{name} = hx.atomic_{op}({target}, {given}{order})")
        w.hold(name, dtype, shape)
        return
    how = w.pick(MEETING)
    target = view(w, dtype, shape, output=how not in ("broadcast", "overlap"), how=how)
    w.line(f'hx.atomic_{op}({target}, {given}, scope="gpu")')


def shared(w):
    """A shared tile, filled, updated once or twice, and read."""
    op = w.pick(list(UPDATED))
    dtype, shape = w.pick(UPDATED[op]), _shape(w)
    start = load(w, dtype, shape)
    made = w.shared_tensor(dtype, shape)
    w.writes(made)
    w.line(f"hx.copy({start.name}, {made.name})")
    for _ in range(w.number(1, 2)):
        given = _given(w, op, dtype, shape)
        w.reads(made)
        w.writes(made)
        if w.chance(0.5):
            name = w.name("r")
            w.line(f"{name} = hx.atomic_{op}({made.name}, {given})")
            w.hold(name, dtype, shape)
        else:
            w.line(f"hx.atomic_{op}({made.name}, {given})")
    name = w.register(dtype, shape)
    w.reads(made)
    w.line(f"hx.copy({made.name}, {name})")
    w.hold(name, dtype, shape)


def each(w):
    """An update for each element of a tile: counts of what it holds, in shared or global memory."""
    count = w.pick((4, 5, 8))
    a = load(w, "i32", w.pick(((24,), (8, 16), (5, 12), (100,))))
    op, dtype = w.pick((("add", "i32"), ("add", "f32"), ("max", "i32"), ("or", "i32")))
    inside = w.chance(0.5)
    if inside:
        made = w.shared_tensor(dtype, (count,))
        w.writes(made)
        w.line(f"hx.fill({made.name}, 0)")
        w.reads(made)
        w.writes(made)
        target = made.name
    else:
        target = w.tensor("out", dtype, [str(count)])
    names = ["i", "j"][: len(a.shape)]
    header = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
    element = f"{a.name}[{', '.join(names)}]"
    with w.block(f"for {header} in hx.elements({a.name}):", False):
        # Places beside the tensor are left alone.
        place = f"{element} + {w.number(-1, 2)}"
        value = w.pick(("1", names[0], f"{element} * 2"))
        line = f'hx.atomic_{op}({target}, {place}, {value}, scope="gpu")'
        if w.chance(0.4):
            with w.block(f"if {names[-1]} % 3 != {w.number(0, 2)}:", False):
                w.line(line)
        else:
            w.line(line)
    if inside:
        name = w.register(dtype, (count,))
        w.reads(made)
        w.line(f"hx.copy({made.name}, {name})")
        w.hold(name, dtype, (count,))


def once(w):
    """One element a block: a counter where all meet, or one of the block's own, whose number is
    known from then on."""
    op, value = w.pick(FREE), w.pick(("1", w.scalar(w.number(0, 3))))
    if max(w.grid[1:], default=1) > 1 or w.chance(0.4):
        size = w.number(1, 5)
        extent = w.extent(size)
        target = w.tensor("out", "i32", [extent])
        # Beside a tensor whose extent is known, a constant is refused.
        most = size - 1 if extent.isdigit() else 3
        w.line(f'hx.atomic_{op}({target}, {w.number(0, most)}, {value}, scope="gpu")')
        return
    target = w.tensor("out", "i32", [str(w.grid[0])])
    name = w.name("v")
    w.line(f"{name} = hx.atomic_{op}({target}, hx.blockIdx.x, {value})")
    w.numbers.append(name)


def updated(w):
    w.pick((tile, tile, shared, each, once))(w)
