"""Kernels with one mistake each: the simulator finds it, the verifier refuses it, its numbers are
wrong, or it has no effect, by its form (`harmless`) or because all is ordered as before (`proof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from attack.kernels import BY_NAME, compiled
from attack.mistakes import Mistake, mistakes
from attack.proof import unproved
from attack.verdict import PROVED, Hangs, Verdict, limited
from hexcute_core.driver.simulation import bind_host
from hexcute_core.errors import HexcuteError
from hexcute_core.simulator import simulate
from hexcute_core.simulator.findings import FoundError
from hexcute_core.thread import ThreadProgram, verify

SEEDS = (0, 1, 2, 3)


def bound(name: str, call: int) -> tuple[dict[str, int | float], dict[str, np.ndarray]]:
    """The numbers and the arrays of a call of a kernel."""
    kernel = compiled(name)
    given, arrays = bind_host(kernel.signature, kernel.divisors, BY_NAME[name].calls[call]())
    return {**given.scalars, **given.symbols}, arrays


def run(
    name: str, program: ThreadProgram, seed: int, call: int = 0
) -> tuple[bool, dict[str, np.ndarray]]:
    """Whether a run finds anything, and the arrays that it leaves."""
    numbers, arrays = bound(name, call)
    report = simulate(program, arrays, numbers, check=False, seed=seed)
    return bool(report.findings), arrays


@cache
def meant(name: str, call: int = 0) -> dict[str, bytes]:
    """What the kernel without a mistake leaves."""
    found, arrays = run(name, compiled(name).thread, 0, call)
    assert not found, name
    return {array: values.tobytes() for array, values in arrays.items()}


def unordered(name: str, program: ThreadProgram, call: int) -> frozenset[str]:
    """What of a program without findings cannot be shown to be ordered on every schedule."""
    numbers, arrays = bound(name, call)
    with limited():
        reasons = unproved(program, arrays, numbers)
    return reasons if same(arrays, name, call) else reasons | {"the numbers are others"}


@cache
def tolerated(name: str, call: int) -> frozenset[str]:
    """The same of the kernel without a mistake: what writes the same bytes twice."""
    return unordered(name, compiled(name).thread, call)


def proved(name: str, program: ThreadProgram, calls: int) -> bool:
    """Whether a program orders all that the right one orders, on every schedule of so many calls;
    FoundError where the runs that say so find something."""
    return all(unordered(name, program, call) <= tolerated(name, call) for call in range(calls))


def same(arrays: dict[str, np.ndarray], name: str, call: int) -> bool:
    """Whether a run left what it is meant to leave."""
    return {array: values.tobytes() for array, values in arrays.items()} == meant(name, call)


def seen(name: str, program: ThreadProgram, call: int) -> str | None:
    """How some schedule of a call shows that something is wrong; None where none does."""
    for seed in SEEDS:
        with limited():
            found, arrays = run(name, program, seed, call)
        if found:
            return "found"
        if not same(arrays, name, call):
            return "seen in its numbers"
    return None


def end(name: str, mistake: Mistake) -> tuple[str, bool]:
    """How a mistake ends. Where its form alone does not say that it has no effect, that is proved,
    or an effect sought, with other numbers of tiles as well."""
    calls = 1 if mistake.harmless else len(BY_NAME[name].calls)
    try:
        verify(mistake.program)
        if proved(name, mistake.program, calls):
            return ("without effect" if mistake.harmless else PROVED), True
        for call in range(calls):
            how = seen(name, mistake.program, call)
            if how is not None:
                return how, True
    except FoundError:
        return "found", True
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
