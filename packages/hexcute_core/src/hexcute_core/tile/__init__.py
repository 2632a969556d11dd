"""Tile programs: what the author wrote, tensors and tile operations, no layouts yet."""

from hexcute_core.tile.barriers import (
    BarrierStmt,
    ClusterOp,
    Mbarrier,
    MbarrierOp,
    NamedBarrier,
    NamedBarrierOp,
    Pipeline,
    PipelineRelease,
    PipelineWait,
)
from hexcute_core.tile.digest import digest
from hexcute_core.tile.ir import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GemmWait,
    If,
    Prefetch,
    Produce,
    Rearrange,
    Reduce,
    Relabel,
    Role,
    Scan,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    While,
)
from hexcute_core.tile.remote import Reached, reached
from hexcute_core.tile.says import Say
from hexcute_core.tile.tensors import (
    Arrangement,
    GlobalTensor,
    GlobalView,
    RegisterTensor,
    SharedTensor,
    SubMode,
    Tensor,
    TileRef,
    rows_of,
)
from hexcute_core.tile.updates import Update, UpdateElement, UpdateScope

__all__ = [
    "Arrangement", "Assign", "AsyncCommit", "AsyncWait", "BarrierStmt", "CallStmt", "CastTile",
    "ClusterOp",
    "Copy", "Elementwise", "Fill", "For", "ForElements", "Gemm", "GemmWait", "GlobalTensor",
    "GlobalView", "If", "Mbarrier", "MbarrierOp", "NamedBarrier", "NamedBarrierOp", "Pipeline",
    "PipelineRelease", "PipelineWait", "Prefetch", "Produce", "Reached", "Rearrange", "Reduce",
    "RegisterTensor", "Relabel", "Role", "Say", "Scan", "SetElement", "SharedTensor", "Stmt",
    "SubMode", "Sync", "Tensor", "TileProgram", "TileRef", "Update", "UpdateElement", "UpdateScope",
    "While", "digest", "reached", "rows_of",
]  # fmt: skip
