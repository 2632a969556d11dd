"""What stands between the products of a model, a row of a token at a time: sums, norms, gates.

These are the same for all systems of a comparison; each is one launch.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def norm_kernel(
    x_ptr, x_stride, more_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, N, eps,
    BLOCK: tl.constexpr, ADD: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    if MORE:
        x += tl.load(more_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        x += tl.load(residual_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
        total = x.to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + row * N + columns, total, mask=inside)
        x = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / N + eps)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    made = (x * scale * weight).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * N + columns, made, mask=inside)


@triton.jit
def gated_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    left = tl.load(x_ptr + row * 2 * N + columns, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(x_ptr + row * 2 * N + N + columns, mask=inside, other=0.0).to(tl.float32)
    made = left * tl.sigmoid(left) * right
    tl.store(out_ptr + row * N + columns, made.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def route_kernel(
    logits_ptr, bias_ptr, ids_ptr, gates_ptr, scale,
    GROUPS: tl.constexpr, EACH: tl.constexpr, KEPT: tl.constexpr, TOP: tl.constexpr,
    ROOM: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    group, place = tl.arange(0, GROUPS), tl.arange(0, EACH)
    number = group[:, None] * EACH + place[None, :]
    logits = tl.load(logits_ptr + row * GROUPS * EACH + number).to(tl.float32)
    score = tl.sigmoid(logits)
    biased = score + tl.load(bias_ptr + number)
    least = float("-inf")
    best = tl.max(biased, 1)
    first = tl.argmax(biased, 1)
    second = tl.max(tl.where(place[None, :] == first[:, None], least, biased), 1)
    both = best + second
    kept = tl.zeros((GROUPS,), tl.int32)
    for _ in tl.static_range(KEPT):
        found = tl.argmax(tl.where(kept > 0, least, both), 0)
        kept = tl.where(group == found, 1, kept)
    left = tl.where(kept[:, None] > 0, biased, least)
    left = tl.reshape(left, (GROUPS * EACH,))
    score = tl.reshape(score, (GROUPS * EACH,))
    every = tl.arange(0, GROUPS * EACH)
    choice = tl.arange(0, ROOM)
    ids = tl.zeros((ROOM,), tl.int32)
    gates = tl.zeros((ROOM,), tl.float32)
    for j in tl.static_range(TOP):
        found = tl.argmax(left, 0)
        gate = tl.sum(tl.where(every == found, score, 0.0), 0)
        ids = tl.where(choice == j, found, ids)
        gates = tl.where(choice == j, gate, gates)
        left = tl.where(every == found, least, left)
    gates = gates / tl.sum(gates, 0) * scale
    tl.store(ids_ptr + row * TOP + choice, ids, mask=choice < TOP)
    tl.store(gates_ptr + row * TOP + choice, gates, mask=choice < TOP)


@triton.jit
def own_choices_kernel(
    ids_ptr, gates_ptr, own_ptr, own_gates_ptr, first, here, TOP: tl.constexpr, ROOM: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    choice = tl.arange(0, ROOM)
    inside = choice < TOP
    number = tl.load(ids_ptr + row * TOP + choice, mask=inside, other=-1) - first
    mine = (number >= 0) & (number < here)
    one = tl.max(tl.where(mine, number, 0), 0)
    gate = tl.load(gates_ptr + row * TOP + choice, mask=inside, other=0.0)
    tl.store(own_ptr + row * TOP + choice, tl.where(mine, number, one), mask=inside)
    tl.store(own_gates_ptr + row * TOP + choice, tl.where(mine, gate, 0.0), mask=inside)


@triton.jit
def quantize_kernel(x_ptr, q_ptr, s_ptr, K, column, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    places = row * K + block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1.1754943508222875e-38) / 448.0
    tl.store(q_ptr + places, (x / scale).to(q_ptr.dtype.element_ty))
    tl.store(s_ptr + block * column + row, scale)


def _warps(block: int) -> int:
    return min(16, max(1, block // 512))


def norm(x: Any, weight: Any, eps: float) -> Any:
    """Rows of x normed; x may be some columns of a wider tensor."""
    n = x.shape[-1]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(n)
    norm_kernel[(x.shape[0],)](
        x, x.stride(0), x, x, weight, out, out, n, eps, BLOCK=block, ADD=False, MORE=False,
        num_warps=_warps(block),
    )  # fmt: skip
    return out


def add_norm(
    x: Any, residual: Any, weight: Any, eps: float, more: Any = None
) -> tuple[Any, Any]:
    """Rows of x + residual normed, and the sum; of x + more + residual where there is more."""
    n = x.shape[-1]
    out, total = torch.empty_like(x), torch.empty_like(x)
    block = triton.next_power_of_2(n)
    norm_kernel[(x.shape[0],)](
        x, x.stride(0), x if more is None else more, residual, weight, out, total, n, eps,
        BLOCK=block, ADD=True, MORE=more is not None, num_warps=_warps(block),
    )  # fmt: skip
    return out, total


def gated(x: Any) -> Any:
    """silu(left half) * right half of each row."""
    n = x.shape[-1] // 2
    out = torch.empty((x.shape[0], n), dtype=x.dtype, device=x.device)
    block = min(1024, triton.next_power_of_2(n))
    gated_kernel[(x.shape[0], triton.cdiv(n, block))](x, out, n, BLOCK=block, num_warps=4)
    return out


def route(logits: Any, bias: Any, routing: Any) -> tuple[Any, Any]:
    """Expert numbers and gates (tokens, top_k) of logits (tokens, experts)."""
    shape = logits.shape[0], routing.top_k
    ids = torch.empty(shape, dtype=torch.int32, device=logits.device)
    gates = torch.empty(shape, dtype=torch.float32, device=logits.device)
    route_kernel[(shape[0],)](
        logits, bias, ids, gates, routing.scale, GROUPS=routing.groups,
        EACH=routing.experts // routing.groups, KEPT=routing.kept, TOP=routing.top_k,
        ROOM=triton.next_power_of_2(routing.top_k), num_warps=1,
    )  # fmt: skip
    return ids, gates


def own_choices(ids: Any, gates: Any, first: int, here: int) -> tuple[Any, Any]:
    """`choices` of hexcute_kernels.parallel.experts: where an expert is another rank's, one that
    the row has here, with a gate of 0."""
    own, own_gates = torch.empty_like(ids), torch.empty_like(gates)
    rows, top_k = ids.shape
    own_choices_kernel[(rows,)](
        ids, gates, own, own_gates, first, here, TOP=top_k, ROOM=triton.next_power_of_2(top_k),
        num_warps=1,
    )  # fmt: skip
    return own, own_gates


def quantize(x: Any, rows: int) -> tuple[Any, Any]:
    """Rows of x (m, k) in e4m3, (rows, k), and a scale for each 128 columns, (rows, k/128) column
    after column. Of more rows than x has, the last ones hold anything."""
    m, k = x.shape
    q = torch.empty((rows, k), dtype=torch.float8_e4m3fn, device=x.device)
    s = torch.empty((k // 128, rows), dtype=torch.float32, device=x.device)
    quantize_kernel[(m, k // 128)](x, q, s, k, rows, BLOCK=128, num_warps=1)
    return q, s.t()
