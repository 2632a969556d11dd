"""The PTX of stamps, run instruction by instruction: what it leaves in memory is what is read."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from timeline_kernels import by_roles

from hexcute_core.backend import emit
from hexcute_core.runtime.stamps import parse, table
from hexcute_core.thread.stamps import NONE, rows, track_bytes, tracks

GRID, THREADS, BASE, TABLE = (3, 2, 2), 256, 1 << 40, 1 << 41
RUNS = ((0, None), (1, 2, 3, 4, 5, None, 6), (7, None, 8))
SIZES = {"u32": 32, "s32": 32, "b32": 32, "u64": 64, "b64": 64}


def backend() -> Any:
    emit(by_roles.compile("sm_90").thread, "sm_90")  # Hidet is loaded by the first of these.
    return sys.modules["hexcute_core.backend.hidet.stamps"]


@dataclass
class Thread:
    """Registers by name, special ones too, and the memory that all threads share."""

    special: dict[str, int]
    memory: dict[int, int]
    clock: int = 0
    written: set[int] = field(default_factory=set)

    def run(self, instruction: Any, *operands: Any) -> list[int]:
        """What an instruction's outputs are, of what it updates and its inputs."""
        outs = len(instruction.outputs)
        given = list(operands) if instruction.updated else [0] * outs + list(operands)
        regs: dict[str, Any] = {f"%{i}": value for i, value in enumerate(given)}
        for text in instruction.template.strip("{} ").split(";"):
            line = text.strip()
            if line and not line.startswith(".reg"):
                self.step(line, regs)
        return [regs[f"%{i}"] for i in range(outs)]

    def step(self, line: str, regs: dict[str, Any]) -> None:
        guard, line = (line[1:].split(" ", 1)) if line.startswith("@") else ("", line)
        if guard and not regs[guard]:
            return
        op, rest = line.split(" ", 1)
        name, *kinds = op.split(".")
        found = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+", rest)
        args = [a.strip() for a in found if a.strip()]
        bits = SIZES[kinds[-1]]

        def value(arg: str, wide: int = bits, signed: bool = False) -> int:
            if arg.startswith("{"):
                low, high = (value(a.strip(), 32) for a in arg[1:-1].split(","))
                return low | high << 32
            if arg == "u":
                return 0xDEAD
            if arg == "%%clock":
                self.clock += 1
                return self.clock
            found = self.special[arg] if arg in self.special else regs.get(arg)
            number = int(arg) if found is None else int(found)
            number %= 1 << wide
            return number - (1 << wide) if signed and number >> (wide - 1) else number

        def address(arg: str) -> int:
            base, _, offset = arg[1:-1].partition("+")
            return (value(base, 64) + int(offset or 0)) % (1 << 64)

        signed = kinds[-1].startswith("s")
        if name == "st":
            at = address(args[0])
            assert at % 16 == 0 and kinds[1:] == ["v4", "b32"]
            for i, word in enumerate(args[1][1:-1].split(",")):
                self.memory[at + 4 * i] = value(word.strip(), 32)
                self.written.add(at + 4 * i)
            return
        if name == "setp":
            a, b = (value(x, signed=signed) for x in args[1:3])
            truth = {"eq": a == b, "ne": a != b, "lt": a < b, "ge": a >= b, "gt": a > b}[kinds[0]]
            regs[args[0]] = truth and (regs[args[3]] if "and" in kinds else True)
            return
        wide = "wide" in kinds
        if name == "ld":
            result = self.memory[address(args[1])]
        elif name == "selp":
            result = value(args[1 if regs[args[3]] else 2])
        elif name == "cvt":
            result = value(args[1], 64) % (1 << 32)
        elif name == "mov":
            result = value(args[1])
        else:
            a, b = (value(x, signed=signed) for x in args[1:3])
            result = {
                "mad": lambda: a * b + value(args[3], 64 if wide else bits),
                "mul": lambda: a * b, "sub": lambda: a - b, "add": lambda: a + b,
                "and": lambda: a & b, "shr": lambda: a >> b, "max": lambda: max(a, b),
            }[name]()  # fmt: skip
        if args[0].startswith("{"):
            low, high = (a.strip() for a in args[0][1:-1].split(","))
            regs[low], regs[high] = result % (1 << 32), result >> 32
        else:
            regs[args[0]] = result % (1 << (64 if wide else bits))


