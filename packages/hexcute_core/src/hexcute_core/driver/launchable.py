"""Launchable = machine code with its grid, as each GPU launches it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexcute_core.driver.built import Built
from hexcute_core.driver.grid import GridFunction, grid_function, number_function
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import KernelImage, LoadedKernel, Signature, multiprocessors
from hexcute_core.scalar import MULTIPROCESSORS, Scalar, as_scalar, free_vars, show, substitute


def promising(
    grid: GridFunction,
    promised: Sequence[tuple[Scalar, int]],
    names: Sequence[str],
    signature: Signature,
) -> GridFunction:
    """`grid`, which refuses values that break what the kernel relies on."""
    asked = [(number_function(e, names), e, multiple) for e, multiple in promised]

    def checked(values: Sequence[Any]) -> tuple[int, int, int]:
        for number, e, multiple in asked:
            if number(values) % multiple:
                raise LaunchError(
                    f"{signature.kernel}: {show(e)} is {number(values)}, which is no multiple of "
                    f"{multiple}, as hx.multiple_of promises",
                    signature.span,
                    "pass another number, or promise one that divides it",
                )
        return grid(values)

    return checked


class Launchable:
    """Loaded at the first launch; a grid that depends on the GPU is worked out once for each."""

    def __init__(self, built: Built, signature: Signature) -> None:
        self._built, self._signature = built, signature
        image = KernelImage(
            built.entry, built.cubin, built.arch, built.shared_bytes, (built.block_dim, 1, 1),
            signature, built.maps, built.cluster_dim, built.dependent,
        )  # fmt: skip
        self._loaded = LoadedKernel(image)
        self._grids: dict[int, GridFunction] = {}

    def on(self, device: int) -> tuple[LoadedKernel, GridFunction]:
        """The kernel as the runtime launches it, and its grid as a function of the values."""
        if device not in self._grids:
            grid = self._built.grid_dim
            if any(MULTIPROCESSORS.name in free_vars(e) for e in grid):
                count = as_scalar(multiprocessors(device))
                grid = tuple(substitute(e, {MULTIPROCESSORS.name: count}) for e in grid)
            names = self._signature.value_names
            grid_of = grid_function(grid, names)
            if self._built.promised:
                grid_of = promising(grid_of, self._built.promised, names, self._signature)
            self._grids[device] = grid_of
        return self._loaded, self._grids[device]
