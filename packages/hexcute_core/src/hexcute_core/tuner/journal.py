"""Journal = what a tuning run has found so far, one line per event, so that another goes on there.

    {"task": ...}   {"config": c, "clocks": x}   {"config": c, "built": true}
    {"config": c, "failed": reason, "how": h}    {"round": {c: microseconds, ...}}
    {"again": true}   where the rounds before are of other configurations

A line is on the disk before the next thing is tried. One that a killed run left unfinished is cut
off. Journals lie beside the cache of kernels, by GPU, name, and a digest of problem and version.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from hexcute_core.driver.cache import default_root
from hexcute_core.errors import TunerError
from hexcute_core.tuner.bench import Task

FOLDER = "tuned"
_PLAIN = re.compile(r"[^\w.+-]+")


@dataclass
class Known:
    """What a journal says of configurations, by their text. `failed` are how and why."""

    clocks: dict[str, float] = field(default_factory=dict)
    built: set[str] = field(default_factory=set)
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    rounds: list[dict[str, float]] = field(default_factory=list)

    def take(self, event: Any) -> None:
        """Adds an event. Raises TunerError for one that is none."""
        match event:
            case {"config": str(config), "clocks": float(clocks)}:
                self.clocks[config] = clocks
            case {"config": str(config), "built": True}:
                self.built.add(config)
            case {"config": str(config), "failed": str(reason), "how": str(how)}:
                self.failed[config] = how, reason
            case {"round": dict(samples)} if all(_is_time(t) for t in samples.values()):
                self.rounds.append(samples)
            case {"again": True}:
                self.rounds.clear()
            case _:
                raise TunerError(f"{event!r:.80} is no event of a tuning run")


def _is_time(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def path_of(task: Task, root: Path | None = None) -> Path | None:
    """Where the journal of a task lies; None for a user without a home."""
    root = default_root() if root is None else root
    if root is None:
        return None
    digest = sha256(json.dumps(asdict(task)).encode()).hexdigest()[:16]
    gpu, name = (_PLAIN.sub("_", text).strip(".") or "_" for text in (task.gpu, task.name))
    return root / FOLDER / gpu / name / f"{digest}.jsonl"


class Journal:
    """An open journal; `known` is what it holds. Without a path it is kept in memory.

    Raises TunerError for a file that is another task's or none, and while another process tunes
    the same.
    """

    def __init__(self, task: Task, path: Path | None) -> None:
        self.task, self.path, self.known = task, path, Known()
        self._handle: int | None = None
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(path, flags, 0o600)
        except OSError as error:
            raise TunerError(
                f"{path}: results cannot be kept: {error.strerror or error}",
                fix="set HEXCUTE_CACHE_DIR to a folder of your own",
            ) from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            message = f"{path}: another process tunes {self.task.name} for {self.task.bucket}"
            raise TunerError(message, fix="wait for it, its results will be here") from None
        try:
            self._read(path)
        except TunerError:
            self.close()
            raise

    def _read(self, path: Path) -> None:
        assert self._handle is not None
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        # What a killed run had not finished writing.
        os.ftruncate(self._handle, len(whole))
        lines = whole.splitlines()
        if not lines:
            self._write({"task": asdict(self.task)})
            return
        try:
            events = [json.loads(line) for line in lines]
            if events[0] != {"task": asdict(self.task)}:
                raise TunerError("it belongs to another task")
            for event in events[1:]:
                self.known.take(event)
        except (ValueError, RecursionError, TunerError) as error:
            raise TunerError(
                f"{path}: it is no journal of this tuning run: {error}", fix="remove the file"
            ) from None

    def _write(self, event: Mapping[str, object]) -> None:
        if self._handle is not None:
            os.write(self._handle, json.dumps(event).encode() + b"\n")
            # What a process wrote outlasts it. Ranks, of which there are hundreds, are soon found
            # again after a machine's crash; what a GPU was asked for is not.
            if "clocks" not in event:
                os.fsync(self._handle)

    def note(self, **event: object) -> None:
        """Adds an event, here and on the disk."""
        self.known.take(event)
        self._write(event)

    def close(self) -> None:
        """Lets another process tune the same."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *of: object) -> None:
        self.close()
