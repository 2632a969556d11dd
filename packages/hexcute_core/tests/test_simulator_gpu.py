"""The same bits from a GPU and from the simulator, on every program and kernel of the lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_kernels import KERNELS
from gpu_programs import CASES

from hexcute_core.backend import emit
from hexcute_core.driver.simulation import compile_for
from hexcute_core.runtime import (
    KernelImage,
    LoadedKernel,
    ScalarParam,
    Signature,
    TensorParam,
    bind,
    device_target,
)
from hexcute_core.runtime.storage import TENSOR_STORAGE
from hexcute_core.simulator import simulate
from hexcute_core.toolchain import compile_cubin

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

SCHEDULES = 2


def on_gpu(array: np.ndarray, dtype_name: str) -> Any:
    """A torch tensor with the array's bits."""
    bits = torch.from_numpy(array.view(f"i{array.dtype.itemsize}").copy())
    return bits.view(getattr(torch, TENSOR_STORAGE[dtype_name].torch)).cuda()


def bits_of(tensor: Any) -> np.ndarray:
    """A tensor's bytes."""
    return tensor.cpu().contiguous().view(torch.uint8).numpy().reshape(-1)


def capability() -> tuple[int, int]:
    return torch.cuda.get_device_capability()


def launch_program(program: Any, arrays: dict[str, np.ndarray], scalars: dict[str, int]) -> dict:
    """Runs a thread program on the GPU; the tensors it leaves."""
    target = device_target()
    source = emit(program, target)
    cubin = compile_cubin(source.text, target)
    signature = Signature(
        program.name,
        tuple(
            TensorParam(p.name, p.dtype.name, arrays[p.name].shape)
            if p.pointer
            else ScalarParam(p.name, p.dtype.name)
            for p in program.params
        ),
    )
    block = (program.block_dim, 1, 1)
    image = KernelImage(
        source.entry, cubin.cubin, cubin.arch, program.shared_bytes, block, signature
    )
    values = {
        p.name: on_gpu(arrays[p.name], p.dtype.name) if p.pointer else scalars[p.name]
        for p in program.params
    }
    report = simulate(program, {n: a.copy() for n, a in arrays.items()}, scalars)
    grid = tuple(max(b[axis] for b in report.blocks) + 1 for axis in range(3))
    LoadedKernel(image).launch(grid, *values.values())
    torch.cuda.synchronize()
    return {name: values[name] for name in arrays}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_program_leaves_the_same_bits(case: Any) -> None:
    if capability() < case.needs:
        pytest.skip(f"needs compute capability {case.needs}")
    program, arrays = case.program(), case.arrays()
    left = launch_program(program, arrays, case.scalars)
    simulate(program, arrays, case.scalars, schedules=SCHEDULES)
    for name, array in arrays.items():
        np.testing.assert_array_equal(
            bits_of(left[name]), array.reshape(-1).view(np.uint8), err_msg=name
        )


@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_a_kernel_leaves_the_same_bits(case: Any) -> None:
    """The instructions of the case's target, in this GPU's machine code."""
    if case.target == "sm_90" and device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")
    kernel, args = case.kernel(), case.arguments()
    simulated = compile_for(kernel, args, case.target, case.constants)
    tensors = [
        on_gpu(array, param.dtype_name)
        for array, param in zip(args, kernel.signature.tensors, strict=True)
    ]
    bound = bind(kernel.signature, tensors, kernel.divisors)
    whole = {c.name: case.constants.get(c.name, c.default) for c in kernel.definition.constants}
    compiled = kernel.specialise(case.target, bound.key, whole, device_target())
    loaded, grid = compiled.load()
    loaded.launch_bound(grid(bound.values), bound.device, bound.values)
    torch.cuda.synchronize()
    report = simulated.simulate(*args, schedules=SCHEDULES)
    assert report.deterministic
    for tensor, array, param in zip(tensors, args, kernel.signature.tensors, strict=True):
        np.testing.assert_array_equal(
            bits_of(tensor), array.reshape(-1).view(np.uint8), err_msg=param.name
        )
