"""Launches of which a tool dropped records, once more, so that it drops none.

    initcheck    in machine code without the loads that rule `dropped` of proofs.py explains: what
                 is left has no report
    racecheck    with the blocks of the first cluster alone: hazards are of a block's or a cluster's
                 shared memory, and all blocks together have more than the tool can hold

    FOLDER/again/TOOL    these launches, in the form of FOLDER

The loads are taken out by the predicate that is never true, which stands in four bits of an
instruction; what they would have brought no other instruction than selects uses.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from launches import head, of_one_cluster, read, write
from logs import Outcome
from machine import Machine, Unread
from machine import read as machine
from proofs import dropping

from hexcute_core.toolchain.sass import sass

AGAIN = ("initcheck", "racecheck")
_FULL = ("records have been dropped", "Maximum number of hazards reached")
_NEVER = 0xF000
_INSTRUCTION_BYTES = 16
_SECTION = struct.Struct("<IIQQQQIIQQ")


def full(found: Outcome) -> set[str]:
    """The launches of which records were dropped."""
    return {key for key, lines in found.reports if _is_full(lines)}


def merged(found: Outcome, again: Outcome) -> Outcome:
    """What a tool found in both runs; what ended in the second counts as looked at, but where it
    dropped records once more."""
    kept = [(k, lines) for k, lines in found.reports if not (_is_full(lines) and k in again.ended)]
    return replace(found, reports=kept + again.reports, broken=found.broken | again.broken)


def _is_full(lines: Iterable[str]) -> bool:
    return any(words in line for line in lines for words in _FULL)


def prepare(folder: Path, tool: str, keys: Iterable[str], workers: int = 1) -> Path:
    """A folder with these launches; those that are there stay. A worker takes all of one machine
    code: following its paths takes most of the time."""
    place = folder / "again" / tool
    place.mkdir(parents=True, exist_ok=True)
    of_code: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        if not (place / f"{key}.launch").exists():
            launch = head(folder / f"{key}.launch")
            of_code.setdefault((launch.image, launch.kernel), []).append(key)
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(partial(_prepare, folder, tool, place), of_code.values()))
    (place / "over").touch()
    return place


def _prepare(folder: Path, tool: str, place: Path, keys: Iterable[str]) -> None:
    for key in keys:
        launch, contents = read(folder / f"{key}.launch")
        image = (folder / f"{launch.image}.cubin").read_bytes()
        if tool == "initcheck":
            image = without_dropped(image, launch.kernel)
        else:
            launch = of_one_cluster(launch)
        digest = hashlib.sha256(image).hexdigest()[:32]
        (place / f"{digest}.cubin").write_bytes(image)
        write(place / f"{key}.launch", replace(launch, image=digest), contents)


@lru_cache(maxsize=64)
def without_dropped(image: bytes, kernel: str) -> bytes:
    """A cubin whose kernel never runs the loads whose results it may leave out."""
    try:
        code = machine(sass(image))
    except Unread:
        return image
    return without(image, kernel, dropping(code), code)


def without(image: bytes, kernel: str, offsets: Iterable[int], code: Machine) -> bytes:
    """A cubin whose kernel never runs the instructions at these offsets."""
    start, out = _text(image, kernel), bytearray(image)
    for at in offsets:
        assert at in code.ops and at % _INSTRUCTION_BYTES == 0
        (word,) = struct.unpack_from("<H", out, start + at)
        struct.pack_into("<H", out, start + at, word | _NEVER)
    return bytes(out)


def _text(image: bytes, kernel: str) -> int:
    """Where the kernel's instructions begin in an ELF file of 64 bits."""
    (headers,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<3H", image, 0x3A)
    sections = [_SECTION.unpack_from(image, headers + i * size) for i in range(count)]
    wanted = f".text.{kernel}\0".encode()
    for name, _, _, _, offset, *_ in sections:
        at = sections[names][4] + name
        if image[at : at + len(wanted)] == wanted:
            return int(offset)
    raise ValueError(f"no code of {kernel}")
