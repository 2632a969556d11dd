"""The blockwise FP8 kernel, every lane of every block, and what its operator says of a call."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8 import fp8_blockwise_matmul, fp8_rowwise_matmul
from hexcute_kernels.fp8.blockwise import blockwise_gemm
from hexcute_kernels.fp8.configs import (
    BLOCKWISE,
    THIN_BLOCKWISE,
    BlockwiseConfig,
    ThinBlockwiseConfig,
)
from hexcute_kernels.fp8.operators import Blockwise, thin_fits
from hexcute_kernels.fp8.thin import thin_blockwise_gemm
from hexcute_kernels.tables import constants

E4M3 = ml_dtypes.float8_e4m3fn
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {},
    "one group": {"BM": 64, "BN": 32, "CONSUMERS": 1, "STAGES": 8},
    "portions": {"BM": 256, "BN": 64, "PORTIONS": 2, "STAGES": 3},
    "three groups": {"BM": 192, "CONSUMERS": 3, "STAGES": 4},
    "late": {"BM": 256, "PORTIONS": 2, "STAGES": 3, "LATE": True, "CLUSTER": 2},
    "shared": {"BM": 64, "CONSUMERS": 2, "STAGES": 4, "CLUSTER": 2},
    "columns": {"BM": 64, "BN": 256, "CONSUMERS": 1, "STAGES": 2, "LATE": True},
}


def reference(a: Any, b: Any, sa: Any, sb: Any) -> np.ndarray:
    """The product in float64; sa (m, groups), sb (columns, groups)."""
    k, n = a.shape[1], b.shape[0]
    wide = np.repeat(sa, 128, 1)[:, :k].astype(np.float64)
    square = np.repeat(np.repeat(sb, 128, 0)[:n], 128, 1)[:, :k].astype(np.float64)
    return (a.astype(np.float64) * wide) @ (b.astype(np.float64) * square).T


@pytest.mark.parametrize(
    ("m", "n", "k", "config", "major", "out"),
    [
        (132, 192, 384, "default", "m", hx.bf16),
        (64, 64, 272, "one group", "m", hx.f16),
        (300, 128, 256, "portions", "m", hx.f32),
        (200, 144, 528, "three groups", "m", hx.bf16),
        (4, 16, 16, "default", "m", hx.bf16),
        (300, 272, 528, "late", "m", hx.bf16),
        (100, 400, 16, "late", "m", hx.f16),
        (20, 400, 272, "columns", "m", hx.bf16),
        (100, 272, 300 - 12, "shared", "m", hx.bf16),
        (100, 80, 300 - 12, "one group", "k", hx.bf16),
    ],
    ids=str,
)
def test_against_float64(m: int, n: int, k: int, config: str, major: str, out: hx.DType) -> None:
    check(blockwise_gemm, m, n, k, CONFIGS[config], major, out)


def check(
    make: Any, m: int, n: int, k: int, config: dict[str, Any], major: str, out: hx.DType
) -> None:
    """Simulates a product on random numbers and compares it with float64."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(rows, k)).astype(E4M3) for rows in (m, n))
    groups, columns = -(-k // 128), -(-n // 128)
    sa = rng.uniform(0.5, 2, (m, groups)).astype(np.float32)
    sb = rng.uniform(0.5, 2, (columns, groups)).astype(np.float32)
    kinds: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
    c = np.full((m, n), np.nan, kinds[out.name])
    scales = np.ascontiguousarray(sa.T) if major == "m" else sa
    make(out, major).simulate(a, b, scales, sb, c, target="sm_90", **config)
    bits = {"bf16": 8, "f16": 11, "f32": 14}[out.name]
    want = reference(a, b, sa, sb)
    scale = np.sqrt(np.mean(want**2))
    np.testing.assert_allclose(c.astype(np.float64), want, rtol=2.0**-bits, atol=scale * 2.0**-bits)


@pytest.mark.parametrize(
    ("m", "n", "k", "config", "major", "out"),
    [
        (20, 192, 1024, {"BM": 32, "BN": 64, "STAGES": 3, "CONSUMERS": 1}, "m", hx.f16),
        (36, 144, 528, {"BM": 64, "STAGES": 2, "SPLITS": 4, "EARLY": True}, "m", hx.f16),
        (8, 80, 272, {"BM": 8, "BN": 64, "STAGES": 2, "CONSUMERS": 1, "SPLITS": 4}, "m", hx.f32),
        (4, 16, 16, {"SPLITS": 2, "STAGES": 2}, "m", hx.bf16),
        (12, 96, 300 - 12, {"BM": 16, "STAGES": 2}, "k", hx.bf16),
        (1, 128, 1024, {"BM": 8, "BN": 64, "STAGES": 3, "CONSUMERS": 1, "SPLITS": 2}, "k", hx.bf16),
    ],
    ids=str,
)
def test_few_rows_against_float64(
    m: int, n: int, k: int, config: dict[str, Any], major: str, out: hx.DType
) -> None:
    check(thin_blockwise_gemm, m, n, k, config, major, out)


@pytest.mark.parametrize("config", list(THIN_BLOCKWISE), ids=str)
def test_configurations_for_few_rows_compile_without_local_memory(
    config: ThinBlockwiseConfig,
) -> None:
    """By TMA too come the scales of fewer rows than a box has, and of a single one."""
    compiled = thin_blockwise_gemm(hx.f32).compile("sm_90", constants=constants(config))
    assert not compiled.built.local_memory
    for major in ("m", "k"):
        compiled = thin_blockwise_gemm(hx.f32, major).compile("sm_90", constants=constants(config))
        assert "copy gs -> s_s: tma.load" in compiled.explain(rejected=0)


@pytest.mark.parametrize("config", list(BLOCKWISE), ids=str)
def test_configurations_compile_without_local_memory(config: BlockwiseConfig) -> None:
    """Two portions' sums and one temporary fill a thread's registers."""
    compiled = blockwise_gemm(hx.bf16).compile("sm_90", constants=constants(config))
    assert not compiled.built.local_memory


def test_promotion_adds_in_float32() -> None:
    """64 fused multiply-adds a thread for each block of k, by two scales; where they are LATE, once
    more for the last block. There is a loop for each of the two groups."""
    for late in (False, True):
        compiled = blockwise_gemm(hx.bf16).compile("sm_90", LATE=late)
        assert not compiled.built.local_memory
        sass = compiled.sass()
        assert sass.count("FFMA") == 2 * 64 * (1 + late) and "QGMMA.64x128x32.F32.E4M3" in sass


@pytest.mark.parametrize(
    ("m", "n", "k", "config", "out"),
    [
        (132, 192, 384, "default", hx.bf16),
        (64, 80, 272, "one group", hx.f16),
        (300, 128, 256, "portions", hx.f32),
        (300, 144, 144, "late", hx.bf16),
        (1, 16, 16, "default", hx.bf16),
    ],
    ids=str,
)
def test_a_scale_for_each_row(m: int, n: int, k: int, config: str, out: hx.DType) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(rows, k)).astype(E4M3) for rows in (m, n))
    sa, sb = (rng.uniform(0.5, 2, rows).astype(np.float32) for rows in (m, n))
    kinds: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
    c = np.full((m, n), np.nan, kinds[out.name])
    kernel = blockwise_gemm(out, by_rows=True)
    kernel.simulate(a, b, sa, sb, c, target="sm_90", **CONFIGS[config])
    bits = {"bf16": 8, "f16": 11, "f32": 14}[out.name]
    want = (a.astype(np.float64) @ b.astype(np.float64).T) * sa[:, None] * sb
    scale = np.sqrt(np.mean(want**2))
    np.testing.assert_allclose(c.astype(np.float64), want, rtol=2.0**-bits, atol=scale * 2.0**-bits)


