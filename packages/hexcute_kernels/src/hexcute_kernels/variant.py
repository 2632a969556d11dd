"""What an operator is declared of: problems, and the variants that compute them, each with what it
needs, what it fits, its configurations and its launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, Union

import hexcute_core as hx
from hexcute_kernels.gpus import Gpu
from hexcute_kernels.tables import Config, Table
from hexcute_kernels.tensors import Output


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is known of a call's arguments besides their data. Operators add sizes, types and
    orders; `aligned` says that every tensor starts at a multiple of 16 bytes. `UNTUNED` are fields
    that say nothing of which configuration is fast."""

    UNTUNED: ClassVar[tuple[str, ...]] = ()
    aligned: bool = True


P = TypeVar("P", bound=Problem)
C = TypeVar("C", bound=Config)
Run = Callable[..., object]
"""Launches: takes the operator's arguments in order, then its outputs."""
Argument = Union[str, tuple[str, Callable[[Any], Any]], int, float]
"""What a kernel gets: the argument or output of the operator that has this name (an only output is
"out", several are "out0", "out1"), a view of it, or a number. A view starts where its tensor does,
or is empty."""


@dataclass(frozen=True)
class Launch:
    """One kernel on these arguments, in its order; the fields of `config`, a dataclass, are its
    compile-time constants."""

    kernel: hx.Kernel
    config: object
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Nothing:
    """The constants of a kernel that has none."""


@dataclass(frozen=True)
class Steps:
    """Launches one after the other. They hand on to each other what is in `work`, tensors that are
    made for each call and named "work0", "work1" and so on among the arguments."""

    work: tuple[Output, ...]
    launches: tuple[Launch, ...]


def always(problem: Any) -> str | None:
    """Fits every problem."""
    return None


@dataclass(frozen=True)
class Variant(Generic[P, C]):
    """One way to compute an operator.

    `needs` are features of the GPU (`gpus.features`), `fits` gives the reason why a problem is
    not for this variant, else None; `pays` why a later variant is faster, which counts where a call
    names neither variant nor configuration. `launch(problem, config)` says how such a problem is
    launched: a `Launch`, `Steps` where more than one kernel is needed, or a function of arguments
    and outputs. It is called once for each kind of call.
    """

    name: str
    needs: tuple[str, ...]
    configs: Table[C]
    launch: Callable[[P, C], Launch | Steps | Run]
    fits: Callable[[P], str | None] = always
    pays: Callable[[P], str | None] = always

    def refusal(self, gpu: Gpu, problem: P, asked: bool = False) -> str | None:
        """Why the variant does not compute the problem on this GPU, or None. Of one that is
        `asked` for, only why it cannot."""
        missing = [feature for feature in self.needs if feature not in gpu.features]
        if missing:
            return f"needs {' and '.join(missing)}, which {gpu.target} lacks"
        return self.fits(problem) or (None if asked else self.pays(problem))
