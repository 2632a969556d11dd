"""What TMA alone does: shared tiles that are combined with global memory, and loads that complete
on barriers of the kernel's own."""

from __future__ import annotations

from random_kernels.control import trips
from random_kernels.movement import load

COMBINED = {
    "add": ("f16", "bf16", "f32", "i32", "u32"),
    "min": ("f16", "bf16", "i32", "u32", "i64"),
    "max": ("f16", "bf16", "i32", "u32", "i64"),
}
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "i32": 4, "u32": 4, "i64": 8, "i8": 1, "u8": 1}
LOADED = ("f16", "f16", "f32", "i8", "i64", "bf16", "u8")


def _shape(w, dtype):
    """A tile whose rows are whole pieces of 16 bytes."""
    return w.pick((8, 16, 24, 32)), 16 // BYTES[dtype] * w.pick((1, 2, 4))


def _addressable(w, stem, dtype, shape, count=1):
    """A view that TMA can address: (parameter, its origin, its row's length)."""
    rows, columns = shape
    width = columns * count + 16 // BYTES[dtype] * w.pick((0, 0, 1, -1))
    width = max(width, 16 // BYTES[dtype])
    height = max(rows + w.pick((0, 0, 3, -3)), 1)
    blocks = w.grid[0]
    param = w.tensor(stem, dtype, [w.extent(height * blocks), str(width)])
    starts = [f"hx.blockIdx.x * {height}"] if blocks > 1 else []
    if blocks == 1 and w.chance(0.3):
        # TMA reads before a tensor, and does not write there.
        written = stem == "out"
        start = w.scalar(w.pick((1, 2) if written else (1, 2, -2)))
        starts.append(f"hx.maximum({start}, 0)" if written else start)
    origin = f"[{' + '.join(starts)}:, :]" if starts else ""
    return param, origin, width


def combined(w):
    """A tile added to what global memory holds, or the least or the greatest of both."""
    if w.target != "sm_90" or max(w.grid[1:], default=1) > 1:
        return
    op = w.pick(list(COMBINED))
    dtype = w.pick(COMBINED[op])
    shape = _shape(w, dtype)
    held = load(w, dtype, shape)
    shared = w.shared_tensor(dtype, shape)
    param, origin, width = _addressable(w, "out", dtype, shape)
    name = w.name("g")
    w.line(f"{name} = hx.global_view({param}{origin}, ({shape}, ({width}, 1)))")
    w.writes(shared)
    w.line(f"hx.copy({held.name}, {shared.name})")
    w.reads(shared)
    w.line(f'hx.copy({shared.name}, {name}, reduce="{op}")')
    w.aligned = True


def arrived(w):
    """A loop of loads that complete on a barrier."""
    if w.target != "sm_90" or w.depth > 1:
        return
    dtype = w.pick(LOADED)
    shape = _shape(w, dtype)
    count, text = trips(w)
    param, origin, width = _addressable(w, "in", dtype, shape, max(count, 1))
    barrier, name = w.name("full"), w.name("g")
    w.line(f"{barrier} = hx.mbarrier(1)")
    extents, step = f"({shape[0]}, {shape[1]}, {text})", f"hx.along(1, {shape[1]})"
    w.line(f"{name} = hx.global_view({param}{origin}, ({extents}, ({width}, 1, {step})))")
    shared = w.shared_tensor(dtype, shape)
    held, total = w.register(dtype, shape), w.register(dtype, shape)
    w.line(f"hx.fill({total}, 0)")
    var = w.name("i")
    with w.block(f"for {var} in range({text}):"):
        with w.block("if hx.threadIdx.x == 0:", False):
            w.line(f"{barrier}.expect({shared.name}.nbytes)")
        w.line(f"hx.copy({name}[:, :, {var}], {shared.name}, mbarrier={barrier})")
        w.line(f"{barrier}.wait({var} % 2)")
        w.line(f"hx.copy({shared.name}, {held})")
        w.line(w.barrier)
        w.line(f"{total} = hx.maximum(hx.minimum({total} + {held}, 4), 0)")
    w.hold(total, dtype, shape)
    w.aligned = True
