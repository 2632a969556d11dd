"""What the operators with weights of four bits say of a call, and what they launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from four_bits import quantized
from four_bits import weights as values

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
from packed_forms import packed_as  # noqa: E402
from stand_ins import gpu, on_gpu  # noqa: E402

from hexcute_kernels.moe import check_routing, moe, pack, pack_experts, w4a16_matmul  # noqa: E402
from hexcute_kernels.moe.configs import (  # noqa: E402
    FEW,
    ROUTED,
    STREAMED,
    MoeConfig,
    StreamedConfig,
    W4A16Config,
    WeightedConfig,
)
from hexcute_kernels.moe.few import few_rows  # noqa: E402
from hexcute_kernels.moe.forms import FORMS, U4, Weights  # noqa: E402
from hexcute_kernels.moe.layer_operator import (  # noqa: E402
    Routed,
    fits_streamed,
    launch_moe,
    launch_streamed,
    pays_streamed,
)
from hexcute_kernels.moe.operators import Dense, fits_few, launch_dense  # noqa: E402
from hexcute_kernels.moe.streamed import gated_product  # noqa: E402
from hexcute_kernels.operator import Steps  # noqa: E402
from hexcute_kernels.tables import constants  # noqa: E402
from hexcute_kernels.tensors import torch_dtype  # noqa: E402

ROOM = 232448
"""Bytes of shared memory that a block may have."""


def weights(*shape: int, group: int = 128) -> Any:
    *batch, k, n = shape
    q = torch.zeros(shape, dtype=torch.uint8)
    scale = torch.ones((*batch, k // group, n), dtype=torch.float16)
    return on_gpu(pack(q, scale, torch.zeros_like(scale, dtype=torch.uint8)))


def zeros(*shape: int, dtype: Any = torch.float16) -> Any:
    return on_gpu(torch.zeros(shape, dtype=dtype))


def test_dense() -> None:
    w = weights(256, 192)
    with gpu("h200", "sm_90") as launches:
        c = w4a16_matmul(zeros(5, 256), w)
        assert c.shape == (5, 192) and c.dtype == torch.float16
        assert w4a16_matmul(zeros(0, 256), w).shape == (0, 192)
        (noted,) = launches
        shapes = [tuple(t.shape) for t in noted.prepared]
        assert shapes == [(5, 256), (1, 2, 204, 32), (1, 2, 204 * 32), (5, 192)]
        assert noted.constants["BM"] == 8
        for args, words in (
            ((zeros(5, 128), w), r"x \(m, 256\)"),
            ((zeros(5, 256, dtype=torch.float32), w), "takes float16 or bfloat16|float16"),
            ((zeros(5, 256), zeros(2, 100, 64, dtype=torch.uint8)), "pack"),
            ((zeros(5, 256), w[:, :, :32]), "row-major|contiguous|pack"),
        ):
            with pytest.raises(LaunchError, match=words):
                w4a16_matmul(*args)
        with pytest.raises(LaunchError, match="or 16 of 16384 numbers, got 17 of"):
            w4a16_matmul.plan((zeros(17, 256), w), variant="few")
    with gpu("a100", "sm_80"), pytest.raises(LaunchError, match="wgmma: needs wgmma and tma"):
        w4a16_matmul.plan((zeros(5, 256), w))


@pytest.mark.parametrize(("k", "asked", "split"), [(1024, 4, 4), (128, 8, 1), (640, 4, 3)])
def test_parts_of_k_that_are_none_empty(k: int, asked: int, split: int) -> None:
    m, n = 32, 8192
    steps = launch_dense(Dense(m=m, n=n, k=k), W4A16Config(32, 256, 5, SPLIT=asked))
    launch = steps.launches[0] if isinstance(steps, Steps) else steps
    assert split == launch.config.SPLIT
    if isinstance(steps, Steps):
        assert steps.work[0].shape == (m, split, n)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("group", [32, 64, 128, 256])
def test_the_weights_say_their_groups_and_x_its_type(group: int, dtype: Any) -> None:
    """Results are of x's type, and each group that is packed has its kernel."""
    w13, w2 = weights(4, 256, 512, group=group), weights(4, 256, 256, group=group)
    x, gates = zeros(7, 256, dtype=dtype), zeros(7, 2, dtype=torch.float32)
    with gpu("h200", "sm_90"):
        one = w13[0].contiguous()
        assert w4a16_matmul.describe(x, one).group == min(group, 128)
        assert torch_dtype(w4a16_matmul.plan((x, one)).outputs[0].dtype) == dtype
        for variant in ("streamed", "wgmma"):
            args = (x, w13, w2, zeros(7, 2, dtype=torch.int32), gates, "layer")
            assert moe.describe(*args).group == min(group, 128)
            plan = moe.plan(args, variant=variant)
            assert torch_dtype(plan.outputs[0].dtype) == dtype


