"""What a layer may launch while it serves, compiled before it does.

    rows 1 .. most -> the kernels that the operator would launch for them -> the cache

Which kernels these are is asked, not guessed: a launch's own choice and specialisation are made for
each number of rows up to a thousand, on tensors without data, and for some of each 64 above, where
tables change their minds at multiples of 64 alone, and kernels by the powers of two in a size.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from hexcute_kernels import operator_named
from hexcute_kernels.gpus import Gpu, gpu_here
from hexcute_kernels.prepared import described
from hexcute_kernels.samples import sample, text_of
from hexcute_kernels.shipping import warm_up

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


def kernels(operator: str, sizes: Mapping[str, Any], gpu: Gpu) -> list[Any]:
    """What a call of these sizes launches on this GPU, not built: the same objects for calls that
    launch the same. Raises LaunchError."""
    found = operator_named(operator)
    args = sample(operator, sizes, "meta")
    return [k for k, _ in described(found.schema, found.plan_on(gpu, args), args, gpu.target)]


def classes(
    operator: str, sizes: Mapping[str, Any], most: int, gpu: Gpu, rows: str = "m"
) -> list[int]:
    """Numbers of rows that launch, taken together, all kernels that calls of 1 to `most` rows
    launch on this GPU; `rows` is what the operator's sizes call them."""
    seen: set[Any] = set()
    chosen = []
    for many in asked(most):
        launched = set(kernels(operator, {**sizes, rows: many}, gpu))
        if not launched <= seen:
            seen |= launched
            chosen.append(many)
    return chosen


def asked(most: int) -> list[int]:
    """Numbers of rows that are asked for, of each class of divisors in each stretch."""
    above = range(EACH + STRIDE, most + STRIDE, STRIDE)
    further = [start + by for start in above for by in (0, 1, 2, 4, 8)]
    return [*range(1, min(EACH, most) + 1), *(many for many in further if many <= most), most]


@cache
def compile_ahead(operator: str, sizes: tuple[tuple[str, Any], ...], most: int, rows: str) -> int:
    """Compiles all that calls of these sizes may launch, in parallel, into the cache; gives how
    many calls that took. A second call does nothing."""
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
