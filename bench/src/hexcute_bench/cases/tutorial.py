"""The kernels of the tutorial, read from its pages, beside what torch calls for the same.

A shape's first size is named after the page, and is how many rows or heads there are.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    F16_TOLERANCE,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.errors import BenchError
from hexcute_bench.interface import Work
from hexcute_bench.report.places import BENCH
from hexcute_bench.shape import Shape

PAGES = BENCH.parent / "docs" / "tutorial"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
Size = tuple[int, ...]


@dataclass(frozen=True)
class Chapter:
    """What the kernel of a page takes and makes: the sizes of its inputs and of its result, all
    f16, torch's function of the same, and the work of both."""

    inputs: Callable[[Shape], tuple[Size, ...]]
    result: Callable[[Shape], Size]
    torch: Callable[..., Any]
    flops: Callable[[Shape], float]
    kernel: Callable[[Any, Shape], Any]


def _softmax(x: Any) -> Any:
    import torch

    return torch.softmax(x, -1)


def _attention(q: Any, k: Any, v: Any) -> Any:
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def _rows(name: str, torch: Callable[..., Any]) -> Chapter:
    def size(shape: Shape) -> Size:
        return shape.items[0][1], shape["columns"]

    def flops(shape: Shape) -> float:
        return float(size(shape)[0] * size(shape)[1])

    return Chapter(lambda s: (size(s),), size, torch, flops, lambda page, _: getattr(page, name))


def _product(name: str) -> Chapter:
    def sizes(shape: Shape) -> tuple[int, int, int]:
        return shape.items[0][1], shape["n"], shape["k"]

    def inputs(shape: Shape) -> tuple[Size, ...]:
        m, n, k = sizes(shape)
        return (m, k), (n, k)

    def flops(shape: Shape) -> float:
        m, n, k = sizes(shape)
        return 2.0 * m * n * k

    return Chapter(
        inputs, lambda s: sizes(s)[:2], lambda a, b: a @ b.T, flops,
        lambda page, _: getattr(page, name),
    )  # fmt: skip


def _heads(shape: Shape) -> Size:
    return shape.items[0][1], shape["s"], shape["d"]


def _attended(kernel: Callable[[Any, Shape], Any]) -> Chapter:
    def flops(shape: Shape) -> float:
        heads, s, d = _heads(shape)
        return 4.0 * heads * s * s * d

    return Chapter(lambda shape: (_heads(shape),) * 3, _heads, _attention, flops, kernel)


CHAPTERS = {
    "copy": _rows("copy", lambda x: x.clone()),
    "rows": _rows("softmax", _softmax),
    "product": _product("product"),
    "ahead": _product("ahead"),
    "roles": _product("roles"),
    "attention": _attended(lambda page, _: page.attention),
    "attention_roles": _attended(lambda page, shape: page.attention(shape["d"])),
}
"""By the name of the page."""


def load(name: str) -> Any:
    """The module that the first block of a page makes. Raises BenchError where there is none."""
    page = PAGES / f"{name}.md"
    if not page.is_file():
        raise BenchError(f"there is no page {page}: the suite runs in the project's folder")
    found = _BLOCK.search(page.read_text(encoding="utf-8"))
    if found is None:
        raise BenchError(f"the page {page} has no kernel")
    # A kernel's source is read again from its file.
    file = Path(tempfile.mkdtemp()) / f"{name}.py"
    file.write_text(found[1], encoding="utf-8")
    spec = util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TutorialCase(ComparedCase):
    """For each set i the kernel's inputs `given[i]` and `out[i]`, all f16."""

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        self.shape, self.tolerance = shape, F16_TOLERANCE
        self.chapter = CHAPTERS[shape.items[0][0]]
        self.sets = rotated_sets(tutorial_work(shape).bytes) if sets is None else sets
        half, sizes = torch.float16, self.chapter.inputs(shape)
        self.given = [[randn(size, half, device) for size in sizes] for _ in range(self.sets)]
        self.out = [poisoned(self.chapter.result(shape), half, device) for _ in range(self.sets)]

    def output(self, index: int) -> Any:
        return self.out[index]

    def right(self, index: int) -> Any:
        wide = (t.float() for t in self.given[index])
        return self.chapter.torch(*wide)


def tutorial_work(shape: Shape) -> Work:
    """Every tensor moved once, at two bytes."""
    chapter = CHAPTERS[shape.items[0][0]]
    count = 0
    for size in (*chapter.inputs(shape), chapter.result(shape)):
        elements = 1
        for extent in size:
            elements *= extent
        count += elements
    return Work(chapter.flops(shape), 2.0 * count)
