"""The memory behind an array whose strides are its own: one line of elements, from its first to its
last, of which some may belong to others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hexcute_core.simulator.lanes.values import Array
from hexcute_core.strides import reach


def laid(elements: Array, shape: Sequence[int], steps: Sequence[int]) -> Array:
    """The view of a line of `elements` in which a step along dimension d is `steps[d]` of them."""
    size = elements.itemsize
    # The numbers of other packages, as narrow floats, have bits that numpy knows.
    bits = as_strided(elements.view(f"u{size}"), shape, [step * size for step in steps])
    found: Array = bits.view(elements.dtype)
    return found


def steps_of(array: Array) -> list[int]:
    """Strides in elements; they are whole ones, from 0 on."""
    return [stride // array.itemsize for stride in array.strides]


def line(array: Array) -> Array:
    """A view of all that lies between the first element of `array` and its last, both included."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    return laid(array, (reach(array.shape, steps_of(array)),), (1,))


def own(array: Array) -> Array:
    """Which elements of its line are the array's: one boolean each."""
    steps = steps_of(array)
    found = np.zeros(reach(array.shape, steps), dtype=np.bool_)
    laid(found, array.shape, steps)[...] = True
    return found


def copied(array: Array) -> Array:
    """A copy with the same strides, in memory of its own."""
    if array.flags.c_contiguous:
        whole: Array = array.copy()
        return whole
    return laid(line(array).copy(), array.shape, steps_of(array))
