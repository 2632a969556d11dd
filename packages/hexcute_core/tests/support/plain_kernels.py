"""Kernels of the most usual shapes, whose stages and explanations are kept as texts."""

import hexcute_core as hx
from hexcute_core import f16, f32

m, n, k = hx.dims("m n k")


def register_gemm(a: f16[m, k], b: f16[n, k], c: f32[m, n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    ga = hx.global_view(a[bm:, :], ((64, 32, hx.cdiv(k, 32)), (k, 1, 32)))
    gb = hx.global_view(b[bn:, :], ((64, 32, hx.cdiv(k, 32)), (k, 1, 32)))
    ra, rb = hx.register_tensor(f16, (64, 32)), hx.register_tensor(f16, (64, 32))
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    for i in range(hx.cdiv(k, 32)):
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.gemm(rc, ra, rb)
    hx.copy(rc, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))))


def staged_gemm(a: f16[m, k], b: f16[k, n], c: f16[m, n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    ga = hx.global_view(a[bm:, :], ((64, 32, hx.cdiv(k, 32)), (k, 1, 32)))
    gb = hx.global_view(b[:, bn:], ((64, 32, hx.cdiv(k, 32)), (1, n, 32 * n)))
    sa, sb = hx.shared_tensor(f16, (64, 32)), hx.shared_tensor(f16, (64, 32))
    ra, rb = hx.register_tensor(f16, (64, 32)), hx.register_tensor(f16, (64, 32))
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    for i in range(hx.cdiv(k, 32)):
        hx.copy(ga[:, :, i], sa)
        hx.copy(gb[:, :, i], sb)
        hx.cp_async_commit()
        hx.cp_async_wait(0)
        hx.syncthreads()
        hx.copy(sa, ra)
        hx.copy(sb, rb)
        hx.gemm(rc, ra, rb)
        hx.syncthreads()
    sc = hx.shared_tensor(f16, (64, 64))
    hx.copy(hx.cast(rc, f16), sc)
    hx.syncthreads()
    rd = hx.register_tensor(f16, (64, 64))
    hx.copy(sc, rd)
    hx.copy(rd, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))))


def softmax(x: f32[m, n], y: f32[m, n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 16)
    hx.attrs.cuda.block_dim = 128
    row = hx.blockIdx.x * 16
    rx = hx.register_tensor(f32, (16, 256))
    hx.copy(hx.global_view(x[row:, :], ((16, 256), (n, 1))), rx)
    e = hx.exp(rx - hx.max(rx, 1))
    hx.copy(e / hx.sum(e, 1), hx.global_view(y[row:, :], ((16, 256), (n, 1))))
