"""The sm_90 table: sm_80's instructions, with wgmma and the tensor memory accelerator (sm_90a).

Operand layouts are those of the PTX ISA manual, "Asynchronous warpgroup level matrix
instructions": the accumulator of m64nN puts 16 rows on each warp and repeats the quad pattern of
mma.sync along N; A from registers is mma.sync's A fragment, 16 rows per warp.
"""

from __future__ import annotations

from dataclasses import replace

from hexcute_core import dtypes as dt
from hexcute_core.arch.fragment import Fragment, Mode
from hexcute_core.arch.rows import BulkRows, CopyRow, Timing, WgmmaRow
from hexcute_core.arch.sm80 import SM80
from hexcute_core.arch.timings import timed
from hexcute_core.dtypes import DType

_NAME = "sm_90"
_TENSOR = "NVIDIA H100 whitepaper: 4096 dense f16 multiply-adds a clock a multiprocessor"
_REMOTE = (
    "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, arXiv:2402.13499: "
    "180 clocks from one multiprocessor to another, 3.27 TB/s over 114 of them at 1.755 GHz"
)
_BULK = "NVIDIA H100 whitepaper: 3.35 TB/s over 132 multiprocessors at 1.755 GHz"
_REMOTE_LATENCY = 180.0
_REMOTE_WAVEFRONT = 8.0
_RATE = 4096.0
"""Dense f16 multiply-adds per clock and multiprocessor; other types by their width."""

_TYPES: tuple[tuple[DType, DType, DType], ...] = (
    (dt.f16, dt.f16, dt.f32), (dt.f16, dt.f16, dt.f16), (dt.bf16, dt.bf16, dt.f32),
    (dt.tf32, dt.tf32, dt.f32), (dt.f8e4m3, dt.f8e4m3, dt.f32), (dt.f8e4m3, dt.f8e5m2, dt.f32),
    (dt.f8e5m2, dt.f8e4m3, dt.f32), (dt.f8e5m2, dt.f8e5m2, dt.f32),
    (dt.i8, dt.i8, dt.i32), (dt.u8, dt.u8, dt.i32),
)  # fmt: skip


def _widths(a: DType) -> tuple[int, ...]:
    """Every multiple of 8 up to 256; for 8-bit integers 8, 16, 24 and multiples of 16."""
    if a in (dt.i8, dt.u8):
        return (8, 16, 24, *range(32, 257, 16))
    return tuple(range(8, 257, 8))


def _wgmma(a: DType, b: DType, c: DType, n: int) -> WgmmaRow:
    bits = 32 if a == dt.tf32 else a.bits
    k, word = 256 // bits, 32 // bits
    sixteen = a.bits == 16
    lanes = Mode(8, 1, 0)
    warps = Mode(4, 16, 0)
    rate = _RATE * 16 / bits
    documented = Timing(64 * n * k / rate, 64 * n * k / rate + 32, _TENSOR)
    return WgmmaRow(
        (64, n, k), a, b, c,
        ("k", "m") if sixteen else ("k",),
        ("k", "n") if sixteen else ("k",),
        Fragment(
            (64, k),
            (Mode(4, word, 1), lanes, warps),
            (Mode(word, 1, 1), Mode(2, 8, 0), Mode(2, 4 * word, 1)),
        ),
        Fragment(
            (64, n),
            (Mode(4, 2, 1), lanes, warps),
            (Mode(2, 1, 1), Mode(2, 8, 0), Mode(n // 8, 8, 1)),
        ),
        timed(_NAME, f"wgmma.64x{n}x{k}.{c}.{a}.{b}", documented),
    )  # fmt: skip


def _stmatrix(load: CopyRow) -> CopyRow:
    """The store that is the inverse of an ldmatrix: same matrices, same registers."""
    name = load.name.replace("ld", "st", 1)
    return replace(load, name=name, src="register", dst="shared")


def _remote(row: CopyRow) -> CopyRow:
    """The same access to shared memory of another block of the cluster: 16 bytes a clock between
    multiprocessors, a wavefront of 128 bytes at least."""
    timing = Timing(max(1.0, row.bytes / 4) * _REMOTE_WAVEFRONT, _REMOTE_LATENCY, _REMOTE)
    name = row.name.replace(".shared.", ".cluster.")
    src, dst = ("remote" if side == "shared" else side for side in (row.src, row.dst))
    return replace(row, name=name, src=src, dst=dst, timing=timing)


_COPIES = (
    *SM80.copies,
    *(
        _remote(row)
        for row in SM80.copies
        if row.access == "vector" and {row.src, row.dst} == {"shared", "register"}
    ),
    *(_stmatrix(row) for row in SM80.copies if row.access == "matrix"),
)
SM90 = replace(
    SM80,
    name=_NAME,
    capability=(9, 0),
    shared_per_block=227 * 1024,
    copies=tuple(replace(r, timing=timed(_NAME, r.name, r.timing)) for r in _COPIES),
    mmas=tuple(replace(r, timing=timed(_NAME, r.name, r.timing)) for r in SM80.mmas),
    wgmmas=tuple(_wgmma(a, b, c, n) for a, b, c in _TYPES for n in _widths(a)),
    bulk=BulkRows(
        swizzles=(128, 64, 32, 0),
        box=256,
        rank=5,
        alignment=16,
        timing=timed(_NAME, "tma.load.1024", Timing(issue=4, latency=700, source=_BULK)),
    ),
)
