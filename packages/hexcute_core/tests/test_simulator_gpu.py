"""The same bits from a GPU and from the simulator, on every program and kernel of the lists."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_kernels import KERNELS
from gpu_mirror import compare, on_gpu, replay
from gpu_programs import CASES

from hexcute_core.driver.simulation import compile_for
from hexcute_core.runtime import bind, device_target
from hexcute_core.simulator import simulate

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

SCHEDULES = 2


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_program_leaves_the_same_bits(case: Any) -> None:
    if torch.cuda.get_device_capability() < case.needs:
        pytest.skip(f"needs compute capability {case.needs}")
    program, arrays = case.program(), case.arrays()
    before = {name: array.copy() for name, array in arrays.items()}
    report = simulate(program, arrays, case.scalars, schedules=SCHEDULES)
    replay(str(case), device_target(), program, before, case.scalars, arrays, report)


@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_a_kernel_leaves_the_same_bits(case: Any) -> None:
    """The instructions of the case's target, in this GPU's machine code."""
    if case.target == "sm_90" and device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")
    kernel, args = case.kernel(), case.arguments()
    simulated = compile_for(kernel, args, case.target, case.constants)
    tensors = [on_gpu(array) for array in args]
    bound = bind(kernel.signature, tensors, kernel.divisors)
    whole = {c.name: case.constants.get(c.name, c.default) for c in kernel.definition.constants}
    compiled = kernel.specialise(case.target, bound.key, whole, device_target())
    loaded, grid = compiled.load()
    loaded.launch_bound(grid(bound.values), bound.device, bound.values)
    torch.cuda.synchronize()
    report = simulated.simulate(*args, schedules=SCHEDULES)
    assert report.deterministic
    names = [param.name for param in kernel.signature.tensors]
    left, arrays = dict(zip(names, tensors)), dict(zip(names, args))
    compare(str(case), case.target, len(report.blocks), left, arrays)
