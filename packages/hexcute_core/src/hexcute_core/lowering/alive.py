"""refuse_crowds : an error where a thread's tiles take many times the registers that it has.

A thread that holds somewhat more than it has registers keeps some in local memory, which is slow
and no more. Of many times as many the C++ compiler makes code for minutes: refused before.
"""

from __future__ import annotations

from hexcute_core.arch import Arch
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis.held import held
from hexcute_core.synthesis.solution import Solution

TIMES = 8
"""A thread's tiles may take so many times the registers that it has."""


def refuse_crowds(solution: Solution, arch: Arch) -> None:
    """Raises NoLayout at the line where a thread's tiles fill most registers, if they are far too
    many."""
    share = arch.registers_per_block // solution.program.block_dim
    for most in held(solution):
        room = most.claimed or min(arch.registers_per_thread, share)
        if most.registers <= TIMES * room:
            continue
        largest = ", ".join(f"`{name}` {size}" for name, size in most.tiles[:4])
        raise NoLayout(
            f"the {len(most.tiles)} register tiles in use here take {most.registers} registers of "
            f"each of {most.threads} threads ({largest}, ...), which have {room}: up to {TIMES} "
            "times as many are compiled",
            most.span,
            "use them one after another, or keep some in hx.shared_tensor; smaller tiles or more "
            "threads take fewer registers of each",
        )
