"""What each of the processes does that write one key at once: a module they can import by name."""

from __future__ import annotations

import time
from multiprocessing.synchronize import Event

from hexcute_core.driver.cache import Cache, cache_key

KEY = cache_key("kernel", 1)


def write_and_read(root: str, worker: int, rounds: int) -> int:
    """Writes its own payload under one shared key; returns how many reads were not whole."""
    cache, torn = Cache(root), 0
    payload = bytes([worker]) * 200_000
    for _ in range(rounds):
        cache.put(KEY, {"blob": payload}, {"worker": worker})
        entry = cache.get(KEY)
        writer = None if entry is None else entry.meta["worker"]
        whole = entry is not None and entry.files["blob"] == bytes([int(str(writer))]) * 200_000
        torn += not whole
    return torn


def hold(root: str, held: Event) -> None:
    """Takes the lock of the key, tells so, and keeps it until it is killed."""
    with Cache(root).building(KEY):
        held.set()
        time.sleep(3600)
