"""The decoding kernels, every lane of every block, against the definition."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from attention_reference import attention

import hexcute_core as hx
from hexcute_core.errors import MissingDependency
from hexcute_kernels.attention.decode_configs import FEW, MANY, CombineConfig, SplitConfig
from hexcute_kernels.attention.decoding import combine, decoding_attention, workspace_width
from hexcute_kernels.attention.decoding_operators import Decoding
from hexcute_kernels.tables import constants


class Sizes(NamedTuple):
    b: int
    sq: int
    h: int
    hk: int
    sk: int
    d: int


SMALL, TWO = SplitConfig(16, 3, 8), SplitConfig(32, 2, 12)
CASES: tuple[tuple[Sizes, SplitConfig, list[int] | None], ...] = (
    (Sizes(1, 1, 2, 2, 100, 64), SMALL, None),
    (Sizes(1, 1, 1, 1, 70, 128), SplitConfig(32, 4, 1), None),
    (Sizes(2, 1, 2, 2, 90, 64), SplitConfig(32, 3, 1), [90, 33]),
    (Sizes(4, 1, 8, 2, 100, 64), TWO, [100, 0, 1, 47]),
    (Sizes(1, 3, 6, 2, 100, 64), TWO, None),
    (Sizes(3, 8, 4, 1, 75, 72), TWO, [75, 3, 64]),
    (Sizes(1, 5, 40, 2, 90, 40), TWO, None),
    (Sizes(2, 2, 71, 1, 60, 64), SplitConfig(16, 2, 12), [60, 17]),
    (Sizes(1, 8, 2, 2, 5, 64), SMALL, None),
    (Sizes(1, 1, 1, 1, 300, 64), SplitConfig(16, 2, 19), None),
    (Sizes(2, 1, 4, 2, 200, 256), SplitConfig(16, 3, 16), [-3, 500]),
)
NUMPY: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
TYPED = [(hx.f16, *case) for case in CASES] + [(hx.bf16, *CASES[3])]


@pytest.mark.parametrize("how", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize(("dtype", "sizes", "config", "lengths"), TYPED, ids=str)
def test_against_the_definition(
    dtype: hx.DType,
    sizes: Sizes,
    config: SplitConfig,
    lengths: list[int] | None,
    how: CombineConfig,
) -> None:
    b, sq, h, hk, sk, d = sizes
    rng, scale = np.random.default_rng(0), 0.3
    p = Decoding(
        b=b, sq=sq, sk=sk, h=h, hk=hk, d=d, dtype=dtype, scale=scale, ragged=lengths is not None
    )

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32).astype(NUMPY[dtype.name])

    q, k, v = normal(b, sq, h, d), normal(b, sk, hk, d), normal(b, sk, hk, d)
    o = np.full((b, sq, h, d), np.nan, q.dtype)
    used = [min(max(n, 0), sk) for n in (lengths or [sk] * b)]
    for z, n in enumerate(used):
        # What the cache holds behind a sequence is not looked at.
        k[z, n:] = v[z, n:] = np.nan
    splits, share, heads = config.splits(p), config.share(p), (b, sq, hk, p.g, d)
    kernel = decoding_attention(
        dtype, d, *p.tile, whole=p.whole, ragged=p.ragged, alone=splits == 1
    )
    given: list[Any] = [q.reshape(heads), k, v]
    if lengths is not None:
        given.append(np.array(lengths, np.int32))
    work = np.full((splits, *heads[:-1], workspace_width(d)), np.nan, np.float32)
    result = o.reshape(heads) if splits == 1 else work
    kernel.simulate(*given, result, scale, share, target="sm_80", **constants(config.kernel))
    if splits > 1:
        rows = b * sq * h
        flat = work.reshape(splits, rows, -1), o.reshape(rows, d)
        combine(dtype, d).simulate(*flat, scale, target="sm_80", **constants(how))
    bits = 11 if dtype is hx.f16 else 8
    for z, n in enumerate(used):
        want, _ = attention(q[z : z + 1], k[z : z + 1, :n], v[z : z + 1, :n], scale, right=0)
        got = o[z : z + 1].astype(np.float64)
        np.testing.assert_allclose(got, want, atol=3 * 2.0**-bits, rtol=2.0**-bits)


def problem(sk: int, b: int = 1, h: int = 32, hk: int = 32, sq: int = 1) -> Decoding:
    return Decoding(
        b=b, sq=sq, sk=sk, h=h, hk=hk, d=128, dtype=hx.f16, scale=1.0, ragged=False
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "tile", "splits"),
    [
        ({"sk": 1024}, (1, 16), 16),
        ({"sk": 65536}, (1, 16), 16),
        ({"sk": 1}, (1, 16), 1),
        ({"sk": 0}, (1, 16), 1),
        ({"sk": 1000, "b": 64}, (1, 16), 1),
        ({"sk": 4096, "hk": 4}, (8, 2), 128),
        ({"sk": 65536, "hk": 1, "sq": 8}, (32, 2), 128),
        ({"sk": 65536, "h": 71, "hk": 1}, (64, 1), 256),
        ({"sk": 65536, "h": 12, "hk": 4, "sq": 3}, (4, 4), 128),
    ],
)
def test_tiles_and_splits(given: dict[str, int], tile: tuple[int, int], splits: int) -> None:
    p, config = problem(**given), SplitConfig(32, 3, 528)
    assert p.tile == tile and config.splits(p) == splits
    # Together they have all keys, and none is without.
    covered = config.share(p) * config.BN
    assert covered * splits >= p.sk and (covered * (splits - 1) < p.sk or splits == 1)


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("high", [(1, 16), (64, 1)], ids=str)
def test_the_machine_code_moves_16_bytes_and_spills_nothing(d: int, high: tuple[int, int]) -> None:
    kernel = decoding_attention(hx.f16, d, *high, ragged=True)
    try:
        text = kernel.compile("sm_90", BN=32 if d <= 128 else 16, STAGES=3).sass()
    except MissingDependency as error:
        pytest.skip(str(error))
    names = set(re.findall(r"LDGSTS[.\w]*|LDSM[.\w]*|LDL[.\w]*|STL[.\w]*", text))
    assert {name for name in names if not name.startswith("LDSM.16.M")} == {
        "LDGSTS.E.BYPASS.LTC128B.128"
    }
