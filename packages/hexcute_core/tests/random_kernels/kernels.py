"""A kernel of a seed: a few kinds of statements, drawn again and again, in blocks of blocks."""

from __future__ import annotations

from random_kernels import (
    atomics,
    bulk,
    control,
    movement,
    operations,
    packed,
    roles,
    shapes,
    small,
)
from random_kernels.cells import Invalid
from random_kernels.running import Kernel, meant
from random_kernels.writer import Writer

STATEMENTS = {
    "move": movement.move,
    "shared parts": movement.shared_parts,
    "elementwise": operations.elementwise,
    "chosen": operations.chosen,
    "cast": operations.cast,
    "reduce": operations.reduce,
    "scan": operations.scan,
    "rearrange": operations.rearrange,
    "gemm": operations.gemm,
    "gemm parts": operations.gemm_parts,
    "register parts": operations.register_parts,
    "elements": operations.elements,
    "number": control.number,
    "combined": bulk.combined,
    "arrived": bulk.arrived,
    "updated": atomics.updated,
    "packed": packed.moved,
    "relabelled": packed.relabelled,
    "coordinates": small.coordinates,
    "bounded": small.bounded,
    "wide": small.wide,
    "scattered": small.scattered,
    "said": small.said,
}
BLOCKS = {"branch": control.branch, "loop": control.loop, "repeat": control.repeat}
ATTEMPTS = 50
ROLES = 10
"""One kernel of so many has roles."""


def random_kernel(seed):
    """The kernel of `seed`: the first of a sequence of drafts that has one meaning."""
    for draft in range(ATTEMPTS):
        w = roles.written(seed, draft) if seed % ROLES == 0 else _written(seed, draft)
        offset = int(w.own.choice((1, 2, 4))) if not w.aligned and w.chance(0.05) else 0
        kinds = tuple(sorted(set(w.kinds)))
        kernel = Kernel(w.text(), w.target, tuple(w.sizes.items()), seed, offset, kinds)
        try:
            meant(kernel)
        except Invalid:
            continue
        return kernel
    raise AssertionError(f"no draft of seed {seed} has one meaning")


def _written(seed, draft):
    w = Writer(seed, draft, None, None)
    w.target = w.pick(("sm_80", "sm_80", "sm_89", "sm_90", "sm_90"))
    w.threads = w.pick(shapes.THREADS)
    w.explicit = w.chance(0.15)
    w.grid = w.pick(((1,), (1,), (1,), (1,), (1,), (2,), (1, 2), (2, 2)))
    w.types = [w.pick(shapes.COMPUTED) for _ in range(w.number(1, 3))]
    w.shapes = [shapes.shape(w, r) for r in (None, 2, w.pick((1, 2, 3)))]
    names = list(STATEMENTS)
    favoured = [w.pick(names) for _ in range(w.number(2, 5))]
    blocks = [w.pick(list(BLOCKS)) for _ in range(w.number(1, 2))]
    share = w.pick((0.0, 0.2, 0.35))
    budget = [w.number(2, 5)]

    def statement(w, level=0):
        for _ in range(w.number(1, 2) if level else 1):
            if budget[0] <= 0:
                return
            budget[0] -= 1
            if level < control.MAX_LEVEL and w.chance(share):
                kind = w.pick(blocks)
                w.kinds.append(kind)
                BLOCKS[kind](w, lambda w: statement(w, level + 1))
                continue
            kind, before = w.pick(favoured), len(w.lines)
            STATEMENTS[kind](w)
            if len(w.lines) > before:
                w.kinds.append(kind)

    if w.chance(0.7):
        movement.load(w, w.types[0], w.shapes[0])
    while budget[0] > 0:
        statement(w)
    for held in w.held[-w.number(1, 3) :]:
        movement.store(w, held)
    return w
