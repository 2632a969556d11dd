"""Launchable = machine code with its grid, as each GPU launches it."""

from __future__ import annotations

from hexcute_core.driver.built import Built
from hexcute_core.driver.grid import GridFunction, grid_function
from hexcute_core.runtime import KernelImage, LoadedKernel, Signature, multiprocessors
from hexcute_core.scalar import MULTIPROCESSORS, as_scalar, free_vars, substitute


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
            self._grids[device] = grid_function(grid, self._signature.value_names)
        return self._loaded, self._grids[device]
