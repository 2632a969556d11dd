"""A plugin of pytest, `RECORD=FOLDER pytest -p record -m gpu`: keeps what kernels the tests launch.

    <digest>.cubin   machine code            selected    tests, one a line
    <key>.launch     see launches.py         tests.*     test, outcome
    over             all tests have run      launches.*  test, key, or why there is none

Memory that `torch.empty` and its like give is filled with one word first: where it still stands at
a launch, nothing was written. What a launch reads and its test never wrote shows that way when the
launch is run again, in memory that a fresh allocation gives.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import struct
import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu import Gpu, GpuError
from launches import ADDRESS_BYTES, Buffer, Launch, Value, key_of, write

UNWRITTEN = 0x7FB5A5D3
"""No number of f32, f16 or bf16 in its upper half; a run of it is no one's data."""
MAP_BYTES, _NOWHERE = 128, 1 << 20
MOST_BYTES = int(os.environ.get("RECORD_MOST", 1 << 30))
"""Kept of one launch."""
LARGE, PERIOD = 256 << 20, 16 << 20
"""Of a buffer of more than LARGE bytes PERIOD are kept: what stands there steers no kernel."""
MOST_OF_A_TEST = 1000
ALL_BYTES = int(os.environ.get("RECORD_BYTES", 3 << 30))
"""Of one process."""
_CONFIG = struct.Struct("<28s4xQQI4x")
_ATTRIBUTE_BYTES = 72
_RUN, _MOST_RUNS = 4, 256
COVERED = os.environ.get("RECORD_COVERED")
"""A file of tests to leave out, one a line: those of an earlier run."""
# Times of the host say nothing while launches are kept.
TIMED = "host_time"


class Unrecorded(Exception):
    """Why a launch cannot be kept."""


