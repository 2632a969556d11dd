"""A step of the scan for decoding: ten batch sizes, width 8192, 16 states of 16 and of 32 bits."""

from __future__ import annotations

from hexcute_bench.cases.state_update import StateUpdateCase, update_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers import triton
from hexcute_bench.peers.scan import MambaUpdate, hexcute_update
from hexcute_bench.shape import Shape

SHAPES = tuple(
    Shape.of(batch=1 << power, bits=bits) for bits in (32, 16) for power in range(10)
)


def regime(shape: Shape) -> str:
    """Launches of a few microseconds, and those that memory bounds."""
    return "batch<32" if shape["batch"] < 32 else "batch>=32"


SELECTIVE_STATE_UPDATE = KernelSuite(
    name="selective_state_update",
    title="A step of the selective scan",
    operator="selective_state_update",
    baseline="mamba",
    shapes=SHAPES,
    quick=(SHAPES[0], SHAPES[6]),
    peers=(*hexcute_update(), MambaUpdate(), triton.state_update()),
    case=StateUpdateCase,
    work=update_work,
    regime=regime,
)
