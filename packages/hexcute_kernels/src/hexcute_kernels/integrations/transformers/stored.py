"""Linear layers that hold a checkpoint's own tensors, as other loaders leave them.

    gptqmodel            buffers qweight, qzeros, scales, g_idx, in classes that keep their order
    compressed-tensors   weight_packed, weight_scale, weight_zero_point, with quantization_scheme

What a class has brought into another order is not known here, and stays.
"""

from __future__ import annotations

from typing import Any

import torch

from hexcute_core.errors import LaunchError
from hexcute_kernels.checkpoints import Awq, Compressed, Format, Gptq, Layer, layer_of

IN_ORDER = {
    "TorchLinear", "TritonV2Linear", "AwqTorchLinear", "AwqGEMMLinear", "AwqGEMMTritonLinear",
}  # fmt: skip
"""Classes of gptqmodel whose words are in the checkpoint's order, whatever they call."""
WORDS = ("qweight", "weight_packed")


def is_stored(module: torch.nn.Module) -> bool:
    """Whether a module holds words of packed numbers."""
    return any(getattr(module, name, None) is not None for name in WORDS)


def layer_in(module: torch.nn.Module) -> Layer | str:
    """The layer of a module's tensors, packed anew, or why there is none."""
    found = _format(module)
    if isinstance(found, str):
        return found
    own = dict(module.named_buffers(recurse=False)) | dict(module.named_parameters(recurse=False))
    known = {
        "qweight", "qzeros", "scales", "g_idx", "bias", "weight_packed", "weight_scale",
        "weight_zero_point", "weight_g_idx",
    }  # fmt: skip
    tensors = {name: t.detach() for name, t in own.items() if name in known}
    scales = tensors.get("scales", tensors.get("weight_scale"))
    if scales is None:
        return "it has no scales"
    try:
        layer = layer_of(found, tensors, type(module).__name__, scales.dtype)
    except LaunchError as error:
        return error.message
    return layer if layer.why is None else f"no kernel takes it: {layer.why}"


def _format(module: Any) -> Format | str:
    """How a module's tensors are to be read, or why they cannot be."""
    if getattr(module, "weight_packed", None) is not None:
        scheme: Any = getattr(module, "quantization_scheme", None)
        weights = getattr(scheme, "weights", None)
        if weights is None:
            return "it has no quantization_scheme that says what its words are"
        kind = getattr(weights.type, "value", weights.type)
        if (weights.num_bits, kind) != (4, "int"):
            return f"its weights are {kind} of {weights.num_bits} bits, not int of 4"
        if scheme.input_activations is not None:
            return "its activations are quantized too"
        return Compressed()
    if type(module).__name__ not in IN_ORDER:
        return "its words may be in an order of their own: load the checkpoint with `load`"
    bits, (rows, columns) = getattr(module, "bits", None), tuple(module.qweight.shape)
    if bits != 4 or module.qweight.dtype != torch.int32:
        return f"its weights have {bits} bits in {module.qweight.dtype}, not 4 in int32"
    k, n = module.in_features, module.out_features
    if (rows, columns) == (k, n // 8):
        return Awq()
    if (rows, columns) != (k // 8, n):
        return f"its words are {(rows, columns)} of weights {(k, n)}"
    version = module.qzero_format() if callable(getattr(module, "qzero_format", None)) else None
    return Gptq(version) if version in (1, 2) else "it does not say how zero points are stored"
