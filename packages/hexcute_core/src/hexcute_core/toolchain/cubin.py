"""`Cubin`: what the compiler made of one source, with what `ptxas` said about each kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_BARRIERS = re.compile(r"used (\d+) barriers")


@dataclass(frozen=True)
class Resources:
    """One kernel's resources as `ptxas` reports them: registers per thread, the rest in bytes.

    `shared_bytes` counts static shared memory alone; `stack_bytes` above zero means local memory.
    """

    kernel: str
    registers: int
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0
    barriers: int = 0

    @property
    def uses_local_memory(self) -> bool:
        return self.stack_bytes + self.spill_store_bytes + self.spill_load_bytes > 0


@dataclass(frozen=True)
class Cubin:
    """A compiled source: the machine code, its PTX, the compiler's log and the flags used.

    `arch` is the full name NVRTC was given (`sm_90a`). Equal inputs give equal values.
    """

    cubin: bytes
    ptx: str
    log: str
    arch: str
    options: tuple[str, ...]
    resources: tuple[Resources, ...]


def _number(pattern: re.Pattern[str], text: str, group: int = 1) -> int:
    found = pattern.search(text)
    return 0 if found is None else int(found.group(group))


def parse_resources(log: str) -> tuple[Resources, ...]:
    """Reads the verbose log of `ptxas`: one entry per kernel, in the order of their names."""
    pieces = _ENTRY.split(log)
    reports = zip(pieces[1::2], pieces[2::2], strict=True)
    return tuple(
        Resources(
            kernel=name,
            registers=_number(_REGISTERS, report),
            stack_bytes=_number(_STACK, report),
            spill_store_bytes=_number(_STACK, report, 2),
            spill_load_bytes=_number(_STACK, report, 3),
            shared_bytes=_number(_SHARED, report),
            barriers=_number(_BARRIERS, report),
        )
        for name, report in sorted(reports)
    )
