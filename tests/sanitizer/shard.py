"""A plugin of pytest that keeps a part of the tests: those of shard K of N, as SHARD=K/N says, but
for those that the file DONE names.

    sorted by name, shuffled with one seed, every N-th from the K-th on

so that shards take about as long as each other, and together are all tests. What kernels each test
launched is noted in the folder IMAGES: `launches.K` has test, kernel and digest, `<digest>.cubin`
the machine code.
"""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import Any

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


class Notes:
    """Stands before a driver's `load` and `launch`, and writes down which test launched what."""

    def __init__(self, driver: Any, folder: Path, shard: str) -> None:
        self.test = ""
        self._folder, self._file = folder, folder / f"launches.{shard}"
        self._load, self._launch = driver.load, driver.launch
        self._loaded: dict[int, tuple[str, str]] = {}
        self._noted: set[tuple[str, str, str]] = set()
        driver.load, driver.launch = self.load, self.launch

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    def load(self, image: bytes, name: str) -> int:
        digest = hashlib.sha256(image).hexdigest()[:32]
        (self._folder / f"{digest}.cubin").write_bytes(image)
        function: int = self._load(image, name)
        self._loaded[function] = name, digest
        return function

    def launch(self, config: Any, function: Any, *rest: Any) -> int:
        loaded = self._loaded.get(getattr(function, "value", function))
        if loaded is not None and (note := (self.test, *loaded)) not in self._noted:
            self._noted.add(note)
            with self._file.open("a", encoding="utf-8") as file:
                file.write("\t".join(note) + "\n")
        status: int = self._launch(config, function, *rest)
        return status


def pytest_configure(config: pytest.Config) -> None:
    from hexcute_core.runtime.cuda_driver import cuda_driver

    folder, shard = Path(os.environ["IMAGES"]), os.environ["SHARD"].split("/")[0]
    config.pluginmanager.register(Notes(cuda_driver(), folder, shard))
