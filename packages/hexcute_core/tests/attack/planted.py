"""Kernels with one mistake each: the simulator finds it, the verifier refuses it, its numbers are
wrong, or it has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from attack.kernels import BY_NAME, compiled
from attack.mistakes import Mistake, mistakes
from attack.verdict import Hangs, Verdict, limited
from hexcute_core.driver.simulation import bind_host
from hexcute_core.errors import HexcuteError
from hexcute_core.simulator import simulate
from hexcute_core.thread import ThreadProgram, verify

SEEDS = (0, 1, 2, 3)


def run(name: str, program: ThreadProgram, seed: int) -> tuple[bool, dict[str, np.ndarray]]:
    """Whether a run finds anything, and the arrays that it leaves."""
    kernel = compiled(name)
    bound, arrays = bind_host(kernel.signature, kernel.divisors, BY_NAME[name].arguments())
    numbers = {**bound.scalars, **bound.symbols}
    report = simulate(program, arrays, numbers, check=False, seed=seed)
    return bool(report.findings), arrays


@cache
def meant(name: str) -> dict[str, bytes]:
    """What the kernel without a mistake leaves."""
    found, arrays = run(name, compiled(name).thread, 0)
    assert not found, name
    return {array: values.tobytes() for array, values in arrays.items()}


def end(name: str, mistake: Mistake) -> tuple[str, bool]:
    """How a mistake ends."""
    try:
        verify(mistake.program)
        for seed in SEEDS:
            with limited():
                found, arrays = run(name, mistake.program, seed)
            if found:
                return "found", True
            if {a: values.tobytes() for a, values in arrays.items()} != meant(name):
                return "seen in its numbers", True
    except HexcuteError:
        return "refused", True
    except Hangs:
        return "hangs", False
    except Exception as error:
        return f"raises {type(error).__name__}", False
    return ("without effect", True) if mistake.harmless else ("missed", False)


def attack(name: str, step: int = 1) -> Iterator[Verdict]:
    """Every `step`-th mistake of one kernel."""
    for i, mistake in enumerate(mistakes(compiled(name).thread)):
        if i % step == 0:
            how, good = end(name, mistake)
            yield Verdict("planted", mistake.kind, how, good, f"{name}: {mistake.what}")
