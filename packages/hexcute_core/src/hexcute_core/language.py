"""The language of kernels: every name that a kernel's author writes after `hx.`"""

from __future__ import annotations

from hexcute_core.dtypes import (
    bf16,
    boolean,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i1,
    i2,
    i4,
    i8,
    i16,
    i32,
    i64,
    tf32,
    u1,
    u2,
    u4,
    u8,
    u16,
    u32,
    u64,
)
from hexcute_core.frontend.functions.symbols import Symbol, dim, dims
from hexcute_core.frontend.language import meaning  # noqa: F401  -- what operators mean to authors
from hexcute_core.frontend.language.atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
)
from hexcute_core.frontend.language.barriers import (
    cluster_arrive,
    cluster_rank,
    cluster_sync,
    cluster_wait,
    elect,
    mbarrier,
    named_barrier,
)
from hexcute_core.frontend.language.copies import copy, prefetch
from hexcute_core.frontend.language.device import device
from hexcute_core.frontend.language.elementwise import (
    absolute,
    cdiv,
    ceil,
    clamp,
    cos,
    erf,
    exp,
    exp2,
    floor,
    isnan,
    log,
    log2,
    maximum,
    minimum,
    rcp,
    rsqrt,
    sin,
    sqrt,
    tanh,
    where,
)
from hexcute_core.frontend.language.folds import reduce
from hexcute_core.frontend.language.gemm import gemm, wait_gemm
from hexcute_core.frontend.language.iota import argmax, argmin, iota
from hexcute_core.frontend.language.launch import Attrs, GridDim, Index
from hexcute_core.frontend.language.loops import elements, grid, persistent, static_range, unroll
from hexcute_core.frontend.language.pipelines import pipeline
from hexcute_core.frontend.language.promises import multiple_of
from hexcute_core.frontend.language.ptx import ptx
from hexcute_core.frontend.language.reads import number
from hexcute_core.frontend.language.relabel import bitcast, reshape, transpose
from hexcute_core.frontend.language.remote import remote
from hexcute_core.frontend.language.roles import warp_groups_consumer, warp_groups_producer
from hexcute_core.frontend.language.says import device_assert, printf
from hexcute_core.frontend.language.scans import cummax, cummin, cumprod, cumsum, scan
from hexcute_core.frontend.language.subscript import ds
from hexcute_core.frontend.language.tileops import (
    cast,
    cp_async_commit,
    cp_async_wait,
    fill,
    max,
    min,
    primitive,
    rearrange,
    register_tensor,
    shared_tensor,
    sum,
    sync_role,
    syncthreads,
)
from hexcute_core.frontend.language.turns import turns
from hexcute_core.frontend.language.views import along, global_view

abs = absolute
select = where
attrs = Attrs()
threadIdx = Index("threadIdx")
blockIdx = Index("blockIdx")
gridDim = GridDim()

__all__ = [
    "Symbol", "abs", "along", "argmax", "argmin", "atomic_add", "atomic_and", "atomic_cas",
    "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "attrs", "bf16",
    "bitcast", "blockIdx", "boolean", "cast", "cdiv", "ceil", "clamp", "cluster_arrive",
    "cluster_rank", "cluster_sync", "cluster_wait", "copy", "cos", "cp_async_commit",
    "cp_async_wait", "cummax", "cummin", "cumprod", "cumsum", "device", "device_assert", "dim",
    "dims", "ds", "elect", "elements", "erf", "exp", "exp2", "f16", "f32", "f64", "f8e4m3",
    "f8e5m2", "fill", "floor", "gemm", "global_view", "grid", "gridDim", "i1", "i16", "i2", "i32",
    "i4", "i64", "i8", "iota", "isnan", "log", "log2", "max", "maximum", "mbarrier", "min",
    "minimum", "multiple_of", "named_barrier", "number", "persistent", "pipeline", "prefetch",
    "primitive", "printf", "ptx", "rcp", "rearrange", "reduce", "register_tensor", "remote",
    "reshape", "rsqrt", "scan", "select", "shared_tensor", "sin", "sqrt", "static_range", "sum",
    "sync_role", "syncthreads", "tanh", "tf32", "threadIdx", "transpose", "turns", "u1", "u16",
    "u2", "u32", "u4", "u64", "u8", "unroll", "wait_gemm", "warp_groups_consumer",
    "warp_groups_producer", "where",
]  # fmt: skip
