"""Small things: coordinates and where extremes stand, bounds, partial sums, floats of 64 bits, rows
that a kernel numbers itself and scatters to, what it prints and asserts."""

from __future__ import annotations

from math import gcd

from random_kernels.movement import load, store
from random_kernels.operations import computable
from random_kernels.shapes import SUMMED, is_float, is_signed

WIDE = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "hx.maximum({a}, {b})", "-{a}", "{a} * 0.5",
        "hx.where({a} < {b}, {a}, {b})", "abs({a}) + 1", "hx.floor({a} * 0.5)")  # fmt: skip


def coordinates(w):
    """Coordinates along a mode, or where its extremes stand, and what is computed with them."""
    a = computable(w)
    axis = w.number(0, len(a.shape) - 1)
    name, made = w.name("r"), w.name("r")
    if w.chance(0.5):
        kept = tuple(1 if m == axis else e for m, e in enumerate(a.shape))
        w.line(f"{name} = hx.{w.pick(('argmax', 'argmin'))}({a.name}, {axis})")
        w.hold(name, "i32", kept)
        return
    along = tuple(e if m == axis or w.chance(0.3) else 1 for m, e in enumerate(a.shape))
    w.line(f"{name} = hx.iota({along}, {axis})")
    w.hold(name, "i32", along)
    if w.chance(0.6):
        limit = w.pick((str(w.number(0, 9)), w.scalar(w.number(0, 5))))
        test = w.pick((f"{name} < {limit}", f"{name} % 2 == 0", f"{name} != {limit}"))
        w.line(f"{made} = hx.where({test}, {a.name}, {w.pick((0, 1))})")
        w.hold(made, a.dtype, a.shape)


def bounded(w):
    """Numbers kept between two others, rounded to whole ones, or added up in part."""
    a = computable(w)
    name, shape = w.name("r"), a.shape
    form = w.pick(("clamp", "clamp", "round", "part"))
    if form == "round" and is_float(a.dtype):
        w.line(f"{name} = hx.{w.pick(('floor', 'ceil'))}({a.name} * 0.5)")
    elif form == "part":
        axis = w.number(0, len(shape) - 1)
        keep = w.pick([k for k in range(1, shape[axis] + 1) if shape[axis] % k == 0])
        op = w.pick(("sum", "max", "min") if a.dtype in SUMMED else ("max", "min"))
        w.line(f'{name} = hx.reduce({a.name}, {axis}, "{op}", keep={keep})')
        shape = tuple(keep if m == axis else e for m, e in enumerate(shape))
    else:
        low = w.number(-2, 0) if is_signed(a.dtype) else 0
        w.line(f"{name} = hx.clamp({a.name}, {low}, {w.number(0, 3)})")
    w.hold(name, a.dtype, shape)


def wide(w):
    """Floats of 64 bits, element by element, reduced, converted."""
    shape = w.pick(w.shapes)
    a, b = load(w, "f64", shape), load(w, "f64", shape)
    name = w.name("r")
    w.line(f"{name} = {w.pick(WIDE).format(a=a.name, b=b.name)}")
    held = w.hold(name, "f64", shape)
    if w.chance(0.4):
        axis, made = w.number(0, len(shape) - 1), w.name("r")
        w.line(f"{made} = hx.{w.pick(('sum', 'max', 'min'))}({name}, {axis})")
        held = w.hold(made, "f64", tuple(1 if m == axis else e for m, e in enumerate(shape)))
    if w.chance(0.4):
        made, target = w.name("r"), w.pick(("f32", "i32", "i64"))
        w.line(f"{made} = hx.cast({held.name}, {target})")
        held = w.hold(made, target, held.shape)
    store(w, held)


def scattered(w):
    """A tile to rows whose numbers the kernel computes: turned, spread, or some of them masked."""
    if w.barrier != "hx.syncthreads()":
        # A role's threads may stand in a slot, where none of them wait for another.
        return
    count, columns = w.pick((2, 4, 8, 12, 16, 24)), w.pick((1, 3, 8, 16, 24, 32))
    dtype = w.pick(("f16", "f32", "i8", "i32", "i64"))
    data = load(w, dtype, (count, columns))
    name, odd = w.name("r"), w.pick([s for s in range(1, count) if gcd(s, count) == 1])
    w.line(f"{name} = hx.iota(({count},), 0)")
    spread = w.pick((f"({name} * {odd} + {w.number(0, 5)}) % {count}", f"{count - 1} - {name}"))
    if w.chance(0.4):
        spread = f"hx.where({name} < {w.scalar(w.number(0, count))}, {spread}, -1)"
    elif w.chance(0.4):
        # Some are no rows of the tensor.
        spread = f"{spread} * 2"
    numbers = w.name("r")
    w.line(f"{numbers} = {spread}")
    rows = w.rows(count)
    w.line(f"hx.copy({numbers}, {rows.name})")
    w.reads(rows)
    blocks, block = 1, "0"
    for axis, extent in zip("xyz", w.grid):
        block = f"{block} + hx.blockIdx.{axis} * {blocks}" if extent > 1 else block
        blocks *= extent
    room = count + w.pick((0, 0, 1, -1, 5)) if blocks == 1 else 2 * count
    target = w.tensor("out", dtype, [w.extent(max(room, 1) * blocks), w.extent(columns)])
    at = f"{target}[({block}) * {room} :, :]" if blocks > 1 else target
    view = f"hx.global_view({at}, (({count}, {columns}), ({rows.name}, hx.along(1))))"
    w.line(f"hx.copy({data.name}, {view})")


def said(w):
    """What is printed, and what is asserted and holds."""
    number = w.pick(w.numbers) if w.numbers and w.chance(0.6) else w.scalar(w.number(0, 3))
    if w.chance(0.5):
        w.line(f'hx.printf("%d of %d\\n", {number}, {w.number(0, 9)})')
    else:
        w.line(f'hx.device_assert({number} > -100, "a number that is small")')
