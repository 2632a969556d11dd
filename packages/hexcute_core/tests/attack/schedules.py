"""Right kernels under many orders of warps, engines and blocks: none is reported."""

from __future__ import annotations

from collections.abc import Iterator

from attack.kernels import compiled
from attack.planted import meant, run
from attack.verdict import Hangs, Verdict, limited


def attack(name: str, seeds: range) -> Iterator[Verdict]:
    """One kernel under these seeds."""
    for seed in seeds:
        how, good = "clean", True
        try:
            with limited():
                found, arrays = run(name, compiled(name).thread, seed)
            same = {array: values.tobytes() for array, values in arrays.items()} == meant(name)
            if found or not same:
                how, good = ("reported" if found else "other numbers"), False
        except Hangs:
            how, good = "hangs", False
        yield Verdict("schedules", name, how, good, f"seed {seed}")
