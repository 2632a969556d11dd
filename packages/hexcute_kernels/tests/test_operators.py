"""Calls of operators, on a GPU that is not there: choice, errors, plans, registration."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import hexcute_kernels
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm import bmm, linear, matmul
from hexcute_kernels.gemm.configs import MmaConfig, WgmmaConfig

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402


def operands(m: int = 136, n: int = 136, k: int = 192, dtype: Any = None) -> tuple[Any, Any]:
    """Two operands on the GPU that is not there."""
    dtype = dtype or torch.float16
    return on_gpu(torch.zeros(m, k, dtype=dtype)), on_gpu(torch.zeros(n, k, dtype=dtype))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that other tests have made, of other GPUs, are forgotten."""
    for operator in (matmul, bmm, linear):
        monkeypatch.setattr(operator, "_ready", {})


def test_the_gpu_and_the_operands_choose_the_variant() -> None:
    with gpu("h100", "sm_90"):
        assert matmul.plan(operands(2048, 2048, 2048)).variant == "wgmma"
        assert matmul.plan(operands(64, 4096, 4096)).variant == "thin"
        assert matmul.plan(operands(4096, 8, 4096)).variant == "thin"
        assert matmul.plan(operands(), variant="mma").variant == "mma"
        assert matmul.plan(operands(2048, 2048, 2047)).variant == "wgmma_packed"
        assert matmul.plan(operands(30, 20, 10)).variant == "staged"
    with gpu("a100", "sm_80"):
        assert matmul.plan(operands()).variant == "mma"


def test_variant_and_config_overrule_the_choice() -> None:
    mma, wgmma = MmaConfig(64, 64, 64, 6, 4), WgmmaConfig(64, 64, 64, 8, 1)
    with gpu("h100", "sm_90") as launches:
        matmul(*operands(m=64), variant="mma")
        matmul(*operands(), config=mma)
        matmul(*operands(), config=wgmma)
    assert [len(noted.constants) for noted in launches] == [6, 6, 12]
    assert [noted.constants["STAGES"] for noted in launches] == [8 - 2, 6, 8]


def test_where_no_variant_fits_each_ones_reason_is_told() -> None:
    with gpu("a100", "sm_80"), pytest.raises(LaunchError) as caught:
        matmul(*operands(), config=WgmmaConfig(64, 64, 64, 8, 1))
    assert str(caught.value).splitlines() == [
        "matmul: no variant takes this call",
        "  thin: takes a ThinConfig, not WgmmaConfig(BM=64, BN=64, BK=64, STAGES=8, CONSUMERS=1, "
        "GROUP=8, CLUSTER_M=1, CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, SWAP=False)",
        "  wgmma: needs wgmma and tma and clusters, which sm_80 lacks",
        "  thin_packed: takes a ThinConfig, not WgmmaConfig(BM=64, BN=64, BK=64, STAGES=8, "
        "CONSUMERS=1, GROUP=8, CLUSTER_M=1, CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, "
        "SWAP=False)",
        "  wgmma_packed: needs wgmma and tma and clusters, which sm_80 lacks",
        "  dots: takes a DotsConfig, not WgmmaConfig(BM=64, BN=64, BK=64, STAGES=8, CONSUMERS=1, "
        "GROUP=8, CLUSTER_M=1, CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, SWAP=False)",
        "  staged: takes a StagedConfig, not WgmmaConfig(BM=64, BN=64, BK=64, STAGES=8, "
        "CONSUMERS=1, GROUP=8, CLUSTER_M=1, CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, "
        "SWAP=False)",
        "  mma: takes a MmaConfig, not WgmmaConfig(BM=64, BN=64, BK=64, STAGES=8, CONSUMERS=1, "
        "GROUP=8, CLUSTER_M=1, CLUSTER_N=1, PARTS=1, SCHEDULE='tile', EARLY=False, SWAP=False)",
    ]
    with gpu("h100", "sm_90"), pytest.raises(LaunchError, match="wgmma: TMA takes rows of whole"):
        matmul(*operands(n=65), variant="wgmma")
    with gpu("h100", "sm_90"), pytest.raises(LaunchError, match="no variant 'sm_90'"):
        matmul(*operands(), variant="sm_90")


