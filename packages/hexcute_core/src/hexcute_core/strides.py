"""Strides of one tensor: how far its elements reach, and whether each lies at a place of its own.

Element (i0, i1, ...) of a tensor lies i0 s0 + i1 s1 + ... elements behind its first. A dimension
with at most one element is never stepped along, and its stride counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first of a tensor to its last, both included; 0 of an empty tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def apart(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements are one place of memory: the longer stride steps over all that the
    shorter ones reach. False as well of rarer tensors, whose elements interlock."""
    end = 1
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent > 1:
            if stride < end:
                return False
            end += (extent - 1) * stride
    return True
