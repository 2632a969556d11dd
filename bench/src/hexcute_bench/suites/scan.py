"""Selective scan: five batch sizes times four lengths, width 8192, 16 states."""

from __future__ import annotations

from hexcute_bench.cases.scan import ScanCase, scan_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers import triton
from hexcute_bench.peers.scan import Mamba, VllmScan, hexcute_scan
from hexcute_bench.shape import Shape

SHAPES = tuple(
    Shape.of(batch=batch, length=length)
    for batch in (1, 4, 8, 32, 64)
    for length in (1024, 2048, 4096, 10000)
)


def regime(shape: Shape) -> str:
    """One sequence offers parallelism over channels only."""
    return "batch=1" if shape["batch"] == 1 else "batch>=4"


SELECTIVE_SCAN = KernelSuite(
    name="selective_scan",
    title="Selective scan",
    operator="selective_scan",
    baseline="mamba",
    shapes=SHAPES,
    quick=(SHAPES[0], SHAPES[2], SHAPES[10]),
    peers=(*hexcute_scan(), Mamba(), VllmScan(), triton.scan()),
    case=ScanCase,
    work=scan_work,
    regime=regime,
)
