"""Which of the runs that tests simulate are repeated on a GPU, bit for bit, and why others are not.

Where HEXCUTE_COMPARISONS is set, the tests' conftest registers `Comparisons`. What a test that
passed has simulated is launched, or becomes a row that says why it was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gpu_mirror
import numpy as np
import pytest

import hexcute_core.simulator
from hexcute_core.errors import BackendError, ToolchainError
from hexcute_core.scalar import Binary, Call, Const, Scalar, Unary
from hexcute_core.scalar.visit import walk
from hexcute_core.simulator.findings import FoundError
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.simulator.launch import simulate
from hexcute_core.simulator.memory.strided import copied
from hexcute_core.thread import PRIMS, GlobalPtr, MapRef, Prim, ThreadProgram, visit
from hexcute_core.thread.prims_atomics import ATOMICS
from hexcute_core.thread.visit import statements

APPROXIMATE = frozenset(
    {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "tanh", "sin", "cos", "erf", "div",
     "pow"}
)  # fmt: skip
"""Operations on floats whose last bits differ between machines."""
SUMMING = frozenset({"add", "sub", "mul"})
SUMS = ("mma.", "wgmma.64", "red.", "atom.", "tma.reduce.add")
STORES = ("st.global", "bulk.store", "tma.store")
KNOWN = frozenset(PRIMS)
"""The primitives that there are; a test may add some that no GPU has."""
VOTES = frozenset({"vote.all", "vote.any", "vote.ballot"})
SCHEDULES = 4
"""How many orders a run is tried in whose result may depend on them."""


@dataclass(frozen=True)
class Run:
    """A simulated run: the arrays before and after; `skipped` says why it is not to be repeated,
    where that is known already."""

    program: ThreadProgram
    before: Mapping[str, Any]
    scalars: Mapping[str, Any]
    after: Mapping[str, Any]
    report: Any
    skipped: str = ""


class Comparisons:
    """The plugin. `everywhere` makes it see each simulation."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def everywhere(self) -> Comparisons:
        """Stands in for the simulator's entry; to be called before modules import that."""
        hexcute_core.simulator.simulate = self.simulate
        return self

    def simulate(
        self, program: ThreadProgram, arrays: Any, scalars: Any, blocks: Any = None, **options: Any
    ) -> Any:
        """As the simulator's, noting the run."""
        before = {name: copied(np.asarray(array)) for name, array in arrays.items()}
        try:
            report = simulate(program, arrays, scalars, blocks, **options)
        except FoundError as error:
            found = f"it ended with a finding: {error.finding.kind}"
            self.runs.append(Run(program, before, scalars, {}, None, found))
            raise
        skipped = ""
        if not options.get("check", True):
            skipped = "it ran for its findings"
        elif blocks is not None:
            skipped = "only some of its blocks ran"
        elif program.stamps is not None:
            skipped = "it ran for its timeline"
        after = {name: copied(np.asarray(array)) for name, array in arrays.items()}
        self.runs.append(Run(program, before, dict(scalars), after, report, skipped))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Repeats the runs of a test that passed; tests on the GPU compare for themselves."""
        try:
            yield
            if item.get_closest_marker("gpu") is None:
                for run in self.runs:
                    repeat(run)
        finally:
            self.runs.clear()


def repeat(run: Run) -> None:
    """Compares the run with a GPU's, or writes down why not. Where numbers that it adds or
    multiplies are not exact, it is simulated again with its inputs rounded to whole ones."""
    name, blocks = run.program.name, len(run.report.blocks) if run.report else 0
    if reason := run.skipped or unfit(run):
        gpu_mirror.record((name, gpu_mirror.needs(run.program), blocks, "", "", "", reason))
        return
    if sums(run.program) and not all(map(exact, inputs(run).values())):
        name, run = f"{name}, inputs rounded", rounded(run)
    gpu_mirror.replay(name, run.program, run.before, run.scalars, run.after, run.report)


def unfit(run: Run) -> str:
    """Why a GPU cannot be asked for the run's bits; empty where it can."""
    program, target = run.program, gpu_mirror.needs(run.program)
    if not run.report.blocks:
        return "its grid is empty"
    if not run.after:
        return "it has no tensors"
    if target > gpu_mirror.device_target():
        return f"it needs {target}"
    nodes, names = list(nodes_of(program)), called(program)
    foreign = {n for n in names if n not in KNOWN}
    asked = {n.name for n in nodes if isinstance(n, Call)} - VOTES
    foreign |= {name for name in asked if not name.startswith("shfl.")}
    if foreign and not compiles(run):
        return f"there is no machine code for {', '.join(sorted(foreign))}"
    if found := sorted(operations(nodes) & APPROXIMATE):
        return f"it approximates: {', '.join(found)}"
    constants = (n.value for n in nodes if isinstance(n, Const) and n.dtype.is_float)
    if sums(program) and not all(map(exact, constants)):
        return "it adds or multiplies constants of many bits"
    drawn = any(n in ATOMICS for n in names)
    if not run.report.deterministic or (drawn and not ordered(run)):
        return "its result depends on the order of threads"
    return ""


