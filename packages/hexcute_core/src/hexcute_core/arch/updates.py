"""Atomic updates of memory: the element types of each, and the instructions that carry them.

`red.SPACE.OP.T` and `atom.SPACE.OP.T`, which also brings back what was there, move one element for
each thread. Sums of f16 and bf16 take pairs; on sm_90 a sum whose old values nobody wants takes up
to 16 bytes of one thread. Types and widths are those of the PTX ISA's `atom` and `red`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from hexcute_core.arch.features import Feature
from hexcute_core.arch.rows import Arch, CopyRow, Timing
from hexcute_core.dtypes import DType, bf16, f16, f32, f64, i32, i64, u32, u64

UpdateOp: TypeAlias = Literal["add", "min", "max", "and", "or", "xor", "exch", "cas"]
"""What becomes of an element: combined with the new one, replaced by it, or replaced where it
equals another."""
MemoryOrder: TypeAlias = Literal["relaxed", "acquire", "release", "acq_rel"]
ORDERS: tuple[MemoryOrder, ...] = ("relaxed", "acquire", "release", "acq_rel")

_INTEGERS = (i32, u32, i64, u64)
UPDATED: Mapping[UpdateOp, tuple[DType, ...]] = {
    "add": (*_INTEGERS, f32, f64, f16, bf16), "min": _INTEGERS, "max": _INTEGERS,
    "and": _INTEGERS, "or": _INTEGERS, "xor": _INTEGERS,
    "exch": (*_INTEGERS, f32), "cas": _INTEGERS,
}  # fmt: skip
"""The element types of each update."""
_PAIRS = ("f16", "bf16")
_VECTORS = {"f32": (2, 4), "f16": (4, 8), "bf16": (4, 8)}
CALL = 4.0
_SOURCE = "CUDA C++ Programming Guide, atomic functions: carried out in L2, a sector at a time"


def widths(family: str, space: str, op: str, kind: str) -> tuple[int, ...]:
    """How many elements of type `kind` one instruction may take."""
    if op != "add":
        return (1,)
    pairs = (2,) if kind in _PAIRS else ()
    wide = _VECTORS.get(kind, ()) if (family, space) == ("red", "global") else ()
    return (1, *pairs, *wide)


def update_name(
    family: str,
    space: str,
    op: str,
    kind: str,
    width: int = 1,
    order: str = "",
    block: bool = False,
) -> str:
    """`FAMILY.SPACE.OP.T[.vWIDTH][.ORDER][.cta]`; `block` narrows the scope in global memory."""
    vector = f"v{width}" if width > 1 else ""
    scope = "cta" if block and space == "global" else ""
    return ".".join(filter(None, (family, space, op, kind, vector, order, scope)))


def ordered(order: MemoryOrder) -> str:
    """What a name says of an order: of none it is relaxed."""
    return "" if order == "relaxed" else order


def missing(have: frozenset[Feature], dtype: DType) -> bool:
    """Whether GPUs with these features have no atomic sum of `dtype`."""
    return dtype == bf16 and "vector atomics" not in have


def _issue(size: int) -> float:
    """Clocks of one call of a warp beside its sectors: a transaction whatever its width, but for
    two bytes a loop of reads and swaps."""
    return CALL if size > 2 else CALL * 16


def update_rows(
    arch: Arch,
    space: Literal["global", "shared"],
    op: UpdateOp,
    dtype: DType,
    returns: bool,
    order: MemoryOrder,
    block: bool,
) -> tuple[CopyRow, ...]:
    """The instructions of `arch` that update memory by registers, the widest first."""
    family = "atom" if returns or op in ("exch", "cas") or "acq" in order else "red"
    rows = []
    for width in sorted(widths(family, space, op, dtype.name), reverse=True):
        size = width * dtype.bits // 8
        wide = width > 1 and size > 4
        if missing(arch.features, dtype) or (wide and "vector atomics" not in arch.features):
            continue
        name = update_name(family, space, op, dtype.name, width, ordered(order), block)
        timing = Timing(_issue(size), 600 if space == "global" else 60, _SOURCE)
        rows.append(CopyRow(name, "register", space, size, size, timing))
    return tuple(rows)
