"""`picture()` draws what the layouts say: the threads and values of the whole tile, banks by
colour."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

import hexcute_core as hx
from cute_layout.grid import SPECTRUM
from hexcute_core import f16, f32, f64, i8

SVG = "{http://www.w3.org/2000/svg}"


def transposed(dtype, rows, columns):
    @hx.kernel(cache=False)
    def transpose(x: dtype[rows, columns], y: dtype[columns, rows]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(dtype, (rows, columns))
        s = hx.shared_tensor(dtype, (rows, columns))
        q = hx.register_tensor(dtype, (rows, columns))
        hx.copy(hx.global_view(x, ((rows, columns), (columns, 1))), r)
        hx.copy(r, s)
        hx.syncthreads()
        hx.copy(s, q)
        hx.copy(q, hx.global_view(y, ((rows, columns), (1, rows))))

    return transpose.compile("sm_90")


def copied(dtype, shape):
    steps = {1: (1,), 3: (shape[-1] * shape[-2], shape[-1], 1) if len(shape) == 3 else ()}

    @hx.kernel(cache=False)
    def copy(x: dtype[shape], y: dtype[shape]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(dtype, shape)
        hx.copy(hx.global_view(x, (shape, steps[len(shape)])), r)
        hx.copy(r, hx.global_view(y, (shape, steps[len(shape)])))

    return copy.compile("sm_80")


def panels(compiled):
    """Of each panel: its name, and its cells' colours and words, in rows."""
    root = ElementTree.fromstring(compiled.picture())
    names = [node.text for node in root if node.tag == f"{SVG}text"]
    for name, svg in zip(names, [node for node in root if node.tag == f"{SVG}svg"]):
        cells = []
        for node in svg:
            if node.text == "bank:":
                break
            if node.tag == f"{SVG}rect" and "stroke" in node.attrib:
                cells.append((int(node.get("y")), node.get("fill"), []))
            elif node.tag == f"{SVG}text" and cells and "fill" not in node.attrib:
                cells[-1][2].append(node.text)
        rows: dict[int, list] = {}
        for y, fill, words in cells:
            rows.setdefault(y, []).append((fill, words))
        yield name, list(rows.values()), ["".join(node.itertext()) for node in svg]


def corner(rank, i, j):
    return (j,) if rank == 1 else (i, j, *(0,) * (rank - 2))


@pytest.mark.parametrize(
    "compiled",
    [
        pytest.param(lambda: transposed(f16, 64, 64), id="f16"),
        pytest.param(lambda: transposed(f32, 16, 48), id="f32"),
        pytest.param(lambda: transposed(f64, 40, 8), id="f64"),
        pytest.param(lambda: copied(f32, (229,)), id="one mode"),
        pytest.param(lambda: copied(f32, (4, 40, 6)), id="three modes"),
        pytest.param(lambda: copied(f32, (8,)), id="held by many"),
    ],
)
def test_the_threads_drawn_hold_the_elements(compiled):
    compiled = compiled()
    drawn = 0
    for name, rows, words in panels(compiled):
        if "registers" not in name:
            continue
        f = compiled.solution.fragments[name.split(":")[0].split(",")[0]]
        rank = len(f.shape)
        extents = (1, f.shape[0]) if rank == 1 else f.shape[:2]
        assert (len(rows), len(rows[0])) == tuple(min(e, 32) for e in extents)
        assert str(f) in words[1]
        held: dict[tuple[int, ...], list[tuple[str, str]]] = {}
        for t in range(f.threads):
            for v in range(f.values):
                held.setdefault(f.coord(t, v), []).append((f"T{t}", f"V{v}"))
        for i, row in enumerate(rows):
            for j, (fill, text) in enumerate(row):
                owners = held[corner(rank, i, j)]
                assert tuple(text[:2]) in owners
                assert text[2:] == ([f"+{len(owners) - 1}"] if len(owners) > 1 else [])
                assert fill == rows[0][j][0] or text[0] != rows[0][j][1][0]
                drawn += 1
    assert drawn


@pytest.mark.parametrize(
    "dtype, rows, columns",
    [(f16, 64, 64), (f32, 32, 32), (f64, 16, 16), (i8, 64, 64), (f16, 24, 40)],
)
def test_shared_memory_is_coloured_by_bank(dtype, rows, columns):
    compiled = transposed(dtype, rows, columns)
    ((_, cells, words),) = [p for p in panels(compiled) if p[0].startswith("s:")]
    layout = compiled.solution.shared["s"]
    table = {(i, j): layout.layout((i, j)) for i in range(rows) for j in range(columns)}
    if layout.swizzle is not None:
        table = {c: layout.swizzle(offset) for c, offset in table.items()}
    unit = max(1, 32 // dtype.bits)
    numbers = [int(w) for w in words if re.fullmatch(r"\d+", w)]
    across = numbers[: len(cells[0])]
    step = across[1] - across[0]
    down = unit if step == 1 else 1
    for i, row in enumerate(cells):
        for j, (fill, text) in enumerate(row):
            offset = table[i * down, j * step]
            bank = offset * dtype.bits // 32 % 32
            assert text == [str(offset), f"b{bank}"]
            assert fill == SPECTRUM[bank]
    assert [w.strip() for w in words if w.strip().isdigit()][-32:] == [str(k) for k in range(32)]
    assert len(set(SPECTRUM)) == 32


def test_a_swizzle_shows():
    """Rows that would lie in the same banks have another order of colours."""
    compiled = transposed(f16, 64, 64)
    assert compiled.solution.shared["s"].swizzle is not None
    ((_, cells, _),) = [p for p in panels(compiled) if p[0].startswith("s:")]
    orders = {tuple(fill for fill, _ in row) for row in cells}
    assert len(orders) >= 8
