"""What wgmma and TMA demand of a shared layout, as known strides and a swizzle span.

A demand is a set of digits `(tile dimension, step, size, stride)`: moving a coordinate by `step`,
`size` times, moves the offset by `stride` elements each. It joins the runs of ordinary copies in
unification; the span fixes the swizzle, which hardware applies itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from cute_layout import Swizzle
from hexcute_core.arch import Arch
from hexcute_core.scalar import Scalar, is_const, show
from hexcute_core.synthesis.memory import outer_strides, start_in_row
from hexcute_core.synthesis.solution import BulkPlan, CopyPlan, Operand, Rep
from hexcute_core.tile import GlobalView, TileProgram, TileRef
from hexcute_core.tile.facts import Facts
from hexcute_core.unions import assert_never

SPANS = (128, 64, 32, 16)
"""Contiguous bytes of a row that hardware swizzles, widest first; 16 is no swizzle."""

CORE_ROWS = 8
"""Rows of a core matrix; the unit in which descriptors step."""


class Known(NamedTuple):
    """One digit of a demand, over the dimensions of the tile."""

    dim: int
    step: int
    size: int
    stride: int


Plan = CopyPlan | BulkPlan | Operand
"""How an operation uses a shared tensor: a thread's accesses, TMA boxes, or a wgmma operand."""


def demand(plan: Operand | BulkPlan, bits: int) -> tuple[Known, ...]:
    """The digits that a plan demands of a layout of elements of `bits`."""
    match plan:
        case Operand():
            # Rows of `span` bytes, eight of them one after another.
            run = plan.span * 8 // bits
            contiguous, other = (1, 0) if plan.major == "k" else (0, 1)
            return (Known(contiguous, 1, run, 1), Known(other, 1, CORE_ROWS, run))
        case BulkPlan():
            # A box lies compactly, innermost parameter dimension first.
            stride, out = 1, []
            for d in sorted(range(len(plan.dims)), key=lambda d: -plan.dims[d]):
                extent = plan.box[plan.dims[d]]
                out.append(Known(d, 1, extent, stride))
                stride *= extent
            return tuple(out)
        case _:
            assert_never(plan)


def descriptor_steps(
    operand: Operand, offset: Callable[[int, int], int], size: int
) -> tuple[int, int] | str:
    """(leading, stride) bytes of the descriptor where `offset(row, k)` is the element offset
    of the layout before its swizzle, or why one descriptor cannot say it."""
    run = operand.span // size

    def step(by: int, dim: int, extent: int) -> int | None:
        at = [offset(i, 0) if dim == 0 else offset(0, i) for i in range(0, extent, by)]
        if len(at) < 2:
            return 16
        found = at[1] - at[0]
        even = all(y - x == found for x, y in pairwise(at))
        return found * size if even else None

    if operand.major == "k":
        # Along K the hardware steps within a row; without swizzle from one core matrix on.
        stride = step(CORE_ROWS, 0, operand.rows)
        leading = step(run, 1, operand.depth) if operand.span == 16 else 16
    else:
        # Without swizzle the descriptor's two strides change places.
        along_k, along_rows = step(CORE_ROWS, 1, operand.depth), step(run, 0, operand.rows)
        swap = operand.span == 16
        leading, stride = (along_k, along_rows) if swap else (along_rows, along_k)
    if stride is None or leading is None:
        return f"{operand.rows} x {operand.depth} have no single stride between core matrices"
    return leading, stride


