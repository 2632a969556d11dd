"""The kernels of the tutorial's chapters, as they stand there, beside torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.tutorial import TutorialCase, load, tutorial_work
from hexcute_bench.interface import Candidate, CasePeer, KernelSuite, Run
from hexcute_bench.shape import Shape

_PRODUCT = {"n": 4096, "k": 4096}
SHAPES = (
    Shape.of(copy=8192, columns=8192),
    Shape.of(rows=8192, columns=4096),
    *(Shape.of({name: 4096, **_PRODUCT}) for name in ("product", "ahead", "roles")),
    Shape.of(attention=32, s=4096, d=64),
    Shape.of(attention_roles=32, s=4096, d=64),
    Shape.of(attention_roles=32, s=4096, d=128),
)


class AsWritten(CasePeer):
    """The chapter's kernel with the constants that it has there."""

    name = "hexcute"

    def prepare(self, case: TutorialCase) -> Sequence[Candidate]:
        page = load(case.shape.items[0][0])
        kernel = case.chapter.kernel(page, case.shape)

        def build() -> Run:
            def run(index: int) -> None:
                kernel(*case.given[index], case.out[index])

            return run

        return [Candidate("as written", build)]


class Torch(CasePeer):
    """What torch calls; results are kept, so that each set has memory of its own."""

    name = "torch"

    def prepare(self, case: TutorialCase) -> Sequence[Candidate]:
        made: dict[int, Any] = {}

        def run(index: int) -> Any:
            made[index] = case.chapter.torch(*case.given[index])
            return made[index]

        return [Candidate("eager", lambda: run)]


def regime(shape: Shape) -> str:
    """Those that memory bounds, and those that the Tensor Cores do."""
    return "rows" if shape.items[0][0] in ("copy", "rows") else "products"


TUTORIAL = KernelSuite(
    name="tutorial",
    title="The kernels of the tutorial",
    operator="",
    baseline="torch",
    shapes=SHAPES,
    quick=SHAPES[:2],
    peers=(AsWritten(), Torch()),
    case=TutorialCase,
    work=tutorial_work,
    regime=regime,
)
