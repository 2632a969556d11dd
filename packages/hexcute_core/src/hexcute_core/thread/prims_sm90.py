"""Hopper's primitives: operand kinds and the one PTX instruction each means.

| primitive | operands | meaning |
|---|---|---|
| `mbarrier.init` | SharedPtr, int count | one thread; `count` arrivals complete a phase |
| `mbarrier.expect` | SharedPtr, int bytes | arrive and expect `bytes` more in this phase |
| `mbarrier.arrive` | SharedPtr | one arrival, release |
| `mbarrier.arrive.cluster` | SharedPtr, int rank | at block `rank`, same address, relaxed |
| `mbarrier.arrive.cluster.release` | the same | and releases to the cluster |
| `mbarrier.wait` | SharedPtr, int parity | until the phase of that parity has completed, acquire |
| `mbarrier.wait.cluster` | the same | and acquires from the cluster |
| `cp.async.mbarrier` | SharedPtr | arrives when this thread's cp.async so far have (noinc) |
| `fence.mbarrier` | - | initialised barriers become visible to the cluster and async proxy |
| `fence.proxy` | - | shared memory this thread wrote becomes visible to the async proxy |
| `fence.proxy.global` | - | global memory this thread wrote does |
| `tma.load` | SharedPtr dst, MapRef, SharedPtr mbarrier | a box, its bytes complete there |
| `tma.load.multicast` | the same, int mask | to the same addresses of the blocks in `mask` |
| `tma.store` | MapRef, SharedPtr src | a box, clipped to the tensor; bulk group |
| `tma.reduce.add`, `.min`, `.max` | the same | combines a box with what is there; bulk group |
| `tma.load.H`, `tma.store.H`, ... | the same | with a cache hint H: `evict_first`, `evict_last` |
| `tma.prefetch` | MapRef | a box into L2 |
| `bulk.load` | SharedPtr dst, GlobalPtr src, int bytes, SharedPtr mbarrier | contiguous bytes |
| `bulk.store` | GlobalPtr dst, SharedPtr src, int bytes | contiguous bytes; bulk group |
| `tma.commit` | - | closes the bulk group |
| `tma.wait`, `tma.wait.read` | int pending | bulk groups finished / their sources read |
| `wgmma.fence` | - | registers written before are visible to wgmma |
| `wgmma.commit`, `wgmma.wait` | - / int pending | groups of asynchronous products |
| `wgmma.64xNxK.D.A.B.XY` | Regs c, MatrixDesc or Regs a, MatrixDesc b, bool accumulate | |
| `setmaxnreg.inc`, `setmaxnreg.dec` | int registers | warp-group wide |
| `bar.named.sync`, `bar.named.arrive` | int id, int threads | barriers 1 to 15 |
| `bar.named.any` | Regs flag, int id, int threads | 1 where it is not 0 in any of the threads |
| `cluster.arrive`, `cluster.wait` | - | release / acquire |
| `ld.cluster.B`, `st.cluster.B` | Regs, RemotePtr / RemotePtr, Regs | B bytes of another block |
| `stmatrix.xN`, `stmatrix.xN.trans` | SharedPtr row, Regs src (N pieces of 4 bytes) | |
| `griddepcontrol.wait`, `griddepcontrol.launch` | - | programmatic dependent launch |

In wgmma's name X and Y say how A and B lie: `k` K-major, `m` M- or N-major; X is `r` for A in
registers. c becomes c + a * b^T, or a * b^T where `accumulate` is false; it has N / 2 elements per
thread.
"""

from __future__ import annotations

from dataclasses import replace

from hexcute_core.arch.boxes import HINTS, REDUCED
from hexcute_core.arch.features import Feature
from hexcute_core.dtypes import BY_NAME
from hexcute_core.thread.spec import Matrices, OperandKind, PrimSpec, Product

WGMMA_K = {"f16": 16, "bf16": 16, "tf32": 8, "f8e4m3": 32, "f8e5m2": 32, "i8": 32, "u8": 32}
"""K of one instruction, by element type."""

_FLOATS = (
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"), ("f32", "f8e4m3", "f8e4m3"), ("f32", "f8e4m3", "f8e5m2"),
    ("f32", "f8e5m2", "f8e4m3"), ("f32", "f8e5m2", "f8e5m2"), ("f16", "f8e4m3", "f8e4m3"),
)  # fmt: skip
_INTEGERS = (("i32", "i8", "i8"), ("i32", "u8", "u8"))


def wgmma_widths(a: str) -> tuple[int, ...]:
    """The N that wgmma takes for operand type `a`."""
    if a in ("i8", "u8"):
        return (8, 16, 24, *range(32, 257, 16))
    return tuple(range(8, 257, 8))


