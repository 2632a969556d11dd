"""What TMA does to a box beside moving it: combines it with global memory, and says when its bytes
leave L2. The element types are those of the PTX ISA's table of `cp.reduce.async.bulk.tensor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from hexcute_core.dtypes import DType, bf16, f16, f32, i32, i64, u32, u64

Reduction: TypeAlias = Literal["add", "min", "max"]
"""How a box is combined with what global memory holds, element by element."""
Hint: TypeAlias = Literal["evict_first", "evict_last"]
"""The bytes of a box are the first, or the last, to leave L2."""

HINTS: tuple[Hint, ...] = get_args(Hint)
_ORDERED = (f16, bf16, i32, u32, i64, u64)
REDUCED: Mapping[Reduction, tuple[DType, ...]] = {
    "add": (f16, bf16, f32, i32, u32, u64),
    "min": _ORDERED,
    "max": _ORDERED,
}
"""The element types of each reduction."""
