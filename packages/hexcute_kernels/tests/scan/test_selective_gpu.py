"""The selective scan, the convolution before it and steps of both on a GPU, against float32."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

import hexcute_kernels
from hexcute_kernels.scan import (
    causal_conv1d,
    causal_conv1d_update,
    selective_scan,
    selective_scan_with_state,
    selective_state_update,
)
from hexcute_kernels.scan.configs import HELPED, SCAN, HelpedConfig

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def reference(
    u: Any, delta: Any, a: Any, b: Any, c: Any, skip: Any, z: Any, bias: Any, soft: bool,
    start: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The result and the last states in float64, by doubling: what came 1, 2, 4, ... steps before
    is added, as it has decayed since."""
    u, delta, a, b, c = (x.double() for x in (u, delta, a, b, c))
    dt = delta if bias is None else delta + bias.double()[:, None]
    dt = torch.nn.functional.softplus(dt) if soft else dt
    b, c = (x[:, None] if x.dim() == 3 else x for x in (b, c))
    b, c = (x.repeat_interleave(u.shape[1] // x.shape[1], 1) for x in (b, c))
    left, h = torch.exp(dt[:, :, None] * a[:, :, None]), (dt * u)[:, :, None] * b
    if start is not None:
        h[..., 0] += left[..., 0] * start
    step = 1
    while step < u.shape[2]:
        h = torch.cat([h[..., :step], h[..., step:] + left[..., step:] * h[..., :-step]], -1)
        left = torch.cat([left[..., :step], left[..., step:] * left[..., :-step]], -1)
        step *= 2
    y = (h * c).sum(2)
    y = y if skip is None else y + skip.double()[:, None] * u
    return y if z is None else y * torch.nn.functional.silu(z.double()), h[..., -1]


BITS = {torch.float16: 9, torch.bfloat16: 6, torch.float32: 15}


def close(got: Any, want: Any, bits: int) -> None:
    assert (got.double() - want).abs().max() / want.abs().max() < 2.0**-bits


def turned(x: Any, last: bool) -> Any:
    """x, its steps before what is left of the batch in memory where `last`."""
    return x.movedim(-1, 1).contiguous().movedim(1, -1) if last else x


def compare(
    draw: random.Random, b: int, d: int, length: int, states: int, *, halves: bool = False,
    **how: Any,
) -> None:  # fmt: skip
    """A random problem of these sizes against the reference; `halves`, of 16 bits."""
    dtype = draw.choice([t for t in BITS if not halves or t.itemsize == 2])
    last, bc_last = draw.choice([True, False]), draw.choice([True, False])

    def normal(*shape: int, last: bool = last) -> Any:
        return turned(torch.randn(shape, device="cuda", dtype=dtype), last)

    u, delta, z = normal(b, d, length), turned(normal(b, d, length) - 1, last), normal(b, d, length)
    shape = draw.choice([(b, states, length), (b, 1, states, length)])
    if d % 4 == 0:
        shape = draw.choice([shape, (b, 2, states, length), (b, 4, states, length)])
    bs, cs = normal(*shape, last=bc_last), normal(*shape, last=bc_last)
    a = -torch.rand(d, states, device="cuda") * 4 - 0.5
    skip, bias = (draw.choice([None, torch.randn(d, device="cuda")]) for _ in range(2))
    z = draw.choice([None, z])
    start = draw.choice([None, torch.randn(b, d, states, device="cuda")])
    args = (u, delta, a, bs, cs, skip, z, bias, True)
    want, end = reference(*args, start)
    out = torch.empty_like(u).fill_(torch.nan)
    selective_scan(*args, start, out=out, **how)
    close(out, want, BITS[dtype])
    out, state = selective_scan_with_state(*args, start, **how)
    close(out, want, BITS[dtype])
    close(state, end, 15)


@pytest.mark.parametrize("seed", range(8))
def test_random_problems(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(8):
        d = draw.choice([1, 31, 32, 64, 100, 128, 192, 500])
        length = draw.choice([1, 2, 15, 16, 17, 64, 100, 257])
        states = draw.choice([4, 8, 16, 32, 64, 128])
        compare(draw, draw.choice([1, 2, 5]), d, length, states)


@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_sizes_of_one_kind(seed: int) -> None:
    """Rows are multiples of 16 bytes or not: kernels of their own, which are to be few here."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dtype = draw.choice([torch.float16, torch.bfloat16])
    whole, states = draw.choice([1, 8]), draw.choice([8, 16, 16, 32])
    config = draw.choice([*HELPED] if states > 8 else [*SCAN])
    has = [draw.random() < 0.7 for _ in range(3)]
    for _ in range(100):
        b, d = draw.randint(1, 3), 4 * draw.randint(1, 75)
        length = 8 * draw.randint(1, 38) - (whole == 1)
        u, delta, z = (torch.randn(b, d, length, device="cuda").to(dtype) for _ in range(3))
        bs, cs = (torch.randn(b, states, length, device="cuda").to(dtype) for _ in range(2))
        a = -torch.rand(d, states, device="cuda") * 4 - 0.5
        skip, bias = (torch.randn(d, device="cuda") if h else None for h in has[:2])
        args = (u, delta - 1, a, bs, cs, skip, z if has[2] else None, bias, True)
        out = torch.full_like(u, torch.nan)
        selective_scan(*args, out=out, config=config)
        close(out, reference(*args)[0], BITS[dtype])


@pytest.mark.parametrize("length", [1, 17, 4097, 1_000_000])
def test_lengths(length: int) -> None:
    b, d, states = (1, 8, 16) if length > 5000 else (2, 160, 16)
    u, delta, z = (torch.randn(b, d, length, device="cuda").half() for _ in range(3))
    bs, cs = (torch.randn(b, states, length, device="cuda").half() for _ in range(2))
    # Decays that keep a state for thousands of steps are among these.
    a = -torch.logspace(-3, 1, d * states, device="cuda").view(d, states)
    args = (u, delta - 3, a, bs, cs, torch.randn(d, device="cuda"), z, None, True)
    want, end = reference(*args)
    out, state = selective_scan_with_state(*args)
    close(out, want, BITS[torch.float16])
    close(state, end, 9)


@pytest.mark.parametrize("config", [*SCAN, *HELPED], ids=str)
def test_every_configuration(config: Any) -> None:
    helped = isinstance(config, HelpedConfig)
    for states in (16, 64, 128) if helped else (4, 16, 64):
        compare(random.Random(0), 2, 300, 200, states, halves=helped, config=config)


@pytest.mark.parametrize("last", [True, False])
def test_sequences_behind_one_another(last: bool) -> None:
    lengths = [0, 17, 1, 300, 64]
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32).cuda()
    d, states, total = 96, 16, sum(lengths)
    u, delta, z = (turned(torch.randn(1, d, total).cuda().half(), last) for _ in range(3))
    bs, cs = (turned(torch.randn(1, states, total).cuda().half(), last) for _ in range(2))
    a = -torch.rand(d, states, device="cuda") * 4 - 0.5
    start = torch.randn(len(lengths), d, states, device="cuda")
    args = (u, delta, a, bs, cs, None, z, None, True)
    out, state = selective_scan_with_state(*args, start, offsets)
    for s, (begin, end) in enumerate(pairwise(offsets.tolist())):
        if begin == end:
            assert torch.equal(state[s], start[s])
            continue
        part = [x[..., begin:end] if x is not None else None for x in (u, delta, bs, cs, z)]
        want, h = reference(*part[:2], a, *part[2:4], None, part[4], None, True, start[s : s + 1])
        close(out[..., begin:end], want, 9)
        close(state[s : s + 1], h, 15)


def test_steps_of_decoding_go_on_where_a_sequence_ends() -> None:
    b, d, states, length, width = 3, 192, 16, 20, 4
    x, delta, z = (torch.randn(b, d, length).cuda().half() for _ in range(3))
    bs, cs = (torch.randn(b, states, length).cuda().half() for _ in range(2))
    a = -torch.rand(d, states, device="cuda") * 4 - 0.5
    weight, bias = torch.randn(d, width).cuda().half(), torch.randn(d).cuda().half()
    slots = torch.tensor([4, 0, 2], dtype=torch.int32).cuda()
    lines = torch.zeros(5, d, width - 1).cuda().half()
    caches = torch.randn(5, d, states, device="cuda")
    start = caches[slots.long()].clone()
    u = causal_conv1d(x, weight, bias, activation="silu")
    padded = torch.nn.functional.pad(x.float(), (width - 1, 0))
    want = torch.nn.functional.conv1d(padded, weight.float()[:, None], bias.float(), groups=d)
    close(u, torch.nn.functional.silu(want), 9)
    turned_u = causal_conv1d(turned(x, True), weight, bias, activation="silu")
    assert torch.equal(turned_u, u) and turned_u.mT.is_contiguous()
    y, end = selective_scan_with_state(u, delta, a, bs, cs, None, z, None, True, start)
    for t in range(length):
        at = [v[..., t].contiguous() for v in (x, delta, bs, cs, z)]
        step = causal_conv1d_update(at[0], lines, weight, bias, "silu", slots)
        close(step, u[..., t].float(), 9)
        found = selective_state_update(
            caches, u[..., t].contiguous(), at[1], a, *at[2:4], None, at[4], None, True, slots
        )
        close(found, y[..., t].float(), 9)
    close(caches[slots.long()], end, 15)


def test_opcheck() -> None:
    d, states = 64, 16
    u, x = torch.randn(2, d, 40).cuda().half(), torch.randn(2, d).cuda().half()
    bs, a = torch.randn(2, states, 40).cuda().half(), -torch.rand(d, states, device="cuda")
    one, state = torch.randn(2, states).cuda().half(), torch.randn(2, d, states, device="cuda")
    weight, line = torch.randn(d, 4).cuda().half(), torch.randn(2, d, 3).cuda().half()
    hexcute_kernels.register()
    ops = torch.ops.hexcute
    for given in (u, turned(u, True)):
        torch.library.opcheck(ops.selective_scan.default, (given, given, a, bs, bs))
        torch.library.opcheck(ops.selective_scan_with_state.default, (given, given, a, bs, bs))
        torch.library.opcheck(ops.causal_conv1d.default, (given, weight))
    torch.library.opcheck(ops.selective_state_update.default, (state, x, x, a, one, one))
    torch.library.opcheck(ops.causal_conv1d_update.default, (x, line, weight))
