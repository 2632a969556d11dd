"""The primitives a thread program may call: operand kinds and the one PTX instruction each means.

| primitive | operands | meaning |
|---|---|---|
| `ld.global.B` | Regs dst, GlobalPtr src, bool pred | B bytes; zeros where pred is false |
| `st.global.B` | GlobalPtr dst, Regs src, bool pred | B bytes; nothing where pred is false |
| `ld.shared.B`, `st.shared.B` | Regs, SharedPtr / SharedPtr, Regs | B bytes |
| `mov.B` | Regs dst, Regs src | B bytes of registers, the bits as they are |
| `cp.async.B` | SharedPtr dst, GlobalPtr src, bool pred | B in 4, 8, 16; zero fill, asynchronous |
| `cp.async.commit`, `cp.async.wait` | -, int pending | groups of asynchronous copies |
| `ldmatrix.xN`, `ldmatrix.xN.trans` | Regs dst (N pieces of 4 bytes), SharedPtr row | warp-wide |
| `mma.MxNxK.D.A.B` | Regs c, Regs a, Regs b | c += a * b^T, warp-wide |
| `bar.sync` | - | block-wide barrier |

Hopper's are in `prims_sm90`, atomics, flags and fences in `prims_atomics`.

Regs pieces are 4 bytes for ldmatrix and mma operands of 16- and 8-bit types, one element for
32-bit ones; memory accesses take pieces of B bytes in all, in the order of addresses.
"""

from __future__ import annotations

from hexcute_core.arch.features import Feature
from hexcute_core.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, f32, i8, i32, tf32, u8
from hexcute_core.thread.prims_atomics import ATOMICS
from hexcute_core.thread.prims_sm90 import hopper_rows
from hexcute_core.thread.spec import Matrices, PrimSpec, Product

_FLOATS_8 = (f8e4m3, f8e5m2)
"""Operands of mma from sm_89 on, in any mixture."""


def _needs(a: DType) -> Feature:
    return "fp8" if a in _FLOATS_8 else "mma.sync"


def _table() -> dict[str, PrimSpec]:
    rows = [
        PrimSpec("bar.sync", ()),
        PrimSpec("cp.async.commit", ()),
        PrimSpec("cp.async.wait", ("scalar",)),
    ]
    for size in (1, 2, 4, 8, 16):
        rows += [
            PrimSpec(f"ld.global.{size}", ("regs", "global", "scalar"), size),
            PrimSpec(f"st.global.{size}", ("global", "regs", "scalar"), size),
            PrimSpec(f"ld.shared.{size}", ("regs", "shared"), size),
            PrimSpec(f"st.shared.{size}", ("shared", "regs"), size),
            PrimSpec(f"mov.{size}", ("regs", "regs"), size),
        ]
    rows += [PrimSpec(f"cp.async.{n}", ("shared", "global", "scalar"), n) for n in (4, 8, 16)]
    for count in (1, 2, 4):
        for suffix in ("", ".trans"):
            name, matrices = f"ldmatrix.x{count}{suffix}", Matrices(count, bool(suffix))
            rows.append(PrimSpec(name, ("regs", "shared"), 4 * count, what=matrices))
    for k, c, a, b in (
        (16, f32, f16, f16),
        (16, f16, f16, f16),
        (16, f32, bf16, bf16),
        (8, f32, tf32, tf32),
        (32, i32, i8, i8),
        (32, i32, u8, u8),
        *((32, f32, a, b) for a in _FLOATS_8 for b in _FLOATS_8),
    ):
        name, needs = f"mma.16x8x{k}.{c}.{a}.{b}", _needs(a)
        product = Product(16, 8, k, c, a, b)
        rows.append(PrimSpec(name, ("regs", "regs", "regs"), needs=needs, what=product))
    return {row.name: row for row in (*rows, *ATOMICS.values(), *hopper_rows())}


PRIMS: dict[str, PrimSpec] = _table()


def prim(name: str) -> PrimSpec | None:
    """The row of primitive `name`, or None for a call of the code generator's own."""
    return PRIMS.get(name)
