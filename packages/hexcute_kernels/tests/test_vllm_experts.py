"""vLLM's experts in four bits: which are ours, and what becomes of their stored words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
from reference_gpu import reference_gpu  # noqa: E402
from stored_models import stored  # noqa: E402
from test_vllm import Experts, hopper, moe_config  # noqa: E402
from vllm.model_executor.layers.fused_moe.activation import MoEActivation  # noqa: E402
from vllm.model_executor.layers.fused_moe.oracle import int_wna16  # noqa: E402
from vllm.model_executor.layers.quantization import auto_awq  # noqa: E402
from vllm.model_executor.layers.quantization.utils import quant_utils as keys  # noqa: E402
from vllm.scalar_type import scalar_types  # noqa: E402

from hexcute_core.errors import LaunchError  # noqa: E402
from hexcute_kernels.integrations.vllm import four_bit_experts as ours_four  # noqa: E402

__all__ = ["hopper"]
AWQ = {"weight_bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_type": scalar_types.uint4b8, "group_size": 128, "desc_act": False, "is_sym": True}
ARGS = {"num_bits": 4, "group_size": 128, "actorder": None}


def described(kind: str, entries: dict[str, Any], **change: Any) -> Any:
    """A configuration of vLLM's, by the name of its class."""
    return type(kind, (SimpleNamespace,), {})(**{**entries, **change})


@pytest.mark.parametrize(
    ("quant", "fields", "ours"),
    [
        (described("AutoAWQConfig", AWQ), {}, True),
        (described("AutoGPTQConfig", GPTQ), {}, True),
        (described("QuantizationArgs", ARGS, group_size=None), {}, True),
        (described("AutoAWQConfig", AWQ, group_size=16), {}, False),
        (described("AutoGPTQConfig", GPTQ, desc_act=True), {}, False),
        (described("QuantizationArgs", ARGS, actorder=SimpleNamespace(value="group")), {}, False),
        (described("QuantizationArgs", ARGS, num_bits=8), {}, False),
        (described("MoeWNA16Config", AWQ), {}, False),
        (described("AutoAWQConfig", AWQ), {"moe_backend": "marlin"}, False),
        (described("AutoAWQConfig", AWQ), {"hidden_dim": 320}, False),
        (described("AutoAWQConfig", AWQ), {"in_dtype": torch.float32}, False),
        (described("AutoAWQConfig", AWQ), {"activation": MoEActivation.GELU}, False),
    ],
)
def test_experts_of_four_bits_are_asked_first(quant: Any, fields: Any, ours: bool) -> None:
    asked: list[Any] = []
    select = ours_four.choice(lambda *of, **named: asked.append(of))
    found = select(moe_config(**fields), keys.kInt4Static, quant_config=quant, may_have_zp=True,
                   may_have_bias=True)  # fmt: skip
    assert (found == (ours_four.OURS, ours_four.HexcuteFourBitExperts)) == ours
    assert len(asked) == 1 - ours


def test_each_module_of_vllms_has_the_three_steps() -> None:
    for name in (
        "select_wna16_moe_backend", "convert_to_wna16_moe_kernel_format", "make_wna16_moe_kernel",
    ):  # fmt: skip
        assert getattr(auto_awq, name) is getattr(int_wna16, name)
        assert getattr(int_wna16, name)._hexcute


@pytest.mark.parametrize("form", ["awq", "gptq", "compressed", "compressed_zero"])
def test_experts_of_four_bits_from_weights_to_results(form: str, hopper: list[Any]) -> None:
    experts, hidden, width = 2, 256, 128
    draw = torch.Generator().manual_seed(2)
    kind = "compressed" if form == "gptq" else form
    parts = [
        [stored(torch.randn(*s, generator=draw) / 8, kind) for _ in range(experts)]
        for s in ((2 * width, hidden), (hidden, width))
    ]
    names = ("qweight", "scales", "qzeros") if form == "awq" else (
        "weight_packed", "weight_scale", "weight_zero_point"
    )  # fmt: skip
    q, scale, zero = (
        [torch.stack([m.tensors[n] for m in part]) if n in part[0].tensors else None
         for part in parts]
        for n in names
    )  # fmt: skip
    if form == "gptq":
        # What a symmetric checkpoint stores beside its weights, and nobody reads.
        zero = [torch.zeros(1).int()] * 2
    quant = {
        "awq": described("AutoAWQConfig", AWQ), "gptq": described("AutoGPTQConfig", GPTQ),
    }.get(form, described("QuantizationArgs", ARGS))  # fmt: skip
    made = int_wna16.convert_to_wna16_moe_kernel_format(
        backend=ours_four.OURS, layer=SimpleNamespace(top_k=2), quant_config=quant,
        input_dtype=None, w13=q[0], w2=q[1], w13_scale=scale[0], w2_scale=scale[1],
        w13_qzeros=zero[0], w2_qzeros=zero[1],
    )  # fmt: skip
    assert len(made) == 10 and made[2].numel() == 0 and made[6:] == (None,) * 4
    assert all((z is None) == (t is None) for z, t in zip(zero, made[4:6]))
    assert [call[0] for call in hopper] == ["moe"] and hopper[0][1]["width"] == width
    around = SimpleNamespace()
    with (
        patch.object(ours_four, "maybe_make_prepare_finalize", lambda **of: around),
        patch.object(ours_four.mk, "FusedMoEKernel", lambda *of: of),
        patch.object(ours_four.HexcuteFourBitExperts, "__init__", lambda *of: None),
    ):
        found, ours = int_wna16.make_wna16_moe_kernel(
            moe_quant_config=None, moe_config=moe_config(), backend=ours_four.OURS,
            experts_cls=ours_four.HexcuteFourBitExperts,
        )  # fmt: skip
    assert found is around
    x, ids = torch.randn(3, hidden, generator=draw).half(), torch.tensor([[0, 1], [1, 0], [1, 1]])
    gates, out = torch.rand(3, 2, generator=draw), torch.empty(3, hidden).half()
    assert ours.moe_problem_size(x, *made[:2], ids) == (experts, 3, 2 * width, hidden, 2)
    rest = (MoEActivation.SILU, experts, None, None, None, None, None, None)
    with reference_gpu() as called:
        ours.apply(out, x, *made[:2], gates, ids.int(), *rest, False)
    assert called == ["moe"]
    want = torch.zeros(3, hidden)
    for t in range(3):
        for j in range(2):
            first, second = (part[ids[t, j]].value for part in parts)
            left, right = (first @ x[t].float()).chunk(2)
            want[t] += gates[t, j] * (second @ (torch.nn.functional.silu(left) * right))
    assert (out.float() - want).abs().max() < 2e-3 * want.abs().max()
    with pytest.raises(LaunchError, match="experts are all here"):
        ours.apply(out, x, *made[:2], gates, ids.int(), MoEActivation.SILU, experts, ids, None,
                   None, None, None, None, False)  # fmt: skip
    passed: list[Any] = []
    ours_four.conversion(lambda *of: passed.append(of))("MARLIN", *range(7))
    ours_four.construction(lambda *of, **named: passed.append(of))(1, 2, Experts)
    assert len(passed) == 2 and passed[0][0] == "MARLIN"
