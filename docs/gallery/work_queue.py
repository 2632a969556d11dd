"""Work of uneven size, shared out while the kernel runs: blocks that stay take the next piece from
a counter in global memory, `taken[0]`, which is 0 at the launch.

What the counter held is known to all threads of a block, so it may say which rows they read, and
when they stop. In roles one takes the number, and the others learn it from a slot of a pipeline.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, k = hx.dims("m n k")


@hx.kernel
def ragged_sums(
    x: f32[m, n], length: i32[m], order: i32[m], taken: i32[1], y: f32[m, 1], blocks: i32,
    *, BN: int = 256,
) -> None:  # fmt: skip
    """y[r] = the sum of the first length[r] numbers of row r. `order` names the rows, the longest
    first: a long row that comes last would be waited for."""
    hx.attrs.cuda.grid_dim = blocks
    hx.attrs.cuda.block_dim = 128
    place = hx.atomic_add(taken, 0, 1)
    while place < m:
        row, total = order[place], hx.register_tensor(f32, (1, 1))
        last = length[row]
        hx.fill(total, 0.0)
        for at in range(0, last, BN):
            r = hx.register_tensor(f32, (1, BN))
            hx.copy(hx.global_view(x[row:, at:], ((1, BN), (n, 1))), r)
            total += hx.sum(hx.where(hx.iota((1, BN), 1) < last - at, r, 0.0), 1)
        hx.copy(total, hx.global_view(y[row:, :], ((1, 1), (1, 1))))
        place = hx.atomic_add(taken, 0, 1)


@hx.kernel
def queued_gemm(
    a: f16[m, k], b: f16[n, k], c: f16[m, n], taken: i32[1], blocks: i32, *, STAGES: int = 3
) -> None:
    """c = a b^T: the producer takes tiles of 128 x 64, the multipliers are told which."""
    hx.attrs.cuda.grid_dim = blocks
    columns, depth = hx.cdiv(n, 64), hx.cdiv(k, 64)
    tiles = hx.cdiv(m, 128) * columns
    sa, sb = hx.shared_tensor(f16, (128, 64, STAGES)), hx.shared_tensor(f16, (64, 64, STAGES))
    pipe, told, number = hx.pipeline(STAGES), hx.pipeline(2), hx.shared_tensor(i32, (1, 2))
    with hx.warp_groups_producer(registers=40):
        tile = hx.atomic_add(taken, 0, 1)
        while tile < tiles:
            with told.produce() as t:
                hx.fill(number[:, t], tile)
            bm, bn = tile // columns * 128, tile % columns * 64
            ga = hx.global_view(a[bm:, :], ((128, 64, depth), (k, 1, 64)))
            gb = hx.global_view(b[bn:, :], ((64, 64, depth), (k, 1, 64)))
            for i in range(depth):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
            tile = hx.atomic_add(taken, 0, 1)
        with told.produce() as t:
            hx.fill(number[:, t], tile)
    with hx.warp_groups_consumer(2, registers=232):
        with told.consume() as t:
            tile = hx.number(number[:, t])
        while tile < tiles:
            rc = hx.register_tensor(f32, (128, 64))
            hx.fill(rc, 0.0)
            for _ in range(depth):
                with pipe.consume() as s:
                    hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            bm, bn = tile // columns * 128, tile % columns * 64
            hx.copy(hx.cast(rc, f16), hx.global_view(c[bm:, bn:], ((128, 64), (n, 1))))
            with told.consume() as t:
                tile = hx.number(number[:, t])
