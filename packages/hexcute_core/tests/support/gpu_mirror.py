"""The same run on a GPU: launches a thread program, and compares what it and the simulator leave.

Where HEXCUTE_COMPARISONS names a file, each comparison becomes a row of it.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hopper_runs import guarded

from hexcute_core.backend import emit
from hexcute_core.runtime import (
    KernelImage,
    LoadedKernel,
    ScalarParam,
    Signature,
    TensorParam,
    device_target,
)
from hexcute_core.runtime.storage import TENSOR_STORAGE
from hexcute_core.scalar import Compare, Const, Var, land
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.simulator.memory.strided import line, steps_of
from hexcute_core.simulator.primitives import polls
from hexcute_core.thread import Assign, For, If, Prim, Stmt, ThreadProgram, While
from hexcute_core.thread.prims_atomics import UPDATES
from hexcute_core.thread.prims_sm90 import HOPPER
from hexcute_core.thread.visit import calls, statements
from hexcute_core.toolchain import compile_cubin

# Resolved now: a test may change the working folder.
ROWS = Path(path).resolve() if (path := os.environ.get("HEXCUTE_COMPARISONS")) else None
COLUMNS = ("test", "program", "target", "blocks", "tensor", "bytes", "same", "skipped")
ROUNDS = 1 << 20
"""After so many a loop gives up that waits for another thread: under a second."""
Arrays = dict[str, np.ndarray]


def on_gpu(array: np.ndarray) -> Any:
    """A torch tensor with the array's bits and strides."""
    import torch

    whole = line(array)
    bits = torch.from_numpy(whole.view(f"i{array.dtype.itemsize}").copy())
    there = bits.view(getattr(torch, TENSOR_STORAGE[_element(array)].torch)).cuda()
    return torch.as_strided(there, array.shape, steps_of(array))


def bits_of(tensor: Any) -> np.ndarray:
    """A torch tensor's bytes."""
    import torch

    return tensor.cpu().reshape(-1).view(torch.uint8).numpy()


def needs(program: ThreadProgram) -> str:
    """The least target that has all instructions of the program."""
    names = {s.name for s in statements(program.body) if isinstance(s, Prim)}
    newer = {n for n in names if n in HOPPER or (n in UPDATES and _newer(n))}
    if program.maps or program.cluster_dim != (1, 1, 1) or newer:
        return "sm_90"
    narrow = any(p.dtype.name.startswith("f8") for p in program.params)
    return "sm_89" if narrow else "sm_80"


def _newer(update: str) -> bool:
    """Whether an atomic came with sm_90: of bf16, or of more than a word of several elements."""
    return UPDATES[update].needs is not None


def bounded(body: tuple[Stmt, ...], number: Iterator[int]) -> Iterator[Stmt]:
    """`body` with an end to every loop that waits for other threads, so that one they never end
    leaves other bits and no GPU that hangs."""
    for stmt in body:
        match stmt:
            case While() if polls(stmt):
                rounds = Var(f"rounds{next(number)}")
                yield Assign(rounds, Const(0, rounds.dtype), True)
                yield While(
                    land(stmt.cond, Compare("lt", rounds, Const(ROUNDS, rounds.dtype))),
                    (*bounded(stmt.body, number), Assign(rounds, rounds + 1, False)),
                    stmt.span,
                )
            case For() | While():
                yield replace(stmt, body=tuple(bounded(stmt.body, number)))
            case If():
                then, otherwise = bounded(stmt.then, number), bounded(stmt.otherwise, number)
                yield replace(stmt, then=tuple(then), otherwise=tuple(otherwise))
            case _:
                yield stmt


def image_of(program: ThreadProgram, arrays: Arrays, target: str) -> KernelImage:
    """The program as the runtime launches it on tensors like `arrays`, pointers first; waits that
    never end trap, and loops that never end are left."""
    ordered = tuple(sorted(program.params, key=lambda p: not p.pointer))
    body = tuple(bounded(program.body, itertools.count()))
    program = replace(program, params=ordered, body=body)
    source = emit(program, target)
    cubin = compile_cubin(guarded(source.text), target)
    params = tuple(
        TensorParam(
            p.name, _element(arrays[p.name]), arrays[p.name].shape,
            tuple(steps_of(arrays[p.name])) if p.strides else (),
        )
        if p.pointer
        else ScalarParam(p.name, p.dtype.name)
        for p in program.params
    )
    return KernelImage(
        source.entry, cubin.cubin, cubin.arch, program.shared_bytes, (program.block_dim, 1, 1),
        Signature(program.name, params), program.maps, program.cluster_dim,
        calls(program.body, "griddepcontrol.wait"),
    )  # fmt: skip


def launch(
    program: ThreadProgram, arrays: Arrays, scalars: dict[str, Any], grid: tuple[int, int, int]
) -> Arrays:
    """Runs the program on the GPU; the bytes of each tensor it leaves."""
    import torch

    # Bits may come as unsigned integers; tensor maps tell types apart.
    arrays = {
        p.name: arrays[p.name].view(storage(p.dtype)) if p.dtype.bits >= 8 else arrays[p.name]
        for p in program.params
        if p.pointer
    }
    kernel = LoadedKernel(image_of(program, arrays, device_target()))
    tensors = {name: on_gpu(array) for name, array in arrays.items()}
    numbers = [scalars[p.name] for p in program.params if not p.pointer]
    kernel.launch(grid, *tensors.values(), *numbers)
    torch.cuda.synchronize()
    return {name: bits_of(tensor) for name, tensor in tensors.items()}


def _element(array: np.ndarray) -> str:
    """The type whose storage the array has: packed elements travel as bytes."""
    return next(n for n, s in TENSOR_STORAGE.items() if str(array.dtype) in s.numpy)


def record(*rows: tuple[Any, ...]) -> None:
    """Writes rows down, without their first column: the test that runs."""
    if ROWS is None:
        return
    path, _, name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].partition("::")
    lines = [(f"{Path(path).name}::{name}", *row) for row in rows]
    new = not ROWS.exists()
    with ROWS.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines] if new else lines)


def compare(program: str, target: str, blocks: int, left: Arrays, arrays: Arrays) -> None:
    """Asserts that the bytes which a GPU left are the arrays'; writes down each comparison."""
    rows = []
    for name, array in arrays.items():
        same = same_bits(left[name], array)
        rows.append((program, target, blocks, name, array.nbytes, same, ""))
    record(*rows)
    wrong = [row for row in rows if not row[5]]
    assert not wrong, wrong


def same_bits(left: np.ndarray, array: np.ndarray) -> bool:
    """Whether the bytes `left` are the array's. Where both have no number they may be any: IEEE 754
    leaves open which of its NaNs an operation gives."""
    array = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.kind in "iub":
        return np.array_equal(left, array.view(np.uint8))
    found = left.view(array.dtype)
    numbers = ~(np.isnan(found) & np.isnan(array))
    return np.array_equal(found[numbers].view(np.uint8), array[numbers].view(np.uint8))


def replay(
    name: str, program: ThreadProgram, before: Arrays, scalars: dict[str, Any], after: Arrays,
    report: Any,
) -> None:  # fmt: skip
    """Launches on `before` what the simulator turned into `after`, and compares."""
    grid = tuple(max(b[axis] for b in report.blocks) + 1 for axis in range(3))
    typed = {
        p.name: after[p.name].view(storage(p.dtype)) if p.dtype.bits >= 8 else after[p.name]
        for p in program.params
        if p.pointer
    }
    compare(name, needs(program), len(report.blocks), launch(program, before, scalars, grid), typed)
