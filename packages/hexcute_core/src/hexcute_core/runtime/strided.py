"""An argument -> its strides in elements, as kernels with strides of their own are given them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def steps_of(value: Any) -> Sequence[int]:
    """The strides of a torch tensor or a numpy array, in elements; of a dimension with at most one
    element, along which nothing steps, 0. -1 in place of one that is no number of elements."""
    if hasattr(value, "__array_interface__"):
        size = value.itemsize
        found = [-1 if stride % size else stride // size for stride in value.strides]
    else:
        found = value.stride()
    return [step if extent > 1 else 0 for step, extent in zip(found, value.shape)]
