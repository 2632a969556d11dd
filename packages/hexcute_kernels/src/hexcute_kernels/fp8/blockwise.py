"""c = (sa a) (sb b)^T of e4m3 operands with a scale for every 128 columns, promoted in float32.

    c[i, j] = sum over blocks g of k:  sa[g, i] sb[j // 128, g]  sum over g's 128 of a[i, .] b[j, .]

One warp group loads by TMA; the others multiply a block of k into a temporary of their own, free
its slot, and add it, scaled, to the result in float32: the Tensor Core's sums of FP8 keep too few
bits for a long k. One group adds while another multiplies. Where PORTIONS is 2, a group takes its
rows in two portions, one after the other, through one temporary, and so it does with the columns of
a tile of 256. The blocks' scales come with the operands, so that no group waits for one at the
start of a tile. Columns of a tile of 192 are added in sections of 64, each of which has one scale
of b.

    by rows     c[i, j] = sa[i] sb[j]  sum over blocks of k, promoted alike, scaled at the end
    grouped     b and its scales are of the expert that `groups.place` gives each tile of rows
"""

from __future__ import annotations

from functools import cache
from itertools import product

import hexcute_core as hx
from hexcute_core import f8e4m3, f32, i32
from hexcute_kernels.parts.groups import begins, store_between
from hexcute_kernels.parts.operands import k_tiles, matrix, operand_type
from hexcute_kernels.parts.schedule import await_launch_ahead, in_clusters

m, n, k, groups, columns = hx.dims("m n k groups columns")
matrices, experts, blocks = hx.dims("matrices experts blocks")

BLOCK = 128
"""Elements of k, and columns of b, that share a scale."""
SECTION = 64
"""Columns of a tile wider than a block that are added at a time."""
LINE = 32
"""Scales of b that come with a block of k, its own among them: TMA brings 16 bytes and more, to
multiples of 128."""
PRODUCER = {1: 40, 2: 40, 3: 32}
CONSUMER = {1: 232, 2: 232, 3: 160}
"""Registers a thread keeps, by the number of groups that multiply."""


def scale_type(scale_major: str, batch: object = None) -> hx.TensorType:
    """The type of a's scales: sa[groups, m] where `scale_major` is "m", else sa[m, groups]; of a
    `batch` of them where it is given."""
    return operand_type(f32, m, groups, "k" if scale_major == "k" else "m", batch)


@hx.device
def place_of(tile, table, count, tiles_n, group, high, wide, cluster):
    """Where tile number `tile` of `high` x `wide` begins, its column, and what else `begins` says;
    of the last tile, where there are fewer."""
    tile, count = hx.minimum(tile, count * tiles_n - 1), hx.maximum(count, 1)
    t, column = in_clusters(hx.maximum(tile, 0), count, tiles_n, group, 1, wide, 1, cluster)
    return column, *begins(table, t, high)


