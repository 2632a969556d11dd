"""What is computed on register tiles: element by element, converted, reduced, scanned, rearranged,
multiplied, visited one element at a time."""

from __future__ import annotations

from random_kernels.movement import load
from random_kernels.shapes import (
    COMPUTED,
    FP8,
    GEMMS,
    SUMMED,
    depth_step,
    is_float,
    is_signed,
)

ANY = ("{a} + {b}", "{a} - {b}", "hx.maximum({a}, {b})", "hx.minimum({a}, {b})", "{a} + 1",
       "hx.where({a} < {b}, {a}, {b})", "{a} * {b}", "{b} - {a}", "abs({a})", "-{a}", "{a} * 2",
       "hx.where({a} == {b}, {a} + 1, {b})", "hx.maximum({a}, 0)")  # fmt: skip
WHOLE = ("{a} & {b}", "{a} | {b}", "{a} ^ {b}", "{a} % 3", "{a} // 2", "{a} >> 1", "{a} % 5")
TRUTH = ("{a} & {b}", "{a} | {b}", "{a} ^ {b}")
TESTS = ("{a} < {b}", "{a} >= {b}", "{a} == {b}", "{a} != {b}")


def computable(w, rank=None):
    """A tile of a type that computes, one held or loaded."""
    found = w.holding(
        lambda h: h.dtype in COMPUTED, lambda h: rank is None or len(h.shape) == rank
    )
    if found and w.chance(0.85):
        return w.pick(found)
    return load(w, w.pick(w.types), w.pick([s for s in w.shapes if rank in (None, len(s))]))


def clipped(w, dtype, text):
    """`text` kept small, sometimes."""
    if dtype == "boolean" or w.chance(0.4):
        return text
    low = -w.number(1, 4) if is_signed(dtype) else 0
    return f"hx.maximum(hx.minimum({text}, {w.number(1, 4)}), {low})"


def elementwise(w):
    """New tiles, assignments to old ones, changes in place; extents of 1 broadcast."""
    a = computable(w)
    alike = w.holding(lambda h: h.dtype == a.dtype, lambda h: len(h.shape) == len(a.shape))
    fitting = [h for h in alike if all(f in (1, e) for e, f in zip(a.shape, h.shape))]
    b = w.pick(fitting)
    if w.chance(0.2):
        b = load(w, a.dtype, tuple(1 if w.chance(0.5) else e for e in a.shape))
    forms = ANY if is_float(a.dtype) else (*ANY, *WHOLE)
    expr = clipped(w, a.dtype, w.pick(forms).format(a=a.name, b=b.name))
    form = w.pick(("new", "new", "assign", "in place"))
    if form == "assign":
        w.line(f"{a.name} = {expr}")
    elif form == "in place":
        w.line(f"{a.name} {w.pick(('+', '-'))}= {b.name}")
        w.line(f"{a.name} = {clipped(w, a.dtype, a.name + ' * 1')}")
    else:
        name = w.name("r")
        w.line(f"{name} = {expr}")
        w.hold(name, a.dtype, a.shape)


def chosen(w):
    """A tile of truth values, and a choice by it."""
    a = computable(w)
    b = w.pick(w.holding(lambda h: h.dtype == a.dtype, lambda h: h.shape == a.shape))
    name = w.name("q")
    w.line(f"{name} = {w.pick(TESTS).format(a=a.name, b=b.name)}")
    truth = w.hold(name, "boolean", a.shape)
    other = w.pick(w.holding(lambda h: h.dtype == "boolean", lambda h: h.shape == a.shape))
    if w.chance(0.5):
        w.line(f"{name} = {w.pick(TRUTH).format(a=truth.name, b=other.name)}")
    made = w.name("r")
    w.line(f"{made} = hx.where({name}, {a.name}, {b.name if w.chance(0.5) else '0'})")
    w.hold(made, a.dtype, a.shape)


def cast(w):
    a = computable(w)
    targets = [t for t in (*w.types, w.pick(COMPUTED)) if t != a.dtype]
    if not targets:
        return
    target = w.pick(targets)
    name = w.name("r")
    source = a.name
    if is_signed(a.dtype) and not is_signed(target):
        source = f"hx.maximum({a.name}, 0)"
    w.line(f"{name} = hx.cast({source}, {target})")
    w.hold(name, target, a.shape)


def reduce(w):
    a = computable(w)
    axis = w.number(0, len(a.shape) - 1)
    op = w.pick(("sum", "max", "min") if a.dtype in SUMMED else ("max", "min"))
    name = w.name("r")
    if w.own.random() < 0.15:
        w.helpers.add("later")
        w.line(f"{name} = hx.reduce({a.name}, {axis}, later)")
    else:
        w.line(f"{name} = hx.{op}({a.name}, {axis})")
    w.hold(name, a.dtype, tuple(1 if m == axis else e for m, e in enumerate(a.shape)))


