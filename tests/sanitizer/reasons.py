"""A report, the images its test launched -> why it is no race, or None.

    explained = someone looked at this kernel and rule, and the rule holds of the machine code

Where a test launched several kernels of a name, the offsets say which may be meant: those that have
such accesses there. The rule has to hold of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from machine import Machine, Unread, read
from proofs import ended, rule, stores_anywhere, touches

from hexcute_core.toolchain.sass import sass

_ACCESS = re.compile(r"(Read|Write) access at (\S+)\+0x([0-9a-f]+)")
_GONE = re.compile(r"Potential invalid __shared__ (?:write|atomic) of size")
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
    ("hexcute_pushed", "ended"): "half of a product, the same",
    ("hexcute_pushed_by_roles", "ended"): "half of a product, pushed by the consumers; those of "
    "the first block wait for it",
}
"""Kernels and rules that were looked at, with what the accesses are in the source."""


@dataclass(frozen=True)
class Launched:
    """Where machine code is kept, and which images each test launched: (test, kernel)."""

    folder: Path
    images: dict[tuple[str, str], frozenset[str]]

    def codes(self, test: str, kernel: str) -> Iterator[Machine | None]:
        """The machine code of each, None where it cannot be followed."""
        for digest in sorted(self.images.get((test, kernel), ())):
            yield _code(self.folder / f"{digest}.cubin")


def launched(folder: Path) -> Launched:
    """What the plugin noted in a folder."""
    images: dict[tuple[str, str], set[str]] = {}
    for notes in sorted(folder.glob("launches.*")):
        for line in notes.read_text(encoding="utf-8").splitlines():
            test, kernel, digest = line.split("\t")
            images.setdefault((test, kernel), set()).add(digest)
    return Launched(folder, {key: frozenset(found) for key, found in images.items()})


@lru_cache(maxsize=64)
def _code(image: Path) -> Machine | None:
    try:
        return read(sass(image.read_bytes()))
    except Unread:
        return None


def explained(test: str, lines: Sequence[str], known: Launched) -> str | None:
    """What the accesses of a report are, and the rule that orders them; None where none does."""
    first, *rest = lines
    if found := _ACCESS.search(first):
        kernel, one = found[2], (found[1] == "Write", int(found[3], 16))
        others = [(m[1] == "Write", int(m[3], 16)) for m in map(_ACCESS.search, rest) if m]
        rules = {
            rule(code, one[1], at) if code is not None else None
            for code in known.codes(test, kernel)
            if code is None or all(touches(code, at, write) for write, at in (one, *others))
            for _, at in others
        }
    elif _GONE.match(first) and (place := _AT.search(" ".join(rest))):
        kernel, at = place[1], int(place[2], 16)
        rules = {
            "ended" if code is not None and ended(code, at) else None
            for code in known.codes(test, kernel)
            if code is None or stores_anywhere(code, at)
        }
    else:
        return None
    if not rules or None in rules or not all((kernel, r) in LOOKED_AT for r in rules):
        return None
    return "; ".join(sorted(f"{r}: {LOOKED_AT[kernel, r]}" for r in rules if r is not None))