@hx.device
def load_blocks(a, b, sa, sb, place, slots, pipe, scale_major):
    """Fills slot after slot with a block of k: of a from a row on and of b from a column on, and
    their scales where there is room for them. `place`: the expert, that row and that column."""
    (expert, row, column), (s_a, s_b, s_s, s_w) = place, slots
    ga = k_tiles(matrix(a, expert), "k", row, s_a.shape[0], BLOCK)
    gb = k_tiles(matrix(b, expert), "k", column, s_b.shape[0], BLOCK)
    if s_s is not None:
        gs = k_tiles(matrix(sa, expert), scale_major, row, s_s.shape[0], 1)
        gw = k_tiles(matrix(sb, expert), "k", column // BLOCK, s_w.shape[0], LINE)
    for i in range(hx.cdiv(a.shape[-1], BLOCK)):
        with pipe.produce() as s:
            hx.copy(ga[:, :, i], s_a[:, :, s])
            hx.copy(gb[:, :, i], s_b[:, :, s])
            if s_s is not None:
                hx.copy(gs[:, :, i], s_s[:, :, s])
                hx.copy(gw[:, :, i // LINE], s_w[:, :, s])


@hx.device
def add(rc, rt, ra, p, q):
    """rc's portion p of rows += rt, from its section q on, scaled by ra's where there are any."""
    high, wide, sections = *rc.shape[:2], rt.shape[1] // rc.shape[1]
    for j in hx.static_range(sections):
        part = hx.reshape(rt, (high, sections, wide))[:, j, :]
        rc[:, :, q + j, p] += part if ra is None else part * ra[:, :, q + j, p]


@hx.device
def scales_of_b(s_w, i, s, column, sections):
    """The scales of b of block i in slot s, for the sections of a tile that begins at `column`."""
    rb = [hx.register_tensor(f32, (1, 1)) for _ in range(s_w.shape[0])]
    for row in hx.static_range(s_w.shape[0]):
        hx.copy(s_w[row : row + 1, hx.ds(i % LINE, 1), s], rb[row])
    # A tile of 192 begins with a block of 128 columns, or in its middle.
    return rb if len(rb) == sections else [rb[0], hx.where(column % BLOCK == 0, *rb), rb[1]]


@hx.device
def add_blocks(rc, slots, pipe, blocks, first, column, late):
    """rc += the scaled products of `blocks` blocks of k, of the rows from `first` on, a portion
    after the other; the tile begins at `column`.

    `late`: the sums of a block's last portion are added when the next block is there. Between two
    products a group then does little but add; it adds later where it waits for the block.
    """
    s_a, s_b, s_s, s_w = slots
    high, wide, sections, portions = rc.shape
    step = sections if wide == SECTION else 1
    last = portions - 1, sections - step
    # One for all portions: two would not fit beside the result.
    rt, ra = hx.register_tensor(f32, (high, wide * step)), None
    hx.fill(rt, 0.0)
    if s_s is not None:
        scales = hx.register_tensor(f32, (high, 1, portions))
        ra = hx.register_tensor(f32, (high, 1, sections, portions))
        hx.fill(ra, 0.0)
    for i in range(blocks):
        s = pipe.wait()
        if ra is not None:
            # All before the products: they would wait for what stands among them.
            rb = scales_of_b(s_w, i, s, column, sections)
            for p in hx.static_range(portions):
                hx.copy(s_s[first + p * high : first + (p + 1) * high, :, s], scales[:, :, p])
        if late:
            add(rc, rt, ra, *last)
        if ra is not None:
            for j, p in product(range(sections), range(portions)):
                hx.copy(scales[:, :, p] * rb[j], ra[:, :, j, p])
        for p, q in product(range(portions), range(0, sections, step)):
            left = s_a[first + p * high : first + (p + 1) * high, :, s]
            right = s_b[q * wide : (q + step) * wide, :, s]
            hx.gemm(rt, left, right, asynchronous=True, accumulate=False)
            hx.wait_gemm(0)
            if (p, q) == last:
                pipe.release()
            if (p, q) != last or not late:
                add(rc, rt, ra, p, q)
    if late:
        add(rc, rt, ra, *last)


@hx.device
def scaled_by_rows(part, sa, sb, row, column):
    """A part of the result that begins at `row` and `column`, times a scale of each."""
    high, wide = part.shape
    ra, rb = hx.register_tensor(f32, (high, 1)), hx.register_tensor(f32, (1, wide))
    hx.copy(hx.global_view(sa[row:], ((high, 1), (1, 1))), ra)
    hx.copy(hx.global_view(sb[column:], ((1, wide), (1, 1))), rb)
    return part * ra * rb


@cache
def blockwise_gemm(
    out: hx.DType, scale_major: str = "m", by_rows: bool = False, grouped_by: str | None = None
) -> hx.Kernel:
    """The kernel for results of type `out`.

    a[m, k] and b[n, k], both K-major; sa[groups, m] where `scale_major` is "m", else sa[m, groups];
    sb[columns, groups], where groups and columns are k and n in blocks of 128, the last perhaps
    short; `by_rows`, sa[m] and sb[n]. Its constants: tile BM x BN, where BN divides 128, or is
    192 or 256, STAGES, CONSUMERS warp groups, each of which stores its rows by itself, PORTIONS of
    a group's rows, GROUP rows of tiles together; the blocks of a CLUSTER take neighbours in a row
    of tiles, each brings a part of a to all; sums are added LATE as `add_blocks` says.

    With `grouped_by`, b and sb are stacks, a matrix per expert, and which rows are whose is in
    `table` and `used` of `groups.place`: of one a, "rows", or of a stack too, "matrices". Rows of
    no expert are not written.
    """
    many = matrices if grouped_by == "matrices" else None
    each = None if grouped_by is None else experts
    sa_type = scale_type(scale_major, many)
    sb_type = operand_type(f32, columns, groups, "k", each)
    if by_rows:
        sa_type, sb_type = f32[m], f32[n]
    a_type, b_type = (operand_type(f8e4m3, x, k, "k", y) for x, y in ((m, many), (n, each)))
    c_type = operand_type(out, m, n, "k", many)
    table_type, used_type = (None, None) if grouped_by is None else (i32[4, blocks], i32[1])

    @hx.kernel
    def fp8_gemm(
        a: a_type, b: b_type, sa: sa_type, sb: sb_type, table: table_type, used: used_type,
        c: c_type, *, BM: int = 128, BN: int = 128, STAGES: int = 5, CONSUMERS: int = 2,
        PORTIONS: int = 1, GROUP: int = 8, CLUSTER: int = 1, LATE: bool = False,
    ):  # fmt: skip
        assert BLOCK % BN == 0 or BN in (192, 256), "BN divides 128, or is 192 or 256"
        sections = BN // SECTION if BN == 192 else hx.cdiv(BN, BLOCK)
        tiles_n, tiles_k = hx.cdiv(n, BN * CLUSTER), hx.cdiv(k, BLOCK)
        shape = tiles_n, GROUP, BM, BN, CLUSTER
        most = hx.cdiv(m, BM) if table is None else blocks
        teams = min(CONSUMERS, BM // 64)
        own, wide = BM // teams, BN // sections
        high = own // PORTIONS
        hx.attrs.cuda.block_dim, hx.attrs.cuda.cluster_dim = 128 * (CONSUMERS + 1), CLUSTER
        s_a, s_b = (hx.shared_tensor(f8e4m3, (x, BLOCK, STAGES)) for x in (BM, BN))
        s_s = None if by_rows else hx.shared_tensor(f32, (BM, 1, STAGES))
        s_w = None if by_rows else hx.shared_tensor(f32, (hx.cdiv(BN, BLOCK), LINE, STAGES))
        slots = s_a, s_b, s_s, s_w
        pipe = hx.pipeline(STAGES)
        await_launch_ahead()

        with hx.warp_groups_producer(registers=PRODUCER[CONSUMERS]):
            count = most if table is None else used[0]
            for tile in hx.persistent(most * tiles_n):
                if table is None or tile < count * tiles_n:
                    bn, bm, expert, _, _ = place_of(tile, table, count, *shape)
                    load_blocks(a, b, sa, sb, (expert, bm, bn), slots, pipe, scale_major)

        for me in hx.static_range(teams):
            s_c = hx.shared_tensor(out, (own, BN))
            numbers = None if table is None else hx.shared_tensor(i32, (own,))
            with hx.warp_groups_consumer(CONSUMERS // teams, registers=CONSUMER[CONSUMERS]):
                count = most if table is None else used[0]
                tile, end = hx.blockIdx.x // CLUSTER, count * tiles_n
                bn, bm, expert, first, last = place_of(tile, table, count, *shape)
                while tile < end:
                    # Under the products of this tile: numbers from memory take a while.
                    tile += hx.gridDim.x // CLUSTER
                    ahead = place_of(tile, table, count, *shape)
                    start = bm + me * own
                    if table is None or start < last:
                        rc = hx.register_tensor(f32, (high, wide, sections, PORTIONS))
                        hx.fill(rc, 0.0)
                        add_blocks(rc, slots, pipe, tiles_k, me * own, bn, LATE)
                        hx.sync_role()  # The last tile has left s_c.
                        for j, p in product(range(sections), range(PORTIONS)):
                            part, row, at = rc[:, :, j, p], p * high, j * wide
                            if by_rows:
                                part = scaled_by_rows(part, sa, sb, start + row, bn + at)
                            hx.copy(hx.cast(part, out), s_c[row : row + high, at : at + wide])
                        hx.sync_role()
                        gc = matrix(c, expert)
                        if table is None:
                            hx.copy(s_c, hx.global_view(gc[start:, bn:], ((own, BN), (n, 1))))
                        else:
                            store_between(s_c, gc, start, bn, first, last, numbers)
                    else:  # The expert ends before: slots are freed, the other multiplies.
                        for _ in range(tiles_k):
                            pipe.wait()
                            pipe.release()
                    bn, bm, expert, first, last = ahead

    return fp8_gemm
