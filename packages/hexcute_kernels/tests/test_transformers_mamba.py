"""Mamba layers of transformers' models with our operators in them, on a GPU in software."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from simulated_gpu import simulated_gpu  # noqa: E402
from tiny_models import NEW, answers, prompt, same, tiny  # noqa: E402

from hexcute_kernels.integrations.transformers import HandedBack, use  # noqa: E402
from hexcute_kernels.integrations.transformers.layers import replacement  # noqa: E402

MAMBAS = {
    "Mamba": {"num_attention_heads": None, "state_size": 8, "expand": 2, "conv_kernel": 4},
    "FalconMamba": {"num_attention_heads": None, "state_size": 16, "conv_kernel": 4},
    "Jamba": {
        "mamba_d_state": 8, "mamba_expand": 2, "mamba_d_conv": 4, "attn_layer_period": 2,
        "attn_layer_offset": 1, "num_experts": 1, "num_experts_per_tok": 1, "mamba_dt_rank": 8,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", MAMBAS)
def test_mamba_layers_scan_and_step(family: str) -> None:
    model, ids = tiny(family, torch.float32, **MAMBAS[family]), prompt()
    want = answers(model, ids)
    report, layers = use(model), 1 if family == "Jamba" else 2
    mixers = [r for r in report.replaced if "causal_conv1d, selective_scan" in r.by]
    assert len(mixers) == layers and not [x for x in report.left if "conv1d" in x.name]
    with simulated_gpu("h100", "sm_90") as launched:
        if family == "Jamba":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HandedBack)  # float32 attention is sdpa's
                same(answers(model, ids), want, 64)
        else:
            same(answers(model, ids), want, 64)
    kernels = Counter(launched)
    steps = layers * (NEW - 1)
    assert sum(n for name, n in kernels.items() if "update" in name or "step" in name) == 2 * steps


def mixer(**sizes: Any) -> Any:
    return tiny("Mamba", torch.float32, **{**MAMBAS["Mamba"], **sizes}).backbone.layers[0].mixer


def changed() -> Any:
    layer = mixer()
    layer.forward = lambda *of: None
    return layer


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: mixer(state_size=12), "it has 12 states, not 4, 8, 16, 32, 64, 128"),
        (lambda: mixer(conv_kernel=10), "its convolution is 10 wide, not 2 to 9"),
        (lambda: mixer(hidden_act="gelu"), "its activation is 'gelu', not silu"),
        (changed, "its forward was changed"),
    ],
)
def test_mamba_layers_that_stay(make: Any, why: str) -> None:
    layer = make()
    before = layer.forward
    found = replacement(layer)
    assert isinstance(found, str) and why in found and layer.forward == before


def test_padded_sequences_and_other_models_of_the_same_kind() -> None:
    model, other = (tiny("Mamba", torch.float32, **MAMBAS["Mamba"]) for _ in range(2))
    ids = prompt()
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    want = answers(other, ids, mask=mask)
    assert len(use(model).replaced) == len(use(model).replaced)
    with simulated_gpu("h100", "sm_90") as launched:
        assert torch.equal(answers(other, ids, mask=mask)[0], want[0]) and not launched
        got = answers(model, ids, mask=mask)
    rows = mask.bool()
    same((got[0][rows], got[1]), (want[0][rows], want[1]), 64)
    packed = pytest.raises(LaunchError, match="seq_idx packs several sequences into one")
    with packed as caught:
        model.backbone.layers[0].mixer(torch.zeros(1, 3, 64), seq_idx=torch.zeros(1, 3))
    assert caught.value.fix == "pass a batch, with an attention mask where sequences are padded"
