"""`KernelImage`: a compiled kernel as data, loadable on any GPU its machine code is for."""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.runtime.signature import Signature


@dataclass(frozen=True)
class KernelImage:
    """Machine code and all a launch must know of it.

    `name` is the kernel's symbol in `cubin`, `arch` what the code was built for (`sm_90a`, or
    `sm_80` and its like), `shared_bytes` its dynamic shared memory, `block_dim` the threads of a
    block along x, y and z.
    """

    name: str
    cubin: bytes
    arch: str
    shared_bytes: int
    block_dim: tuple[int, int, int]
    signature: Signature
