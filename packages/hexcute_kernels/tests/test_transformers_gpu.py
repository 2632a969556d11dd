"""Models of transformers on a GPU with our kernels in them, against the same models without:
logits, greedy tokens, memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from stored_models import write_model  # noqa: E402
from test_transformers_mamba import MAMBAS  # noqa: E402
from test_transformers_stored import (  # noqa: E402
    EIGHT_BITS,
    Hopper,
    alike,
    met,
    near,
    written,
)
from tiny_models import answers, prompt, tiny  # noqa: E402

from hexcute_kernels.fp8 import quantize_blockwise  # noqa: E402
from hexcute_kernels.gpus import gpu_of  # noqa: E402
from hexcute_kernels.integrations.transformers import HandedBack, load, use  # noqa: E402

pytestmark = pytest.mark.gpu
FP8 = "transformers.integrations.finegrained_fp8.fp8_linear"
PLAIN: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "llama": ("Llama", torch.float16, {}),
    "llama_bf16": ("Llama", torch.bfloat16, {}),
    "qwen3": ("Qwen3", torch.float16, {}),
    "gemma2": (
        "Gemma2", torch.float16,
        {"sliding_window": 4, "attn_implementation": "eager", "attn_logit_softcapping": 2.0},
    ),
    "qwen3_moe": (
        "Qwen3Moe", torch.float16,
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
    ),
    "mamba": ("Mamba", torch.float32, MAMBAS["Mamba"]),
    "jamba": ("Jamba", torch.float32, MAMBAS["Jamba"]),
}  # fmt: skip
STORED = {
    "awq": ("Llama", "awq"),
    "gptq_ordered": ("Llama", "gptq_v2_ordered"),
    "compressed": ("Llama", "compressed_zero"),
    "experts_awq": ("Qwen3Moe", "awq"),
    "experts_gptq": ("Mixtral", "gptq"),
    "deepseek_awq": ("DeepseekV3", "awq"),
}
STORED_EIGHT = {"fp8": "Llama", "experts_fp8": "Qwen3Moe"}


@pytest.fixture(autouse=True)
def hopper() -> Any:
    """float32 products are float32; padding is none, so that nothing is handed back but float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    if "wgmma" not in gpu_of(0).features:
        pytest.skip("no wgmma on this GPU")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=HandedBack)
        warnings.filterwarnings("ignore", message=".*float32, not in", category=HandedBack)
        yield


@pytest.mark.parametrize("name", PLAIN)
def test_models_as_they_are(name: str) -> None:
    family, dtype, sizes = PLAIN[name]
    model, ids = tiny(family, dtype, **sizes).cuda(), prompt().cuda()
    want = answers(model, ids)
    assert use(model).replaced
    near(answers(model, ids), want, 2.0**-4 if dtype == torch.bfloat16 else 2.0**-6)


@pytest.mark.parametrize("name", STORED)
def test_models_in_four_bits(tmp_path: Path, name: str) -> None:
    family, form = STORED[name]
    model, ids = written(tmp_path, family, form).cuda(), prompt().cuda()
    want = answers(model, ids)
    got, _ = load(tmp_path)
    near(answers(got, ids), want)


def rounded_alike(
    input: Any, weight: Any, scale: Any, block_size: Any = None, bias: Any = None, *more: Any,
    **named: Any,
) -> Any:
    """transformers' function for layers of eight bits in float32, on numbers of our quantizer: a
    quotient in the middle of two of e4m3 may become either, which is its own test's."""
    n, k = weight.shape
    numbers, by = quantize_blockwise(input.reshape(-1, k).contiguous())
    rows = numbers.float() * by.repeat_interleave(128, 1)[:, :k]
    wide = scale.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    made = rows @ (weight.float() * wide).t()
    made = made if bias is None else made + bias.float()
    return made.to(input.dtype).view(*input.shape[:-1], n)


@pytest.mark.parametrize("name", STORED_EIGHT)
def test_models_in_eight_bits(tmp_path: Path, name: str) -> None:
    family = STORED_EIGHT[name]
    written(tmp_path, family, "fp8")
    ids = prompt().cuda()
    with Hopper():
        kind = getattr(transformers, f"{family}ForCausalLM")
        theirs = kind.from_pretrained(tmp_path).cuda().eval()
    theirs.set_experts_implementation("eager")
    with patch(FP8, rounded_alike):
        want, modules = answers(theirs, ids), met(theirs, ids)
    got, _ = load(tmp_path)
    alike(got, modules)
    ours = answers(got, ids)
    near(ours, want, EIGHT_BITS)
    use(theirs)
    near(answers(theirs, ids), ours, 2.0**-6)


def test_memory_is_not_doubled(tmp_path: Path) -> None:
    sizes = {
        "hidden_size": 1024, "intermediate_size": 2048, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 128, "num_hidden_layers": 4,
    }  # fmt: skip
    model = tiny("Llama", **sizes)
    write_model(tmp_path, model, "awq", ("gate_proj", "up_proj", "down_proj"))
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    got, _ = load(tmp_path)
    held, peak = torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before
    ids = prompt().cuda()
    # Packing one layer takes a dozen times its bytes, of which there are 28.
    assert peak <= held + 16 * 1024 * 2048 // 2
    near(answers(got, ids), answers(model.cuda(), ids))
