"""Runs of a compiled kernel on the CPU: its arguments bound as for a launch, or made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hexcute_core.driver.options import shown
from hexcute_core.driver.signature import constants_of
from hexcute_core.dtypes import BY_NAME
from hexcute_core.errors import LaunchError, SimulationError
from hexcute_core.runtime import HOST, Signature, TensorParam, bind
from hexcute_core.runtime.binding import BoundArguments
from hexcute_core.strides import reach
from hexcute_core.tile import TileProgram

if TYPE_CHECKING:
    from hexcute_core.driver.compiled import CompiledKernel
    from hexcute_core.driver.kernel import Kernel
    from hexcute_core.simulator import SimulationReport

MOST = 2**31
"""Elements of an array that is made up, and of each of its extents, are fewer."""
SMALL = 4
"""Made-up elements are integers from -4 to 4: sums of their products are exact."""


def bind_host(
    signature: Signature, divisors: Mapping[str, int], args: Sequence[Any]
) -> tuple[BoundArguments, dict[str, Any]]:
    """The arguments of one call as the kernel's values and as arrays by name.

    Raises LaunchError for arguments that do not fit, or lie on a GPU.
    """
    bound = bind(signature, args, divisors)
    if bound.device != HOST:
        raise LaunchError(
            f"{signature.kernel}: simulate takes numpy arrays",
            signature.span,
            "pass tensor.cpu().numpy()",
        )
    arrays = {
        param.name: array
        for param, array in zip(signature.params, args)
        if isinstance(param, TensorParam)
    }
    return bound, arrays


def compile_for(
    kernel: Kernel, args: Sequence[Any], target: str, constants: Mapping[str, object]
) -> CompiledKernel:
    """The kernel for `target`, specialised as a launch on `args` would be."""
    key = bind(kernel.signature, args, kernel.divisors).key
    whole = constants_of(kernel.definition, constants)
    return kernel.specialise(target, key, whole)


def make_arguments(signature: Signature, sizes: Mapping[str, object], seed: int) -> tuple[Any, ...]:
    """Arguments of a call: arrays of small integers drawn from `seed`, numbers from `sizes`.

    `sizes` gives each symbol and each scalar parameter its value. Raises LaunchError where one
    is missing or has no place.
    """
    wanted = [s.name for s in signature.symbols] + [s.name for s in signature.scalars]
    if set(wanted) != set(sizes):
        raise LaunchError(
            f"{signature.kernel} needs the sizes {', '.join(wanted) or '-'}, got "
            f"{', '.join(sizes) or 'none'}",
            signature.span,
            f"write --shape {' '.join(f'{name}=...' for name in wanted)}",
        )
    from hexcute_core.simulator.memory.strided import laid

    # A seed that is none is refused by the run.
    rng = np.random.default_rng(max(seed, 0))
    args: list[Any] = []
    for param in signature.params:
        if not isinstance(param, TensorParam):
            args.append(sizes[param.name])
            continue
        shape, strides = (
            tuple(e if isinstance(e, int) else _extent(signature, e, sizes) for e in numbers)
            for numbers in (param.shape, param.strides)
        )
        if (reach(shape, strides) if strides else prod(shape)) >= MOST:
            raise LaunchError(
                f"{signature.kernel}: {param.name} of shape {shape} does not fit the host",
                signature.span,
                "write --shape with smaller sizes",
            )
        per_byte = max(1, 8 // BY_NAME[param.dtype_name].bits)
        if shape[-1] % per_byte:
            raise LaunchError(
                f"{signature.kernel}: rows of {shape[-1]} elements of {param} are no whole bytes",
                signature.span,
                f"write --shape with a last extent that is a multiple of {per_byte}",
            )
        line = _array(param.dtype_name, (reach(shape, strides),) if strides else shape, rng)
        args.append(laid(line, shape, strides) if strides else line)
    return tuple(args)


def _extent(signature: Signature, name: str, sizes: Mapping[str, object]) -> int:
    extent = sizes[name]
    if type(extent) is not int or not 0 <= extent < MOST:
        raise LaunchError(
            f"{signature.kernel}: the extent {name} is {shown(extent)}, expected 0 to {MOST - 1}",
            signature.span,
            f"write --shape {name}=8",
        )
    return extent


def _array(dtype_name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    from hexcute_core.simulator.lanes.values import storage

    dtype = BY_NAME[dtype_name]
    if dtype.bits < 8:
        # Any bits are elements, a row being whole bytes.
        row = shape[-1] * dtype.bits // 8
        return rng.integers(0, 256, (*shape[:-1], row)).astype(np.uint8)
    low = 0 if dtype.kind in ("uint", "bool") else -SMALL
    high = 1 if dtype.kind == "bool" else SMALL
    return rng.integers(low, high + 1, shape).astype(np.float32).astype(storage(dtype))


def compare_with_tile_program(
    compiled: CompiledKernel, args: Sequence[Any], **options: Any
) -> tuple[SimulationReport, tuple[str, ...]]:
    """The report of a run on `args`, in place, and the names of the arrays in which it left
    something else than the tile program means.

    Raises SimulationError where the tile program itself cannot be interpreted.
    """
    from hexcute_core.simulator import interpret
    from hexcute_core.simulator.memory.strided import copied

    signature = compiled.signature
    meant_args = [copied(a) if isinstance(a, np.ndarray) else a for a in args]
    report = compiled.simulate(*args, **options)
    bound, meant = bind_host(signature, compiled.divisors, meant_args)
    interpret(compiled.tile, meant, _numbers(compiled.tile, bound), options.get("blocks"))
    _, left = bind_host(signature, compiled.divisors, args)
    wrong = (name for name in left if left[name].tobytes() != meant[name].tobytes())
    return report, tuple(wrong)


def _numbers(tile: TileProgram, bound: BoundArguments) -> dict[str, int | float]:
    known = {**bound.scalars, **bound.symbols}
    missing = [name for name in (*tile.symbols, *dict(tile.scalars)) if name not in known]
    if missing:
        raise SimulationError(f"{tile.name} does not get the sizes {missing}", tile.span)
    return {name: known[name] for name in (*tile.symbols, *dict(tile.scalars))}
