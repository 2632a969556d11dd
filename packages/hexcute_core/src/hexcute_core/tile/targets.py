"""refuse_missing(program, target) = an error where the target lacks an instruction to compute it.

Numbers are converted to 8-bit floats, which are so computed with, from sm_89 on; before that they
can be moved, and cast to other types. Atomic sums of bf16 came with sm_90.
"""

from __future__ import annotations

from hexcute_core.arch.features import capability_of, features
from hexcute_core.arch.updates import missing
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.scalar import Binary, Cast, Compare, Scalar, Unary
from hexcute_core.scalar.visit import walk
from hexcute_core.tile.ir import (
    CastTile,
    Computation,
    Copy,
    Elementwise,
    Fill,
    ForElements,
    Gemm,
    Prefetch,
    Rearrange,
    Relabel,
    TileOp,
    TileProgram,
)
from hexcute_core.tile.updates import UpdateElement
from hexcute_core.tile.visit import operands, results, scalars, statements
from hexcute_core.unions import assert_never

NARROW = ("f8e4m3", "f8e5m2")


def refuse_missing(program: TileProgram, target: str) -> None:
    """Raises FrontendError at the first statement that `target` (sm_80, ...) cannot compute."""
    have = features(capability_of(target))
    tensors = {tensor.name: tensor.dtype for tensor in program.tensors}
    for stmt in statements(program.body):
        if not isinstance(stmt, UpdateElement) and (
            not isinstance(stmt, Copy) or stmt.update is None
        ):
            continue
        dtype = tensors[stmt.dst.tensor]
        if missing(have, dtype):
            raise FrontendError(
                f"{target} has no atomic sum of {dtype}",
                stmt.span,
                fix="compile for sm_90 or later, or add up in f32",
            )
    if "fp8" in have:
        return
    for stmt in statements(program.body):
        nodes = [node for e in scalars(stmt) for node in walk(e)]
        used = [dtype for node in nodes for dtype in _computed(node)]
        if isinstance(stmt, TileOp) and not _moves(stmt):
            sources = () if isinstance(stmt, CastTile) else operands(stmt)
            used += [tensors[ref.tensor] for ref in (*sources, *results(stmt))]
        _check(used, target, stmt.span)


def _moves(op: TileOp) -> bool:
    """Whether `op` leaves numbers as they are; what it evaluates is looked at by itself."""
    match op:
        case (
            Fill() | Copy() | Prefetch() | Rearrange() | Relabel() | Elementwise() | ForElements()
        ):  # fmt: skip
            return True
        case Gemm():
            return False
        case _ if isinstance(op, Computation):
            return False
        case _:
            assert_never(op)


def _computed(node: Scalar) -> list[DType]:
    """The types that `node` converts to, or computes in."""
    match node:
        case Cast():
            return [node.dtype]
        case Unary() | Binary() | Compare():
            return [node.a.dtype]
        case _:
            return []


def _check(types: list[DType], target: str, span: SourceSpan) -> None:
    found = next((t for t in types if t.name in NARROW), None)
    if found is not None:
        raise FrontendError(
            f"{target} has no conversion from wider floats to {found}, nor computes with it",
            span,
            fix="compile for sm_89 or later, or cast to f16 or bf16 first",
        )