@pytest.mark.parametrize("form", FORMS)
def test_the_weights_say_their_form(form: str) -> None:
    """Each has its kernels, and what they are given are its bytes; both products take one form."""
    group = FORMS[form].groups[0]
    if form == "u4":
        w13, w2 = weights(4, 256, 512, group=group), weights(4, 256, 256, group=group)
    else:
        w13, w2 = (on_gpu(packed_as(form, 4, 256, n, group=group)[0]) for n in (512, 256))
    x, ids, gates = zeros(7, 256), zeros(7, 2, dtype=torch.int32), zeros(7, 2, dtype=torch.float32)
    with gpu("h200", "sm_90") as launches:
        assert w4a16_matmul.describe(x, w13[0].contiguous()).form == form
        for variant in ("streamed", "wgmma"):
            launches.clear()
            moe(x, w13, w2, ids, gates, variant=variant)
            every = [t for noted in launches for t in noted.prepared]
            words = [t for t in every if getattr(t, "dtype", None) == torch.uint16]
            assert [t.numel() * 2 for t in words] == [w.numel() for w in (w13, w2)]
        if form != "u4":
            with pytest.raises(LaunchError, match="w13 is of .* and w2 of u4"):
                moe(x, w13, weights(4, 256, 256), ids, gates)


def test_a_layer() -> None:
    w13, w2 = weights(4, 256, 512), weights(4, 256, 256)
    x, ids, gates = zeros(7, 256), zeros(7, 2, dtype=torch.int32), zeros(7, 2, dtype=torch.float32)
    with gpu("h200", "sm_90"):
        plan = moe.plan((x, w13, w2, ids, gates, "layer"))
        assert plan.outputs[0].shape == (7, 256) and plan.variant == "streamed"
        assert plan.config == STREAMED.rows["h200"][0].config and len(plan.launch.launches) == 4
        assert len(moe.plan((x, w13, w2, ids, gates, "gemms")).launch.launches) == 3
        grouped = moe.plan((x, w13, w2, ids, gates, "layer"), variant="wgmma")
        assert grouped.config.first.BM == 16 and len(grouped.launch.launches) == 5
        assert moe.plan((x, w13, w2, ids, gates, "gemms")).outputs[0].shape == (14, 256)
        many = zeros(500, 256), w13, w2, zeros(500, 2, dtype=torch.int32)
        gated = zeros(500, 2, dtype=torch.float32)
        assert moe.plan((*many, gated, "layer")).config == ROUTED.rows["h200"][2].config
        with pytest.raises(LaunchError, match="up to 32 rows per expert on average .* got 250"):
            moe.plan((*many, gated, "layer"), variant="streamed")
        some = tuple(t[:40] for t in (many[0], ids.new_zeros(40, 2), gated))
        some = some[0], w13, w2, on_gpu(some[1]), some[2], "layer"
        assert moe.plan(some, variant="streamed").variant == "streamed"
        odd = StreamedConfig(plan.config.first, WeightedConfig(16, 128, 2, 4, 4))
        with pytest.raises(LaunchError, match="same rows per tile"):
            moe.plan((x, w13, w2, ids, gates, "layer"), config=odd)
        uneven = MoeConfig(W4A16Config(16, 128, 4), W4A16Config(32, 128, 4))
        with pytest.raises(LaunchError, match="same rows per tile"):
            moe.plan((x, w13, w2, ids, gates, "layer"), config=uneven)
        nothing = moe(x[:0], w13, w2, ids[:0], gates[:0])
        assert nothing.shape == (0, 256)
        for args, words in (
            ((x, w13, w13, ids, gates), "hidden is 512 in w2"),
            ((x, w13, weights(4, 256, 256, group=64), ids, gates), "of 128 .* w2 of .* 64"),
            ((x, w13[:, :, ::2], w2, ids, gates), "contiguous|kernels' order"),
            ((x, w13, w2.mT.contiguous(), ids, gates), "kernels' order"),
            ((x.T.contiguous().T, w13, w2, ids, gates), "contiguous"),
            ((x, w13.view(torch.int16), w2, ids, gates), "kernels' order"),
            ((x, w2, w2, ids, gates), "w2 of"),
            ((zeros(7, 128), w13, w2, ids, gates), "hidden is 256 in w2"),
            ((x, w13, w2, ids, gates[:, :1].contiguous()), "ids and gates"),
            ((x, w13, w2, ids.long(), gates), "takes int32"),
            ((x, w13[0], w2, ids, gates), "packed from"),
            ((x, w13, w2, ids, gates, "all"), "scope is"),
        ):
            with pytest.raises(LaunchError, match=words):
                moe(*args)