def launch(blocks: list[tuple[int, int, int]], room: int) -> tuple[Any, dict[int, int]]:
    """What is read after every thread of the grid has gone through the runs."""
    stamps = backend()
    places = [(z * GRID[1] + y) * GRID[0] + x for x, y, z in blocks]
    first, last = min(places), max(places)
    memory = {TABLE + 4 * i: int(n) for i, n in enumerate(table(places))}
    listed = 0 if places == list(range(first, last + 1)) else TABLE
    given = (BASE, listed, first | (last + 1 - first) << 32, room)
    written: set[int] = set()
    for place in range(GRID[0] * GRID[1] * GRID[2]):
        at = place % 3, place // 3 % 2, place // 6
        for tid in (0, 1, 127, 128, 255):
            special = {f"%%ctaid.{a}": v for a, v in zip("xyz", at, strict=True)}
            special |= {f"%%nctaid.{a}": v for a, v in zip("xyz", GRID, strict=True)}
            special |= {"%%tid.x": tid, "%%globaltimer": (5 << 32) + 1000 * place, "%%smid": place}
            t = Thread(special, memory, clock=100 * tid)
            row, left, told, *begun = t.run(stamps._OPEN, *given, tracks(THREADS))
            assert told == (place in places)
            for number, run in enumerate(RUNS):
                words = [1 + number, *range(10 * number, 10 * number + len(run))]
                row, left = t.run(stamps._TAKE, row, left, rows(len(run)))
                for i in range(rows(len(run))):
                    part = words[4 * i : 4 * i + 4]
                    t.run(stamps._row(len(part), rows(len(run)) - i - 1), row, left, *part)
            t.run(stamps._CLOSE, row, left, *begun)
            written |= t.written
    size = track_bytes(room) * tracks(THREADS) * len(blocks)
    assert all(BASE <= a < BASE + size for a in written)
    raw = np.array([memory.get(BASE + a, 0) for a in range(0, size, 4)], dtype=np.uint32)
    return parse(raw.view(np.uint8), blocks, tracks(THREADS), RUNS), memory


@pytest.mark.parametrize(
    "blocks",
    [
        [(1, 0, 0), (2, 0, 0), (0, 1, 0)],
        [(2, 1, 1), (0, 0, 0), (1, 1, 0)],
        [(x, y, z) for z in range(2) for y in range(2) for x in range(3)],
    ],
)
def test_what_threads_write_is_what_is_read(blocks: list[tuple[int, int, int]]) -> None:
    found, _ = launch(blocks, 16)
    assert [(w.block, w.track) for w in found] == [(b, t) for b in blocks for t in range(2)]
    clocks = [10 * n + i for n, run in enumerate(RUNS) for i in range(len(run))]
    opened = [number for run in RUNS for number in run]
    for w in found:
        place = (w.block[2] * 2 + w.block[1]) * 3 + w.block[0]
        assert w.stamps == tuple(zip(opened, clocks, strict=True))
        assert w.start == ((5 << 32) + 1000 * place, 12800 * w.track + 1)
        assert w.end == ((5 << 32) + 1000 * place, 12800 * w.track + 2)
        assert (w.lost, w.multiprocessor) == (0, place)


@pytest.mark.parametrize(("room", "kept", "lost"), [(1, 2, 3), (2, 2, 2), (3, 9, 1), (4, 12, 0)])
def test_a_run_that_does_not_fit_is_counted(room: int, kept: int, lost: int) -> None:
    found, _ = launch([(0, 0, 0), (1, 0, 0)], room)
    assert {(len(w.stamps), w.lost) for w in found} == {(kept, lost)}


def test_a_count_does_not_go_round() -> None:
    stamps = backend()
    t = Thread({"%%clock": 0, "%%globaltimer": 7, "%%smid": 0}, {})
    place, left = BASE, -(2**30) + 1
    for _ in range(3):
        place, left = t.run(stamps._TAKE, place, left, 2)
        t.run(stamps._row(4, 0), place, left, 1, 2, 3, 4)
    t.run(stamps._CLOSE, place, left, 1, 2)
    assert (left - 2**32, t.written) == (-(2**30), set())


def test_no_block_has_the_number_none() -> None:
    assert NONE not in table([0, 5, 9])[[0, 5, 9]]
