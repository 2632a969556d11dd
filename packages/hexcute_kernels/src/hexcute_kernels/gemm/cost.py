"""How long a product takes by a configuration, from sizes alone: what a choice is made by where
nothing was measured.

    time = launch + rounds of blocks * (fill + steps over K * the slowest of what makes one + store)

What makes a step: the Tensor Cores, the way from L2, the way from DRAM for what no other block has
brought, and the latency that a block does not hide. All but the last are shared by the blocks of a
multiprocessor. The constants were fitted to measurements on an H200.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Sizes(Protocol):
    """Of `batch` products (None: one) of m x n results, each a sum over k."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def batch(self) -> int | None: ...


@dataclass(frozen=True)
class Cut:
    """How a configuration cuts a product: into `tiles` of `rows` x `columns`, each by `splits`
    blocks, which sum over k in steps of `depth`.

    Of a step, `busy` clocks go by in what blocks share, `wait` clocks in each of them, but for the
    first `ahead` steps, all asked for at the start; from L2 come `brought` bytes. A multiprocessor
    has `room` for so many blocks; `cluster` of them start together, `early` ones before the launch
    ahead has ended. `tma`: barriers and tensor maps are made ready first. Blocks that stay take
    tile after tile: one is stored while the next comes, and `apart` also while another part of it
    is multiplied.
    """

    rows: int
    columns: int
    depth: int
    tiles: int
    splits: int
    busy: float
    wait: float
    brought: float
    room: int
    cluster: int
    early: bool
    tma: bool = True
    scattered: bool = False
    ahead: int = 0
    stays: bool = False
    apart: bool = False


DRAM: Mapping[str, float] = {"h200": 4.3, "gh200": 3.6, "h100": 3.0, "h800": 3.0, "h20": 3.6}
"""Terabytes a second that a product reads at, at most; elsewhere as on an H100."""
WRITE, TMA_WRITE = 2.3, 1.6
"""The same of results, by threads and by kernels that use TMA."""
NEAR, FAR = 1.5e5, 1600.0
"""Operands of so many bytes are not all found in L2; clocks until what threads ask for is there."""
CLOCKS = 1750.0
"""A microsecond."""
USABLE: Mapping[int, int] = {1: 132, 2: 132, 3: 126, 4: 120, 8: 96}
"""Multiprocessors that clusters of so many blocks find room on."""

LAUNCH, TMA, CLUSTER = 0.93, 0.95, 1.97
"""Microseconds of a launch, of one with TMA and one with clusters in addition."""
EARLY, SHARED_EARLY = 1.09, 0.25
"""What an early start gains, and costs where blocks share a multiprocessor: they are spread
unevenly then."""
FILL, AGAIN = 0.89, 0.63
"""Until a block's first tile is there; the part of it that is left where another block ends."""

FROM_L2, FROM_DRAM, STORED = 40.8, 22.7, 59.3
"""Bytes a clock and multiprocessor."""
ODD, STAYING, APART = 1.48, 0.5, 0.25
"""How many times longer stores take in rows of no whole 16 bytes, and in blocks that stay, whose
warp groups store together or apart."""
EXCHANGE = 0.115
"""Clocks of a result that blocks of a cluster add up."""
LATENCY, STEP = 3360.0, 287.0
"""Clocks until a box that TMA was asked for is there; of a step that hands a slot on and back."""
LINE, TWICE = 128, 1.5
"""Bytes of a line, and how many times more of them L2 reads where rows begin between two."""
EDGE = 64
"""Bytes that are written in addition at the ends of a row that is no whole 16 bytes."""
SCATTERED, SINGLY, FROM_ROWS = 2.15, 3.15, 2.75
"""How many times longer memory takes for results that threads write in pairs, or where rows are odd
one by one, without putting rows together first, and after."""
WGMMA_RATE, NARROWER, MMA_RATE = 0.765, 8.0, 272.0
"""Of what wgmma can do, clocks lost by each of its instructions; multiplications a clock of
mma.sync."""
ROUND, LOAD, LOADS = 530.0, 84.0, 2.25
"""Clocks of a step whose tiles go through registers, of each load in a thread, for addresses take
chains of instructions, and of each load in a warp where warps share a multiprocessor."""
DOT_ROUND, DOT_WAIT, DOT_LOAD, DOT = 1740.0, 18.0, 2.25, 1.0
"""The same of dot products, and of each product in a warp."""
SUM = 20.0
"""How many products take as long as adding up the parts of one that all threads have."""
PACK, PACKED = 1.85, 1.5
"""Microseconds of a launch that copies operands, and terabytes a second that it reads."""


