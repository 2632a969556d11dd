"""o = softmax(scale q k^T) v for the last few queries of each sequence, against a cache of keys.

    split s of a sequence:  m_s = max of its scores,  l_s = sum of 2^((score - m_s) factor),
                            o_s = sum of 2^((score - m_s) factor) v
    o = (sum over s of w_s o_s) / (sum over s of w_s l_s),   w_s = 2^((m_s - max m) factor)

The bytes of the cache bound it, so splits of the keys give every multiprocessor its share of them,
and each is read once: the queries' heads that share a head of keys, and all queries of a sequence,
are rows of one tile. `decoding_attention` leaves each split's o, m and l in a workspace, where
`combine` finds them; an only split's result needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.attention.bounds import tile_width
from hexcute_kernels.attention.cache import bring_keys
from hexcute_kernels.attention.splits import find_part
from hexcute_kernels.parts.softmax import (
    HIDDEN,
    LEAST,
    LOG2_E,
    log_sum,
    online_softmax,
    reciprocal_or_zero,
)

b, sq, h, hk, g, rows, places, most = hx.dims("b sq h hk g rows places most")

ROWS = 16
"""Rows of the smallest tile: a Tensor Core's, one warp's."""
STEP = 64
"""Columns of queries and keys at a time, where heads are wide."""
SUMS = 4
"""Columns of the workspace behind a split's result: m, l and what keeps rows aligned."""


def workspace_width(d: int) -> int:
    """Columns of the workspace for heads of width d."""
    return tile_width(d) + SUMS


@dataclass(frozen=True)
class Kind:
    """Of which kind a decoding kernel is: element types of queries and cache, heads of width d,
    tiles of `group` heads times `queries`, together a multiple of 16 rows.

    `whole`: one tile holds all heads and queries that share a head of keys. `ragged`: sequences
    have lengths of their own, and what the cache holds behind them may be anything. `page`: rows
    of a page of the cache, a power of two; None where a sequence's keys lie one after another.
    `capped`: scores are cap tanh(score / cap). `alone`: there is one split, whose result goes to o;
    several go to the workspace. `logged`: the logarithm of a row's sum is a result. `dependent`:
    the launch may begin before the one ahead has ended; `early`, the one behind before this one
    may go on.
    `values`: how many columns of a key are its value too; 0 where values lie in a cache of their
    own, d columns each. `paired`: two blocks that read the same keys bring them together.
    `in_rows`: results leave in whole rows, of a sequence that its length leaves whole to o at once.
    `ahead`: L2 is asked for a block's first keys before the launch ahead has ended.
    """

    dtype: hx.DType
    cached: hx.DType
    d: int
    group: int
    queries: int
    whole: bool = True
    ragged: bool = False
    page: int | None = None
    capped: bool = False
    alone: bool = False
    logged: bool = False
    dependent: bool = False
    early: bool = False
    values: int = 0
    paired: bool = False
    in_rows: bool = False
    ahead: bool = False

    @property
    def dv(self) -> int:
        """Columns of a value."""
        return self.values or self.d

    @property
    def warps(self) -> tuple[int, int]:
        """Warps along rows and along columns: wide results fill the registers of several."""
        high = self.group * self.queries // ROWS
        return high, 4 if self.values else 1

    @property
    def several(self) -> bool:
        """Whether a sequence's splits are as many as its length asks for."""
        return self.ragged and not self.alone


@hx.device
def wait_for_others(dependent, early):
    """Waits for the launch ahead and lets the one behind begin, `early` at once. That one waits for
    the end of this one, and so for what this one waited for."""
    order = ("launch", "wait") if early else ("wait", "launch")
    for step in order if dependent else ():
        hx.primitive("griddepcontrol." + step)


@hx.device
def in_registers(tile, dtype):
    """The tile, copied to registers, its elements of type `dtype`."""
    r = hx.register_tensor(tile.dtype, tile.shape)
    hx.copy(tile, r)
    return r if tile.dtype == dtype else hx.cast(r, dtype)


@hx.device
def hide_unseen(s, first, group, column, length, shift, left):
    """Hides keys from `length` on of scores s, those behind each row's own query, and those `left`
    before it: row r is query `first` + r // group, beside key `shift` more."""
    for i, j in hx.elements(s):
        own = first + i // group + shift
        if column + j >= hx.minimum(length, own + 1) or column + j < own - left:
            s[i, j] = HIDDEN


@hx.device
def hides(column, count, first, queries, shift, left):
    """Whether any of the queries from `first` on does not see all of `count` keys from `column`
    on."""
    return column + count > first + shift + 1 or column < first + shift + queries - 1 - left


