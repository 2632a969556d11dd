"""Softmax of rows that arrive a block of columns at a time, and which elements a mask hides.

    m' = max(m, max s)    p = 2^(s scale - m' scale)    decay = 2^((m - m') scale)
    total' = total decay + sum p            result' = result decay + p v

`scale` is in units of log 2. A hidden score is -inf, and m begins at LEAST, which is finite: a row
of which nothing has been seen yet has m = LEAST, p = 0 and total = 0, and no NaN.
"""

from __future__ import annotations

import math

import hexcute_core as hx

LEAST = -1e30
HIDDEN = -math.inf
LOG2_E = 1 / math.log(2)


@hx.device
def online_softmax(s, m, total, scale):
    """One block of scores s (rows, columns) after those that gave m and total (rows, 1).

    Gives p (rows, columns), the decay of what was summed before (rows, 1), and m and total now.
    """
    now = hx.maximum(m, hx.max(s, 1))
    p = hx.exp2(s * scale - now * scale)
    # The difference first: of two equal maxima it is 0 however large they are.
    decay = hx.exp2((m - now) * scale)
    return p, decay, now, total * decay + hx.sum(p, 1)


@hx.device
def hide(s, row, column, length, right, left, bounded_right, bounded_left):
    """Hides what a row may not see of scores s, whose first is that of query `row`, key `column`.

    Query i sees keys below `length` and, where bounded, from i - left to i + right.
    """
    for i, j in hx.elements(s):
        if column + j >= length:
            s[i, j] = HIDDEN
        if bounded_right and column + j > row + i + right:
            s[i, j] = HIDDEN
        if bounded_left and column + j < row + i - left:
            s[i, j] = HIDDEN


@hx.device
def reciprocal_or_zero(total):
    """1 / total, and 0 for the rows that saw nothing."""
    return hx.where(total > 0.0, 1.0 / total, 0.0)


@hx.device
def log_sum(m, total, scale):
    """The natural logarithm of the sum of a row's exponentials, -inf where it saw nothing."""
    return hx.where(total > 0.0, m * (scale / LOG2_E) + hx.log(total), HIDDEN)
