"""Our operators, by name: as called, and by the fastest of their configurations.

    hexcute          the plain call: what a user gets
    hexcute_tuned    the best of the configurations of the variant that the plain call takes, by the
                     project's tuner
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

    `variant` names the only variant to use, `config` fixes the constants of its configuration.
    `changes`: an argument is changed in place, so that a replay of many launches is no call; the
    launch then gives its result, which is not looked at again after the replays.
    """

    def __init__(
        self,
        name: str,
        called: str,
        arguments: Arguments,
        *,
        variant: str | None = None,
        config: Mapping[str, Any] | None = None,
        options: Callable[[Any], Mapping[str, Any]] = lambda case: {},
        output: Callable[[Any, int], Any] = lambda case, index: case.output(index),
        changes: bool = False,
    ) -> None:
        self.name, self.called, self.variant = name, called, variant
        self._arguments, self._output = arguments, output
        self._config, self._options, self._changes = config, options, changes

    def prepare(self, case: Case) -> Sequence[Candidate]:
        ours = operator(self.called)
        if self._config is None:
            return [Candidate("as called", lambda: self.run(case, None))]
        kind = next(v for v in ours.variants if v.name == self.variant).configs.kind
        config = kind(**self._config)
        return [Candidate(config_name(config), lambda: self.run(case, config))]

    def arguments(self, case: Case) -> tuple[Any, ...]:
        """All arguments of a call on the first set, in the operator's order."""
        schema = operator(self.called).schema
        bound: tuple[Any, ...] = schema.bind(self._arguments(case, 0), self._options(case))
        return bound

    def run(self, case: Case, config: Any) -> Run:
        """The launch on a set, by this configuration or the one that a call takes."""
        ours, sets = operator(self.called), range(case.sets)
        arguments = [tuple(self._arguments(case, index)) for index in sets]
        outputs = [self._output(case, index) for index in sets]
        options = {**self._options(case), "variant": self.variant, "config": config}

        def run(index: int) -> Any:
            ours(*arguments[index], out=outputs[index], **options)
            return outputs[index] if self._changes else None

        return run


class TunedHexcute(CasePeer):
    """The best of our configurations, which the project's own tuner chooses, in processes of its
    own: `of(case)` is the operator on a case."""

    def __init__(self, name: str, of: Callable[[Any], Hexcute]) -> None:
        self.name, self.of = name, of

    def prepare(self, case: Case) -> Sequence[Candidate]:
        raise PeerAbsent(f"{self.name} is tuned for the shapes of a suite")

    def tuned(self, case: Case, suite: str) -> Sequence[Candidate]:
        """The configuration that the tuner chose for a case of a suite."""
        ours = self.of(case)
        operator(ours.called)
        found = module("hexcute_bench.peers.tuned").tune_case(ours, case, suite, self.name)
        config, note = found
        return [Candidate(config_name(config), lambda: ours.run(case, config), note)]


def hexcute(
    called: str, arguments: Arguments, *, name: str = "hexcute", **how: Any
) -> tuple[Hexcute, TunedHexcute]:
    """The two systems of an operator: as called, and tuned."""
    ours = Hexcute(name, called, arguments, **how)
    return ours, TunedHexcute(f"{name}{TUNED}", lambda case: ours)
