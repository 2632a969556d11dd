"""Attention in vLLM's metadata and caches, and the first Mamba's steps and scans in its slots, on
the CPU: our operators by their definitions, or simulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
from attention_float32 import reference as attended  # noqa: E402
from reference_gpu import reference_gpu  # noqa: E402
from simulated_gpu import simulated_gpu  # noqa: E402
from vllm.model_executor.layers.mamba import mamba_mixer  # noqa: E402
from vllm.model_executor.layers.mamba.ops import ssu_dispatch  # noqa: E402
from vllm.v1.attention.backend import CommonAttentionMetadata  # noqa: E402
from vllm.v1.attention.backends.registry import AttentionBackendEnum  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec  # noqa: E402

from hexcute_core.errors import LaunchError  # noqa: E402
from hexcute_kernels.integrations.vllm import attention as ours_attention  # noqa: E402
from hexcute_kernels.integrations.vllm import mamba as ours_mamba  # noqa: E402
from hexcute_kernels.integrations.vllm import register  # noqa: E402

HALF = torch.float16
register()


def test_attention_has_a_name() -> None:
    assert AttentionBackendEnum.HEXCUTE.get_class() is ours_attention.HexcuteBackend


PAGE, HEADS, KV, WIDTH = 16, 4, 2, 64
Backend = ours_attention.HexcuteBackend


def test_attention_says_what_it_takes() -> None:
    def reasons(size: int = 64, dtype: Any = HALF, block: int = 16, **more: Any) -> list[str]:
        given = {
            "head_size": size, "dtype": dtype, "kv_cache_dtype": "auto", "block_size": block,
            "use_mla": False, "has_sink": False, "use_sparse": False, "use_mm_prefix": False,
            "use_per_head_quant_scales": False, "attn_type": "decoder",
            "device_capability": SimpleNamespace(major=9, minor=0),
        } | more  # fmt: skip
        return Backend.validate_configuration(**given)

    assert reasons() == reasons(size=256, block=48, has_sliding_window=True) == []
    for given in (
        {"size": 264}, {"size": 100}, {"dtype": torch.float32}, {"has_sink": True},
        {"use_mla": True}, {"kv_cache_dtype": "fp8"}, {"attn_type": "encoder"}, {"block": 8},
        {"device_capability": SimpleNamespace(major=7, minor=5)}, {"use_non_causal": True},
    ):  # fmt: skip
        assert len(reasons(**given)) == 1
    impl = Backend.get_impl_cls()
    for more in ({"alibi_slopes": [1.0]}, {"sinks": torch.ones(4)}, {"attn_type": "encoder"}):
        with pytest.raises(LaunchError, match="attends in decoders"):
            impl(HEADS, WIDTH, 0.1, KV, **more)


class Cache:
    """A layer's cache as vLLM makes it of our specification, sequences in it, and what they are."""

    def __init__(self, left: int | None = None, cap: float | None = None) -> None:
        spec = FullAttentionSpec(
            block_size=PAGE, num_kv_heads=KV, head_size=WIDTH, dtype=HALF, head_size_v=WIDTH
        )
        self.spec = Backend.customize_spec(spec)
        assert Backend.customize_spec(self.spec) is self.spec
        assert self.spec.num_heads == 2
        size = self.spec.state_content_size_bytes // 2
        self.cache = torch.full((12, 2, PAGE, size), torch.nan).half()
        self.layer = Backend.get_impl_cls()(
            HEADS, WIDTH, 0.125, KV, sliding_window=left, logits_soft_cap=cap
        )
        layers = {"a": SimpleNamespace(impl=self.layer)}
        config = SimpleNamespace(
            scheduler_config=SimpleNamespace(max_num_seqs=4),
            compilation_config=SimpleNamespace(static_forward_context=layers),
        )
        self.builder = Backend.get_builder_cls()(self.spec, ["a"], config, torch.device("cpu"))
        self.left, self.cap = left, cap or 0.0
        self.pages: dict[int, list[int]] = {0: [3, 7, 2], 1: [5, 1, 9], 2: [4, 8, 10]}
        self.seen: dict[int, Any] = {}

    def build(self, batch: Any) -> Any:
        """The batch as the builder describes it; notes what it compiles, once."""
        calls: list[Any] = []
        with patch.object(ours_attention, "ahead", lambda *of, **sizes: calls.append((of, sizes))):
            made = self.builder.build(0, batch)
        self.compiled = [*self.__dict__.get("compiled", []), *([calls] if calls else [])]
        return made

    def step(self, *tokens: tuple[int, int], padded: int = 0) -> None:
        """So many new tokens of each sequence, single ones first: compared with the definition."""
        count = [n for _, n in tokens]
        k, v = torch.randn(2, sum(count), KV, WIDTH).half()
        q = torch.randn(sum(count), HEADS, WIDTH).half()
        want, slots, at = [], [], 0
        for z, n in tokens:
            old = self.seen.get(z, (k[:0], v[:0]))
            both = tuple(torch.cat([o, t[at : at + n]]) for o, t in zip(old, (k, v)))
            places = range(len(old[0]), len(both[0]))
            slots += [self.pages[z][p // PAGE] * PAGE + p % PAGE for p in places]
            left = None if self.left is None else self.left - 1
            made, _ = attended(
                q[None, at : at + n], *(t[None] for t in both), 0.125, 0, left, self.cap
            )
            want.append(made[0])
            self.seen[z] = both
            at += n
        lengths = [len(self.seen[z][0]) for z, _ in tokens] + [0] * padded
        starts = torch.tensor([0, *torch.tensor(count).cumsum(0).tolist(), *[sum(count)] * padded])
        tables = torch.tensor([self.pages[z] for z, _ in tokens] + [[0] * 3] * padded)
        q, k, v = (torch.cat([t, torch.zeros(padded, *t.shape[1:]).half()]) for t in (q, k, v))
        meta = self.build(CommonAttentionMetadata(
            query_start_loc=starts.int(), query_start_loc_cpu=starts.int(),
            seq_lens=torch.tensor(lengths).int(), num_reqs=len(lengths),
            num_actual_tokens=sum(count) + padded, max_query_len=max(count),
            max_seq_len=max(lengths), block_table_tensor=tables.int(),
            slot_mapping=torch.tensor(slots + [-1] * padded),
            seq_lens_cpu_upper_bound=torch.tensor(lengths).int(),
        ))  # fmt: skip
        (decode, *prompts), = self.compiled
        assert decode[0] == ("decode_attention", 4, "b") and decode[1]["sk"] == 3 * PAGE
        assert [call[0] for call in prompts] == [("attention", 4, "sequences")] * 2
        where = meta.tables.data_ptr()
        out = torch.full((sum(count) + padded, HEADS * WIDTH), torch.nan).half()
        self.layer.do_kv_cache_update(
            None, k, v, self.cache, torch.tensor(slots + [-1] * padded)
        )
        with reference_gpu() as self.called:
            self.layer.forward(None, q, k, v, self.cache, meta, out)
        got = out.view(-1, HEADS, WIDTH)[: sum(count)].float()
        torch.testing.assert_close(got, torch.cat(want), atol=4e-3, rtol=4e-3)
        assert self.__dict__.setdefault("where", where) == where


@pytest.mark.parametrize(("left", "cap"), [(None, None), (5, None), (None, 3.0)])
def test_prompts_chunks_and_single_tokens_through_pages(left: Any, cap: Any) -> None:
    torch.manual_seed(0)
    cache = Cache(left, cap)
    cache.step((0, 20), (1, 3))
    assert cache.called == ["attention"]
    cache.step((0, 1), (1, 1), padded=1)
    assert cache.called == ["decode_attention"]
    cache.step((0, 1), (1, 14), (2, 33))
    assert cache.called == ["decode_attention", "attention"]
    cache.step((1, 7), (2, 5))
    cache.step((0, 1), (1, 1), (2, 1))


def test_before_there_is_a_cache_attention_is_nothing() -> None:
    layer, out = Cache().layer, torch.ones(2, HEADS * WIDTH)
    q = torch.zeros(2, HEADS, WIDTH)
    assert not layer.forward(None, q, q, q, torch.zeros(0), None, out).any()
    with pytest.raises(LaunchError, match="does not quantize its output"):
        layer.forward(None, q, q, q, torch.zeros(0), None, out, output_scale=torch.ones(1))
    with pytest.raises(LaunchError, match="causal"):
        Cache().builder.build(0, SimpleNamespace(causal=False))
    narrow = FullAttentionSpec(
        block_size=PAGE, num_kv_heads=KV, head_size=64, head_size_v=32, dtype=HALF
    )
    with pytest.raises(LaunchError, match="of one width"):
        Backend.customize_spec(narrow)


def by_definition(h: Any, x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, z: Any) -> Any:
    """A step of one sequence: h (channels, states) is changed."""
    dt = torch.nn.functional.softplus(dt)
    h.copy_(torch.exp(dt[:, None] * a) * h + (dt * x)[:, None] * b)
    return (h @ c + d * x) * torch.nn.functional.silu(z)


def test_a_step_of_states_where_they_lie() -> None:
    torch.manual_seed(0)
    triton = SimpleNamespace(calls=0)
    config = SimpleNamespace(enable_stochastic_rounding=False)
    backend = object.__new__(ssu_dispatch._BACKEND_REGISTRY[ours_mamba.MambaBackendEnum.TRITON])
    backend._mamba_config = config
    assert backend.name.startswith("hexcute")
    channels, states = 16, 8
    state = torch.randn(5, channels, states)
    x, dt, z = torch.randn(3, 3, channels)
    b, c = torch.randn(2, 3, states)
    a, d, bias = -torch.rand(channels, states), torch.randn(channels), torch.zeros(channels)
    index, out = torch.tensor([4, 0, 2]).int(), torch.full((3, channels), torch.nan)
    want_state = state.clone()
    want = [
        by_definition(want_state[s], x[i], dt[i], a, b[i], c[i], d, z[i])
        for i, s in enumerate(index.tolist()) if s != 0
    ]  # fmt: skip
    with simulated_gpu("h100", "sm_90"):
        backend(
            state, x, dt, a, b, c, d, bias, z=z, dt_softplus=True, state_batch_indices=index,
            dst_state_batch_indices=index, null_block_id=0, out=out,
        )  # fmt: skip
    torch.testing.assert_close(out[[0, 2]], torch.stack(want), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(state, want_state, atol=1e-4, rtol=1e-4)

    def count(*of: Any, **named: Any) -> None:
        triton.calls += 1

    with patch.object(ssu_dispatch.TritonSSUBackend, "__call__", count):
        for change in ({"num_accepted_tokens": index}, {"out": None}, {"x": x[:, None]}):
            given = {"x": x, "out": out} | change
            backend(state, given.pop("x"), dt, a, b, c, d, bias, state_batch_indices=index, **given)
    assert triton.calls == 3


def test_scans_of_prompts_leave_their_states() -> None:
    torch.manual_seed(0)
    fallen: list[Any] = []
    scan = ours_mamba.scan_of_prompts(lambda *of, **named: fallen.append(of))
    assert mamba_mixer.selective_scan_fn._hexcute
    channels, states, lengths = 16, 8, (5, 3)
    total = sum(lengths)
    u, dt, z = torch.randn(3, channels, total)
    b, c = torch.randn(2, states, total)
    a, d, bias = -torch.rand(channels, states), torch.randn(channels), torch.zeros(channels)
    kept = torch.randn(4, channels, states)
    slots, has = torch.tensor([3, 1]).int(), torch.tensor([True, False])
    want_state, want, at = kept.clone(), [], 0
    for n, slot, started in zip(lengths, slots.tolist(), has.tolist()):
        h = want_state[slot] if started else want_state[slot].zero_()
        for t in range(at, at + n):
            want.append(by_definition(h, u[:, t], dt[:, t], a, b[:, t], c[:, t], d, z[:, t]))
        at += n
    starts = torch.tensor([0, 5, 8]).int()
    how = {"query_start_loc": starts, "cache_indices": slots, "has_initial_state": has}
    with simulated_gpu("h100", "sm_90"):
        got = scan(u, kept, dt, a, b, c, d, z, bias, True, **how)
    torch.testing.assert_close(got, torch.stack(want, 1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(kept, want_state, atol=1e-4, rtol=1e-4)
    scan(u, kept, dt, a, b, c, d, z, bias, True, **{**how, "cache_indices": slots[:, None]})
    assert len(fallen) == 1 and len(fallen[0]) == 14
