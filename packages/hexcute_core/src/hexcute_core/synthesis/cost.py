"""Clocks of an operation in one block: `weight * warps * calls * (issue slot + memory phases)`.

A shared access takes its wavefronts, one to another block as long as the row says for each; a
global one half a clock a 32-byte sector; a Tensor Core instruction its issue time over the
multiprocessor's four units.
"""

from __future__ import annotations

from math import prod

from hexcute_core.arch import CopyRow, Mode
from hexcute_core.arch.groups import WARP
from hexcute_core.synthesis.memory import GlobalTile
from hexcute_core.synthesis.solution import BulkPlan, CopyPlan, GemmPlan, WgmmaPlan

ISSUE_SLOT = 1.0
SECTOR_BYTES = 32
# A warp's lanes share a wavefront as long as each moves no more than this.
WAVEFRONT_WORD = 4
CLOCKS_A_SECTOR = 0.5
TENSOR_UNITS = 4
BOX_CLOCKS = 4.0
ARRIVAL_CLOCKS = 2.0
# A byte permute per word, a quarter of the multiprocessor's lanes each.
CLOCKS_A_PACKED_WORD = 0.5


def working_warps(plan: CopyPlan, threads: int) -> float:
    """Warps of `threads` threads that issue a copy's instructions: where memory is written, those
    whose threads all hold what others hold as well stay out."""
    if not _writes_memory(plan):
        return threads / WARP
    warps, place = 1.0, 1
    for m in plan.thread:
        inside = min(m.size, max(1, WARP // place)) if place < WARP else 1
        if m.step:
            warps *= m.size / inside
        place *= m.size
    return min(warps, threads / WARP) if threads >= WARP else threads / WARP


def _writes_memory(plan: CopyPlan) -> bool:
    dst = plan.row.dst if plan.second is None else plan.second.dst
    return dst != "register"


def _working_lanes(plan: CopyPlan) -> int:
    """Lanes of the first warp that hold what no lower one holds."""
    lanes, place = 1, 1
    for m in plan.thread:
        inside = min(m.size, max(1, WARP // place)) if place < WARP else 1
        lanes *= inside if m.step else 1
        place *= m.size
    return min(WARP, lanes)


def lanes_of(modes: tuple[Mode, ...]) -> list[tuple[int, ...]]:
    """Tile coordinates, as sparse (dim, value) sums, of the first warp's lanes."""
    rank = 1 + max((m.dim for m in modes), default=0)
    out = []
    for t in range(min(WARP, prod(m.size for m in modes))):
        coord, index = [0] * rank, t
        for m in modes:
            coord[m.dim] += (index % m.size) * m.step
            index //= m.size
        out.append(tuple(coord))
    return out


def sectors(plan: CopyPlan, memory: GlobalTile, bits: int) -> int:
    """32-byte sectors that one call of a warp touches; rows count as far apart."""
    run = prod(m.size for m in plan.run)
    touched: set[tuple[tuple[int, ...], int]] = set()
    for coord in lanes_of(plan.thread):
        along, others = _place(coord, memory)
        first = along * bits // 8 // SECTOR_BYTES
        last = ((along + run) * bits // 8 - 1) // SECTOR_BYTES
        touched.update((others, s) for s in range(first, max(first, last) + 1))
    return len(touched)


def _place(coord: tuple[int, ...], memory: GlobalTile) -> tuple[int, tuple[int, ...]]:
    """How far into its run of memory a coordinate of the tile lies, and which run that is."""
    contiguous = memory.contiguous
    if not memory.run:
        along = coord[contiguous] if contiguous is not None and contiguous < len(coord) else 0
        return along, tuple(c for d, c in enumerate(coord) if d != contiguous)
    along, stride, rest = 0, 1, list(coord)
    for m in memory.run:
        if m.dim < len(coord):
            digit = coord[m.dim] // m.step % m.size
            along += digit * stride
            rest[m.dim] -= digit * m.step
        stride *= m.size
    return along, tuple(rest)


def global_cost(plan: CopyPlan, memory: GlobalTile, bits: int, warps: float) -> float:
    """Clocks of the global side of a copy, once; where rows are named, each call reads one number
    of shared memory before."""
    each = ISSUE_SLOT + CLOCKS_A_SECTOR * sectors(plan, memory, bits)
    return warps * plan.calls * (each + (2 * ISSUE_SLOT if memory.named else 0.0))


def shared_cost(plan: CopyPlan, wavefronts: float, warps: float) -> float:
    """Clocks of the shared side of a copy, once; `wavefronts` are those of one warp's calls."""
    return warps * (plan.calls * ISSUE_SLOT + wavefronts * _wavefront_clocks(plan.row))


def _wavefront_clocks(row: CopyRow) -> float:
    """Clocks of one wavefront: what a row of another block's memory takes without conflicts, over
    the wavefronts of such a call."""
    if "remote" not in (row.src, row.dst):
        return 1.0
    return row.timing.issue / max(1.0, row.bytes / WAVEFRONT_WORD)


def update_cost(plan: CopyPlan, warps: float) -> float:
    """Clocks that the calls of an atomic update take, once, beside those of the memory that they
    touch."""
    return warps * plan.calls * plan.row.timing.issue


def packing_cost(plan: CopyPlan, bits: int, warps: float) -> float:
    """Clocks to gather registers narrower than a word into the words of an access, once."""
    if plan.second is not None or plan.row.bytes < 4 or plan.width * bits >= 32:
        return 0.0
    return warps * plan.calls * CLOCKS_A_PACKED_WORD * plan.row.bytes / 4


def least_wavefronts(plan: CopyPlan, bits: int) -> float:
    """Wavefronts of one warp without conflicts: 128 bytes of its working lanes each."""
    if plan.row.access == "matrix":
        return plan.calls * plan.row.bytes / 4
    run = prod(m.size for m in plan.run) * bits / 8
    share = _working_lanes(plan) / WARP if _writes_memory(plan) else 1.0
    return plan.calls * max(1.0, run / 4 * share)


def arrival_cost(plan: CopyPlan, threads: int) -> float:
    """Clocks until a copy by `threads` threads, once, has told of itself that fills a slot of a
    pipeline from global memory: cp.async arrive at the slot's mbarrier thread by thread while their
    thread goes on; what passes through registers is waited for, then each warp arrives."""
    if plan.row.asynchronous:
        return ARRIVAL_CLOCKS * threads
    return plan.row.timing.latency + ARRIVAL_CLOCKS * threads / WARP


def bulk_cost(plan: BulkPlan) -> float:
    """Clocks of a copy by TMA, once: no thread waits, the bytes still pass; those of a prefetch
    only to L2."""
    passing = 0 if plan.name == "tma.prefetch" else plan.bytes
    return BOX_CLOCKS * plan.calls + CLOCKS_A_SECTOR * passing / SECTOR_BYTES


def wgmma_cost(plan: WgmmaPlan) -> float:
    """Clocks of a gemm by warp groups, once; they take turns on the Tensor Cores. Each instruction
    takes a slot of the schedulers as well: of as many clocks in wider instructions, which fetch an
    operand less often, fewer are lost."""
    return prod(plan.groups) * prod(plan.repeats) * (plan.row.timing.issue + ISSUE_SLOT)


def gemm_cost(plan: GemmPlan, warps: float) -> float:
    """Clocks of a gemm, once."""
    calls = prod(level.size for level in (*plan.m, *plan.n, *plan.k))
    return warps * calls * plan.row.timing.issue / TENSOR_UNITS
