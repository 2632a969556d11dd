"""c = x ((q - zero) * scale)^T in one launch where tiles are few: the blocks of a cluster share k.

As `grouped` has a dense product, but each of the SPLIT blocks of a cluster multiplies a part of k
for the same tile. Sums meet in shared memory and are added in one order, so that the bits are
always the same: those of tiles of many rows are sent while they lie in registers, those of few rows
are read from where every block left its own.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, u16
from hexcute_kernels.moe.forms import PLAIN, Weights
from hexcute_kernels.moe.grouped import REGISTERS
from hexcute_kernels.moe.slots import load_slots, multiply_in_turns, ring
from hexcute_kernels.parts.schedule import await_launch_ahead
from hexcute_kernels.parts.split import exchanged, owners, part_of, summed

t, k, n, groups, lines, halves = hx.dims("t k n groups lines halves")

MANY = 64
"""Rows of a tile from which on sums are sent."""


@cache
def joined_gemm(held: Weights = PLAIN, dtype: hx.DType = f16) -> hx.Kernel:
    """The kernel of weights as they are `held`, which it rounds, and of x and c in `dtype`. Its
    parameters are those of `w4a16_gemm`, "dense", its constants those of `JoinedConfig`; no part of
    k is empty."""

    @hx.kernel
    def w4a16_joined(
        x: dtype[t, k],
        q: u16[1, groups, lines, 32],
        strip: f16[1, groups, halves],
        c: dtype[t, n],
        *,
        BM: int = 128,
        BN: int = 256,
        STAGES: int = 3,
        GROUPS: int = 2,
        SPLIT: int = 2,
    ):
        half, block, many = BN // 2, held.form.block, BM >= MANY
        down = hx.cdiv(t, BM)
        hx.attrs.cuda.block_dim = 128 * (GROUPS + 1)
        hx.attrs.cuda.cluster_dim = SPLIT
        hx.attrs.cuda.grid_dim = SPLIT * down * hx.cdiv(n, BN)
        tile = hx.blockIdx.x // SPLIT
        first, start = tile % down * BM, tile // down * BN
        begin, count = part_of(groups, SPLIT)
        adding, rank = owners(BM, SPLIT), hx.cluster_rank()
        width = BM // adding
        registers = REGISTERS.get((1, GROUPS), (None, None)) if many else (None, None)
        slots = ring(BM, half, STAGES, held, dtype, "")
        if many:
            received = [hx.shared_tensor(f32, (half, width, SPLIT - 1)) for _ in range(2)]
            arrived = [hx.mbarrier(SPLIT - 1) for _ in range(2)]
            hx.cluster_arrive()
        else:
            sums = hx.shared_tensor(f32, (BN, BM))
        await_launch_ahead()

        with hx.warp_groups_producer(registers=registers[0]):
            gx = hx.global_view(x[first:, :], ((BM, block, groups), (k, 1, block)))
            load_slots(gx, q, strip, 0, (start, start + half), n, begin, count, slots)

        with hx.warp_groups_consumer(GROUPS, registers=registers[1]):
            rcs = [hx.register_tensor(f32, (half, BM)) for _ in range(2)]
            for rc in rcs:
                hx.fill(rc, 0.0)
            multiply_in_turns(rcs, slots, count, False, held.form)
            if many:
                hx.cluster_wait()
            for j, rc in enumerate(rcs):
                if many:
                    total = exchanged(rc, received[j], arrived[j], adding, rank, 128)
                    if rank < adding:
                        # What was received has been added: there is room for the result.
                        there = received[j][:, :, 0]
                        hx.sync_role()
                        hx.copy(total, there)
                        hx.sync_role()
                        r = hx.register_tensor(f32, (half, width))
                        hx.copy(there, r)
                        place = c[first + rank * width :, start + j * half :]
                        hx.copy(hx.cast(r, dtype), hx.global_view(place, ((half, width), (1, n))))
                else:
                    hx.copy(rc, sums[j * half : (j + 1) * half, :])

        if not many:
            total, row = summed(sums, SPLIT)
            place = c[first:, start + row :]
            hx.copy(hx.cast(total, dtype), hx.global_view(place, (total.shape, (1, n))))

    return w4a16_joined
