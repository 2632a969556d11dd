"""Our kernels: a function of a module of hexcute_kernels, the fastest of its configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hexcute_bench.interface import Candidate, Case, CasePeer, Run
from hexcute_bench.peers.common import config_name, module


class Hexcute(CasePeer):
    """`function` of `kernels`, called with `arguments(case, index)` and `out=`.

    The module's CONFIGS (a sequence, or one for each target) are tried one by one; without any,
    the function chooses. `target` is passed on where the function takes one.
    """

    def __init__(
        self,
        kernels: str,
        function: str,
        arguments: Callable[[Any, int], Sequence[Any]],
        target: str,
        name: str = "hexcute",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._kernels, self._function, self._arguments = kernels, function, arguments
        self._target, self._options = target, dict(options or {})

    def prepare(self, case: Case) -> Sequence[Candidate]:
        kernels = module(self._kernels)
        configs = getattr(kernels, "CONFIGS", ())
        if isinstance(configs, Mapping):
            configs = configs[self._target]
        function = getattr(kernels, self._function)
        if not configs:
            return [Candidate("default", lambda: self._build(function, case, None))]
        build = self._build
        return [
            Candidate(config_name(config), lambda config=config: build(function, case, config))
            for config in configs
        ]

    def _build(self, function: Callable[..., Any], case: Case, config: Any) -> Run:
        options = dict(self._options)
        if config is not None:
            options["config"] = config
        if "target" in inspect.signature(function).parameters:
            options["target"] = self._target

        def run(index: int) -> None:
            function(*self._arguments(case, index), out=case.output(index), **options)

        return run
