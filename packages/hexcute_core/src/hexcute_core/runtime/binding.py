"""Arguments of a call -> (key, device, values), by straight-line code made once per signature.

A launch pays for this each time, so the checks are unrolled: one expression for all that must
hold, one tuple of results. What fails there is told apart by `mismatch.explain`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hexcute_core.errors import LaunchError, MissingDependency
from hexcute_core.runtime.mismatch import explain, is_torch
from hexcute_core.runtime.signature import (
    ALIGNMENT,
    ScalarParam,
    Signature,
    TensorParam,
    default_divisors,
    number_limits,
)
from hexcute_core.runtime.specialisation import LEVEL_BITS, NARROW_LIMIT, levels
from hexcute_core.runtime.storage import TENSOR_STORAGE, Storage
from hexcute_core.runtime.strided import steps_of
from hexcute_core.runtime.torch_link import INSTALL
from hexcute_core.strides import apart

Bound: TypeAlias = tuple[int, int, tuple[Any, ...]]
Binder: TypeAlias = Callable[[Sequence[Any]], Bound]
"""Takes the arguments in order; gives (specialisation key, device, the kernel's values)."""

HOST = -1
"""The device of arguments in the host's memory."""


@dataclass(frozen=True)
class BoundArguments:
    """One call's arguments, checked: addresses by tensor, numbers by scalar and by symbol.

    `key` is the specialisation's, `device` the GPU's ordinal or `HOST`, `values` the kernel's
    own parameters in its order.
    """

    pointers: Mapping[str, int]
    scalars: Mapping[str, int | float]
    symbols: Mapping[str, int]
    key: int
    device: int
    values: tuple[Any, ...]


_Known: TypeAlias = tuple[str, ...] | str | dict[str, int]


class _Source:
    """The body of a binder: statements that read the arguments, and what must then hold.

    Its names are its own (`a0` an argument, `p0` a pointer, `e0` an extent, `s0` a stride, `d0` a
    dtype); nothing of the user's text enters the code.
    """

    def __init__(self, signature: Signature, divisors: Mapping[str, int], host: bool) -> None:
        self.signature = signature
        self.divisors = divisors
        self.host = host
        self.extents: dict[str, str] = {}
        self.reads: list[str] = []
        self.addresses: list[str] = []
        self.failures: list[str] = []
        self.pointers: dict[str, str] = {}
        self.scalars: dict[str, str] = {}
        # What a dtype has to be: one of these names, this one, or one of these words.
        self.dtypes: dict[str, _Known] = {}
        self.elements: list[str] = []
        self.shapes: dict[str, list[str]] = {}
        self.apart: list[str] = []
        self.fresh = 0

    def name(self, letter: str) -> str:
        self.fresh += 1
        return f"{letter}{self.fresh - 1}"

    def tensor(self, arg: str, param: TensorParam) -> None:
        axes = []
        for extent in param.shape:
            if isinstance(extent, str) and extent not in self.extents:
                self.extents[extent] = axis = self.name("e")
            else:
                axis = self.name("x")
                known = self.extents[extent] if isinstance(extent, str) else str(extent)
                self.failures.append(f"{axis} != {known}")
            axes.append(axis)
        self.reads.append(f"({''.join(axis + ', ' for axis in axes)}) = {arg}.shape")
        storage, dtype = TENSOR_STORAGE[param.dtype_name], self.name("d")
        if storage.packed:
            self.packed(arg, axes[-1], dtype, storage)
        self.pointers[param.name] = pointer = self.name("p")
        if self.host:
            if not storage.packed:
                self.dtypes[dtype] = storage.numpy
                self.failures.append(f"{arg}.dtype.name not in {dtype}")
            if not param.strides:
                self.failures.append(f"not {arg}.flags.c_contiguous")
            self.addresses.append(f"{pointer} = {arg}.__array_interface__['data'][0]")
        else:
            if not storage.packed:
                self.dtypes[dtype] = storage.torch
                self.failures.append(f"{arg}.dtype is not {dtype}")
            if not param.strides:
                self.failures.append(f"not {arg}.is_contiguous()")
            if len(self.pointers) == 1:
                self.reads.append(f"device = {arg}.get_device()")
                self.failures.append("device < 0")
            else:
                self.failures.append(f"{arg}.get_device() != device")
            self.addresses.append(f"{pointer} = {arg}.data_ptr()")
        self.shapes[arg] = axes
        if not param.strides and any(isinstance(extent, str) for extent in param.shape):
            self.elements.append(" * ".join(axes))

    def strided(self, arg: str, param: TensorParam) -> None:
        """Strides in elements, when all extents are known: one symbol may be both."""
        axes, steps = self.shapes[arg], []
        for stride, axis in zip(param.strides, axes, strict=True):
            if isinstance(stride, str) and stride not in self.extents:
                self.extents[stride] = step = self.name("s")
                self.failures.append(f"{step} < 0")
            else:
                step = self.name("s")
                known = self.extents[stride] if isinstance(stride, str) else str(stride)
                self.failures.append(f"({axis} > 1 and {step} != {known})")
            steps.append(step)
        names = "".join(step + ", " for step in steps)
        self.reads.append(f"({names}) = steps_of({arg})")
        self.elements.append(
            "1 + " + " + ".join(f"({axis} - 1) * {step}" for axis, step in zip(axes, steps))
        )
        self.apart.append(f"apart(({''.join(axis + ', ' for axis in axes)}), ({names}))")

    def packed(self, arg: str, axis: str, dtype: str, storage: Storage) -> None:
        """The last extent counts elements, the argument's counts words that hold several."""
        self.dtypes[dtype] = dict(storage.packed)
        key = f"{arg}.dtype.name" if self.host else f"{arg}.dtype"
        self.reads.append(f"{axis} *= {dtype}.get({key}, -1)")
        self.failures.append(f"{key} not in {dtype}")

    def scalar(self, arg: str, param: ScalarParam) -> None:
        kinds = "(int, float)" if param.dtype_name.startswith("f") else "int"
        self.failures.append(f"not isinstance({arg}, {kinds})")
        if self.host:
            # A launch finds out when it packs the number.
            low, high = number_limits(param.dtype_name)
            finite = f"{arg} - {arg} == 0"
            self.failures.append(f"({finite} and not {low!r} <= {arg} <= {high!r})")
        self.scalars[param.name] = arg

    def key(self) -> str:
        """`usual if <one cheap test> else <bit by bit>`, as in `specialisation`."""
        bits: list[str] = []
        unusual: list[str] = []
        usual = at = 0
        numbers = [(pointer, ALIGNMENT) for pointer in self.pointers.values()]
        numbers += [(self.extents[name], divisor) for name, divisor in self.divisors.items()]
        for value, divisor in numbers:
            found = levels(divisor)
            count = " + ".join(f"({value} % {n} == 0)" for n in found)
            bits.append(f"({count}) << {at}")
            unusual.append(f"{value} % {divisor}")
            usual, at = usual | len(found) << at, at + LEVEL_BITS
        for lies in self.apart:
            bits.append(f"{lies} << {at}")
            unusual.append(f"not {lies}")
            usual, at = usual | 1 << at, at + 1
        wide = [f"{count} >= {NARROW_LIMIT}" for count in self.elements]
        if wide:
            bits.append(f"({' or '.join(wide)}) << {at}")
        odd = " or ".join([*unusual, *wide]) or "False"
        return f"{' | '.join(bits) or '0'} if {odd} else {usual}"

    def text(self) -> str:
        args = [self.name("a") for _ in self.signature.params]
        for arg, param in zip(args, self.signature.params, strict=True):
            match param:
                case TensorParam():
                    self.tensor(arg, param)
                case ScalarParam():
                    self.scalar(arg, param)
        for arg, param in zip(args, self.signature.params, strict=True):
            if isinstance(param, TensorParam) and param.strides:
                self.strided(arg, param)
        symbols = [self.extents[symbol.name] for symbol in self.signature.symbols]
        if self.host:
            for extent, symbol in zip(symbols, self.signature.symbols, strict=True):
                self.failures.append(f"{extent} > {number_limits(symbol.dtype_name)[1]}")
        values = [*self.pointers.values(), *self.scalars.values(), *symbols]
        lines = [
            "def bind(args):",
            "    try:",
            f"        ({''.join(arg + ', ' for arg in args)}) = args",
            *(f"        {read}" for read in self.reads),
            f"        bad = {' or '.join(self.failures) or 'False'}",
            "    except (AttributeError, RuntimeError, TypeError, ValueError) as error:",
            "        raise refuse(args, error) from None",
            "    if bad:",
            "        raise refuse(args, None)",
            *(f"    {address}" for address in self.addresses),
            f"    return {self.key()}, {self.device()}, ({''.join(v + ', ' for v in values)})",
        ]
        return "\n".join(lines)

    def device(self) -> str:
        return "device" if self.pointers and not self.host else str(HOST)


def _torch_dtype(name: str) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependency(
            f"a kernel is called with torch tensors: {error}", fix=INSTALL
        ) from error
    found = getattr(torch, name, None)
    if found is None:
        raise LaunchError(
            f"torch {torch.__version__} has no dtype {name}", fix="install a newer torch"
        )
    return found


def _of_torch(known: _Known) -> Any:
    """Torch's dtypes in place of their names."""
    if isinstance(known, dict):
        return {_torch_dtype(name): elements for name, elements in known.items()}
    return _torch_dtype(known) if isinstance(known, str) else tuple(map(_torch_dtype, known))


def make_binder(
    signature: Signature, divisors: Mapping[str, int] | None = None, *, host: bool = False
) -> Binder:
    """The checks and reads of `signature`, unrolled. Build it once and keep it.

    The binder takes torch tensors on one GPU, or numpy arrays where `host` is set, and raises
    `LaunchError`. `divisors` gives the extent's divisor that a symbol's key bit stands for.
    """

    def refuse(args: Sequence[Any], error: Exception | None) -> Exception:
        found = explain(signature, args, host=host)
        return found or error or LaunchError(
            f"{signature.kernel}: the arguments do not fit", signature.span
        )

    source = _Source(signature, default_divisors(signature) if divisors is None else divisors, host)
    text = source.text()
    scope: dict[str, Any] = {"refuse": refuse, "steps_of": steps_of, "apart": apart}
    for dtype, known in source.dtypes.items():
        scope[dtype] = known if host else _of_torch(known)
    exec(compile(text, f"<binder of {signature.kernel}>", "exec"), scope)
    binder: Binder = scope["bind"]
    return binder


def _on_host(args: Sequence[Any]) -> bool:
    """Arrays and nothing known count as the host's; a torch tensor anywhere decides."""
    return not any(is_torch(arg) for arg in args)


def bind(
    signature: Signature, args: Sequence[Any], divisors: Mapping[str, int] | None = None
) -> BoundArguments:
    """Checks one call's arguments, torch tensors on a GPU or numpy arrays.

    The simulator and tools take this; a launch takes `make_binder`, and `divisors` are the same.
    Raises `LaunchError`.
    """
    key, device, values = make_binder(signature, divisors, host=_on_host(args))(args)
    tensors, scalars = len(signature.tensors), len(signature.scalars)
    names = signature.value_names
    return BoundArguments(
        pointers=dict(zip(names[:tensors], values[:tensors], strict=True)),
        scalars=dict(zip(names[tensors:][:scalars], values[tensors:][:scalars], strict=True)),
        symbols=dict(
            zip(names[tensors + scalars :], values[tensors + scalars :], strict=True)
        ),
        key=key,
        device=device,
        values=values,
    )
