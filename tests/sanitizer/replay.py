"""`python replay.py FOLDER CLAIMS END [FEW]`: runs recorded launches again, each by itself, until
none is left or the time END has come; under a tool of compute-sanitizer, nothing else runs on the
GPU.

    memory of the recorded sizes, what had been written put back, one launch, wait

A worker takes a launch by making the file CLAIMS/KEY, which one process alone can, and likewise all
of one machine code, since loading that under a tool takes most of the time. The first after an
error of the driver's is the last: the context is broken.

FEW: after the first launch of a machine code with clusters, of others one cluster alone, which is
said. Racecheck reports every store of a thread to another block that has come to its end by then,
three thousand of a launch: showing them takes all the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from gpu import Gpu, GpuError
from launches import ADDRESS_BYTES, Launch, Value, head, of_one_cluster, read

OVER = "over"
"""This file says that no launches will be added to the folder."""
FEW = "few"
FINISHED = "\nno launch is left for this worker"
_PAUSE = 0.3


class Loaded:
    """The machine code of one kernel, as long as launches ask for it."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self._of, self._module, self._function = gpu, ("", ""), 0, 0

    def function(self, folder: Path, launch: Launch) -> int:
        """Raises GpuError."""
        wanted = launch.image, launch.kernel
        if self._of != wanted:
            if self._module:
                self._gpu.unload(self._module)
            image = (folder / f"{launch.image}.cubin").read_bytes()
            self._module, self._function = self._gpu.load(image, launch.kernel)
            self._of = wanted
        return self._function


def replay(gpu: Gpu, function: int, launch: Launch, contents: list[bytes]) -> None:
    """Runs a launch on memory of its own. Raises GpuError."""
    buffers = [gpu.allocate(buffer.size) for buffer in launch.buffers]
    for address, buffer, data in zip(buffers, launch.buffers, contents, strict=True):
        for start in range(0, buffer.size, buffer.period) if buffer.period else ():
            gpu.write(address + start, data[: buffer.size - start])
        at = 0
        for start, end in buffer.written if not buffer.period else ():
            gpu.write(address + start, data[at : at + end - start])
            at += end - start

    def bound(value: Value) -> bytes:
        data = bytes.fromhex(value.data)
        if value.buffer < 0:
            return data
        address = buffers[value.buffer] + value.offset
        if len(data) == ADDRESS_BYTES:
            return address.to_bytes(ADDRESS_BYTES, "little")
        return gpu.moved_map(data, address)

    packed, count = launch.attributes
    attributes = bytes.fromhex(packed), count
    values = [bound(value) for value in launch.values]
    gpu.launch(function, bytes.fromhex(launch.shape), launch.shared, attributes, values)
    gpu.wait()
    for address in buffers:
        gpu.free(address)


def claimed(folder: Path, claims: Path, end: float) -> Iterator[Path]:
    """Launches that no other worker has taken, small ones first, of one machine code together. A
    machine code is one worker's, until there is none left that is nobody's."""
    tried: set[str] = set()
    images: dict[str, str] = {}
    mine: set[str] = set()
    while True:
        over = (folder / OVER).exists()
        found = [path for path in folder.glob("*.launch") if path.name not in tried]
        small: dict[str, list[Path]] = {}
        for path in sorted(found, key=lambda path: path.stat().st_size):
            if path.name not in images:
                images[path.name] = head(path).image
            small.setdefault(images[path.name], []).append(path)
        for helping in (False, True) if over else (False,):
            for image, paths in small.items():
                if not (helping or image in mine or _taken(claims / f"{image}.image")):
                    continue
                mine.add(image)
                for path in paths:
                    if path.name in tried:
                        continue
                    tried.add(path.name)
                    if time.time() > end:
                        return
                    if _taken(claims / path.stem):
                        yield path
        if time.time() > end or (over and not found):
            return
        if not found or not over:
            time.sleep(_PAUSE)


def _taken(claim: Path) -> bool:
    """Whether this call, and none before it, made the file."""
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main() -> int:
    folder, claims, end = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    whole: set[str] | None = set() if FEW in sys.argv[4:] else None
    gpu = Gpu()
    gpu.open()
    loaded = Loaded(gpu)
    for path in claimed(folder, claims, end):
        launch, contents = read(path)
        print(f"\nlaunch {path.stem}", flush=True)
        cut = of_one_cluster(launch)
        if whole is not None and launch.cluster != (1, 1, 1) and cut != launch:
            if launch.image in whole:
                launch = cut
                print(f"\ncut {path.stem}", flush=True)
            whole.add(launch.image)
        try:
            replay(gpu, loaded.function(folder, launch), launch, contents)
        except GpuError as error:
            print(f"\nbroken {path.stem}: {error}", flush=True)
            return 3
        print(f"\nended {path.stem}", flush=True)
    print(FINISHED, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
