"""The fingerprint changes with everything a trace can see, and with nothing else."""

import importlib.util
import itertools
import os
import subprocess
import sys
import textwrap

import hexcute_core as hx
from hexcute_core import f16
from hexcute_core.frontend import define, fingerprint

COUNTER = itertools.count()

KERNEL = """
import hexcute_core as hx
from hexcute_core import f16
import helpers_{n} as helpers
from helpers_{n} import scale as scaled

m, k = hx.dims("m k")
WIDTH = 64
TABLE = {{"a": (1, 2), "b": [3.5]}}
UNUSED = 1

@hx.device
def store(r, s):
    hx.copy(r, s)
    return deeper(r)

def deeper(x):
    return x + helpers.OFFSET

def kernel(a: f16[m, k], *, BM: int = WIDTH):
    hx.attrs.cuda.grid_dim = scaled(BM) + TABLE["a"][0]
    hx.attrs.cuda.block_dim = helpers.threads()
    store(hx.register_tensor(f16, (8, 8)), hx.shared_tensor(f16, (8, 8)))

def bystander():
    return 1
"""

HELPERS = """
OFFSET = 3

class Shape:
    size = 4
    def area(self):
        return self.size * 2

def scale(x):
    return x * inner(x)

def inner(x):
    return 2 + Shape().area()

def threads():
    return 32

def never_called():
    return 5
"""


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def digest(tmp_path, kernel=("", ""), helpers=("", "")):
    """The fingerprint of the two modules above after replacing one text by another in each."""
    number = next(COUNTER)
    for (old, _), text in ((kernel, KERNEL), (helpers, HELPERS)):
        assert old in text
    first, second = tmp_path / f"helpers_{number}.py", tmp_path / f"kernels_{number}.py"
    first.write_text(HELPERS.replace(*helpers) if helpers[0] else HELPERS)
    text = KERNEL.format(n=number)
    # The number in the import line is no part of any function.
    second.write_text(text.replace(*kernel) if kernel[0] else text)
    load(first, f"helpers_{number}")
    return fingerprint(define(load(second, f"kernels_{number}").kernel))


def test_it_is_stable(tmp_path):
    assert digest(tmp_path) == digest(tmp_path)


def test_edits_that_change_it(tmp_path):
    base = digest(tmp_path)
    edits = [
        {"kernel": ("hx.shared_tensor(f16, (8, 8))", "hx.shared_tensor(f16, (8, 8) )")},
        {"kernel": ("WIDTH = 64", "WIDTH = 65")},
        {"kernel": ('"b": [3.5]', '"b": [3.6]')},
        {"kernel": ("    hx.copy(r, s)", "    hx.copy(s, r)")},
        {"kernel": ("return x + helpers.OFFSET", "return x - helpers.OFFSET")},
        {"helpers": ("OFFSET = 3", "OFFSET = 4")},
        {"helpers": ("return x * inner(x)", "return inner(x) * x")},
        {"helpers": ("return 2 + Shape", "return 3 + Shape")},
        {"helpers": ("size = 4", "size = 5")},
        {"helpers": ("return self.size * 2", "return self.size * 3")},
        {"helpers": ("return 32", "return 64")},
    ]
    changed = [digest(tmp_path, **edit) for edit in edits]
    assert base not in changed
    assert len(set(changed)) == len(changed)


def test_edits_that_do_not_change_it(tmp_path):
    base = digest(tmp_path)
    assert digest(tmp_path, kernel=("return 1", "return 2")) == base
    assert digest(tmp_path, kernel=("UNUSED = 1", "UNUSED = 2")) == base
    assert digest(tmp_path, helpers=("return 5", "return 6")) == base
    assert digest(tmp_path, kernel=("UNUSED = 1", "UNUSED = 1\n\n\n")) == base


def made(value, helper=None):
    m, k = hx.dims("m k")

    def kernel(a: f16[m, k]):
        return value, helper

    return fingerprint(define(kernel))


class Plain:
    def __init__(self, x):
        self.x = x


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


def test_captured_values_count_by_their_content():
    pairs = [
        (1, 2), (1, 1.0), (1, True), ("a", "b"), ((1, 2), [1, 2]), ({1: 2}, {1: 3}),
        ({1, 2}, {1, 3}), (hx.f16, hx.bf16), (hx.dim("x"), hx.dim("x", multiple_of=2)),
        (None, 0), (b"a", "a"),
        (Plain(1), Plain(2)), (Slotted(1), Slotted(2)), (range(3), range(4)),
        (f16[2, 3], f16[2, 4]), ((), []),
    ]  # fmt: skip
    for a, b in pairs:
        assert made(a) != made(b), (a, b)
    for a, b in [
        (Plain(1), Plain(1)),
        ([1], [1]),
        ({"x", "y"}, {"y", "x"}),
        (Slotted(2), Slotted(2)),
    ]:
        assert made(a) == made(b)


def test_captured_functions_count_by_their_text():
    def one(x):
        return x + 1

    def two(x):
        return x + 2

    def bound(x, by=1):
        return x

    def rebound(x, by=2):
        return x

    assert made(0, one) != made(0, two)
    assert made(0, bound) != made(0, rebound)
    assert made(0, hx.device(one)) != made(0, one)


def test_values_that_contain_themselves():
    loop = [1]
    loop.append(loop)
    assert made(loop) == made(loop)


def test_it_does_not_depend_on_the_process(tmp_path):
    path = tmp_path / "k.py"
    path.write_text(
        textwrap.dedent(
            """
            import hexcute_core as hx
            from hexcute_core.frontend import define, fingerprint
            m, = hx.dims("m")
            NAMES = {"alpha", "beta", "gamma", "delta"}
            class Thing:
                def __init__(self): self.names = NAMES
            THING = Thing()
            def kernel(a: hx.f16[m]):
                use = THING, NAMES, print, len
            print(fingerprint(define(kernel)))
            """
        )
    )
    seen = set()
    for seed in ("1", "2", "3"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, path], env=env, check=True, capture_output=True)
        seen.add(done.stdout)
    assert len(seen) == 1
