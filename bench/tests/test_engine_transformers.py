"""The models of the bench are the published ones: transformers', given the same small weights,
finds the same logits and greedy tokens."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
import transformers

from hexcute_bench.engine.build import build
from hexcute_bench.engine.generation import agreement
from hexcute_bench.engine.reference import REFERENCE
from hexcute_bench.engine.sizes import SMALL, DeepSeekSizes, JambaSizes, QwenSizes
from hexcute_bench.engine.state import advance, begin
from hexcute_bench.engine.weights import FourBits, eight_bits, four_bits

STEPS = 3
State = dict[str, Any]


class NotRounded:
    """x W^T of weights of eight bits, rows of x as they are: transformers does not round them."""

    def pack(self, weight: Any) -> Any:
        return weight

    def __call__(self, x: Any, packed: Any) -> Any:
        return (x.float() @ eight_bits(packed).mT).to(x.dtype)


def rows(weight: Any) -> Any:
    """(n, k) in float32, or a stack of such."""
    if isinstance(weight, FourBits):
        return four_bits(weight).mT
    return weight.float() if isinstance(weight, torch.Tensor) else eight_bits(weight)


def halves(name: str, w: State) -> State:
    """A gated MLP's three weights."""
    gate, up = rows(w["up"]).chunk(2)
    found = {"gate_proj": gate, "up_proj": up, "down_proj": rows(w["down"])}
    return {f"{name}.{part}.weight": each for part, each in found.items()}


def attention(w: State, sizes: Any) -> State:
    """The four projections of an attention with heads of keys of its own."""
    queries, keys = sizes.heads * sizes.head, sizes.kv_heads * sizes.head
    parts = rows(w["qkv"]).split((queries, keys, keys))
    named = dict(zip(("q_proj", "k_proj", "v_proj"), parts), o_proj=rows(w["o"]))
    return {f"self_attn.{part}.weight": each for part, each in named.items()}


def qwen(sizes: QwenSizes, raw: State) -> tuple[Any, list[State], State]:
    config = transformers.Qwen3Config(
        vocab_size=sizes.vocabulary, hidden_size=sizes.hidden, intermediate_size=sizes.inner,
        num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads, head_dim=sizes.head, rms_norm_eps=sizes.eps,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.base},
        tie_word_embeddings=False,
    )  # fmt: skip
    layer = attention(raw["layer"], sizes) | halves("mlp", raw["layer"])
    return transformers.Qwen3ForCausalLM(config), [layer] * sizes.layers, {}


def deepseek(sizes: DeepSeekSizes, raw: State) -> tuple[Any, list[State], State]:
    latent, routing = sizes.latent, sizes.routing
    config = transformers.DeepseekV3Config(
        vocab_size=sizes.vocabulary, hidden_size=sizes.hidden, intermediate_size=sizes.inner,
        moe_intermediate_size=routing.width, num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads, num_key_value_heads=sizes.heads, n_shared_experts=1,
        n_routed_experts=routing.experts, routed_scaling_factor=routing.scale,
        kv_lora_rank=latent.rank, q_lora_rank=latent.query_rank, qk_rope_head_dim=latent.turned,
        v_head_dim=latent.value, qk_nope_head_dim=latent.plain, n_group=routing.groups,
        topk_group=routing.kept, num_experts_per_tok=routing.top_k,
        first_k_dense_replace=sizes.dense, norm_topk_prob=True, max_position_embeddings=163840,
        rms_norm_eps=sizes.eps, tie_word_embeddings=False,
        rope_parameters={
            "rope_type": "yarn", "rope_theta": sizes.base, "factor": sizes.stretch,
            "original_max_position_embeddings": sizes.original, "beta_fast": 32, "beta_slow": 1,
            "mscale": 1.0, "mscale_all_dim": 1.0,
        },
    )  # fmt: skip
    w = raw["attention"]
    first, kv = rows(w["qkv_a"]).split((latent.query_rank, latent.cached))
    mine = {
        "q_a_proj": first, "kv_a_proj_with_mqa": kv, "q_b_proj": rows(w["q_b"]),
        "kv_b_proj": rows(w["kv_b"]), "o_proj": rows(w["o"]),
    }  # fmt: skip
    attends = {f"self_attn.{name}.weight": each for name, each in mine.items()}
    experts = {
        "mlp.experts.gate_up_proj": rows(raw["experts"].first),
        "mlp.experts.down_proj": rows(raw["experts"].second),
        "mlp.gate.weight": rows(raw["router"]), "mlp.gate.e_score_correction_bias": raw["bias"],
        **halves("mlp.shared_experts", raw["shared"]),
    }  # fmt: skip
    layers = [
        attends | (halves("mlp", raw["dense"]) if number < sizes.dense else experts)
        for number in range(sizes.layers)
    ]
    return transformers.DeepseekV3ForCausalLM(config), layers, {}


