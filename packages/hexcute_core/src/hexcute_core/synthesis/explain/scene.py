"""scene : Solution -> the layouts and accesses that a page draws, as plain values.

    element of (thread t, value v)     sum of digit * step, digits of t and of v
    offset of an element               S(sum of digit * stride), digits of each coordinate

The page evaluates the functions itself, so that it needs no table of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from cute_layout import Layout
from hexcute_core.arch import Fragment, Mode
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.shared import first_lanes
from hexcute_core.synthesis.solution import CopyPlan, SharedLayout, Solution
from hexcute_core.tile import Copy, SharedTensor

Value = dict[str, Any]


def scene(solution: Solution) -> Value:
    """`tensors` in shared memory and in registers, the first warp's `accesses` to the former."""
    return {
        "tensors": [*_shared(solution), *_registers(solution)],
        "accesses": list(_accesses(solution)),
    }


def _shared(solution: Solution) -> Iterator[Value]:
    for name, layout in solution.shared.items():
        tensor = solution.program.tensor(name)
        yield {
            "name": name, "space": "shared", "dtype": str(tensor.dtype),
            "bits": tensor.dtype.bits, "shape": list(layout.shape), "text": str(layout),
            "digits": _offsets(layout), "swizzle": _swizzle(layout),
        }  # fmt: skip


def _registers(solution: Solution) -> Iterator[Value]:
    alike: dict[Fragment, list[str]] = {}
    for name, fragment in solution.fragments.items():
        alike.setdefault(fragment, []).append(name)
    for fragment, names in alike.items():
        tensor = solution.program.tensor(names[0])
        yield {
            "name": ", ".join(names), "space": "registers", "dtype": str(tensor.dtype),
            "bits": tensor.dtype.bits, "shape": list(fragment.shape), "text": str(fragment),
            "thread": _modes(fragment.thread), "value": _modes(fragment.value),
        }  # fmt: skip


def _modes(modes: tuple[Mode, ...]) -> list[list[int]]:
    return [[m.size, m.step, m.dim] for m in modes]


def _offsets(shared: SharedLayout) -> list[list[list[int]]]:
    """Of each mode its digits, the fastest first: [extent, stride]."""
    layout: Layout = shared.layout
    modes = [layout[i] for i in range(len(shared.shape))] if len(shared.shape) > 1 else [layout]
    return [
        [[int(n), int(d)] for n, d in zip(mode.flat_shape, mode.flat_stride)] for mode in modes
    ]


def _swizzle(shared: SharedLayout) -> list[int] | None:
    s = shared.swizzle
    return None if s is None else [s.bits, s.base, s.shift]


def _accesses(solution: Solution) -> Iterator[Value]:
    """Where the lanes of the first warp begin, in elements, by one instruction of each copy to or
    from shared memory; copies that are alike are one."""
    seen: dict[tuple[Any, ...], Value] = {}
    for item in build_graph(solution.program).ops:
        op = item.op
        plan = solution.copies.get(op.id)
        if not isinstance(op, Copy) or not isinstance(plan, CopyPlan):
            continue
        for ref, does in ((op.src, "reads"), (op.dst, "writes")):
            tensor = solution.program.tensor(ref.tensor)
            if not isinstance(tensor, SharedTensor) or ref.tensor not in solution.shared:
                continue
            layout = solution.shared[ref.tensor]
            starts = first_lanes(ref.kept, plan.thread, layout.layout)
            width = prod(m.size for m in plan.run)
            where = "" if op.span is None else f"{Path(op.span.file).name}:{op.span.line}"
            key = (ref.tensor, does, starts, width, where)
            if key not in seen:
                seen[key] = {
                    "tensor": ref.tensor, "does": does, "instruction": plan.name, "where": where,
                    "starts": list(starts), "width": width, "bits": tensor.dtype.bits,
                    "swizzle": _swizzle(layout),
                }  # fmt: skip
    yield from seen.values()
