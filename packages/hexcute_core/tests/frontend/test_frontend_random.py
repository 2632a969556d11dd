"""Random programs: whatever is traced computes what Python computes, or numpy for tiles."""

import importlib.util
import random

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.simulator import interpret
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify

NAMES = "abcd"
ARGUMENTS = (0, 1, 3)


class Writer:
    """Writes one function of `n` with nested control flow over four names."""

    def __init__(self, rng, initialised):
        self.rng = rng
        self.lines = ["def logic(n):"]
        for name in NAMES if initialised else NAMES[:3]:
            self.line(1, f"{name} = {rng.randrange(5)}")
        self.block(1, 0)
        result = ", ".join(NAMES if initialised else rng.sample(NAMES, 2))
        self.line(1, f"return ({result},)")

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def atom(self):
        return self.rng.choice([*NAMES, *NAMES, "n", str(self.rng.randrange(9))])

    def value(self):
        op = self.rng.choice(["+", "-", "*", "+"])
        text = f"{self.atom()} {op} {self.atom()}"
        return self.rng.choice([self.atom(), text, f"({text}) % 97 if {self.test()} else 5"])

    def test(self):
        return f"{self.atom()} {self.rng.choice(['<', '==', '!=', '>='])} {self.atom()}"

    def block(self, depth, level):
        for _ in range(self.rng.randrange(1, 4)):
            self.statement(depth, level)

    def statement(self, depth, level):
        kind = self.rng.randrange(10 if level < 3 else 5)
        name = self.rng.choice(NAMES)
        if kind < 3:
            # Values stay below 2^31, so that i32 and Python's integers agree.
            self.line(depth, f"{name} = ({self.value()}) & 255")
        elif kind == 3:
            self.line(depth, f"{name} += {self.atom()} & 15")
        elif kind == 4:
            other = self.rng.choice(NAMES)
            self.line(depth, f"{name}, {other} = {self.atom()} & 63, {self.atom()} & 63")
        elif kind in (5, 6):
            self.line(depth, f"if {self.test()}:")
            self.block(depth + 1, level + 1)
            if self.rng.random() < 0.6:
                self.line(depth, "else:")
                self.block(depth + 1, level + 1)
        elif kind == 7:
            target = self.rng.choice([name, "i", "j"])
            self.line(depth, f"for {target} in range({self.rng.choice(['n', '2', name])} & 3):")
            self.block(depth + 1, level + 1)
        elif kind == 8:
            self.line(depth, f"for {self.rng.choice([name, 's'])} in (2, 3):")
            self.block(depth + 1, level + 1)
        else:
            counter = f"w{depth}"
            self.line(depth, f"{counter} = {self.rng.randrange(3)} + (n & 1)")
            self.line(depth, f"while {counter} > 0:")
            self.block(depth + 1, level + 1)
            self.line(depth + 1, f"{counter} -= 1")


def load(tmp_path, text, name):
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.logic


