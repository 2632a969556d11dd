"""CudaSource: what a backend gives, CUDA C++ text and the name of its one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.errors import SourceSpan


@dataclass(frozen=True)
class CudaSource:
    """`text` compiles with NVRTC or nvcc and needs no header beyond the ones it names.

    `entry` is the `extern "C"` kernel's name, `version` the code generator's name and version,
    which belongs in a cache key. The launch passes `ThreadProgram.shared_bytes` of dynamic
    shared memory and the parameters in `ThreadProgram.params` order.
    """

    text: str
    entry: str
    version: str


@dataclass(frozen=True)
class LocatedSource:
    """`spans` has for each line of the source's text the place in the kernel that it was made for,
    None for what no statement stands for."""

    source: CudaSource
    spans: tuple[SourceSpan | None, ...]
