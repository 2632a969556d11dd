"""A plugin of pytest that keeps a part of the tests: those of shard K of N, as SHARD=K/N says, but
for those that the file DONE names.

    sorted by name, shuffled with one seed, every N-th from the K-th on

so that shards take about as long as each other, and together are all tests.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

# Times of the host say nothing under a tool.
TIMED = "host_time"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    shard, count = map(int, os.environ["SHARD"].split("/"))
    done = set(Path(os.environ["DONE"]).read_text().splitlines())
    wanted = (i for i in items if TIMED not in i.nodeid and i.nodeid not in done)
    tests = sorted(wanted, key=lambda item: item.nodeid)
    random.Random(0).shuffle(tests)
    items[:] = tests[shard::count]
