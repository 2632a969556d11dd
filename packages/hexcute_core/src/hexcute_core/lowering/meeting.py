"""Pipelines of which a slot is released where the threads of its team may not have met since the
wait for it.

    wait for a slot -> wgmma -> wait for wgmma -> release     one thread may release for its group

The four warps of a group run a wgmma together: when one of them sees it done, all have passed the
waits ahead of it. Without one a warp that comes late to its wait could find the slot filled once
more, and wait for a round that is over. There each warp has to release for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hexcute_core.tile import (
    Assign,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    Gemm,
    If,
    PipelineRelease,
    PipelineWait,
    Prefetch,
    Produce,
    Rearrange,
    Reduce,
    Relabel,
    Role,
    Scan,
    Stmt,
    TileProgram,
    While,
)
from hexcute_core.tile.barriers import ClusterOp, MbarrierOp, NamedBarrierOp
from hexcute_core.tile.ir import (
    AsyncCommit,
    AsyncWait,
    CallStmt,
    ForElements,
    GemmWait,
    SetElement,
    Sync,
)
from hexcute_core.tile.says import Say
from hexcute_core.tile.updates import UpdateElement
from hexcute_core.unions import assert_never

_WAITED, _MULTIPLIES, _MET = range(3)
_Stages = Mapping[str, int]
"""How far a team is since its last wait at each pipeline; those that are not named have met."""


def released_apart(program: TileProgram, wgmmas: Collection[int]) -> frozenset[str]:
    """The pipelines with such a release; `wgmmas` are the gemms that warp groups run."""
    found = _Releases(wgmmas)
    found.after(program.body, {})
    return frozenset(found.apart)


@dataclass
class _Releases:
    wgmmas: Collection[int]
    apart: set[str] = field(default_factory=set)

    def after(self, body: Iterable[Stmt], stages: _Stages) -> _Stages:
        """How far the team is behind these statements."""
        for stmt in body:
            stages = self._behind(stmt, stages)
        return stages

    def _behind(self, stmt: Stmt, stages: _Stages) -> _Stages:
        match stmt:
            case PipelineWait():
                return {**stages, stmt.pipeline: _WAITED}
            case PipelineRelease():
                if stages.get(stmt.pipeline, _MET) != _MET:
                    self.apart.add(stmt.pipeline)
                return stages
            case Gemm() if stmt.id in self.wgmmas:
                least = _MULTIPLIES if stmt.asynchronous else _MET
                return {name: max(stage, least) for name, stage in stages.items()}
            case GemmWait():
                return {n: _MET if s == _MULTIPLIES else s for n, s in stages.items()}
            case Sync():
                return {}
            case Role():
                self.after(stmt.body, {})
                return stages
            case If():
                return _least(self.after(stmt.then, stages), self.after(stmt.otherwise, stages))
            case For() | While():
                # Behind any number of rounds, none among them.
                while (again := _least(stages, self.after(stmt.body, stages))) != stages:
                    stages = again
                return stages
            case Produce() | ForElements():
                return self.after(stmt.body, stages)
            case (
                Gemm() | Copy() | Prefetch() | Rearrange() | Fill() | CastTile() | Relabel()
                | Elementwise() | Reduce() | Scan() | AsyncCommit() | AsyncWait() | Assign()
                | CallStmt() | SetElement() | MbarrierOp() | NamedBarrierOp() | ClusterOp()
                | UpdateElement() | Say()
            ):  # fmt: skip
                return stages
            case _:
                assert_never(stmt)


def _least(one: _Stages, other: _Stages) -> _Stages:
    """The less far of two ways to come to a place."""
    names = one.keys() | other.keys()
    least = {name: min(one.get(name, _MET), other.get(name, _MET)) for name in names}
    return {name: stage for name, stage in least.items() if stage != _MET}
