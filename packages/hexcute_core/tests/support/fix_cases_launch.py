"""Launches, calls and command lines that are refused, each with the words of its fix and with what
the fix says: `(fix, refused, taken)`, as in `fix_cases_stages`. What needs a GPU or torch is given
what answers as they do."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import numpy as np
import test_runtime_launch as fake
import test_runtime_maps as maps
from test_cuda_driver import Libcuda
from test_runtime_binding import GEMM, Tensor, call

import hexcute_core as hx
from hexcute_core.commands import named as by_name
from hexcute_core.driver.simulation import make_arguments
from hexcute_core.runtime import (
    ScalarParam,
    Signature,
    SymbolParam,
    TensorParam,
    bind,
    cuda_driver,
    make_binder,
)
from hexcute_core.runtime.cuda_driver import CudaDriver

COPY = """\
import hexcute_core as hx


@hx.kernel(cache=False)
def copied(x: hx.f32[8]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
"""


def named(spec, file="written.py"):
    """What the command line finds by `spec` in the folder of a file with one kernel."""
    def run():
        with TemporaryDirectory() as folder:
            (Path(folder) / file).write_text(COPY)
            return by_name.named(f"{folder}/{spec}")

    return run


def launched(grid=(1, 1, 1), statuses=(), capability=(9, 0), values=fake.VALUES, **image):
    """A launch on a driver that answers as libcuda does."""
    def run():
        driver = fake.FakeDriver(capability)
        driver.statuses = list(statuses)
        fake.kernel(driver, replace(fake.IMAGE, **image)).launch_bound(grid, 0, values)

    return run


def mapped(address=maps.A, k=520):
    values = (address, maps.B, 1000, 7, k)
    return lambda: maps.kernel(maps.MapDriver()).launch_bound((1, 1, 1), 0, values)


def bound(signature=GEMM, args=None, *, dtypes=("float16", "float32", "int8"), **changes):
    """What a launch binds, with a torch that has these types."""
    def run():
        torch = ModuleType("torch")
        torch.__version__ = "0"
        for name in dtypes:
            setattr(torch, name, sys.intern(f"torch.{name}"))
        with patch.dict(sys.modules, torch=torch):
            given = call(**{k: make() for k, make in changes.items()}) if args is None else args()
            return make_binder(signature)(given)

    return run


def on_host(signature, make):
    """What a simulation binds of one argument."""
    return lambda: bind(signature, [make()])


def entry(present):
    """A call of a driver that has an entry point, or has not."""
    def run():
        library = Libcuda()
        with patch.object(cuda_driver, "_open", lambda: library):
            driver = CudaDriver()
        if not present:
            driver._lib = SimpleNamespace()
        return driver.device_count()

    return run


BYTES = Signature("k", (TensorParam("x", "i8", ("n",)),), (SymbolParam("n"),))
BRAIN = Signature("k", (TensorParam("a", "bf16", ("m",)),), (SymbolParam("m"),))
NUMBER, WIDER = (Signature("k", (ScalarParam("flag", name),)) for name in ("i8", "i16"))
M, Q = SymbolParam("m"), SymbolParam("q")
HALVES = TensorParam("a", "f16", ("m",))


class Number:
    """A tensor of one element."""

    def item(self):
        return 0.5


RUNTIME = [
    ("install a newer torch", bound(BRAIN, lambda: [Tensor((8,), "torch.bfloat16")]),
     bound(BRAIN, lambda: [Tensor((8,), "torch.bfloat16")], dtypes=("bfloat16",))),
    ("update the NVIDIA driver", entry(present=False), entry(present=True)),
    ('compile it with target="sm_80"', launched(capability=(8, 0)),
     launched(capability=(8, 0), arch="sm_80")),
    ('compile it with target="sm_86"', launched(capability=(8, 7)),
     launched(capability=(8, 7), arch="sm_86")),
    ('compile it with target="sm_90"', launched(arch="sm_80"), launched(arch="sm_90a")),
    ("run it on another GPU", launched(capability=(12, 0)), launched(capability=(9, 0))),
    ("use smaller shared tensors or fewer pipeline stages", launched(shared_bytes=300_000),
     launched(shared_bytes=200_000)),
    ("put the longest dimension along x", launched((1, 70000, 1), [1]), launched((70000, 1, 1))),
    ("give each block more of the work", launched((2**31, 1, 1), [1]), launched((2**30, 1, 1))),
    ("round the grid up, and let the blocks past the end do nothing",
     launched((3, 1, 1), [1], cluster_dim=(2, 1, 1)), launched((4, 1, 1), cluster_dim=(2, 1, 1))),
    ("pass parts of the tensor, a launch each", on_host(BYTES, lambda: np.empty(2**31, np.int8)),
     on_host(BYTES, lambda: np.empty(2**30, np.int8))),
    ("pass alpha.item()", bound(alpha=Number), bound(alpha=lambda: Number().item())),
    ("pass a number that i8 has, or declare the parameter wider",
     on_host(NUMBER, lambda: 200), on_host(NUMBER, lambda: 100)),
    ("pass a number that i8 has, or declare the parameter wider", on_host(NUMBER, lambda: 200),
     on_host(WIDER, lambda: 200)),
    ("pass a.contiguous()", bound(a=lambda: Tensor((32, 40), strides=(1, 32))), bound()),
    ("pass a.to(torch.float16)", bound(a=lambda: Tensor((32, 40), "torch.float32")), bound()),
    ("pass a.cuda()", bound(a=lambda: Tensor((32, 40), device=-1)), bound()),
    ("pass c.to(", bound(c=lambda: Tensor((32, 24), device=1)), bound()),
    ("pass it as a scalar parameter",
     lambda: Signature("k", (HALVES,), (M, Q)),
     lambda: Signature("k", (HALVES, ScalarParam("q", "i32")), (M,))),
    ("pass a.clone()", mapped(maps.A + 8), mapped(maps.A)),
    ("pad the rows", mapped(k=65), mapped(k=72)),
]  # fmt: skip


k8, rows = hx.dim("k", multiple_of=8), hx.dim("n")


@hx.kernel(cache=False)
def promised(x: hx.f32[k8], y: hx.f32[rows, k8], *, BM: int = 8):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32


@hx.kernel(cache=False)
def summed(x: hx.f32[1, 2048], y: hx.f32[1, 1]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(hx.f32, (1, 2048))
    hx.copy(hx.global_view(x, ((1, 2048), (2048, 1))), r)
    hx.copy(hx.sum(r, 1), hx.global_view(y, ((1, 1), (1, 1))))


@hx.kernel(cache=False)
def placed(x: hx.f32[8]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32


def held(columns):
    """A kernel with a tile of 128 x `columns` numbers in shared memory."""
    @hx.kernel(cache=False)
    def kernel(x: hx.f32[128, columns]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 512
        s = hx.shared_tensor(hx.f32, (128, columns))
        r = hx.register_tensor(hx.f32, (128, columns))
        hx.copy(hx.global_view(x, ((128, columns), (columns, 1))), s)
        hx.syncthreads()
        hx.copy(s, r)
        hx.copy(r, hx.global_view(x, ((128, columns), (columns, 1))))

    return lambda: kernel.compile("sm_80").thread


def sums(values, **options):
    def run():
        x = np.asarray(values, np.float32).reshape(1, 2048)
        return summed.compile("sm_80").simulate(x, np.zeros((1, 1), np.float32), **options)

    return run


def unaligned(offset):
    """A simulation on an array `offset` bytes behind an aligned place."""
    whole = np.zeros(64 + 8192, np.uint8)
    at = -whole.ctypes.data % 16 + offset
    return whole[at : at + 8192].view(np.float32).reshape(1, 2048)


def at_offset(offset, **options):
    y = np.zeros((1, 1), np.float32)
    return lambda: summed.compile("sm_80", **options).simulate(unaligned(offset), y)


def shaped(k):
    return lambda: promised.simulate(np.zeros(k, np.float32), np.zeros((2, k), np.float32))


def sized(**sizes):
    return lambda: make_arguments(promised.signature, sizes, 0)


class OnGpu(Tensor):
    """A tensor on a GPU that gives its numbers."""

    def cpu(self):
        return SimpleNamespace(numpy=lambda: np.zeros(self.shape, np.float32))


OnGpu.__module__, OnGpu.__name__ = "torch", "Tensor"


def from_gpu(brought):
    def run():
        torch = ModuleType("torch")
        torch.float32 = sys.intern("torch.float32")
        with patch.dict(sys.modules, torch=torch):
            tensor = OnGpu((8,), "torch.float32")
            compiled = placed.compile("sm_80")
            return compiled.simulate(tensor.cpu().numpy() if brought else tensor)

    return run


ROUNDED = np.random.default_rng(1).standard_normal(2048) ** 5

DRIVER = [
    ("write FILE.py:KERNEL", named("nowhere.py:copied"), named("written.py:copied")),
    ("write FILE.py:KERNEL", named("written.txt:copied", "written.txt"),
     named("written.py:copied")),
    ("use one of copied", named("written.py:other"), named("written.py:copied")),
    ("pad the tensor, or drop the promise", shaped(61), shaped(64)),
    ("write --shape k=... n=...", sized(), sized(k=8, n=2)),
    ("pass tensor.cpu().numpy()", from_gpu(brought=False), from_gpu(brought=True)),
    ("pass np.ascontiguousarray(a)",
     lambda: bind(GEMM, [np.zeros((5, 3), np.float16).T, np.zeros((4, 5), np.float16), 1.0,
                         np.zeros((3, 4), np.float16)]),
     lambda: bind(GEMM, [np.ascontiguousarray(np.zeros((5, 3), np.float16).T),
                         np.zeros((4, 5), np.float16), 1.0, np.zeros((3, 4), np.float16)])),
    ("its constants are BM", lambda: promised.compile("sm_80", BN=8),
     lambda: promised.compile("sm_80", BM=8)),
    ("its constants are none", lambda: placed.compile("sm_80", BN=8),
     lambda: placed.compile("sm_80")),
    ("use smaller tiles or fewer stages", held(512), held(256)),
    ("where sums of floats round, give it small whole numbers", sums(ROUNDED, compare=True),
     sums(np.arange(2048) % 7, compare=True)),
    ("or compare=False", sums(ROUNDED, compare=True), sums(ROUNDED, compare=False)),
    ("compile it with aligned=False", at_offset(4), at_offset(4, aligned=False)),
    ("or call the kernel itself", at_offset(4),
     lambda: summed.simulate(unaligned(4), np.zeros((1, 1), np.float32))),
]  # fmt: skip

CALLS = [*RUNTIME, *DRIVER]
