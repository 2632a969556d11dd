"""A report, the machine code that ran -> why it is no race, or None.

explained = someone looked at this kernel and rule, and the rule holds of the machine code
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from machine import Machine, Unread, read
from proofs import dropped, ended, rule, stores_anywhere, touches

from hexcute_core.toolchain.sass import sass

_ACCESS = re.compile(r"(Read|Write) access at (\S+)\+0x([0-9a-f]+)")
_GONE = re.compile(r"Potential invalid __shared__ (?:write|atomic) of size")
_UNWRITTEN = re.compile(r"Uninitialized __global__ memory read of size")
_AT = re.compile(r"at (\S+)\+0x([0-9a-f]+)")

LOOKED_AT = {
    ("hexcute_gemm", "met"): "thin results: the sums that the consumers leave in shared memory, "
    "and the loads of all threads that store them; __syncthreads() between",
    ("hexcute_thin_fp8_gemm", "met"): "the same sums and loads",
    ("hexcute_thin_fp8_gemm", "told"): "a pipeline's slot: scales that cp.async of every thread of "
    "the producer brings, which arrives by itself; loads of the consumers, whose products are "
    "waited for before a lane of each warp frees the slot",
    ("hexcute_fp8_gemm", "told"): "the same scales and loads, of dense and of grouped products",
    ("hexcute_scan", "told"): "two rings between helpers and the warps that scan: dt, dt u, B and "
    "C one way, y the other; bar.warp.sync, then a lane of each warp arrives",
    ("hexcute_forwarded", "ended"): "a tile pushed into the first block, which waits for all 128 "
    "threads that pushed before it stores the tile and ends",
    ("hexcute_combined", "dropped"): "partial results: a chunk of rows is loaded, and those behind "
    "the last that was made are left out by a select",
    ("hexcute_pushed", "ended"): "half of a product, the same",
    ("hexcute_pushed_by_roles", "ended"): "half of a product, pushed by the consumers; those of "
    "the first block wait for it",
}
"""Kernels and rules that were looked at, with what the accesses are in the source."""


@lru_cache(maxsize=64)
def _code(image: Path) -> Machine | None:
    try:
        return read(sass(image.read_bytes()))
    except Unread:
        return None


def explained(lines: Sequence[str], kernel: str, image: Path) -> str | None:
    """What the accesses of a report are, and the rule that orders them; None where none does.
    `image`: the machine code that the kernel had in this launch."""
    accesses = [(m[1] == "Write", m[2], int(m[3], 16)) for m in map(_ACCESS.search, lines) if m]
    alone = _GONE.match(lines[0]) or _UNWRITTEN.match(lines[0])
    place = _AT.search(" ".join(lines)) if alone else None
    if len(accesses) < 2 and place is None:
        return None
    code, found = _code(image), None
    if code is None:
        return None
    if place is not None:
        at = int(place[2], 16)
        if place[1] == kernel and at in code.ops:
            found = _of_one(code, at, read=_UNWRITTEN.match(lines[0]) is not None)
    elif all(name == kernel and touches(code, at, write) for write, name, at in accesses):
        (_, _, one), *others = accesses
        rules = {rule(code, one, at) for _, _, at in others}
        found = rules.pop() if len(rules) == 1 else None
    if found is None or (kernel, found) not in LOOKED_AT:
        return None
    return f"{found}: {LOOKED_AT[kernel, found]}"


def _of_one(code: Machine, at: int, read: bool) -> str | None:
    """The rule for a report of one access: a load of what nothing wrote, or a store."""
    if read:
        return "dropped" if dropped(code, at) else None
    return "ended" if stores_anywhere(code, at) and ended(code, at) else None
