"""Random programs down to machine code: what lowering writes, the code generator and the CUDA
compiler take. Needs no GPU."""

import warnings

import pytest
from random_programs import random_program

from hexcute_core.arch import arch
from hexcute_core.backend import emit
from hexcute_core.lowering import lower
from hexcute_core.synthesis import synthesize
from hexcute_core.toolchain import compile_cubin

# One of each kind, and those whose registers, guards and exchanges are unlike the others'.
SEEDS = (0, 5, 8, 11, 20, 23, 26, 28, 42, 57, 78, 102)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_compiles(seed):
    table = arch("sm_89")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = synthesize(random_program(seed).program, table)
    source = emit(lower(solution, table), "sm_89")
    cubin = compile_cubin(source.text, "sm_89")
    assert cubin.cubin
