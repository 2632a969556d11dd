"""`cache`: what is kept on disk of kernels that were compiled, and how it is removed."""

from __future__ import annotations

import argparse
import json

from hexcute_core.commands.command import Command, Tell
from hexcute_core.driver import eviction
from hexcute_core.driver.cache import Cache


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="remove all entries")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def _cache(options: argparse.Namespace, tell: Tell) -> int:
    cache = Cache()
    if cache.root is None:
        told: dict[str, object] = {"folder": None}
        text = "no home folder: nothing is kept; set HEXCUTE_CACHE_DIR to a folder of your own"
    elif options.clear:
        removed = eviction.clear(cache.root)
        told = {"folder": str(cache.root), "removed": removed}
        text = f"{cache.root}: {removed} entries removed"
    else:
        entries = eviction.kept(cache.root)
        taken = sum(entry.bytes for entry in entries)
        told = {
            "folder": str(cache.root), "entries": len(entries), "bytes": taken,
            "limit": cache.limit,
        }  # fmt: skip
        text = f"{cache.root}: {len(entries)} entries, {taken} of {cache.limit} bytes"
    tell(json.dumps(told) if options.json else text)
    return 0


CACHE = Command(
    "cache", "Show the folder of compiled kernels, how many there are and their limit, or "
    "clear it.", _options, _cache,
)  # fmt: skip