def called(program: ThreadProgram) -> list[str]:
    """The names of the program's primitives."""
    return [s.name for s in statements(program.body) if isinstance(s, Prim)]


def operations(nodes: Iterable[Scalar]) -> set[str]:
    """What the nodes do with floats."""
    return {n.op for n in nodes if isinstance(n, (Unary, Binary)) and n.dtype.is_float}


def sums(program: ThreadProgram) -> bool:
    """Whether the order or the contraction of its operations shows where floats round."""
    names = called(program)
    return any(n.startswith(SUMS) for n in names) or bool(
        operations(nodes_of(program)) & SUMMING
    )


def compiles(run: Run) -> bool:
    """Whether the backend and the toolchain know what the program calls."""
    try:
        gpu_mirror.image_of(run.program, run.before, gpu_mirror.device_target())
    except (BackendError, ToolchainError):
        return False
    return True


def nodes_of(program: ThreadProgram) -> Iterator[Scalar]:
    """Every node of the scalars in the program's statements."""
    for stmt in statements(program.body):
        for scalar in visit.scalars(stmt):
            yield from walk(scalar)


def inputs(run: Run) -> dict[str, np.ndarray]:
    """The floats that the program is given and reads, by parameter."""
    read = set()
    for stmt in statements(run.program.body):
        if isinstance(stmt, Prim) and not stmt.name.startswith(STORES):
            read |= {o.param for o in stmt.operands if isinstance(o, GlobalPtr)}
            read |= {o.name for o in stmt.operands if isinstance(o, MapRef)}
    read |= {m.param for m in run.program.maps if m.name in read}
    found = {}
    for p in run.program.params:
        if p.dtype.is_float and not p.pointer:
            found[p.name] = np.asarray(run.scalars[p.name], np.float64)
        elif p.dtype.is_float and p.name in read:
            found[p.name] = run.before[p.name].view(storage(p.dtype)).astype(np.float64)
    return found


def exact(values: Any) -> bool:
    """Whether all of `values` are multiples of an eighth, whose sums and products are exact."""
    return bool(np.all(np.rint(8 * np.asarray(values)) == 8 * np.asarray(values)))


def rounded(run: Run) -> Run:
    """The run with the floats that it reads rounded to integers, NaN to 0."""
    before, scalars = dict(run.before), dict(run.scalars)
    types = {p.name: storage(p.dtype) for p in run.program.params}
    for name, values in inputs(run).items():
        whole = np.where(np.isnan(values), 0, np.rint(values)).astype(types[name])
        if name in scalars:
            scalars[name] = float(whole)
        else:
            before[name] = copied(before[name])
            before[name][...] = whole
    after = {name: copied(array) for name, array in before.items()}
    report = simulate(run.program, after, scalars)
    return Run(run.program, before, scalars, after, report)


def ordered(run: Run) -> bool:
    """Whether every one of a few schedules leaves the same."""
    arrays = {name: copied(array) for name, array in run.before.items()}
    return simulate(run.program, arrays, run.scalars, schedules=SCHEDULES).deterministic
