"""torch's scaled_dot_product_attention by our kernels: what is passed on, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402

from hexcute_kernels.attention import sdpa  # noqa: E402

providers = pytest.mark.skipif(
    not hasattr(torch.nn.attention, "register_flash_attention_impl"),
    reason="torch before 2.11 has no providers",
)


def tensors(sq: int = 64, sk: int = 64, h: int = 4, hk: int = 2) -> Any:
    shapes = ((1, h, sq, 64), (1, hk, sk, 64), (1, hk, sk, 64))
    return tuple(on_gpu(torch.zeros(shape, dtype=torch.float16)) for shape in shapes)


def test_heads_come_before_the_sequence() -> None:
    with gpu("h200", "sm_90") as launches:
        results = sdpa.forward(*tensors(), is_causal=True, scale=0.5)
    o, lse, cum_q, cum_k, sq, sk, state, *_ = results
    assert o.shape == (1, 4, 64, 64) and lse.shape == (1, 4, 64) and (sq, sk) == (64, 64)
    assert o.transpose(1, 2).is_contiguous() and cum_q is None and cum_k is None
    assert state.shape == (2,) and launches[0].prepared[0].shape == (1, 64, 4, 64)
    assert launches[0].prepared[5:] == (0.5, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ({}, {"dropout_p": 0.1}, "there is no dropout, 0.1 was asked for"),
        ({}, {"return_debug_mask": True}, "no mask for debugging"),
        ({"sq": 32}, {"is_causal": True}, "a causal mask of 32 queries and 64 keys"),
    ],
)
def test_what_it_does_not_do_is_told(sizes: Any, options: Any, words: str) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        sdpa.forward(*tensors(**sizes), **options)


def test_a_torch_without_providers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.nn.attention, "register_flash_attention_impl", raising=False)
    with pytest.raises(LaunchError, match="has no providers"):
        sdpa.register_sdpa()


@providers
def test_it_is_switched_on_and_off() -> None:
    sdpa.register_sdpa()
    assert sdpa.PROVIDER in torch.nn.attention.list_flash_attention_impls()
    for _ in range(2):
        torch.nn.attention.activate_flash_attention_impl(sdpa.PROVIDER)
        assert torch.nn.attention.current_flash_attention_impl() == sdpa.PROVIDER
        torch.nn.attention.restore_flash_attention_impl()
        assert torch.nn.attention.current_flash_attention_impl() is None


@providers
@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_torch_computes_by_it_and_differentiates(causal: bool) -> None:
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k, v = (
        torch.randn(2, 4, 300, 64, device="cuda").half().requires_grad_() for _ in range(3)
    )
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        want = attend(q, k, v, is_causal=causal)
        meant = torch.autograd.grad(want.float().square().sum(), (q, k, v))
        sdpa.register_sdpa()
        torch.nn.attention.activate_flash_attention_impl(sdpa.PROVIDER)
        try:
            got = attend(q, k, v, is_causal=causal)
            found = torch.autograd.grad(got.float().square().sum(), (q, k, v))
        finally:
            torch.nn.attention.restore_flash_attention_impl()
    torch.testing.assert_close(got, want, atol=2e-3, rtol=2e-3)
    for one, other in zip(found, meant, strict=True):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2)