def wgmma_clocks(rows: int, columns: int, depth: int) -> float:
    """Of the Tensor Core for a step: products of 64 rows read both operands from shared memory at
    128 bytes per clock, however few columns they have; wide ones read less for each product, and
    leave more of the GPU's power."""
    each = max(columns / 2 + NARROWER, 16 + columns / 4)
    return rows / 64 * depth / 16 * each / WGMMA_RATE


def tma_wait(stages: int) -> float:
    """Of a step whose load was asked for `stages` steps before."""
    return LATENCY / stages


def from_l2(fetched: float, shared: float, p: Sizes) -> float:
    """The bytes of a step that L2 reads of those `fetched` by a block, which are `shared` bytes for
    each block of a cluster. Blocks that run together ask for the same lines: L2 answers them at
    once, so that sharing saves nothing but lines of which each has a part."""
    return fetched if p.k * 2 % LINE == 0 else TWICE * shared


def staged_clocks(rows: int, columns: int, depth: int, warps: int, loads: float) -> float:
    """Of a step by mma.sync whose elements go through registers, `loads` instructions per
    thread."""
    return max(rows * columns * depth / MMA_RATE, warps * loads * LOADS)


def staged_wait(loads: float) -> float:
    """Of such a step in a block alone."""
    return ROUND + loads * LOAD


def dots_clocks(warps: int, loads: float, products: float) -> float:
    """Of a step of dot products, `loads` instructions and `products` a thread."""
    return warps / 4 * (loads * DOT_LOAD + products * DOT)


def dots_wait(loads: float) -> float:
    """Of such a step in a block alone."""
    return DOT_ROUND + loads * DOT_WAIT


def room(shared: int, threads: int, registers: int) -> int:
    """How many blocks with so many bytes, threads and registers a multiprocessor has room for."""
    return max(1, min(232448 // (shared + 1024), 65536 // (threads * registers), 2048 // threads))


def packing_us(moved: int) -> float:
    """Of copying so many elements of operands into rows of whole 16 bytes, before a launch."""
    return PACK + moved * 2 / PACKED / 1e6 if moved else 0.0


def _over(count: int, size: int) -> int:
    """How many of a size cover a count."""
    return -(-count // size)


def microseconds(cut: Cut, p: Sizes, gpu: str) -> float:
    """The expected time of a launch."""
    batch = 1 if p.batch is None else p.batch
    blocks, slots = cut.tiles * cut.splits, USABLE[cut.cluster]
    steps = _over(p.k, cut.depth)
    read, written = (p.m + p.n) * p.k * 2 * batch, p.m * p.n * 2.0 * batch
    fresh = min(1.0, read / max(1.0, cut.tiles * cut.brought * steps))
    steps = _over(steps, cut.splits)
    step = max(cut.busy, cut.brought / FROM_L2, cut.brought * fresh / FROM_DRAM)
    store = min(cut.rows, p.m) * min(cut.columns, p.n) * 2 / STORED / cut.splits
    if p.n % 8:
        store *= ODD
    fill = FILL * CLOCKS

    waits, least = max(0, steps - cut.ahead), STEP if cut.tma else 0.0
    wait = cut.wait if cut.tma or read < NEAR else max(cut.wait, FAR)

    def together(count: int) -> float:
        """Clocks of a multiprocessor with so many blocks at once."""
        return max(count * step * steps, least * steps, wait * waits) + count * store

    if cut.stays:
        rounds = _over(blocks, slots)
        shown = store * (APART if cut.apart else STAYING)
        clocks = fill + rounds * (max(step * steps, least * steps, wait * waits) + shown)
    else:
        full, rest = divmod(blocks, slots * cut.room)
        clocks = full * (together(cut.room) + fill * AGAIN / cut.room)
        if rest:
            clocks += together(_over(rest, slots)) + fill * (AGAIN if full else 1.0)
        else:
            clocks += fill * (1.0 - AGAIN)
    if p.n % 8:
        written *= 1 + EDGE / (min(cut.columns, p.n) * 2)
    if cut.scattered:
        singly = FROM_ROWS if cut.tma else SINGLY
        written *= singly if p.n % 2 else SCATTERED
    memory = read / DRAM.get(gpu, DRAM["h100"]) + written / (TMA_WRITE if cut.tma else WRITE)
    us = max(clocks / CLOCKS, memory / 1e6 + 0.64) + LAUNCH
    if cut.tma:
        us += TMA
    if cut.cluster > 1:
        us += CLUSTER
    if cut.splits > 1:
        us += cut.rows * cut.columns * EXCHANGE / CLOCKS
    if cut.early:
        us -= EARLY if cut.stays or blocks <= slots else -SHARED_EARLY
    return us
