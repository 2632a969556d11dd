"""Shared memory of the other block of a cluster of two: the loads and stores of `shared_rows`.

Every multiprocessor runs one block, which reads or writes its neighbour's memory while that does
the same. Both stay until both are done.
"""

from __future__ import annotations

from hexcute_bench.microbench.probe import BLOCK, Row
from hexcute_bench.microbench.shared_rows import SIZES, Window, load, store
from hexcute_core.scalar import Scalar, mod, sub
from hexcute_core.thread import Prim, RemotePtr

ARENA = 120 * 1024
"""More than half of a multiprocessor's: the two blocks of a cluster never share one."""
MEETING = (Prim("cluster.arrive", ()), Prim("cluster.wait", ()))


def _other(offset: Scalar) -> RemotePtr:
    return RemotePtr(offset, sub(1, mod(BLOCK, 2)))


NEIGHBOUR = Window("cluster", _other, ARENA, MEETING, MEETING, cluster=2, blocks=1, capability=90)


def rows() -> list[Row]:
    """All of them."""
    return [make(NEIGHBOUR, size) for size in SIZES for make in (load, store)]
