"""Quantized models of transformers, written as their publishers store them and loaded for our
operators, against transformers' own model of the same numbers: logits, tokens, memory, reports."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from live_memory import LiveMemory  # noqa: E402
from reference_gpu import reference_gpu  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from stored_models import write_model, write_safetensors  # noqa: E402
from test_transformers import fp8_by_definition  # noqa: E402
from tiny_models import NEW, answers, drawn, prompt, tiny  # noqa: E402

from hexcute_kernels.checkpoints import CheckpointError  # noqa: E402
from hexcute_kernels.integrations.transformers import load, use  # noqa: E402
from hexcute_kernels.integrations.transformers.experts import Experts, taken  # noqa: E402
from hexcute_kernels.parallel.weights import Dense, FourBits  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """Small tensors are no work for two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


WIDE = {"hidden_size": 128, "intermediate_size": 128, "head_dim": 32}
SIZES: dict[str, dict[str, int]] = {
    "Llama": {},
    "Qwen3Moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128},
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "DeepseekV3": {
        "intermediate_size": 256, "moe_intermediate_size": 128, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "q_lora_rank": 128, "kv_lora_rank": 128, "head_dim": 64,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 64, "v_head_dim": 32, "num_key_value_heads": 4,
    },
}  # fmt: skip
USUAL, LETTERS = ("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2")
FOUR = {"Llama": 2, "Qwen3Moe": 7, "Mixtral": 8, "DeepseekV3": 3}
EIGHT = {"Llama": 29, "Qwen3Moe": 23}
"""Seeds of weights under which no two tokens come close to being the next: of eight bits the two
best are a 14th of the largest logit apart, and tokens the same in 40 runs whose activations are
off by their last place, which e4m3 rounds otherwise."""
CALM = 0.03
"""Deviation of inner weights of eight bits: what a layer adds is less than what it is added to, or
two roundings of e4m3 would lead to models that have little in common."""
TOLERANCE = 2.0**-6
"""Of the largest logit: some units in the last place of float16 in each of two layers."""
EIGHT_BITS = 2.0**-3
"""The same where activations are rounded to e4m3, of which a 16th is the last place."""


def written(path: Path, family: str, form: str, seed: int = 0, **more: Any) -> Any:
    """A model in a folder, and transformers' model of the same numbers."""
    model = tiny(family, seed=seed or FOUR[family], **{**WIDE, **SIZES[family], **more})
    if form == "fp8":
        drawn(model, seed or EIGHT[family], CALM)
    expert = LETTERS if family == "Mixtral" else USUAL
    write_model(path, model, form, expert, files=2 if form == "awq" else 1)
    return model


def near(got: Any, want: Any, tolerance: float = TOLERANCE) -> None:
    """Equal tokens, and logits within the format's tolerance."""
    assert (got[0] - want[0]).abs().max() <= tolerance * want[0].abs().max()
    assert torch.equal(got[1], want[1])


@pytest.mark.parametrize(
    ("family", "form", "calls"),
    [
        ("Llama", "awq", {"w4a16_matmul": 14}),
        ("Llama", "gptq_v2_ordered", {"w4a16_matmul": 14}),
        ("Llama", "compressed_zero", {"w4a16_matmul": 14}),
        ("Qwen3Moe", "compressed", {"w4a16_matmul": 8, "moe": 2}),
        ("Mixtral", "gptq", {"w4a16_matmul": 8, "moe": 2}),
        ("DeepseekV3", "awq", {"w4a16_matmul": 16, "moe": 1}),
    ],
)
def test_four_bits_say_what_transformers_says(
    tmp_path: Path, family: str, form: str, calls: dict[str, int]
) -> None:
    model, ids = written(tmp_path, family, form), prompt()
    want = answers(model, ids)
    got, report = load(tmp_path, device="cpu")
    assert got.dtype == torch.float16
    with reference_gpu() as called:
        near(answers(got, ids), want)
    counted = Counter(called)
    assert {name: counted[name] for name in calls} == {n: c * (1 + NEW) for n, c in calls.items()}
    kinds = Counter(r.kind for r in report.replaced)
    assert kinds["FourBitLinear"] == calls["w4a16_matmul"]
    assert kinds["Experts"] == calls.get("moe", 0)
    kept = {x.kind.lower() for x in report.left}
    assert kept <= {"embedding", "linear", f"{family.lower()}topkrouter"}
    # Packed anew from what it holds already: nothing changes.
    assert len(use(got).replaced) == len(report.replaced)


class Hopper:
    """What makes transformers load weights of eight bits as they are: a GPU that has them."""

    def __enter__(self) -> None:
        where = "transformers.quantizers.quantizer_finegrained_fp8"
        self.patches = [
            patch(f"{where}.is_accelerate_available", lambda: True),
            patch("torch.cuda.is_available", lambda: True),
            patch("torch.cuda.get_device_capability", lambda *of: (9, 0)),
        ]
        for each in self.patches:
            each.start()

    def __exit__(self, *error: Any) -> None:
        for each in self.patches:
            each.stop()