@hx.device
def nothing_yet(high, wide):
    """What rows have that have seen no key: o (high, wide), m and l (high, 1)."""
    ro = hx.register_tensor(f32, (high, wide))
    m, total = hx.register_tensor(f32, (high, 1)), hx.register_tensor(f32, (high, 1))
    for tile, number in ((ro, 0.0), (m, LEAST), (total, 0.0)):
        hx.fill(tile, number)
    return ro, m, total


@hx.device
def leave(value, there, ordered):
    """Writes a tile, a row for each head and query as `ordered`, to the workspace from `there`
    on."""
    _, _, hk, g, width = there.shape
    steps = (width, hk * g * width), 1
    hx.copy(value, hx.global_view(there, ((ordered, value.shape[1]), steps)))


@hx.device
def finish(ro, m, total, factor, v_scale, o, logs):
    """Writes rows' results to the view o and the logarithms of their sums to `logs`, where asked
    for."""
    hx.copy(hx.cast(ro * (reciprocal_or_zero(total) * v_scale), o.dtype), o)
    if logs is not None:
        hx.copy(log_sum(m, total, factor), logs)


@cache
def decoding_attention(kind: Kind) -> hx.Kernel:
    """The kernel of a kind, for tiles of BN keys, STAGES of them in shared memory.

    `sk` keys each sequence has, or at most, of which a query sees `left` before its own; `blocks`
    share each head's of a sequence, of all where there are `several`. COUNT lengths are looked at
    at once.
    """
    dtype, cached, d, page = kind.dtype, kind.cached, kind.d, kind.page
    group, queries, high = kind.group, kind.queries, kind.group * kind.queries
    wide, latent, dv, warps = tile_width(d), kind.values > 0, kind.dv, kind.warps
    columns, width = tile_width(dv), workspace_width(dv)
    # Beside the results of wide heads registers have no room for whole queries and keys.
    narrow = wide <= 2 * STEP
    step = wide if narrow else STEP
    several, ordered = kind.several, (group, queries)
    lengths_type = i32[b] if kind.ragged else None
    table_type = None if page is None else i32[b, most]
    work_type = None if kind.alone else f32[places, sq, hk, g, width]
    plan_type = i32[b, 2] if several else None
    v_type = None if latent else cached[rows, hk, d]
    o_type = dtype[b, sq, hk, g, dv] if kind.alone else None
    log_type = f32[b, hk, g, sq] if kind.alone and kind.logged else None

    @hx.kernel
    def decode(
        q: dtype[b, sq, hk, g, d], k: cached[rows, hk, d], v: v_type, lengths: lengths_type,
        table: table_type, work: work_type, plan: plan_type, o: o_type, logs: log_type,
        scale: f32, v_scale: f32, cap: f32, left: i32, sk: i32, blocks: i32,
        *, BN: int = 32, STAGES: int = 3, COUNT: int = 32,
    ):  # fmt: skip
        heads = hx.cdiv(g, group)
        parts = 1 if kind.whole else heads * hx.cdiv(sq, queries)
        hx.attrs.cuda.block_dim = 32 * warps[0] * warps[1]
        hx.attrs.cuda.grid_dim = hk * parts, blocks, 1 if several else b
        kh, bg, bq = hx.blockIdx.x, 0, 0
        if parts > 1:
            part, kh = kh % parts, kh // parts
            bg, bq = part % heads * group, part // heads * queries
        wait_for_others(kind.dependent and not kind.ahead, kind.early)
        z, split, splits, place, length, at, count = find_part(
            kind, lengths, plan, sk, sq, left, blocks, BN, COUNT
        )
        if kind.ahead:
            # Whatever the launch ahead may yet write of them, L2 will have it.
            for cache in (k, v):
                hx.prefetch(hx.global_view(cache[z * sk + at :, kh, :], ((BN, d), (hk * d, 1))))
            wait_for_others(kind.dependent, kind.early)
        if several and split >= splits:
            return
        shift, factor = length - sq, LOG2_E if kind.capped else scale * LOG2_E
        s_q = hx.shared_tensor(dtype, (high, wide))
        s_k = hx.shared_tensor(cached, (BN, wide, STAGES))
        s_v = None if latent else hx.shared_tensor(cached, (wide, BN, STAGES))
        ro, m, total = nothing_yet(high, columns)
        hx.copy(hx.global_view(q[z, bq:, kh, bg:, :], ((ordered, wide), ((d, hk * g * d), 1))), s_q)
        for s in hx.static_range(STAGES - 1):
            if s < count:
                bring_keys(k, v, s_k, s_v, s, kh, z, at + s * BN, sk, table, page)
            hx.cp_async_commit()
        hx.cp_async_wait(STAGES - 2)
        hx.syncthreads()
        rq = in_registers(s_q, dtype) if narrow else None
        for i in range(count):
            hx.cp_async_wait(STAGES - 2)
            hx.syncthreads()
            read, ahead, column = i % STAGES, i + STAGES - 1, at + i * BN
            if ahead < count:
                bring_keys(k, v, s_k, s_v, ahead % STAGES, kh, z, at + ahead * BN, sk, table, page)
            hx.cp_async_commit()
            rs = hx.register_tensor(f32, (high, BN))
            hx.fill(rs, 0.0)
            for c in hx.static_range(0, wide, step):
                part = slice(c, min(c + step, wide))
                r_part = rq if narrow else in_registers(s_q[:, part], dtype)
                hx.gemm(rs, r_part, in_registers(s_k[:, part, read], dtype), warps=warps)
            if kind.capped:
                rs = cap * hx.tanh(rs * (scale / cap))
            values = s_k[:, :columns, read] if latent else s_v[:, :, read]
            rv = in_registers(values, dtype)
            rv = hx.transpose(rv) if latent else rv
            if hides(column, BN, bq, queries, shift, left):
                hide_unseen(rs, bq, group, column, length, shift, left)
                # What lies behind the end may be anything, and 0 times that no number.
                for c, j in hx.elements(rv):
                    if column + j >= length:
                        rv[c, j] = 0.0
            p, decay, m, total = online_softmax(rs, m, total, factor)
            ro *= decay
            rp = hx.cast(p, dtype)
            # Warps side by side have each some columns of p, and need them all.
            hx.gemm(ro, rp if warps[1] == 1 else hx.rearrange(rp), rv, warps=warps)
        if kind.alone:
            there = o[z, bq:, kh, bg:, :]
            there = hx.global_view(there, ((ordered, columns), ((dv, hk * g * dv), 1)))
            if kind.logged:
                logs = hx.global_view(logs[z, kh, bg:, bq:], ((ordered, 1), ((sq, 1), 0)))
            finish(ro, m, total, factor, v_scale, there, logs)
        else:
            for c, value in ((0, ro), (columns, m), (columns + 1, total)):
                leave(value, work[place, bq:, kh, bg:, c:], ordered)

    return decode