def scan(w):
    a = computable(w)
    axis = w.number(0, len(a.shape) - 1)
    way = w.pick(("", ", reverse=True"))
    name = w.name("r")
    pair = w.holding(lambda h: h.shape == a.shape, lambda h: h.dtype == a.dtype)
    if w.chance(0.25) and is_signed(a.dtype):
        other = w.pick(pair)
        w.helpers.add("shifted")
        second = w.name("r")
        w.line(f"{name}, {second} = hx.scan(({a.name}, {other.name}), {axis}, shifted{way})")
        w.hold(second, a.dtype, a.shape)
    elif w.chance(0.15):
        w.helpers.add("later")
        w.line(f"{name} = hx.scan({a.name}, {axis}, later{way})")
    else:
        op = w.pick(("cumsum", "cummax", "cummin") if a.dtype in SUMMED else ("cummax", "cummin"))
        w.line(f"{name} = hx.{op}({a.name}, {axis}{way})")
    w.hold(name, a.dtype, a.shape)


def rearrange(w):
    a = computable(w)
    name = w.name("r")
    w.line(f"{name} = hx.rearrange({a.name})")
    w.hold(name, a.dtype, a.shape)


def gemm(w):
    """A product of what is held where its extents allow, else of what is loaded."""
    operand, result = w.pick((*GEMMS, *FP8) if w.target == "sm_89" else GEMMS)
    step = depth_step(operand)
    fits = w.holding(
        lambda h: h.dtype == operand and len(h.shape) == 2,
        lambda h: h.shape[1] % step == 0 and (step == 1 or h.shape[0] % 8 == 0),
        lambda h: h.shape[0] * h.shape[1] <= 1024,
    )
    if fits and w.chance(0.7):
        left = w.pick(fits)
        rows, depth = left.shape
    else:
        rows = w.pick((4, 8, 12, 16) if step == 1 else (8, 16, 16, 24, 32, 48))
        depth = w.pick((4, 8, 16)) if step == 1 else step * w.pick((1, 1, 2))
        left = load(w, operand, (rows, depth))
    # Of few rows the instruction takes the operands turned.
    wide = (4, 8, 16) if step == 1 else (8, 8, 16, 24, 32)
    columns = w.pick((16, 32) if step > 1 and rows % 16 else wide)
    if w.own.random() < 0.15:
        # Extents of any size, within what instructions go on beyond.
        rows, columns, depth = (int(w.own.integers(1, 40)) for _ in range(3))
        left = load(w, operand, (rows, depth))
    right = load(w, operand, (columns, depth))
    total = w.register(result, (rows, columns), "c")
    w.line(f"hx.fill({total}, {w.pick((0, 0, 1))})")
    w.line(f"hx.gemm({total}, {_fed(w, left)}, {_fed(w, right)})")
    w.hold(total, result, (rows, columns))
    if result == "f32" and rows % 16 == 0 and w.chance(0.3):
        _chained(w, total, rows, columns)


def _fed(w, held):
    """The name of an operand: as it is, or of what a scan, a reduction or a choice makes of it."""
    if held.dtype not in COMPUTED or w.chance(0.5):
        return held.name
    x, axis = held.name, w.number(0, 1)
    made = w.pick((
        f"hx.{w.pick(('cummax', 'cummin'))}({x}, {axis}{w.pick(('', ', reverse=True'))})",
        f"hx.maximum(hx.minimum({x} + hx.max({x}, {axis}), 3), 0)",
        f"hx.where({x} < hx.max({x}, {axis}), {x}, 0)",
        f"hx.rearrange({x})",
        f"hx.cast(hx.cast({x}, f32), {held.dtype})",
        f"hx.maximum({x}, 0)",
    ))  # fmt: skip
    name = w.name("r")
    w.line(f"{name} = {made}")
    w.hold(name, held.dtype, held.shape)
    return name


def _chained(w, total, rows, columns):
    """A product of a product: reduced, clipped, cast, multiplied again."""
    if columns % 16:
        return
    top, left = w.name("r"), w.name("r")
    w.line(f"{top} = hx.max({total}, 1)")
    w.line(f"{left} = hx.cast(hx.maximum({total} - {top}, -3), f16)")
    w.hold(left, "f16", (rows, columns))
    right = load(w, "f16", (8, columns))
    second = w.register("f32", (rows, 8), "c")
    w.line(f"hx.fill({second}, 0)")
    w.line(f"hx.gemm({second}, {left}, {right.name})")
    w.hold(second, "f32", (rows, 8))


