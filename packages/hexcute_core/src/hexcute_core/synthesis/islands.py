"""Islands: components and shared buffers tied together by copies. Islands share no operation, so
each is searched alone: the time grows in proportion to their number, not exponentially.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.synthesis.graph import Component, Graph, WeightedOp
from hexcute_core.tile import Copy, RegisterTensor, SharedTensor
from hexcute_core.tile.visit import tiles


@dataclass(frozen=True)
class Island:
    """Components by index, shared buffers by name, and the copies that touch memory."""

    components: tuple[int, ...]
    buffers: tuple[str, ...]
    copies: tuple[WeightedOp, ...]


def islands(graph: Graph) -> tuple[Island, ...]:
    """The islands of `graph`, in order of their first copy, those without any last."""
    owner = _owners(graph.components)
    parent: dict[object, object] = {i: i for i in range(len(graph.components))}

    def find(x: object) -> object:
        parent.setdefault(x, x)
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    touched: list[tuple[WeightedOp, object]] = []
    for item in graph.ops:
        op = item.op
        if not isinstance(op, Copy):
            # An operation that works on shared memory ties its buffers to its registers.
            found = [(ref.tensor, graph.program.tensor(ref.tensor)) for ref in tiles(op)]
            homes = [owner[name] for name, t in found if isinstance(t, RegisterTensor)]
            for name, tensor in found:
                if isinstance(tensor, SharedTensor) and homes:
                    parent[find(name)] = find(homes[0])
            continue
        nodes: list[object] = []
        registers = 0
        for ref in (op.src, op.dst):
            tensor = graph.program.tensor(ref.tensor)
            if isinstance(tensor, RegisterTensor):
                nodes.append(owner[ref.tensor])
                registers += 1
            elif isinstance(tensor, SharedTensor):
                nodes.append(ref.tensor)
        if registers == 2:
            continue
        nodes = nodes or [("copy", op.id)]
        for node in nodes[1:]:
            parent[find(node)] = find(nodes[0])
        touched.append((item, nodes[0]))
    groups: dict[object, list[WeightedOp]] = {}
    for item, node in touched:
        groups.setdefault(find(node), []).append(item)
    for i in range(len(graph.components)):
        groups.setdefault(find(i), [])
    out = []
    for root, copies in groups.items():
        members = tuple(i for i in range(len(graph.components)) if find(i) == root)
        buffers = tuple(n for n in parent if isinstance(n, str) and find(n) == root)
        out.append(Island(members, buffers, tuple(copies)))
    return tuple(out)


def _owners(components: tuple[Component, ...]) -> dict[str, int]:
    return {name: i for i, c in enumerate(components) for name in c.tensors}
