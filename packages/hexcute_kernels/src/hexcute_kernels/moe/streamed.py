"""c = x ((q - zero) * scale)^T, few rows an expert: weights stream to the registers that multiply.

    c[i, j] = sum over g of scale[g, j] (sum over k of g of x[i, k] (q[g, j, k] - zero[g, j]))

A thread's 16 bytes of weights are its operands of a group g of k, so that nothing is exchanged, and
what it has asked for is what is under way: DEPTH groups of BN rows a block and step. q - zero is
exact in f16, and the scale meets the group's sum in f32, so that no weight is rounded. Blocks of a
cluster SPLIT the groups among them and add their parts up through shared memory.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f16, f32, i32, u16
from hexcute_kernels.moe.packing import GROUP, WORDS
from hexcute_kernels.parts.epilogue import silu
from hexcute_kernels.parts.unpack import differences, number

tokens, rows, pairs = hx.dims("tokens rows pairs")
experts, groups, lines, halves, blocks = hx.dims("experts groups lines halves blocks")
width, hidden = hx.dim("width", multiple_of=GROUP), hx.dim("hidden", multiple_of=GROUP)


@hx.device
def weights_of(q, strip, expert, total, row, rows, far, begin, depth, steps):
    """`steps` times `depth` groups of the weights of two lots of `rows` from `row` on that stand
    `far` apart, of `total` of an expert, with what scales and shifts them."""
    high, down = (rows, 2), (hx.along(2), hx.along(2, far))
    on = hx.along(1), hx.along(1, depth)
    a_word = (high, WORDS, depth, steps), (down, hx.along(3), *on)
    a_strip = (high, 1, depth, steps), (down, hx.along(1), *on)
    gq = hx.global_view(q[expert, begin:, row:, :], a_word)
    gs = hx.global_view(strip[expert, begin:, total * WORDS + row :], a_strip)
    gz = hx.global_view(strip[expert, begin:, total * (WORDS + 1) + row :], a_strip)
    return gq, gs, gz


@hx.device
def ask(views, tiles, step):
    """Starts to bring what `step` multiplies."""
    for view, tile in zip(views, tiles):
        hx.copy(view[:, :, :, step], tile)


@hx.device
def accumulate(rc, tiles, sx, step):
    """rc += the products of the groups in `tiles`, which meet x at `step` of sx."""
    rq, scale, zero = tiles
    depth = rq.shape[2]
    for d in hx.static_range(depth):
        part = hx.register_tensor(f32, rc.shape)
        hx.fill(part, 0.0)
        for place in hx.static_range(GROUP // WORDS):
            rx = hx.register_tensor(f16, (sx.shape[0], WORDS))
            first = (step * depth + d) * GROUP + place * WORDS
            hx.copy(sx[:, hx.ds(first, WORDS)], rx)
            hx.gemm(part, differences(rq[:, :, d], place, zero[:, :, d]), rx)
        rc += part * scale[:, :, d]


@hx.device
def bring(x, tops, column, sx, early):
    """sx = rows of x from `column` on: each from one of `tops`, or as they follow one top."""
    if early:
        hx.primitive("griddepcontrol.wait")
    high = sx.shape[0] // len(tops)
    for i, top in enumerate(tops):
        at = ((high, sx.shape[1]), (x.shape[1], 1))
        hx.copy(hx.global_view(x[top:, column:], at), sx[i * high : (i + 1) * high, :])
    hx.syncthreads()


@hx.device
def products(x, q, strip, expert, total, tops, row, far, begin, sx, rc, depth, early):
    """rc = the weights of its rows, two lots of them `far` apart, times those of x from `tops` on,
    over as many groups as sx has room for. While one step is multiplied, the next is on its way."""
    rows, steps = rc.shape[0], sx.shape[1] // (GROUP * depth)
    views = weights_of(q, strip, expert, total, row, rows // 2, far, begin, depth, steps)
    shapes = (u16, WORDS), (f16, 1), (f16, 1)
    now = [hx.register_tensor(t, (rows, wide, depth)) for t, wide in shapes]
    hx.fill(rc, 0.0)
    ask(views, now, 0)
    bring(x, tops, begin * GROUP, sx, early)
    if steps > 1:
        after = [hx.register_tensor(t, (rows, wide, depth)) for t, wide in shapes]
        for half in range(steps // 2):
            ask(views, after, 2 * half + 1)
            accumulate(rc, now, sx, 2 * half)
            if 2 * half + 2 < steps:
                ask(views, now, 2 * half + 2)
            accumulate(rc, after, sx, 2 * half + 1)
    if steps % 2:
        accumulate(rc, now, sx, steps - 1)


@hx.kernel
def gated_product(
    x: f16[tokens, hidden],
    q: u16[experts, groups, lines, 32],
    strip: f16[experts, groups, halves],
    expert: i32[blocks],
    token: i32[rows],
    h: f16[rows, width],
    *,
    BM: int = 8,
    BN: int = 128,
    DEPTH: int = 7,
    STEPS: int = 1,
    SPLIT: int = 8,
    WARPS: int = 4,
    BLOCKS: int = 2,
    EARLY: bool = True,
):
    """h = silu(x gate^T) * (x up^T), where the first half of an expert's rows are its gate's."""
    columns, wide = BN // 2, BM // SPLIT
    across = hx.cdiv(width, columns)
    hx.attrs.cuda.grid_dim = SPLIT, across, blocks
    hx.attrs.cuda.cluster_dim = SPLIT
    hx.attrs.cuda.block_dim = 32 * WARPS
    hx.attrs.cuda.min_blocks = BLOCKS
    rank, column, block = hx.blockIdx.x, hx.blockIdx.y * columns, hx.blockIdx.z
    sx = hx.shared_tensor(f16, (BM, GROUP * DEPTH * STEPS))
    parts = hx.shared_tensor(f32, (BN, BM))
    if EARLY:
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
    mine = number(expert, block)
    if mine >= 0:
        tops = [number(token, block * BM + r) for r in range(BM)]
        rc = hx.register_tensor(f32, (BN, BM))
        begin = rank * (DEPTH * STEPS)
        products(x, q, strip, mine, 2 * width, tops, column, width, begin, sx, rc, DEPTH, False)
        hx.copy(rc, parts)
        hx.cluster_sync()
        gate, up = (
            hx.register_tensor(f32, (columns, wide)),
            hx.register_tensor(f32, (columns, wide)),
        )
        hx.fill(gate, 0.0)
        hx.fill(up, 0.0)
        for other in hx.static_range(SPLIT):
            theirs = hx.remote(parts[:, hx.ds(rank * wide, wide)], other)
            g, u = (
                hx.register_tensor(f32, (columns, wide)),
                hx.register_tensor(f32, (columns, wide)),
            )
            hx.copy(theirs[:columns, :], g)
            hx.copy(theirs[columns:, :], u)
            gate += g
            up += u
        hx.cluster_sync()
        row = block * BM + rank * wide
        gh = hx.global_view(h[row:, column:], ((columns, wide), (1, width)))
        hx.copy(hx.cast(silu(gate) * up, f16), gh)


@hx.kernel
def weighted_product(
    h: f16[rows, width],
    q: u16[experts, groups, lines, 32],
    strip: f16[experts, groups, halves],
    expert: i32[blocks],
    pair: i32[rows],
    gates: f32[pairs],
    c: f16[pairs, hidden],
    *,
    BM: int = 8,
    BN: int = 128,
    DEPTH: int = 2,
    STEPS: int = 1,
    WARPS: int = 4,
    BLOCKS: int = 4,
    EARLY: bool = True,
):
    """c[pair] = gates[pair] h W2^T of the pair's expert, in the order of pairs."""
    hx.attrs.cuda.grid_dim = hx.cdiv(hidden, BN), blocks
    hx.attrs.cuda.block_dim = 32 * WARPS
    hx.attrs.cuda.min_blocks = BLOCKS
    column, block = hx.blockIdx.x * BN, hx.blockIdx.y
    sx = hx.shared_tensor(f16, (BM, GROUP * DEPTH * STEPS))
    sc = hx.shared_tensor(f32, (BN, BM))
    if EARLY:
        hx.primitive("griddepcontrol.launch")
    mine = number(expert, block)
    if mine >= 0:
        owners = [number(pair, block * BM + r) for r in range(BM)]
        factors = [hx.register_tensor(f32, (1, 1)) for _ in owners]
        for p, factor in zip(owners, factors):
            at = hx.minimum(p, pairs - 1)
            hx.copy(hx.global_view(gates[at:], ((1, 1), (1, 1))), factor)
        rc, far = hx.register_tensor(f32, (BN, BM)), BN // 2
        products(h, q, strip, mine, hidden, (block * BM,), column, far, 0, sx, rc, DEPTH, EARLY)
        hx.copy(rc, sc)
        hx.syncthreads()
        for r, p in enumerate(owners):
            if p < pairs:
                one = hx.register_tensor(f32, (BN, 1))
                hx.copy(sc[:, r : r + 1], one)
                gc = hx.global_view(c[p:, column:], ((BN, 1), (1, hidden)))
                hx.copy(hx.cast(one * factors[r], f16), gc)
