"""only : operation -> the instruction or the arrangement that an author allows for it alone.

The search is narrowed to these.

Keys and values are the words of `explain()`: "copy ga -> sa" to an instruction's name, "gemm rc" to
the arrangement of its warps or warp groups, "4x2" for four along M and two along N.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from hexcute_core.arch import Arch
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis.candidates import anchors
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.options import CopyOptions
from hexcute_core.synthesis.propagate import component_rules, parts_of
from hexcute_core.synthesis.solution import Solution, subject
from hexcute_core.tile import Copy, Gemm, Stmt, TileProgram
from hexcute_core.tile.visit import change, statements

Only: TypeAlias = Mapping[str, str]
_ARRANGEMENT = re.compile(r"(\d+)x(\d+)")


def arranged(program: TileProgram, only: Only) -> TileProgram:
    """`program` with the arrangements that `only` names; copies are narrowed where their options
    are made. Raises NoLayout for a key that names no operation, or no arrangement."""
    if not only:
        return program
    known = dict.fromkeys(
        subject(s) for s in statements(program.body) if isinstance(s, (Copy, Gemm))
    )
    for key, value in only.items():
        if key not in known:
            raise NoLayout(
                f"{program.name} has no operation `{key}` to narrow to {value}",
                program.span,
                f"name one of {', '.join(known)}",
            )

    def narrowed(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, Gemm) or subject(stmt) not in only:
            return (stmt,)
        wanted = only[subject(stmt)]
        found = _ARRANGEMENT.fullmatch(wanted)
        if found is None:
            raise NoLayout(
                f"`{wanted}` is no arrangement of the warps of a gemm",
                stmt.span,
                'write how many along M and along N, as in "4x2"',
            )
        return (replace(stmt, warps=(int(found[1]), int(found[2]))),)

    return replace(program, body=change(program.body, narrowed))


def alternatives(solution: Solution, arch: Arch) -> tuple[tuple[str, str], ...]:
    """(operation, what else could carry it) for every copy and gemm, as `only` takes them: each
    instruction that the chosen layouts admit, each arrangement of warps."""
    return tuple(dict.fromkeys(_alternatives(solution, arch)))


def _alternatives(solution: Solution, arch: Arch) -> Iterator[tuple[str, str]]:
    graph = build_graph(solution.program)
    options = CopyOptions(graph, arch)
    chosen = {
        (subject(s), plan.name)
        for s in statements(solution.program.body)
        if isinstance(s, Copy)
        for plan in (solution.copies.get(s.id), solution.bulk.get(s.id))
        if plan is not None
    }
    for item in graph.ops:
        op = item.op
        if isinstance(op, Copy) and not all(map(graph.is_register, (op.src, op.dst))):
            for option in options.of(item, solution.fragments).choices:
                if (subject(op), option.plan.name) not in chosen:
                    yield subject(op), option.plan.name
    for component in graph.components:
        parts = parts_of(graph, component, component_rules(component))
        for item in component.ops:
            if isinstance(item.op, Gemm) and item.op.warps is None:
                plan = solution.gemms.get(item.op.id) or solution.wgmmas[item.op.id]
                for anchor in anchors(graph, arch, component, parts, item.op):
                    if anchor.groups != plan.groups:
                        yield subject(item.op), f"{anchor.groups[0]}x{anchor.groups[1]}"
