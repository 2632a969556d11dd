"""Models of transformers with our operators in them, on a GPU in software: they compute what
transformers computes, and tell what was replaced."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from simulated_gpu import simulated_gpu  # noqa: E402
from tiny_models import GPUS, NEW, answers, prompt, same, tiny  # noqa: E402
from transformers.integrations.finegrained_fp8 import FP8Linear  # noqa: E402

from hexcute_kernels.integrations.transformers import HandedBack, use  # noqa: E402
from hexcute_kernels.integrations.transformers.attention import attend, marked_mask  # noqa: E402
from hexcute_kernels.integrations.transformers.layers import replacement  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_is_handed_back() -> Any:
    """Unless a test expects it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", HandedBack)
        yield


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("target", GPUS)
def test_a_llama_says_what_it_said_before(target: str, dtype: Any) -> None:
    model, ids = tiny("Llama", dtype), prompt()
    want = answers(model, ids)
    use(model)
    with simulated_gpu(GPUS[target], target) as launched:
        same(answers(model, ids), want)
    kernels = Counter(launched)
    # The prompt twice, and all new tokens but the last are read by two layers each.
    assert kernels["norm"] == 5 * (1 + NEW) and kernels["attention"] == 2 * 2
    assert sum(n for name, n in kernels.items() if "decode" in name) >= 2 * (NEW - 1)


@pytest.mark.parametrize("family", ["Qwen3", "Gemma2", "Mistral"])
def test_norms_windows_and_caps_of_other_families(family: str) -> None:
    more: dict[str, Any] = {} if family == "Qwen3" else {"sliding_window": 4}
    if family == "Gemma2":
        more |= {"attn_implementation": "eager", "attn_logit_softcapping": 2.0}
    model, ids = tiny(family, **more), prompt()
    want = answers(model, ids)
    report = use(model)
    norms = [r for r in report.replaced if r.kind == f"{family}RMSNorm"]
    assert len(norms) == {"Qwen3": 9, "Gemma2": 9, "Mistral": 5}[family]
    with simulated_gpu("h100", "sm_90") as launched:
        same(answers(model, ids), want)
    assert Counter(launched)["attention"] == 2 * 2


def test_more_of_a_prompt_behind_a_cache() -> None:
    model, ids = tiny("Llama"), prompt(1, 9)
    with torch.no_grad():
        want = model(ids).logits[:, 5:]
        use(model)
        with simulated_gpu("h100", "sm_90") as launched:
            first = model(ids[:, :5], use_cache=True)
            got = model(ids[:, 5:], past_key_values=first.past_key_values).logits
    same((got, ids), (want, ids))
    assert Counter(launched)["attention"] == 2 * 2


def test_padding_is_handed_back_with_the_reason() -> None:
    model, ids = tiny("Llama"), prompt()
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    want = answers(model, ids, mask=mask)
    use(model)
    told = pytest.warns(HandedBack, match="neither causal nor a window: padding, packed")
    with simulated_gpu("h100", "sm_90") as launched, told:
        got = answers(model, ids, mask=mask)
    rows = mask.bool()
    same((got[0][rows], got[1]), (want[0][rows], want[1]))
    assert set(launched) == {"norm"}


def test_a_cache_with_room_begins_with_the_prompt() -> None:
    model, ids = tiny("Llama"), prompt()
    want = answers(model, ids)
    use(model)
    with simulated_gpu("h100", "sm_90") as launched, warnings.catch_warnings():
        # Its single tokens see less than the whole cache.
        warnings.simplefilter("ignore", HandedBack)
        cache = transformers.StaticCache(config=model.config, max_cache_len=16)
        same(answers(model, ids, past_key_values=cache), want)
    assert Counter(launched)["attention"] == 2 * 2


def qkv(dtype: Any = torch.float16, d: int = 16, queries: int = 3) -> Any:
    torch.manual_seed(2)
    return torch.randn(1, 2, queries, d).to(dtype), *torch.randn(2, 1, 2, 3, d).to(dtype)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dropout": 0.1}, "it drops out 0.1 of its weights"),
        ({"position_bias": torch.zeros(1, 2, 3, 3).half()}, "it adds a bias of positions"),
        ({"output_attentions": True}, "its weights are asked for"),
        ({"qkv": qkv(torch.float32)}, "it is in torch.float32, not in float16 or bfloat16"),
        ({"qkv": qkv(d=264)}, "its heads are 264 wide, more than 256"),
        ({"attention_mask": torch.ones(3, 3).bool()}, "neither causal nor a window"),
    ],
    ids=lambda change: next(iter(change)) if isinstance(change, dict) else "",
)
def test_what_is_handed_back_and_why(change: dict[str, Any], words: str) -> None:
    given = {"qkv": qkv(), "attention_mask": None, **change}
    q, k, v = given.pop("qkv")
    with pytest.warns(HandedBack, match=words):
        made, _ = attend(torch.nn.Module(), q, k, v, **given)
    assert made.shape == (1, 3, 2, q.shape[-1])
    with pytest.raises(LaunchError, match=r"sdpa has no softcap\n  fix: .*eager"):
        attend(torch.nn.Module(), q, k, v, **given, softcap=1.0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_mask_that_was_changed_is_one_of_its_own(mode: Any) -> None:
    sizes = {"batch_size": 1, "q_length": 2, "kv_length": 3, "q_offset": 1}
    q, k, v = qkv(queries=2)
    with mode(), simulated_gpu("h100", "sm_90") as launched:
        mask = marked_mask(**sizes)
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        made, _ = attend(torch.nn.Module(), q, k, v, mask)
        torch.testing.assert_close(made.transpose(1, 2), want, atol=2e-3, rtol=2e-3)
        assert launched == ["attention"]
        mask[..., 0] = False
        with pytest.warns(HandedBack, match="neither causal nor a window"):
            attend(torch.nn.Module(), q, k, v, mask)


def test_sinks_are_refused() -> None:
    with pytest.raises(LaunchError, match="hexcute attention has no sinks"):
        attend(torch.nn.Module(), *qkv(), None, s_aux=torch.zeros(2))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1, 3])
