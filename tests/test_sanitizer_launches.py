"""Launches that a plugin of pytest keeps, and a program runs again by themselves."""

from __future__ import annotations

import ctypes
import struct
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))

import record
import replay
from gpu import GpuError
from launches import head, of_one_cluster, read, write

U = record.UNWRITTEN
FUNCTION, FIRST, SECOND, FOREIGN = 32, 0x70000, 0x90000, 0xF0000


class FakeGpu:
    """Memory at the addresses above; what is launched is kept."""

    def __init__(self) -> None:
        self.memory: dict[int, bytearray] = {}
        self.captures, self.launched = False, []  # type: ignore[var-annotated]
        self.next = 0x200000

    def put(self, address: int, words: list[int]) -> None:
        self.memory[address] = bytearray(np.array(words, np.uint32).tobytes())

    def held(self) -> list[tuple[int, int]]:
        return sorted((at, len(data)) for at, data in self.memory.items() if at != FOREIGN)

    def is_memory(self, address: int) -> bool:
        return any(at <= address < at + len(data) for at, data in self.memory.items())

    def parameter_sizes(self, function: int) -> tuple[int, ...]:
        return (8, 8, 4, 128)

    def current(self) -> nullcontext[None]:
        return nullcontext()

    def capturing(self, stream: int) -> bool:
        return self.captures

    def moved_map(self, tensor_map: bytes, address: int) -> bytes:
        return address.to_bytes(8, "little") + tensor_map[8:]

    def wait(self) -> None: ...

    def read(self, address: int, size: int) -> bytearray:
        base = max(at for at in self.memory if at <= address)
        return self.memory[base][address - base : address - base + size]

    def write(self, address: int, data: bytes) -> None:
        base = max(at for at in self.memory if at <= address)
        self.memory[base][address - base : address - base + len(data)] = data

    def allocate(self, size: int) -> int:
        self.next += 0x100000
        self.memory[self.next] = bytearray(size)
        return self.next

    def free(self, address: int) -> None:
        del self.memory[address]

    def load(self, image: bytes, name: str) -> tuple[int, int]:
        return 16, FUNCTION

    def unload(self, module: int) -> None: ...

    def launch(self, *given: Any) -> None:
        memory = {at: bytes(data) for at, data in self.memory.items() if at >= 0x200000}
        self.launched.append((*given, memory))


class Driver:
    def load(self, image: bytes, name: str) -> int:
        return FUNCTION

    def tensor_map(self, dtype: str, address: int, *rest: Any) -> bytes:
        return address.to_bytes(8, "little") + bytes([7]) * 120

    status = 0

    def launch(self, config: int, function: int, params: int, extra: None) -> int:
        return self.status


