"""explain : Solution -> text: layouts, instructions with bytes, conflicts, cost, rejections."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

from hexcute_core.arch import Arch
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.solution import CopyPlan, GemmPlan, Solution
from hexcute_core.tile import Copy, Gemm, GlobalView, RegisterTensor, SharedTensor
from hexcute_core.tile.ir import TileOp

# A summary lists this many rejected candidates; `explain(rejected=None)` lists all.
SHOWN = 12


def explain_text(solution: Solution, arch: Arch, rejected: int | None = SHOWN) -> str:
    """A page of text; `rejected` limits the list of candidates that lost (None: all)."""
    program = solution.program
    lines = [f"kernel {program.name} for {arch.name}, {program.block_dim} threads a block", ""]
    lines += ["tensors"]
    lines += [f"  {line}" for line in _tensors(solution)]
    lines += ["", "operations (clocks of one block, loops included)"]
    lines += [f"  {line}" for line in _operations(solution)]
    how = "exact" if solution.exact else "the search budget was reached"
    lines += ["", f"total {solution.cost:.0f} clocks; search {how}"]
    lost = solution.rejected if rejected is None else solution.rejected[:rejected]
    if lost:
        lines += ["", f"rejected ({len(solution.rejected)})"]
        lines += [f"  {r.subject}: {r.candidate}: {r.reason}" for r in lost]
        if len(lost) < len(solution.rejected):
            lines.append(f"  and {len(solution.rejected) - len(lost)} more")
    return "\n".join(lines) + "\n"


def _tensors(solution: Solution) -> Iterator[str]:
    for t in solution.program.tensors:
        match t:
            case GlobalView():
                dims = ", ".join(_mode(m) for m in t.modes)
                yield f"{t.name:<14} global   {t.dtype}  ({dims}) of {t.param}"
            case SharedTensor():
                if t.name in solution.shared:
                    shape = "x".join(map(str, t.shape))
                    yield f"{t.name:<14} shared   {t.dtype}  {shape}  {solution.shared[t.name]}"
            case RegisterTensor():
                if t.name in solution.fragments:
                    f = solution.fragments[t.name]
                    shape = "x".join(map(str, t.shape))
                    yield f"{t.name:<14} register {t.dtype}  {shape}  {f}  ({f.values} a thread)"


def _mode(mode: tuple[object, ...]) -> str:
    parts = [f"{s.extent}:{s.step}@{s.dim}" for s in mode]  # type: ignore[attr-defined]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _operations(solution: Solution) -> Iterator[str]:
    for item in build_graph(solution.program).ops:
        op = item.op
        cost = solution.op_cost.get(op.id, 0.0)
        text = _operation(solution, op)
        if text:
            where = f"{Path(op.span.file).name}:{op.span.line}"
            yield f"{where:<18} {text:<86} {cost:>9.0f}"


def _operation(solution: Solution, op: TileOp) -> str | None:
    if isinstance(op, Gemm) and op.id in solution.wgmmas:
        return _wgmma(solution, op)
    if isinstance(op, Copy) and op.id in solution.bulk:
        plan = solution.bulk[op.id]
        box = "x".join(map(str, plan.box))
        text = f"copy {op.src.tensor} -> {op.dst.tensor}: {plan.name} x{plan.calls}, box {box}"
        return f"{text}, {plan.bytes} bytes, swizzle {plan.span if plan.span > 16 else 0}"
    if isinstance(op, Gemm):
        return _gemm(solution.gemms[op.id], op)
    if isinstance(op, Copy) and op.id in solution.copies:
        return _copy(solution, solution.copies[op.id], op)
    return None


def bytes_per_instruction(solution: Solution, op: Copy) -> int:
    """Bytes one thread moves with one instruction of copy `op`."""
    return solution.copies[op.id].row.bytes


def _copy(solution: Solution, plan: CopyPlan, op: Copy) -> str:
    text = f"copy {op.src.tensor} -> {op.dst.tensor}: {plan.name} x{plan.calls}, "
    text += f"{plan.row.bytes} bytes an instruction"
    for ref in (op.src, op.dst):
        layout = solution.shared.get(ref.tensor)
        if layout is not None:
            waves, least = layout.wavefronts[op.id]
            text += f", {waves - least} bank conflicts"
    return text


def _gemm(plan: GemmPlan, op: Gemm) -> str:
    calls = prod(level.size for level in (*plan.m, *plan.n, *plan.k))
    return f"gemm {op.c.tensor}: {plan.row.name} x{calls}, warps {plan.groups[0]}x{plan.groups[1]}"


def _wgmma(solution: Solution, op: Gemm) -> str:
    plan = solution.wgmmas[op.id]
    sides = [solution.operands.get((op.id, side)) for side in "ab"]
    majors = "".join("r" if s is None else s.major for s in sides)
    groups = f"warp groups {plan.groups[0]}x{plan.groups[1]}"
    return f"gemm {op.c.tensor}: {plan.row.name(majors)} x{prod(plan.repeats)}, {groups}"