def test_what_cannot_be_is_told() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    eight = torch.float8_e4m3fn
    a, b = zeros(8, 256, dtype=eight), zeros(32, 256, dtype=eight)
    sa, sb = zeros(8, 2), zeros(1, 2)
    with gpu("h200", "sm_90") as launches:
        assert fp8_blockwise_matmul(a, b, sa, sb).dtype == torch.bfloat16
        fp8_blockwise_matmul(a, b, zeros(2, 8).t(), sb, "float32")
        assert [noted.prepared[2].shape for noted in launches] == [(8, 2), (2, 8)]
        for args, words in (
            ((a, b, sa, zeros(1, 3)), r"b_scale \(1, 3\)"),
            ((a, b.float(), sa, sb), "takes float8_e4m3fn"),
            ((a, b, sa, sb, "int8"), "out_dtype is bfloat16, float16, float32"),
            ((a[:, :250].contiguous(), b[:, :250].contiguous(), sa, sb), "multiples of 16"),
        ):
            with pytest.raises(LaunchError, match=words):
                fp8_blockwise_matmul(*args)
        rows = zeros(8, 1), zeros(32, 1)
        assert fp8_rowwise_matmul(a, b, *rows, "float16").dtype == torch.float16
        assert [t.shape for t in launches[-1].prepared[2:4]] == [(8,), (32,)]
        for args, words in (
            ((a, b, *rows[::-1]), r"a_scale \(32, 1\) and b_scale \(8, 1\)"),
            ((a, b, *rows, "int8"), "out_dtype is bfloat16, float16, float32"),
        ):
            with pytest.raises(LaunchError, match=words):
                fp8_rowwise_matmul(*args)
    with gpu("a100", "sm_80"), pytest.raises(LaunchError, match="wgmma: needs wgmma and tma"):
        fp8_blockwise_matmul.plan((a, b, sa, sb, "bfloat16"))


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "config"),
    [
        (1, 51200, 5120, ThinBlockwiseConfig(8, 128, 4, 2, 2)),
        (8, 10240, 5120, ThinBlockwiseConfig(8, 64, 11, 1)),
        (16, 5120, 25600, ThinBlockwiseConfig(16, 64, 10, 1, 2)),
        (17, 5120, 8192, ThinBlockwiseConfig(32, 64, 8, 1, 2)),
        (64, 10240, 5120, ThinBlockwiseConfig(64, 64, 5, 1)),
        (64, 5120, 8192, ThinBlockwiseConfig(64, 64, 5, 1, 2)),
        (64, 24576, 1536, BlockwiseConfig(64, 192, 6, 1)),
        (64, 51200, 5120, BlockwiseConfig(64, 128, 8, 2)),
    ],
    ids=str,
)
def test_layers_of_few_rows_fill_the_gpu_at_once(
    rows: int, columns: int, depth: int, config: Any
) -> None:
    """Blocks that share a multiprocessor leave room for each other, in pairs at least."""
    problem = Blockwise(m=rows, n=columns, k=depth, out=hx.bf16, scale_major="m")
    table = THIN_BLOCKWISE if thin_fits(problem) is None else BLOCKWISE
    assert table.choose("h200", problem) == config
    if isinstance(config, ThinBlockwiseConfig):
        compiled = thin_blockwise_gemm(hx.bf16).compile("sm_90", constants=constants(config))
        assert 2 * (compiled.built.shared_bytes + 1024) <= 228 * 1024
