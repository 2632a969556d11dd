"""The plugin in vLLM's own registries and base classes, on the CPU: which kernels and experts are
chosen, what is left, and what our operators, by their definitions, make of vLLM's tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch")
vllm = pytest.importorskip("vllm")
from reference_gpu import quantize_blockwise, reference_gpu, unquantized  # noqa: E402
from stored_models import stored  # noqa: E402
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.model_executor import parameter as parameters  # noqa: E402
from vllm.model_executor.kernels import linear as registry  # noqa: E402
from vllm.model_executor.layers.fused_moe.activation import MoEActivation  # noqa: E402
from vllm.model_executor.layers.fused_moe.oracle import fp8 as oracle  # noqa: E402
from vllm.model_executor.layers.quantization.utils import quant_utils as keys  # noqa: E402
from vllm.platforms import PlatformEnum  # noqa: E402
from vllm.scalar_type import scalar_types  # noqa: E402
from vllm.v1.attention.backends.registry import AttentionBackendEnum  # noqa: E402

from hexcute_core.errors import LaunchError  # noqa: E402
from hexcute_kernels.integrations.vllm import attention as ours_attention  # noqa: E402
from hexcute_kernels.integrations.vllm import experts as ours_experts  # noqa: E402
from hexcute_kernels.integrations.vllm import four_bit_experts as ours_four  # noqa: E402
from hexcute_kernels.integrations.vllm import linear as ours_linear  # noqa: E402
from hexcute_kernels.integrations.vllm import register  # noqa: E402

Bits, Block = ours_linear.Hexcute4BitLinearKernel, ours_linear.HexcuteBlockLinearKernel
Experts = ours_experts.HexcuteBlockExperts
HALF = torch.float16


@pytest.fixture(autouse=True)
def hopper() -> Iterator[list[Any]]:
    """vLLM thinks that it is on a Hopper; gives what would be compiled ahead."""
    register()
    platform = SimpleNamespace(
        _enum=PlatformEnum.CUDA, is_cuda=lambda: True, is_rocm=lambda: False,
        get_device_capability=lambda *of: (9, 0), is_device_capability=lambda of: of == 90,
    )  # fmt: skip
    compiled: list[Any] = []

    def noted(*call: Any, **sizes: Any) -> None:
        compiled.append((*call, sizes))

    with ExitStack() as stack:
        for module in (ours_linear, ours_experts):
            stack.enter_context(patch.object(module, "on_hopper", lambda: True))
        for module in (ours_linear, ours_experts, ours_four):
            stack.enter_context(patch.object(module, "ahead", noted))
        stack.enter_context(patch.object(registry, "current_platform", platform))
        for name in ("get_tensor_model_parallel_rank", "get_tensor_model_parallel_world_size"):
            value = int(name.endswith("size"))
            stack.enter_context(patch.object(parameters, name, lambda value=value: value))
        yield compiled


def test_each_part_is_registered_first_and_once() -> None:
    before = [list(k[PlatformEnum.CUDA]) for k in KINDS]
    assert register() == register() == ALL
    assert [list(k[PlatformEnum.CUDA]) for k in KINDS] == before
    assert [kernels[0] for kernels in before] == [Bits, Block]
    assert all(len(kernels) == len(set(kernels)) for kernels in before)
    assert oracle.backend_to_kernel_cls(oracle.Fp8MoeBackend.TRITON)[0] is Experts
    assert len(oracle.backend_to_kernel_cls(oracle.Fp8MoeBackend.TRITON)) == 2
    assert AttentionBackendEnum.HEXCUTE.get_class() is ours_attention.HexcuteBackend


ALL = ("linear", "experts", "four_bit_experts", "attention", "mamba")
KINDS = (registry._POSSIBLE_KERNELS, registry._POSSIBLE_FP8_BLOCK_KERNELS)


def four_bits(k: int = 256, n: int = 128, group: int = 128, zeros: bool = True) -> Any:
    weight = scalar_types.uint4 if zeros else scalar_types.uint4b8
    return registry.MPLinearLayerConfig((k, n), (k, n), weight, HALF, group, zeros)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (four_bits(), None),
        (four_bits(group=-1), None),
        (four_bits(zeros=False, group=32), None),
        (four_bits(k=320, group=64), "k a multiple of 128"),
        (four_bits(n=72), "n of 64"),
        (four_bits(group=16), "groups of 32, 64 or 128"),
        (registry.MPLinearLayerConfig((256, 128), (256, 128), scalar_types.uint8b128, HALF, 128,
                                      False), "has no uint8b128 with"),
    ],
)  # fmt: skip
def test_vllm_chooses_our_kernel_of_four_bits_where_it_fits(config: Any, why: str | None) -> None:
    told = Bits.can_implement(config)
    assert told == (True, None) if why is None else not told[0] and why in told[1]
    if why is None:
        assert registry.choose_mp_linear_kernel(config) is Bits
    with patch.object(ours_linear, "on_hopper", lambda: False):
        assert Bits.can_implement(config)[0] is False
        assert Block.is_supported()[0] is False and not Block.is_supported(80)[0]


def packed(data: Any, input_dim: int, packed_dim: int) -> Any:
    return parameters.PackedvLLMParameter(
        data=data, input_dim=input_dim, output_dim=1 - input_dim, packed_dim=packed_dim,
        packed_factor=8, weight_loader=lambda *of: None,
    )  # fmt: skip


def scaled(data: Any, input_dim: int) -> Any:
    return parameters.GroupQuantScaleParameter(
        data=data, input_dim=input_dim, output_dim=1 - input_dim, weight_loader=lambda *of: None
    )


@pytest.mark.parametrize("form", ["gptq", "compressed", "compressed_zero"])
def test_layers_of_four_bits(form: str, hopper: list[Any]) -> None:
    k, n = 256, 128
    made = stored(torch.randn(n, k, generator=torch.Generator().manual_seed(1)), form)
    layer, t = torch.nn.Module(), made.tensors
    zeros = form == "compressed_zero"
    if form == "gptq":
        # The symmetric kind, as vLLM hands it over: 8 for all zero points.
        made = stored(made.value, "compressed")
        q = made.tensors["weight_packed"]
        layer.q, layer.s = packed(q.t().contiguous(), 0, 0), scaled(
            made.tensors["weight_scale"].t().contiguous(), 0
        )
    else:
        layer.q, layer.s = packed(t["weight_packed"], 1, 1), scaled(t["weight_scale"], 1)
        if zeros:
            layer.z = packed(t["weight_zero_point"], 1, 0)
    kernel = Bits(four_bits(k, n, 128, zeros), "q", "s", "z" if zeros else None)
    kernel.process_weights_after_loading(layer)
    assert layer.s.numel() == 0 and layer.q.dtype == torch.uint8
    assert hopper == [("w4a16_matmul", {"n": n, "k": k, "group": 128, "dtype": "float16"})]
    x, bias = torch.randn(2, 3, k).half(), torch.ones(n).half()
    with reference_gpu() as called:
        got = kernel.apply_weights(layer, x, bias)
    assert called == ["w4a16_matmul"] and got.shape == (2, 3, n)
    want = x.float() @ made.value.t() + 1
    torch.testing.assert_close(got.float(), want, atol=2e-2, rtol=2e-3)


def test_scales_that_float16_does_not_hold_name_the_way_out() -> None:
    t = stored(torch.randn(128, 256), "compressed").tensors
    layer = torch.nn.Module()
    layer.q = packed(t["weight_packed"], 1, 1)
    layer.s = scaled(t["weight_scale"].float() + 1e-6, 1)
    kernel = Bits(four_bits(zeros=False), "q", "s")
    with pytest.raises(LaunchError, match="float16 does not hold exactly") as caught:
        kernel.process_weights_after_loading(layer)
    assert caught.value.fix == "VLLM_DISABLED_KERNELS=Hexcute4BitLinearKernel leaves it to vLLM"


def eight_bits(n: int, k: int, given: Any = keys.kFp8Dynamic128Sym, out: Any = HALF) -> Any:
    return registry.FP8ScaledMMLinearLayerConfig(
        weight_quant_key=keys.kFp8Static128BlockSym, activation_quant_key=given,
        weight_shape=(n, k), input_dtype=HALF, out_dtype=out,
    )  # fmt: skip


def test_layers_of_eight_bits(hopper: list[Any]) -> None:
    made = stored(torch.randn(144, 256, generator=torch.Generator().manual_seed(1)), "fp8")
    layer = torch.nn.Module()
    for name, tensor in made.tensors.items():
        setattr(layer, name, torch.nn.Parameter(tensor, requires_grad=False))
    layer.input_scale = None
    with set_current_vllm_config(VllmConfig(device_config=DeviceConfig("cpu"))):
        kernel = registry.init_fp8_linear_kernel(
            keys.kFp8Dynamic128Sym, keys.kFp8Static128BlockSym, HALF, HALF, (144, 256)
        )
        assert type(kernel) is Block
        kernel.process_weights_after_loading(layer)
        x = torch.randn(2, 3, 256).half()
        with reference_gpu() as called:
            got = kernel.apply_weights(layer, x, torch.ones(144).half())
    assert called == ["quantize_blockwise", "fp8_blockwise_matmul"]
    assert [call[0] for call in hopper] == called
    rows = unquantized(*quantize_blockwise(x.view(-1, 256), "m", False))
    want = (rows @ made.value.t() + 1).view(2, 3, 144)
    torch.testing.assert_close(got.float(), want, atol=2e-2, rtol=2e-3)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (eight_bits(256, 256, keys.kFp8DynamicTokenSym), "takes scales for 1 x 128 and 128 x 128"),
        (eight_bits(256, 256, out=torch.float32), "has no torch.float16 to torch.float32"),
        (eight_bits(250, 256), "takes multiples of 16"),
        (eight_bits(256, 256, keys.kFp8StaticTensorSym), "dynamic"),
    ],
)
def test_layers_of_eight_bits_that_are_left(config: Any, why: str) -> None:
    allowed, told = Block.can_implement(config)
    assert not allowed and why in told


def moe_config(**fields: Any) -> Any:
    parallel = SimpleNamespace(
        use_ep=False, use_all2all_kernels=False, use_batched_activation_format=False
    )
    return SimpleNamespace(
        **{
            "is_act_and_mul": True, "activation": MoEActivation.SILU, "has_bias": False,
            "moe_parallel_config": parallel, "has_hash_routing": False, "hidden_dim": 256,
            "require_decomposed_backend": False, "routing_method": None, "is_lora_enabled": False,
            "router_logits_dtype": None, "intermediate_size_per_partition": 128,
            "swiglu_limit": None, "experts_per_token": 2, "num_local_experts": 3,
            "in_dtype": HALF, "moe_backend": "auto",
        } | fields
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"intermediate_size_per_partition": 192}, "width 192 of 256"),
        ({"hidden_dim": 200}, "width 128 of 200"),
        ({"has_bias": True}, "has_bias"),
        ({"swiglu_limit": 7.0}, "swiglu_limit"),
        ({"activation": MoEActivation.GELU}, "activation"),
        ({"is_act_and_mul": False}, "no act_and_mul"),
    ],
)
def test_experts_that_are_ours(fields: dict[str, Any], why: str | None) -> None:
    how = keys.kFp8Static128BlockSym, keys.kFp8Dynamic128Sym, Experts.activation_format()
    allowed, told = Experts.is_supported_config(Experts, moe_config(**fields), *how)
    assert allowed == (why is None) and (why is None or why in told)


def test_experts_add_up_what_they_find(hopper: list[Any]) -> None:
    experts, hidden, width = 3, 256, 128
    draw = torch.Generator().manual_seed(2)
    parts = [
        [stored(torch.randn(*s, generator=draw) / 8, "fp8") for _ in range(experts)]
        for s in ((2 * width, hidden), (hidden, width))
    ]
    w1, w2 = (torch.stack([m.tensors["weight"] for m in part]) for part in parts)
    s1, s2 = (torch.stack([m.tensors["weight_scale_inv"] for m in part]) for part in parts)
    quant = SimpleNamespace(w1_scale=s1, w2_scale=s2)
    ours = object.__new__(Experts)
    ours.quant_config, ours.moe_config = quant, moe_config()
    ours.compile_ahead()
    assert len(hopper) == 4
    x, ids = torch.randn(5, hidden, generator=draw).half(), torch.tensor([[0, 2]] * 4 + [[2, 1]])
    gates, out = torch.rand(5, 2, generator=draw), torch.empty(5, hidden).half()
    spaces = ours.workspace_shapes(5, 2 * width, hidden, 2, 3, 3, None, MoEActivation.SILU)
    assert spaces[-1] == tuple(out.shape)

    def apply(on_input: bool = False, **change: Any) -> None:
        given = {
            "output": out, "hidden_states": x, "w1": w1, "w2": w2, "topk_weights": gates,
            "topk_ids": ids.int(), "activation": MoEActivation.SILU, "global_num_experts": 3,
            "expert_map": None, "a1q_scale": None, "a2_scale": None, "workspace13": None,
            "workspace2": None, "expert_tokens_meta": None,
            "apply_router_weight_on_input": on_input,
        } | change  # fmt: skip
        with reference_gpu():
            ours.apply(**given)

    def want(rows: Any, by: Any) -> Any:
        made = torch.zeros(5, hidden)
        for t in range(5):
            for j in range(2):
                first, second = (part[ids[t, j]].value for part in parts)
                left, right = (first @ rows[t].float()).chunk(2)
                made[t] += by[t, j] * (second @ (torch.nn.functional.silu(left) * right))
        return made

    apply()
    assert (out.float() - want(x, gates)).abs().max() < 0.1 * want(x, gates).abs().max()
    apply(on_input=True, topk_weights=gates[:, :1], topk_ids=ids[:, :1].int())
    with pytest.raises(LaunchError, match="experts are all here"):
        apply(expert_map=torch.zeros(3))


def test_vllms_compilation_sees_one_operator_a_layer() -> None:
    made = stored(torch.randn(128, 256), "compressed").tensors
    layer, seen = torch.nn.Module(), []
    layer.q, layer.s = packed(made["weight_packed"], 1, 1), scaled(made["weight_scale"], 1)
    kernel = Bits(four_bits(zeros=False), "q", "s")
    kernel.process_weights_after_loading(layer)

    def backend(graph: Any, given: Any) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return lambda *of: (torch.zeros(2, 3, 128).half(),)

    call = torch.compile(kernel.apply_weights, backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        call(layer, torch.zeros(2, 3, 256).half(), torch.zeros(128).half())
    assert [name for name in seen if "hexcute" in name] == [
        "hexcute.w4a16_matmul.default"
    ]
