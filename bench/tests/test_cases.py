"""The cases' references and measure of error, on the CPU; needs torch."""

from __future__ import annotations

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from hexcute_bench.cases.attention import AttentionCase  # noqa: E402
from hexcute_bench.cases.decoding import DecodingCase, decoding_work  # noqa: E402
from hexcute_bench.cases.fp8 import Fp8Case  # noqa: E402
from hexcute_bench.cases.fp8_grouped import (  # noqa: E402
    Fp8GroupedCase,
    fp8_grouped_work,
    group_sizes,
)
from hexcute_bench.cases.fp8_quantize import Fp8QuantizeCase  # noqa: E402
from hexcute_bench.cases.gemm import GemmCase  # noqa: E402
from hexcute_bench.cases.latent import LatentCase, latent_work  # noqa: E402
from hexcute_bench.cases.moe import MoeCase, MoeSizes, align, moe_work  # noqa: E402
from hexcute_bench.cases.norms import EPS, NormsCase  # noqa: E402
from hexcute_bench.cases.packed import PackedCase, lengths_of, packed_work  # noqa: E402
from hexcute_bench.cases.scan import STATES, ScanCase  # noqa: E402
from hexcute_bench.cases.tensors import F16_TOLERANCE, relative_error  # noqa: E402
from hexcute_bench.cases.w4a16 import W4A16Case, w4a16_work  # noqa: E402
from hexcute_bench.peers.marlin_format import (  # noqa: E402
    pack_scales,
    pack_weights,
    pack_zeros,
)
from hexcute_bench.shape import Shape  # noqa: E402
from hexcute_bench.suites.moe import MODELS  # noqa: E402


def test_the_error_sees_rounding_one_element_nan_and_shape() -> None:
    reference = torch.randn(300, 200)
    rounded = reference.half()
    assert 0 < relative_error(rounded, reference) < 2.0**-11
    one = rounded.clone()
    one[7, 9] += 0.05
    assert relative_error(one, reference) > F16_TOLERANCE
    one[7, 9] = math.nan
    assert math.isnan(relative_error(one, reference))
    assert relative_error(rounded[:-1], reference) == math.inf


def test_a_gemm_case_is_fresh_poisoned_and_right() -> None:
    shape = Shape.of(m=33, n=40, k=65)
    case, other = (GemmCase(shape, sets=2, device="cpu") for _ in range(2))
    assert not torch.equal(case.a[0], case.a[1]) and not torch.equal(case.a[0], other.a[0])
    assert math.isnan(case.error(case.output(0), 0))
    right = (case.a[1].double() @ case.b[1].double().t()).half()
    assert case.error(right, 1) < case.tolerance < case.error(right, 0)
    case.c[0].copy_(right)
    case.poison(0)
    assert torch.isnan(case.output(0)).all()


def test_attention_against_torch() -> None:
    case = AttentionCase(Shape.of(heads=3, d=64, s=100), sets=1, device="cpu")
    q, k, v = (t.double().transpose(0, 1) for t in (case.q[0], case.k[0], case.v[0]))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1)
    assert case.error(out.half(), 0) < 2.0**-10
    assert case.error(out.half().roll(1, 0), 0) > case.tolerance


@pytest.mark.parametrize("page", [0, 16])
def test_decoding_of_a_batch_against_torch(page: int) -> None:
    more = {"page": page} if page else {}
    shape = Shape.of(batch=3, heads=6, kv=2, d=64, s=200, **more)
    case = DecodingCase(shape, sets=2, device="cpu")
    assert (len(set(case.lengths)) == 3) == bool(page) and max(case.lengths) <= 200
    assert decoding_work(shape).bytes == 2 * case.k[0][0, 0].nbytes * sum(case.lengths)
    out = torch.empty(3, 1, 6, 64, dtype=torch.float64)
    for z in range(3):
        keys, values = (x.double().repeat_interleave(3, 0) for x in case.keys(1, z))
        q = case.q[1][z, 0, :, None].double()
        out[z, 0] = torch.nn.functional.scaled_dot_product_attention(q, keys, values)[:, 0]
    assert case.error(out.half(), 1) < 2.0**-10
    assert case.error(out.half().roll(1, 0), 1) > case.tolerance
    assert not page or int(case.table.max()) == case.k[0].shape[0] - 1


