"""Sizes of a call of every operator, small ones, and its arguments."""

from __future__ import annotations

from typing import Any

from hexcute_kernels import operator_named
from hexcute_kernels.operator import output_names
from hexcute_kernels.samples import parse, sample

SIZES = {
    "matmul": "m=64,n=512,k=256",
    "bmm": "batch=3,m=64,n=128,k=64,b_major=n",
    "linear": "m=300,n=256,k=128,dtype=bfloat16,activation=gelu",
    "grouped_matmul": "m=300,n=256,k=128,experts=4",
    "attention": "b=1,sq=256,h=4,hk=2,d=64,causal=true",
    "attention_with_lse": "b=1,sq=64,h=2,d=128,sequences=3",
    "decode_attention": "b=2,sk=4096,h=8,hk=2,d=128,ragged=true",
    "decode_attention_with_lse": "b=2,sk=4096,h=8,d=128,page=16",
    "latent_decode_attention": "b=2,sk=640,h=16,ragged=true",
    "append_to_cache": "b=3,sk=64,h=8,hk=2,d=64,page=16",
    "fp8_blockwise_matmul": "m=64,n=256,k=256",
    "fp8_rowwise_matmul": "m=64,n=256,k=256",
    "fp8_grouped_matmul": "m=300,n=256,k=256,experts=4,masked=true",
    "quantize_blockwise": "m=100,k=256",
    "quantize_weights": "m=256,k=256,batch=2",
    "selective_scan": "b=1,d=64,length=128",
    "selective_scan_with_state": "b=1,d=64,length=100,sequences=3,starts=true,timed=false",
    "selective_state_update": "b=3,d=64,slots=5",
    "ssd_scan": "b=1,heads=4,width=64,length=100,gated=true",
    "ssd_scan_with_state": "b=2,heads=2,width=32,length=64,states=64,groups=2,starts=true",
    "causal_conv1d": "b=2,d=64,length=100,timed=false",
    "causal_conv1d_update": "b=3,d=64,slots=5",
    "w4a16_matmul": "m=16,n=128,k=256",
    "moe": "m=40,hidden=256,width=128,experts=4,top_k=2",
    "softmax": "rows=70,columns=1024",
    "rms_norm": "rows=5,columns=4096,dtype=bfloat16,given=float32",
    "layer_norm": "rows=3,columns=20000,dtype=float32",
}


def sampled(name: str, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the operator's call on this device, the same each time, and tensors that take
    its results, by the names that torch's operator has for them."""
    operator = operator_named(name)
    (sizes,) = parse(SIZES[name])
    args = sample(name, sizes, device)
    outs = [output.empty(args[0]) for output in operator.results(operator.describe(*args))]
    return args, dict(zip(output_names(len(outs)), outs, strict=True))
