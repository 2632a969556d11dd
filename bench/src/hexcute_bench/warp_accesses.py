"""One-warp kernels, each around one shared-memory or global access pattern, and what they cost.

A pattern is a byte address a lane. Its kernel fills shared memory without conflicts, runs the
access between barriers, and stores what it got, so that nothing is optimised away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Const, Scalar, Var
from hexcute_core.simulator import simulate
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.memory.banks import wavefronts
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    Prim,
    Regs,
    SharedPtr,
    Stmt,
    ThreadParam,
    ThreadProgram,
)

LANE = Var("threadIdx.x")
ARENA = 8192
WORDS = 4096
_ZERO, _ONE = Const(0, dt.i32), Const(1, dt.i32)
_TRUE = Const(True, dt.boolean)


@dataclass(frozen=True)
class Pattern:
    """`address(lane)` in bytes of shared memory (or of the global array, for `global`)."""

    name: str
    kind: str
    size: int
    address: Callable[[Scalar], Scalar]

    @property
    def kernel_name(self) -> str:
        """What the profiler calls it."""
        return f"wf_{self.name}"

    def program(self) -> ThreadProgram:
        """The kernel."""
        params = tuple(
            ThreadParam(n, dt.u32, (Const(WORDS, dt.i32),), pointer=True, aligned=True)
            for n in ("x", "y")
        )
        grid = (_ONE, _ONE, _ONE)
        return ThreadProgram(self.kernel_name, params, grid, 32, ARENA, tuple(_body(self)))

    def addresses(self) -> Any:
        """The byte address of each lane [32]."""
        place = compile_scalar(self.address(LANE))
        lanes = LaneState({LANE.name: np.arange(32, dtype=np.int32)}, 32, [(0, 0, 0)])
        return np.broadcast_to(np.asarray(place(lanes)), 32)

    def access_wavefronts(self) -> int:
        """The simulator's wavefronts of the shared access alone."""
        lane = np.arange(32)
        matrix = self.kind.startswith("ldmatrix")
        used = lane[: 8 * (self.size // 4)] if matrix else lane
        size = 16 if matrix else self.size
        at = self.addresses()[used].astype(np.int64)
        return wavefronts(np.zeros_like(used), used, at, size, self.kind == "load").real

    def expected(self) -> dict[str, int]:
        """The simulator's counts, by what the profiler calls them."""
        arrays = {"x": np.arange(WORDS, dtype=np.uint32), "y": np.zeros(WORDS, dtype=np.uint32)}
        counters = simulate(self.program(), arrays, {}).counters
        loads = ("ld.shared", "ldmatrix")
        return {
            "shared_ld": _total(counters.wavefronts, loads),
            "shared_st": _total(counters.wavefronts, ("st.shared",)),
            "global_ld": _total(counters.sectors, ("ld.global",)),
            "global_st": _total(counters.sectors, ("st.global",)),
        }


def _total(counts: Mapping[str, int], families: tuple[str, ...]) -> int:
    return sum(count for name, count in counts.items() if name.startswith(families))


def _regs(array: str, size: int) -> Regs:
    return Regs(array, _ZERO, (0,), size // 4, dt.u32)


def _load(array: str, size: int, word: Scalar) -> Prim:
    return Prim(f"ld.global.{size}", (_regs(array, size), GlobalPtr("x", word, dt.u32), _TRUE))


def _store(array: str, size: int, word: Scalar) -> Prim:
    return Prim(f"st.global.{size}", (GlobalPtr("y", word, dt.u32), _regs(array, size), _TRUE))


def _body(pattern: Pattern) -> list[Stmt]:
    size, words = pattern.size, pattern.size // 4
    at = pattern.address(LANE)
    got = [DeclareArray("got", dt.u32, words)]
    keep = [_store("got", size, LANE * words)]
    match pattern.kind:
        case "load":
            read: list[Stmt] = [Prim(f"ld.shared.{size}", (_regs("got", size), SharedPtr(at)))]
            return [*_filled(), *got, *read, *keep]
        case "store":
            put = Prim(f"st.shared.{size}", (SharedPtr(at), _regs("got", size)))
            back = Prim(f"ld.shared.{size}", (_regs("got", size), SharedPtr(at)))
            return [*got, _load("got", size, LANE * words), put, Prim("bar.sync", ()), back, *keep]
        case "global":
            return [*got, _load("got", size, at // 4), _store("got", size, at // 4)]
        case matrix:
            pieces = Regs("got", _ZERO, tuple(2 * i for i in range(words)), 2, dt.f16)
            rows: list[Stmt] = [
                DeclareArray("got", dt.f16, 2 * words), Prim(matrix, (pieces, SharedPtr(at))),
            ]  # fmt: skip
            out = Prim(
                f"st.global.{size}",
                (
                    GlobalPtr("y", LANE * words, dt.u32),
                    Regs("got", _ZERO, (0,), 2 * words, dt.f16),
                    _TRUE,
                ),
            )
            return [*_filled(), *rows, out]


def _filled() -> list[Stmt]:
    """All of shared memory, 512 bytes of consecutive 16-byte stores at a time."""
    out: list[Stmt] = [DeclareArray("fill", dt.u32, 4)]
    for first in range(0, ARENA, 512):
        out.append(_load("fill", 16, LANE * 4 + first // 4))
        out.append(Prim("st.shared.16", (SharedPtr(LANE * 16 + first), _regs("fill", 16))))
    return [*out, Prim("bar.sync", ())]


def _swizzled(row: Scalar, chunk: Scalar) -> Scalar:
    """16-byte chunk `chunk` of row `row` of 128 bytes, swizzled over 8 rows."""
    return (row * 128) ^ (((row ^ chunk) % 8) * 16)


PATTERNS: tuple[Pattern, ...] = (
    Pattern("ld4_rows", "load", 4, lambda t: t * 4),
    Pattern("ld4_every_other", "load", 4, lambda t: t * 8),
    Pattern("ld4_column", "load", 4, lambda t: t * 128),
    Pattern("ld4_padded_column", "load", 4, lambda t: t * 132),
    Pattern("ld4_pairs", "load", 4, lambda t: t // 2 * 4),
    Pattern("ld8_rows", "load", 8, lambda t: t * 8),
    Pattern("ld8_every_other", "load", 8, lambda t: t * 16),
    Pattern("ld8_column", "load", 8, lambda t: t * 128),
    Pattern("ld8_pairs", "load", 8, lambda t: t // 2 * 8),
    Pattern("ld8_crossed_pairs", "load", 8, lambda t: (t // 4 * 2 + t % 2) * 8),
    Pattern("ld16_rows", "load", 16, lambda t: t * 16),
    Pattern("ld16_every_other", "load", 16, lambda t: t * 32),
    Pattern("ld16_column", "load", 16, lambda t: t * 128),
    Pattern("ld16_padded_column", "load", 16, lambda t: t * 144),
    Pattern("ld16_swizzled_column", "load", 16, lambda t: _swizzled(t, _ZERO)),
    Pattern("ld16_pairs", "load", 16, lambda t: t // 2 * 16),
    Pattern("ld16_eights", "load", 16, lambda t: t % 8 * 16),
    Pattern("st4_rows", "store", 4, lambda t: t * 4),
    Pattern("st4_transposed", "store", 4, lambda t: t * 128),
    Pattern("st4_padded", "store", 4, lambda t: t * 132),
    Pattern("st8_rows", "store", 8, lambda t: t * 8),
    Pattern("st8_every_other", "store", 8, lambda t: t * 16),
    Pattern("st16_rows", "store", 16, lambda t: t * 16),
    Pattern("st16_column", "store", 16, lambda t: t * 128),
    Pattern("st16_swizzled_column", "store", 16, lambda t: _swizzled(t, _ZERO)),
    Pattern("ldmatrix1_packed", "ldmatrix.x1", 4, lambda t: t % 8 * 16),
    Pattern("ldmatrix1_column", "ldmatrix.x1", 4, lambda t: t % 8 * 128),
    Pattern("ldmatrix2_padded", "ldmatrix.x2", 8, lambda t: t % 16 * 144),
    Pattern("ldmatrix4_column", "ldmatrix.x4", 16, lambda t: t * 128),
    Pattern("ldmatrix4_rows_of_64", "ldmatrix.x4", 16, lambda t: t * 64),
    Pattern("ldmatrix4_swizzled", "ldmatrix.x4", 16, lambda t: _swizzled(t % 16, t // 16)),
    Pattern("ldmatrix4_trans_swizzled", "ldmatrix.x4.trans", 16,
            lambda t: _swizzled(t % 16, t // 16)),
    Pattern("ldmatrix4_trans_column", "ldmatrix.x4.trans", 16, lambda t: t % 16 * 128),
    Pattern("g4_rows", "global", 4, lambda t: t * 4),
    Pattern("g4_shifted", "global", 4, lambda t: t * 4 + 4),
    Pattern("g4_every_other", "global", 4, lambda t: t * 8),
    Pattern("g4_every_eighth", "global", 4, lambda t: t * 32),
    Pattern("g8_rows", "global", 8, lambda t: t * 8),
    Pattern("g16_rows", "global", 16, lambda t: t * 16),
    Pattern("g16_every_other", "global", 16, lambda t: t * 32),
    Pattern("g16_tiles", "global", 16, lambda t: t // 4 * 256 + t % 4 * 16),
)  # fmt: skip
"""Shared loads, stores, matrix loads, and global accesses; `pairs`, `crossed` and `eights` are
where neighbouring lanes share addresses."""