def test_latent_decoding_against_torch() -> None:
    shape = Shape.of(batch=2, heads=4, s=192)
    case = LatentCase(shape, sets=1, device="cpu")
    keys = case.cache[0][case.table.long()].view(2, 1, 192, 576).double()
    q = case.q[0].double().transpose(1, 2)
    out = torch.nn.functional.scaled_dot_product_attention(
        q, keys.expand(2, 4, 192, 576), keys[..., :512].expand(2, 4, 192, 512)
    ).transpose(1, 2)
    assert case.error(out.half(), 0) < 2.0**-10
    assert case.error(out.half().roll(1, 0), 0) > case.tolerance
    assert latent_work(shape).bytes == case.cache[0].nbytes


def test_fp8_scales_blocks_of_128() -> None:
    case = Fp8Case(Shape.of(m=5, n=256, k=384), sets=1, device="cpu")
    a, w = case.a[0].double(), case.w[0].double()
    total = torch.zeros(5, 256, dtype=torch.float64)
    for group in range(3):
        part = slice(128 * group, 128 * (group + 1))
        for block in range(2):
            columns = slice(128 * block, 128 * (block + 1))
            scale = case.sa[0][:, group, None].double() * case.sw[0][block, group].double()
            total[:, columns] += a[:, part] @ w[columns, part].t() * scale
    assert case.error(total.bfloat16(), 0) < 2.0**-8


def test_grouped_fp8_takes_an_experts_weights_for_its_rows() -> None:
    shape = Shape.of(experts=3, rows=200, n=128, k=256)
    case = Fp8GroupedCase(shape, sets=1, device="cpu")
    assert case.sizes == group_sizes(shape) and len(case.sizes) == 3
    assert all(size % 128 == 0 and size > 0 for size in case.sizes)
    assert case.offsets.tolist() == [0, *itertools.accumulate(case.sizes)]
    total = torch.zeros(sum(case.sizes), 128, dtype=torch.float64)
    assert fp8_grouped_work(shape).flops == 2.0 * len(total) * 128 * 256
    for row in range(len(total)):
        e = next(e for e in range(3) if row < case.offsets[e + 1])
        for group in range(2):
            part = slice(128 * group, 128 * (group + 1))
            scale = case.sa[0][row, group].double() * case.sw[0][e, 0, group].double()
            a, w = case.a[0][row, part].double(), case.w[0][e, :, part].double()
            total[row] += w @ a * scale
    assert case.error(total.bfloat16(), 0) < 2.0**-8
    assert case.error(total.bfloat16().roll(128, 0), 0) > case.tolerance


def test_a_quantized_row_is_compared_with_what_it_was() -> None:
    case = Fp8QuantizeCase(Shape.of(m=5, k=256), sets=1, device="cpu")
    assert case.s[0].shape == (5, 2) and case.s[0].stride() == (1, 5)
    wide = case.x[0].float().unflatten(-1, (2, 128))
    s = wide.abs().amax(-1) / 448
    case.s[0].copy_(s)
    case.q[0].copy_((wide / s[..., None]).flatten(-2))
    assert case.error(case.output(0), 0) < case.tolerance
    case.s[0][3, 1] *= 1.5
    assert case.error(case.output(0), 0) > case.tolerance
    case.poison(0)
    assert math.isnan(case.error(case.output(0), 0))