def gemm_parts(w):
    """Products into the parts of one accumulator, used as a whole afterwards."""
    operand, result = w.pick(GEMMS[:5])
    step, parts = depth_step(operand), w.pick((2, 2, 3))
    rows, columns = w.pick((16, 32)), w.pick((8, 16))
    left = load(w, operand, (rows, step))
    total = w.register(result, (rows, columns, parts), "c")
    w.line(f"hx.fill({total}, 0)")
    whole = w.chance(0.5)
    right = load(w, operand, (columns, step, parts)).name if whole else None
    for p in range(parts):
        other = f"{right}[:, :, {p}]" if whole else load(w, operand, (columns, step)).name
        w.line(f"hx.gemm({total}[:, :, {p}], {left.name}, {other})")
    w.hold(total, result, (rows, columns, parts))


def register_parts(w):
    """A tile changed and read by parts of its last mode, or by slices of a mode."""
    a = computable(w)
    mode = len(a.shape) - 1 if w.chance(0.9) else w.number(0, len(a.shape) - 1)
    extent = a.shape[mode]
    if extent > 4 and w.chance(0.9):
        return
    if extent > 4:
        size = w.pick([e for e in (extent // 2, extent // 4, extent) if e > 0])
        at = size * w.number(0, extent // size - 1)
        entry, shape = f"{at}:{at + size}", [*a.shape]
        shape[mode] = size
    elif len(a.shape) > 1:
        entry = str(w.number(0, extent - 1))
        shape = [e for m, e in enumerate(a.shape) if m != mode]
    else:
        return
    text = f"{a.name}[{', '.join(entry if m == mode else ':' for m in range(len(a.shape)))}]"
    form = w.pick(("change", "set", "read", "fill"))
    if form == "change":
        w.line(f"{text} += 1")
    elif form == "set":
        w.line(f"{text} = hx.minimum({text} + 1, 3)")
    elif form == "fill":
        w.line(f"hx.fill({text}, {w.number(0, 3)})")
    else:
        name = w.name("r")
        w.line(f"{name} = {text} * 1")
        w.hold(name, a.dtype, tuple(shape))


def elements(w):
    """Code of single threads, with branches and loops, over the elements of a small tile."""
    fits = w.holding(lambda h: h.dtype in ("i32", "f32"), lambda h: _count(h.shape) <= 400)
    if fits:
        a = w.pick(fits)
    else:
        a = load(w, w.pick(("i32", "f32")), w.pick(((8, 16), (24,), (5, 12), (16, 3), (4, 4, 2))))
    names = ["i", "j", "k"][: len(a.shape)]
    index = ", ".join(names)
    others = w.holding(lambda h: h.dtype == a.dtype, lambda h: h.shape == a.shape)
    b = w.pick(others)
    target = f"{', '.join(names)}" if len(names) > 1 else f"({names[0]},)"
    convert = "" if a.dtype == "i32" else f"hx.cast({names[0]}, f32)"
    with w.block(f"for {target} in hx.elements({a.name}):", False):
        w.line(f"x = {a.name}[{index}]")
        for _ in range(w.number(1, 3)):
            _scalar_statement(w, names, convert or names[0], f"{b.name}[{index}]", 0)
        w.line(f"{a.name}[{index}] = hx.minimum(hx.maximum(x, -4), 4)")


def _count(shape):
    total = 1
    for extent in shape:
        total *= extent
    return total


def _scalar_statement(w, names, coordinate, other, level):
    kind = w.pick(("set", "add", "if", "for", "while") if level < 2 else ("set", "add"))
    if kind == "set":
        w.line(f"x = {w.pick((f'x + {coordinate}', f'hx.maximum(x, {other})', f'{other} - x'))}")
    elif kind == "add":
        w.line(f"x += {w.pick((other, coordinate, '1'))}")
    elif kind == "if":
        test = w.pick((f"{names[-1]} % 2 == 0", f"{names[0]} < 3", f"x > {other}", f"{other} > 0"))
        with w.block(f"if {test}:", False):
            _scalar_statement(w, names, coordinate, other, level + 1)
        if w.chance(0.4):
            with w.block("else:", False):
                _scalar_statement(w, names, coordinate, other, level + 1)
    elif kind == "for":
        count = w.pick(("2", w.scalar(w.number(0, 3)), f"{names[0]} % 3"))
        with w.block(f"for {w.name('e')} in range({count}):", False):
            _scalar_statement(w, names, coordinate, other, level + 1)
    else:
        counter = w.name("y")
        w.line(f"{counter} = {w.pick(('0', '1', names[0]))}")
        with w.block(f"while {counter} < {w.pick(('2', '3', other))}:", False):
            _scalar_statement(w, names, coordinate, other, level + 1)
            w.line(f"{counter} += 1")