def test_a_repeated_call_is_planned_once_and_others_anew() -> None:
    with gpu("h100", "sm_90") as launches:
        for m in (136, 136, 144):
            c = matmul(*operands(m=m))
            assert c.shape == (m, 136) and c.dtype == torch.float16
        planned = len(matmul._ready)
        matmul(operands()[0], operands(dtype=torch.float16)[1])
        a = on_gpu(torch.zeros(64 * 192 + 1, dtype=torch.float16)[1:].view(64, 192))
        matmul(a, operands()[1], variant="thin_packed")
    # An unaligned operand is copied first.
    assert (planned, len(matmul._ready), len(launches)) == (2, 3, 4 + 2)


def test_warming_up_does_all_but_the_launch() -> None:
    a, b = operands()
    with gpu("h100", "sm_90") as launches:
        matmul.warm_up(a, b)
        linear.warm_up(a, b, activation="relu", variant="mma")
        assert launches == [] and len(matmul._ready) == len(linear._ready) == 1
        matmul(a, b)
        assert len(launches) == len(matmul._ready) == 1


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("m", [136, 48])
def test_operands_are_passed_as_they_lie_in_memory(m: int, turned: tuple[bool, bool]) -> None:
    a, b = (t.t().contiguous().t() if x else t for t, x in zip(operands(m, 144, 160), turned))
    with gpu("h100", "sm_90") as launches:
        matmul(a, b, variant="thin" if m == 48 else "wgmma")
    left, right, out = launches[0].prepared
    addresses = launches[0].addresses[:2]
    if m == 48:  # The weights are the thin product's first operand.
        left, right, addresses = right, left, addresses[::-1]
    assert left.is_contiguous() and right.is_contiguous() and out.shape == (m, 144)
    assert (left.shape == (160, m), right.shape == (160, 144)) == turned
    assert addresses == [a.data_ptr(), b.data_ptr()]


def test_linear_takes_rows_of_any_extents_and_passes_matrices() -> None:
    x = on_gpu(torch.zeros(2, 3, 192, dtype=torch.float16))
    w = on_gpu(torch.zeros(8, 192, dtype=torch.float16))
    bias = on_gpu(torch.zeros(8, dtype=torch.float16))
    with gpu("h100", "sm_90") as launches:
        assert linear(x, w, bias, activation="gelu", variant="thin").shape == (2, 3, 8)
        assert linear(x[0, 0], w, variant="thin").shape == (8,)
        assert linear(x[0], w, activation="relu", variant="thin").shape == (3, 8)
    shapes = [tuple(tuple(t.shape) for t in noted.prepared) for noted in launches]
    assert shapes == [
        ((8, 192), (6, 192), (8,), (6, 8)),
        ((8, 192), (1, 192), (1, 8)),
        ((8, 192), (3, 192), (3, 8)),
    ]
    assert [len(noted.addresses) for noted in launches] == [4, 3, 3]
    assert len({noted.kernel for noted in launches}) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"activation": "tanh"}, "linear has no activation 'tanh'"),
        ({"activation": 3}, "activation is to be str or None, got 3"),
        ({"bias": torch.zeros(9).half()}, r"bias of shape \(8,\), got \(9,\)"),
        ({"bias": torch.zeros(8)}, "one for all tensors; got x float16, bias float32"),
        ({"x": torch.zeros(2, 64, 3).half().mT}, "x of shape .* is not row-major"),
        ({"x": torch.zeros(()).half()}, "got x without an extent"),
        ({"x": torch.zeros(2, 63).half()}, r"linear takes x \(m, k\) and w \(n, k\)"),
    ],
)
def test_what_linear_does_not_take(change: dict[str, Any], words: str) -> None:
    given = {"x": torch.zeros(2, 192).half(), "w": torch.zeros(8, 192).half(), **change}
    with gpu("h100", "sm_90"), pytest.raises(LaunchError, match=words):
        linear(**{k: on_gpu(v) if isinstance(v, torch.Tensor) else v for k, v in given.items()})


def test_bmm_takes_batches_of_either_order() -> None:
    a = on_gpu(torch.zeros(5, 48, 64).half())
    b = on_gpu(torch.zeros(5, 64, 32).half()).mT
    with gpu("h100", "sm_90") as launches:
        assert bmm(a, b).shape == (5, 48, 32)
        with pytest.raises(LaunchError, match=r"bmm takes a \(batch, m, k\) and b"):
            bmm(a[:4], b)
    assert [tuple(t.shape) for t in launches[0].prepared] == [(5, 48, 64), (5, 64, 32), (5, 48, 32)]


