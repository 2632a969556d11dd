"""The decoding kernels, every lane of every block, against the definition."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from attention_reference import attention

import hexcute_core as hx
from hexcute_core.errors import MissingDependency
from hexcute_kernels.attention.decode_configs import (
    LATENT,
    SPLIT,
    CombineConfig,
    SplitConfig,
    combining,
)
from hexcute_kernels.attention.decoding import (
    ROWS,
    Kind,
    combine,
    decoding_attention,
    workspace_width,
)
from hexcute_kernels.attention.decoding_operators import UNBOUNDED, Decoding
from hexcute_kernels.attention.latent import HIGH, latent_attention
from hexcute_kernels.tables import constants


class Sizes(NamedTuple):
    b: int
    sq: int
    h: int
    hk: int
    sk: int
    d: int


@dataclass(frozen=True)
class Case:
    """A problem; the cache of a paged one holds its pages in any order."""

    sizes: Sizes
    config: SplitConfig
    lengths: tuple[int, ...] | None = None
    page: int | None = None
    left: int | None = None
    cap: float = 0.0
    dtype: hx.DType = hx.f16
    cached: hx.DType | None = None
    target: str = "sm_80"
    values: int = 0
    large: bool = False
    in_rows: bool = False


SMALL, TWO = SplitConfig(16, 3, 8), SplitConfig(32, 2, 12)
SIXTEEN = CombineConfig(16, 1, 1)
FOUR = Case(Sizes(4, 1, 8, 2, 128, 64), TWO, (100, 0, 1, 47))
LARGE: tuple[dict[str, Any], ...] = (
    {"sizes": Sizes(2, 1, 70, 1, 128, 128), "config": SplitConfig(64, 2, 6, PAIRED=True),
     "values": 64, "lengths": (126, 33), "page": 64},
    {"sizes": Sizes(1, 1, 20, 1, 150, 128), "config": SplitConfig(64, 2, 1), "values": 128},
    {"sizes": Sizes(3, 5, 16, 1, 48, 128), "config": SplitConfig(64, 2, 5), "values": 64,
     "lengths": (48, 3, 0), "page": 16, "dtype": hx.bf16},
    {"sizes": Sizes(1, 1, 64, 1, 70, 128), "config": SplitConfig(64, 3, 3), "values": 64,
     "lengths": (69,), "page": 1},
    # Splits of a long sequence, and an empty and a short one, that are whole.
    {"sizes": Sizes(3, 1, 20, 1, 600, 128), "config": SplitConfig(64, 2, 3), "values": 64,
     "lengths": (600, 0, 5), "dtype": hx.bf16},
    {"sizes": Sizes(3, 3, 20, 1, 600, 128), "config": SplitConfig(64, 2, 12), "values": 128,
     "lengths": (600, 0, 190)},
    {"sizes": Sizes(2, 1, 20, 1, 600, 128), "config": SplitConfig(64, 2, 2), "values": 64,
     "lengths": (600, 590)},
    {"sizes": Sizes(1, 4, 30, 1, 150, 192), "config": SplitConfig(64, 2, 6), "values": 128},
)  # fmt: skip
CASES = (
    Case(Sizes(1, 1, 2, 2, 100, 64), SMALL),
    Case(Sizes(1, 1, 1, 1, 70, 128), SplitConfig(32, 4, 1)),
    Case(Sizes(2, 1, 2, 2, 90, 64), SplitConfig(32, 3, 1), (90, 33)),
    FOUR,
    replace(FOUR, dtype=hx.bf16, target="sm_90"),
    Case(Sizes(1, 3, 6, 2, 100, 64), TWO),
    Case(Sizes(3, 8, 4, 1, 75, 72), TWO, (75, 3, 64)),
    Case(Sizes(1, 5, 40, 2, 90, 40), TWO),
    Case(Sizes(2, 2, 71, 1, 60, 64), SplitConfig(16, 2, 12), (60, 17)),
    Case(Sizes(1, 8, 2, 2, 5, 64), SMALL),
    Case(Sizes(1, 1, 1, 1, 300, 64), SplitConfig(16, 2, 19)),
    Case(Sizes(2, 1, 4, 2, 200, 256), SplitConfig(16, 3, 16), (-3, 500)),
    Case(Sizes(40, 1, 1, 1, 40, 64), SMALL, (*range(36), 40, 40, 40, 40)),
    *(replace(FOUR, page=page, target=target)
      for page, target in ((1, "sm_80"), (2, "sm_90"), (16, "sm_90"), (64, "sm_80"))),
    Case(Sizes(2, 2, 8, 2, 256, 96), TWO, (256, 131), page=256),
    replace(FOUR, left=40, cap=2.0),
    replace(FOUR, left=0, page=8),
    Case(Sizes(2, 4, 4, 2, 192, 192), SplitConfig(16, 3, 24), (192, 90), page=16, left=60),
    Case(Sizes(1, 2, 2, 1, 150, 64), SMALL, left=30),
    Case(Sizes(1, 1, 2, 1, 90, 64), SMALL, cap=1.5, cached=hx.f8e4m3, target="sm_90"),
    replace(FOUR, page=16, dtype=hx.bf16, cached=hx.f8e4m3, target="sm_90"),
    replace(FOUR, page=1, cached=hx.f8e4m3, target="sm_90"),
    Case(Sizes(1, 1, 2, 2, 300, 64), SplitConfig(64, 3, 8, True), target="sm_90"),
    *(Case(sizes, config, left=left, cached=cached, target="sm_90")
      for sizes, config, left, cached in (
          (Sizes(1, 1, 2, 2, 300, 64), SplitConfig(64, 3, 8, AHEAD=True), None, None),
          (Sizes(2, 1, 2, 2, 70, 96), SplitConfig(32, 3, 1, True, AHEAD=True), None, None),
          (Sizes(3, 5, 8, 2, 150, 64), SplitConfig(32, 3, 30, AHEAD=True), 20, None),
          (Sizes(1, 8, 40, 1, 90, 128), SplitConfig(32, 3, 12, AHEAD=True), None, hx.f8e4m3),
      )),
    Case(Sizes(1, 8, 16, 2, 208, 128), SplitConfig(16, 2, 9), (130,), 16, 100, target="sm_90"),
    Case(Sizes(1, 1, 2, 2, 64, 64), SplitConfig(16, 3, 5), (0,), target="sm_90"),
    Case(Sizes(3, 1, 16, 1, 96, 192), TWO, (90, 0, 33), page=16, values=128),
    Case(Sizes(1, 2, 40, 1, 70, 128), SplitConfig(32, 3, 3), values=64, target="sm_90"),
    Case(Sizes(1, 1, 20, 1, 60, 576), SplitConfig(32, 2, 1), values=512, target="sm_90"),
    Case(Sizes(2, 1, 8, 1, 64, 128), TWO, (64, 9), page=1, values=128, dtype=hx.bf16),
    *(Case(target="sm_90", large=True, in_rows=True, **case) for case in LARGE),
    *(Case(target="sm_90", large=True, **case) for case in LARGE[1:6:2]),
)  # fmt: skip
NUMPY: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


def problem_of(case: Case, logged: bool, scale: float) -> Decoding:
    return Decoding(
        **case.sizes._asdict(), dtype=case.dtype, scale=scale, ragged=case.lengths is not None,
        cached=case.cached, page=case.page, left=case.left, cap=case.cap, with_lse=logged,
        values=case.values, least=HIGH if case.large else ROWS,
    )  # fmt: skip


def in_pages(case: Case, used: list[int], rng: Any, *caches: Any) -> tuple[Any, ...]:
    """The caches in pages, and the table; whatever stands behind a sequence's last page."""
    b, _, _, hk, sk, d = case.sizes
    most, page = sk // (case.page or 1), case.page
    table = rng.permutation(b * most + 3)[: b * most].astype(np.int32).reshape(b, most)
    paged = [np.full((b * most + 3, page, hk, d), np.nan, c.dtype) for c in caches]
    for many, cache in zip(paged, caches):
        many[table.ravel()] = cache.reshape(b * most, page, hk, d)
    for z, n in enumerate(used):
        behind = table[z, -(-n // (page or 1)) :]
        behind[:] = rng.integers(-(2**31), 2**31 - 1, behind.shape)
    return (*paged, table)


def run(
    case: Case, *, how: CombineConfig = SIXTEEN, logged: bool = True, seed: int = 0
) -> None:
    """One problem against the definition."""
    b, sq, h, hk, sk, d = case.sizes
    rng, scale, v_scale = np.random.default_rng(seed), 0.3, 1.5
    logged = logged and not case.large
    p, dtype, cached = problem_of(case, logged, scale), case.dtype, case.cached or case.dtype

    def normal(kind: hx.DType, *shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32).astype(NUMPY[kind.name])

    q, k, v = normal(dtype, b, sq, h, d), normal(cached, b, sk, hk, d), normal(cached, b, sk, hk, d)
    used = [min(max(n, 0), sk) for n in (case.lengths or [sk] * b)]
    for z, n in enumerate(used):
        # What the cache holds behind a sequence is not looked at.
        k[z, n:] = v[z, n:] = np.nan
    caches: tuple[Any, ...] = (k, v)
    if case.values:
        v, caches = k[..., : case.values], (k,)
    table: list[Any] = []
    if case.page:
        *caches, numbers = in_pages(case, used, rng, *caches)
        table = [numbers]
    alone, places, heads = case.config.alone(p), case.config.places(p), p.g
    kind = Kind(
        dtype, cached, d, *p.tile, whole=p.whole, ragged=p.ragged, page=p.page,
        capped=p.cap > 0, alone=alone, logged=logged,
        dependent=case.target == "sm_90", early=case.config.EARLY, values=case.values,
        paired=case.config.PAIRED, in_rows=case.in_rows, ahead=case.config.AHEAD,
    )  # fmt: skip
    o, logs = np.full((b, sq, h, p.dv), np.nan, q.dtype), np.full((b, h, sq), np.nan, np.float32)
    work = np.full((places, sq, hk, heads, workspace_width(p.dv)), np.nan, np.float32)
    several = kind.several
    blocks = places if several else places // b
    plan = [np.full((b, 2), -1, np.int32)] * several
    given: list[Any] = [q.reshape(b, sq, hk, heads, d)]
    given += [c.reshape(-1, hk, d) for c in caches]
    given += [np.array(case.lengths or (), np.int32)] * p.ragged + table
    given += [work.view(q.dtype) if case.in_rows else work] * (not alone) + plan
    if alone or (case.in_rows and several):
        given += [o.reshape(b, sq, hk, heads, p.dv)] + [logs.reshape(b, hk, heads, sq)] * logged
    numbers = (scale, v_scale, case.cap, UNBOUNDED if p.left is None else p.left, sk, blocks)
    (latent_attention if case.large else decoding_attention)(kind).simulate(
        *given, *numbers, target=case.target, **constants(case.config.kernel(p))
    )
    if not alone:
        rest = [*plan, o] + [logs] * logged
        combine(kind).simulate(
            work.reshape(places, sq, h, -1), *rest, scale, v_scale, blocks, target=case.target,
            **constants(how)
        )  # fmt: skip
    bits = 11 if dtype is hx.f16 else 8
    for z, n in enumerate(used):
        seen = k[z : z + 1, :n], v[z : z + 1, :n]
        want, sums = attention(q[z : z + 1], *seen, scale, right=0, left=case.left, cap=case.cap)
        got = o[z : z + 1].astype(np.float64)
        np.testing.assert_allclose(got, v_scale * want, atol=5 * 2.0**-bits, rtol=2.0**-bits)
        if logged:
            np.testing.assert_allclose(logs[z : z + 1], sums, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_definition(case: Case) -> None:
    run(case)


def test_blocks_share_the_columns_of_a_row() -> None:
    wide = Case(Sizes(2, 1, 3, 1, 90, 512), TWO, (90, 33), values=512, target="sm_90")
    run(wide, how=CombineConfig(4, 1, 4))


@pytest.mark.parametrize("case", [CASES[0], FOUR, CASES[11]], ids=str)
def test_combined_many_at_a_time_and_without_logarithms(case: Case) -> None:
    run(case, how=CombineConfig(64, 4, 1), logged=False)


@pytest.mark.parametrize("seed", range(10))
def test_random_problems(seed: int) -> None:
    """Shapes, heads, lengths, pages and bounds as they are drawn."""
    draw = random.Random(seed)
    hk, b, page = draw.choice([1, 2]), draw.choice([1, 2, 3, 5]), draw.choice([None, 1, 4, 16, 64])
    sk = draw.randrange(1, 200)
    sk = sk if page is None else -(-sk // page) * page
    sizes = Sizes(
        b, draw.choice([1, 1, 2, 8]), hk * draw.choice([1, 3, 8]), hk, sk, 8 * draw.randrange(2, 17)
    )
    lengths = tuple(draw.randint(0, sk) for _ in range(b))
    run(
        Case(
            sizes, SplitConfig(draw.choice([16, 32, 64]), draw.choice([2, 3]), draw.randint(1, 40)),
            draw.choice([None, lengths]) if page is None else lengths, page,
            left=draw.choice([None, draw.randint(0, 90)]), cap=draw.choice([0.0, 3.0]),
            target=draw.choice(["sm_80", "sm_90"]),
        ),
        seed=seed,
    )  # fmt: skip


def problem(sk: int, b: int = 1, h: int = 32, hk: int = 32, sq: int = 1, **more: Any) -> Decoding:
    return Decoding(
        b=b, sq=sq, sk=sk, h=h, hk=hk, d=128, dtype=hx.f16, scale=1.0,
        **{"ragged": False, **more},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "tile", "places"),
    [
        ({"sk": 1024}, (1, 16), 16),
        ({"sk": 65536}, (1, 16), 16),
        ({"sk": 1}, (1, 16), 1),
        ({"sk": 0}, (1, 16), 1),
        ({"sk": 1000, "b": 64}, (1, 16), 64),
        ({"sk": 4096, "hk": 4}, (8, 2), 128),
        ({"sk": 65536, "hk": 1, "sq": 8}, (32, 2), 128),
        ({"sk": 65536, "h": 71, "hk": 1}, (64, 1), 256),
        ({"sk": 65536, "h": 12, "hk": 4, "sq": 3}, (4, 4), 128),
        ({"sk": 65536, "left": 100}, (1, 16), 4),
        ({"sk": 65536, "hk": 8, "b": 3, "ragged": True}, (4, 4), 69),
        ({"sk": 200, "hk": 8, "b": 300, "ragged": True}, (4, 4), 300),
    ],
)
def test_tiles_and_places(given: dict[str, Any], tile: tuple[int, int], places: int) -> None:
    p, config = problem(**given), SplitConfig(32, 3, 528)
    assert p.tile == tile and config.places(p) == places
    assert config.alone(p) == (places == p.b)


@pytest.mark.parametrize(
    ("splits", "width", "how"),
    [(2, 128, (4, 1, 1)), (8, 64, (8, 1, 1)), (9, 128, (16, 4, 1)), (32, 128, (32, 4, 1)),
     (256, 256, (64, 4, 1)), (8, 512, (8, 1, 4)), (66, 512, (64, 4, 4)),
    ],
)  # fmt: skip
def test_all_splits_are_combined_at_a_time_where_there_is_room(
    splits: int, width: int, how: tuple[int, int, int]
) -> None:
    assert combining(splits, width, 512) == CombineConfig(*how)
    assert combining(splits, width, 513).PARTS == 1
    assert combining(splits, width, 512, True) == CombineConfig(8, 1, 1)


@pytest.mark.parametrize(
    ("b", "h", "sq"), [(2, 16, 1), (16, 16, 1), (16, 16, 2), (2, 20, 1), (2, 128, 1), (16, 128, 1)]
)
def test_latent_tiles_of_the_table_have_layouts(b: int, h: int, sq: int) -> None:
    assert latent_kernel(b, h, sq).thread.shared_bytes <= 227 << 10


def latent_kernel(b: int, h: int, sq: int) -> hx.CompiledKernel:
    """The kernel that the table chooses for latent heads."""
    p = Decoding(
        b=b, sq=sq, sk=4096, h=h, hk=1, d=576, dtype=hx.f16, scale=1.0, ragged=True, page=64,
        values=512,
    )  # fmt: skip
    config = LATENT.choose("h200", p)
    kind = Kind(
        hx.f16, hx.f16, p.d, *p.tile, whole=p.whole, ragged=True, page=64, dependent=True,
        values=p.values,
    )  # fmt: skip
    return decoding_attention(kind).compile("sm_90", **constants(config.kernel(p)))


def large_latent_kernel(in_rows: bool) -> hx.CompiledKernel:
    kind = Kind(
        hx.f16, hx.f16, 576, HIGH, 1, whole=False, ragged=True, page=64, dependent=True, values=512,
        in_rows=in_rows,
    )  # fmt: skip
    return latent_attention(kind).compile("sm_90", BN=64, STAGES=2)


@pytest.mark.parametrize(
    ("kernel", "product"), [(lambda: latent_kernel(16, 128, 1), "HMMA"),
                            (lambda: large_latent_kernel(False), "HGMMA"),
                            (lambda: large_latent_kernel(True), "HGMMA")]
)  # fmt: skip
def test_tiles_of_many_latent_heads_spill_nothing(
    kernel: Callable[[], hx.CompiledKernel], product: str
) -> None:
    try:
        text = kernel().sass()
    except MissingDependency as error:
        pytest.skip(str(error))
    assert re.search(rf"\b{product}", text) and not re.search(r"\b(LDL|STL)", text)


@pytest.mark.parametrize(
    ("b", "hk", "config"),
    [(4, 8, (32, 3, 396)), (4, 32, (32, 3, 396)), (16, 8, (32, 3, 1056)), (16, 32, (32, 2, 3168)),
     (64, 8, (32, 3, 1056)), (64, 32, (32, 2, 3168)), (256, 8, (32, 2, 4224)),
     (256, 32, (32, 2, 4224))],
)  # fmt: skip
def test_unequal_sequences_are_cut_as_was_fastest(
    b: int, hk: int, config: tuple[int, int, int]
) -> None:
    p = problem(16384, b=b, h=32, hk=hk, ragged=True)
    assert SPLIT.choose("h200", p) == SplitConfig(*config)


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("high", [(1, 16), (64, 1)], ids=str)
@pytest.mark.parametrize("page", [None, 16])
def test_the_machine_code_moves_16_bytes_and_spills_nothing(
    d: int, high: tuple[int, int], page: int | None
) -> None:
    kernel = decoding_attention(Kind(hx.f16, hx.f16, d, *high, ragged=True, page=page))
    try:
        text = kernel.compile("sm_90", BN=32 if d <= 128 else 16, STAGES=3).sass()
    except MissingDependency as error:
        pytest.skip(str(error))
    names = set(re.findall(r"LDGSTS[.\w]*|LDSM[.\w]*|LDL[.\w]*|STL[.\w]*", text))
    assert {name for name in names if not name.startswith("LDSM.16.M")} == {
        "LDGSTS.E.BYPASS.LTC128B.128"
    }


def test_results_of_full_latent_tiles_leave_in_rows() -> None:
    try:
        told, rows = (large_latent_kernel(in_rows).sass() for in_rows in (False, True))
    except MissingDependency as error:
        pytest.skip(str(error))
    assert len(re.findall(r"STG\.E\.128", rows)) > 64 and "STG.E.128" not in told


def test_a_block_finds_its_part_of_the_heads_once() -> None:
    """Divisions by numbers of the launch are not repeated for every row that is read or written."""
    kind = Kind(hx.f16, hx.f16, 128, 64, 1, whole=False)
    try:
        text = decoding_attention(kind).compile("sm_90", BN=32, STAGES=3).sass()
    except MissingDependency as error:
        pytest.skip(str(error))
    assert len(re.findall(r"MUFU\.RCP", text)) < 12


@pytest.mark.parametrize(
    ("h", "hk", "b", "sk", "early", "ahead"),
    [(32, 32, 1, 4096, False, True), (32, 32, 1, 65536, False, True),
     (16, 16, 1, 1024, True, False), (16, 16, 1, 4096, True, True),
     (16, 16, 1, 16384, False, False), (32, 8, 1, 16384, False, True),
     (32, 8, 8, 16384, False, True), (32, 8, 64, 4096, False, False)],
)  # fmt: skip
def test_launches_and_keys_come_early_where_that_was_measured(
    h: int, hk: int, b: int, sk: int, early: bool, ahead: bool
) -> None:
    config = SPLIT.choose("h200", problem(sk, b=b, h=h, hk=hk))
    assert (early, ahead) == (config.EARLY, config.AHEAD)
    assert not SPLIT.choose("h200", problem(sk, b=b, h=h, hk=hk, ragged=True)).EARLY
