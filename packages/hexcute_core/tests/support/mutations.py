"""A thread program without each of its synchronising statements, one at a time."""

from dataclasses import replace

from hexcute_core.thread import Prim

SYNCHRONISING = (
    "bar.", "cp.async.commit", "cp.async.wait", "cp.async.mbarrier", "mbarrier.", "fence.",
    "tma.commit", "tma.wait", "wgmma.fence", "wgmma.commit", "wgmma.wait", "cluster.",
)  # fmt: skip


def _without(stmts):
    for i, stmt in enumerate(stmts):
        if isinstance(stmt, Prim) and stmt.name.startswith(SYNCHRONISING):
            yield (*stmts[:i], *stmts[i + 1 :]), stmt
        for name in ("body", "then", "otherwise"):
            for part, gone in _without(getattr(stmt, name, ())):
                yield (*stmts[:i], replace(stmt, **{name: part}), *stmts[i + 1 :]), gone


def mutants(program):
    """Pairs of a program and the statement that it lacks."""
    for body, gone in _without(program.body):
        yield replace(program, body=body), gone
