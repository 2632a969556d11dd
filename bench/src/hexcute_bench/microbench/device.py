"""Probes as machine code, launched on the GPU; samples of clocks by trips."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any

from hexcute_bench.errors import BenchError
from hexcute_bench.microbench.probe import DATA_BYTES, MOST_BLOCKS, ROW, SINK_WORDS, Probe
from hexcute_core.backend import emit
from hexcute_core.runtime import (
    KernelImage,
    LoadedKernel,
    ScalarParam,
    Signature,
    TensorParam,
    multiprocessors,
)
from hexcute_core.thread import verify
from hexcute_core.toolchain import compile_cubin

REPEATS = 5
SCRATCH_BYTES = 2**28
CLOCK_TRIPS = 2**20
WARM_UPS = 20
Samples = dict[int, list[float]]


def build(probe: Probe, target: str) -> KernelImage:
    """The probe's machine code; needs no GPU. Raises BenchError where registers spill."""
    program = probe.program
    verify(program)
    source = emit(program, target)
    cubin = compile_cubin(source.text, target)
    if any(found.uses_local_memory for found in cubin.resources):
        raise BenchError(f"{program.name} spills registers, its clocks would be the spills'")
    size = DATA_BYTES * 8 // probe.data_dtype.bits
    shape = (size // ROW, ROW) if program.maps else (size,)
    params = (
        TensorParam("clocks", "i64", (MOST_BLOCKS,)),
        TensorParam("sink", "u32", (SINK_WORDS,)),
        TensorParam("data", probe.data_dtype.name, shape),
        ScalarParam("trips", "i32"),
    )
    return KernelImage(
        source.entry, cubin.cubin, cubin.arch, program.shared_bytes, (program.block_dim, 1, 1),
        Signature(program.name, params), program.maps, program.cluster_dim,
    )  # fmt: skip


def build_all(probes: Sequence[Probe], target: str) -> list[KernelImage]:
    """All of them, in processes of their own."""
    workers = max(1, min(os.cpu_count() or 1, 16, len(probes)))
    if workers == 1:
        return [build(probe, target) for probe in probes]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(build, probes, [target] * len(probes), chunksize=4))


class Device:
    """The tensors that probes work on, and their launches, each waited for."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise BenchError("the microbenchmark needs an NVIDIA GPU that torch sees")
        self.torch: Any = torch
        self.clocks = torch.zeros(MOST_BLOCKS, dtype=torch.int64, device="cuda")
        self.sink = torch.zeros(SINK_WORDS, dtype=torch.int32, device="cuda").view(torch.uint32)
        self.data = torch.zeros(DATA_BYTES, dtype=torch.uint8, device="cuda")
        self.scratch = torch.zeros(SCRATCH_BYTES // 4, dtype=torch.float32, device="cuda")
        self.multiprocessors = multiprocessors()

    def view(self, image: KernelImage) -> Any:
        """`data` as the kernel's signature has it."""
        param = image.signature.tensors[-1]
        names = {"u8": "uint8", "u16": "uint16", "u32": "uint32", "f16": "float16"}
        return self.data.view(getattr(self.torch, names[param.dtype_name])).view(param.shape)

    def samples(self, probe: Probe, image: KernelImage) -> Samples:
        """Clocks by trips, the middle of the blocks' of each launch. The first launch, which
        brings code and data in, is left out. Stores leave `data` zero again."""
        kernel, data = LoadedKernel(image), self.view(image)
        cluster = probe.program.cluster_dim[0]
        blocks = min(probe.blocks * self.multiprocessors, MOST_BLOCKS) // cluster * cluster
        blocks = max(cluster, blocks)
        self.launch(kernel, blocks, data, max(probe.trips))
        found: Samples = {trips: [] for trips in probe.trips}
        for _ in range(REPEATS):
            for trips, taken in found.items():
                if probe.cold:
                    self.scratch.sum()
                taken.append(self.launch(kernel, blocks, data, trips))
        return found

    def launch(self, kernel: LoadedKernel, blocks: int, data: Any, trips: int) -> float:
        kernel.launch((blocks, 1, 1), self.clocks, self.sink, data, trips)
        return float(median(self.clocks[:blocks].tolist()))

    def clock_mhz(self, image: KernelImage) -> float:
        """The multiprocessor's clock while it runs a chain, by the clock's own count and events;
        warms the GPU up."""
        kernel, data = LoadedKernel(image), self.view(image)
        rates: list[float] = []
        for _ in range(WARM_UPS):
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            kernel.launch((1, 1, 1), self.clocks, self.sink, data, CLOCK_TRIPS)
            end.record()
            end.synchronize()
            rates.append(float(self.clocks[0]) / (start.elapsed_time(end) * 1000))
        return max(rates)
