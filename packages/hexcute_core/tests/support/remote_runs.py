"""The kernels that reach into other blocks, launched on a GPU.

Run as a script, every case once, for a tool that watches accesses:
`compute-sanitizer --tool memcheck python remote_runs.py`, and the same with `--tool racecheck`.
"""

from __future__ import annotations

import numpy as np
from remote_cases import CASES, RemoteCase


def launch(case: RemoteCase) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel of a case leaves in its last tensor, and what it is meant to."""
    import torch

    arrays, meant = case.arguments()
    tensors = [torch.from_numpy(array).cuda() for array in arrays]
    case.kernel(*tensors, **case.constants)
    torch.cuda.synchronize()
    return tensors[-1].cpu().numpy(), meant


def main() -> None:
    """Every case once; a wrong one ends with its name."""
    for case in CASES:
        left, meant = launch(case)
        assert np.array_equal(left, meant), case.name


if __name__ == "__main__":
    main()
