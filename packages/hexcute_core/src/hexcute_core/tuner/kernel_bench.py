"""A kernel as the tuner sees it: named, with functions that make its arguments and check them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from hexcute_core.driver import CompiledKernel, Kernel
from hexcute_core.driver.estimate import launch_clocks
from hexcute_core.errors import TunerError
from hexcute_core.runtime import (
    Described,
    TensorParam,
    device_count,
    device_target,
    multiprocessors,
)
from hexcute_core.runtime.replay import Replay, gpu_alive, gpu_name
from hexcute_core.tuner.bench import Task
from hexcute_core.version import VERSION, contents

MULTIPROCESSORS = 132
"""Of the GPU that is ranked for where there is none."""


def found(name: str) -> Any:
    """What "module:name" names. Raises TunerError."""
    module, colon, attribute = name.partition(":")
    try:
        if colon:
            return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise TunerError(f"{name!r} is not found: {error}") from None
    raise TunerError(f"{name!r} names nothing", fix='write "module:name"')


@dataclass(frozen=True)
class KernelBench:
    """A kernel, on the arguments that a function makes.

    `kernel`, `arguments` and `check` are written "module:name", for each process to import.
    `arguments(index, device)` gives the kernel's arguments of input set `index`, of `sets`, on a
    device of torch: on "meta" the tensors need no data. `check(*arguments)` looks at them after a
    launch, and raises or gives False where a result is wrong. `problem` says in words what is
    tuned for; results are shared by those of one problem.
    """

    kernel: str
    arguments: str
    problem: str
    check: str = ""
    sets: int = 1
    target: str = ""

    @property
    def task(self) -> Task:
        kernel = self._kernel
        source = Path(kernel.definition.fn.__code__.co_filename).read_bytes()
        version = f"{VERSION} {contents()} {sha256(source).hexdigest()[:16]}"
        gpu = gpu_name() if device_count() else self._target
        return Task(self.kernel, gpu, self.problem, version)

    @property
    def _kernel(self) -> Kernel:
        kernel = found(self.kernel)
        if not isinstance(kernel, Kernel):
            raise TunerError(f"{self.kernel!r} is no kernel")
        return kernel

    @property
    def _target(self) -> str:
        if self.target or not device_count():
            return self.target or "sm_90"
        return device_target(0)

    def _args(self, index: int, device: str) -> tuple[Any, ...]:
        made = found(self.arguments)(index, device)
        if not isinstance(made, tuple):
            raise TunerError(f"{self.arguments} is to give a tuple of arguments")
        return made

    @cached_property
    def _described(self) -> tuple[Any, ...]:
        pairs = zip(self._kernel.signature.params, self._args(0, "meta"), strict=True)
        return tuple(Described(a) if isinstance(p, TensorParam) else a for p, a in pairs)

    def _compiled(self, config: Mapping[str, Any]) -> CompiledKernel:
        return self._kernel.compile_for(*self._described, target=self._target, constants=config)

    def clocks(self, config: Mapping[str, Any]) -> float:
        count = multiprocessors(0) if device_count() else MULTIPROCESSORS
        return launch_clocks(self._compiled(config), self._described, count)

    def build(self, config: Mapping[str, Any]) -> int:
        return len(self._compiled(config).built.cubin)

    @cached_property
    def _sets(self) -> list[tuple[Any, ...]]:
        return [self._args(index, "cuda") for index in range(self.sets)]

    @cached_property
    def _replays(self) -> dict[str, Replay]:
        return {}

    def prepare(self, config: Mapping[str, Any]) -> None:
        launch: Callable[..., None] = self._kernel.configured(**config)
        launch(*self._sets[0])
        if self.check and found(self.check)(*self._sets[0]) is False:
            raise TunerError("its results are wrong")
        self._replays[repr(config)] = Replay(lambda index: launch(*self._sets[index]), self.sets)

    def sample(self, config: Mapping[str, Any]) -> float:
        return self._replays[repr(config)].sample()

    def alive(self) -> bool:
        return gpu_alive()
