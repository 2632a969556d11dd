"""The sm_80 table: plain and asynchronous copies, ldmatrix, mma.sync.

sm_86 and sm_89 run the same instructions within their own limits; sm_89 adds 8-bit floats.

Operand layouts are those of the PTX ISA manual, "Matrix fragments for mma" and "ldmatrix".
"""

from __future__ import annotations

from dataclasses import replace

from hexcute_core import dtypes as dt
from hexcute_core.arch.fragment import Fragment, Mode
from hexcute_core.arch.rows import Arch, CopyRow, MmaRow, Timing
from hexcute_core.dtypes import DType

_GLOBAL = "CUDA C++ Best Practices Guide, memory throughput; one 32-byte sector a lane at worst"
_SHARED = "CUDA C++ Programming Guide, shared memory: 128 bytes a clock a multiprocessor"
_TENSOR = "NVIDIA A100 whitepaper: 1024 dense f16 multiply-adds a clock a multiprocessor"


def _vector_rows() -> tuple[CopyRow, ...]:
    rows: list[CopyRow] = []
    for size in (16, 8, 4, 2, 1):
        wavefronts = max(1.0, size / 4)
        memory = Timing(issue=2 * wavefronts, latency=500, source=_GLOBAL)
        shared = Timing(issue=wavefronts, latency=30, source=_SHARED)
        if size >= 4:
            name = f"cp.async.{size}"
            rows.append(CopyRow(name, "global", "shared", size, size, memory, asynchronous=True))
        rows += [
            CopyRow(f"ld.global.{size}", "global", "register", size, size, memory),
            CopyRow(f"st.global.{size}", "register", "global", size, size, memory),
            CopyRow(f"ld.shared.{size}", "shared", "register", size, size, shared),
            CopyRow(f"st.shared.{size}", "register", "shared", size, size, shared),
        ]
    return tuple(rows)


def _ldmatrix(count: int, bits: int) -> CopyRow:
    """`count` 8x8 matrices of 16-bit cells; a cell pair is 32 bits, so other widths fit too."""
    word = 32 // bits
    rows, columns = 8 * count, 4 * word
    p = Fragment(
        (rows, columns),
        (Mode(8 * count, 1, 0), Mode(4 // count, 0, 0)),
        (Mode(columns, 1, 1),),
    )
    q = Fragment(
        (rows, columns),
        (Mode(4, word, 1), Mode(8, 1, 0)),
        (Mode(word, 1, 1), Mode(count, 8, 0)),
    )
    timing = Timing(issue=float(count), latency=33, source=_SHARED)
    return CopyRow(
        f"ldmatrix.x{count}", "shared", "register", 4 * count, 16, timing,
        access="matrix", element_bits=bits, p=p, q=q,
    )  # fmt: skip


def _ldmatrix_trans(count: int) -> CopyRow:
    p = Fragment((8 * count, 8), (Mode(8 * count, 1, 0), Mode(4 // count, 0, 0)), (Mode(8, 1, 1),))
    q = Fragment((8 * count, 8), (Mode(4, 2, 0), Mode(8, 1, 1)), (Mode(2, 1, 0), Mode(count, 8, 0)))
    timing = Timing(issue=float(count), latency=33, source=_SHARED)
    return CopyRow(
        f"ldmatrix.x{count}.trans", "shared", "register", 4 * count, 16, timing,
        access="matrix", element_bits=16, p=p, q=q,
    )  # fmt: skip


def _mma(name: str, k: int, a: DType, b: DType, c: DType, issue: float) -> MmaRow:
    """mma.m16n8kK: a quad of lanes shares a row; a lane holds words of 32 bits along K."""
    word = 32 // a.bits
    lane = (Mode(4, word, 1), Mode(8, 1, 0))
    halves = (Mode(k // (4 * word), 4 * word, 1),)
    return MmaRow(
        f"mma.16x8x{k}.{name}",
        (16, 8, k),
        32,
        a,
        b,
        c,
        Fragment((16, k), lane, (Mode(word, 1, 1), Mode(2, 8, 0), *halves)),
        Fragment((8, k), lane, (Mode(word, 1, 1), *halves)),
        Fragment((16, 8), (Mode(4, 2, 1), Mode(8, 1, 0)), (Mode(2, 1, 1), Mode(2, 8, 0))),
        Timing(issue, 33, _TENSOR),
    )


def _fma(dtype: DType) -> MmaRow:
    """One multiply-add of one thread, for the types that have no Tensor Core instruction."""
    one = Fragment((1, 1), (), ())
    source = "CUDA C++ Programming Guide, arithmetic throughput: 64 f32 multiply-adds a clock"
    return MmaRow(
        f"fma.{dtype}", (1, 1, 1), 1, dtype, dtype, dtype, one, one, one, Timing(0.5, 4, source)
    )


_MMAS = (
    _mma("f32.f16.f16", 16, dt.f16, dt.f16, dt.f32, 8),
    _mma("f16.f16.f16", 16, dt.f16, dt.f16, dt.f16, 8),
    _mma("f32.bf16.bf16", 16, dt.bf16, dt.bf16, dt.f32, 8),
    _mma("f32.tf32.tf32", 8, dt.tf32, dt.tf32, dt.f32, 8),
    _mma("i32.i8.i8", 32, dt.i8, dt.i8, dt.i32, 8),
    _mma("i32.u8.u8", 32, dt.u8, dt.u8, dt.i32, 8),
    _fma(dt.f32),
    _fma(dt.i32),
)

SM80 = Arch(
    name="sm_80",
    capability=(8, 0),
    shared_per_block=163 * 1024,
    registers_per_thread=255,
    copies=(
        *(_ldmatrix(n, bits) for n in (4, 2, 1) for bits in (16, 8, 32)),
        *(_ldmatrix_trans(n) for n in (4, 2, 1)),
        *_vector_rows(),
    ),
    mmas=_MMAS,
)
SM86 = replace(SM80, name="sm_86", capability=(8, 6), shared_per_block=99 * 1024)
SM89 = replace(
    SM80,
    name="sm_89",
    capability=(8, 9),
    shared_per_block=99 * 1024,
    mmas=(
        *_MMAS,
        _mma("f32.f8e4m3.f8e4m3", 32, dt.f8e4m3, dt.f8e4m3, dt.f32, 8),
        _mma("f32.f8e5m2.f8e5m2", 32, dt.f8e5m2, dt.f8e5m2, dt.f32, 8),
    ),
)
