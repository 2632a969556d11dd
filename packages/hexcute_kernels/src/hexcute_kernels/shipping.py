"""Compiling ahead of calls: operators and sizes -> machine code in the cache, or in a bundle that a
process without a compiler launches from.

What is compiled is what a call of these sizes on that GPU launches: the same plan is made, on
tensors without data, so no GPU is needed. The sizes that a kernel takes at run time (most have all
of them so) may differ from those given, as long as the same configuration serves both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Union

import hexcute_core as hx
from hexcute_core.driver import bundle
from hexcute_core.errors import LaunchError
from hexcute_core.tuner.progress import Progress
from hexcute_core.tuner.workers import Done, Pool, each
from hexcute_kernels import __version__, operator_named
from hexcute_kernels.gpus import Gpu, gpu_here, gpu_named
from hexcute_kernels.prepared import described
from hexcute_kernels.samples import Sizes, parse, sample, text_of

Calls = Mapping[str, Sequence[Union[str, Sizes]]]
"""Operators by name, each with sizes: `{"matmul": ["m=64,n=4096,k=4096"]}`."""
SECONDS = 600.0
"""In which a call's kernels have to be compiled."""
_VERSIONS = {"hexcute-kernels": __version__}


@dataclass(frozen=True)
class Call:
    """An operator on arguments of these sizes, as text."""

    operator: str
    sizes: str

    def __str__(self) -> str:
        return f"{self.operator} of {self.sizes}"

    def kernels(self, gpu: Gpu) -> list[hx.CompiledKernel]:
        """What such a call launches on this GPU, not built yet. Raises LaunchError."""
        found = operator_named(self.operator)
        (sizes,) = parse(self.sizes)
        args = sample(self.operator, sizes, "meta")
        plan = found.plan_on(gpu, args)
        return [kernel for kernel, _ in described(found.schema, plan, args, gpu.target)]


@dataclass(frozen=True)
class Builder:
    """Builds the kernels of calls, in a process of its own, into the cache."""

    gpu: Gpu

    def build(self, call: Call) -> int:
        """Bytes of machine code."""
        return sum(len(kernel.built.cubin) for kernel in call.kernels(self.gpu))


def calls_of(calls: Calls) -> list[Call]:
    """Every call once. Raises LaunchError for operators and sizes that there are not."""
    found: list[Call] = []
    for name, shapes in calls.items():
        operator_named(name)
        for shape in shapes:
            for sizes in parse(shape) if isinstance(shape, str) else [shape]:
                sample(name, sizes, "meta")
                found.append(Call(name, text_of(sizes)))
    return list(dict.fromkeys(found))


def warm_up(
    calls: Calls, gpu: str | None = None, processes: int | None = None
) -> list[hx.CompiledKernel]:
    """Compiles what these calls launch, in parallel, into the cache: later ones need not. On a
    terminal it says how far it has come.

    `gpu` is the short name of the GPU to compile for ("h200"), that of this machine by default.
    Gives the kernels, each once. Raises LaunchError for calls that no variant takes.
    """
    where = gpu_here() if gpu is None else gpu_named(gpu)
    wanted = calls_of(calls)
    with closing(Progress()) as progress:
        progress.phase("planning", len(wanted))
        kernels: dict[str, hx.CompiledKernel] = {}
        for call in wanted:
            kernels |= {k.program: k for k in call.kernels(where)}
            progress.step(str(call))
        count = min(processes or len(os.sched_getaffinity(0)), len(wanted))
        if count > 1:
            progress.phase("building", len(wanted))
            with Pool() as pool:
                for number, answer in each(pool, Builder(where), "build", wanted, count, SECONDS):
                    if not isinstance(answer, Done):
                        raise LaunchError(f"{wanted[number]}: {answer.reason}")
                    progress.step(str(wanted[number]))
        progress.phase("loading" if count > 1 else "building", len(kernels))
        return [kernel for kernel in kernels.values() if _built(kernel, progress)]


def _built(kernel: hx.CompiledKernel, progress: Progress) -> bool:
    """Whether the kernel, compiled or from the cache, has machine code."""
    code = kernel.built.cubin
    progress.step(kernel.signature.kernel)
    return bool(code)


def write_bundle(
    path: str | os.PathLike[str],
    calls: Calls,
    gpu: str | None = None,
    processes: int | None = None,
) -> bundle.Bundle:
    """Compiles as `warm_up` does and writes all of it to the folder `path`, beside what a bundle
    there holds already. Raises SavedKernelError where that cannot be."""
    return bundle.write_bundle(path, warm_up(calls, gpu, processes), _VERSIONS)


def use_bundle(path: str | os.PathLike[str]) -> bundle.Bundle:
    """From now on this process launches from the bundle in the folder `path`. A kernel that it
    lacks is compiled, where that can be done.

    The environment variable HEXCUTE_BUNDLE does the same for a process as a whole. Raises
    SavedKernelError for a bundle of another version, or of code that runs on no GPU here.
    """
    return bundle.use_bundle(path, _VERSIONS)
