"""Kernels that reach into other blocks, lane by lane: exact, as the tile program means, in whatever
order the warps of a cluster run, and every barrier and fence is needed."""

import numpy as np
import pytest
from mutations import mutants
from remote_cases import CASES

from hexcute_core.driver.compiled import bind_host
from hexcute_core.driver.simulation import compare_with_tile_program
from hexcute_core.simulator import simulate

BY_NAME = {case.name: case for case in CASES}
BUSY = (
    "row_sums_f32_2_64", "exchanged_f16_70x80", "ring_4", "split_k_2_64x64x520",
    "pushed_64x64x520", "pushed_by_roles_64x64x520", "sent_by_tma_2", "forwarded", "handed_out_2",
    "started",
)  # fmt: skip


def compiled(case):
    """The kernel of a case, every stage verified."""
    return case.kernel.compile("sm_90", verify=True, aligned=case.aligned, **case.constants)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_bit_is_what_numpy_and_the_tile_program_say(case):
    arrays, meant = case.arguments()
    report, wrong = compare_with_tile_program(compiled(case), arrays, schedules=2)
    assert not report.findings and not wrong
    np.testing.assert_array_equal(arrays[-1], meant)


LONG = ("split_k_2_64x64x520", "pushed_64x64x520", "pushed_by_roles_64x64x520")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.fuzz) if n in LONG else n for n in BUSY]
)
def test_no_report_over_fifty_schedules(name):
    case = BY_NAME[name]
    arrays, meant = case.arguments()
    report = compiled(case).simulate(*arrays, schedules=50)
    assert report.deterministic and len(report.seeds) == 50
    np.testing.assert_array_equal(arrays[-1], meant)


def test_bytes_that_pass_between_blocks():
    """Every block of four reads the sums of all, 32 of 4 bytes; of a tile of c, three quarters come
    from other blocks."""
    case = BY_NAME["row_sums_f32_4_64"]
    arrays, _ = case.arguments()
    counted = compiled(case).simulate(*arrays).counters
    # 128 threads a block hold 32 sums: each of its four warps reads all of them.
    assert counted.bytes["ld.cluster.4"] == 3 * 4 * 4 * 4 * 32 * 4
    case = BY_NAME["split_k_4_64x64x520"]
    arrays, _ = case.arguments()
    counted = compiled(case).simulate(*arrays).counters
    assert counted.bytes["ld.cluster.16"] == 4 * 3 * 16 * 64 * 4
    assert counted.wavefronts["ld.cluster.16"] == counted.bytes["ld.cluster.16"] // 128


def found(case, seed):
    """(the statement that is gone, the kinds of what is found without it) of every mutant."""
    kernel = compiled(case)
    for program, gone in mutants(kernel.thread):
        arguments, _ = case.arguments()
        bound, arrays = bind_host(kernel.signature, kernel.divisors, arguments)
        numbers = {**bound.scalars, **bound.symbols}
        report = simulate(program, arrays, numbers, check=False, seed=seed)
        assert all(f.other is not None for f in report.findings if f.kind == "race")
        yield gone, {f.kind for f in report.findings}


# What comes with the author's barriers is there for whatever the kernel goes on to do: here another
# wait covers a copy, or nobody has written yet, or the reader writes once more itself. No TMA
# completes on these mbarriers, which would ask for the fence of their making.
SPARE = {
    "pushed_64x64x520": {"fence.mbarrier": 1},
    "pushed_by_roles_64x64x520": {"fence.proxy": 1},
    "forwarded": {"fence.mbarrier": 1},
    "sent_by_tma_2": {"fence.proxy": 2},
    "handed_out_2": {"cp.async.commit": 2, "cp.async.wait": 2, "fence.proxy": 2},
    "started": {"cp.async.commit": 1, "cp.async.wait": 1},
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", BUSY)
def test_each_deletion_is_reported(name, seed):
    spare, kinds = {}, {}
    for gone, seen in found(BY_NAME[name], seed):
        kinds.setdefault(gone.name, set()).update(seen)
        if not seen:
            spare[gone.name] = spare.get(gone.name, 0) + 1
    assert spare == SPARE.get(name, {})
    assert "barrier misuse" in kinds["cluster.arrive"]
    assert kinds["cluster.wait"] & {"race", "use before wait", "uninitialised read"}
