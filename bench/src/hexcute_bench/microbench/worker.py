"""One process that measures: images come pickled in a file, each result goes out as a line of JSON.

A kernel that hangs hangs this process alone, which its parent ends.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from hexcute_bench.errors import BenchError
from hexcute_bench.microbench.device import Device
from hexcute_bench.microbench.fit import line
from hexcute_bench.microbench.probe import Probe
from hexcute_core.runtime import KernelImage

Job = tuple[str, str, Probe, KernelImage]
"""Row name, quantity, probe, image."""
CLOCK = "clock"


def measure(device: Device, job: Job) -> dict[str, Any]:
    """One result: clocks per call, or the error."""
    name, quantity, probe, image = job
    told: dict[str, Any] = {"name": name, "quantity": quantity}
    if quantity == CLOCK:
        return {**told, "clocks": device.clock_mhz(image), "error": 0.0}
    samples = device.samples(probe, image)
    try:
        found = line(samples)
    except BenchError as error:
        return {**told, "failed": str(error)}
    return {**told, "clocks": found.slope / probe.calls, "error": found.error}


def main(path: Path) -> None:
    """Measures every job of the file in order; a line "ready" once the GPU is."""
    jobs: list[Job] = pickle.loads(path.read_bytes())
    device = Device()
    sys.stdout.write(json.dumps({"ready": True}) + "\n")
    sys.stdout.flush()
    for job in jobs:
        sys.stdout.write(json.dumps(measure(device, job)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
