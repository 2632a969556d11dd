"""Estimate: a compiled kernel and one call's arguments -> the clocks of the launch.

    clocks = those of a block alone * the rounds in which the multiprocessors take all blocks

A block is followed through the rounds its loops make for these arguments. That several blocks share
a multiprocessor, and how they get in each other's way, is not in it: it ranks configurations of one
kernel, and is no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from hexcute_core.driver.grid import grid_function
from hexcute_core.runtime import make_binder
from hexcute_core.scalar import MULTIPROCESSORS
from hexcute_core.synthesis.timeline import block_clocks

if TYPE_CHECKING:
    from hexcute_core.driver.compiled import CompiledKernel


def launch_clocks(compiled: CompiledKernel, args: Sequence[Any], multiprocessors: int) -> float:
    """Estimated clocks of a launch on `args`, torch tensors or `runtime.Described`, on a GPU with
    so many multiprocessors. Raises LaunchError for arguments that do not fit."""
    signature, program = compiled.signature, compiled.tile
    _, _, values = make_binder(signature, compiled.divisors)(args)
    names = (*signature.value_names, MULTIPROCESSORS.name)
    grid = grid_function(program.grid_dim, names)((*values, multiprocessors))
    numbers = dict(zip(signature.value_names, values, strict=True))
    known = {name: value for name, value in numbers.items() if isinstance(value, int)}
    known |= {f"gridDim.{axis}": extent for axis, extent in zip("xyz", grid)}
    rounds = -(-prod(grid) // multiprocessors)
    return rounds * block_clocks(compiled.solution, known)