def wgmma_majors(a: str) -> tuple[str, ...]:
    """How A and B may lie for operand type `a`; only 16-bit types may be M- or N-major."""
    if a in ("f16", "bf16"):
        return ("kk", "km", "mk", "mm", "rk", "rm")
    return ("kk", "rk")


def _wgmma_rows() -> list[PrimSpec]:
    rows = []
    for d, a, b in (*_FLOATS, *_INTEGERS):
        for n in wgmma_widths(a):
            for majors in wgmma_majors(a):
                first: OperandKind = "regs" if majors[0] == "r" else "desc"
                name = f"wgmma.64x{n}x{WGMMA_K[a]}.{d}.{a}.{b}.{majors}"
                c, left, right = (BY_NAME[t] for t in (d, a, b))
                product = Product(64, n, WGMMA_K[a], c, left, right, majors)
                row = PrimSpec(name, ("regs", first, "desc", "scalar"), 0, "wgmma", product)
                rows.append(row)
    return rows


_NEEDS: dict[str, Feature] = {
    "wgmma.fence": "wgmma", "wgmma.commit": "wgmma", "wgmma.wait": "wgmma",
    "setmaxnreg.inc": "setmaxnreg", "setmaxnreg.dec": "setmaxnreg",
    "cluster.arrive": "clusters", "cluster.wait": "clusters",
    "mbarrier.arrive.cluster": "clusters", "mbarrier.arrive.cluster.release": "clusters",
    "mbarrier.wait.cluster": "clusters",
    **{f"{way}.cluster.{size}": "clusters" for way in ("ld", "st") for size in (1, 2, 4, 8, 16)},
}  # fmt: skip
"""What a GPU must have for a primitive, where that is not "tma"."""


def hopper_rows() -> list[PrimSpec]:
    """All of the table above."""
    rows = [
        PrimSpec("mbarrier.init", ("shared", "scalar")),
        PrimSpec("mbarrier.expect", ("shared", "scalar")),
        PrimSpec("mbarrier.arrive", ("shared",)),
        PrimSpec("mbarrier.arrive.cluster", ("shared", "scalar")),
        PrimSpec("mbarrier.arrive.cluster.release", ("shared", "scalar")),
        PrimSpec("mbarrier.wait", ("shared", "scalar")),
        PrimSpec("mbarrier.wait.cluster", ("shared", "scalar")),
        PrimSpec("cp.async.mbarrier", ("shared",)),
        PrimSpec("fence.mbarrier", ()),
        PrimSpec("fence.proxy", ()),
        PrimSpec("fence.proxy.global", ()),
        PrimSpec("tma.prefetch", ("map",)),
        PrimSpec("bulk.load", ("shared", "global", "scalar", "shared")),
        PrimSpec("bulk.store", ("global", "shared", "scalar")),
        PrimSpec("tma.commit", ()),
        PrimSpec("tma.wait", ("scalar",)),
        PrimSpec("tma.wait.read", ("scalar",)),
        PrimSpec("wgmma.fence", ()),
        PrimSpec("wgmma.commit", ()),
        PrimSpec("wgmma.wait", ("scalar",)),
        PrimSpec("setmaxnreg.inc", ("scalar",)),
        PrimSpec("setmaxnreg.dec", ("scalar",)),
        PrimSpec("bar.named.sync", ("scalar", "scalar")),
        PrimSpec("bar.named.arrive", ("scalar", "scalar")),
        PrimSpec("bar.named.any", ("regs", "scalar", "scalar"), 4),
        PrimSpec("cluster.arrive", ()),
        PrimSpec("cluster.wait", ()),
        PrimSpec("griddepcontrol.wait", ()),
        PrimSpec("griddepcontrol.launch", ()),
    ]
    stores = ("tma.store", *(f"tma.reduce.{operation}" for operation in REDUCED))
    for hint in ("", *(f".{hint}" for hint in HINTS)):
        rows.append(PrimSpec(f"tma.load{hint}", ("shared", "map", "shared")))
        multicast = f"tma.load.multicast{hint}"
        rows.append(PrimSpec(multicast, ("shared", "map", "shared", "scalar")))
        rows += [PrimSpec(f"{store}{hint}", ("map", "shared")) for store in stores]
    for size in (1, 2, 4, 8, 16):
        rows.append(PrimSpec(f"ld.cluster.{size}", ("regs", "remote"), size))
        rows.append(PrimSpec(f"st.cluster.{size}", ("remote", "regs"), size))
    for count in (1, 2, 4):
        for suffix in ("", ".trans"):
            name, matrices = f"stmatrix.x{count}{suffix}", Matrices(count, bool(suffix))
            rows.append(PrimSpec(name, ("shared", "regs"), 4 * count, what=matrices))
    return [*(replace(row, needs=_NEEDS.get(row.name, "tma")) for row in rows), *_wgmma_rows()]


HOPPER: frozenset[str] = frozenset(row.name for row in hopper_rows())
"""The names of the table."""