def test_without_a_mask_the_module_says_whether_it_is_causal(causal: bool, queries: int) -> None:
    q, k, v = qkv(queries=queries)
    module = torch.nn.Module()
    module.is_causal = causal
    with simulated_gpu("h100", "sm_90") as launched:
        made, _ = attend(module, q, k, v, None, scaling=0.5)
    sees = {"is_causal": causal and queries > 1, "scale": 0.5}
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, **sees).transpose(1, 2)
    torch.testing.assert_close(made, want, atol=2e-3, rtol=2e-3)
    assert launched


def blocks(weight: Any) -> tuple[Any, Any]:
    """e4m3 numbers and float32 scales of 128 x 128 blocks."""
    n, k = weight.shape
    whole = torch.zeros(-(-n // 128) * 128, -(-k // 128) * 128)
    whole[:n, :k] = weight
    cut = whole.unflatten(0, (-1, 128)).unflatten(2, (-1, 128))
    scale = cut.abs().amax((1, 3)) / 448
    numbers = (cut / scale[:, None, :, None]).flatten(0, 1).flatten(1, 2)[:n, :k]
    return numbers.to(torch.float8_e4m3fn), scale


def fp8_by_definition(
    x: Any, weight: Any, scale: Any, block_size: Any, bias: Any = None, *rest: Any
) -> Any:
    """What transformers' layer computes by kernels that only a GPU runs, in float32."""
    (n, k), groups = weight.shape, scale.shape[1]
    rows = torch.nn.functional.pad(x.float().reshape(-1, k), (0, groups * 128 - k))
    rows = rows.unflatten(1, (groups, 128))
    by = rows.abs().amax(2, keepdim=True).clamp(min=2.0**-126) / 448
    rows = ((rows / by).to(torch.float8_e4m3fn).float() * by).flatten(1)[:, :k]
    wide = scale.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    made = (rows @ (weight.float() * wide).t()).view(*x.shape[:-1], n)
    return made.to(x.dtype) if bias is None else (made + bias.float()).to(x.dtype)


def as_checkpoint(model: Any) -> None:
    """Linear layers of a model's blocks as those of an FP8-blockwise checkpoint."""
    for name, linear in list(model.model.named_modules()):
        if isinstance(linear, torch.nn.Linear):
            of = FP8Linear(linear.in_features, linear.out_features, (128, 128))
            numbers, scales = blocks(linear.weight.data.float())
            of.weight = torch.nn.Parameter(numbers, requires_grad=False)
            of.weight_scale_inv = torch.nn.Parameter(scales, requires_grad=False)
            parent, _, own = name.rpartition(".")
            setattr(model.model.get_submodule(parent), own, of)


def test_layers_of_fp8_blocks() -> None:
    model, ids = tiny("Llama", intermediate_size=144, seed=31), prompt(1)
    as_checkpoint(model)
    linears = [name for name, m in model.named_modules() if isinstance(m, FP8Linear)]
    met: dict[str, tuple[Any, Any]] = {}
    hooks = [
        model.get_submodule(name).register_forward_hook(
            lambda m, given, made, name=name: met.update({name: (given[0], made)})
        )
        for name in linears
    ]
    with patch("transformers.integrations.finegrained_fp8.fp8_linear", fp8_by_definition):
        want = torch.no_grad()(model)(ids).logits
    for hook in hooks:
        hook.remove()
    places = {name: p.data_ptr() for name, p in model.state_dict().items()}
    replaced = [r.name for r in use(model).replaced if r.kind == "FP8Linear"]
    assert replaced == linears and len(linears) == 14
    assert {name: p.data_ptr() for name, p in model.state_dict().items()} == places
    with simulated_gpu("h100", "sm_90") as launched, torch.no_grad():
        for name, (given, made) in met.items():
            off = (model.get_submodule(name)(given) - made).abs() / made.abs().max()
            # But for the few numbers that lie between two of e4m3 and went to the other one.
            assert (off <= 2**-9).float().mean() > 0.75 and off.max() < 2**-6
        got = model(ids).logits
    assert sum("quantize" in name for name in launched) == 2 * 14
    # A number that e4m3 rounds the other way, for its last place was another, moves by a 16th.
    assert (got - want).abs().max() < want.abs().max() / 8
    assert torch.equal(got.argmax(-1), want.argmax(-1))


class Gated(torch.nn.RMSNorm):
    def forward(self, x: Any, gate: Any = None) -> Any:
        return super().forward(x)


class CentredRMSNorm(torch.nn.RMSNorm):
    def forward(self, x: Any) -> Any:
        return super().forward(x - x.mean(-1, keepdim=True))


GatedRMSNorm = type("GatedRMSNorm", (Gated,), {})


def hooked() -> Any:
    norm = torch.nn.RMSNorm(64, eps=1e-6)
    norm.register_forward_hook(lambda *of: None)
    return norm


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: torch.nn.Linear(16, 16), "its weights are torch.float32, not float8_e4m3fn"),
        (lambda: FP8Linear(256, 128, (128, 128), "static"), "activations have one fixed scale"),
        (lambda: FP8Linear(256, 128, (64, 128)), "of (2, 2) of blocks of (64, 128), not"),
        (lambda: FP8Linear(256, 128, (64, 256)), "of blocks of (64, 256), not float32 of (1, 2)"),
        (lambda: FP8Linear(120, 128, (128, 128)), "not multiples of 16"),
        (lambda: type("Own", (FP8Linear,), {})(256, 128, (128, 128)), "a kind of FP8 layer of"),
        (lambda: CentredRMSNorm(64, eps=1e-6), "it gives something else than rows over"),
        (lambda: GatedRMSNorm(64, eps=1e-6), "it takes more than rows"),
        (lambda: torch.nn.RMSNorm(64), "no weight for each column, or no eps"),
        (lambda: torch.nn.RMSNorm(64, eps=1e-6, device="meta"), "it holds no data here"),
        (hooked, "it has hooks"),
        (lambda: torch.nn.Embedding(4, 4), "no operator takes its place"),
    ],
)
def test_modules_that_stay(make: Any, why: str) -> None:
    found = replacement(make())
    assert isinstance(found, str) and why in found