def as_transformers_calls(
    input: Any, weight: Any, weight_scale_inv: Any, block_size: Any = None, bias: Any = None,
    *more: Any, **named: Any,
) -> Any:
    """Its function for layers of eight bits, by definition."""
    return fp8_by_definition(input, weight, weight_scale_inv, block_size, bias)


def met(model: Any, ids: Any) -> dict[str, tuple[Any, Any]]:
    """What the quantized modules of a model of transformers are given for a prompt, and give."""
    found: dict[str, tuple[Any, Any]] = {}

    def note(name: str) -> Any:
        def hook(module: Any, given: Any, made: Any) -> None:
            found[name] = given, made

        return hook

    hooks = [
        module.register_forward_hook(note(name))
        for name, module in model.named_modules()
        if type(module).__name__ in ("FP8Linear", "FP8Experts")
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return found


def alike(model: Any, modules: dict[str, tuple[Any, Any]]) -> None:
    """The modules of these names give the same for the same, but for sums in another order."""
    assert modules
    for name, (given, want) in modules.items():
        with torch.no_grad():
            off = (model.get_submodule(name)(*given) - want).abs().max()
        assert off <= 2.0**-8 * want.abs().max(), name


@pytest.mark.parametrize("family", ["Llama", "Qwen3Moe"])
def test_eight_bits_say_what_transformers_says(tmp_path: Path, family: str) -> None:
    model, ids = written(tmp_path, family, "fp8"), prompt()
    kind = getattr(transformers, f"{family}ForCausalLM")
    with patch("transformers.quantizers.quantizer_finegrained_fp8.is_accelerate_available"):
        plain = kind.from_pretrained(tmp_path).eval()
    # transformers' own dequantized model is that of the numbers that were written.
    for name, got in plain.state_dict().items():
        torch.testing.assert_close(got, model.state_dict()[name], atol=2e-4, rtol=2e-3)
    with Hopper():
        theirs = kind.from_pretrained(tmp_path).eval()
    theirs.set_experts_implementation("eager")
    definition = "transformers.integrations.finegrained_fp8.fp8_linear"
    with patch(definition, as_transformers_calls):
        want, modules = answers(theirs, ids), met(theirs, ids)
    got, report = load(tmp_path, device="cpu")
    with reference_gpu() as called:
        alike(got, modules)
        # From module to module, numbers that e4m3 rounds the other way move by a 16th.
        ours = answers(got, ids)
        near(ours, want, EIGHT_BITS)
        assert "fp8_blockwise_matmul" in called
        assert ("fp8_grouped_matmul" in called) == (family == "Qwen3Moe")
        # The same from the model that transformers loaded, in the memory where it lies.
        places = {name: p.data_ptr() for name, p in theirs.state_dict().items()}
        used = use(theirs)
        assert torch.equal(answers(theirs, ids)[0], ours[0])
    assert {name: p.data_ptr() for name, p in theirs.state_dict().items()} == places
    assert len(used.replaced) == len(report.replaced)


@pytest.mark.parametrize("form", ["compressed", "compressed_zero"])
def test_the_numbers_are_those_that_compressed_tensors_reads(tmp_path: Path, form: str) -> None:
    pytest.importorskip("compressed_tensors")
    from transformers.utils.quantization_config import CompressedTensorsConfig

    model, ids = written(tmp_path, "Llama", form), prompt()
    plain = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path, quantization_config=CompressedTensorsConfig(dequantize=True)
    )
    near(answers(plain.eval(), ids), answers(model, ids))


def test_what_compressed_tensors_loads_is_packed_anew(tmp_path: Path) -> None:
    pytest.importorskip("compressed_tensors")
    model, ids = written(tmp_path, "Llama", "compressed"), prompt()
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    report = use(theirs)
    assert sum(r.by == "w4a16_matmul" for r in report.replaced) == 14
    with reference_gpu():
        got = answers(theirs, ids)
    near(got, answers(model, ids))


def test_experts_of_sixteen_bits_are_grouped_products() -> None:
    model, ids = tiny("Qwen3Moe", **SIZES["Qwen3Moe"]), prompt()
    want = answers(model, ids)
    report = use(model)
    assert [r.by for r in report.replaced if r.kind == "Qwen3MoeExperts"] == ["grouped_matmul"] * 2
    assert {n for n, _ in model.named_parameters() if "expert" in n} == {
        f"model.layers.{i}.mlp.experts.{n}" for i in (0, 1) for n in ("gate_up_proj", "down_proj")
    }
    with reference_gpu() as called:
        near(answers(model, ids), want)
    assert Counter(called)["grouped_matmul"] == 2 * 2 * (1 + NEW)


