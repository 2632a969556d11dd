"""Random scalar programs: whatever is traced computes what Python computes."""

import importlib.util
import random

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.simulator import interpret
from hexcute_core.tile.ir import Promise
from hexcute_core.tile.printer import show_program
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


def test_initialised_programs_always_trace_and_agree(tmp_path):
    for seed in range(80):
        outcome(tmp_path, seed, initialised=True)


def test_programs_with_unset_names_agree_or_are_refused(tmp_path):
    outcomes = [outcome(tmp_path, 10_000 + seed, initialised=False) for seed in range(80)]
    assert "ok" in outcomes and "error" in outcomes


@pytest.mark.fuzz
def test_many_programs(tmp_path):
    for seed in range(100_000, 102_000):
        outcome(tmp_path, seed, initialised=seed % 2 == 0)
