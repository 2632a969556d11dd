"""Random operations on register tiles and their parts, against numpy."""

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import hexcute_core as hx
from hexcute_core import i16, i32
from hexcute_core.simulator import interpret

m, n = hx.dims("m n")
TARGETS = ("sm_80", "sm_90")


def chosen(parts):
    """A part by number, or all of the tile."""
    return st.one_of(st.none(), st.integers(0, parts - 1))


def steps(parts):
    tile, part = st.integers(0, 1), chosen(parts)
    number = st.integers(-3, 3)
    return st.lists(
        st.one_of(
            st.tuples(st.just("scale"), tile, part, number),
            st.tuples(st.just("fill"), tile, part, number),
            st.tuples(st.just("sum"), tile, st.integers(0, parts - 1)),
            st.tuples(st.just("fall"), tile, part),
            st.tuples(st.just("scan"), tile, part, st.integers(0, 1)),
            st.tuples(st.just("narrow"), tile, part),
            st.tuples(st.just("move"), tile, part),
            st.tuples(st.just("store"), tile, part),
            *(
                st.tuples(st.just(op), tile, tile, *(2 * (which,)))
                for op in ("add", "copy", "elements")
                for which in (st.none(), st.integers(0, parts - 1))
            ),
            st.tuples(st.just("shift"), tile),
        ),
        min_size=1,
        max_size=6,
    )


def at(tile, part):
    return tile if part is None else tile[:, :, part]


@hx.device
def take_step(step, tiles, shared):
    op, t = step[0], tiles[step[1]]
    if op == "shift":
        t[:, :, 1:] = t[:, :, : t.shape[2] - 1]
    elif op == "sum":
        t[:, :, step[2] : step[2] + 1] = hx.sum(t, 2)
    elif op == "add":
        one = at(t, step[3])
        one += at(tiles[step[2]], step[4])
    elif op == "copy":
        hx.copy(at(tiles[step[2]], step[4]), at(t, step[3]))
    elif op == "elements":
        u = tiles[step[2]]
        if step[3] is None:
            for i, j, p in hx.elements(t):
                t[i, j, p] = u[i, j, p] * 2 + i - p
        else:
            for i, j in hx.elements(at(t, step[3])):
                t[i, j, step[3]] = u[i, j, step[4]] * 2 + i
    else:
        one = at(t, step[2])
        if op == "scale":
            one *= step[3]
        elif op == "fill":
            hx.fill(one, step[3])
        elif op == "fall":
            one -= hx.max(one, 1)
        elif op == "scan":
            hx.copy(hx.cumsum(one, step[3]), one)
        elif op == "narrow":
            hx.copy(hx.cast(hx.cast(one, i16), i32), one)
        elif op == "move":
            hx.copy(hx.rearrange(one) + 1, one)
        else:
            hx.copy(one, at(shared, step[2]))
            hx.syncthreads()
            hx.copy(at(shared, step[2]), one)
            hx.syncthreads()


def take_step_in_numpy(step, tiles):
    op, t = step[0], tiles[step[1]]
    if op == "shift":
        t[:, :, 1:] = t[:, :, :-1].copy()
    elif op == "sum":
        t[:, :, step[2]] = t.sum(2)
    elif op in ("add", "copy", "elements"):
        u = at(tiles[step[2]], step[4]).copy()
        i, *_, p = np.indices(u.shape, dtype=np.int32)
        if op == "elements":
            u = u * 2 + i - (p if step[3] is None else 0)
        at(t, step[3])[...] = u + (at(t, step[3]) if op == "add" else 0)
    else:
        one = at(t, step[2])
        if op == "scale":
            one *= step[3]
        elif op == "fill":
            one[...] = step[3]
        elif op == "fall":
            one -= one.max(1, keepdims=True)
        elif op == "scan":
            one[...] = np.cumsum(one, step[3], dtype=np.int32)
        elif op == "narrow":
            one[...] = one.astype(np.int16)
        elif op == "move":
            one += 1


@given(
    data=st.data(),
    parts=st.integers(2, 3),
    shape=st.sampled_from([(16, 8), (33, 7), (5, 12), (1, 1)]),
    threads=st.sampled_from([32, 96]),
    target=st.sampled_from(TARGETS),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_random_operations_on_wholes_and_parts(data, parts, shape, threads, target):
    program = tuple(data.draw(steps(parts)))
    rows, columns = shape

    @hx.kernel(cache=False)
    def kern(x: i32[m, n], y: i32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        view, part = ((rows, columns, parts), (n, 1, columns)), ((rows, columns), (n, 1))
        first = hx.register_tensor(i32, (rows, columns, parts))
        second = hx.register_tensor(i32, first.shape)
        shared = hx.shared_tensor(i32, first.shape)
        hx.copy(hx.global_view(x, view), first)
        for i in hx.static_range(parts):
            hx.copy(hx.global_view(x[rows:, i * columns :], part), second[:, :, i])
        for step in program:
            take_step(step, (first, second), shared)
        hx.copy(second, hx.global_view(y[rows:, :], view))
        for i in hx.static_range(parts):
            hx.copy(first[:, :, i], hx.global_view(y[:, i * columns :], part))

    width = columns * parts
    x = np.random.default_rng(0).integers(-9, 10, (2 * rows, width)).astype(np.int32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    halves = x[:rows], x[rows:]
    tiles = [a.reshape(rows, parts, columns).transpose(0, 2, 1).copy() for a in halves]
    for step in program:
        take_step_in_numpy(step, tiles)
    want = np.concatenate([t.transpose(0, 2, 1).reshape(rows, width) for t in tiles])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hx.RearrangeWarning)
        compiled = kern.compile(target, aligned=False, verify=True)
        compiled.simulate(x, y)
    interpret(compiled.tile, {"x": x, "y": z}, {"m": 2 * rows, "n": width})
    np.testing.assert_array_equal(z, want)
    np.testing.assert_array_equal(y, want)