def test_the_scan_steps_through_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Chunks of 70 steps, the last shorter.
    monkeypatch.setattr("hexcute_bench.cases.scan._CHUNK", 70 * 2 * 3 * STATES)
    case = ScanCase(Shape.of(batch=2, length=300), sets=1, device="cpu", width=3)
    u, z = case.u[0].double(), case.z[0].double()
    dt = torch.nn.functional.softplus(case.delta[0].double() + case.bias[:, None].double())
    out = torch.empty_like(u)
    for batch in range(2):
        for channel in range(3):
            h = torch.zeros(STATES, dtype=torch.float64)
            for t in range(300):
                step = dt[batch, channel, t]
                h = h * torch.exp(step * case.a[channel].double())
                h = h + step * u[batch, channel, t] * case.b[0][batch, 0, :, t].double()
                y = h @ case.c[0][batch, 0, :, t].double() + case.d[channel] * u[batch, channel, t]
                gate = z[batch, channel, t]
                out[batch, channel, t] = y * gate * torch.sigmoid(gate)
    assert case.error(out.half(), 0) < 2.0**-10
    assert case.error(out.half().roll(1, 2), 0) > case.tolerance


@pytest.mark.parametrize("called", ["softmax", "rms_norm", "layer_norm"])
def test_rows_are_normalised_in_float64(called: str) -> None:
    case = NormsCase(Shape.of({called: 5, "columns": 300}), sets=1, device="cpu")
    x, given = case.x[0].double(), [t.double() for t in case.given]
    if called == "softmax":
        out = x.exp() / x.exp().sum(1, keepdim=True)
    else:
        x = x - x.mean(1, keepdim=True) if called == "layer_norm" else x
        out = x / (x.square().mean(1, keepdim=True) + EPS).sqrt() * given[0]
        out = out + given[1] if called == "layer_norm" else out
    assert case.error(out.half(), 0) < 2.0**-10
    assert case.error(out.half().roll(1, 1), 0) > case.tolerance


SMALL = MoeSizes(experts=8, top_k=2, hidden=256, width=64, group=32)


def test_a_routing_is_aligned_to_blocks_of_one_expert() -> None:
    ids = torch.tensor([[3, 1], [3, 0], [3, 7], [1, 3]], dtype=torch.int32)
    route = align(ids, 8, 2)
    assert int(route.padded) == 10
    rows, experts = route.rows.tolist(), route.experts.tolist()
    flat = ids.reshape(-1).tolist()
    used = [rows[2 * block : 2 * block + 2] for block in range(5)]
    for block, expert in zip(used, experts):
        assert all(flat[row] == expert for row in block if row < 8)
    assert sorted(row for block in used for row in block if row < 8) == list(range(8))
    assert all(row == 8 for row in rows[10:])
    assert route.offsets.tolist() == [0, 2, 4, 4, 8, 8, 8, 8, 10]


def test_a_moe_layer_is_the_weighted_sum_over_its_experts() -> None:
    shape = Shape.of(tokens=3)
    case = MoeCase(shape, "layer", SMALL, sets=1, device="cpu")
    out = torch.zeros(3, SMALL.hidden, dtype=torch.float64)
    for token in range(3):
        for choice in range(SMALL.top_k):
            expert = int(case.ids[0][token, choice])
            c1 = case.x[0][token].double() @ case.w13.expert(expert).double()
            gate, up = c1[: SMALL.width], c1[SMALL.width :]
            h = gate * torch.sigmoid(gate) * up
            weight = case.gates[0][token, choice].double()
            out[token] += h @ case.w2.expert(expert).double() * weight
    assert case.error(out.half(), 0) < 2.0**-10


def test_single_tokens_take_turns_through_all_experts_and_several_meet_some() -> None:
    case = MoeCase(Shape.of(tokens=1), "gemms", SMALL, sets=4, device="cpu")
    met = {int(expert) for ids in case.ids for expert in ids.reshape(-1)}
    assert met == set(range(8))
    sizes = MoeSizes(experts=256, top_k=8, hidden=64, width=64, group=32)
    case = MoeCase(Shape.of(tokens=32), "gemms", sizes, sets=1, device="cpu")
    assert 140 < case.ids[0].unique().numel() < 185


