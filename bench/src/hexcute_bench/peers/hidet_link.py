"""Starts Hidet's own kernels in a process of theirs and hands their rows on.

Hidet is imported whole there, with its CuTe dialect; the harness's process never loads it.
The child times cuBLAS too, so that both processes' figures can be set in relation.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hexcute_bench.errors import BenchError, PeerAbsent
from hexcute_bench.interface import Settings
from hexcute_bench.shape import Shape

# What the child prints beside its rows is its own and Hidet's talk.
MARK = "hexcute-row "
# The child's exit status where Hidet is not installed.
ABSENT_CODE = 4


def hidet_rows(
    suite: str, shapes: Sequence[Shape], systems: Sequence[str], settings: Settings
) -> Iterator[Mapping[str, Any]]:
    """Rows as the child prints them; `PeerAbsent` or `BenchError` with the end of its output where
    it gives up."""
    order = {
        "suite": suite,
        "shapes": [str(shape) for shape in shapes],
        "systems": list(systems),
        "settings": dataclasses.asdict(settings),
    }
    command = [sys.executable, "-m", "hexcute_bench.peers.hidet_process", json.dumps(order)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # A session of its own, so that the child's builders end with it.
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    output = child.stdout
    if output is None:
        raise BenchError("the Hidet process has no output")
    talk: list[str] = []
    try:
        for line in output:
            if line.startswith(MARK):
                yield json.loads(line[len(MARK) :])
            else:
                talk = [*talk[-20:], line.strip()]
    finally:
        if child.poll() is None and sys.exc_info()[0] is not None:
            os.killpg(child.pid, signal.SIGTERM)
        code = child.wait()
    if code != 0:
        said = " | ".join(line for line in talk if line)[-400:]
        if code == ABSENT_CODE:
            raise PeerAbsent(said)
        raise BenchError(f"the Hidet process ended with {code}: {said}")
