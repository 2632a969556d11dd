"""Random programs: each solves, is proved, and gives the interpreter's bits lane by lane, or is
refused for a reason that holds."""

import warnings
from collections import Counter
from math import gcd

import goldens
import pytest
import tile_runs
from random_programs import KINDS, random_program

from hexcute_core.errors import NoLayout, RearrangeWarning
from hexcute_core.scalar import Const, Var
from hexcute_core.tile import Copy, GlobalView

SAMPLE = range(116)
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
    """The kind of the program and why it was refused, None where it was solved and ran right."""
    case = random_program(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RearrangeWarning)
            tile_runs.run(case.program, case.sizes, "sm_89", arrays=case.arrays)
    except NoLayout as error:
        assert error.span is not None
        assert must_be_refused(case.program), f"seed {seed} ({case.kind}) refused: {error}"
        return case.kind, str(error)
    except Exception as error:
        raise AssertionError(f"seed {seed} ({case.kind}): {error}") from error
    return case.kind, None


@pytest.mark.parametrize("block", range(0, len(SAMPLE), 29))
def test_a_sample(block):
    outcomes = [attempt(seed) for seed in SAMPLE[block : block + 29]]
    assert sum(reason is None for _, reason in outcomes) > 20


@pytest.mark.fuzz
def test_the_whole_sweep(update_goldens):
    """2,000 programs; the log says how many of each kind were solved, and which were refused."""
    solved, refused = Counter(), {}
    for seed in SWEEP:
        kind, reason = attempt(seed)
        solved[kind] += reason is None
        if reason is not None:
            refused[seed] = f"{kind}: {reason.splitlines()[0]}"
    lines = [f"{len(SWEEP)} programs, seeds {SWEEP.start} to {SWEEP.stop - 1}", "", "solved"]
    lines += [f"  {kind:<12} {count}" for kind, count in sorted(solved.items())]
    lines += [f"  {'all':<12} {sum(solved.values())}", "", f"refused {len(refused)}"]
    lines += [f"  {seed} {reason[:150]}" for seed, reason in refused.items()]
    goldens.same("random_programs.txt", "\n".join(lines) + "\n", update_goldens)


def test_equal_seeds_give_equal_programs():
    assert random_program(7).program == random_program(7).program
    assert {random_program(seed).kind for seed in range(29)} == set(KINDS)
