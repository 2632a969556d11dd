"""Linear layers that other packages have loaded, their words in the checkpoint's order or not:
which are packed anew, what they give then, and how much memory that takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from live_memory import LiveMemory  # noqa: E402
from reference_gpu import reference_gpu  # noqa: E402
from simulated_gpu import simulated_gpu  # noqa: E402
from stored_models import stored  # noqa: E402
from test_transformers_stored import ONE, WIDE, WORK, bytes_of  # noqa: E402
from tiny_models import tiny  # noqa: E402

from hexcute_kernels.integrations.transformers import use  # noqa: E402
from hexcute_kernels.integrations.transformers.layers import replacement  # noqa: E402
from hexcute_kernels.integrations.transformers.linears import FourBitLinear  # noqa: E402


def test_one_layer_of_four_bits_on_a_simulated_gpu() -> None:
    made = stored(torch.randn(64, 128, generator=torch.Generator().manual_seed(5)), "awq")
    linear = replacement(other("AwqTorchLinear", made, 64, 128))
    assert not isinstance(linear, str) and isinstance(linear.module, FourBitLinear)
    x = torch.randn(1, 2, 128).half()
    with torch.no_grad(), simulated_gpu("h100", "sm_90") as launched:
        got = linear.module(x)
    assert launched == ["few"] and got.shape == (1, 2, 64)
    torch.testing.assert_close(got.float(), x.float() @ made.value.t(), atol=2e-2, rtol=2e-3)


def other(kind: str, made: Any, n: int, k: int, **fields: Any) -> Any:
    """A linear layer as another package leaves it: a class of this name with these buffers."""
    module = type(kind, (torch.nn.Module,), {})()
    for name, tensor in made.tensors.items():
        module.register_buffer(name, tensor)
    for name, field in {"bits": 4, "in_features": k, "out_features": n, **fields}.items():
        setattr(module, name, field)
    return module


def scheme(bits: int = 4, kind: str = "int", inputs: Any = None) -> Any:
    return SimpleNamespace(
        weights=SimpleNamespace(num_bits=bits, type=kind), input_activations=inputs
    )


MATRIX = torch.linspace(-1, 1, 64 * 128).view(64, 128)


@pytest.mark.parametrize(
    ("kind", "form", "fields"),
    [
        ("AwqGEMMLinear", "awq", {}),
        ("TorchLinear", "gptq", {"qzero_format": lambda: 1}),
        ("TritonV2Linear", "gptq_v2_ordered", {"qzero_format": lambda: 2}),
        ("Linear", "compressed", {"quantization_scheme": scheme()}),
        ("Linear", "compressed_zero", {"quantization_scheme": scheme()}),
    ],
)
def test_layers_that_other_packages_loaded(kind: str, form: str, fields: Any) -> None:
    made = stored(MATRIX, form)
    linear = replacement(other(kind, made, 64, 128, bias=torch.ones(64).half(), **fields))
    assert not isinstance(linear, str) and linear.by == "w4a16_matmul"
    x = torch.randn(3, 128).half()
    with torch.no_grad(), reference_gpu():
        got = linear.module(x)
    torch.testing.assert_close(got.float(), x.float() @ made.value.t(), atol=2e-2, rtol=2e-3)


@pytest.mark.parametrize(
    ("kind", "form", "fields", "why"),
    [
        ("MarlinLinear", "awq", {}, "an order of their own: load the checkpoint with `load`"),
        ("AwqTorchLinear", "awq", {"bits": 8}, "have 8 bits in torch.int32, not 4"),
        ("AwqTorchLinear", "awq", {"in_features": 64}, r"words are (128, 8) of weights (64, 64)"),
        ("TorchLinear", "gptq", {}, "does not say how zero points are stored"),
        ("AwqTorchLinear", "awq", {"scales": None}, "it has no scales"),
        ("Linear", "compressed", {}, "no quantization_scheme"),
        ("Linear", "compressed", {"quantization_scheme": scheme(8)}, "int of 8 bits, not int of"),
        ("Linear", "compressed", {"quantization_scheme": scheme(inputs=1)}, "activations are qu"),
    ],
)
def test_layers_of_others_that_stay(kind: str, form: str, fields: Any, why: str) -> None:
    found = replacement(other(kind, stored(MATRIX, form), 64, 128, **fields))
    assert isinstance(found, str) and why in found


def test_a_layer_whose_width_no_kernel_has_stays() -> None:
    module = other("AwqTorchLinear", stored(MATRIX[:40], "awq"), 40, 128)
    found = replacement(module)
    assert isinstance(found, str) and found.startswith("no kernel takes it: weights (128, 40)")


def test_memory_is_not_doubled_by_what_is_packed_anew() -> None:
    model = tiny("Llama", num_hidden_layers=6, num_key_value_heads=4, **WIDE)
    made = stored(torch.randn(128, 128, generator=torch.Generator().manual_seed(5)), "awq")
    for name in [n for n, m in model.model.named_modules() if isinstance(m, torch.nn.Linear)]:
        parent, _, own = name.rpartition(".")
        module = other("AwqTorchLinear", made, 128, 128)
        for buffer, tensor in list(module.named_buffers()):
            setattr(module, buffer, tensor.clone())
        setattr(model.model.get_submodule(parent), own, module)
        del module
    before = bytes_of(model)
    assert before > 42 * ONE
    with LiveMemory(*model.parameters(), *model.buffers()) as live:
        report = use(model)
    assert sum(r.by == "w4a16_matmul" for r in report.replaced) == 42
    assert live.most <= before + WORK and bytes_of(model) <= 1.03 * before
    assert live.now <= 1.03 * before
