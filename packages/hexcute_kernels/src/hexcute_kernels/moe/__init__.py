"""f16 activations times weights of four or eight bits, dense and by experts: operators, packing."""

from hexcute_kernels.moe.checkpoints import from_awq, from_compressed_tensors, from_gptq
from hexcute_kernels.moe.formats import pack_bytes, pack_e4m3, pack_mxfp4
from hexcute_kernels.moe.layer_operator import moe
from hexcute_kernels.moe.operators import w4a16_matmul
from hexcute_kernels.moe.packing import pack, pack_experts, unpack
from hexcute_kernels.moe.routing import check_routing

__all__ = [
    "check_routing",
    "from_awq",
    "from_compressed_tensors",
    "from_gptq",
    "moe",
    "pack",
    "pack_bytes",
    "pack_e4m3",
    "pack_experts",
    "pack_mxfp4",
    "unpack",
    "w4a16_matmul",
]
