"""Programs of one kind in any size: the text of a kernel that has `n` of something.

A kind grows one thing alone. Texts are the same on every run.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from dataclasses import dataclass

from hexcute_bench.growth import language, memory
from hexcute_core import Kernel

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Kind:
    """What grows, and the text of a kernel, whose name is `kernel`, that has `n` of it.

    `most` is the largest size that the language, or a GPU, has room for.
    """

    group: str
    name: str
    text: Callable[[int], str]
    target: str = "sm_80"
    most: int = 64

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for size in SIZES if size <= self.most)


def load(kind: Kind, size: int) -> Kernel:
    """The kernel of one kind and size; its lines can be looked up like a file's."""
    text, name = kind.text(size), f"<{kind.name} {size}, {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, object] = {"__name__": __name__}
    exec(compile(text, name, "exec"), space)
    made = space["kernel"]
    assert isinstance(made, Kernel)
    return made


_numbers = itertools.count()


KINDS: tuple[Kind, ...] = (
    Kind("shared memory", "readers", memory.readers("nt")),
    Kind("shared memory", "mixed readers", memory.readers("ntg")),
    Kind("shared memory", "parts", memory.parts),
    Kind("shared memory", "writers", memory.writers),
    Kind("shared memory", "buffers", memory.buffers),
    Kind("shared memory", "chain", memory.chain),
    Kind("shared memory", "pipelines", memory.pipelines, "sm_90", most=16),
    Kind("products", "rearranges", language.rearranges),
    Kind("products", "conflicts", memory.conflicts),
    Kind("products", "gemms", memory.gemms),
    Kind("products", "chained gemms", memory.chained),
    Kind("products", "wgmmas", memory.wgmmas, "sm_90"),
    Kind("operations", "statements", language.statements, most=512),
    Kind("operations", "tiles", language.tiles, most=16),
    Kind("operations", "streams", language.streams),
    Kind("operations", "reductions", language.reductions),
    Kind("operations", "scans", language.scans),
    Kind("operations", "casts", language.casts),
    Kind("operations", "choices", language.choices),
    Kind("control", "busy loops", memory.asynchronous, "sm_90", most=16),
    Kind("control", "loops", language.sequential),
    Kind("control", "nested loops", language.loops),
    Kind("control", "counting loops", language.grids),
    Kind("control", "branches", language.branches),
    Kind("control", "nested branches", language.nested_branches),
    Kind("control", "conditions", language.otherwise),
    Kind("scalars", "scalars", language.scalars),
    Kind("scalars", "unrolled scalars", language.unrolled),
    Kind("scalars", "terms", language.sums),
    Kind("scalars", "elements", language.elements),
    Kind("scalars", "calls", language.calls, most=32),
    Kind("views", "parameters", language.parameters),
    Kind("views", "sub-modes", language.modes, most=8),
    Kind("views", "modes", language.indexed),
    Kind("views", "register parts", language.cuts),
)
