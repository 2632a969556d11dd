"""Kernels whose every output bit a GPU and the simulator must agree on, with arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import cluster_kernels
import numpy as np
import role_kernels
import test_oracle_kernels as written
import test_stmatrix as stored
from gpu_mirror import bits_of, compare, on_gpu

import hexcute_core as hx
from hexcute_core import bf16, f8e4m3, f16, f32, i8, i32, tf32
from hexcute_core.driver.simulation import compile_for
from hexcute_core.runtime import bind, device_target
from hexcute_core.simulator.lanes.values import storage
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.simple import register_gemm, simple_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm


@dataclass(frozen=True)
class KernelCase:
    """A kernel, its compile-time constants, and how to make the arguments; `target` says whose
    instructions it is made of."""

    name: str
    kernel: Callable[[], Any]
    arguments: Callable[[], tuple[np.ndarray, ...]]
    constants: dict[str, Any] = field(default_factory=dict)
    target: str = "sm_80"

    def __str__(self) -> str:
        return self.name


SHAPES = [(128, 128, 256), (200, 136, 264), (77, 65, 45), (1, 24, 40)]


def matrices(dtype, total, shape, orders=("k", "k")):
    """a, b and a poisoned c of a product; sums of products are small integers."""
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a = rng.integers(-2, 3, (m, k) if orders[0] == "k" else (k, m))
    b = rng.integers(-2, 3, (n, k) if orders[1] == "k" else (k, n))
    c = np.full((m, n), 77).astype(storage(total))
    return a.astype(storage(dtype)), b.astype(storage(dtype)), c


@cache
def kernel_of(function):
    return hx.kernel(function, cache=False)


@cache
def typed(element, total):
    return hx.kernel(written.typed_gemm(element, total), cache=False)


def kernels() -> Iterator[KernelCase]:
    for dtype in (f16, bf16):
        for orders in [(a, b) for a in "km" for b in "kn"]:
            for shape in SHAPES[:3] if dtype is f16 else SHAPES[1:2]:
                yield KernelCase(
                    f"pipelined_gemm_{dtype}_{''.join(orders)}_{'x'.join(map(str, shape))}",
                    lambda d=dtype, o=orders: pipelined_gemm(d, *o),
                    lambda d=dtype, o=orders, s=shape: matrices(d, d, s, o),
                    {"BM": 64, "BN": 64, "BK": 32, "STAGES": 3},
                )
            yield KernelCase(
                f"simple_gemm_{dtype}_{''.join(orders)}",
                lambda d=dtype, o=orders: register_gemm(d, *o),
                lambda d=dtype, o=orders: matrices(d, d, SHAPES[1], o),
                {"BM": 64, "BN": 64},
            )
    for shape in SHAPES:
        yield KernelCase(
            f"simple_gemm_{'x'.join(map(str, shape))}",
            lambda: simple_gemm,
            lambda s=shape: matrices(f16, f16, s),
        )
        yield KernelCase(
            f"pipelined_{'x'.join(map(str, shape))}",
            lambda: kernel_of(written.pipelined),
            lambda s=shape: matrices(f16, f32, s),
        )
    for element, total in ((bf16, f32), (tf32, f32), (i8, i32)):
        yield KernelCase(
            f"typed_gemm_{element}",
            lambda e=element, t=total: typed(e, t),
            lambda e=element, t=total: matrices(e, t, (80, 64, 144)),
        )
    for rows, columns in ((256, 64), (301, 37)):
        yield KernelCase(
            f"column_sums_{rows}x{columns}",
            lambda: kernel_of(written.column_sums),
            lambda r=rows, c=columns: (
                np.random.default_rng(r).integers(-50, 50, (r, c)).astype(np.float32),
                np.full((1, c), 77, np.float32),
            ),
        )


def hopper_kernels() -> Iterator[KernelCase]:
    """The same kernels made of Hopper's instructions, and the one with roles."""
    shape = SHAPES[1]
    for name, kernel, dtype in (
        ("simple_gemm", lambda: simple_gemm, f16),
        ("pipelined", lambda: kernel_of(written.pipelined), f32),
    ):
        yield KernelCase(
            f"{name}_sm_90", kernel, lambda t=dtype: matrices(f16, t, shape), target="sm_90"
        )
    cases = [(f16, (a, b)) for a in "km" for b in "kn"] + [(bf16, ("k", "k")), (f8e4m3, "kk")]
    for dtype, orders in cases:
        for consumers in (1, 2):
            yield KernelCase(
                f"hopper_gemm_{dtype}_{''.join(orders)}_{consumers}",
                lambda d=dtype, o=orders: warp_specialized_gemm(d, *o, f32),
                lambda d=dtype, o=orders: matrices(d, f32, (200, 144, 272), o),
                {"BM": 128, "BN": 64, "STAGES": 3, "CONSUMERS": consumers},
                "sm_90",
            )


