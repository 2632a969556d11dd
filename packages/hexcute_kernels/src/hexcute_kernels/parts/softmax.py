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
SUMS = 8
"""Sums of a row's columns that a loop keeps apart: those of a thread need no other thread's."""
TIMES, MOST = 4.0, 2.0**14
"""What exponentials over a guessed m may add up to, of those that a thread sums: TIMES the sums of
the blocks before, so that none of them outweighs these by far, and within what float16 holds."""


@hx.device
def online_softmax(s, m, total, scale):
    """One block of scores s (rows, columns) after those that gave m and total (rows, 1).

    Gives p (rows, columns), the decay of what was summed before (rows, 1), and m and total now.
    """
    m, decay = raised(s, m, scale)
    p = hx.exp2(s * scale - m * scale)
    return p, decay, m, total * decay + hx.sum(p, 1)


@hx.device
def raised(s, m, scale):
    """m (rows, 1) after one more block of scores s, and the decay of what was summed before."""
    now = hx.maximum(m, hx.max(s, 1))
    # The difference first: of two equal maxima it is 0 however large they are.
    return now, hx.exp2((m - now) * scale)


@hx.device
def exponentials(s, m, scale):
    """p (rows, columns) of scores s over m (rows, 1), and their sums (rows, SUMS)."""
    p = hx.exp2(s * scale - m * scale)
    return p, hx.sum(p, 1, keep=SUMS)


@hx.device
def any_of(conditions):
    """Whether any element of a tile of conditions holds: one number for all threads of a role."""
    return hx.number(hx.max(hx.reshape(conditions, (math.prod(conditions.shape),)), 0))


@hx.device
def hide(s, row, column, length, right, left, bounded_right, bounded_left):
    """Hides what a row may not see of scores s, whose first is that of query `row`, key `column`.

    Query i sees keys below `length` and, where bounded, from i - left to i + right. Without a bound
    at the left, places are compared with one number for all elements, which needs fewer registers.
    """
    for i, j in hx.elements(s):
        hidden = j >= length - column or (bounded_right and j - i > row + right - column)
        if bounded_left:
            hidden = column + j >= length or column + j < row + i - left
            hidden = hidden or (bounded_right and column + j > row + i + right)
        if hidden:
            s[i, j] = HIDDEN


@hx.device
def reciprocal_or_zero(total):
    """1 / total, and 0 for the rows that saw nothing."""
    return hx.where(total > 0.0, 1.0 / total, 0.0)


@hx.device
def log_sum(m, total, scale):
    """The natural logarithm of the sum of a row's exponentials, -inf where it saw nothing."""
    return hx.where(total > 0.0, m * (scale / LOG2_E) + hx.log(total), HIDDEN)
