"""Which variant a product gets on Hopper: the one that the cost model expects to be the quickest.

expected    microseconds by variant, of those that can compute it
pays        whether a variant is the quickest, as the variant's declaration asks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from hexcute_kernels.gemm.configs import DOTS, STAGED, THIN, WGMMA
from hexcute_kernels.gemm.cost import packing_us
from hexcute_kernels.gemm.product import Product, operands_fit, packed_elements, tma_fits
from hexcute_kernels.tables import Table

_TABLES: Mapping[str, Table[Any]] = {"thin": THIN, "wgmma": WGMMA, "staged": STAGED, "dots": DOTS}


def packs(p: Product) -> str | None:
    """Whether copies of the operands can be made."""
    if p.batch is not None and (p.a_major, p.b_major) != ("k", "k"):
        return "batches are to have rows along k"
    return None


FEW = max(config.FEW for config in DOTS)


def few(p: Product) -> str | None:
    """Whether the result is a few rows or columns, of operands that lie along k."""
    if p.thin > FEW:
        return f"the result is to have a side of at most {FEW}"
    return None if (p.a_major, p.b_major) == ("k", "k") else "operands are to have rows along k"


@cache
def expected(p: Product) -> Mapping[str, float]:
    """The microseconds that each variant of Hopper is expected to take, where it can."""
    found: dict[str, float] = {}
    times = {name: table.least(p, "h200") for name, table in _TABLES.items()}
    if operands_fit(p) is None:
        found["thin"] = times["thin"]
    if tma_fits(p) is None:
        found["wgmma"] = times["wgmma"]
    if packs(p) is None:
        copies = packing_us(packed_elements(p))
        found |= {f"{name}_packed": copies + times[name] for name in ("thin", "wgmma")}
    if few(p) is None:
        found["dots"] = times["dots"]
    return found | {"staged": times["staged"]}


def pays(name: str) -> Callable[[Product], str | None]:
    """Whether a variant is expected to be the quickest, as a variant's `pays`."""

    def of(p: Product) -> str | None:
        times = expected(p)
        best = min(times, key=lambda other: times[other])
        if best == name or name not in times:
            return None
        return f"{times[name]:.1f} us are expected, {times[best]:.1f} of {best}"

    return of
