"""Every operator on a GPU, none forgotten: torch's own checks, one graph when it is compiled with
torch, and a CUDA graph that leaves what the call does."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_kernels import FAMILIES, operator_named

torch = pytest.importorskip("torch")
from registered_checks import opcheck  # noqa: E402
from sample_sizes import sampled  # noqa: E402

pytestmark = pytest.mark.gpu


def whole(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def alike(got: Any, want: Any) -> None:
    """Within the few units by which sums in another order differ: of tensors; else the same."""
    for one, other in zip(whole(got), whole(want), strict=True):
        if not isinstance(one, torch.Tensor):
            assert one == other
            continue
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
        one, other = one.double(), other.double()
        largest = float(other.abs().nan_to_num(posinf=0.0).amax()) if other.numel() else 0.0
        torch.testing.assert_close(one, other, rtol=2**-7, atol=2**-9 * largest, equal_nan=True)


@pytest.mark.parametrize("name", FAMILIES)
def test_opcheck(name: str) -> None:
    opcheck(name, "cuda")


@pytest.mark.parametrize("name", FAMILIES)
def test_compiled_with_torch_in_one_graph(name: str) -> None:
    operator = operator_named(name)
    (args, _), (again, _) = (sampled(name, "cuda") for _ in range(2))

    def step(*given: Any) -> tuple[Any, ...]:
        return tuple(x.float() * 2 for x in whole(operator(*given)))

    torch._dynamo.reset()
    alike(torch.compile(step, fullgraph=True)(*args), step(*again))
    alike(args, again)


@pytest.mark.parametrize("name", FAMILIES)
def test_captured_in_a_cuda_graph(name: str) -> None:
    operator = operator_named(name)
    (args, _), (again, _) = (sampled(name, "cuda") for _ in range(2))
    want = operator(*again)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = operator(*args)
    for result in whole(got):
        result.zero_()
    graph.replay()
    torch.cuda.synchronize()
    alike(got, want)
    alike(args, again)
