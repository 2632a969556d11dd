"""Statements that the frontend refuses: their error, its place and its fix."""

import inspect

import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.promise import Promise

m, k = hx.dims("m k")


class Refusals:
    """Bodies of kernels, each with texts that its error must contain."""

    def __init__(self):
        self.params = []

    def case(self, *expected, threads=None):
        """Marks a body whose error must contain each of `expected`; the block has `threads`, else
        those of its roles, else 128."""

        def mark(body):
            self.params.append(pytest.param(body, expected, threads, id=body.__name__))
            return body

        return mark


def check_refused(body, expected, threads):
    """The statements `body(a, n)` are refused at the line that ends in `# here`."""
    message = located(body, lambda: traced(body, threads))
    for text in expected:
        assert text in message, message


def traced(body, threads=None):
    """The tile program of a kernel whose statements are those of `body(a, n)`."""
    function = hx.device(body)
    roles = "warp_groups" in inspect.getsource(body)

    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 1
        if threads is not None:
            hx.attrs.cuda.block_dim = threads
        elif not roles:
            hx.attrs.cuda.block_dim = 128
        function(a, n)

    return trace(define(kernel), {}, Promise())


def located(body, run):
    """The error that `run` raises for `body`; the line that ends in the comment `# here` must be
    the one it names."""
    with pytest.raises(FrontendError) as caught:
        run()
    error = caught.value
    lines, first = inspect.getsourcelines(body)
    marked = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert error.span is not None
    assert error.span.file == inspect.getsourcefile(body)
    assert [error.span.line] == marked, f"{error} is placed at {error.span.line}, not {marked}"
    assert error.fix, str(error)
    return str(error)


def check_tile_refused(body, expected):
    """The statements `body(a, r, q, s, n)`, with an f16 and an f32 register tile and an f16 shared
    one, are refused at the line that ends in `# here`."""
    function = hx.device(body)

    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r, q = hx.register_tensor(f16, (16, 8)), hx.register_tensor(f32, (16, 8))
        s = hx.shared_tensor(f16, (16, 8))
        function(a, r, q, s, n)

    message = located(body, lambda: trace(define(kernel), {}, Promise()))
    for text in expected:
        assert text in message, message


@hx.device
def ring(a):
    """A view of tiles, slots for them, and their pipeline."""
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa = hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2)
    return ga, sa, pipe


@hx.device
def tiles():
    """An accumulator and two operands in shared memory."""
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    sa, sb = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    return rc, sa, sb
