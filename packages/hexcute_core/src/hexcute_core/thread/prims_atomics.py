"""The primitives by which running threads meet in memory: operand kinds and what each means.

| primitive | operands | meaning |
|---|---|---|
| `red.global.OP.T` | GlobalPtr, Regs value, bool pred | updates memory where pred is true |
| `atom.global.OP.T` | Regs old, then as `red` | and gives what was there, else zeros |
| `atom.global.cas.T` | Regs old, GlobalPtr, Regs compare, Regs value, bool pred | |
| `red.shared.OP.T`, `atom.shared.OP.T` | the same with SharedPtr and without pred | |
| `ld.SPACE.ORDER.B`, `st.SPACE.ORDER.B` | as `ld.SPACE.B`, `st.SPACE.B` | of a flag |
| `fence.cta`, `fence.gpu` | - | orders the relaxed accesses around it |
| `bar.warp.sync` | - | the lanes of a warp meet, and know of each other's accesses |

OP is add, min, max, and, or, xor, inc or dec, and exch or cas for `atom`, where T has it. Every
register is one element of T, one atomic each, at addresses that follow one another. A memory order
may follow T: `relaxed`, which is what none means, `release`, and for `atom` also `acquire` and
`acq_rel`. Loads are `relaxed` or `acquire`, stores `relaxed` or `release`. The scope is the block
in shared and the GPU in global memory. `bf16` needs sm_90.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hexcute_core.dtypes import BY_NAME
from hexcute_core.thread.spec import OperandKind, PrimSpec

_INTEGERS = ("i32", "u32", "i64", "u64")
_UPDATES: Mapping[str, tuple[str, ...]] = {
    "add": (*_INTEGERS, "f32", "f64", "f16", "bf16"), "min": _INTEGERS, "max": _INTEGERS,
    "and": _INTEGERS, "or": _INTEGERS, "xor": _INTEGERS, "inc": ("u32",), "dec": ("u32",),
}  # fmt: skip
_TYPES = {
    "red": _UPDATES,
    "atom": {**_UPDATES, "exch": (*_INTEGERS, "f32"), "cas": (*_INTEGERS, "u16")},
}
"""The element types of each operation."""
_ORDERS = {
    "red": ("", "relaxed", "release"), "atom": ("", "relaxed", "acquire", "release", "acq_rel"),
    "ld": ("relaxed", "acquire"), "st": ("relaxed", "release"),
}  # fmt: skip
_PLACES: tuple[tuple[OperandKind, tuple[OperandKind, ...]], ...] = (
    ("global", ("scalar",)), ("shared", ()),
)  # fmt: skip
"""A memory, and what else an access to it takes."""


def _update_rows() -> dict[str, PrimSpec]:
    rows = []
    for family, types in _TYPES.items():
        for (space, pred), (op, kinds) in product(_PLACES, types.items()):
            old: tuple[OperandKind, ...] = ("regs",) if family == "atom" else ()
            values: tuple[OperandKind, ...] = ("regs", "regs") if op == "cas" else ("regs",)
            for kind, order in product(kinds, _ORDERS[family]):
                name = ".".join(filter(None, (family, space, op, kind, order)))
                size = BY_NAME[kind].bits // 8
                rows.append(PrimSpec(name, (*old, space, *values, *pred), size))
    return {row.name: row for row in rows}


def _flag_rows() -> dict[str, PrimSpec]:
    rows = []
    for (space, pred), size in product(_PLACES, (1, 2, 4, 8, 16)):
        for order in _ORDERS["ld"]:
            rows.append(PrimSpec(f"ld.{space}.{order}.{size}", ("regs", space, *pred), size))
        for order in _ORDERS["st"]:
            rows.append(PrimSpec(f"st.{space}.{order}.{size}", (space, "regs", *pred), size))
    return {row.name: row for row in rows}


UPDATES: Mapping[str, PrimSpec] = _update_rows()
"""The read-modify-writes."""
FLAGS: Mapping[str, PrimSpec] = _flag_rows()
"""The loads and stores that order."""
ATOMICS: Mapping[str, PrimSpec] = {
    **UPDATES,
    **FLAGS,
    "fence.cta": PrimSpec("fence.cta", ()),
    "fence.gpu": PrimSpec("fence.gpu", ()),
    "bar.warp.sync": PrimSpec("bar.warp.sync", ()),
}
"""All of the table above."""
