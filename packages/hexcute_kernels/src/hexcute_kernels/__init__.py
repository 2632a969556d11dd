"""GPU kernels written in Hexcute, as operators on torch tensors.

    from hexcute_kernels.gemm import matmul       an operator, from its family
    hexcute_kernels.operator_named("matmul")      the same by name
    hexcute_kernels.register()                    all of them as torch.ops.hexcute.<name>
    hexcute_kernels.warm_up({...})                compiles ahead of calls, into the cache
    hexcute_kernels.write_bundle(path, {...})     or into a folder that is shipped
    hexcute_kernels.use_bundle(path)              and launched from without a compiler
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hexcute_kernels.operator import Operator

__version__ = "0.1.0"
FAMILIES: dict[str, str] = {
    "matmul": "gemm",
    "bmm": "gemm",
    "linear": "gemm",
    "grouped_matmul": "gemm",
    "attention": "attention",
    "attention_with_lse": "attention",
    "decode_attention": "attention",
    "decode_attention_with_lse": "attention",
    "append_to_cache": "attention",
    "latent_decode_attention": "attention",
    "fp8_blockwise_matmul": "fp8",
    "fp8_rowwise_matmul": "fp8",
    "fp8_grouped_matmul": "fp8",
    "quantize_blockwise": "fp8",
    "quantize_weights": "fp8",
    "selective_scan": "scan",
    "selective_scan_with_state": "scan",
    "selective_state_update": "scan",
    "ssd_scan": "scan",
    "ssd_scan_with_state": "scan",
    "causal_conv1d": "scan",
    "causal_conv1d_update": "scan",
    "w4a16_matmul": "moe",
    "moe": "moe",
    "softmax": "norms",
    "rms_norm": "norms",
    "layer_norm": "norms",
}
"""Every operator's name, and the family (a package in here) that has it under that name."""


def operator_named(name: str) -> Operator[Any]:
    """The operator of this name. Raises LaunchError where there is none."""
    from hexcute_core.errors import LaunchError

    family = FAMILIES.get(name)
    if family is None:
        raise LaunchError(f"no operator {name!r}", fix=f"use one of {', '.join(FAMILIES)}")
    found: Operator[Any] = getattr(import_module(f"{__name__}.{family}"), name)
    return found


_SHIPPING = ("use_bundle", "warm_up", "write_bundle")


def __getattr__(name: str) -> object:
    # Compiling ahead pulls in the whole compiler: loaded when first used.
    if name in _SHIPPING:
        globals()[name] = getattr(import_module(f"{__name__}.shipping"), name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register() -> None:
    """Registers every operator with torch, as `torch.ops.hexcute.<name>`.

    Calls inside `torch.compile` register what they call; this is for code that names
    `torch.ops.hexcute` itself.
    """
    registration = import_module(f"{__name__}.registration")
    for name in FAMILIES:
        registration.register(operator_named(name))
