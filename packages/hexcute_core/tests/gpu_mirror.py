"""The same run on a GPU: launches a thread program, and compares what it and the simulator leave.

Where HEXCUTE_COMPARISONS names a file, every program of whole numbers that a test runs lane by lane
is launched as well, and each comparison becomes a row of that file.
"""

from __future__ import annotations

import csv
import os
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
from hexcute_core.thread import ThreadProgram
from hexcute_core.toolchain import compile_cubin

COLUMNS = ("test", "program", "target", "blocks", "tensor", "bytes", "same")
Arrays = dict[str, np.ndarray]


def on_gpu(array: np.ndarray) -> Any:
    """A torch tensor with the array's bits."""
    import torch

    bits = torch.from_numpy(array.view(f"i{array.dtype.itemsize}").copy())
    return bits.view(getattr(torch, TENSOR_STORAGE[_cell(array)].torch)).cuda()


def bits_of(tensor: Any) -> np.ndarray:
    """A tensor's bytes."""
    import torch

    return tensor.cpu().contiguous().view(torch.uint8).numpy().reshape(-1)


def launch(
    program: ThreadProgram, arrays: Arrays, scalars: dict[str, int], grid: tuple[int, int, int]
) -> dict[str, Any]:
    """Runs the program on the GPU, waits that never end trapping; the tensors it leaves."""
    import torch

    target = device_target()
    source = emit(program, target)
    cubin = compile_cubin(guarded(source.text), target)
    values = {p.name: on_gpu(arrays[p.name]) if p.pointer else scalars[p.name]
              for p in program.params}  # fmt: skip
    params = tuple(
        TensorParam(p.name, _cell(arrays[p.name]), arrays[p.name].shape)
        if p.pointer
        else ScalarParam(p.name, p.dtype.name)
        for p in program.params
    )
    image = KernelImage(
        source.entry, cubin.cubin, cubin.arch, program.shared_bytes, (program.block_dim, 1, 1),
        Signature(program.name, params), program.maps, program.cluster_dim,
    )  # fmt: skip
    LoadedKernel(image).launch(grid, *values.values())
    torch.cuda.synchronize()
    return {name: values[name] for name in arrays}


def _cell(array: np.ndarray) -> str:
    """The type whose storage the array has: packed elements travel as bytes."""
    return next(n for n, s in TENSOR_STORAGE.items() if str(array.dtype) in s.numpy)


def compare(program: str, target: str, blocks: int, left: dict[str, Any], arrays: Arrays) -> None:
    """Asserts that tensors on the GPU hold the arrays' bits; writes down each comparison."""
    rows = []
    for name, array in arrays.items():
        ours = array.reshape(-1).view(np.uint8)
        same = np.array_equal(bits_of(left[name]), ours)
        test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0].split("/")[-1]
        rows.append((test, program, target, blocks, name, ours.size, same))
    if path := os.environ.get("HEXCUTE_COMPARISONS"):
        new = not Path(path).exists()
        with Path(path).open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows] if new else rows)
    assert all(row[-1] for row in rows), rows


def replay(
    name: str, target: str, program: ThreadProgram, before: Arrays, scalars: dict[str, int],
    after: Arrays, report: Any,
) -> None:  # fmt: skip
    """Launches on `before` what the simulator turned into `after`, and compares."""
    grid = tuple(max(b[axis] for b in report.blocks) + 1 for axis in range(3))
    needed = {p.name: scalars[p.name] for p in program.params if not p.pointer}
    left = launch(program, before, needed, grid)
    compare(name, target, len(report.blocks), left, after)


def mirror(
    program: ThreadProgram, target: str, before: Arrays, scalars: dict[str, int], after: Arrays,
    report: Any,
) -> None:  # fmt: skip
    """`replay`, where comparisons are asked for."""
    if "HEXCUTE_COMPARISONS" in os.environ:
        replay(program.name, target, program, before, scalars, after, report)
