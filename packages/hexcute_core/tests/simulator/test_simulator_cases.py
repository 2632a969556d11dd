"""The programs and kernels that are compared with a GPU: here against numpy, and emitted."""

import pytest
from gpu_kernels import KERNELS
from gpu_programs import CASES

from hexcute_core.backend import emit
from hexcute_core.driver.simulation import compare_with_tile_program, compile_for
from hexcute_core.simulator import simulate
from hexcute_core.thread import PRIMS, Prim, verify
from hexcute_core.thread.visit import statements
from hexcute_core.toolchain import compile_cubin

EMITTED = ("copy_f16x8_513", "mul_i64", "f32_to_f8e4m3", "i32_to_i8", "shfl.up_3", "divergence")


def primitives(program):
    return [stmt.name for stmt in statements(program.body) if isinstance(stmt, Prim)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_program_is_one_and_runs(case):
    program, arrays = case.program(), case.arrays()
    if all(name in PRIMS for name in primitives(program)):
        verify(program)
    before = {name: array.copy() for name, array in arrays.items()}
    simulate(program, arrays, case.scalars)
    changed = [name for name in arrays if arrays[name].tobytes() != before[name].tobytes()]
    assert changed, "the program changes nothing"


def compiles(case):
    source = emit(case.program(), "sm_90")
    assert compile_cubin(source.text, "sm_90").cubin


@pytest.mark.parametrize("name", EMITTED)
def test_some_programs_compile(name):
    compiles(next(case for case in CASES if case.name == name))


@pytest.mark.fuzz
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_program_compiles(case):
    compiles(case)


@pytest.mark.parametrize("case", KERNELS[::5], ids=str)
def test_some_kernels_mean_what_was_written(case):
    kernel, args = case.kernel(), case.arguments()
    compiled = compile_for(kernel, args, case.target, case.constants)
    report, wrong = compare_with_tile_program(compiled, args)
    assert not wrong
    assert not any((array == 77).all() for array in args)
    assert report.findings == ()


@pytest.mark.fuzz
@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_every_kernel_means_what_was_written_and_compiles(case):
    kernel, args = case.kernel(), case.arguments()
    compiled = compile_for(kernel, args, case.target, case.constants)
    _, wrong = compare_with_tile_program(compiled, args, schedules=4)
    assert not wrong
    assert compiled.built.cubin
