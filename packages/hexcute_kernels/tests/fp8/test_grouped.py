"""Grouped FP8 products, every lane of every block, against float64: ragged and empty groups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8 import fp8_grouped_matmul
from hexcute_kernels.fp8.blockwise import blockwise_gemm
from hexcute_kernels.fp8.configs import GROUPED
from hexcute_kernels.parts.groups import most_tiles, place
from hexcute_kernels.tables import constants

E4M3 = ml_dtypes.float8_e4m3fn
TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
FEW: dict[str, Any] = {"BM": 64, "BN": 64, "CONSUMERS": 1, "STAGES": 4}
SMALL: dict[str, Any] = {"BM": 64, "BN": 32, "CONSUMERS": 1, "STAGES": 3}
LATE: dict[str, Any] = {
    "BM": 256, "BN": 64, "PORTIONS": 2, "STAGES": 3, "CLUSTER": 2, "LATE": True,
}  # fmt: skip
WIDE: dict[str, Any] = {"STAGES": 3}
SECTIONS: dict[str, Any] = {"BN": 192, "STAGES": 3}
COLUMNS: dict[str, Any] = {"BN": 256, "STAGES": 2}


def tables(bounds: list[int], counted: bool, each: int, high: int) -> tuple[Any, Any]:
    """What the kernel that places tiles makes of bounds."""
    experts = len(bounds) - (not counted)
    tiles = experts * -(-each // high) if counted else most_tiles(each, experts, high)
    table, used = np.full((4, tiles), -7, np.int32), np.full(1, -7, np.int32)
    given = np.array(bounds, np.int32)
    place(experts, counted).simulate(given, table, used, each, target="sm_90", BM=high)
    return table, used


def spans(bounds: list[int], counted: bool, each: int) -> list[tuple[int, int]]:
    """The rows of each expert, of its own matrix where `counted`."""
    if counted:
        return [(0, min(count, each)) for count in bounds]
    return [(a, min(b, each)) for a, b in pairwise(bounds)]


@pytest.mark.parametrize("high", [64, 128])
@pytest.mark.parametrize(
    ("bounds", "counted", "each"),
    [
        ([0, 5, 5, 200, 210, 512], False, 512),
        ([3, 3, 3], False, 10),
        ([1, 2, 4, 7, 11, 300], False, 290),
        ([0, *range(2, 70)], False, 69),
        ([5, 0, 128, 130], True, 256),
        ([0, 0], True, 4),
        ([300, 2], True, 200),
    ],
    ids=str,
)
def test_tiles_cover_each_row_of_an_expert_once(
    bounds: list[int], counted: bool, each: int, high: int
) -> None:
    """Bounds beyond the last row are cut, and there is always room for all tiles."""
    table, used = tables(bounds, counted, each, high)
    assert 0 <= used[0] <= table.shape[1]
    ours = spans(bounds, counted, each)
    seen = np.zeros((len(ours), each), int)
    for expert, fourth, first, last in table[:, : used[0]].T:
        assert (first, last) == ours[expert]
        rows = range(max(first, 4 * fourth), min(last, 4 * fourth + high))
        assert len(rows) > 0
        seen[expert, rows.start : rows.stop] += 1
    for expert, (first, last) in enumerate(ours):
        assert (seen[expert, first:last] == 1).all() and seen[expert].sum() == max(last - first, 0)


@pytest.mark.parametrize(
    ("bounds", "counted", "each", "n", "k", "config", "major", "out"),
    [
        ([2, 7, 7, 150, 197], False, 200, 144, 272, FEW, "m", "bf16"),
        ([0, 0, 70, 70, 131, 131], False, 131, 48, 144, SMALL, "m", "f16"),
        ([0, 300, 556], False, 556, 64, 128, LATE, "k", "bf16"),
        ([0, 3, 130, 600], False, 600, 200, 256, LATE, "m", "bf16"),
        ([0, 128, 256, 384], False, 384, 128, 256, WIDE, "m", "f32"),
        ([5, 0, 140, 129], True, 140, 144, 272, WIDE, "k", "f32"),
        ([0, 6, 70], False, 70, 400, 144, SECTIONS, "m", "bf16"),
        ([0, 6, 70], False, 70, 400, 144, COLUMNS, "m", "bf16"),
        ([64, 1, 0], True, 64, 80, 400, FEW, "m", "bf16"),
        ([0, 0], False, 12, 32, 128, SMALL, "m", "bf16"),
    ],
    ids=str,
)
def test_against_float64(
    bounds: list[int], counted: bool, each: int, n: int, k: int, config: dict[str, Any],
    major: str, out: str,
) -> None:  # fmt: skip
    """Rows of no expert stay as they were."""
    rng = np.random.default_rng(0)
    experts, groups, columns = len(bounds) - (not counted), -(-k // 128), -(-n // 128)
    first = (experts,) if counted else ()
    a, b = (rng.normal(size=s).astype(E4M3) for s in ((*first, each, k), (experts, n, k)))
    sa = rng.uniform(0.5, 2, (*first, each, groups)).astype(np.float32)
    sb = rng.uniform(0.5, 2, (experts, columns, groups)).astype(np.float32)
    c = np.full((*first, each, n), np.nan, TYPES[out])
    scales = np.ascontiguousarray(sa.swapaxes(-1, -2)) if major == "m" else sa
    found = tables(bounds, counted, each, config.get("BM", 128))
    kernel = blockwise_gemm(getattr(hx, out), major, grouped_by="matrices" if counted else "rows")
    kernel.simulate(a, b, scales, sb, *found, c, target="sm_90", **config)
    left = a.astype(np.float64) * np.repeat(sa, 128, -1)[..., :k]
    square = np.repeat(np.repeat(sb, 128, 1)[:, :n], 128, 2)[:, :, :k]
    right = b.astype(np.float64) * square
    want = np.full(c.shape, np.nan)
    for expert, (start, end) in enumerate(spans(bounds, counted, each)):
        at = (expert, slice(start, end)) if counted else slice(start, end)
        want[at] = left[at] @ right[expert].T
    bits = {"bf16": 8, "f16": 11, "f32": 14}[out]
    scale = 1 + np.sqrt(np.nanmean(want**2)) if (want == want).any() else 1.0
    got = c.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=2.0**-bits, atol=scale * 2.0**-bits)


@pytest.mark.parametrize("config", list(GROUPED), ids=str)
@pytest.mark.parametrize("counted", [False, True])
def test_the_machine_code(config: Any, counted: bool) -> None:
    """Nothing spills, whole tiles leave by TMA, and scales of rows come by it."""
    compiled = blockwise_gemm(hx.bf16, grouped_by="matrices" if counted else "rows").compile(
        "sm_90", **constants(config)
    )
    lines = compiled.explain(rejected=0).splitlines()
    for copy in ("copy view_sa -> ", "copy view_a -> ", "copy view_b -> ", "copy s_c -> view_c:"):
        assert all("tma." in line for line in lines if copy in line), copy
    assert not compiled.built.local_memory


def test_an_operator_of_both_forms() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    eight, whole = torch.float8_e4m3fn, torch.int32
    b, sb = zeros(4, 32, 256, dtype=eight), zeros(4, 1, 2)
    a, sa, offsets = zeros(40, 256, dtype=eight), zeros(40, 2), zeros(5, dtype=whole)
    many, scales, counts = zeros(4, 40, 256, dtype=eight), zeros(4, 40, 2), zeros(4, dtype=whole)
    with gpu("h200", "sm_90") as launches:
        assert fp8_grouped_matmul(a, b, sa, sb, offsets).shape == (40, 32)
        turned = zeros(4, 2, 40).mT
        c = fp8_grouped_matmul(many, b, turned, sb, counts, out_dtype="float32")
        assert c.shape == (4, 40, 32) and c.dtype == torch.float32
        names = [noted.kernel.__name__ for noted in launches]
        assert names == ["place_tiles", "fp8_gemm"] * 2
        many_tiles = [noted.prepared[1].shape[1] for noted in launches[::2]]
        assert most_tiles(40, 4, 64) == 4 and many_tiles == [4, 4]
        assert fp8_grouped_matmul(a[:0], b, sa[:0], sb, offsets).shape == (0, 32)
        plans = [
            fp8_grouped_matmul.plan((many, b, scales, sb, counts, "bfloat16", expected)).config.BM
            for expected in (1, 100, 5000)
        ]
        assert plans == [64, 128, 256]
        for args, words in (
            ((a, b, sa, sb, counts), r"bounds \(4,\)"),
            ((many, b, scales, sb, offsets), r"bounds \(5,\)"),
            ((a, b, scales, sb, offsets), "got a_scale of shape"),
            ((a, b, sa, sb, offsets.long()), "takes int32"),
            ((a, b, sa, sb, offsets, "int8"), "out_dtype is bfloat16"),
            ((a, b, sa, sb, offsets, "float16", -1), "expected is a number of rows"),
        ):
            with pytest.raises(LaunchError, match=words):
                fp8_grouped_matmul(*args)
