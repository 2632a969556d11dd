"""Random kernels: each compiles with every stage proved, gives numpy's values lane by lane under
several schedules, or is refused for a reason that holds."""

import gpu_comparisons
import numpy as np
import pytest
from random_kernels import Kernel, attempt, random_kernel, shrunk
from random_kernels.cells import Invalid
from random_kernels.log import justification
from random_kernels.running import meant

import hexcute_core.simulator

BLOCK = 25
SAMPLE = range(0, 200, BLOCK)
SWEEP = range(0, 10_000, BLOCK)


def run(seeds):
    """How many of `seeds` are right; fails, with a small kernel, where one is not."""
    right = 0
    for seed in seeds:
        kernel = random_kernel(seed)
        outcome = attempt(kernel)
        if outcome.kind == "refused":
            assert justification(outcome), f"seed {seed}: {outcome.detail}\n{kernel.text}"
            continue
        if outcome.fault:
            small = shrunk(kernel, outcome)
            raise AssertionError(
                f"seed {seed}, {small.target}, {small.sizes}: {outcome}\n{small.text}"
            )
        right += 1
    return right


@pytest.mark.parametrize("first", SAMPLE)
def test_a_sample(first):
    assert run(range(first, first + BLOCK)) > BLOCK * 0.9


@pytest.mark.fuzz
@pytest.mark.parametrize("first", SWEEP)
def test_the_whole_sweep(first):
    assert run(range(first, first + BLOCK)) > BLOCK * 0.9


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(20_000, 20_300, BLOCK))
def test_the_same_bits_on_a_gpu(first, monkeypatch):
    """What the simulator leaves, a GPU leaves; whatever else simulates random kernels is launched
    where HEXCUTE_COMPARISONS is set."""
    seen = gpu_comparisons.Comparisons()
    monkeypatch.setattr(hexcute_core.simulator, "simulate", seen.simulate)
    run(range(first, first + BLOCK))
    for launched in seen.runs:
        gpu_comparisons.repeat(launched)


def test_the_mirror_on_a_gpu_sees_what_is_simulated(monkeypatch):
    seen = gpu_comparisons.Comparisons()
    monkeypatch.setattr(hexcute_core.simulator, "simulate", seen.simulate)
    kernels = [random_kernel(seed) for seed in range(1, 6)]
    assert all(attempt(kernel).kind == "right" for kernel in kernels)
    assert [seen_run.program.name for seen_run in seen.runs] == [f"kernel_{n}" for n in range(1, 6)]
    assert not any(seen_run.skipped for seen_run in seen.runs)


@pytest.mark.parametrize("seed", [3, 8, 16, 24, 37, 52])
def test_a_random_kernel_compiles_to_machine_code(seed):
    assert attempt(random_kernel(seed), schedules=1, code=True).kind == "right"


def test_equal_seeds_give_equal_kernels():
    assert random_kernel(7) == random_kernel(7)


DOUBLED = """
@hx.kernel(cache=False)
def kernel(t0: i32, a: f32[5, 8], out: f32[5, 8]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (5, 8))
    s = hx.shared_tensor(f32, (5, 8))
    hx.copy(hx.global_view(a[t0:, :], ((5, 8), (8, 1))), s)
    BARRIER
    hx.copy(s, r)
    if t0 > 0:
        r += r
    hx.copy(r, hx.global_view(out, ((5, 8), (8, 1))))
"""


def doubled(barrier="hx.syncthreads()"):
    return Kernel(DOUBLED.replace("BARRIER", barrier), "sm_80", (("t0", 1),))


def test_what_python_makes_of_a_text_is_what_it_means():
    a, out = (x for x in meant(doubled()) if isinstance(x, np.ndarray))
    assert np.array_equal(out[:4], 2 * a[1:])
    assert not out[4].any()
    assert attempt(doubled()).kind == "right"


def test_a_kernel_without_one_meaning_is_no_kernel():
    with pytest.raises(Invalid, match="barrier"):
        meant(doubled("pass"))


def test_a_compiler_that_is_wrong_is_seen_and_the_kernel_made_small(monkeypatch):
    """Here a sum becomes a difference."""
    from random_kernels import running

    true_load = running.load
    monkeypatch.setattr(running, "load", lambda text: true_load(text.replace("r += r", "r -= r")))
    outcome = attempt(doubled())
    assert (outcome.kind, outcome.reason) == ("wrong", "program")
    small = shrunk(doubled(), outcome, tries=60)
    assert len(small.text) < len(DOUBLED)
    assert "r += r" in small.text
