"""A GPU by definition: operators look at their arguments as ever, and choose a kernel for an H100;
what it would compute is computed by torch, in float32, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from attention_float32 import reference as attended
from parallel_reference import E4M3, LARGEST, matrix, wide

from hexcute_kernels.gpus import Gpu
from hexcute_kernels.parallel import Blockwise, FourBits

HERE = Gpu("h100", "sm_90")
UNPACKED: dict[int, tuple[Any, Any]] = {}
"""Packed weights by their address, held so that it stays theirs, and their matrices."""


def unpacked(w: Any) -> Any:
    """The numbers that packed weights stand for, worked out once."""
    if w.data_ptr() not in UNPACKED:
        UNPACKED[w.data_ptr()] = w, matrix(FourBits(w))
    return UNPACKED[w.data_ptr()][1]


def rms_norm(x: Any, weight: Any, eps: float) -> Any:
    t = x.float()
    made = t / (t.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return (made if weight is None else made * weight.float()).to(x.dtype)


def w4a16_matmul(x: Any, w: Any) -> Any:
    return (x.float() @ unpacked(w).mT).to(x.dtype)


def moe(x: Any, w13: Any, w2: Any, ids: Any, gates: Any, scope: str) -> Any:
    first, second = unpacked(w13), unpacked(w2)
    made = torch.zeros(x.shape, dtype=torch.float32)
    for t, (experts, by) in enumerate(zip(ids.tolist(), gates.tolist())):
        for e, gate in zip(experts, by):
            left, right = (first[e] @ x[t].float()).chunk(2)
            h = (torch.nn.functional.silu(left) * right).to(x.dtype).float()
            made[t] += gate * (second[e] @ h)
    return made.to(x.dtype)


def quantize_blockwise(x: Any, scale_major: str, power_of_two: bool) -> tuple[Any, Any]:
    k = x.shape[1]
    rows = torch.nn.functional.pad(x.float(), (0, -k % 128)).unflatten(1, (-1, 128))
    scale = rows.abs().amax(2).clamp(min=2.0**-126) / LARGEST
    numbers = (rows / scale.unsqueeze(2)).flatten(1)[:, :k].to(E4M3)
    return numbers.contiguous(), scale.t().contiguous().t()


def unquantized(numbers: Any, scale: Any) -> Any:
    k = numbers.shape[1]
    return numbers.float() * scale.repeat_interleave(128, 1)[:, :k]


def fp8_blockwise_matmul(a: Any, b: Any, a_scale: Any, b_scale: Any, out: str) -> Any:
    made = unquantized(a, a_scale) @ matrix(Blockwise(b, b_scale)).t()
    return made.to(getattr(torch, out))


def by_expert(rows: Any, w: Any, bounds: Any, dtype: Any) -> Any:
    made = torch.full((rows.shape[0], w.shape[1]), torch.nan)
    for e, (first, last) in enumerate(zip(bounds.tolist(), bounds.tolist()[1:])):
        made[first:last] = rows[first:last] @ w[e].float().t()
    return made.to(dtype)


def fp8_grouped_matmul(
    a: Any, b: Any, a_scale: Any, b_scale: Any, bounds: Any, out: str, expected: Any
) -> Any:
    w = b.float() * wide(b_scale, *b.shape[-2:])
    return by_expert(unquantized(a, a_scale), w, bounds, getattr(torch, out))


def grouped_matmul(a: Any, b: Any, bounds: Any) -> Any:
    return by_expert(a.float(), b, bounds, a.dtype)


def attention(q: Any, k: Any, v: Any, **how: Any) -> Any:
    scale = q.shape[-1] ** -0.5 if how["scale"] is None else how["scale"]
    rest = scale, 0 if how["causal"] else None, how["left"], how["softcap"]
    if how["cu_seqlens_q"] is None:
        return attended(q, k, v, *rest)[0].to(q.dtype)
    made = torch.full((q.shape[0], q.shape[1], v.shape[-1]), torch.nan)
    ends = how["cu_seqlens_q"].tolist(), how["cu_seqlens_k"].tolist()
    for q0, q1, k0, k1 in zip(ends[0], ends[0][1:], ends[1], ends[1][1:]):
        made[q0:q1] = attended(q[None, q0:q1], k[None, k0:k1], v[None, k0:k1], *rest)[0][0]
    return made.to(q.dtype)


def decode_attention(q: Any, k: Any, v: Any, **how: Any) -> Any:
    scale = q.shape[-1] ** -0.5 if how["scale"] is None else how["scale"]
    rest, table = (scale, 0, how["left"], how["softcap"]), how["page_table"]
    if how["seq_lens"] is None:
        return attended(q, k, v, *rest)[0].to(q.dtype)
    made = torch.zeros(q.shape)
    for z, n in enumerate(how["seq_lens"].tolist()):
        own = (t[z] if table is None else t[table[z].long()].flatten(0, 1) for t in (k, v))
        if n:
            made[z] = attended(q[z : z + 1], *(t[None, :n] for t in own), *rest)[0][0]
    return made.to(q.dtype)


BY_PLACE: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        rms_norm, w4a16_matmul, moe, quantize_blockwise, fp8_blockwise_matmul, fp8_grouped_matmul,
        grouped_matmul,
    )
}  # fmt: skip
BY_NAME: dict[str, Callable[..., Any]] = {
    "attention": attention, "decode_attention": decode_attention,
}  # fmt: skip


@contextmanager
def reference_gpu() -> Iterator[list[str]]:
    """Inside, operators give what they are defined to; gives the operators that were called."""
    called: list[str] = []

    def run(operator: Any, args: Any, out: Any, variant: Any, config: Any) -> Any:
        assert out is None
        operator.choose(HERE, operator.describe(*args), variant, config)
        called.append(operator.name)
        if operator.name in BY_PLACE:
            return BY_PLACE[operator.name](*args)
        given = dict(zip((p.name for p in operator.schema.parameters), args))
        return BY_NAME[operator.name](*args[:3], **{n: given[n] for n in list(given)[3:]})

    with patch("hexcute_kernels.operator.Operator.run", run):
        yield called
    UNPACKED.clear()
