"""rearrange(a, l): through shared memory, as two copies around a barrier.

`expand` rewrites every rearrange of a program so that the rest of synthesis sees copies alone;
layouts the author wrote are kept as `forced_layouts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from cute_layout import Layout, LayoutError
from hexcute_core.arch import Fragment
from hexcute_core.dtypes import i32
from hexcute_core.errors import LayoutConflict
from hexcute_core.scalar import Const
from hexcute_core.synthesis.linear import from_linear
from hexcute_core.tile import (
    Copy,
    For,
    If,
    Rearrange,
    SharedTensor,
    Stmt,
    Sync,
    TileProgram,
    TileRef,
    While,
)


@dataclass
class _Expansion:
    tensors: list[SharedTensor] = field(default_factory=list)
    next_id: int = 0

    def body(self, body: Iterable[Stmt], program: TileProgram) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Rearrange():
                    out += self.copies(stmt, program)
                case For() | While():
                    out.append(replace(stmt, body=self.body(stmt.body, program)))
                case If():
                    then = self.body(stmt.then, program)
                    out.append(
                        replace(stmt, then=then, otherwise=self.body(stmt.otherwise, program))
                    )
                case _:
                    out.append(stmt)
        return tuple(out)

    def copies(self, op: Rearrange, program: TileProgram) -> list[Stmt]:
        """src -> buffer, barrier, buffer -> dst; the first barrier protects an earlier reader."""
        dtype = program.tensor(op.src.tensor).dtype
        shape = op.src.shape
        name = f"rearranged_{op.id}"
        self.tensors.append(SharedTensor(name, dtype, shape, op.span))
        zero = Const(0, i32)
        buffer = TileRef(name, (zero,) * len(shape), shape, tuple(range(len(shape))))
        self.next_id += 1
        return [
            Sync(op.span),
            Copy(op.id, op.src, buffer, op.span),
            Sync(op.span),
            Copy(self.next_id, buffer, op.dst, op.span),
        ]


def expand(program: TileProgram) -> TileProgram:
    """`program` with every rearrange written as copies through shared memory."""
    expansion = _Expansion(next_id=_last_id(program.body))
    body = expansion.body(program.body, program)
    return replace(program, body=body, tensors=(*program.tensors, *expansion.tensors))


def _last_id(body: Iterable[Stmt]) -> int:
    last = 0
    for stmt in body:
        last = max(last, getattr(stmt, "id", 0))
        for nested in ("body", "then", "otherwise"):
            last = max(last, _last_id(getattr(stmt, nested, ())))
    return last


def _rearranges(body: Iterable[Stmt]) -> Iterable[Rearrange]:
    for stmt in body:
        if isinstance(stmt, Rearrange):
            yield stmt
        for nested in ("body", "then", "otherwise"):
            yield from _rearranges(getattr(stmt, nested, ()))


def forced_layouts(program: TileProgram) -> Mapping[str, Fragment]:
    """Fragments that the author gave to rearranged tensors."""
    return {
        op.dst.tensor: _parse(op, program.block_dim)
        for op in _rearranges(program.body)
        if op.layout is not None
    }


def _parse(op: Rearrange, threads: int) -> Fragment:
    shape = op.dst.shape
    try:
        layout = Layout.parse(str(op.layout))
        thread, value = (from_linear(layout[i], shape) for i in (0, 1))
    except (LayoutError, IndexError, ValueError) as error:
        raise LayoutConflict(
            f"rearrange to {op.layout!r}: not a thread-value layout ({error})",
            op.span,
            "write ((threads...),(values...)):((strides...),(strides...)) over the tile's "
            "colexicographic index",
        ) from error
    if thread is not None and value is not None:
        found = Fragment(shape, tuple(m for p in thread for m in p),
                         tuple(m for p in value for m in p))  # fmt: skip
        if found.threads == threads and found.covers():
            return found
    raise LayoutConflict(
        f"rearrange to {op.layout}: not a layout of {prod(shape)} elements of a "
        f"{'x'.join(map(str, shape))} tile over {threads} threads",
        op.span,
        "every element must be held, by threads of the block",
    )
