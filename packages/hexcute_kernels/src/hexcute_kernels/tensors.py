"""What every operator asks of its tensors, and what it says where the answer is no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_core.runtime.storage import TENSOR_STORAGE

if TYPE_CHECKING:
    import torch


CHANNELS_LAST = (0, 2, 1)
"""The order of (batch, channels, length) whose channels lie side by side in memory."""


@dataclass(frozen=True)
class Output:
    """A result to be: its shape and element type, and its dimensions as they lie in memory, the
    slowest first; row-major where None."""

    shape: tuple[int, ...]
    dtype: hx.DType
    order: tuple[int, ...] | None = None

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """Such a tensor where `like` is, of its class."""
        dtype = torch_dtype(self.dtype)
        if self.order is None:
            return like.new_empty(self.shape, dtype=dtype)
        made = like.new_empty([self.shape[i] for i in self.order], dtype=dtype)
        return made.permute([self.order.index(i) for i in range(len(self.order))])


def torch_dtype(dtype: hx.DType) -> torch.dtype:
    """The torch type that holds `dtype`."""
    import torch as torch_module

    return getattr(torch_module, TENSOR_STORAGE[dtype.name].torch)


def check_tensor(operator: str, name: str, value: Any) -> None:
    """That `value` is a dense torch tensor; its shape, type and device are not looked at.

    Raises LaunchError that names what it is instead.
    """
    import torch as torch_module

    expected = f"{operator}: {name} is to be a dense torch tensor"
    if not isinstance(value, torch_module.Tensor):
        raise LaunchError(f"{expected}, got {type(value).__qualname__}")
    if value.is_nested:
        raise LaunchError(f"{expected}, got a nested one", fix="call it for each of its tensors")
    if value.is_quantized:
        raise LaunchError(f"{expected}, got a quantized one", fix=f"pass {name}.dequantize()")
    if value.layout != torch_module.strided:
        layout = str(value.layout).removeprefix("torch.")
        raise LaunchError(f"{expected}, got one of layout {layout}", fix=f"pass {name}.to_dense()")


def check_memory(operator: str, name: str, value: torch.Tensor) -> None:
    """That a tensor has memory on a GPU which a kernel may read. Raises LaunchError."""
    expected = f"{operator}: {name} is to be on a GPU"
    if value.device.type != "cuda":
        fix = _shapes(operator) if value.is_meta else f"pass {name}.cuda()"
        raise LaunchError(f"{expected}, got a tensor on {value.device}", fix=fix)
    if not _own_memory(value):
        kind = type(value).__qualname__
        raise LaunchError(
            f"{expected}, got a {kind} without memory of its own", fix=_shapes(operator)
        )


def _own_memory(value: torch.Tensor) -> bool:
    """Whether a tensor's address is that of its elements: not of fake tensors and other wrappers,
    nor of those that a transform of torch.func makes."""
    import torch as torch_module

    if type(value).__torch_dispatch__ is not torch_module.Tensor.__torch_dispatch__:
        return False
    try:
        value.data_ptr()
    except RuntimeError:
        return False
    return True


def _shapes(operator: str) -> str:
    known = f"torch.ops.hexcute.{operator} works out the results of tensors that hold no data"
    return f"{known}, once hexcute_kernels.register() has been called"


def check_gradients(operator: str, name: str, value: torch.Tensor) -> None:
    """That no gradient is asked for. Raises LaunchError."""
    import torch as torch_module

    if value.requires_grad and torch_module.is_grad_enabled():
        raise no_gradient(operator, name)


def no_gradient(operator: str, name: str = "an argument") -> LaunchError:
    """That `name` requires a gradient, which the operator has not."""
    return LaunchError(
        f"{operator} has no gradient, and {name} requires one",
        fix="call it under torch.no_grad(), or pass detached tensors",
    )


def check_output(operator: str, name: str, value: torch.Tensor, want: Output) -> None:
    """That a given output is what the operator would have made. Raises LaunchError."""
    if tuple(value.shape) != want.shape or value.dtype != torch_dtype(want.dtype):
        raise LaunchError(
            f"{operator}: {name} is to be {torch_dtype(want.dtype)} of shape {want.shape}, got "
            f"{value.dtype} of shape {tuple(value.shape)}"
        )
    if not (value if want.order is None else value.permute(want.order)).is_contiguous():
        order = "row-major" if want.order is None else f"in memory in the order {want.order}"
        kind = "a contiguous tensor" if want.order is None else "a tensor of that order"
        raise LaunchError(
            f"{operator}: {name} is to be {order}, got strides {value.stride()}",
            fix=f"pass {kind}, and copy it where it is to go",
        )


def dtype_of(operator: str, allowed: Sequence[hx.DType], **tensors: torch.Tensor) -> hx.DType:
    """The one element type of all `tensors`, by name, among `allowed`. Raises LaunchError."""
    known = {TENSOR_STORAGE[dtype.name].torch: dtype for dtype in allowed}
    got = {name: str(t.dtype).removeprefix("torch.") for name, t in tensors.items()}
    kinds = set(got.values())
    if len(kinds) == 1 and kinds <= set(known):
        return known[kinds.pop()]
    told = ", ".join(f"{name} {dtype}" for name, dtype in got.items())
    raise LaunchError(f"{operator} takes {' or '.join(known)}, one for all tensors; got {told}")


def check_rank(operator: str, rank: int, what: str, **tensors: torch.Tensor) -> None:
    """That each of `tensors` has `rank` dimensions; `what` says which. Raises LaunchError."""
    for name, tensor in tensors.items():
        if tensor.dim() != rank:
            raise LaunchError(
                f"{operator} takes {what}; got {name} of shape {tuple(tensor.shape)}"
            )


def order_of(operator: str, name: str, tensor: torch.Tensor, rows: str, columns: str) -> str:
    """Which of a matrix's indices is contiguous: `columns` of a row-major one, `rows` of the
    transpose of one. Raises LaunchError for others."""
    if tensor.is_contiguous():
        return columns
    if tensor.mT.is_contiguous():
        return rows
    raise LaunchError(
        f"{operator}: {name} of shape {tuple(tensor.shape)} and strides {tensor.stride()} is "
        "neither row-major nor column-major",
        fix=f"pass {name}.contiguous()",
    )


def check_contiguous(operator: str, **tensors: torch.Tensor) -> None:
    """That each of `tensors` is row-major without gaps. Raises LaunchError."""
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise LaunchError(
                f"{operator}: {name} of shape {tuple(tensor.shape)} and strides "
                f"{tensor.stride()} is not row-major",
                fix=f"pass {name}.contiguous()",
            )
