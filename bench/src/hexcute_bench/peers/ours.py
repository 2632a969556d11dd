"""Our operators, by name: as called, and by the fastest of their configurations.

    hexcute          the plain call: what a user gets
    hexcute_tuned    the best of the configurations of the variant that the plain call takes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, Case, CasePeer, Run
from hexcute_bench.peers.common import config_name, module

Arguments = Callable[[Any, int], Sequence[Any]]
TUNED = "_tuned"


def missing_operator(name: str) -> str:
    """Why an operator of ours cannot run; empty where it can."""
    try:
        known = module("hexcute_kernels").FAMILIES
    except PeerAbsent as absent:
        return str(absent)
    return "" if name in known else f"the operator {name} is not there yet"


def operator(name: str) -> Any:
    """Our operator of this name, or `PeerAbsent`."""
    missing = missing_operator(name)
    if missing:
        raise PeerAbsent(missing)
    return module("hexcute_kernels").operator_named(name)


class Hexcute(CasePeer):
    """The operator called with `arguments(case, index)`, `options(case)` and `output(case, index)`.

    As called it has one candidate; `tuned`, one for each configuration. `variant` names the only
    variant to use, `config` fixes the constants of its configuration.
    """

    def __init__(
        self,
        name: str,
        called: str,
        arguments: Arguments,
        *,
        tuned: bool = False,
        variant: str | None = None,
        config: Mapping[str, Any] | None = None,
        options: Callable[[Any], Mapping[str, Any]] = lambda case: {},
        output: Callable[[Any, int], Any] = lambda case, index: case.output(index),
    ) -> None:
        self.name = name
        self._called, self._arguments, self._output = called, arguments, output
        self._tuned, self._variant, self._config = tuned, variant, config
        self._options = options

    def prepare(self, case: Case) -> Sequence[Candidate]:
        ours = operator(self._called)
        if self._tuned:
            tried = list(self._kind(ours, case).configs)
        elif self._config is not None:
            tried = [self._kind(ours, case).configs.kind(**self._config)]
        else:
            return [Candidate("as called", lambda: self._run(ours, case, None))]
        return [
            Candidate(config_name(config), lambda config=config: self._run(ours, case, config))
            for config in tried
        ]

    def _kind(self, ours: Any, case: Case) -> Any:
        """The variant named, else the one that the plain call takes."""
        name = self._variant
        if name is None:
            args = self._arguments(case, 0)
            name = ours.plan(ours.schema.bind(tuple(args), self._options(case))).variant
        return next(variant for variant in ours.variants if variant.name == name)

    def _run(self, ours: Any, case: Case, config: Any) -> Run:
        sets = range(case.sets)
        arguments = [tuple(self._arguments(case, index)) for index in sets]
        outputs = [self._output(case, index) for index in sets]
        options = {**self._options(case), "variant": self._variant, "config": config}

        def run(index: int) -> None:
            ours(*arguments[index], out=outputs[index], **options)

        return run


def hexcute(
    called: str, arguments: Arguments, *, name: str = "hexcute", **how: Any
) -> tuple[Hexcute, Hexcute]:
    """The two systems of an operator: as called, and tuned."""
    return (
        Hexcute(name, called, arguments, **how),
        Hexcute(f"{name}{TUNED}", called, arguments, tuned=True, **how),
    )
