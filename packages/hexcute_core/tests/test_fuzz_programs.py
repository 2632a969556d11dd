"""Random programs: each solves, is proved, and gives the interpreter's bits lane by lane, or is
refused for a reason that holds."""

import warnings
from math import gcd

import pytest
import tile_runs
from random_programs import KINDS, random_program

from hexcute_core.errors import NoLayout
from hexcute_core.scalar import Const, Var
from hexcute_core.synthesis.solve import RearrangeWarning
from hexcute_core.tile import Copy, GlobalView

SAMPLE = range(87)
SWEEP = range(1000, 3000)


def whole_bytes(program, ref):
    """Whether every row of a global tile begins and ends at a whole byte, whatever the symbols."""
    view = program.tensor(ref.tensor)
    param = program.param(view.param)
    last = len(param.shape) - 1

    def divisor(e):
        if isinstance(e, Const):
            return int(e.value)
        return program.promise.multiple(e.name) if isinstance(e, Var) else 1

    along = [m for m in ref.kept if view.modes[m][0].dim == last]
    if not along:
        return False
    # Steps along a dimension of extent 1 are no steps: such a tile is a column.
    numbers = [ref.extents[along[0]], divisor(param.shape[last]), divisor(view.origin[last])]
    return gcd(*numbers) * view.dtype.bits % 8 == 0


def must_be_refused(program):
    """Whether some copy of a type narrower than a byte meets global memory inside a byte."""
    for stmt in program.body:
        if isinstance(stmt, Copy):
            for ref in (stmt.src, stmt.dst):
                tensor = program.tensor(ref.tensor)
                narrow = isinstance(tensor, GlobalView) and tensor.dtype.bits < 8
                if narrow and not whole_bytes(program, ref):
                    return True
    return False


def attempt(seed):
    case = random_program(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RearrangeWarning)
            tile_runs.run(case.program, case.sizes, arrays=case.arrays)
    except NoLayout as error:
        assert error.span is not None
        assert must_be_refused(case.program), f"seed {seed} ({case.kind}) refused: {error}"
        return False
    return True


@pytest.mark.parametrize("block", range(0, len(SAMPLE), 29))
def test_a_sample(block):
    solved = [attempt(seed) for seed in SAMPLE[block : block + 29]]
    assert sum(solved) > 12


@pytest.mark.fuzz
@pytest.mark.parametrize("block", range(0, len(SWEEP), 50))
def test_the_whole_sweep(block):
    for seed in SWEEP[block : block + 50]:
        attempt(seed)


def test_equal_seeds_give_equal_programs():
    assert random_program(7).program == random_program(7).program
    assert {random_program(seed).kind for seed in range(29)} == set(KINDS)