def written(data: bytearray) -> tuple[tuple[int, int], ...]:
    """Where memory holds anything but runs of UNWRITTEN, as (start, end) in bytes; of many short
    runs, those that are too short count as written."""
    words = np.frombuffer(data, np.uint32, len(data) // 4)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], words == UNWRITTEN, [False]))))
    runs, least = edges.reshape(-1, 2), min(_RUN, max(len(words), 1))
    while len(runs := runs[runs[:, 1] - runs[:, 0] >= least]) > _MOST_RUNS:
        least *= 2
    points = [0, *(int(edge) * 4 for edge in runs.ravel()), len(data)]
    pairs = zip(points[::2], points[1::2], strict=True)
    return tuple((start, end) for start, end in pairs if start < end)


def blocks() -> list[tuple[int, int]]:
    """Addresses and sizes of the memory that torch's tensors hold, by address."""
    import torch

    found = []
    for segment in torch.cuda.memory_snapshot():
        at = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                found.append((at, block.get("requested_size") or block["size"]))
            at += block["size"]
    return sorted(found)


def _nothing() -> None:
    """Nothing is to be kept."""


@dataclass(frozen=True)
class _Made:
    """A launch as the driver was given it, its parameters in `values`."""

    kernel: str
    image: str
    shape: str
    attributes: tuple[str, int]
    values: list[bytes]


class Recorder:
    """Stands before a driver's `load`, `launch` and `tensor_map`."""

    def __init__(self, driver: Any, gpu: Gpu, held: Callable[[], list[tuple[int, int]]],
                 folder: Path, worker: str) -> None:  # fmt: skip
        self.test = ""
        self._gpu, self._held, self._folder, self._worker = gpu, held, folder, worker
        self._loaded: dict[int, tuple[str, str, tuple[int, ...]]] = {}
        self._maps: dict[bytes, int] = {}
        self._seen: set[Any] = set()
        self._captured: list[tuple[_Made, list[tuple[int, int]]]] = []
        self._room = ALL_BYTES
        self._lock = threading.RLock()
        self._load, self._launch, self._map = driver.load, driver.launch, driver.tensor_map
        driver.load, driver.launch, driver.tensor_map = self.load, self.launch, self.tensor_map

    def _note(self, name: str, *fields: str) -> None:
        with (self._folder / f"{name}.{self._worker}").open("a", encoding="utf-8") as file:
            file.write("\t".join(fields) + "\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test, self._seen = nodeid, set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for made, _ in self._captured:
                self._lost(made, "captured, and not run")
            self._captured.clear()
        if report.when == "call" or not report.passed:
            self._note("tests", report.nodeid, report.outcome)

    def load(self, image: bytes, name: str) -> int:
        digest = hashlib.sha256(image).hexdigest()[:32]
        unfinished = self._folder / f"{digest}.{self._worker}"
        unfinished.write_bytes(image)
        unfinished.replace(self._folder / f"{digest}.cubin")
        function: int = self._load(image, name)
        self._loaded[function] = name, digest, self._gpu.parameter_sizes(function)
        return function

    def tensor_map(self, dtype: str, address: int, *rest: Any) -> bytes:
        made: bytes = self._map(dtype, address, *rest)
        self._maps[made] = address
        return made

    def launch(self, config: Any, function: Any, params: Any, extra: Any) -> int:
        with self._lock:
            keep = self._look(config, function, params)
        status: int = self._launch(config, function, params, extra)
        # What the driver refuses has not run.
        if status == 0:
            with self._lock:
                keep()
        return status

    def _look(self, config: int, function: int, params: int) -> Callable[[], None]:
        """Reads what a launch finds in memory; the answer files it."""
        kernel, image, sizes = self._loaded[getattr(function, "value", function)]
        shape, stream, where, count = _CONFIG.unpack(ctypes.string_at(config, _CONFIG.size))
        if 0 in struct.unpack_from("<3I", shape):
            return _nothing
        addresses = (ctypes.c_uint64 * max(len(sizes), 1)).from_address(params)
        values = [ctypes.string_at(a, size) for a, size in zip(addresses, sizes)]
        seen = (function, shape, *values)
        if seen in self._seen:
            return _nothing
        self._seen.add(seen)
        attributes = ctypes.string_at(where, count * _ATTRIBUTE_BYTES).hex() if count else ""
        made = _Made(kernel, image, shape.hex(), (attributes, count), values)
        with self._gpu.current():
            if len(self._seen) > MOST_OF_A_TEST:
                why = f"beyond the first {MOST_OF_A_TEST} of its test"
                return lambda: self._lost(made, why)
            if self._gpu.capturing(stream):
                captured = made, self._held()
                return lambda: self._captured.append(captured)
            return self._kept(made, self._held())

    def replayed(self) -> None:
        """A graph was launched: what it captured has run, and its memory holds what it needs."""
        with self._lock:
            for made, held in self._captured:
                self._kept(made, held)()
            self._captured.clear()

    def _lost(self, made: _Made, why: str) -> None:
        self._note("launches", self.test, made.kernel, f"not kept: {why}")

    def _kept(self, made: _Made, held: list[tuple[int, int]]) -> Callable[[], None]:
        """Reads the memory now; the answer files it."""
        try:
            bound, buffers, contents = self._memory(made.values, held)
        except (Unrecorded, GpuError) as error:
            why = str(error)
            return lambda: self._lost(made, why)
        rest = (made.kernel, made.image, made.shape, made.attributes)
        launch = Launch(*rest, bound, buffers, self.test)
        return lambda: self._file(launch, contents)

    def _file(self, launch: Launch, contents: list[bytes]) -> None:
        key = key_of(launch, contents)
        path = self._folder / f"{key}.launch"
        if not path.exists():
            self._room -= sum(map(len, contents))
            if self._room < 0:
                self._note("launches", self.test, launch.kernel, "not kept: no room")
                return
            write(path, launch, contents)
        self._note("launches", self.test, launch.kernel, key)

    def _memory(
        self, values: list[bytes], held: list[tuple[int, int]]
    ) -> tuple[tuple[Value, ...], tuple[Buffer, ...], list[bytes]]:
        """The parameters, the buffers that they lead to, and what is in these."""
        used: dict[int, int] = {}
        bound = [self._bound(value, held, used) for value in values]
        sizes = [held[block][1] for block in used]
        if sum(PERIOD if size > LARGE else size for size in sizes) > MOST_BYTES:
            raise Unrecorded(f"more than {MOST_BYTES} bytes")
        self._gpu.wait()
        read = [self._buffer(*held[block]) for block in used]
        return tuple(bound), tuple(b for b, _ in read), [content for _, content in read]

    def _buffer(self, address: int, size: int) -> tuple[Buffer, bytes]:
        """A buffer, and what is kept of it."""
        if size > LARGE:
            first, last = (self._gpu.read(a, PERIOD) for a in (address, address + size - PERIOD))
            match written(first), written(last):
                case (), ():
                    return Buffer(size, ()), b""
                case ((0, end),), ((0, also),) if end == also == PERIOD:
                    return Buffer(size, ((0, size),), PERIOD), bytes(first)
                case _:
                    raise Unrecorded(f"more than {LARGE} bytes, some of them unwritten")
        data = self._gpu.read(address, size)
        places = written(data)
        return Buffer(size, places), b"".join(data[start:end] for start, end in places)

    def _bound(self, value: bytes, held: list[tuple[int, int]], used: dict[int, int]) -> Value:
        """A parameter with its buffer's number in `used`, which grows: blocks in order."""
        is_map = len(value) == MAP_BYTES and value in self._maps
        if not is_map and len(value) != ADDRESS_BYTES:
            return Value(value.hex())
        address = self._maps[value] if is_map else int.from_bytes(value, "little")
        block = bisect_right(held, (address, 1 << 64)) - 1
        if block >= 0 and address < sum(held[block]):
            buffer = used.setdefault(block, len(used))
            data = self._gpu.moved_map(value, _NOWHERE) if is_map else bytes(ADDRESS_BYTES)
            return Value(data.hex(), buffer, address - held[block][0])
        if address != 0 and self._gpu.is_memory(address):
            raise Unrecorded("memory that is not torch's")
        return Value(value.hex())


def follow_graphs(torch: Any, recorder: Recorder) -> None:
    """Tells the recorder of graphs that were launched."""
    replay = torch.cuda.CUDAGraph.replay

    @wraps(replay)
    def replayed(graph: Any) -> None:
        replay(graph)
        recorder.replayed()

    torch.cuda.CUDAGraph.replay = replayed


def mark(torch: Any, gpu: Gpu) -> None:
    """Lets torch give memory that shows where nothing was written."""

    def marked(make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def made(*args: Any, **named: Any) -> Any:
            tensor = make(*args, **named)
            if torch.compiler.is_compiling() or type(tensor) is not torch.Tensor:
                return tensor
            if tensor.is_cuda and not torch.cuda.is_current_stream_capturing():
                storage = tensor.untyped_storage()
                stream = torch.cuda.current_stream(tensor.device).cuda_stream
                if words := storage.nbytes() // 4:
                    gpu.fill(storage.data_ptr(), UNWRITTEN, words, stream)
            return tensor

        return made

    for place, name in (
        (torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"),
        (torch.Tensor, "new_empty"), (torch.Tensor, "new_empty_strided"),
    ):  # fmt: skip
        setattr(place, name, marked(getattr(place, name)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of each file one in turn, so that those with few are all run early; what is drawn, and takes
    long to compile, last."""
    covered = set(Path(COVERED).read_text(encoding="utf-8").splitlines()) if COVERED else set()
    tests = [i for i in items if TIMED not in i.nodeid and i.nodeid not in covered]
    random.Random(0).shuffle(tests)
    turns: dict[Path, int] = {}
    order: dict[str, tuple[bool, int]] = {}
    for test in tests:
        turns[test.path] = turns.get(test.path, 0) + 1
        order[test.nodeid] = "random" in test.nodeid, turns[test.path]
    items[:] = sorted(tests, key=lambda test: order[test.nodeid])


def pytest_collection_finish(session: pytest.Session) -> None:
    folder, worker = Path(os.environ["RECORD"]), os.environ.get("PYTEST_XDIST_WORKER", "main")
    if session.items:
        unfinished = folder / f"selected.{worker}"
        unfinished.write_text("".join(f"{item.nodeid}\n" for item in session.items))
        unfinished.replace(folder / "selected")


def pytest_sessionfinish() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        (Path(os.environ["RECORD"]) / "over").touch()


def pytest_configure(config: pytest.Config) -> None:
    folder, worker = Path(os.environ["RECORD"]), os.environ.get("PYTEST_XDIST_WORKER")
    folder.mkdir(parents=True, exist_ok=True)
    if worker is None and config.getoption("numprocesses", None):
        return
    import torch

    from hexcute_core.runtime.cuda_driver import cuda_driver

    gpu = Gpu()
    recorder = Recorder(cuda_driver(), gpu, blocks, folder, worker or "main")
    config.pluginmanager.register(recorder)
    follow_graphs(torch, recorder)
    mark(torch, gpu)