def jamba(sizes: JambaSizes, raw: State) -> tuple[Any, list[State], State]:
    config = transformers.JambaConfig(
        vocab_size=sizes.vocabulary, hidden_size=sizes.hidden, intermediate_size=sizes.inner,
        num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads, num_experts=sizes.experts,
        num_experts_per_tok=sizes.top_k, expert_layer_period=2, expert_layer_offset=1,
        attn_layer_period=sizes.period, attn_layer_offset=sizes.attends,
        mamba_d_state=sizes.states, mamba_d_conv=sizes.taps, mamba_dt_rank=sizes.step_rank,
        mamba_expand=sizes.channels // sizes.hidden, rms_norm_eps=sizes.eps, pad_token_id=0,
        tie_word_embeddings=False,
    )  # fmt: skip
    w = raw["mamba"]
    mamba = {
        "A_log": torch.log(-w["a"]), "D": w["d"], "conv1d.weight": w["taps"].unsqueeze(1),
        "conv1d.bias": w["taps_bias"], "in_proj.weight": torch.cat((w["x"], w["z"])),
        "x_proj.weight": w["parts"], "dt_proj.weight": w["step"], "dt_proj.bias": w["step_bias"],
        "out_proj.weight": w["out"],
    }  # fmt: skip
    experts = {
        "feed_forward.router.weight": raw["router"],
        "feed_forward.experts.gate_up_proj": raw["experts"].first,
        "feed_forward.experts.down_proj": raw["experts"].second,
    }
    layers = [
        (
            attention(raw["attention"], sizes)
            if number % sizes.period == sizes.attends
            else {f"mamba.{name}": each for name, each in mamba.items()}
        )
        | (experts if number % 2 else halves("feed_forward", raw["dense"]))
        for number in range(sizes.layers)
    ]
    return transformers.JambaForCausalLM(config), layers, {}


FAMILIES: dict[str, Any] = {"qwen": qwen, "deepseek": deepseek, "jamba": jamba}


def loaded(name: str, raw: State) -> Any:
    """transformers' model with these weights in float32; norms are ones on both sides."""
    model, layers, state = FAMILIES[name](SMALL[name], raw)
    state |= {"model.embed_tokens.weight": raw["embedding"], "lm_head.weight": raw["head"]}
    for number, layer in enumerate(layers):
        state |= {f"model.layers.{number}.{part}": each for part, each in layer.items()}
    left = model.load_state_dict({k: t.float() for k, t in state.items()}, strict=False)
    assert not left.unexpected_keys
    assert all("norm" in key for key in left.missing_keys), left.missing_keys
    return model.float().eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_transformers_finds_the_same(name: str) -> None:
    built = build(SMALL[name], (REFERENCE.but("plain", eight=NotRounded()),), "cpu", 32)
    model, theirs = built.models[0], loaded(name, built.raw)
    draw = torch.Generator().manual_seed(3)
    prompt = torch.randint(1, SMALL[name].vocabulary, (2, 9), generator=draw)
    state = model.start(2, 32)
    logits, tokens = [begin(model, state, prompt).float()], [state.tokens.clone()]
    for _ in range(STEPS):
        logits.append(advance(model, state).float())
        tokens.append(state.tokens.clone())
    whole = torch.cat((prompt, torch.stack(tokens[:-1], 1)), 1)
    with torch.no_grad():
        right = theirs(whole, use_cache=False).logits[:, -STEPS - 1 :]
    assert agreement(logits, list(right.unbind(1))).error < 0.02
    assert torch.equal(torch.stack(tokens, 1), right.argmax(-1))
