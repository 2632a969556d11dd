"""A report, the machine code that ran -> why it is no race, or None.

explained = someone looked at this kernel and rule, and the rule holds of the machine code
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from machine import Machine, Unread, read
from proofs import dropped, ended, rule, sent, stores_anywhere, touches

from hexcute_core.toolchain.sass import sass

_ACCESS = re.compile(r"(Read|Write) access at (\S+)\+0x([0-9a-f]+)")
_GONE = re.compile(r"Potential invalid __shared__ (?:write|atomic) of size")
_UNWRITTEN = re.compile(r"Uninitialized __global__ memory read of size")
_AT = re.compile(r"at (\S+)\+0x([0-9a-f]+)")

LOOKED_AT = {
    ("hexcute_gemm", "met"): "thin results: the sums that the consumers leave in shared memory, "
    "and the loads of all threads that store them; __syncthreads() between",
    ("hexcute_gemm", "sent"): "thin results of a split K: sums that the consumers of a block store "
    "to another of the cluster, meet, and of which one thread tells that block; it waits for as "
    "many arrivals as there are other blocks, and a block that does not wait is sent nothing",
    ("hexcute_latent", "told"): "a slot of one: what the second group's sums are multiplied by, "
    "left by the first group and loaded by the second, a lane of each warp of which frees it",
    ("hexcute_thin_fp8_gemm", "met"): "the same sums and loads",
    ("hexcute_thin_fp8_gemm", "told"): "a pipeline's slot: scales that cp.async of every thread of "
    "the producer brings, which arrives by itself; loads of the consumers, whose products are "
    "waited for before a lane of each warp frees the slot",
    ("hexcute_fp8_gemm", "told"): "the same scales and loads, of dense and of grouped products",
    ("hexcute_w4a16", "told"): "a slot's scales of groups, by cp.async of the producer, freed one "
    "slot later; the weights' products are waited for before",
    ("hexcute_scan", "told"): "two rings between helpers and the warps that scan: dt, dt u, B and "
    "C one way, y the other; bar.warp.sync, then a lane of each warp arrives",
    ("hexcute_forwarded", "ended"): "a tile pushed into the first block, which waits for all 128 "
    "threads that pushed before it stores the tile and ends",
    ("hexcute_combined", "dropped"): "partial results: a chunk of rows is loaded, and those behind "
    "the last that was made are left out by a select",
    (
        "hexcute_handing_over",
        "handed",
    ): "a tile that the producer writes and the consumer reads, by "
    "two named barriers of both; the producer waits from its second tile on, and the consumer does "
    "not arrive behind its last",
    ("hexcute_pushed", "ended"): "half of a product, the same",
    ("hexcute_pushed_by_roles", "ended"): "half of a product, pushed by the consumers; those of "
    "the first block wait for it",
}
LOOKED_AT |= {
    (f"hexcute_kernel_{seed}", "told"): "a random program: a slot of a pipeline between two roles, "
    "filled through registers or by cp.async, read into registers, and freed"
    for seed in (20000, 20040, 20060, 20070, 20080, 20110, 20120, 20140, 20190, 20220, 20280)
}
"""Kernels and rules that were looked at, with what the accesses are in the source."""
BY_HAND = Path(__file__).with_name("by_hand.json")


@cache
def _by_hand() -> dict[tuple[str, str, frozenset[int]], str]:
    """Kernel, digest of its instructions, and offsets of the accesses -> why they are in order."""
    rows = json.loads(BY_HAND.read_text(encoding="utf-8"))
    return {
        (row["kernel"], row["code"], frozenset(int(at, 16) for at in row["accesses"])): row["why"]
        for row in rows
    }


@lru_cache(maxsize=64)
def _code(image: Path) -> Machine | None:
    try:
        return read(sass(image.read_bytes()))
    except Unread:
        return None


@dataclass(frozen=True)
class Report:
    """A report's lines, the kernel during whose launch it was made, and its machine code."""

    lines: tuple[str, ...]
    kernel: str
    image: Path


def reasons(reports: Sequence[Report], workers: int) -> list[str | None]:
    """What explains each report. A worker takes all of one machine code: reading it and following
    its paths takes most of the time."""
    of_image: dict[Path, list[int]] = {}
    for number, report in enumerate(reports):
        of_image.setdefault(report.image, []).append(number)
    groups = list(of_image.values())
    whys: list[str | None] = [None] * len(reports)
    with ProcessPoolExecutor(workers) as pool:
        found = pool.map(_each, ([reports[n] for n in group] for group in groups))
        for group, answers in zip(groups, found, strict=True):
            for number, why in zip(group, answers, strict=True):
                whys[number] = why
    return whys


def _each(reports: Sequence[Report]) -> list[str | None]:
    return [explained(report.lines, report.kernel, report.image) for report in reports]


def explained(lines: Sequence[str], kernel: str, image: Path) -> str | None:
    """What the accesses of a report are, and the rule that orders them; None where none does.
    `image`: the machine code that the kernel had in this launch."""
    accesses = [(m[1] == "Write", m[2], int(m[3], 16)) for m in map(_ACCESS.search, lines) if m]
    alone = _GONE.match(lines[0]) or _UNWRITTEN.match(lines[0])
    place = _AT.search(" ".join(lines)) if alone else None
    if place is not None:
        unwritten = _UNWRITTEN.match(lines[0]) is not None
        return _of_one(kernel, image, place[1], int(place[2], 16), unwritten)
    if len(accesses) < 2 or any(name != kernel for _, name, _ in accesses):
        return None
    return _of_several(kernel, image, tuple((write, at) for write, _, at in accesses))


@cache
def _of_several(kernel: str, image: Path, accesses: tuple[tuple[bool, int], ...]) -> str | None:
    """Of a report of one access and others; True are writes."""
    code = _code(image)
    if code is None:
        return None
    seen = _by_hand().get((kernel, code.digest, frozenset(at for _, at in accesses)))
    if seen is not None or not all(_fits(code, at, write) for write, at in accesses):
        return seen
    (_, one), *others = accesses
    rules = {rule(code, one, at) for _, at in others}
    return _said(kernel, rules.pop()) if len(rules) == 1 else None


@cache
def _of_one(kernel: str, image: Path, name: str, at: int, read: bool) -> str | None:
    """Of a report of one access: a load of what nothing wrote, or a store."""
    code = _code(image)
    if code is None or name != kernel or at not in code.ops:
        return None
    if read:
        return _said(kernel, "dropped" if dropped(code, at) else None)
    if not stores_anywhere(code, at):
        return None
    return _said(kernel, "ended" if ended(code, at) else "sent" if sent(code, at) else None)


def _fits(code: Machine, at: int, write: bool) -> bool:
    """Whether the instruction at an offset does what the report says of it."""
    return touches(code, at, write) or (write and stores_anywhere(code, at))


def _said(kernel: str, found: str | None) -> str | None:
    if found is None or (kernel, found) not in LOOKED_AT:
        return None
    return f"{found}: {LOOKED_AT[kernel, found]}"
