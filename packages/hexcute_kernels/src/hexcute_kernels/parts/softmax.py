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
SLACK = 8.0
"""By how many powers of two a score may be above a lazy m: far within what float16 holds."""
MOST = 2.0**14
"""What exponentials over a guessed m may add up to, of those that a thread sums: each of them is
then within what float16 holds, and as exact as one below 1."""


@hx.device
def online_softmax(s, m, total, scale):
    """One block of scores s (rows, columns) after those that gave m and total (rows, 1).

    Gives p (rows, columns), the decay of what was summed before (rows, 1), and m and total now.
    """
    m, decay = raised(s, m, scale)
    p = exponentials(s, m, scale)
    return p, decay, m, total * decay + hx.sum(p, 1)


@hx.device
def raised(s, m, scale, lazy=False):
    """m (rows, 1) after one more block of scores s, and the decay of what was summed before.

    `lazy`: m stays where scores are above it by less than 2^SLACK, and the decay is 1 there; sums
    and results are as exact, since all that m has to keep is numbers within the range of a type.
    """
    now = hx.maximum(m, hx.max(s, 1))
    if lazy:
        now = hx.where((now - m) * scale > SLACK, now, m)
    # The difference first: of two equal maxima it is 0 however large they are.
    return now, hx.exp2((m - now) * scale)


@hx.device
def exponentials(s, m, scale):
    """p (rows, columns) of scores s over m (rows, 1)."""
    return hx.exp2(s * scale - m * scale)


@hx.device
def any_of(conditions):
    """Whether any element of a tile of conditions holds: one number for all threads of a role."""
    rows, columns = conditions.shape
    one = hx.max(hx.reshape(conditions, (rows * columns,)), 0)
    found = False
    for (i,) in hx.elements(one):
        found = one[i]
    return found


@hx.device
def rescale(r, decay, lazy=False):
    """r (rows, columns) times its rows' decay (rows, 1); `lazy`: past the rows that have none."""
    if lazy:
        for i, j in hx.elements(r):
            if decay[i, 0] != 1.0:
                r[i, j] = r[i, j] * decay[i, 0]
    else:
        r *= decay


@hx.device
def hide(s, row, column, length, right, left, bounded_right, bounded_left, at_once=False):
    """Hides what a row may not see of scores s, whose first is that of query `row`, key `column`.

    Query i sees keys below `length` and, where bounded, from i - left to i + right. `at_once`:
    places are compared with one number for all elements, which may need fewer registers.
    """
    for i, j in hx.elements(s):
        if (j >= length - column) if at_once else (column + j >= length):
            s[i, j] = HIDDEN
        if bounded_right:
            beyond = column + j > row + i + right
            if at_once:
                beyond = j - i > row + right - column
            if beyond:
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
