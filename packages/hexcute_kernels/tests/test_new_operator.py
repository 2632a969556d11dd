"""What a new operator takes: two files in a folder of its own, and a line with its name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hexcute_kernels
from hexcute_core.errors import LaunchError
from hexcute_kernels import FAMILIES, operator_named
from hexcute_kernels.gpus import gpu_named

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402

DECLARED = '''"""halves(x): half of each row's softmax, a new operator."""

from __future__ import annotations

from dataclasses import dataclass

import hexcute_core as hx
from hexcute_kernels.norms.rows import softmax_kernel
from hexcute_kernels.operator import Launch, Operator, Problem, Variant
from hexcute_kernels.tensors import Output, check_contiguous, dtype_of
from hexcute_kernels.throwaway.configs import HALVES


@dataclass(frozen=True, kw_only=True)
class Rows(Problem):
    shape: tuple[int, ...]
    dtype: hx.DType


def describe(x):
    check_contiguous("halves", x=x)
    return Rows(shape=tuple(x.shape), dtype=dtype_of("halves", (hx.f16, hx.bf16), x=x))


halves = Operator(
    "halves(Tensor x) -> Tensor",
    describe=describe,
    outputs=lambda p: Output(p.shape, p.dtype),
    variants=(
        Variant(
            "held", ("mma.sync",), HALVES,
            lambda p, config: Launch(softmax_kernel(p.dtype, p.shape[1], True), config,
                                     ("x", "out")),
            lambda p: None if p.shape[1] % 8 == 0 else "takes rows of whole 16 bytes",
        ),
    ),
    doc="Half of the softmax.",
)
'''
CONFIGS = '''"""Its configurations."""

from hexcute_kernels.norms.configs import RowConfig
from hexcute_kernels.tables import Row, Table

HALVES = Table({"a100": (Row(RowConfig(1, 128)),)}, ())
'''


@pytest.fixture(autouse=True)
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "throwaway"
    folder.mkdir()
    (folder / "__init__.py").write_text(DECLARED)
    (folder / "configs.py").write_text(CONFIGS)
    monkeypatch.setattr(hexcute_kernels, "__path__", [*hexcute_kernels.__path__, str(tmp_path)])
    monkeypatch.setitem(FAMILIES, "halves", "throwaway")
    yield
    for name in [n for n in sys.modules if n.startswith("hexcute_kernels.throwaway")]:
        del sys.modules[name]


def test_it_has_the_call_the_errors_and_the_choice() -> None:
    halves = operator_named("halves")
    x = on_gpu(torch.zeros(6, 256).half())
    with gpu("h200", "sm_90") as launched:
        assert halves(x).shape == (6, 256)
        assert len(launched) == 1 and launched[0].constants["THREADS"] == 128
        with pytest.raises(LaunchError, match="held: takes rows of whole 16 bytes"):
            halves(on_gpu(torch.zeros(6, 7).half()))
        with pytest.raises(LaunchError, match="halves: x is to be a dense torch tensor, got int"):
            halves(3)
    assert halves.plan_on(gpu_named("l40s"), (x,)).variant == "held"


def test_torch_knows_it_with_fake_tensors_and_in_one_graph() -> None:
    operator, graphs = operator_named("halves"), []

    def keep(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, backend=keep)
    def step(x: Any) -> Any:
        return operator(x) * 2

    with pytest.raises(LaunchError, match="x is to be on a GPU"):
        step(torch.zeros(6, 256).half())
    assert "torch.ops.hexcute.halves" in graphs[0].code
    made = torch.ops.hexcute.halves(torch.empty(3, 64, dtype=torch.bfloat16, device="meta"))
    assert made.shape == (3, 64) and made.dtype == torch.bfloat16
