"""Reads a lowered Hopper GEMM as the PTX ISA does: where descriptors and boxes say elements lie.

Nothing here asks the compiler's plans: addresses come from the operands of the thread program, and
are compared with the synthesized layouts as functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Call, Const, free_vars, substitute
from hexcute_core.thread import Assign, For, If, Prim
from hexcute_core.thread.visit import statements as walk

WGMMA = re.compile(r"wgmma\.64x(\d+)x(\d+)\.(\w+)\.(\w+)\.(\w+)\.([kmr])([km])")
SWIZZLED_BITS = {0: 0, 32: 1, 64: 2, 128: 3}


def prims(thread, name):
    """The primitives whose name begins with `name`, in order."""
    return [s for s in walk(thread.body) if isinstance(s, Prim) and s.name.startswith(name)]


def value(e, known):
    """The number a scalar is, given numbers for its variables."""
    folded = substitute(e, {name: Const(v, dt.i32) for name, v in known.items()})
    assert isinstance(folded, Const), f"{e} still depends on {sorted(free_vars(folded))}"
    return int(folded.value)


def locals_of(thread, **known):
    """The variables that follow from `known` alone: what a thread computes before its loops, or is
    told of it by the first lane of its warp."""
    values = dict(known)
    for stmt in walk(thread.body):
        if isinstance(stmt, Assign) and stmt.declares and stmt.var.name not in values:
            said, given = stmt.value, values
            if isinstance(said, Call) and said.name == "shfl.idx" and "threadIdx.x" in values:
                said, lane = said.args
                assert lane == Const(0, dt.i32)
                given = {**values, "threadIdx.x": values["threadIdx.x"] // 32 * 32}
            folded = substitute(said, {n: Const(v, dt.i32) for n, v in given.items()})
            if isinstance(folded, Const):
                values[stmt.var.name] = int(folded.value)
    return values


def swizzled(address, span):
    """The byte that the hardware touches for `address` under a swizzle of `span` bytes: 16-byte
    chunks of a row of `span` bytes are exchanged by the row's number in its eight rows of 128."""
    mask = (1 << SWIZZLED_BITS[span]) - 1
    return address ^ (((address >> 7) & mask) << 4)


def canonical(row, k, major, size, leading, stride, span):
    """Byte offset of element (row, k) of an operand, before the swizzle: the PTX ISA's canonical
    layouts of wgmma, in units of its core matrices of 8 x 16 bytes."""
    if major == "k":
        if span == 0:
            chunk = k * size // 16
            return row % 8 * 16 + row // 8 * stride + chunk * leading + k * size % 16
        return row % 8 * span + row // 8 * stride + k * size
    run = (span or 16) // size
    if span == 0:
        return row % run * size + row // run * stride + k % 8 * 16 + k // 8 * leading
    return row % run * size + row // run * leading + k % 8 * span + k // 8 * stride


@dataclass(frozen=True)
class Lowered:
    """A kernel lowered for sm_90: `element(tensor, coordinates)` is the byte offset, within the
    tensor's buffer, where the synthesized layout puts an element."""

    solution: object
    thread: object

    def element(self, tensor, *at):
        layout = self.solution.shared[tensor]
        size = self.solution.program.tensor(tensor).dtype.bits // 8
        offset = layout.layout(*at)
        return (offset if layout.swizzle is None else layout.swizzle(offset)) * size

    def dtype(self, tensor):
        return self.solution.program.tensor(tensor).dtype


def lowered(kernel, **constants):
    compiled = kernel.compile("sm_90", verify=True, **constants)
    return Lowered(compiled.solution, compiled.thread)


def branch_of(thread, first):
    """The statements that thread `first` and its role run: the branch with its registers."""
    for stmt in walk(thread.body):
        if isinstance(stmt, If) and "setmaxnreg" in str(stmt.then[:1]):
            inside = value(stmt.cond, {"threadIdx.x": first})
            if inside:
                return stmt.then
            if not any(isinstance(s, If) and "setmaxnreg" in str(s.then[:1])
                       for s in stmt.otherwise):  # fmt: skip
                return stmt.otherwise
    raise AssertionError("the kernel has no roles")


def loops_at_zero(thread):
    """Zero for the variable of every loop."""
    return {s.var.name: 0 for s in walk(thread.body) if isinstance(s, For)}