def swizzle_of(span: int, bits: int) -> Any:
    """The swizzle of a span of bytes, in elements; None for 16."""
    if span <= 16:
        return None
    return Swizzle((span // 16).bit_length() - 1, (128 // bits).bit_length() - 1, 3)


LOADING = ("tma.load", "tma.prefetch")


def _begins(view: GlobalView, ref: TileRef) -> list[Scalar]:
    """What the first coordinate of a tile is added up from."""
    return [*view.origin, *ref.starts]


def bulk_plan(
    program: TileProgram, facts: Facts, arch: Arch, ref: TileRef, span: int, name: str
) -> BulkPlan | str:
    """Primitive `name` on the global tile `ref` with boxes of `span` bytes, or why it cannot be."""
    bulk = arch.bulk
    view = program.tensor(ref.tensor)
    assert isinstance(view, GlobalView)
    param = program.param(view.param)
    last, bits = param.unit, view.dtype.bits
    if not name.startswith(LOADING) and any(facts.may_be_negative(e) for e in _begins(view, ref)):
        # CUDA C++ Programming Guide, "Tensor memory access": a box may be read from a corner with
        # negative coordinates, but not written there.
        return (
            f"the tile may begin before `{param.name}`, where TMA only reads; "
            "hx.maximum(start, 0) says that it does not"
        )
    if bulk is None:
        return f"{arch.name} has no TMA"
    if view.named is not None:
        return "the rows lie where another tile says, TMA moves those that follow one another"
    if len(param.shape) > bulk.rank:
        return f"{view.dtype} tensors of rank {len(param.shape)} have no tensor map"
    if param.name not in program.promise.aligned:
        return f"`{param.name}` is not known to be aligned to {bulk.alignment} bytes"
    if last is None:
        return f"no dimension of `{param.name}` is declared with a stride of 1"
    rows = last and not param.strides
    if rows and facts.divisor(param.shape[last]) * bits % (bulk.alignment * 8):
        return f"rows of `{param.name}` are not known to be multiples of {bulk.alignment} bytes"
    for d, stride in outer_strides(param):
        if facts.divisor(stride) * bits % (bulk.alignment * 8):
            return (
                f"the stride {show(stride)} of dimension {d} of `{param.name}` is not known to be "
                f"a multiple of {bulk.alignment} bytes"
            )
    dims = []
    for m in ref.kept:
        subs = view.modes[m]
        if len(subs) != 1 or not is_const(subs[0].step, 1) or subs[0].dim in dims:
            return f"mode {m} of the view does not step along one dimension of `{param.name}`"
        dims.append(subs[0].dim)
    if last not in dims:
        return "the tile is not contiguous in global memory"
    inner = dims.index(last)
    leading = frozenset({(ref.kept[inner], 0)})
    begin = start_in_row(facts, view, ref, last, leading) * bits
    if begin % (bulk.alignment * 8):
        # Not in the manuals: an H200 takes any other box for an illegal instruction, also a load.
        return (
            f"the tile may begin at any multiple of {_bytes(begin)} in a row of `{param.name}`, "
            f"and TMA takes multiples of {bulk.alignment}"
        )
    # What is narrower than a byte is moved as the bytes it lies in.
    run = span * 8 // bits if span > 16 else min(ref.shape[inner], bulk.box * max(1, 8 // bits))
    if ref.shape[inner] % run or run * bits % 128:
        return f"rows of {ref.shape[inner]} elements are not whole spans of {span} bytes"
    box = [1] * len(param.shape)
    reps = []
    for d, extent in enumerate(ref.shape):
        whole = run if d == inner else min(extent, bulk.box)
        # Boxes after the first start where the swizzle starts anew, every eight rows.
        while extent % whole or (d != inner and whole < extent and whole % CORE_ROWS):
            whole -= 1
            if not whole:
                return f"{extent} rows are not boxes of at most {bulk.box}, multiples of eight"
        box[dims[d]] = whole
        if extent > whole:
            reps.append(Rep(extent // whole, whole, d, 0))
    if reps and prod(box) * bits % (CORE_ROWS * span * 8):
        return f"boxes of {' x '.join(map(str, box))} elements do not fill whole swizzles"
    total = prod(ref.shape) * bits // 8
    axes = [param.inward.index(d) for d in dims]
    box = [box[d] for d in param.inward]
    return BulkPlan(name, param.name, tuple(box), tuple(axes), tuple(reps), span, total)


def _bytes(bits: int) -> str:
    return f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits} bits"
