"""Every fix of an operator is tried: the call it is given for is refused with it, and what it says
is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest

import hexcute_kernels
from hexcute_core.errors import HexcuteError
from hexcute_kernels.attention import append_to_cache, attention, decode_attention, sdpa
from hexcute_kernels.gemm import bmm, linear, matmul
from hexcute_kernels.gemm.configs import MmaConfig
from hexcute_kernels.scan import causal_conv1d, selective_scan
from hexcute_kernels.schema import parse

torch = pytest.importorskip("torch")
from stand_ins import OnGpu, gpu, on_gpu  # noqa: E402

from hexcute_kernels.gpus import gpu_named  # noqa: E402
from hexcute_kernels.measured import COLUMNS, config_of, read_csv  # noqa: E402
from hexcute_kernels.moe import (  # noqa: E402
    check_routing,
    from_gptq,
    moe,
    pack,
    pack_e4m3,
    w4a16_matmul,
)
from hexcute_kernels.registration import traced  # noqa: E402
from hexcute_kernels.samples import parse as parse_sizes  # noqa: E402
from hexcute_kernels.samples import sample  # noqa: E402
from hexcute_kernels.shipping import warm_up  # noqa: E402


class OnAnother(OnGpu):
    """A tensor that reports GPU 1 as its place."""

    @property
    def device(self) -> Any:
        return torch.device("cuda", 1)


def zeros(*shape: int, dtype: Any = None) -> Any:
    return on_gpu(torch.zeros(shape, dtype=dtype or torch.float16))


def floats(bits: int) -> Callable[[], object]:
    """Packing floats of eight bits, all of these ones."""
    w = torch.full((64, 64), bits, dtype=torch.uint8).view(torch.float8_e4m3fn)
    return lambda: pack_e4m3(w, torch.ones(1, 64).half())


def packed(k: int, n: int = 64, group: int = 128) -> Any:
    q, scale = torch.zeros(k, n, dtype=torch.uint8), torch.ones(k // group, n).half()
    return on_gpu(pack(q, scale, torch.zeros(k // group, n, dtype=torch.uint8)))


def layer(group: int) -> Any:
    """An expert whose second weights are in groups of so many."""
    w13, w2 = packed(128, 256).unsqueeze(0), packed(128, 128, group).unsqueeze(0)
    ids = zeros(2, 1, dtype=torch.int32)
    return moe(zeros(2, 128), w13, w2, ids, zeros(2, 1, dtype=torch.float32))


def stored(
    groups: int = 2, spread: float = 0.0, g_idx: Any = None, to: torch.dtype = torch.float32
) -> Any:
    """Weights as GPTQ stores them, packed for the kernels."""
    words, zero = (torch.zeros(n, m, dtype=torch.int32) for n, m in ((32, 64), (groups, 8)))
    return from_gptq(words, zero, (torch.ones(groups, 64) + spread).to(to), g_idx)


def product(a: Any, **options: Any) -> Any:
    return lambda: matmul(a() if callable(a) else a, zeros(64, 64), **options)


def right() -> Any:
    return zeros(64, 64)


def without_data() -> Any:
    return torch.empty(64, 64, dtype=torch.float16, device="meta")


def in_place() -> Any:
    a = right()
    return matmul(a, right(), out=a)


def quantized() -> Any:
    return torch.quantize_per_tensor(torch.zeros(64, 64), 1.0, 0, torch.qint8)


def learned() -> Any:
    return on_gpu(torch.zeros(64, 64).half()).requires_grad_()


def without_gradients() -> Any:
    with torch.no_grad():
        return matmul(learned(), right())


def attended(heads: int) -> Any:
    return lambda: attention(zeros(1, 8, heads, 64), *[zeros(1, 8, 4, 64)] * 2)


def scaled(sign: int, scale: float) -> Any:
    q, k = zeros(1, 8, 4, 64), zeros(1, 8, 4, 64)
    return lambda: attention(on_gpu(sign * q), k, k, scale=scale)


def decoded(queries: int, heads: int) -> Any:
    return lambda: decode_attention(zeros(1, queries, heads, 64), *[zeros(1, 64, 4, 64)] * 2)


def paged(page: int = 16, lengths: bool = True) -> Any:
    """A decoding call against a cache in pages."""
    numbers = zeros(1, 2, dtype=torch.int32)
    more = (numbers[0, :1] if lengths else None, numbers)
    return lambda: decode_attention(zeros(1, 1, 4, 64), *[zeros(2, page, 4, 64)] * 2, *more)


def appended(cos: Any, sin: Any = None) -> Any:
    """New keys for a cache of 8 places."""
    new, caches = [zeros(1, 1, 4, 64)] * 3, [zeros(1, 8, 4, 64), zeros(1, 8, 4, 64)]
    lengths = zeros(1, dtype=torch.int32)
    return lambda: append_to_cache(*new, *caches, lengths, None, cos, sin)


def scanned(out: Any = None, u: Any = None) -> Any:
    """A scan with u's channels side by side in memory, where it is not given."""
    u, bc = zeros(1, 20, 64).mT if u is None else u, zeros(1, 16, 20)
    return lambda: selective_scan(u, u, zeros(64, 16, dtype=torch.float32), bc, bc, out=out)


