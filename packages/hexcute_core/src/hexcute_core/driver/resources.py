"""machine_of : Built -> its registers, spills, shared memory and occupancy, by the log of ptxas.

A kernel whose registers spill is right and slow: whoever compiles it is told, with the line.
"""

from __future__ import annotations

from hexcute_core.arch import Arch
from hexcute_core.driver.built import Built
from hexcute_core.driver.told import tell
from hexcute_core.errors import SpillWarning
from hexcute_core.synthesis import Solution
from hexcute_core.synthesis.explain.explanation import spill_warnings
from hexcute_core.synthesis.explain.machine import Machine, machine
from hexcute_core.synthesis.held import held
from hexcute_core.tile import Say
from hexcute_core.tile.visit import statements
from hexcute_core.toolchain.cubin import parse_resources


def machine_of(built: Built, arch: Arch) -> Machine:
    """What the machine code uses."""
    said = [r for r in parse_resources(built.log) if r.kernel == built.entry]
    spilled = sum(r.spill_store_bytes for r in said)
    local = sum(r.stack_bytes for r in said)
    return machine(arch, built.block_dim, built.registers, spilled, local, built.shared_bytes)


def tell_spills(built: Built, solution: Solution, arch: Arch) -> None:
    """A SpillWarning where the code keeps a thread's values in memory."""
    # What printf is handed lies there too, so that of a kernel that prints nothing is known.
    prints = any(isinstance(stmt, Say) for stmt in statements(solution.program.body))
    if not built.local_memory or prints:
        return
    for text in spill_warnings(machine_of(built, arch), held(solution)):
        tell(f"{solution.program.name}: {text}", SpillWarning, stacklevel=2)