def outcome(tmp_path, seed, initialised):
    """ "error" or "ok"; fails where a traced program and Python disagree."""
    rng = random.Random(seed)
    text = "\n".join(Writer(rng, initialised).lines) + "\n"
    logic = load(tmp_path, text, f"random_{seed}")
    function = hx.device(logic)
    count = len(NAMES) if initialised else 2

    def kernel(out: i32[count], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        for place, value in enumerate(function(n)):
            r = hx.register_tensor(i32, 1)
            hx.fill(r, value)
            hx.copy(r, hx.global_view(out[place:], (1, 1)))

    try:
        program = trace(define(kernel), {}, Promise())
    except FrontendError as error:
        assert error.span is not None and error.fix is not None, (text, str(error))
        assert not initialised, f"{text}\n{error}"
        return "error"
    verify(program)
    for n in ARGUMENTS:
        try:
            expected = [int(v) for v in logic(n)]
        except UnboundLocalError:
            continue
        got = interpret(program, {"out": np.zeros(count, np.int32)}, {"n": n})["out"]
        assert list(got) == expected, (
            f"n={n}: {got} for {expected}\n{text}\n{show_program(program)}"
        )
    return "ok"


class TileWriter:
    """Writes one function of tiles x and y and a number n, over tile names that may alias."""

    def __init__(self, rng):
        self.rng = rng
        self.lines = ["def logic(x, y, n):", "    z = x * 0.5"]
        self.block(1, 0)
        self.lines.append("    return x + y * 3.0 + z * 7.0")

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def tile(self):
        return self.rng.choice("xyzw"[: 4 if self.rng.random() < 0.1 else 3])

    def value(self):
        other = self.rng.choice([self.tile(), f"{self.tile()}[:, 0:1]", f"{self.tile()}[0:1, :]"])
        op = self.rng.choice("+-")
        return self.rng.choice([f"{self.tile()} * 0.5 {op} {other} * 0.25", f"{self.tile()} - 1.0"])

    def block(self, depth, level):
        for _ in range(self.rng.randrange(1, 5)):
            self.statement(depth, level)

    def statement(self, depth, level):
        kind = self.rng.randrange(11 if level < 3 else 7)
        target = self.rng.choice("xyzw")
        if kind < 2:
            self.line(depth, f"{target} = {self.value()}")
        elif kind < 4:
            self.line(depth, f"{target} = {self.tile()}")
        elif kind == 4:
            self.line(depth, f"{self.tile()} += {self.tile()} * 0.125")
        elif kind == 5:
            part = self.rng.choice(["0:2, :", ":, 1:3"])
            self.line(depth, f"{self.tile()}[{part}] {self.rng.choice(['*=', '-='])} 0.5")
        elif kind == 6:
            a, b = self.rng.sample("xyz", 2)
            self.line(depth, f"{a}, {b} = {b}, {self.rng.choice([a, f'{a} + 1.0'])}")
        elif kind in (7, 8):
            self.line(depth, f"if n {self.rng.choice(['<', '>', '!='])} {self.rng.randrange(4)}:")
            self.block(depth + 1, level + 1)
            if self.rng.random() < 0.6:
                self.line(depth, "else:")
                self.block(depth + 1, level + 1)
        elif kind == 9:
            self.line(depth, f"for i{depth} in range({self.rng.choice(['n', '2'])}):")
            self.block(depth + 1, level + 1)
        else:
            self.line(depth, f"for i{depth} in (1, 2):")
            self.block(depth + 1, level + 1)


def tile_outcome(tmp_path, seed):
    """Like `outcome`, for tiles: Python runs the same function on numpy arrays."""
    rng = random.Random(seed)
    text = "\n".join(TileWriter(rng).lines) + "\n"
    logic = load(tmp_path, text, f"tiles_{seed}")
    function = hx.device(logic)

    def kernel(a: f32[4, 8], b: f32[4, 8], out: f32[4, 8], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        x, y = hx.register_tensor(f32, (4, 8)), hx.register_tensor(f32, (4, 8))
        layout = ((4, 8), (8, 1))
        hx.copy(hx.global_view(a, layout), x)
        hx.copy(hx.global_view(b, layout), y)
        hx.copy(function(x, y, n), hx.global_view(out, layout))

    try:
        program = trace(define(kernel), {}, Promise())
    except FrontendError as error:
        assert error.span is not None and error.fix is not None, (text, str(error))
        return "error"
    verify(program)
    a, b = (np.arange(32, dtype=np.float32).reshape(4, 8) * s for s in (1, -3))
    for n in ARGUMENTS:
        try:
            expected = logic(a.copy(), b.copy(), n)
        except UnboundLocalError:
            continue
        arrays = {"a": a.copy(), "b": b.copy(), "out": np.zeros((4, 8), np.float32)}
        got = interpret(program, arrays, {"n": n})["out"]
        message = f"n={n}\n{text}\n{show_program(program)}"
        np.testing.assert_allclose(got, expected, rtol=1e-4, err_msg=message)
    return "ok"


def test_initialised_programs_always_trace_and_agree(tmp_path):
    for seed in range(80):
        outcome(tmp_path, seed, initialised=True)


def test_programs_with_unset_names_agree_or_are_refused(tmp_path):
    outcomes = [outcome(tmp_path, 10_000 + seed, initialised=False) for seed in range(80)]
    assert "ok" in outcomes and "error" in outcomes


def test_programs_of_tiles_agree_or_are_refused(tmp_path):
    outcomes = [tile_outcome(tmp_path, seed) for seed in range(80)]
    assert outcomes.count("ok") > 40


@pytest.mark.fuzz
def test_many_programs_of_tiles(tmp_path):
    outcomes = [tile_outcome(tmp_path, seed) for seed in range(200_000, 202_000)]
    assert outcomes.count("ok") > 1000


@pytest.mark.fuzz
def test_many_programs(tmp_path):
    for seed in range(100_000, 102_000):
        outcome(tmp_path, seed, initialised=seed % 2 == 0)
