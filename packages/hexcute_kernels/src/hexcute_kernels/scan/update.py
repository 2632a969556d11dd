"""h = exp(dt A) h + dt x B,  y = (sum over n of C[n] h[n] + D x) silu(z): one step of the scan.

The states lie in a cache, a slot per sequence; a block reads those of BD channels of one sequence,
and writes them back where they were. Which slot that is, is a number from memory.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.parts.softmax import LOG2_E
from hexcute_kernels.scan.walk import finished, softplus

slots, b, g, d = hx.dims("slots b g d")


@hx.device
def taken(view, shape):
    """A tile of a view in registers, as f32."""
    r = hx.register_tensor(view.dtype, shape)
    hx.copy(view, r)
    return hx.cast(r, f32)


@cache
def state_update_kernel(
    dtype: hx.DType, state_dtype: hx.DType, states: int, *, skips: bool = False,
    gated: bool = False, biased: bool = False, soft: bool = False, indexed: bool = False,
) -> hx.Kernel:  # fmt: skip
    """The kernel for `states` states per channel; what `selective_scan_kernel` calls the same is
    the same. `indexed`: sequence s has slot index[s], else slot s; where there is no such slot is
    no sequence, and the result is 0."""
    many, shared, channel = dtype[b, g, d], dtype[b, g, states], f32[g, d]
    skip_type, bias_type = channel if skips else None, channel if biased else None
    z_type, index_type = many if gated else None, i32[b] if indexed else None

    @hx.kernel
    def update(
        state: state_dtype[slots, g, d, states], x: many, delta: many, a: f32[g, d, states],
        bs: shared, cs: shared, skip: skip_type, z: z_type, bias: bias_type, index: index_type,
        out: many, *, BD: int = 64, THREADS: int = 128,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(d, BD), g, b
        hx.attrs.cuda.block_dim = THREADS
        bd, group, y = hx.blockIdx.x * BD, hx.blockIdx.y, hx.blockIdx.z
        slot = index[y] if indexed else y
        block, row, line = (BD, states), (BD, 1), (1, states)
        go = hx.global_view(out[y, group, bd:], (row, (1, 0)))
        if indexed and (slot < 0 or slot >= slots):
            nothing = hx.register_tensor(dtype, row)
            hx.fill(nothing, 0.0)
            hx.copy(nothing, go)
            return
        gh = hx.global_view(state[slot, group, bd:, :], (block, (states, 1)))
        ra = taken(hx.global_view(a[group, bd:, :], (block, (states, 1))), block) * LOG2_E
        rb, rc = (taken(hx.global_view(x[y, group, :], (line, (0, 1))), line) for x in (bs, cs))
        given, dt = (
            taken(hx.global_view(x[y, group, bd:], (row, (1, 0))), row) for x in (x, delta)
        )
        # All is asked for before the first store.
        h = taken(gh, block)
        rskip = taken(hx.global_view(skip[group, bd:], (row, (1, 0))), row) if skips else 0.0
        gate = taken(hx.global_view(z[y, group, bd:], (row, (1, 0))), row) if gated else 0.0
        if biased:
            dt = dt + taken(hx.global_view(bias[group, bd:], (row, (1, 0))), row)
        if soft:
            dt = softplus(dt)
        h = h * hx.exp2(dt * ra) + dt * given * rb
        hx.copy(hx.cast(h, state_dtype), gh)
        result = hx.sum(h * rc, 1)
        if skips:
            result = result + given * rskip
        if gated:
            result = finished(result, gate)
        hx.copy(hx.cast(result, dtype), go)

    return update
