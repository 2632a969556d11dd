"""A tuning space from Python to cubins: 102 GEMM configurations in as many processes as cores.

Wall time from the system's import to the last cubin, caches empty. Pruned, the cost model ranks
all configurations by `blocks * clocks of a block` and only the best quarter becomes machine code.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing.pool
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

MARK = "hexcute-space "
TILES = (64, 128, 256)
ACCUMULATORS = 128
SM80_BYTES, SM90_BYTES = 163 * 1024, 226 * 1024
KEPT = 0.25
M = N = K = 4096
"""What the configurations are ranked for."""


@dataclass(frozen=True)
class Tile:
    """Block tile, pipeline stages and warps of one configuration."""

    bm: int
    bn: int
    bk: int
    stages: int
    warps: int

    @property
    def work(self) -> int:
        """Multiplications a warp does in a stage: what its code grows with."""
        return self.bm * self.bn * self.bk // self.warps

    @property
    def ring(self) -> int:
        """Bytes of the stages."""
        return (self.bm + self.bn) * self.bk * 2 * self.stages


def _fitting(tiles: Iterable[tuple[int, ...]], shared: Callable[[Tile], bool]) -> tuple[Tile, ...]:
    """Those whose accumulators fit registers and that fit shared memory."""
    every = (Tile(*sizes) for sizes in tiles)
    return tuple(t for t in every if t.bm * t.bn // (32 * t.warps) <= ACCUMULATORS and shared(t))


SPACE = _fitting(
    product(TILES, TILES, (32, 64, 128), (2, 3, 4), (4, 8)),
    lambda t: t.ring <= SM80_BYTES,
)
"""All that fit shared memory and registers: 102."""
HOPPER = _fitting(
    product(TILES, (*TILES, 96, 192), (64, 128), (2, 3, 4, 5, 6), (4, 8)),
    lambda t: t.bm % (16 * t.warps) == 0 and t.ring + 2 * t.bm * t.bn <= SM90_BYTES,
)
"""The same for the kernel of warp groups, whose tiles need not be powers of two: 102."""


def space(system: str, target: str) -> tuple[Tile, ...]:
    """The configurations of a system's kernel for `target`."""
    return HOPPER if (system, target) == ("hexcute", "sm_90") else SPACE


def _hexcute_kernel(target: str) -> Any:
    import hexcute_core as core

    name = "warp_specialized" if target == "sm_90" else "pipelined"
    family = importlib.import_module(f"hexcute_kernels.gemm.{name}")
    return getattr(family, f"{name}_gemm")(core.f16)


def _hexcute_constants(target: str, tile: Tile) -> dict[str, int]:
    sizes = {"BM": tile.bm, "BN": tile.bn, "BK": tile.bk, "STAGES": tile.stages}
    if target == "sm_90":
        return {**sizes, "CONSUMERS": tile.warps // 4}
    return {**sizes, "WARPS": tile.warps}


def _compiled(target: str, tile: Tile) -> Any:
    return _hexcute_kernel(target).compile(target, constants=_hexcute_constants(target, tile))


def _load_hexcute(target: str) -> None:
    import hexcute_core

    hexcute_core.preload()
    _hexcute_kernel(target)


def _load_triton(target: str) -> None:
    names = (
        "triton.backends.nvidia.compiler", "triton.compiler.code_generator",
        "hexcute_bench.compile_cost", "hexcute_bench.triton_kernels.gemm",
    )  # fmt: skip
    for name in names:
        importlib.import_module(name)


def _hexcute(target: str, tile: Tile) -> int:
    return len(_compiled(target, tile).built.cubin)


def _clocks(target: str, tile: Tile) -> float:
    blocks = -(-M // tile.bm) * -(-N // tile.bn)
    # The model takes as many rounds of the main loop for every depth of a stage.
    return blocks * float(_compiled(target, tile).solution.cost) * (K / tile.bk)


def _triton(target: str, tile: Tile) -> int:
    from hexcute_bench.compile_cost import triton_cubin

    return triton_cubin(target, tile.bm, tile.bn, tile.bk, 8, tile.stages, tile.warps)


_LOAD: Mapping[str, Callable[[str], None]] = {"hexcute": _load_hexcute, "triton": _load_triton}
_BUILD: Mapping[str, Callable[[str, Tile], int]] = {"hexcute": _hexcute, "triton": _triton}


def _one(job: tuple[str, str, Tile]) -> int:
    system, target, tile = job
    return _BUILD[system](target, tile)


def _rank(job: tuple[str, str, Tile]) -> float:
    _, target, tile = job
    return _clocks(target, tile)


def build_all(system: str, target: str, pruned: bool, most: int) -> dict[str, Any]:
    """Seconds for the whole space, cubins built, processes used."""
    # The largest first: none is begun when the others are done.
    tiles = sorted(space(system, target)[:most], key=lambda tile: -tile.work)
    jobs: Sequence[tuple[str, str, Tile]] = [(system, target, tile) for tile in tiles]
    workers = len(os.sched_getaffinity(0))
    start = time.perf_counter()
    with _workers(workers, lambda: _LOAD[system](target)) as pool:
        if pruned:
            clocks = pool.map(_rank, jobs, chunksize=1)
            order = sorted(range(len(jobs)), key=lambda i: clocks[i])
            jobs = [jobs[i] for i in order[: max(1, round(len(jobs) * KEPT))]]
        sizes = pool.map(_one, jobs, chunksize=1)
    taken = time.perf_counter() - start
    return {"seconds": taken, "built": sum(size > 0 for size in sizes), "processes": workers}


@contextmanager
def _workers(count: int, load: Callable[[], None]) -> Iterator[multiprocessing.pool.Pool]:
    """Processes that inherit what `load` imports."""
    # It is no garbage: neither this process nor the others are to look through it for any.
    gc.disable()
    try:
        load()
        gc.freeze()
        with multiprocessing.get_context("fork").Pool(count, gc.enable) as pool:
            yield pool
    finally:
        gc.unfreeze()
        gc.enable()


def main(system: str, target: str, how: str, most: str = "1000") -> None:
    """The child: prints one JSON line."""
    print(MARK + json.dumps(build_all(system, target, how == "pruned", int(most))))


if __name__ == "__main__":
    main(*sys.argv[1:])