@cache
def combine(kind: Kind) -> hx.Kernel:
    """The kernel that makes results of the splits of `decoding_attention`, as many of a sequence as
    are given or its plan says: PARTS blocks of WARPS warps per row, CHUNK splits at a time."""
    columns, width = tile_width(kind.dv), workspace_width(kind.dv)
    plan_type = i32[b, 2] if kind.several else None
    log_type = f32[b, h, sq] if kind.logged else None

    @hx.kernel
    def combined(
        work: f32[places, sq, h, width], plan: plan_type, o: kind.dtype[b, sq, h, kind.dv],
        logs: log_type, scale: f32, v_scale: f32, splits: i32,
        *, CHUNK: int = 16, WARPS: int = 1, PARTS: int = 1,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = h * PARTS, sq, b
        hx.attrs.cuda.block_dim = 32 * WARPS
        head, query, z = hx.blockIdx.x // PARTS, hx.blockIdx.y, hx.blockIdx.z
        wide, begin = columns // PARTS, hx.blockIdx.x % PARTS * (columns // PARTS)
        wait_for_others(kind.dependent, kind.early)
        first, count = z * splits, splits
        if kind.several:
            first, count = plan[z, 0], plan[z, 1]
            if kind.in_rows and count == 1:
                return
        factor = LOG2_E if kind.capped else scale * LOG2_E
        ro, m, total = nothing_yet(1, wide)
        for c in range(0, count, CHUNK):
            there, parts = hx.iota((CHUNK, 1), 0) + c < count, []
            for at, many, none in ((begin, wide, 0.0), (columns, 1, LEAST), (columns + 1, 1, 0.0)):
                steps = (CHUNK, many), (sq * h * width, 1)
                part = hx.global_view(work[first + c :, query, head, at:], steps)
                parts.append(hx.where(there, in_registers(part, f32), none))
            rp, rm, rt = parts
            now = hx.maximum(m, hx.max(rm, 0))
            weights, decay = hx.exp2((rm - now) * factor), hx.exp2((m - now) * factor)
            ro = ro * decay + hx.sum(rp * weights, 0)
            total = total * decay + hx.sum(rt * weights, 0)
            m = now
        there = hx.global_view(o[z, query, head:, begin:], ((1, wide), (kind.dv, 1)))
        if kind.logged:
            logs = hx.global_view(logs[z, head:, query:], ((1, 1), (sq, 1)))
        finish(ro, m, total, factor, v_scale, there, logs)

    return combined
