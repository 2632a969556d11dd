"""machine : what ptxas made of a kernel -> how many of its blocks a multiprocessor holds, and why.

    blocks = min(shared memory / a block's, registers / a block's, threads / a block's, 32)

Sizes of a multiprocessor: "Technical specifications per compute capability", CUDA C++ Programming
Guide.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.arch import Arch

RESERVED = 1024
"""Bytes of shared memory that the driver keeps for itself in each block."""
THREADS, BLOCKS = 2048, 32
"""What a multiprocessor of sm_80 and sm_90 holds at most."""
GRAIN = 256
"""Registers are given to a warp in such portions."""


@dataclass(frozen=True)
class Machine:
    """Of the machine code: `registers` a thread is launched with; bytes of a thread that do not fit
    in them and are `spilled`, and of its arrays in `local` memory; a block's `shared` bytes; how
    many `blocks` a multiprocessor holds, and what limits them."""

    registers: int
    spilled: int
    local: int
    shared: int
    blocks: int
    limit: str


def machine(
    arch: Arch, threads: int, registers: int, spilled: int, local: int, shared: int
) -> Machine:
    """The occupancy of blocks of `threads` threads on a multiprocessor of `arch`."""
    warps = -(-threads // 32)
    portion = -(-max(registers, 1) * 32 // GRAIN) * GRAIN
    fits = {
        "registers": arch.registers_per_block // (portion * warps),
        "threads": THREADS // (warps * 32),
        "shared memory": (arch.shared_per_block + RESERVED) // (shared + RESERVED),
        "the number of blocks": BLOCKS,
    }
    blocks = min(fits.values())
    limit = " and ".join(name for name, count in fits.items() if count == blocks)
    return Machine(registers, spilled, local, shared, blocks, limit)