def schedules() -> Iterator[KernelCase]:
    """The Hopper GEMM by blocks that stay, warp groups in turns, and clusters."""
    for schedule in ("tile", "persistent", "pingpong"):
        for cluster in ("", "CLUSTER_M", "CLUSTER_N"):
            rows = 64 if schedule == "pingpong" else 128
            constants = {"BM": rows, "BN": 64, "STAGES": 3, "SCHEDULE": schedule}
            if cluster:
                constants[cluster] = 2
            yield KernelCase(
                f"hopper_gemm_{schedule}_{cluster or 'alone'}",
                lambda: warp_specialized_gemm(f16),
                lambda: matrices(f16, f16, (456, 520, 136)),
                constants,
                "sm_90",
            )
    for name, kernel in (("straight", stored.straight), ("turned", stored.turned)):
        yield KernelCase(
            f"stmatrix_{name}",
            lambda k=kernel: k,
            lambda: matrices(f16, f16, (64, 64, 64)),
            target="sm_90",
        )


def role(name, arguments, module=role_kernels, **constants) -> KernelCase:
    """A kernel of roles or clusters; its name tells the constants too."""
    label = "_".join([name, *(f"{key}{value}" for key, value in constants.items())])
    kernel = getattr(module, name)
    return KernelCase(f"{label}", lambda: kernel, arguments, constants, "sm_90")


def products(m, n, k, *, first=np.float16):
    """Arguments of c = a b^T."""

    def make():
        rng = np.random.default_rng(m + n + k)
        a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (n, k))
        return a.astype(first), b.astype(np.float16), np.full((m, n), 7, np.float16)

    return make


def one_tile(k, *outputs):
    """Arguments of a kernel that reads a matrix [64, k] and writes `outputs` (columns, type)."""

    def make():
        a = np.random.default_rng(k).integers(-3, 4, (64, k)).astype(np.float16)
        return a, *(np.full((64, columns), 7, t) for columns, t in outputs)

    return make


def chain(keys=192):
    """q, p, v of ones and zeros, and a poisoned o."""
    rng = np.random.default_rng(0)
    q, p, v = (rng.integers(-1, 2, (x, 64)).astype(np.float16) for x in (64, keys, keys))
    return q, p, v, np.full((64, 64), 7, np.float16)


def role_cases() -> Iterator[KernelCase]:
    """Every kernel of the tests' roles, pipelines, barriers and clusters."""
    for k in (8, 64, 320):
        for stages in (1, 3):
            case = role("consuming", products(64, 64, k), STAGES=stages)
            yield replace(case, name=f"{case}_k{k}")
    yield role("consuming", products(200, 88, 72), GROUPS=2)
    yield role("two_pipelines", products(64, 64, 448))
    yield role("two_readers", one_tile(320, (1, np.float32), (1, np.float16)))
    yield role("converting", products(64, 64, 192, first=np.float32))
    yield role("chained", chain)
    for shape in ((64, 64, 64), (1088, 1024, 64), (320, 64, 72)):
        case = role("taking_turns", products(*shape))
        yield replace(case, name=f"{case}_{'x'.join(map(str, shape))}")
    yield role("by_hand", one_tile(320, (320, np.float16)))
    yield role("handing_over", one_tile(192, (192, np.float16)))
    yield role("clustered", lambda: (np.zeros(4, np.int32),))
    for each in (False, True):
        yield role("starting_anew", products(64, 64, 192), EACH=each)
    yield role("starting_anew_in_registers", products(64, 64, 192))
    ck = cluster_kernels
    for width in (2, 4, 8):
        yield role("in_rows", products(64 * width, 136, 136), ck, X=width)
    yield role("in_rows", products(128, 64, 200), ck, REGISTERS=True)
    for x, y in ((2, 2), (1, 2), (4, 2)):
        yield role("in_squares", products(300, 260, 200), ck, X=x, Y=y)
    yield role("staying", products(1152, 1152, 136), ck)
    yield role("out_of_step", products(192, 64, 128), ck)


def leaves_the_same_bits(case: KernelCase) -> None:
    """Launches the case as a caller would, the instructions of its target in this GPU's machine
    code, and asserts that the simulator leaves the same."""
    kernel, args = case.kernel(), case.arguments()
    simulated = compile_for(kernel, args, case.target, case.constants)
    tensors = [on_gpu(array) for array in args]
    bound = bind(kernel.signature, tensors, kernel.divisors)
    whole = {c.name: case.constants.get(c.name, c.default) for c in kernel.definition.constants}
    compiled = kernel.specialise(case.target, bound.key, whole, device_target())
    loaded, grid = compiled.load()
    loaded.launch_bound(grid(bound.values), bound.device, bound.values)
    left = [bits_of(tensor) for tensor in tensors]
    report = simulated.simulate(*args, schedules=2)
    assert report.deterministic
    names = [param.name for param in kernel.signature.tensors]
    blocks = len(report.blocks)
    compare(str(case), case.target, blocks, dict(zip(names, left)), dict(zip(names, args)))


MMA_KERNELS = list(kernels())
HOPPER_KERNELS = [*hopper_kernels(), *schedules()]
ROLE_KERNELS = list(role_cases())
KERNELS = [*MMA_KERNELS, *HOPPER_KERNELS, *ROLE_KERNELS]
