"""Arguments that do not fit -> the `LaunchError` that names the argument and what was expected.

Off the fast path: a binder that found anything amiss calls `explain` to find out what.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hexcute_core.errors import LaunchError
from hexcute_core.runtime.signature import (
    ScalarParam,
    Signature,
    TensorParam,
    number_limits,
)
from hexcute_core.runtime.storage import TENSOR_STORAGE
from hexcute_core.runtime.strided import steps_of


def is_torch(value: Any) -> bool:
    """Whether a value is a torch tensor or of a subclass; does not import torch."""
    bases = type(value).__mro__
    return any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in bases)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _strides(value: Any) -> tuple[int, ...]:
    """Strides in elements."""
    if is_torch(value):
        return tuple(value.stride())
    return tuple(stride // value.itemsize for stride in value.strides)


def _contiguous(value: Any) -> bool:
    return bool(value.is_contiguous() if is_torch(value) else value.flags.c_contiguous)


_COPY = "a copy: keep it under a name where the kernel writes to it"


def _dtype(name: str, host: bool) -> str:
    """The dtype `name` as numpy's or torch's users write it; numpy has its narrow floats from
    ml_dtypes."""
    if not host:
        return f"torch.{name}"
    if name == "bool":
        return "np.bool_"
    return f"{'ml_dtypes' if name.startswith(('bfloat', 'float8')) else 'np'}.{name}"


def _width(name: str, kinds: str) -> int:
    """Bits of an element of the dtype `name`, or 0 where it is none of `kinds`."""
    digits = re.search(r"\d+", name)
    return (int(digits[0]) if digits else 8) if re.fullmatch(kinds, name) else 0


def _converted(name: str, got: str, wanted: str, host: bool) -> str:
    """What to pass instead of the tensor `name` of dtype `got`, so that it has the dtype `wanted`.

    Integers of one width, and truths as bytes, are the same bits: a view, into which a kernel can
    write. Bits of what numpy has no type for often come as whole numbers.
    """
    dtype = _dtype(wanted, host)
    copy = f"{name}.{'astype' if host else 'to'}({dtype})"
    whole = _width(got, r"bool|u?int\d+")
    if whole and whole == _width(wanted, r"u?int\d+"):
        return f"pass {name}.view({dtype})"
    if got != "bool" and whole and whole == _width(wanted, r"bfloat16|float8_.*"):
        return f"pass {name}.view({dtype}) where it holds their bits, else {copy}, {_COPY}"
    return f"pass {copy}, {_COPY}"


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class _Explainer:
    """Checks one call argument by argument; the first thing amiss is the answer."""

    def __init__(self, signature: Signature, host: bool) -> None:
        self.signature = signature
        self.host = host
        self.bound: dict[str, tuple[int, str]] = {}
        self.device: tuple[Any, str] | None = None
        self.largest = {s.name: number_limits(s.dtype_name)[1] for s in signature.symbols}

    def error(self, message: str, fix: str | None = None) -> LaunchError:
        return LaunchError(f"{self.signature.kernel}: {message}", self.signature.span, fix)

    def find(self, args: Sequence[Any]) -> LaunchError | None:
        params = self.signature.params
        if len(args) != len(params):
            names = ", ".join(param.name for param in params)
            return self.error(
                f"expected {len(params)} arguments ({names}), got {len(args)}",
                fix=f"pass {names}, in this order" if params else "call it without arguments",
            )
        for param, value in zip(params, args, strict=True):
            if isinstance(param, ScalarParam):
                found = self.scalar(param, value)
            else:
                found = self.tensor(param, value)
            if found is not None:
                return found
        # One symbol may be an extent of one tensor and a stride of another.
        pairs = zip(params, args, strict=True)
        strided = [(p, v) for p, v in pairs if isinstance(p, TensorParam) and p.strides]
        return next(filter(None, (self.strides(p, v) for p, v in strided)), None)

    def scalar(self, param: ScalarParam, value: Any) -> LaunchError | None:
        floating = param.dtype_name.startswith("f")
        if isinstance(value, (int, float) if floating else int):
            return self.number(param, value)
        expected = "a Python int or float" if floating else "a Python int"
        number = "float" if floating else "int"
        return self.error(
            f"argument {param.name!r}: expected {expected} for {param}, got {_kind(value)}",
            fix=f"pass {param.name}.item()"
            if hasattr(value, "item")
            else f"pass a number, such as {number}({param.name})",
        )

    def number(self, param: ScalarParam, value: int | float) -> LaunchError | None:
        low, high = number_limits(param.dtype_name)
        if low <= value <= high or value - value != 0:
            return None
        return self.error(
            f"argument {param.name!r}: {value} is no {param}, which goes from {low} to {high}",
            fix=f"pass a number that {param} has, or declare the parameter wider",
        )

    def tensor(self, param: TensorParam, value: Any) -> LaunchError | None:
        wanted = "a numpy array" if self.host else "a torch tensor on a GPU"
        array = all(hasattr(value, name) for name in ("__array_interface__", "dtype", "flags"))
        if not (array if self.host else is_torch(value)):
            return self.error(
                f"argument {param.name!r}: expected {wanted} {param}, got {_kind(value)}",
                fix=self.made(param, value, array),
            )
        if not self.host and str(getattr(value, "layout", "torch.strided")) != "torch.strided":
            return self.error(
                f"argument {param.name!r}: expected a dense tensor {param}, got one whose layout "
                f"is {value.layout}",
                fix=f"pass {param.name}.to_dense(), {_COPY}",
            )
        return (
            self.dtype(param, value)
            or self.shape(param, value)
            or self.layout(param, value)
            or (None if self.host else self.place(param, value))
        )

    def made(self, param: TensorParam, value: Any, array: bool) -> str:
        """What to pass instead of a value that is no tensor, or is one of another kind."""
        name, storage = param.name, TENSOR_STORAGE[param.dtype_name]
        if array:
            return f"pass torch.from_numpy({name}).cuda(), or numpy arrays alone to a simulation"
        dtype = _dtype(storage.numpy[0] if self.host else storage.torch, self.host)
        listed = isinstance(value, (list, tuple)) or hasattr(value, "__array_interface__")
        if listed and self.host:
            return f"pass np.array({name}, {dtype}), {_COPY}"
        if listed:
            return f'pass torch.tensor({name}, dtype={dtype}, device="cuda"), {_COPY}'
        kind = "numpy array" if self.host else "torch tensor on a GPU"
        return f"pass a {kind} of rank {len(param.shape)} and dtype {dtype}"

    def dtype(self, param: TensorParam, value: Any) -> LaunchError | None:
        storage = TENSOR_STORAGE[param.dtype_name]
        got = str(value.dtype).removeprefix("torch.")
        words = tuple(name for name, _ in storage.packed)
        allowed = words or (storage.numpy if self.host else (storage.torch,))
        if got in allowed:
            return None
        if words:
            return self.error(
                f"argument {param.name!r}: expected dtype {' or '.join(allowed)}, whose words hold "
                f"the elements of {param}, got {got}",
                fix="pack the elements of a row, the first in the lowest bits of the first byte",
            )
        return self.error(
            f"argument {param.name!r}: expected dtype {' or '.join(allowed)} "
            f"({param.dtype_name}), got {got}",
            fix=_converted(param.name, got, allowed[0], self.host),
        )

    def shape(self, param: TensorParam, value: Any) -> LaunchError | None:
        got = self.elements(param, value)
        text = f"argument {param.name!r}: expected shape [{', '.join(map(str, param.shape))}]"
        if len(got) != len(param.shape):
            more = len(got) - len(param.shape)
            index = ", ".join(["0"] * more or ["None"] * -more)
            return self.error(
                f"{text}, got {len(got)} dimensions: {list(got)}",
                fix=f"pass {param.name}[{index}] or {param.name}.reshape(...), "
                f"of rank {len(param.shape)}",
            )
        for axis, (extent, size) in enumerate(zip(param.shape, got, strict=True)):
            if isinstance(extent, int):
                if size != extent:
                    return self.error(
                        f"{text}, got {list(got)}: dimension {axis} is {size}",
                        fix=f"pass a tensor with {extent} elements there, or declare that extent "
                        "by a symbol",
                    )
                continue
            here = f"{param.name!r} dimension {axis}"
            if size > self.largest[extent]:
                return self.error(
                    f"argument {param.name!r}: dimension {axis}, {extent}, has {size} elements, "
                    f"at most {self.largest[extent]} can be passed",
                    fix="pass parts of the tensor, a launch each",
                )
            known, where = self.bound.setdefault(extent, (size, here))
            if size != known:
                return self.error(
                    f"{text} with {extent} = {known} (from {where}), "
                    f"got {list(got)}: dimension {axis} is {size}",
                    fix=f"pass tensors that agree on {extent}, or declare the two extents by two "
                    "symbols",
                )
        return None

    def elements(self, param: TensorParam, value: Any) -> tuple[int, ...]:
        """The shape in elements: words of the last dimension hold several of a packed tensor."""
        shape = tuple(value.shape)
        per = dict(TENSOR_STORAGE[param.dtype_name].packed)
        if not per or not shape:
            return shape
        return (*shape[:-1], shape[-1] * per[str(value.dtype).removeprefix("torch.")])

    def layout(self, param: TensorParam, value: Any) -> LaunchError | None:
        if param.strides or _contiguous(value):
            return None
        return self.error(
            f"argument {param.name!r}: expected a contiguous row-major tensor, strides "
            f"{_row_major(value.shape)}, got strides {_strides(value)}",
            fix=(
                f"pass np.ascontiguousarray({param.name})"
                if self.host
                else f"pass {param.name}.contiguous()"
            )
            + f", {_COPY}, or declare its strides",
        )

    def strides(self, param: TensorParam, value: Any) -> LaunchError | None:
        fix = f"pass {'np.ascontiguousarray' if self.host else 'torch.clone'}({param.name})"
        found = zip(param.strides, steps_of(value), strict=True)
        for axis, (stride, step) in enumerate(found):
            here = f"{param.name!r} dimension {axis}"
            text = f"argument {param.name!r}: stride {_strides(value)[axis]} of dimension {axis}"
            if step < 0:
                return self.error(f"{text}, strides are whole elements, from 0 on", fix=fix)
            if isinstance(stride, int):
                if step != stride and value.shape[axis] > 1:
                    return self.error(
                        f"{text}, expected {stride} as in {param}",
                        fix="pass a tensor with that stride, or declare it by a symbol",
                    )
                continue
            if value.shape[axis] < 2:
                self.bound.setdefault(stride, (0, here))
                continue
            if step > self.largest[stride]:
                return self.error(
                    f"{text}, {stride}, is {step}, at most {self.largest[stride]} can be passed",
                    fix="pass parts of the tensor, a launch each",
                )
            known, where = self.bound.setdefault(stride, (step, here))
            if step != known:
                return self.error(
                    f"{text}, expected {stride} = {known} (from {where})",
                    fix="declare the strides of each tensor by symbols of its own",
                )
        return None

    def place(self, param: TensorParam, value: Any) -> LaunchError | None:
        if value.device.type != "cuda":
            return self.error(
                f"argument {param.name!r}: expected a tensor on a GPU, got one on {value.device}",
                fix=f"pass {param.name}.cuda(), or {param.name}.numpy() to a simulation",
            )
        device, first = self.device or (value.device, param.name)
        self.device = device, first
        if value.device != device:
            return self.error(
                f"argument {param.name!r}: expected a tensor on {device} like {first!r}, "
                f"got one on {value.device}",
                fix=f"pass {param.name}.to({str(device)!r})",
            )
        return None


def explain(
    signature: Signature, args: Sequence[Any], *, host: bool = False
) -> LaunchError | None:
    """What is wrong with these arguments, or None. `host` expects numpy arrays, not torch's."""
    return _Explainer(signature, host).find(args)
