"""Models as they are stored, brought to what the operators take, a layer at a time.

    checkpoint = Checkpoint("path/of/a/model")
    layer = checkpoint.layer("model.layers.0.self_attn.q_proj", device="cuda")
    w4a16_matmul(x, layer.weight.w)
"""

from hexcute_kernels.checkpoints.files import Checkpoint
from hexcute_kernels.checkpoints.formats import (
    Awq,
    Blocks,
    CheckpointError,
    Compressed,
    Format,
    Gptq,
    Plain,
    read_format,
)
from hexcute_kernels.checkpoints.layers import Layer, layer_of, stack

__all__ = [
    "Awq",
    "Blocks",
    "Checkpoint",
    "CheckpointError",
    "Compressed",
    "Format",
    "Gptq",
    "Layer",
    "Plain",
    "layer_of",
    "read_format",
    "stack",
]
