"""Runs workers until every job has a result; one that is silent for too long is ended.

The job it was at is given up, the ones behind it go to a new worker.
"""

from __future__ import annotations

import json
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from hexcute_bench.microbench.worker import Job

START_S, JOB_S = 60.0, 10.0
Result = dict[str, Any]


def run(
    jobs: Sequence[Job],
    seconds: float,
    command: Sequence[str] = (sys.executable, "-m", "hexcute_bench.microbench.worker"),
    job_seconds: float = JOB_S,
) -> list[Result]:
    """A result for each job, in order; `failed` says why one has no clocks. Begins no worker and
    waits for no job after `seconds`."""
    until = time.monotonic() + seconds
    done: list[Result] = []
    while len(done) < len(jobs):
        left = jobs[len(done) :]
        if time.monotonic() >= until:
            return [*done, *(_given_up(job, f"no time after {seconds:g} s") for job in left)]
        done += _worker(left, until, command, job_seconds)
    return done


def _given_up(job: Job, why: str) -> Result:
    return {"name": job[0], "quantity": job[1], "failed": why}


def _worker(
    jobs: Sequence[Job], until: float, command: Sequence[str], job_seconds: float
) -> list[Result]:
    """Results of one worker: those it told, and a failure of the job it died or hung at."""
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "jobs", Path(folder) / "log"
        path.write_bytes(pickle.dumps(list(jobs)))
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*command, str(path)], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        try:
            results, why = _listen(process, len(jobs), until, job_seconds)
        finally:
            process.kill()
            process.wait()
        if len(results) < len(jobs):
            tail = log.read_text().strip()[-500:]
            results.append(_given_up(jobs[len(results)], why + (f": {tail}" if tail else "")))
        return results


def _listen(
    process: subprocess.Popen[str], jobs: int, until: float, job_seconds: float
) -> tuple[list[Result], str]:
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    results: list[Result] = []
    patience = START_S
    while len(results) < jobs:
        try:
            text = lines.get(timeout=max(0.0, min(patience, until - time.monotonic())))
        except queue.Empty:
            return results, "the worker was silent for too long and was ended"
        if text is None:
            return results, "the worker died"
        result = json.loads(text)
        patience = job_seconds
        if "ready" not in result:
            results.append(result)
    return results, ""


def _read(stream: IO[str] | None, lines: queue.Queue[str | None]) -> None:
    if stream is not None:
        for text in stream:
            lines.put(text)
    lines.put(None)
