"""What Hidet's kernels share in their process: built by a pool ahead of time, then launched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hexcute_bench.interface import Candidate, Case, CasePeer, Run
from hexcute_bench.shape import Shape


@dataclass(frozen=True)
class Job(ABC):
    """One kernel to build into a folder, for an arch such as sm_90."""

    name: str
    arch: str
    folder: str

    @abstractmethod
    def module(self) -> Any:
        """Hidet's IR module, made in the builder's process."""

    @abstractmethod
    def launcher(self, case: Any, launch: Any) -> Run:
        """A run of the built kernel on a case's sets."""


def build(job: Job) -> str:
    """Builds one kernel by Hidet's own passes and nvcc; gives the folder of its library."""
    import hidet
    from hidet.drivers.build_module import build_ir_module

    hidet.option.cuda.arch(job.arch)
    Path(job.folder).mkdir(parents=True, exist_ok=True)
    build_ir_module(job.module(), job.folder, target=f"cuda --arch={job.arch}")
    return job.folder


def on_torchs_stream() -> None:
    """Has Hidet launch on torch's current stream, a capturing one too."""
    import torch
    from hidet.ffi.runtime_api import runtime_api

    runtime_api.set_current_cuda_stream(torch.cuda.current_stream().cuda_stream)


class HidetPeer(CasePeer, ABC):
    """A system of Hidet's over the kernels its `jobs` ask for."""

    def __init__(self, name: str, arch: str, folder: Path, pool: Executor) -> None:
        self.name = name
        self.arch, self.folder, self._pool = arch, folder / name, pool
        self._building: dict[Shape, list[tuple[Job, Future[str]]]] = {}

    @abstractmethod
    def jobs(self, shape: Shape) -> Sequence[Job]:
        """The kernels to try for one shape."""

    def order(self, shape: Shape) -> None:
        """Begins to build what this shape needs."""
        if shape not in self._building:
            jobs = self.jobs(shape)
            self._building[shape] = [(job, self._pool.submit(build, job)) for job in jobs]

    def finish(self) -> None:
        """Waits until all that was ordered is built or has failed."""
        for ordered in self._building.values():
            for _, future in ordered:
                future.exception()

    def prepare(self, case: Case) -> Sequence[Candidate]:
        self.order(case.shape)
        return [
            Candidate(job.name, partial(self._load, case, job, future))
            for job, future in self._building[case.shape]
        ]

    def _load(self, case: Case, job: Job, future: Future[str]) -> Run:
        from hidet.runtime import load_compiled_module

        return job.launcher(case, load_compiled_module(future.result()))