class Bench:
    """A recorder before a driver, and calls of it as the runtime makes them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gpu, self.driver = folder, FakeGpu(), Driver()
        self.recorder = record.Recorder(self.driver, self.gpu, self.gpu.held, folder, "gw0")  # type: ignore[arg-type]
        self.recorder.pytest_runtest_logstart("a::t")
        self.function = self.driver.load(b"code", "k")
        self.gpu.put(FIRST, list(range(8)))
        self.gpu.put(SECOND, [5] + [U] * 7)

    def launch(self, first: int = FIRST, second: int = SECOND, n: int = 3, grid: int = 2) -> None:
        described = self.driver.tensor_map("f32", second)
        values = [struct.pack("<Q", first), struct.pack("<Q", second), struct.pack("<i", n)]
        rooms = [ctypes.create_string_buffer(v, len(v)) for v in (*values, described)]
        params = (ctypes.c_void_p * 4)(*map(ctypes.addressof, rooms))
        attribute = ctypes.create_string_buffer(b"\6" + bytes(71), 72)
        config = struct.pack(
            "<7I4xQQI4x", grid, 1, 1, 128, 1, 1, 60000, 0, ctypes.addressof(attribute), 1
        )
        room = ctypes.create_string_buffer(config, len(config))
        self.driver.launch(ctypes.addressof(room), self.function, ctypes.addressof(params), None)

    @property
    def kept(self) -> list[Path]:
        return sorted(self.folder.glob("*.launch"))

    @property
    def notes(self) -> list[str]:
        return (self.folder / "launches.gw0").read_text().splitlines()


def test_a_launch_is_kept_and_runs_again_on_memory_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.launch(first=FIRST + 4)
    (path,) = bench.kept
    assert bench.notes == [f"a::t\tk\t{path.stem}"]
    launch, contents = read(path)
    assert launch == head(path)
    assert [b.written for b in launch.buffers] == [((0, 32),), ((0, 4),)]
    bench.gpu.memory.clear()
    loaded = replay.Loaded(bench.gpu)  # type: ignore[arg-type]
    replay.replay(bench.gpu, loaded.function(tmp_path, launch), launch, contents)  # type: ignore[arg-type]
    assert bench.gpu.memory == {}, "nothing stays"
    (function, shape, shared, attributes, values, memory), = bench.gpu.launched  # fmt: skip
    first, second = sorted(memory)
    assert struct.unpack("<7I", shape) == (2, 1, 1, 128, 1, 1, 60000)
    assert (function, shared, attributes) == (FUNCTION, 60000, (b"\6" + bytes(71), 1))
    assert [int.from_bytes(value[:8], "little") for value in values] == [
        first + 4, second, 3, second,
    ]  # fmt: skip
    assert [len(value) for value in values] == [8, 8, 4, 128]
    assert values[3][8:] == bytes([7]) * 120
    assert memory[first] == np.arange(8, dtype=np.uint32).tobytes()
    assert memory[second] == b"\5" + bytes(31), "what was not written stays as it was allocated"


@pytest.mark.parametrize("rest, kept", [(range(8, 12), True), ([U] * 4, False)])
def test_of_a_very_large_buffer_a_period_is_kept(
    rest: Any, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LARGE", 32)
    monkeypatch.setattr(record, "PERIOD", 16)
    bench = Bench(tmp_path)
    bench.gpu.put(FIRST, [*range(8), *rest])
    bench.gpu.put(SECOND, [U] * 12)
    bench.launch()
    if not kept:
        assert bench.notes == ["a::t\tk\tnot kept: more than 32 bytes, some of them unwritten"]
        return
    (path,) = bench.kept
    launch, contents = read(path)
    assert [(b.size, b.written, b.period) for b in launch.buffers] == [
        (48, ((0, 48),), 16), (48, (), 0),
    ]  # fmt: skip
    bench.gpu.memory.clear()
    replay.replay(bench.gpu, FUNCTION, launch, contents)  # type: ignore[arg-type]
    memory = bench.gpu.launched[0][-1]
    first, second = sorted(memory)
    assert memory[first] == np.tile(np.arange(4, dtype=np.uint32), 3).tobytes()
    assert memory[second] == bytes(48)


def test_launches_that_do_the_same_are_kept_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.launch()
    bench.gpu.put(0xC0000, list(range(8)))
    bench.launch(first=0xC0000)
    assert len(bench.kept) == 1, "elsewhere"
    bench.launch(n=4)
    bench.launch(grid=1)
    bench.launch(first=FIRST + 16)
    bench.gpu.put(FIRST, [9] * 8)
    bench.launch()
    assert len(bench.kept) == 4, "the same call of one test, whatever stands there"
    bench.recorder.pytest_runtest_logstart("a::u")
    bench.launch()
    assert len(bench.kept) == 5, "other contents, which may steer it"
    assert [line.split("\t")[0] for line in bench.notes] == ["a::t"] * 5 + ["a::u"]
    bench.launch(grid=0)
    assert len(bench.kept) == 5, "a grid of no blocks does not run"


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("memory that is not torch's", lambda b: b.gpu.memory.update({FOREIGN: bytearray(8)})),
        ("more than 16 bytes", lambda b: None),
        ("no room", lambda b: setattr(b.recorder, "_room", 8)),
        ("wait gave 700", lambda b: setattr(b.gpu, "wait", failing)),
    ],
)
def test_what_is_not_kept_is_said(
    why: str, change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    change(bench)
    if why.startswith("more"):
        monkeypatch.setattr(record, "MOST_BYTES", 16)
    bench.launch(first=FOREIGN if "torch" in why else FIRST)
    assert bench.kept == []
    assert bench.notes == [f"a::t\tk\tnot kept: {why}"]


def test_a_captured_launch_is_kept_when_its_graph_has_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.gpu.captures = True
    bench.launch()
    bench.gpu.put(SECOND, [5] * 8)
    assert bench.kept == []
    bench.recorder.replayed()
    (path,) = bench.kept
    assert [b.written for b in head(path).buffers] == [((0, 32),), ((0, 32),)]
    bench.launch(n=4)
    bench.recorder.pytest_runtest_logreport(
        pytest.TestReport("a::t", ("", 0, ""), {}, "passed", None, "call")
    )
    assert bench.notes[1:] == ["a::t\tk\tnot kept: captured, and not run"]
    bench.recorder.replayed()
    assert bench.kept == [path]


def test_a_launch_that_the_driver_refuses_is_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.driver.status = 1
    bench.launch()
    assert bench.kept == [] and list(tmp_path.glob("launches.*")) == []


def two_machine_codes(tmp_path: Path) -> tuple[Bench, Path]:
    """Four launches, by turns of two machine codes, and a folder for who claims them."""
    bench, claims = Bench(tmp_path), tmp_path / "claims"
    claims.mkdir()
    for n in range(4):
        bench.launch(n=n)
    for i, path in enumerate(bench.kept):
        launch, contents = read(path)
        write(path, replace(launch, image=f"{i % 2}"), contents)
    (tmp_path / replay.OVER).touch()
    return bench, claims


def test_launches_of_one_machine_code_follow_each_other(tmp_path: Path) -> None:
    _, claims = two_machine_codes(tmp_path)
    images = [head(path).image for path in replay.claimed(tmp_path, claims, end=1e12)]
    assert images in (["0", "0", "1", "1"], ["1", "1", "0", "0"])


def test_a_machine_code_is_one_workers_while_others_are_left(tmp_path: Path) -> None:
    bench, claims = two_machine_codes(tmp_path)
    workers = [replay.claimed(tmp_path, claims, end=1e12) for _ in range(3)]
    first, second, third = (next(worker) for worker in workers)
    image = {path: head(path).image for path in bench.kept}
    assert image[first] != image[second], "two codes, and two that take one each"
    assert image[third] in (image[first], image[second]), "none is left: the third helps"
    rest = [path for worker in workers for path in worker]
    assert sorted([first, second, third, *rest]) == bench.kept


@pytest.mark.parametrize("cluster", [(1, 1, 1), (2, 1, 1)])
def test_a_launch_of_one_cluster_alone(cluster: tuple[int, int, int], tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.launch(grid=6)
    launch = head(bench.kept[0])
    attribute = struct.pack("<I4x3I52x", 4, *cluster)
    packed = (launch.attributes[0] + attribute.hex() * (cluster != (1, 1, 1)),
              1 + (cluster != (1, 1, 1)))  # fmt: skip
    cut = of_one_cluster(replace(launch, attributes=packed))
    assert struct.unpack("<7I", bytes.fromhex(cut.shape)) == (*cluster, 128, 1, 1, 60000)
    assert replace(cut, shape=launch.shape, attributes=launch.attributes) == launch


@pytest.mark.parametrize("few", [[], [replay.FEW]])
def test_after_the_first_launch_of_a_code_with_clusters_one_is_enough(
    few: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    bench, claims = Bench(tmp_path), tmp_path / "claims"
    claims.mkdir()
    for n in range(3):
        bench.launch(n=n, grid=6)
    clusters = struct.pack("<I4x3I52x", 4, 2, 1, 1).hex()
    for path in bench.kept:
        launch, contents = read(path)
        write(path, replace(launch, attributes=(clusters, 1)), contents)
    (tmp_path / replay.OVER).touch()
    bench.gpu.open = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setattr(replay, "Gpu", lambda: bench.gpu)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), str(claims), "1e12", *few])
    assert replay.main() == 0
    grids = [struct.unpack_from("<I", shape)[0] for _, shape, *_ in bench.gpu.launched]
    assert grids == ([6, 2, 2] if few else [6, 6, 6])
    assert capsys.readouterr().out.count("cut ") == (2 if few else 0)


def failing() -> None:
    raise GpuError("wait gave 700")


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ([U] * 8, ()),
        ([1] * 3 + [U] * 4 + [2], ((0, 12), (28, 32))),
        ([U] * 3 + [1], ((0, 16),)),
        ([U, U], ()),
        ([], ()),
        ([*[U] * 4, 1] * 300 + [U] * 1000, ((0, 6000),)),
    ],
)
def test_memory_that_nothing_has_written(words: list[int], places: Any) -> None:
    assert record.written(bytearray(np.array(words, np.uint32).tobytes())) == places
    assert record.written(bytearray(b"abc")) == ((0, 3),)


def test_workers_share_the_launches(tmp_path: Path) -> None:
    bench, claims = Bench(tmp_path), tmp_path / "claims"
    claims.mkdir()
    bench.launch()
    bench.launch(n=4)
    taken = replay.claimed(tmp_path, claims, end=1e12)
    one = next(taken)
    (tmp_path / replay.OVER).touch()
    other = list(replay.claimed(tmp_path, claims, end=1e12))
    assert sorted([one, *other]) == bench.kept
    assert list(taken) == []
    assert list(replay.claimed(tmp_path, tmp_path, end=0.0)) == []
