"""Work in processes of their own: what hangs or dies takes itself along, and nothing else.

A worker is a process (`worker.py`) that gets a copy of an object and then calls its methods, one
after the other, as it is asked. It is killed where it does not answer in time, and another one
takes its place. It ends with its parent, however that ends. Those that are well stay in a pool, for
the next task: most of what a process takes is to come up and import.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Union

from hexcute_core.errors import TunerError

START_SECONDS = 300.0
"""In which a worker has to have imported what it needs."""


@dataclass(frozen=True)
class Done:
    """What the method gave."""

    value: Any


@dataclass(frozen=True)
class Refused:
    """The method raised; the worker goes on."""

    reason: str


@dataclass(frozen=True)
class Hung:
    """No answer came in time; the worker was killed."""

    reason: str


@dataclass(frozen=True)
class Died:
    """The worker died of it, or cannot go on."""

    reason: str


Answer = Union[Done, Refused, Hung, Died]


class Worker:
    """A process that gets a copy of what is to be done, and is asked; `gpu`, as
    CUDA_VISIBLE_DEVICES names it, is the one that it sees, None for all."""

    def __init__(self, gpu: str | None = None) -> None:
        self.gpu = gpu
        ours, theirs = os.pipe(), os.pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        seen = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
        command = [sys.executable, "-m", "hexcute_core.tuner.worker", str(ours[0]), str(theirs[1])]
        self._process = subprocess.Popen(
            command, pass_fds=(ours[0], theirs[1]), stdin=subprocess.DEVNULL,
            stdout=self._said, stderr=self._said, start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths, **seen},
        )  # fmt: skip
        os.close(ours[0])
        os.close(theirs[1])
        self._to = Connection(ours[1], readable=False)
        self.connection = Connection(theirs[0], writable=False)
        self._expect(START_SECONDS)

    def give(self, copy: bytes) -> None:
        """Hands over what is to be done, pickled, in place of what was before."""
        with suppress(BrokenPipeError):
            self._to.send(("work", copy))
        self._expect(START_SECONDS)

    def started(self) -> Worker:
        """Waits until it has what was given. Raises TunerError where that fails."""
        match self.answer():
            case Done():
                return self
            case Refused(reason) | Hung(reason) | Died(reason):
                self.kill()
                raise TunerError(f"a process to tune in does not come up: {reason}")

    def ask(self, method: str, *args: Any, seconds: float) -> None:
        """Has the worker call a method; it has so many seconds for the answer."""
        # Where the worker is gone, waiting for its answer tells why.
        with suppress(BrokenPipeError):
            self._to.send((method, args))
        self._expect(seconds)

    def _expect(self, seconds: float) -> None:
        self._seconds, self._deadline = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left for the answer."""
        return max(self._deadline - time.monotonic(), 0.0)

    def answer(self) -> Answer:
        """Waits for the answer. After `Hung` or `Died` the worker is gone."""
        if not self.connection.poll(self.left):
            self.kill()
            return Hung(f"no answer in {self._seconds:g} s")
        try:
            kind, value = self.connection.recv()
        except (EOFError, OSError):
            return Died(self._last_words())
        match kind:
            case "done":
                return Done(value)
            case "refused":
                return Refused(value)
            case _:
                self.kill()
                return Died(value)

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        self.kill()
        how = f"exit status {code}"
        if code is not None and code < 0:
            how = signal.Signals(-code).name
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.close()
        return f"the process ended by {how}" + (f": {lines[-1][:200]}" if lines else "")

    def kill(self) -> None:
        """Ends the process, whatever it is doing."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._to.close()
        self.connection.close()


class Pool:
    """Workers that come and go; a context, at whose end all of them do.

    What they have imported stays as it is, so a pool lasts no longer than the sources do.
    """

    def __init__(self) -> None:
        self._idle: dict[str | None, list[Worker]] = {}

    def hire(self, work: object, gpu: str | None = None) -> Worker:
        """A worker with a copy of `work`, an object that can be pickled and that is found there by
        import; `started` waits for it. It sees that GPU alone, or all. Raises TunerError for work
        that cannot be handed over."""
        try:
            copy = pickle.dumps(work)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TunerError(
                f"what is tuned cannot be handed to another process: {error}",
                fix="make it of names, numbers and functions of a module",
            ) from None
        idle = self._idle.get(gpu)
        worker = idle.pop() if idle else Worker(gpu)
        worker.give(copy)
        return worker

    def dismiss(self, worker: Worker) -> None:
        """Takes back a worker that has answered and is well."""
        self._idle.setdefault(worker.gpu, []).append(worker)

    def close(self) -> None:
        """Ends those that wait."""
        for idle in self._idle.values():
            while idle:
                idle.pop().kill()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *of: object) -> None:
        self.close()


def each(
    pool: Pool, work: object, method: str, items: Sequence[Any], processes: int, seconds: float
) -> Generator[tuple[int, Answer], None, None]:
    """Calls `method` with each of the items, in so many processes; gives each item's number and
    answer as it comes. Whoever stops early ends the processes by closing the iterator."""
    waiting, busy = deque(range(len(items))), dict[Worker, int]()

    def give(worker: Worker) -> None:
        number = waiting.popleft()
        worker.ask(method, items[number], seconds=seconds)
        busy[worker] = number

    fresh: list[Worker] = []
    try:
        for _ in range(min(processes, len(items))):
            fresh.append(pool.hire(work))
        while fresh:
            give(fresh[-1].started())
            fresh.pop()
        while busy:
            ready = wait([w.connection for w in busy], min(w.left for w in busy))
            for worker in list(busy):
                if worker.connection not in ready and worker.left > 0:
                    continue
                number, answer = busy.pop(worker), worker.answer()
                lost = isinstance(answer, (Hung, Died))
                if waiting:
                    give(pool.hire(work).started() if lost else worker)
                elif not lost:
                    pool.dismiss(worker)
                yield number, answer
    finally:
        for worker in (*fresh, *busy):
            worker.kill()