@pytest.mark.parametrize("group", [32, 128])
def test_the_longest_rows_that_are_taken_have_room(group: int) -> None:
    """The configuration that such a problem gets, compiled; one block of k more is refused."""
    hidden = {32: 9216, 128: 18432}[group]
    p = Routed(m=8, hidden=hidden, width=128, experts=64, top_k=8, scope="gemms", group=group)
    assert fits_streamed(p) is None
    assert "takes hidden up to" in str(fits_streamed(replace(p, hidden=hidden + 128)))
    config = STREAMED.rows["h200"][4].config.first
    held = Weights(U4, group)
    compiled = gated_product(64, hidden, 128, held).compile("sm_90", **constants(config))
    assert compiled.thread.shared_bytes <= ROOM
    k = {32: 9344, 128: 16384}[group]
    dense = Dense(m=16, n=8256, k=k, group=group)
    assert fits_few(dense) is None
    assert "or 16 of" in str(fits_few(replace(dense, k=k + 128)))
    config = FEW.choose("h200", dense)
    compiled = few_rows(8256, k, held).compile("sm_90", **constants(config))
    assert compiled.thread.shared_bytes <= ROOM


def test_wide_experts_stream_up_to_more_rows() -> None:
    p = Routed(m=32, hidden=4096, width=14336, experts=8, top_k=2, scope="gemms")
    assert STREAMED.choose("h200", p).first.TOGETHER
    for tokens, high, pays in ((16, 8, True), (32, 8, True), (64, 16, False), (65, 16, False)):
        some = replace(p, m=tokens)
        assert high == STREAMED.choose("h200", some).first.BM
        assert (pays_streamed(some) is None) == pays
    assert "up to 4 rows" in str(pays_streamed(replace(p, width=2048)))


def test_a_routing_is_looked_at_on_request() -> None:
    ids = torch.zeros(5, 2, dtype=torch.int32)
    check_routing(ids, 1)
    check_routing(ids[:0], 0)
    ids[3, 1], ids[4, 0] = -1, 8
    with pytest.raises(LaunchError, match=r"from 0 to 7, and 2 of them are not; ids\[3, 1\] is -1"):
        check_routing(ids, 8)
    with pytest.raises(LaunchError, match="takes int32"):
        check_routing(ids.long(), 8)


def simulate(kernel: Any, *args: Any, **how: object) -> None:
    kernel.simulate(*(t.numpy() for t in args), target="sm_90", **how)


def follow(steps: Any, named: dict[str, Any]) -> None:
    """Simulates the launches one after the other, on tensors by name."""
    named = dict(named)
    for i, output in enumerate(steps.work):
        made = torch.empty(output.shape, dtype=torch_dtype(output.dtype))
        named[f"work{i}"] = made.fill_(torch.nan if made.is_floating_point() else -7)
    for launch in steps.launches:
        pairs = ((a, None) if isinstance(a, str) else a for a in launch.arguments)
        given = [view(named[name]) if view else named[name] for name, view in pairs]
        simulate(launch.kernel, *given, **constants(launch.config))


@pytest.mark.parametrize("variant", ["streamed", "wgmma"])
@pytest.mark.parametrize("scope", ["layer", "gemms"])
def test_what_a_call_launches_computes_the_layer(scope: str, variant: str) -> None:
    """The launches of a call, each of them simulated, against float64."""
    experts, hidden, width, tokens, top_k = 5, 256, 128, 9, 2
    first, second = quantized(1, experts, hidden, 2 * width), quantized(2, experts, width, hidden)
    w13, w2 = (pack_experts(*map(torch.from_numpy, numbers)) for numbers in (first, second))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(tokens, hidden)).astype(np.float16)
    ids = rng.integers(0, experts, (tokens, top_k)).astype(np.int32)
    gates = rng.uniform(0, 1, (tokens, top_k)).astype(np.float32)
    args = (torch.from_numpy(x), w13, w2, torch.from_numpy(ids), torch.from_numpy(gates), scope)
    problem = moe.describe(*args)
    out = torch.full(moe.results(problem)[0].shape, torch.nan, dtype=torch.float16)
    names = ("x", "w13", "w2", "ids", "gates", "scope", "out")
    if variant == "streamed":
        steps = launch_streamed(problem, STREAMED.choose("h200", problem))
    else:
        steps = launch_moe(problem, ROUTED.choose("h200", problem))
    follow(steps, dict(zip(names, (*args, out), strict=True)))
    flat = ids.reshape(-1)
    c1 = np.einsum("pk,pkn->pn", np.repeat(x.astype(float), top_k, 0), values(*first)[flat])
    h = c1[:, :width] / (1 + np.exp(-c1[:, :width])) * c1[:, width:]
    c2 = np.einsum("pk,pkn->pn", h, values(*second)[flat]) * gates.reshape(-1)[:, None]
    want = c2 if scope == "gemms" else c2.reshape(tokens, top_k, hidden).sum(1)
    bits = 10 if variant == "streamed" else 9
    assert np.abs(out.numpy() - want).max() < 2.0**-bits * np.abs(want).max()