def rows(queries: int) -> Any:
    """A causal call of so many queries and 64 keys."""
    return lambda: attention(*(zeros(1, n, 2, 64) for n in (queries, 64, 64)), causal=True)


def stand_in(queries: int) -> Any:
    """The same by what stands in for torch's."""
    tensors = [zeros(1, 2, n, 64) for n in (queries, 64, 64)]
    return lambda: sdpa.forward(*tensors, is_causal=True)


def old_torch() -> Any:
    with patch("torch.nn.attention.register_flash_attention_impl", None, create=True):
        return sdpa.register_sdpa()


def in_a_graph(**options: Any) -> Any:
    given = {"variant": None, "config": None, **options}
    return lambda: traced(matmul, (right(), right()), None, given["variant"], given["config"], {})


def measured(text: str) -> Any:
    """A CSV of tuning runs that holds a configuration, or a file of that name with this text."""

    def call() -> Any:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "m.csv"
            path.write_text(text)
            return read_csv(path)

    return call


SPARSE = torch.zeros(64, 64).half().to_sparse()
CALLS: list[tuple[str, Any, Any]] = [
    ("use one of matmul, ", lambda: hexcute_kernels.operator_named("dot"),
     lambda: hexcute_kernels.operator_named("matmul")),
    ("use one of thin, wgmma, thin_packed, wgmma_packed, dots, staged, mma",
     product(right, variant="sm_90"), product(right, variant="mma")),
    ("pass b.to('cuda:0')",
     lambda: matmul(right(), right().as_subclass(OnAnother)), product(right)),
    ("pass a tensor of its own, or none", in_place,
     lambda: matmul(right(), right(), out=right())),
    ("pass a tensor of its own, or none", in_place,
     product(right)),
    ("leave it to the table, or name a variant", in_a_graph(config=MmaConfig(64, 64, 64, 6, 4)),
     in_a_graph(variant="mma")),
    ("use torch 2.11 or newer, or call hexcute_kernels.attention.attention", old_torch, rows(64)),
    ("call hexcute_kernels.attention.attention, where the last ones share their place",
     stand_in(32), rows(32)),
    ("pass out= by name", lambda: matmul(right(), right(), right()),
     lambda: matmul(right(), right(), out=right())),
    ("each perhaps with ?, a name and a default", lambda: parse("f(int[] a) -> Tensor"),
     lambda: parse("f(Tensor? a=None) -> Tensor")),
    ("call it for each of its tensors",
     product(lambda: torch.nested.nested_tensor([torch.zeros(64, 64).half()] * 2)),
     product(right)),
    ("pass a.dequantize()", product(quantized),
     product(lambda: on_gpu(quantized().dequantize().half()))),
    ("pass a.to_dense()", product(SPARSE), product(lambda: on_gpu(SPARSE.to_dense()))),
    ("pass a.cuda()", product(lambda: torch.zeros(64, 64).half()), product(right)),
    ("torch.ops.hexcute.matmul works out the results of tensors that hold no data, once "
     "hexcute_kernels.register() has been called", product(without_data),
     lambda: (hexcute_kernels.register(),
              torch.ops.hexcute.matmul(without_data(), without_data()))),
    ("call it under torch.no_grad(), or pass detached tensors", product(learned),
     without_gradients),
    ("or pass detached tensors", product(learned), product(lambda: learned().detach())),
    ("pass a contiguous tensor, and copy it where it is to go",
     product(right, out=zeros(64, 128)[:, ::2]), product(right, out=zeros(64, 64))),
    ("pass a tensor of that order, and copy it where it is to go",
     scanned(zeros(1, 64, 20)), scanned(zeros(1, 20, 64).mT)),
    ("pass x.contiguous() of each", scanned(None, zeros(1, 64, 40)[..., ::2]),
     scanned(None, zeros(1, 64, 20))),
    ("pass x.contiguous()", lambda: causal_conv1d(zeros(1, 64, 40)[..., ::2], zeros(64, 4)),
     lambda: causal_conv1d(zeros(1, 64, 20), zeros(64, 4))),
    ("pass a.contiguous()", product(lambda: zeros(64, 128)[:, ::2]),
     product(lambda: zeros(64, 128)[:, ::2].contiguous())),
    ("pass q.contiguous()",
     lambda: attention(zeros(1, 8, 4, 128)[..., ::2], *[zeros(1, 8, 4, 64)] * 2), attended(4)),
    ("pass b transposed, as torch.nn.functional.linear takes its weight",
     lambda: matmul(zeros(8, 64), zeros(64, 32)), lambda: matmul(zeros(8, 64), zeros(64, 32).T)),
    ("use one of None, 'relu'", lambda: linear(right(), right(), None, "step"),
     lambda: linear(right(), right(), None, "relu")),
    ("pass x.contiguous()", lambda: linear(zeros(2, 64, 128)[..., ::2], right()),
     lambda: linear(zeros(2, 64, 128)[..., ::2].contiguous(), right())),
    ("multiply q by what scale is to change of it: its sign", scaled(1, -0.5), scaled(-1, 0.5)),
    ("let the heads of q be a multiple of those of k", attended(6), attended(8)),
    ("let the heads of q be a multiple of those of k_cache", decoded(1, 6), decoded(1, 8)),
    ("call attention(q, k, v, causal=True), which shares its work out by queries", decoded(9, 4),
     lambda: attention(zeros(1, 9, 4, 64), *[zeros(1, 64, 4, 64)] * 2, causal=True)),
    ("pass seq_lens, the length of each sequence", paged(lengths=False), paged()),
    ("let k_cache and v_cache be (pages, page, kv_heads, d)", paged(24), paged(32)),
    ("pass both", appended(zeros(9, 32, dtype=torch.float32)),
     appended(*[zeros(9, 32, dtype=torch.float32)] * 2)),
    ("pass what hexcute_kernels.moe.pack(q, scale, zero) gives",
     lambda: w4a16_matmul(zeros(8, 128), zeros(1, 64, 64, dtype=torch.uint8)),
     lambda: w4a16_matmul(zeros(8, 128), packed(128))),
    ("replace it by the number that was meant", floats(127), floats(126)),
    ("fill up with q = zero, whose weight is 0", lambda: packed(192), lambda: packed(256)),
    ("quantize with one size of groups, which divides k",
     lambda: stored(g_idx=torch.zeros(256)), lambda: stored(g_idx=torch.arange(256) // 128)),
    ("quantize in groups of 128, or with one scale for a column",
     lambda: stored(16), lambda: stored(1)),
    ("quantize in such groups, or with one scale for a column",
     lambda: packed(256, group=16), lambda: packed(256, group=32)),
    ("route among the experts that w13 and w2 hold, and give others' choices gate 0",
     lambda: check_routing(torch.tensor([[0, 3], [8, -1]], dtype=torch.int32), 8),
     lambda: check_routing(torch.tensor([[0, 3], [7, 0]], dtype=torch.int32), 8)),
    ("pack both with scales of one size of groups, the smaller one",
     lambda: layer(64), lambda: layer(128)),
    ("convert them with scales.to(torch.float16) where that is close enough",
     lambda: stored(spread=1e-6), lambda: stored(spread=1e-6, to=torch.float16)),
    ("write each once: m=64,n=4096,k=4096,dtype=float16", lambda: parse_sizes("m=64 n=4096"),
     lambda: parse_sizes("m=64,n=4096,k=4096,dtype=float16")),
    ("write m=...,n=...,k=...; it may have dtype=float16", lambda: sized(m=64, n=64),
     lambda: sized(m=64, n=64, k=64, dtype="float16")),
    ("write dtype=float16", lambda: sized(m=64, n=64, k=64, dtype="half16"),
     lambda: sized(m=64, n=64, k=64, dtype="float16")),
    ("use one of a100, ", lambda: gpu_named("a1000"), lambda: gpu_named("a100")),
    ("or name the GPU to compile for", lambda: warm_up({"matmul": []}),
     lambda: warm_up({"matmul": []}, "h200")),
    ("name another file", measured("a,b"), measured(",".join(COLUMNS))),
    ("tune for these sizes again", lambda: config_of("MmaConfig(1)", MmaConfig),
     lambda: config_of(repr(MmaConfig(1, 2, 3, 4, 5)), MmaConfig)),
]  # fmt: skip


def sized(**sizes: Any) -> Any:
    return sample("matmul", sizes, "meta")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU to compile for."""
    monkeypatch.setattr("hexcute_kernels.gpus.device_count", lambda: 0)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that other tests have made, of other GPUs, are forgotten."""
    for operator in (matmul, bmm, linear, attention, decode_attention, w4a16_matmul):
        monkeypatch.setattr(operator, "_ready", {})


@pytest.mark.parametrize(("fix", "refused", "taken"), CALLS, ids=[fix for fix, *_ in CALLS])
def test_a_fix_of_an_operator_helps(fix: str, refused: Any, taken: Any) -> None:
    with gpu("h100", "sm_90"):
        with pytest.raises(HexcuteError) as caught:
            refused()
        assert fix in (caught.value.fix or ""), str(caught.value)
        taken()
