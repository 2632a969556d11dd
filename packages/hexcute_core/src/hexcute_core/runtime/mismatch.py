"""Arguments that do not fit -> the `LaunchError` that names the argument and what was expected.

Off the fast path: a binder that found anything amiss calls `explain` to find out what.
"""

from __future__ import annotations

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
            return self.error(f"expected {len(params)} arguments ({names}), got {len(args)}")
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
        return self.error(
            f"argument {param.name!r}: expected {expected} for {param}, got {_kind(value)}",
            fix=f"pass {param.name}.item()" if hasattr(value, "item") else None,
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
        right = hasattr(value, "__array_interface__") if self.host else is_torch(value)
        if not right:
            return self.error(
                f"argument {param.name!r}: expected {wanted} {param}, got {_kind(value)}"
            )
        return (
            self.dtype(param, value)
            or self.shape(param, value)
            or self.layout(param, value)
            or (None if self.host else self.place(param, value))
        )

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
            fix=None if self.host else f"pass {param.name}.to(torch.{storage.torch})",
        )

    def shape(self, param: TensorParam, value: Any) -> LaunchError | None:
        got = self.elements(param, value)
        text = f"argument {param.name!r}: expected shape [{', '.join(map(str, param.shape))}]"
        if len(got) != len(param.shape):
            return self.error(f"{text}, got {len(got)} dimensions: {list(got)}")
        for axis, (extent, size) in enumerate(zip(param.shape, got, strict=True)):
            if isinstance(extent, int):
                if size != extent:
                    return self.error(f"{text}, got {list(got)}: dimension {axis} is {size}")
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
                    f"got {list(got)}: dimension {axis} is {size}"
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
            fix=f"pass np.ascontiguousarray({param.name})"
            if self.host
            else f"pass {param.name}.contiguous(), or declare the transposed tensor",
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
                fix=f"pass {param.name}.cuda()",
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
