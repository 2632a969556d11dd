"""Elements narrower than a byte come, are cast and go; register tiles get other names."""

from __future__ import annotations

from random_kernels.shapes import MAX_ELEMENTS, WIDTHS

PACKED = {"u4": 4, "i4": 4, "u2": 2, "i2": 2, "u1": 1}
BITS = {"u4": ("u8", "u16", "u32"), "u8": ("u4", "u16", "u2"), "u16": ("u8", "u32", "u4"),
        "u32": ("u16", "u8", "u4"), "i8": ("i4", "u4"), "i32": ("i16", "i8", "u8")}  # fmt: skip
"""What whole numbers of a type are read as."""


def moved(w):
    """Packed elements of whole bytes a row: read, and stored as they are or held as numbers."""
    dtype = w.pick(tuple(PACKED))
    per = 8 // PACKED[dtype]
    shape = w.pick((1, 2, 3, 5, 8, 16, 24)), per * w.pick((1, 2, 3, 4, 8, 16))
    while shape[0] * shape[1] > MAX_ELEMENTS:
        shape = shape[0], shape[1] // 2
    held = w.register(dtype, shape)
    source = _view(w, dtype, shape, per)
    other = f", outside={w.pick((0, 1))}" if dtype[0] == "u" and w.chance(0.2) else ""
    if w.chance(0.5):
        w.line(f"hx.copy({source}, {held}{other})")
    else:
        shared = w.shared_tensor(dtype, shape)
        w.writes(shared, from_global=True)
        w.line(f"hx.copy({source}, {shared.name})")
        w.reads(shared)
        w.line(f"hx.copy({shared.name}, {held})")
    if w.chance(0.4):
        w.line(f"hx.copy({held}, {_view(w, dtype, shape, per, output=True)})")
    target = w.pick(("f16", "f16", "bf16", "f32", "i32"))
    made = w.name("r")
    w.line(f"{made} = hx.cast({held}, {target})")
    w.hold(made, target, shape)


def _view(w, dtype, shape, per, output=False):
    """The text of a view of a new tensor, whose rows, and where they begin, are whole bytes."""
    origins, extents = [], []
    for d, (span, unit) in enumerate(zip(shape, (1, per))):
        start = unit * (0 if w.chance(0.6) else w.pick((1, 2, 8, -1)))
        room = span + start + unit * (0 if w.chance(0.6) else w.pick((1, 3, 8, -1, -2)))
        # Whole bytes as far as the compiler knows.
        text = f"{w.scalar(start // unit)} * {unit}" if start < 0 else str(start)
        if len(w.grid) > d and w.grid[d] > 1:
            step = span + unit * w.pick((0, 0, 1))
            room += step * (w.grid[d] - 1)
            text = f"hx.blockIdx.{'xyz'[d]} * {step}" + (f" + {text}" if start else "")
        origins.append(text)
        extents.append(max(room, unit))
    # The columns' extent is a number, so that their divisor is known.
    columns = str(extents[1])
    param = w.tensor("out" if output else "in", dtype, [w.extent(extents[0]), columns])
    name = w.name("g")
    w.line(
        f"{name} = hx.global_view({param}[{origins[0]} :, {origins[1]} :], "
        f"(({shape[0]}, {shape[1]}), (hx.along(0), hx.along(1))))"
    )
    return name


def relabelled(w):
    """A tile that is held under other coordinates: modes turned, split, joined, or other bits."""
    found = w.holding(lambda h: len(h.shape) > 1 or h.dtype in BITS)
    if not found:
        return
    a = w.pick(found)
    how = w.pick(("turned", "split", "joined", "bits", "bits"))
    made, shape, dtype = w.name("r"), a.shape, a.dtype
    if how == "turned":
        order = [int(d) for d in w.rng.permutation(len(shape))]
        text, shape = ", ".join(map(str, order)), tuple(shape[d] for d in order)
        w.line(f"{made} = hx.transpose({a.name}, {text})")
    elif how == "bits" and dtype in BITS:
        dtype = w.pick(BITS[dtype])
        row = shape[-1] * WIDTHS[a.dtype]
        if row % WIDTHS[dtype]:
            return
        shape = (*shape[:-1], row // WIDTHS[dtype])
        w.line(f"{made} = hx.bitcast({a.name}, {dtype})")
    else:
        m = w.number(0, len(shape) - 1)
        factors = [f for f in range(2, shape[m]) if shape[m] % f == 0]
        if how == "split" and factors and len(shape) < 3:
            f = w.pick(factors)
            shape = (*shape[:m], f, shape[m] // f, *shape[m + 1 :])
        elif len(shape) > 1:
            m = w.number(0, len(shape) - 2)
            shape = (*shape[:m], shape[m] * shape[m + 1], *shape[m + 2 :])
        w.line(f"{made} = hx.reshape({a.name}, {shape})")
    if dtype in PACKED:
        wide = w.name("r")
        w.line(f"{wide} = hx.cast({made}, i32)")
        made, dtype = wide, "i32"
    w.hold(made, dtype, shape)
