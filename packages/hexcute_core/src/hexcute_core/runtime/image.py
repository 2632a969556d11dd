"""`KernelImage`: a compiled kernel as data, loadable on any GPU its machine code is for."""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.runtime.signature import Signature
from hexcute_core.thread import TensorMap


@dataclass(frozen=True)
class KernelImage:
    """Machine code and all a launch must know of it.

    `name` is the kernel's symbol in `cubin`, `arch` what the code was built for (`sm_90a`, or
    `sm_80` and its like), `shared_bytes` its dynamic shared memory, `block_dim` the threads of a
    block along x, y and z. `maps` are passed by value behind the signature's values, in order;
    a grid is whole clusters of `cluster_dim` blocks. A `dependent` kernel may start before the one
    ahead of it on the stream has ended, and waits for that itself.
    """

    name: str
    cubin: bytes
    arch: str
    shared_bytes: int
    block_dim: tuple[int, int, int]
    signature: Signature
    maps: tuple[TensorMap, ...] = ()
    cluster_dim: tuple[int, int, int] = (1, 1, 1)
    dependent: bool = False
