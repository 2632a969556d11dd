"""A bench whose clock is a script: what each configuration does is part of its name."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexcute_core.errors import TunerError
from hexcute_core.tuner import Task


@dataclass(frozen=True)
class Scripted:
    """Configurations are `{"us": ..., "does": ...}`: their time, and what goes wrong when. Every
    question is written to `log`, with the process that answered it; `pause` slows samples down, and
    times are `slower` by so much on other GPUs than the first."""

    log: str
    pause: float = 0.0
    version: str = "1"
    slower: float = 1.0

    @property
    def task(self) -> Task:
        return Task("scripted", "no gpu", "m=1", self.version)

    def _does(self, method: str, config: dict[str, Any]) -> None:
        with Path(self.log).open("a", encoding="utf-8") as log:
            log.write(f"{method} {config['us']} {config.get('does', '')} {os.getpid()}\n")
        match config.get("does", "").split():
            case ["hang", when] if when == method:
                time.sleep(3600)
            case ["abort", when] if when == method:
                os.abort()
            case ["exit", when] if when == method:
                os._exit(3)
            case ["raise", when] if when == method:
                raise TunerError("so it was written")
            case ["wreck", when] if when == method:
                Path(f"{self.log}.wrecked").write_text(str(os.getpid()))
                raise OSError("an illegal address")
            case ["nothing", when] if when == method:
                raise KeyError(when)
            case ["interrupt", when] if when == method:
                os.kill(os.getppid(), signal.SIGINT)
                time.sleep(0.2)

    def clocks(self, config: dict[str, Any]) -> float:
        self._does("clocks", config)
        return float(config.get("clocks", config["us"]))

    def build(self, config: dict[str, Any]) -> None:
        self._does("build", config)

    def prepare(self, config: dict[str, Any]) -> None:
        self._does("prepare", config)

    def sample(self, config: dict[str, Any]) -> Any:
        self._does("sample", config)
        time.sleep(self.pause)
        if config.get("does") == "words sample":
            return "fast"
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "0")
        return float(config["us"]) * (1.0 if first else self.slower)

    def alive(self) -> bool:
        wrecked = Path(f"{self.log}.wrecked")
        return not wrecked.exists() or wrecked.read_text() != str(os.getpid())