def meta() -> Any:
    return torch.empty(64, 64, dtype=torch.float16, device="meta")


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(64, 64, dtype=torch.float16, device="cuda")


def nested() -> Any:
    return torch.nested.nested_tensor([torch.zeros(64, 64).half()] * 2)


def quantized() -> Any:
    return torch.quantize_per_tensor(torch.zeros(64, 64), 1.0, 0, torch.qint8)


WRONG: dict[str, tuple[Any, str]] = {
    "none": (lambda: None, "a is to be a dense torch tensor, got NoneType"),
    "list": (lambda: [1.0], "a is to be a dense torch tensor, got list"),
    "cpu": (lambda: torch.zeros(64, 64).half(), "a is to be on a GPU, got a tensor on cpu"),
    "meta": (meta, "a is to be on a GPU, got a tensor on meta"),
    "fake": (fake, "got a FakeTensor without memory of its own"),
    "sparse": (lambda: torch.zeros(64, 64).half().to_sparse(), "one of layout sparse_coo"),
    "csr": (lambda: torch.zeros(64, 64).half().to_sparse_csr(), "one of layout sparse_csr"),
    "nested": (nested, "got a nested one"),
    "quantized": (quantized, "got a quantized one"),
    "float32": (lambda: torch.zeros(64, 64), "takes float16 or bfloat16, one for all"),
    "vector": (lambda: torch.zeros(64).half(), r"got a of shape \(64,\)"),
    "k": (lambda: torch.zeros(64, 8).half(), r"got \(64, 8\) and \(64, 64\)"),
    "strided": (lambda: torch.zeros(64, 128).half()[:, ::2], "neither row-major nor column"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_operand_is_told(kind: str) -> None:
    make, words = WRONG[kind]
    _, b = operands(n=64, k=64)
    with gpu("h100", "sm_90"):
        matmul(*operands(64, 64, 64))  # The same shapes are known already.
        with pytest.raises(LaunchError, match=words):
            matmul(make(), b)


def test_gradients_are_refused_unless_none_are_recorded() -> None:
    a, b = operands()
    with gpu("h100", "sm_90"):
        matmul(a, b)
        a.requires_grad_()
        with pytest.raises(LaunchError, match="matmul has no gradient, and a requires one"):
            matmul(a, b)
        with torch.no_grad():
            matmul(a, b)


def test_outputs_are_checked() -> None:
    a, b = operands(64, 64, 64)
    with gpu("h100", "sm_90"):
        out = on_gpu(torch.zeros(64, 64, dtype=torch.float16))
        assert matmul(a, b, out=out) is out
        for wrong, words in (
            (out[:32], r"out is to be torch.float16 of shape \(64, 64\)"),
            (out.float(), "got torch.float32"),
            (out.t()[:, :], "out is to be row-major"),
            (a, "out shares memory with a"),
            ((out, out), "out is to be 1 tensors"),
        ):
            with pytest.raises(LaunchError, match=words):
                matmul(a, b, out=wrong)
        both = on_gpu(torch.zeros(2 * 64 * 64, dtype=torch.float16))
        overlapping = both[32 * 64 : 96 * 64].view(64, 64)
        matmul(both[: 64 * 64].view(64, 64), b, out=both[64 * 64 :].view(64, 64))
        with pytest.raises(LaunchError, match="out shares memory with a"):
            matmul(both[: 64 * 64].view(64, 64), b, out=overlapping)


hexcute_kernels.register()


def test_torch_works_out_shapes_of_tensors_without_data() -> None:
    a = torch.empty(5, 64, dtype=torch.bfloat16, device="meta")
    b = torch.empty(64, 7, dtype=torch.bfloat16, device="meta").t()
    c = torch.ops.hexcute.matmul(a, b)
    assert (c.shape, c.dtype, c.device.type) == ((5, 7), torch.bfloat16, "meta")
    torch.ops.hexcute.matmul.out(a, b, out=c)
    with pytest.raises(LaunchError, match=r"out is to be torch.bfloat16 of shape \(5, 7\)"):
        torch.ops.hexcute.matmul.out(a, b, out=c.t())
    with pytest.raises(LaunchError, match="takes float16 or bfloat16"):
        torch.ops.hexcute.matmul(a, b.float())


def test_torchs_operator_tells_what_it_expects_of_tensors_elsewhere() -> None:
    a = torch.zeros(64, 64).half()
    with pytest.raises(LaunchError, match="a is to be on a GPU, got a tensor on cpu"):
        torch.ops.hexcute.matmul(a, a)


@pytest.fixture(scope="module")
def on_the_cpu() -> Any:
    """The operators for tensors of the CPU, so that torch's machinery can run where no GPU is."""
    library = torch.library.Library("hexcute", "IMPL")

    def product(a: Any, b: Any, *, variant: str | None = None) -> Any:
        return a @ b.mT

    def dense(x: Any, w: Any, bias: Any = None, activation: Any = None, *, variant: Any = None):
        made = torch.nn.functional.linear(x, w, bias)
        return getattr(torch.nn.functional, activation)(made) if activation else made

    for name, reference in {"matmul": product, "bmm": product, "linear": dense}.items():

        def into(*args: Any, out: Any, reference: Any = reference, **named: Any) -> None:
            out.copy_(reference(*args, **named))

        library.impl(name, reference, "CPU")
        library.impl(f"{name}.out", into, "CPU")
    yield library
    library._destroy()


ORDERS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("turned", ORDERS)
def test_opcheck(on_the_cpu: Any, turned: tuple[bool, bool]) -> None:
    whole = (torch.randn(16, 24).half(), torch.randn(8, 24).half())
    a, b = (t.t().contiguous().t() if x else t for t, x in zip(whole, turned))
    torch.library.opcheck(torch.ops.hexcute.matmul.default, (a, b))
    torch.library.opcheck(torch.ops.hexcute.matmul.default, (a, b), {"variant": "mma"})
    out = torch.empty(16, 8).half()
    torch.library.opcheck(torch.ops.hexcute.matmul.out, (a, b), {"out": out})


def test_opcheck_of_batches_and_layers(on_the_cpu: Any) -> None:
    a, b = torch.randn(3, 16, 24).half(), torch.randn(3, 24, 8).half().mT
    torch.library.opcheck(torch.ops.hexcute.bmm.default, (a, b))
    w, bias = torch.randn(8, 24).half(), torch.randn(8).half()
    turned = (a[0].t(), w[:, :16].contiguous())
    for args in ((a, w), (a[0], w, bias), (a[0, 0], w, bias, "gelu"), turned):
        torch.library.opcheck(torch.ops.hexcute.linear.default, args)


def test_a_gradient_through_torchs_operator_is_refused(on_the_cpu: Any) -> None:
    x, w = torch.randn(4, 24).half(), torch.randn(8, 24).half().requires_grad_()
    made = torch.ops.hexcute.linear(x, w)
    with pytest.raises(LaunchError, match="linear has no gradient, and an argument requires one"):
        made.sum().backward()
    with torch.no_grad():
        compiled = torch.compile(lambda x: linear(x, w), fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), made)


UNREGISTERED = """
import torch
from hexcute_kernels.gemm import linear

graphs = []
@torch.compile(fullgraph=True, backend=lambda graph, inputs: graphs.append(graph) or graph.forward)
def step(x, w):
    return linear(x, w, activation="relu")

try:
    step(torch.zeros(8, 16).half(), torch.zeros(8, 16).half())
except Exception as error:
    assert "x is to be on a GPU, got a tensor on cpu" in str(error), error
assert "hexcute.linear.default" in [str(node.target) for node in graphs[0].graph.nodes]
"""


def test_the_first_call_of_all_may_be_a_compiled_one() -> None:
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", UNREGISTERED], check=True, env={**os.environ, **paths})


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_function_has_one_graph_with_the_operator(
    on_the_cpu: Any, dynamic: bool
) -> None:
    graphs = []

    def keep(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def step(a: Any, b: Any, out: Any) -> Any:
        matmul(a, b, out=out)
        return matmul(a + 1, b, variant="mma") + out + linear(a, b, activation="relu")

    torch._dynamo.reset()
    a, b, out = torch.randn(16, 24).half(), torch.randn(8, 24).half(), torch.empty(16, 8).half()
    compiled = torch.compile(step, fullgraph=True, backend=keep, dynamic=dynamic)
    want = (a @ b.t()) + ((a + 1) @ b.t()) + torch.relu(a @ b.t())
    torch.testing.assert_close(compiled(a, b, out), want)
    called = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert {f"hexcute.{n}" for n in ("matmul.default", "matmul.out", "linear.default")} <= {*called}
    torch._dynamo.reset()
    traced = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    torch.testing.assert_close(traced(a, b, out), want)
