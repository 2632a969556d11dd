"""The cost model: what it has to see of a launch, and its choices beside what was measured."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hexcute_core as hx
from hexcute_kernels.gemm.candidates import DOTS, LARGE, STAGED, THIN, WGMMA
from hexcute_kernels.gemm.choice import ONE_STEP, expected, pays
from hexcute_kernels.gemm.configs import ThinConfig, WgmmaConfig
from hexcute_kernels.gemm.cost import microseconds, packing_us
from hexcute_kernels.gemm.product import Product, packed_elements
from hexcute_kernels.measured import config_of
from hexcute_kernels.tables import Table

MEASURED = Path(__file__).parents[4] / "bench/results/h200/sweeps/gemm_sizes.csv"
TABLES: dict[str, Table[Any]] = {"thin": THIN, "wgmma": WGMMA, "staged": STAGED, "dots": DOTS}


def product(m: int, n: int, k: int) -> Product:
    return Product(m=m, n=n, k=k, dtype=hx.f16, a_major="k", b_major="k")


def us(config: WgmmaConfig | ThinConfig, m: int, n: int, k: int, gpu: str = "h200") -> float:
    p = product(m, n, k)
    return microseconds(config.cut(p), p, gpu)


def test_a_round_of_blocks_more_takes_its_time() -> None:
    config = WgmmaConfig(128, 256, 64, 4, 2)
    full, more = us(config, 128 * 132, 256, 4096), us(config, 128 * 133, 256, 4096)
    assert 1.5 < more / full < 2.1


def test_k_is_split_where_tiles_are_few() -> None:
    whole = ThinConfig(128, 160, 64, 4, 2)
    assert us(replace(whole, SPLITS=4), 1048, 448, 12432) < 0.7 * us(whole, 1048, 448, 12432)
    assert us(replace(whole, SPLITS=4), 4096, 4096, 512) > us(whole, 4096, 4096, 512)


def test_narrow_tiles_read_more_and_memory_is_a_floor() -> None:
    assert us(WgmmaConfig(128, 64, 64, 8, 2), 4096, 4096, 4096) > us(
        WgmmaConfig(128, 256, 64, 4, 2), 4096, 4096, 4096
    )
    config = ThinConfig(128, 8, 64, 6, 1)
    bytes_read = 2 * 28672 * 8192
    assert us(config, 1, 28672, 8192) > bytes_read / 4.5e6
    assert us(config, 1, 28672, 8192, "h100") > us(config, 1, 28672, 8192)


def test_sharing_saves_parts_of_lines_alone() -> None:
    """Of rows of whole lines, what blocks ask for at once L2 reads once in any case."""
    alone = WgmmaConfig(192, 72, 64, 6, 3, EARLY=True, SWAP=True)
    both = replace(alone, CLUSTER_N=2)
    assert us(both, 9000, 184, 2560) > us(alone, 9000, 184, 2560)
    assert us(both, 9000, 184, 2632) < us(alone, 9000, 184, 2632)


def test_steps_asked_for_at_the_start_do_not_wait() -> None:
    few = ThinConfig(64, 8, 64, 6, 1)
    first, then = (us(few, 8, 64, 64 * steps) - us(few, 8, 64, 64) for steps in (6, 61))
    assert 0 < 1.1 * 12 * first < then
    deep, flat = ThinConfig(64, 8, 128, 6, 1), ThinConfig(64, 8, 64, 12, 1)
    assert us(deep, 10, 68, 13440) < us(flat, 10, 68, 13440), "every step hands a slot on"


def test_nothing_at_all_has_a_time_too() -> None:
    for sizes in ((0, 8, 8), (8, 0, 8), (8, 8, 0)):
        times = expected(product(*sizes))
        assert all(0 < time < math.inf for time in times.values())
    assert packing_us(0) == 0.0 < packing_us(1)


def test_a_variant_pays_where_it_is_the_quickest() -> None:
    p = product(3000, 3000, 1024)
    assert pays("wgmma")(p) is None
    assert (pays("staged")(p) or "").endswith("of wgmma")
    assert (pays("dots")(p) or "").startswith("more us are expected")
    odd = replace(product(4096, 4097, 4096), batch=2, a_major="m")
    assert list(expected(odd)) == ["staged"], "what nothing else takes"
    assert {"thin", "wgmma"}.isdisjoint(expected(product(64, 64, 63)))
    assert "dots" in expected(product(8, 64, 63))
    assert "dots" not in expected(replace(product(8, 64, 63), a_major="m"))


@pytest.mark.parametrize(
    ("n", "k"),
    [(6144, 4096), (4096, 14336), (14336, 4096), (4096, 4096), (10240, 8192), (8192, 28672),
     (8192, 8192), (28672, 8192)],
)  # fmt: skip
def test_what_was_measured_of_layers_is_chosen(n: int, k: int) -> None:
    for m in (1, 8, 16, 32):
        p = product(m, n, k)
        assert pays("thin")(p) is None and "wgmma" not in expected(p)
        assert THIN.choose("h200", p) in [row.config for row in THIN.rows["h200"]]
    for m in (2048, 4096):
        p = product(m, n, k)
        assert pays("wgmma")(p) is None and WGMMA.choose("h200", p) == LARGE
    for m in (64, 128):
        p = product(m, n, k)
        halved = m == 128 and (n, k) == (8192, 8192)
        name = "thin" if n in (4096, 8192) and not halved else "wgmma"
        table: Table[Any] = TABLES[name]
        assert pays(name)(p) is None
        config = table.choose("h200", p)
        assert config in [row.config for row in table.rows["h200"]]
        if name == "wgmma":
            assert m == config.BM * config.CLUSTER_M and config.blocks(p) == 128


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_configuration_once(table: Any) -> None:
    found = list(table)
    assert len(found) == len(set(found)) > 20
    assert {c.EARLY for c in found} == {False, True}


def test_first_choices_beside_what_was_measured() -> None:
    """Of what was measured of a size, the first choice takes little longer than the best."""
    kinds = {name: table.kind for name, table in TABLES.items()}
    sizes: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    with MEASURED.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["system"] == "cublas":
                continue
            p = product(*(int(row[name]) for name in "mnk"))
            name = row["system"].removesuffix("_packed")
            config = config_of(row["config"], kinds[name])
            if name == "dots" and config not in set(DOTS):
                continue  # Those with eight rows are not tried any more.
            if name in ("thin", "wgmma") and p.k <= ONE_STEP < p.thin:
                continue  # Nor is TMA for one step of k.
            guess = microseconds(config.cut(p), p, "h200")
            if row["system"].endswith("_packed"):
                guess += packing_us(packed_elements(p))
            sizes.setdefault((p.m, p.n, p.k), []).append((guess, float(row["time_us"])))
    assert len(sizes) > 150
    ratios = [min(t for _, t in found) / min(found)[1] for found in sizes.values()]
    assert math.exp(sum(map(math.log, ratios)) / len(ratios)) > 0.94
    assert min(ratios) > 0.5
