"""Extents, types and threads that kernels are drawn from."""

from __future__ import annotations

THREADS = (32, 64, 96, 128, 128, 128, 160, 224, 256)
EXTENTS = (1, 2, 3, 5, 7, 8, 8, 12, 16, 16, 16, 20, 24, 32, 32, 40, 48, 100)
PARTS = (2, 2, 3, 4)
MAX_ELEMENTS = 1024
MOVED = ("f16", "bf16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64",
         "f8e4m3", "f8e5m2", "boolean")  # fmt: skip
COMPUTED = ("f16", "f16", "bf16", "f32", "f32", "i32", "i32", "i8", "u8", "i16", "i64", "u32")
SUMMED = ("f32", "i32", "i64", "f64", "u32")
GEMMS = (("f16", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"),
         ("i8", "i32"), ("u8", "i32"), ("f32", "f32"), ("i32", "i32"))  # fmt: skip
FP8 = (("f8e4m3", "f32"), ("f8e5m2", "f32"))
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "i8": 8, "u8": 8, "f8e4m3": 8, "f8e5m2": 8}

WIDTHS = {"u1": 1, "u2": 2, "u4": 4, "i2": 2, "i4": 4, "i8": 8, "u8": 8, "i16": 16, "u16": 16,
          "i32": 32, "u32": 32}  # fmt: skip


def depth_step(operand):
    """K of one product's instruction; 1 where threads multiply."""
    return 1 if operand in ("f32", "i32") else 256 // BITS[operand]


def shape(w, rank=None, limit=MAX_ELEMENTS):
    """Extents of a tile of `rank` modes, or of one to three."""
    rank = rank or w.pick((1, 2, 2, 2, 2, 2, 2, 3))
    while True:
        found = tuple(w.pick(EXTENTS if d < 2 else PARTS) for d in range(rank))
        total = 1
        for extent in found:
            total *= extent
        if total <= limit:
            return found


def is_float(dtype):
    return dtype.startswith(("f", "bf", "tf"))


def is_signed(dtype):
    return not dtype.startswith(("u", "bool"))
