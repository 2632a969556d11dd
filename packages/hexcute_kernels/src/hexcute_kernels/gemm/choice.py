"""Which variant a product gets on Hopper: the one that the cost model expects to be the quickest.

expected    microseconds by variant, of those that can compute it
pays        whether a variant is the quickest, as the variant's declaration asks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from hexcute_kernels.gemm.candidates import DOTS, STAGED, THIN, WGMMA, heavy, large
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


NARROW, SHORT_SIDE = 64, 128
"""Results with a side of at most NARROW are thin, but for half as many rows and more of a heavy
product; results with one of at most SHORT_SIDE may be."""


def _filled(p: Product) -> bool:
    """Whether tiles of 64 along the longer side, or halves of K of each, are about as many as there
    are multiprocessors."""
    across = -(-p.thick // 64)
    return any(113 <= splits * across <= 132 for splits in (1, 2))


def _halved(p: Product) -> bool:
    """Whether two blocks for each tile of 128 columns of a heavy product of 65 to 128 rows are
    about as many as there are multiprocessors; not where k is so long that halves of it pay."""
    columns = -(-p.n // 128)
    return NARROW < p.m <= SHORT_SIDE and heavy(p) and 113 <= 2 * columns <= 132 and p.k < 16384


ONE_STEP = 16
"""Products of so many k are one step of the Tensor Cores; TMA would fetch a line for each row."""


def _by_tma(p: Product) -> tuple[str, ...]:
    """The kernels fed by TMA that come into question: one where measurements leave no doubt."""
    if p.k <= ONE_STEP < p.thin:
        return ()
    if p.thin <= NARROW and not (NARROW // 2 < p.m <= NARROW and heavy(p) and not _filled(p)):
        return ("thin",)
    if large(p) or _halved(p):
        return ("wgmma",)
    if p.thin <= SHORT_SIDE and heavy(p) and _filled(p):
        return ("thin",)
    return ("wgmma", "thin")


@lru_cache(4096)
def expected(p: Product) -> Mapping[str, float]:
    """The microseconds that each variant of Hopper that comes into question is expected to take."""
    fits = {"thin": operands_fit, "wgmma": tma_fits}
    found: dict[str, float] = {}
    for name in _by_tma(p):
        time = _TABLES[name].expected(p, "h200")
        if fits[name](p) is None:
            found[name] = time
        if packs(p) is None:
            found[f"{name}_packed"] = packing_us(packed_elements(p)) + time
    # Where TMA can read operands that are all the time, it does so quicker than threads.
    if few(p) is None and operands_fit(p) is not None:
        found["dots"] = _TABLES["dots"].expected(p, "h200")
    if not found or not heavy(p) or operands_fit(p) is not None:
        found["staged"] = _TABLES["staged"].expected(p, "h200")
    return found


def pays(name: str) -> Callable[[Product], str | None]:
    """Whether a variant is expected to be the quickest, as a variant's `pays`."""

    def of(p: Product) -> str | None:
        times = expected(p)
        best = min(times, key=lambda other: times[other])
        if best == name:
            return None
        guess = f"{times[name]:.1f}" if name in times else "more"
        return f"{guess} us are expected, {times[best]:.1f} of {best}"

    return of
