"""Entries of the cache that are damaged, or planted: none is loaded, none raises, none hangs."""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from attack.verdict import Hangs, Verdict, limited
from hexcute_core.driver.build import kept
from hexcute_core.driver.built import Built, to_data
from hexcute_core.driver.cache import Cache, cache_key
from hexcute_core.driver.container import Content, pack
from hexcute_core.dtypes import i32
from hexcute_core.scalar import Const

FORM = b"hexcute cache 2\n"
KEY, OTHER = cache_key("asked for"), cache_key("another")
BUILT = Built(
    bytes(range(256)) * 3, "sm_90a", ".version 8.0", "", "//", "entry", 0, 128,
    (Const(1, i32),) * 3, 40, False,
)  # fmt: skip
FILES, META = to_data(BUILT)
GENUINE = pack(FORM, Content(KEY, FILES, META))
EVIL = {**FILES, "cubin": b"other machine code"}

Make = Callable[[random.Random], bytes]


def _sealed(payload: bytes) -> bytes:
    return FORM + hashlib.sha256(payload).digest() + payload


def _flipped(rng: random.Random) -> bytes:
    raw = bytearray(GENUINE)
    for _ in range(rng.choice((1, 1, 2, 20))):
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(raw) if bytes(raw) != GENUINE else GENUINE[:-1]


def _header(rng: random.Random) -> bytes:
    """A right digest over a header in which one thing is not as it was written."""
    value = rng.choice([None, -1, 2**70, {}, [[]], [["cubin", 10**9]], 0.5])
    sizes = [[name, len(blob)] for name, blob in FILES.items()]
    fields = {"purpose": KEY, "files": sizes, "meta": dict(META)}
    changed = rng.choice([fields, fields, fields["meta"]])
    changed[rng.choice(list(changed))] = value
    header = json.dumps(fields).encode()
    return _sealed(len(header).to_bytes(8, "big") + header + b"".join(FILES.values()))


BYTES: dict[str, Make] = {
    "truncated": lambda rng: GENUINE[: rng.randrange(len(GENUINE))],
    "longer": lambda rng: GENUINE + rng.randbytes(rng.randrange(1, 99)),
    "bits flipped": _flipped,
    "random bytes": lambda rng: rng.randbytes(rng.randrange(4000)),
    "a part replaced": lambda rng: GENUINE[:100] + rng.randbytes(40) + GENUINE[140:],
    "header changed, sealed": _header,
    "random, sealed": lambda rng: _sealed(rng.randbytes(rng.randrange(200))),
    "deep JSON, sealed": lambda rng: _sealed(
        (10**5).to_bytes(8, "big") + rng.choice([b"[", b'{"a":']) * 10**5
    ),
    "length wrong, sealed": lambda rng: _sealed(rng.randrange(2**63, 2**64).to_bytes(8, "big")),
    "of another key": lambda _: pack(FORM, Content(OTHER, EVIL, META)),
    "of another form": lambda rng: pack(
        rng.choice([b"hexcute cache 1\n", b"hexcute cache 3\n", b"hexcute kernel 1\n"]),
        Content(KEY, EVIL, META),
    ),
}


def _planted(path: Path, rng: random.Random, kind: str) -> None:
    """Genuine in form and key, but not ours: written or writable by others, or not a file."""
    evil = pack(FORM, Content(KEY, EVIL, META))
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path, 0o600)
        return
    if kind == "a folder":
        path.mkdir(0o700)
        return
    if kind == "a link":
        elsewhere = path.with_suffix(f".{rng.randrange(10**6)}")
        elsewhere.write_bytes(evil)
        elsewhere.chmod(0o600)
        path.symlink_to(elsewhere if rng.random() < 0.8 else path)
        return
    path.write_bytes(evil)
    place = {"file": path, "folder": path.parent, "root": path.parent.parent}[kind.split()[0]]
    usual = 0o600 if place == path else 0o700
    place.chmod(usual | rng.choice((0o20, 0o02, 0o22)))


PLACES = (
    "a pipe", "a folder", "a link", "file that others can write", "folder that others can write",
    "root that others can write",
)  # fmt: skip


def _owned_by_others(folder: Path, level: int) -> Callable[[int], os.stat_result]:
    """`os.fstat` as it would answer if a folder or file were another user's."""
    names = (folder, folder / KEY[:2], folder / KEY[:2] / f"{KEY[2:]}.entry")
    theirs, true = names[level].stat().st_ino, os.fstat

    def fstat(handle: int) -> os.stat_result:
        fields = list(true(handle))
        fields[4] += fields[1] == theirs
        return os.stat_result(fields)

    return fstat


def _end(cache: Cache) -> tuple[str, bool]:
    """What a process that asks for the key gets, and whether it gets its own entry afterwards."""
    try:
        with limited(10):
            found = kept(cache, KEY)
    except Hangs:
        return "hangs", False
    except Exception as error:
        return f"raises {type(error).__name__}", False
    if found is None:
        return "absent", True
    return ("genuine", False) if found == BUILT else ("loaded wrongly", False)


def attack(count: int) -> Iterator[Verdict]:
    """So many entries, of all kinds in turn."""
    kinds = [*BYTES, *PLACES, "another user's"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(count):
            rng, kind = random.Random(seed), kinds[seed % len(kinds)]
            with tempfile.TemporaryDirectory() as place:
                root = Path(place) / "cache"
                cache = Cache(root)
                cache.put(KEY, FILES, META)
                true = os.fstat
                if kind in BYTES:
                    cache.path(KEY).write_bytes(BYTES[kind](rng))
                elif kind == "another user's":
                    os.fstat = _owned_by_others(root, rng.randrange(3))
                else:
                    _planted(cache.path(KEY), rng, kind)
                try:
                    end, good = _end(cache)
                finally:
                    os.fstat = true
            yield Verdict("cache", kind, end, good, f"seed {seed}")
