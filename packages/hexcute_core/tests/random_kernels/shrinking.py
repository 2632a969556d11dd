"""shrunk: a kernel that fails -> a smaller one that fails alike.

Statements, blocks and parameters are left out and numbers made smaller for as long as Python can
still run the text and what becomes of it stays the same.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from random_kernels.running import Kernel, Outcome, attempt, definition_in, meant

SMALLER = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 128)


def shrunk(kernel: Kernel, outcome: Outcome | None = None, tries: int = 600) -> Kernel:
    """The smallest kernel that is found within `tries` attempts."""
    outcome = outcome or attempt(kernel)
    best, place, changed = kernel, 0, False
    while tries > 0:
        candidate = next(islice(_candidates(best), place, None), None)
        if candidate is None:
            if not changed:
                break
            place, changed = 0, False
        elif candidate != best and _same(candidate, outcome):
            # What now stands at this place is the next candidate.
            best, changed = candidate, True
        else:
            place += 1
        tries -= 1
    return best


def _same(kernel, outcome):
    try:
        meant(kernel)
    except Exception:  # a text that makes no sense to Python is no kernel
        return False
    found = attempt(kernel)
    return (found.kind, found.reason) == (outcome.kind, outcome.reason)


def _candidates(kernel) -> Iterator[Kernel]:
    tree = ast.parse(kernel.text)
    for index in range(_bodies(tree)):
        for start, count in _chunks(len(_body(tree, index))):
            if (made := _without(tree, index, start, count)) is not None:
                yield _with(kernel, made)
    for index in range(sum(1 for _ in _compounds(tree))):
        yield _with(kernel, _unwrapped(tree, index))
    yield from _fewer_parameters(kernel, tree)
    if kernel.offset:
        yield replace(kernel, offset=0)
    yield from _smaller_numbers(kernel, tree)


def _with(kernel, tree):
    return replace(kernel, text=ast.unparse(ast.fix_missing_locations(tree)) + "\n")


def _blocks(tree):
    """Every list of statements within the kernel."""
    for node in ast.walk(definition_in(tree)):
        for name in ("body", "orelse"):
            if isinstance(block := getattr(node, name, None), list) and block:
                yield node, name, block


def _bodies(tree):
    return sum(1 for _ in _blocks(tree))


def _body(tree, index):
    return list(_blocks(tree))[index][2]


def _chunks(length):
    """Runs of statements to leave out, long ones first, from the end."""
    size = length
    while size:
        for start in range(length - size, -1, -size):
            yield start, size
        size //= 2


def _without(tree, index, start, count):
    made = copy.deepcopy(tree)
    node, name, block = list(_blocks(made))[index]
    if any("attrs" in ast.unparse(s) for s in block[start : start + count]):
        return None
    del block[start : start + count]
    if not block and name == "body":
        if isinstance(node, ast.FunctionDef):
            return None
        block.append(ast.Pass())
        if count == 1 and isinstance(_body(tree, index)[0], ast.Pass):
            return None
    return made


def _compounds(tree):
    for node, _, block in _blocks(tree):
        for place, stmt in enumerate(block):
            if isinstance(stmt, (ast.If, ast.For, ast.While, ast.With)):
                yield node, block, place


def _unwrapped(tree, index):
    """A block in place of the statement around it; a loop's variable is 0."""
    made = copy.deepcopy(tree)
    _, block, place = list(_compounds(made))[index]
    stmt = block[place]
    head = []
    if isinstance(stmt, ast.For) and isinstance(stmt.target, ast.Name):
        head = [ast.Assign([stmt.target], ast.Constant(0))]
    block[place : place + 1] = [*head, *stmt.body]
    return made


def _fewer_parameters(kernel, tree):
    used = {n.id for s in definition_in(tree).body for n in ast.walk(s) if isinstance(n, ast.Name)}
    for place, arg in enumerate(definition_in(tree).args.args):
        if arg.arg not in used:
            made = copy.deepcopy(tree)
            del definition_in(made).args.args[place]
            yield _with(kernel, made)
    names = {n.id for n in ast.walk(definition_in(tree)) if isinstance(n, ast.Name)}
    for place, stmt in enumerate(tree.body):
        made = copy.deepcopy(tree)
        if isinstance(stmt, ast.Assign):
            symbols = [e.id for e in stmt.targets[0].elts]
            for symbol in symbols:
                rest = ", ".join(s for s in symbols if s != symbol)
                if symbol not in names:
                    del made.body[place]
                    if rest:
                        made.body[place:place] = ast.parse(f'{rest}, = hx.dims("{rest}")').body
                    yield _with(kernel, made)
                    break
        elif stmt is not definition_in(tree) and stmt.name not in names:
            del made.body[place]
            yield _with(kernel, made)


def _smaller_numbers(kernel, tree):
    """One number made smaller wherever it stands, or a size, or a size written out."""
    for name, value in kernel.sizes:
        for other in SMALLER:
            if other < value:
                sizes = {**dict(kernel.sizes), name: other}
                yield replace(kernel, sizes=tuple(sizes.items()))
        if any(getattr(n, "id", None) == name for n in ast.walk(definition_in(tree))):
            yield _with(kernel, _written_out(tree, name, value))
    numbers = {n.value for n in ast.walk(tree) if type(getattr(n, "value", None)) is int}
    for value in sorted(numbers, reverse=True):
        for other in SMALLER:
            if other < value:
                yield _with(kernel, _renumbered(tree, value, other))


def _written_out(tree, name, value):
    """The parameter or symbol `name` replaced by its value."""
    made = copy.deepcopy(tree)

    class Replace(ast.NodeTransformer):
        def visit_Name(self, node):
            written = ast.Constant(value) if value >= 0 else ast.UnaryOp(
                ast.USub(), ast.Constant(-value))  # fmt: skip
            return written if node.id == name else node

    place = tree.body.index(definition_in(tree))
    made.body[place] = Replace().visit(made.body[place])
    return made


def _renumbered(tree, value, other):
    made = copy.deepcopy(tree)
    for node in ast.walk(made):
        if type(getattr(node, "value", None)) is int and node.value == value:
            node.value = other
    return made