def test_a_norm_with_another_eps_is_not_taken_for_one() -> None:
    norm = torch.nn.RMSNorm(64, eps=1e-6)
    assert not isinstance(replacement(norm), str)
    forward, other = norm.forward, torch.nn.RMSNorm(64, eps=1e-5)
    norm.forward = lambda x: other(x)
    assert isinstance(replacement(norm), str) and forward is not None


def test_the_report_is_a_text() -> None:
    model = tiny("Llama")
    assert str(use(model)).splitlines() == [
        "hexcute in LlamaForCausalLM: 6 replaced, 16 left",
        "  1 sdpa by attention and decode_attention: attention",
        "  5 LlamaRMSNorm by rms_norm: model.layers.0.input_layernorm, "
        "model.layers.0.post_attention_layernorm, model.layers.1.input_layernorm and 2 more",
        "  1 Embedding left, no operator takes its place: model.embed_tokens",
        "  15 Linear left, its weights are torch.float16, not float8_e4m3fn with scales: torch "
        "multiplies: model.layers.0.self_attn.q_proj, model.layers.0.self_attn.k_proj, "
        "model.layers.0.self_attn.v_proj and 12 more",
    ]
    norms = [type(m) for m in model.modules()]
    assert len(use(model).replaced) == 6 and [type(m) for m in model.modules()] == norms


def test_attention_with_sinks_stays() -> None:
    model = tiny("Llama")
    model.model.layers[0].self_attn.sinks = torch.nn.Parameter(torch.zeros(4))
    report = use(model)
    assert "sinks takes part in its softmax" in report.left[0].why
    assert model.config._attn_implementation == "sdpa"


def test_what_use_and_its_modules_do_not_take() -> None:
    with pytest.raises(LaunchError, match="use takes a model of transformers, got Lin") as caught:
        use(torch.nn.Linear(1, 1))
    assert caught.value.fix == "pass what AutoModelForCausalLM.from_pretrained gives"
    model = tiny("Llama")
    use(model)
    with torch.no_grad(), pytest.raises(LaunchError, match="x is to be on a GPU, got a tensor on"):
        model(prompt())
    with simulated_gpu("h100", "sm_90"), pytest.raises(LaunchError, match="has no gradient"):
        model(prompt())
    refused = pytest.raises(LaunchError, match=r"a norm in torch.float16, got .*32")
    with torch.no_grad(), refused as caught:
        model.model.norm(torch.zeros(2, 64))
    assert caught.value.fix == "call use(model) after the model has its type"
    model = tiny("Llama", torch.float32)
    use(model)
    with torch.no_grad(), simulated_gpu("h100", "sm_90"):
        assert model.model.norm(torch.zeros(2, 64)).dtype == torch.float32