def test_a_product_of_four_bits_is_checked_against_its_weights() -> None:
    shape = Shape.of(m=3, n=64, k=256)
    case = W4A16Case(shape, sets=2, device="cpu")
    assert not torch.equal(case.w.q[0], case.w.q[1])
    for index in range(2):
        out = case.x[index].double() @ case.w.expert(index).double()
        assert case.error(out.half(), index) < 2.0**-10
        assert case.error(out.half(), 1 - index) > case.tolerance
    strips = sum(part[0].nbytes for part in (case.w.scale, case.w.zero))
    least = case.w.q[0].numel() / 2 + strips - case.w.zero[0].numel() / 2
    assert w4a16_work(shape).bytes == least + case.x[0].nbytes + case.c[0].nbytes


@pytest.mark.parametrize("sizes", [*MODELS.values(), MoeSizes()], ids=str)
def test_a_layers_work_is_of_its_own_sizes(sizes: MoeSizes) -> None:
    """One token meets its experts; so many tokens that they meet all of them, all weights."""
    per_expert = sizes.hidden * sizes.width * 3
    one, all_of_them = (moe_work(Shape.of(tokens=tokens), sizes) for tokens in (1, 1 << 14))
    assert one.flops == 2 * sizes.top_k * per_expert
    assert one.bytes > sizes.top_k * per_expert // 2
    rows = 2 * (1 << 14) * (sizes.hidden + sizes.top_k * (sizes.hidden + 4 * sizes.width))
    weights = sizes.experts * per_expert * (0.5 + 2.5 / sizes.group)
    assert all_of_them.bytes == pytest.approx(weights + rows, rel=1e-6)


def test_marlins_order_keeps_every_weight() -> None:
    q = torch.randint(0, 16, (64, 128), dtype=torch.uint8)
    words = pack_weights(q)
    assert words.shape == (4, 256) and words.dtype == torch.int32
    nibbles = torch.stack([(words >> (4 * place)) & 15 for place in range(8)])
    counts = torch.bincount(nibbles.reshape(-1).long(), minlength=16)
    assert torch.equal(counts, torch.bincount(q.reshape(-1).long(), minlength=16))
    # Thread 0 owns rows 0, 1, 8, 9 of columns 0 and 8; stored 0 2 4 6 1 3 5 7.
    first = [(int(words[0, 0]) >> (4 * place)) & 15 for place in range(8)]
    owned = [(0, 0), (8, 0), (0, 8), (8, 8), (1, 0), (9, 0), (1, 8), (9, 8)]
    assert first == [int(q[row, column]) for row, column in owned]
    scale = torch.arange(128.0).half().view(1, 128)
    assert pack_scales(scale)[0, :9].tolist() == [0, 8, 16, 24, 32, 40, 48, 56, 1]
    zero = (torch.arange(128) % 16).to(torch.uint8).view(1, 128)
    assert pack_zeros(zero).shape == (1, 16)


@pytest.mark.parametrize("causal", [0, 1])
def test_packed_sequences_against_torch(causal: int) -> None:
    shape = Shape.of(sequences=5, most=90, heads=4, kv=2, d=16, causal=causal)
    case = PackedCase(shape, sets=1, device="cpu")
    assert case.starts[1] == lengths_of(shape)[0] and case.ends.tolist() == case.starts
    out = torch.empty(case.q[0].shape)
    for first, end in itertools.pairwise(case.starts):
        q, k, v = (x[0][None, first:end].float().transpose(1, 2) for x in (case.q, case.k, case.v))
        o = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=bool(causal), enable_gqa=True
        )
        out[first:end] = o[0].transpose(0, 1)
    assert case.error(out.half(), 0) < case.tolerance < case.error(out.half().roll(1, 0), 0)
    assert packed_work(shape).bytes == 2 * (case.q[0].nbytes + case.k[0].nbytes)
