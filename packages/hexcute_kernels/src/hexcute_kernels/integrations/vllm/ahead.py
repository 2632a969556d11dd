"""What a layer may launch while it serves, compiled before it does.

    rows 1 .. most -> the different kernels that the operator chooses among them -> the cache

A kernel is the same for all rows that have its variant and configuration, and a number of them that
the same powers of two divide. So one number of rows is compiled for each of these classes. They are
found by asking for each number up to a thousand, and for some of each 64 above, where tables change
their minds at multiples of 64 alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import cache, partial
from math import gcd
from typing import Any

from hexcute_kernels import operator_named
from hexcute_kernels.gpus import Gpu, gpu_here
from hexcute_kernels.samples import sample, text_of
from hexcute_kernels.shipping import warm_up
from hexcute_kernels.tuned import tuned_rows

ALIGNED = 16
"""Up to which power of two rows are told apart."""
EACH, STRIDE = 1024, 64
"""Up to which number of rows each is asked for, and how far those above it are apart."""
MOST = 8192
"""Rows of a batch where vLLM does not say."""
_log = logging.getLogger("hexcute.vllm")


def most_rows() -> int:
    """How many tokens vLLM gives to a layer at once, by its configuration."""
    from vllm.config import get_current_vllm_config_or_none

    config = get_current_vllm_config_or_none()
    most = None if config is None else config.scheduler_config.max_num_batched_tokens
    return MOST if most is None else int(most)


def classes(
    operator: str, sizes: Mapping[str, Any], most: int, gpu: Gpu, rows: str = "m"
) -> list[int]:
    """A number of rows for each kernel that calls of 1 to `most` rows launch on this GPU; `rows` is
    what the operator's problem calls them."""
    found = operator_named(operator)
    seen: dict[Any, int] = {}
    for many in asked(most):
        problem = found.describe(*sample(operator, {**sizes, rows: many}, "meta"))
        variant = found.choose(gpu, problem)
        tuned = partial(tuned_rows, operator, variant.name)
        config = variant.configs.choose(gpu.name, problem, tuned)
        seen.setdefault((variant.name, config, gcd(many, ALIGNED)), many)
    return list(seen.values())


def asked(most: int) -> list[int]:
    """Numbers of rows that are asked for, of each class of divisors in each stretch."""
    above = range(EACH + STRIDE, most + STRIDE, STRIDE)
    further = [start + by for start in above for by in (0, 1, 2, 4, 8)]
    return [*range(1, min(EACH, most) + 1), *(many for many in further if many <= most), most]


@cache
def compile_ahead(operator: str, sizes: tuple[tuple[str, Any], ...], most: int, rows: str) -> int:
    """Compiles all that calls of these sizes may launch, in parallel, into the cache; gives for how
    many classes of rows. A second call does nothing."""
    began = time.monotonic()
    texts = [
        text_of({**dict(sizes), rows: many})
        for many in classes(operator, dict(sizes), most, gpu_here(), rows)
    ]
    warm_up({operator: texts})
    _log.info("%s %s: %.0f s", operator, dict(sizes), time.monotonic() - began)
    return len(texts)


def ahead(operator: str, most: int | None = None, rows: str = "m", **sizes: Any) -> int:
    """The same for a layer of these sizes, for as many rows as vLLM's batches have."""
    many = most_rows() if most is None else most
    return compile_ahead(operator, tuple(sorted(sizes.items())), many, rows)