def test_what_no_kernel_takes_is_dense_and_told(tmp_path: Path) -> None:
    sizes = {"moe_intermediate_size": 256, "hidden_act": "gelu"}
    model, ids = written(tmp_path, "Qwen3Moe", "awq", num_key_value_heads=1, **sizes), prompt()
    want = answers(model, ids)
    got, report = load(tmp_path, device="cpu")
    told = {x.name: (x.kind, x.why) for x in report.left}
    why = "weights (128, 32), k is to be a multiple of 128 and n of 64"
    assert told["model.layers.0.self_attn.k_proj"] == ("Linear", why)
    why = "gate and up do not meet as silu(gate) * up"
    assert told["model.layers.1.mlp.experts"] == ("Qwen3MoeExperts", why)
    with reference_gpu():
        near(answers(got, ids), want)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('_experts": 4', '_experts": 3', r"gate.weight is \(4, 128\), the model's is \(3, 128\)"),
        ('_bias": false', '_bias": true', "self_attn.q_proj: has no bias, the model's has one"),
        ('_heads": 2', '_heads": 4', r"k_proj: its weight is \(64, 128\), the model's is \(128, 1"),
        ('te_size": 128', 'te_size": 64', r"0.gate_proj and up_proj: its weight is \(256, 128\), "),
        ('layers": 2', 'layers": 3', "there is no model.layers.2."),
        ("MoeForC", "MoeForD", "architectures is .*no model we know"),
    ],
)
def test_checkpoints_of_other_models(tmp_path: Path, old: str, new: str, words: str) -> None:
    written(tmp_path, "Qwen3Moe", "awq")
    file = tmp_path / "config.json"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(CheckpointError, match=words):
        load(tmp_path, device="cpu")


def test_experts_are_as_many_as_the_models(tmp_path: Path) -> None:
    written(tmp_path, "Qwen3Moe", "compressed")
    file, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    config.write_text(config.read_text().replace('_experts": 4', '_experts": 3'))
    tensors = load_file(file)
    write_safetensors(file, {n: t[:3] if "mlp.gate." in n else t for n, t in tensors.items()})
    with pytest.raises(CheckpointError, match="the model has 3 experts, the checkpoint others"):
        load(tmp_path, device="cpu")


def gelu(module: Any) -> None:
    module._apply_gate = lambda rows: torch.nn.functional.gelu(rows.chunk(2, -1)[0])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (gelu, "gate and up do not meet as silu(gate) * up"),
        (lambda m: setattr(m, "is_transposed", True), "its is_transposed is True"),
        (lambda m: setattr(m, "has_gate", False), "its has_gate is False"),
        (lambda m: setattr(m, "bias", torch.nn.Parameter(torch.ones(1))), "it has bias besides"),
        (lambda m: m.float(), "its weights are torch.float32, not float16, bfloat16 or e4m3"),
    ],
)
def test_experts_that_stay(change: Any, why: str) -> None:
    module = tiny("Qwen3Moe", **SIZES["Qwen3Moe"]).model.layers[0].mlp.experts
    change(module)
    found = taken(module)
    assert isinstance(found, str) and why in found


def test_stacks_of_one_kind() -> None:
    w = torch.zeros(1, 64, 64).half()
    packed = FourBits(torch.zeros(1, 1, 68, 64).byte())
    with pytest.raises(LaunchError, match="experts in Dense and FourBits"):
        Experts(Dense(w), packed)


def bytes_of(module: Any) -> int:
    held = {t.data_ptr(): t.nbytes for t in (*module.parameters(), *module.buffers())}
    return sum(held.values())


ONE = 128 * 128 // 2
"""Bytes of a layer of four bits, but for its scales; packing it takes a dozen times as many."""
WORK = 16 * ONE


def test_memory_is_not_doubled_by_loading(tmp_path: Path) -> None:
    written(tmp_path, "Qwen3Moe", "awq", num_experts=16, num_key_value_heads=4)
    with LiveMemory() as live:
        model, _ = load(tmp_path, device="cpu")
    held = bytes_of(model)
    assert held > 2 * 3 * 16 * ONE
    # Plain tensors are the files' own pages until they are moved.
    assert live.most <= held + 2 * WORK


def test_the_pages_three_lines_are_three_and_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "Llama", "awq")
    plain = tmp_path / "plain"
    tiny("Llama").save_pretrained(plain)
    page = Path(__file__).parents[3] / "docs/transformers.md"
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```{code-block} python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [len(block.splitlines()) for block in blocks] == [3, 3]
    for block, path in zip(blocks, (plain, tmp_path)):
        # Where there is no GPU, and no accelerate, which transformers wants to find one.
        device = ', device="cpu"' if path == tmp_path else ""
        here = re.sub(r', device(_map)?="cuda"', device, block)
        here = re.sub(r'"(\.\.\.|path/of/a/model)"', repr(str(path)), here)
        assert here != block
        exec(here, {"AutoModelForCausalLM": transformers.AutoModelForCausalLM})
        assert capsys.readouterr().out.startswith("hexcute in LlamaForCausalLM: ")
