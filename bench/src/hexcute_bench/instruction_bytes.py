"""Bytes per instruction of every copy of our kernels, as synthesized; no GPU is needed.

Directions are the paper's: g2s global to shared memory, g2r global to registers, and so on.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hexcute_bench.interface import Settings
from hexcute_bench.rows import ABSENT, OK


def _gemm(target: str) -> Any:
    table = importlib.import_module("hexcute_kernels.gemm.candidates").MMA
    kernels = importlib.import_module("hexcute_kernels.gemm.pipelined")
    core = importlib.import_module("hexcute_core")
    kernel = kernels.pipelined_gemm(core.f16)
    return kernel.compile(target, constants=asdict(list(table)[3]))


def _simple(target: str) -> Any:
    return importlib.import_module("hexcute_kernels.gemm.simple").simple_gemm.compile(target)


def _hopper(target: str) -> Any:
    kernels = importlib.import_module("hexcute_kernels.gemm.warp_specialized")
    core = importlib.import_module("hexcute_core")
    return kernels.warp_specialized_gemm(core.f16).compile(target)


# kernel -> (its module, how to compile it, targets)
KERNELS: dict[str, tuple[str, Callable[[str], Any], tuple[str, ...]]] = {
    "simple_gemm": ("hexcute_kernels.gemm.simple", _simple, ("sm_80",)),
    "gemm": ("hexcute_kernels.gemm.pipelined", _gemm, ("sm_80",)),
    "hopper_gemm": ("hexcute_kernels.gemm.warp_specialized", _hopper, ("sm_90",)),
}


def keys(quick: bool) -> Sequence[str]:
    return [f"{name} {target}" for name, (_, _, targets) in KERNELS.items() for target in targets]


def measure(key: str, settings: Settings) -> Sequence[Mapping[str, Any]]:
    """A row per copy of one kernel."""
    name, target = key.split()
    module, compiled, _ = KERNELS[name]
    row = {"key": key, "kernel": name, "target": target}
    if importlib.util.find_spec(module) is None:
        return [{**row, "status": ABSENT, "note": f"{module} is not there yet"}]
    return [{**row, **found} for found in copies(compiled(target).solution)]


def copies(solution: Any) -> list[dict[str, Any]]:
    """Tensor, direction, instruction and bytes of every copy of a solution, each kind once."""
    from hexcute_core.synthesis.graph import build_graph
    from hexcute_core.tile import Copy, GlobalView, RegisterTensor, SharedTensor

    tensors = {tensor.name: tensor for tensor in solution.program.tensors}

    def letter(name: str) -> str:
        match tensors[name]:
            case GlobalView():
                return "g"
            case SharedTensor():
                return "s"
            case RegisterTensor():
                return "r"
            case other:
                return type(other).__name__

    found: dict[tuple[str, str], dict[str, Any]] = {}
    for item in build_graph(solution.program).ops:
        op = item.op
        if not isinstance(op, Copy):
            continue
        # By TMA one thread moves a whole box.
        bulk = solution.bulk.get(op.id)
        plan = bulk or solution.copies.get(op.id)
        if plan is None:
            continue
        size = bulk.bytes // bulk.calls if bulk else plan.row.bytes
        source, target = op.src.tensor, op.dst.tensor
        direction = f"{letter(source)}2{letter(target)}"
        known = found.setdefault(
            (f"{source} to {target}", direction),
            {"tensor": f"{source} to {target}", "direction": direction, "status": OK,
             "instruction": plan.name, "bytes": size, "calls": plan.calls},
        )  # fmt: skip
        # The narrowest instruction is the one that limits the copy.
        known["bytes"] = min(known["bytes"], size)
    return list(found.values())
