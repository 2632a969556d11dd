"""One shared arena a kernel: buffers packed by lifetime, with the barriers that reuse needs.

A buffer lives from the first to the last top-level statement that touches it. Buffers whose lives
do not meet may share bytes; before the first statement of the later one, all threads meet and
pending asynchronous copies are waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hexcute_core.arch import Arch
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis.graph import op_refs
from hexcute_core.tile import (
    Copy,
    For,
    Gemm,
    If,
    Produce,
    Role,
    SharedTensor,
    Stmt,
    TileProgram,
    TileRef,
    While,
)

ALIGNMENT = 1024
"""Bytes: a swizzle's period must start at zero; TMA and wgmma ask for as much."""


def tensor_bytes(tensor: SharedTensor) -> int:
    """Bytes of a shared tensor, whole bytes for sub-byte types."""
    elements = 1
    for extent in tensor.shape:
        elements *= extent
    return -(-elements * tensor.dtype.bits // 8)


@dataclass(frozen=True)
class Arena:
    """Offsets and total size, in bytes; `fences` are the top-level statements before which
    memory changes hands. Scratch, where there is any, has the name ``""``."""

    offsets: Mapping[str, int]
    size: int
    fences: frozenset[int]


@dataclass(frozen=True)
class _Life:
    name: str
    bytes: int
    first: int
    last: int


def build_arena(
    program: TileProgram, arch: Arch, scratch: int = 0, fixed: Mapping[str, int] | None = None
) -> Arena:
    """Places every shared tensor, the largest first, at the lowest offset free during its life;
    `fixed` are bytes by name that live throughout.

    Raises NoLayout where they exceed what a block of `arch` may have.
    """
    lives = _lives(program)
    if scratch:
        lives.append(_Life("", _rounded(scratch), 0, len(program.body)))
    lives += [_Life(n, _rounded(size), 0, len(program.body)) for n, size in (fixed or {}).items()]
    placed: list[tuple[_Life, int]] = []
    for life in sorted(lives, key=lambda x: -x.bytes):
        busy = sorted(
            (at, at + other.bytes)
            for other, at in placed
            if other.first <= life.last and life.first <= other.last
        )
        offset = 0
        for start, end in busy:
            if start - offset >= life.bytes:
                break
            offset = max(offset, end)
        placed.append((life, offset))
    size = max((at + life.bytes for life, at in placed), default=0)
    if size > arch.shared_per_block:
        listed = ", ".join(f"{x.name or 'reductions'} {x.bytes}" for x, _ in placed)
        raise NoLayout(
            f"the block needs {size} bytes of shared memory ({listed}), {arch.name} has "
            f"{arch.shared_per_block}",
            program.span,
            "use smaller tiles or fewer stages",
        )
    fences = {
        life.first
        for life, at in placed
        for other, there in placed
        if other.last < life.first and at < there + other.bytes and there < at + life.bytes
    }
    return Arena({life.name: at for life, at in placed}, size, frozenset(fences))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _lives(program: TileProgram) -> list[_Life]:
    touched: dict[str, list[int]] = {}
    for i, stmt in enumerate(program.body):
        for ref in _refs(stmt):
            touched.setdefault(ref.tensor, []).append(i)
    return [
        _Life(t.name, _rounded(tensor_bytes(t)), touched[t.name][0], touched[t.name][-1])
        for t in program.tensors
        if isinstance(t, SharedTensor) and t.name in touched
    ]


def _refs(stmt: Stmt) -> Iterator[TileRef]:
    match stmt:
        case Copy() | Gemm():
            yield from op_refs(stmt)
        case For() | While() | Role() | Produce():
            for inner in stmt.body:
                yield from _refs(inner)
        case If():
            for inner in (*stmt.then, *stmt.otherwise):
                yield from _refs(inner)
        case _:
            pass
