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
register is one element of T, one atomic each, at addresses that follow one another. `.vN` may
follow T where OP is add: one instruction for N elements, still one atomic each, at an address that
is a multiple of all of them: pairs of f16 and bf16 everywhere, and for `red.global` on sm_90 two or
four f32, four or eight f16 or bf16. A memory order may follow: `relaxed`, which is what none means,
`release`, and for `atom` also `acquire` and `acq_rel`. Loads are `relaxed` or `acquire`, stores
`relaxed` or `release`. The scope is the block in shared memory; in global memory it is the GPU, or
the block where the name of an update ends in `.cta`. `bf16` needs sm_90.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hexcute_core.arch.features import Feature
from hexcute_core.arch.updates import ORDERS, UPDATED, update_name, widths
from hexcute_core.dtypes import BY_NAME, bf16
from hexcute_core.thread.spec import OperandKind, PrimSpec, Update

_TYPES = {op: tuple(t.name for t in types) for op, types in UPDATED.items()} | {
    "inc": ("u32",), "dec": ("u32",), "cas": (*(t.name for t in UPDATED["cas"]), "u16"),
}  # fmt: skip
"""The element types of each operation."""
_FAMILIES = {"red": tuple(op for op in _TYPES if op not in ("exch", "cas")), "atom": tuple(_TYPES)}
_ORDERS = {
    "red": ("", "relaxed", "release"), "atom": ("", *ORDERS),
    "ld": ("relaxed", "acquire"), "st": ("relaxed", "release"),
}  # fmt: skip
_PLACES: tuple[tuple[OperandKind, tuple[OperandKind, ...]], ...] = (
    ("global", ("scalar",)), ("shared", ()),
)  # fmt: skip
"""A memory, and what else an access to it takes."""


def _update_rows() -> dict[str, PrimSpec]:
    rows = []
    for family, ops in _FAMILIES.items():
        for (space, pred), op in product(_PLACES, ops):
            old: tuple[OperandKind, ...] = ("regs",) if family == "atom" else ()
            values: tuple[OperandKind, ...] = ("regs", "regs") if op == "cas" else ("regs",)
            scopes = (False, True) if space == "global" else (False,)
            for kind, order, block in product(_TYPES[op], _ORDERS[family], scopes):
                for width in widths(family, space, op, kind):
                    name = update_name(family, space, op, kind, width, order, block)
                    dtype, near = BY_NAME[kind], block or space == "shared"
                    update = Update(op, space, dtype, width, order or "relaxed", near, bool(old))
                    size, operands = width * dtype.bits // 8, (*old, space, *values, *pred)
                    wide = dtype == bf16 or (width > 1 and size > 4)
                    needs: Feature | None = "vector atomics" if wide else None
                    rows.append(PrimSpec(name, operands, size, needs, update))
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
