"""Grouped products, every lane of every block, against float64: ragged and empty groups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm import grouped_matmul
from hexcute_kernels.gemm.grouped import grouped_gemm
from hexcute_kernels.gemm.grouped_operator import GROUPED
from hexcute_kernels.parts.groups import most_tiles, place
from hexcute_kernels.tables import constants

TYPES: dict[hx.DType, Any] = {hx.bf16: ml_dtypes.bfloat16, hx.f16: np.float16}
HALVES: dict[str, Any] = {"BM": 128, "BN": 64, "STAGES": 3, "PARTS": 2}
ALONE: dict[str, Any] = {"BM": 64, "BN": 64, "CONSUMERS": 1, "STAGES": 3}


@pytest.mark.parametrize(
    ("bounds", "m", "n", "k", "config", "dtype"),
    [
        ([2, 7, 7, 150, 197], 200, 72, 136, HALVES, hx.bf16),
        ([0, 70, 70, 131], 131, 72, 64, ALONE, hx.f16),
        ([0, 0], 12, 32, 64, ALONE, hx.f16),
        ([0, 90, 90, 301], 301, 200, 136, {**HALVES, "CLUSTER_N": 2}, hx.f16),
        # Ten tiles and more a block, some of which have rows for one group alone.
        ([0, 70, 70, 331, 340], 345, 200, 72, HALVES, hx.f16),
        ([0, 128, 450], 450, 136, 40, ALONE, hx.bf16),
    ],
    ids=str,
)
def test_against_float64(
    bounds: list[int], m: int, n: int, k: int, config: dict[str, Any], dtype: hx.DType
) -> None:
    """Rows of no expert stay as they were; halves of a tile without rows are passed over."""
    rng = np.random.default_rng(0)
    experts, high = len(bounds) - 1, config["BM"]
    a, b = (rng.normal(size=s).astype(TYPES[dtype]) for s in ((m, k), (experts, n, k)))
    c = np.full((m, n), np.nan, TYPES[dtype])
    table = np.full((4, most_tiles(m, experts, high, True)), -7, np.int32)
    used = np.full(2, -7, np.int32)
    ends = np.array(bounds, np.int32)
    place(experts, False, True).simulate(ends, table, used, m, target="sm_90", BM=high)
    # In three orders of warps: in the third one falls so far behind that it misses a slot's round.
    kernel = grouped_gemm(dtype)
    report = kernel.simulate(a, b, table, used, c, target="sm_90", schedules=3, **config)
    assert not report.findings
    want = np.full(c.shape, np.nan)
    for expert, (first, last) in enumerate(pairwise(bounds)):
        want[first:last] = a[first:last].astype(float) @ b[expert].astype(float).T
    got = c.astype(float)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=2.0**-8, atol=0.05)


@pytest.mark.parametrize("config", list(GROUPED), ids=str)
def test_the_machine_code(config: Any) -> None:
    """Nothing spills, and whole tiles leave by TMA."""
    compiled = grouped_gemm(hx.f16).compile("sm_90", **constants(config))
    lines = compiled.explain(rejected=0).splitlines()
    assert any("copy sc -> view_c: tma.store" in line for line in lines)
    assert not compiled.built.local_memory


def test_an_operator() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float16) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    a, b, bounds = zeros(400, 64), zeros(4, 32, 64), zeros(5, dtype=torch.int32)
    with gpu("h200", "sm_90") as launches:
        assert grouped_matmul(a, b, bounds).shape == (400, 32)
        assert [noted.kernel.__name__ for noted in launches] == ["place_tiles", "gemm"]
        assert grouped_matmul(a[:0], b, bounds).shape == (0, 32)
        assert [grouped_matmul.plan((zeros(m, 64), b, bounds)).config.BM for m in (256, 257)] == [
            64, 128,
        ]  # fmt: skip
        for args, words in (
            ((a, b, bounds[:4]), r"bounds \(4,\)"),
            ((a, b.float(), bounds), "float32"),
            ((a, b, bounds.long()), "takes int32"),
            ((zeros(8, 60), zeros(4, 32, 60), bounds), "multiples of 8"),
            ((a, b[0], bounds), "experts, n, k"),
        ):
            with pytest.raises(LaunchError, match=words):
                grouped_matmul(*args)
